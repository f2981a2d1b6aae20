"""The timers that sessions share."""

import asyncio
from collections.abc import Callable
from functools import partial

import pytest

from wfcore.runtime.execution.time_slice import ExecutionTime, MomentTimer, SharedTimers
from wfcore.testing.fakes import FakeClock

pytestmark = pytest.mark.anyio

DAY = 86_400.0


def timers(clock: FakeClock) -> int:
    """How many timers of the clock are set."""
    return sum(not awake.done() for _, _, awake in clock._sleepers)


async def advance(clock: FakeClock, seconds: float) -> None:
    """Advance the clock, and let the callbacks that are due run."""
    clock.advance(seconds)
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def test_far_moments_of_one_hour_share_a_timer() -> None:
    clock = FakeClock()
    shared = SharedTimers(clock)
    cancels = [shared.call_later(DAY + second, partial(int, second)) for second in range(100)]
    assert timers(clock) == 1
    for cancel in cancels:
        cancel()
    shared.call_later(DAY + 3_600, int)
    assert timers(clock) == 2


async def test_a_closed_core_leaves_no_timer() -> None:
    """The loop of its host would keep it until that hour."""
    clock, called = FakeClock(), list[str]()
    shared = SharedTimers(clock)
    for day in range(1, 4):
        shared.call_later(day * DAY, partial(called.append, "a moment"))
    shared.close()
    assert timers(clock) == 0
    await advance(clock, 4 * DAY)
    assert not called


async def test_near_moments_have_timers_of_their_own() -> None:
    clock, called = FakeClock(), list[str]()
    shared = SharedTimers(clock)
    shared.call_later(3_599.9, partial(called.append, "near"))
    cancel = shared.call_later(60, partial(called.append, "cancelled"))
    assert timers(clock) == 2
    cancel()
    await advance(clock, 3_600)
    assert called == ["near"]


async def test_a_far_callback_is_called_unless_it_was_cancelled() -> None:
    clock, called = FakeClock(), list[str]()
    shared = SharedTimers(clock)
    shared.call_later(DAY, partial(called.append, "first"))
    shared.call_later(DAY, partial(called.append, "cancelled"))()
    await advance(clock, DAY)
    assert called == ["first"]
    shared.call_later(DAY, partial(called.append, "second"))
    await advance(clock, DAY)
    assert called == ["first", "second"]


async def test_a_callback_can_cancel_another_of_its_hour() -> None:
    clock, called = FakeClock(), list[str]()
    shared = SharedTimers(clock)
    cancels = dict[str, Callable[[], object]]()

    def call(name: str, other: str) -> None:
        called.append(name)
        cancels[other]()

    cancels["one"] = shared.call_later(DAY, partial(call, "one", "other"))
    cancels["other"] = shared.call_later(DAY, partial(call, "other", "one"))
    await advance(clock, DAY)
    assert len(called) == 1


async def test_a_far_moment_is_called_at_its_time_and_not_before() -> None:
    clock, called = FakeClock(), list[int]()
    time = ExecutionTime(clock, clock.now())
    moment = clock.now() + 30 * 86_400_000
    timer = MomentTimer(SharedTimers(clock), time)
    timer.set(moment, lambda: called.append(clock.now()))
    for seconds in (29 * DAY, DAY - 1_800, 1_799):  # the shared timer calls up to an hour earlier
        await advance(clock, seconds)
        assert timer.is_set
    assert not called
    await advance(clock, 1)
    assert called == [moment]
    assert not timer.is_set
