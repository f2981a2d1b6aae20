"""The effects of one execution that are under way in this process."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any

from wfcore.domain.run.effects import Address, CallTool, Effect
from wfcore.domain.run.entries import Failed, Sent
from wfcore.ports.providers import Tools
from wfcore.runtime.outcomes import sent, unknown
from wfcore.runtime.served_tools import is_served

Key = tuple[Address, int]
"""Address and attempt."""


def key_of(effect: Effect) -> Key:
    return effect.address, effect.attempt


class Flights:
    """One task for each effect.

    A call of a tool that is not idempotent is announced in the journal before it is made. One that was announced and
    is pending, although it is not under way here, was broken off: with a worker that ended, or by this session.
    """

    def __init__(self, perform: Callable[[Effect], Coroutine[Any, Any, None]], tools: Tools) -> None:
        self._perform = perform
        self._tools = tools
        self._tasks: dict[Key, asyncio.Task[None]] = {}
        self._announced: set[Key] = set()
        self._harmless: set[str] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def startable(self, pending: Mapping[Address, Effect], now: int) -> list[Effect]:
        """Those that are due and not under way."""
        return [effect for effect in pending.values() if effect.not_before <= now and key_of(effect) not in self._tasks]

    def announcements(self, pending: Mapping[Address, Effect], now: int) -> list[Sent | Failed]:
        """What has to be durable before the effects that are due may begin."""
        found: list[Sent | Failed] = []
        for effect in pending.values():
            if not isinstance(effect, CallTool) or effect.not_before > now:
                continue
            if effect.sent:
                if key_of(effect) not in self._announced:
                    found.append(unknown(effect, now))
            elif effect.tool not in self._harmless and self._is_called_once(effect.tool):
                self._announced.add(key_of(effect))
                found.append(sent(effect, now))
        return found

    def _is_called_once(self, tool_id: str) -> bool:
        """Whether no call of this tool may be made twice; asked once for each tool."""
        tool = self._tools.get(tool_id)
        if not is_served(tool_id) and (tool is None or tool.idempotent):
            self._harmless.add(tool_id)
            return False
        return True

    def launch(self, effect: Effect) -> None:
        self._tasks[key_of(effect)] = asyncio.get_running_loop().create_task(self._perform(effect))

    def ended(self, effect: Effect) -> None:
        """An effect that was not launched is under way no more: it has an outcome, or was broken off."""
        self._announced.discard(key_of(effect))

    async def stop_others(self, mine: Key) -> None:
        """Stop all but one, and wait until they have stopped."""
        await _stop(task for key, task in self._tasks.items() if key != mine)

    def forget_finished(self, pending: Mapping[Address, Effect]) -> None:
        """Effects that are pending no more have had their outcome, or were given up: stop those still running.

        One that is done and pending has its outcome among those still to be taken.
        """
        for key, task in list(self._tasks.items()):
            effect = pending.get(key[0])
            if task.cancelled() or effect is None or effect.attempt != key[1]:
                task.cancel()
                del self._tasks[key]
                self._announced.discard(key)

    async def abandon(self) -> None:
        """Stop all of them."""
        await _stop(self._tasks.values())
        self._tasks.clear()


async def _stop(tasks: Iterable[asyncio.Task[None]]) -> None:
    stopped = list(tasks)
    for task in stopped:
        task.cancel()
    await asyncio.gather(*stopped, return_exceptions=True)
