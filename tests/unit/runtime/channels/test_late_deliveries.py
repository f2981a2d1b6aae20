"""Deliveries after a process whose clock was ahead, or is set back: none waits for the time of that clock."""

from collections.abc import AsyncIterator

import pytest
from bench import Bench, act, one, opened
from chatting import REACHING, Chat, looked, opened_channel, serving
from hooking import delivered, hooked
from scheduling import DAY

from wfcore.domain.channels.hooks import FIRST_WAIT
from wfcore.runtime.channels.delivery_loop import CHECKED, CLAIM_DURATION
from wfcore.runtime.common.handlers import HookEvent
from wfcore.runtime.common.polling import CHECK_INTERVAL
from wfcore.testing.fakes import NOON, FakeClock

pytestmark = pytest.mark.anyio

ECHO = one(act("echo", value=1))
YEAR = 365 * DAY


@pytest.fixture
async def chat() -> AsyncIterator[Chat]:
    async with serving() as made:
        yield made


def ahead() -> FakeClock:
    return FakeClock(NOON + YEAR * 1_000)


async def attempted(bench: Bench) -> int:
    """Deliver what is due at a first poll, and at one after the first interval."""
    first = await delivered(bench)
    bench.clock.advance(FIRST_WAIT / 1_000)
    return first + await delivered(bench)


class TestEvents:
    """Hooks and handlers."""

    async def test_a_new_event(self, database: str, chat: Chat) -> None:
        """It is delivered at once by a process that runs beside, and shows when it is due."""
        async with opened(database, settings=REACHING) as bench:
            hook = await hooked(bench, chat)
            assert await delivered(bench) == 0
            async with opened(database, org=bench.org, clock=ahead(), settings=REACHING) as other:
                await other.ran(ECHO)
            (view,) = await bench.core.hooks.deliveries(bench.me, hook.id)
            assert view.to_wire()["nextAttemptAt"] == view.to_wire()["createdAt"]
            assert await delivered(bench) == 1

    async def test_a_redelivery(self, database: str, chat: Chat) -> None:
        """A process whose clock is ahead asks for it; another one makes it at once."""
        async with opened(database, settings=REACHING) as bench:
            hook = await hooked(bench, chat)
            await bench.ran(ECHO)
            assert await delivered(bench) == 1
            async with opened(database, org=bench.org, clock=ahead(), settings=REACHING) as other:
                (view,) = await other.core.hooks.deliveries(other.me, hook.id)
                await other.core.hooks.redeliver(other.me, hook.id, view.id)
            assert await delivered(bench) == 1

    @pytest.mark.parametrize("many", [1, CHECKED + 1])
    async def test_a_restart(self, database: str, chat: Chat, many: int) -> None:
        """What failed is attempted again after the usual interval, also if there is much of it."""
        chat.status = 500
        async with opened(database, clock=ahead(), settings=REACHING) as bench:
            for _ in range(many):
                await hooked(bench, chat, events=["run.finished"])
            await bench.ran(ECHO)
            while await delivered(bench):
                pass
            org = bench.org
        chat.status = 200
        async with opened(database, org=org, settings=REACHING) as bench:
            await delivered(bench)
            assert await attempted(bench) > 0
            while await delivered(bench):
                pass
            assert len(chat.names) == 2 * many
            assert len(set(chat.names)) == many

    async def test_a_process_that_ran_beside(self, database: str, chat: Chat) -> None:
        """It made an attempt that failed, and ended: the other one repeats it within an hour."""
        async with opened(database, settings=REACHING) as bench:
            hook = await hooked(bench, chat)
            assert await delivered(bench) == 0
            chat.status = 500
            async with opened(database, org=bench.org, clock=ahead(), settings=REACHING) as other:
                await other.ran(ECHO)
                while await delivered(other):
                    pass
            chat.status = 200
            bench.clock.advance(CHECK_INTERVAL / 1_000)
            await attempted(bench)
            (view,) = await bench.core.hooks.deliveries(bench.me, hook.id)
            assert view.to_wire()["status"] == "delivered"

    async def test_a_clock_that_is_set_back(self, database: str, chat: Chat) -> None:
        """The process that waits for the next attempt makes it after the usual interval."""
        chat.status = 500
        async with opened(database, settings=REACHING) as bench:
            await hooked(bench, chat)
            await bench.ran(ECHO)
            assert await delivered(bench) == 1
            bench.clock.step(-DAY)
            assert await attempted(bench) == 1

    async def test_a_process_that_died_in_an_attempt(self, database: str, chat: Chat) -> None:
        """Its claim lasts as long as any other."""
        async with opened(database, clock=ahead(), settings=REACHING, worker=False) as bench:
            await hooked(bench, chat)
            run = await bench.started(ECHO)
            async with opened(database, org=bench.org, settings=REACHING) as other:
                await other.ended(run)
            (due,) = await bench.core.ports.storage.due_deliveries(bench.clock.now(), limit=9)
            assert await bench.core.notifier._claim(due) is not None
            org = bench.org
        async with opened(database, org=org, settings=REACHING) as bench:
            for _ in range(2):  # until the claim is due, and then until it has not changed for as long
                await delivered(bench)
                bench.clock.advance(CLAIM_DURATION / 1_000)
            assert chat.posted == []
            assert await delivered(bench) == 1
            assert len(chat.posted) == 1

    async def test_a_handler_that_is_registered_after_the_first_poll(self, database: str) -> None:
        """Its events are checked too."""
        got: list[HookEvent] = []

        def fail(event: HookEvent) -> None:
            raise ValueError(event.id)

        async with opened(database, clock=ahead()) as bench:
            bench.core.on("run.finished", fail, name="mail")
            await bench.ran(ECHO)
            assert await delivered(bench) == 1
            org = bench.org
        async with opened(database, org=org) as bench:
            assert await delivered(bench) == 0
            bench.core.on("run.finished", got.append, name="mail")
            assert await delivered(bench) == 0
            assert await attempted(bench) == 1
        assert len(got) == 1

    async def test_what_waits_as_usual(self, database: str, chat: Chat) -> None:
        """A restart with a right clock changes no time."""
        chat.status = 500
        async with opened(database, settings=REACHING) as bench:
            hook = await hooked(bench, chat)
            await bench.ran(ECHO)
            assert await delivered(bench) == 1
            org, (before,) = bench.org, await bench.core.hooks.deliveries(bench.me, hook.id)
        async with opened(database, org=org, settings=REACHING, clock=FakeClock(NOON + 1_000)) as bench:
            assert await delivered(bench) == 0
            assert await bench.core.hooks.deliveries(bench.me, hook.id) == [before]


class TestTeamChats:
    """Responses to team chats."""

    async def test_a_restart(self, database: str, chat: Chat) -> None:
        """A response that was not accepted is posted again after the usual interval."""
        chat.status = 500
        async with opened(database, clock=ahead(), settings=REACHING) as bench:
            await (await opened_channel(bench, url=chat.url)).rested()
            assert await looked(bench) == 1
            org = bench.org
        chat.status = 200
        async with opened(database, org=org, settings=REACHING) as bench:
            assert await looked(bench) == 0
            bench.clock.advance(FIRST_WAIT / 1_000)
            assert await looked(bench) == 1
            assert len(set(chat.names)) == 1
