"""A hook for a bench, and the delivery of what is due."""

import asyncio
from typing import Any

from bench import Bench
from chatting import Chat

from wfcore.domain.channels.hooks import Hook
from wfcore.domain.kernel.json_type import JSON

ALL: Any = [
    "interrupt.opened",
    "interrupt.reminded",
    "interrupt.resolved",
    "run.finished",
    "run.failed",
    "schedule.paused",
]


async def hooked(bench: Bench, chat: Chat, by: Any = None, **fields: Any) -> Hook:
    """A hook of every event, to the address of the test's server."""
    return await bench.core.hooks.create(by or bench.me, **{"url": chat.url, "events": ALL, **fields})


async def delivered(bench: Bench) -> int:
    """Deliver what is due now; returns how many there were."""
    notifier = bench.core.notifier
    await notifier.poll()
    begun = list(notifier._under_way.values())
    await asyncio.gather(*begun)
    return len(begun)


def messages(chat: Chat) -> list[tuple[str, dict[str, JSON]]]:
    """The type and the data of every message that was received, in order."""
    return [(body["type"], body["data"]) for body in chat.bodies]
