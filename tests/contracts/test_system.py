"""The contracts of clock and ids, for the real ones and the fakes."""

import asyncio

import pytest

from wfcore.adapters.system import RandomIds, ServerClock, SystemClock
from wfcore.ports.system import Clock, Ids
from wfcore.testing.contracts.system import ClockContract, IdsContract
from wfcore.testing.fakes import FakeClock, SequentialIds


class TestSystemClock(ClockContract):
    def make_clock(self) -> Clock:
        return SystemClock()


class TestServerClock(ClockContract):
    def make_clock(self) -> Clock:
        async def read() -> int:
            return SystemClock().now()

        return ServerClock(read)


class TestFakeClock(ClockContract):
    def make_clock(self) -> Clock:
        return FakeClock()


@pytest.mark.anyio
async def test_a_step_moves_the_wall_time_only() -> None:
    """The fake clock's sleepers wait by monotonic time, whatever steps the wall time makes."""
    clock, woken = FakeClock(), list[int]()
    clock.call_later(2, lambda: woken.append(clock.monotonic()))
    for seconds in (3_600, -7_200):
        clock.step(seconds)
        await asyncio.sleep(0)
    assert (woken, clock.monotonic(), clock.now() - FakeClock().now()) == ([], 0, -3_600_000)
    clock.advance(2)
    await asyncio.sleep(0)
    assert (woken, clock.now() - FakeClock().now()) == ([2_000], -3_598_000)


class TestRandomIds(IdsContract):
    def make_ids(self) -> Ids:
        return RandomIds()


class TestSequentialIds(IdsContract):
    def make_ids(self) -> Ids:
        return SequentialIds()
