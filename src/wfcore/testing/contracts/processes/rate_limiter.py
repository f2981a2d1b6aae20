"""The contract of rate limiters (`wfcore.ports.system`).

Subclass `RateLimiterContract` and write `open_limiters`: the limiter as each of several processes has it.
"""

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from random import Random

import pytest

from wfcore.ports.system import Rate, RateLimiter
from wfcore.testing.on_asyncio import OnAsyncio

ORG, OTHER = "one", "two"
SECOND = 1000
MINUTE = 60 * SECOND


class Watch:
    """A clock in milliseconds that a test moves."""

    def __init__(self) -> None:
        self.now = 1_767_268_800_000

    def __call__(self) -> int:
        return self.now


async def is_admitted(limiter: RateLimiter, *rates: Rate) -> bool:
    return not any(await limiter.admit(rates))


class RateLimiterContract(OnAsyncio):
    """Inherit, name the class `Test...`, and write `open_limiters`."""

    @abstractmethod
    def open_limiters(self, place: Path, now: Callable[[], int]) -> AbstractAsyncContextManager[Sequence[RateLimiter]]:
        """At least one limiter on empty counts, with `now` as the clock. `place` is an empty directory."""

    @pytest.fixture
    def watch(self) -> Watch:
        return Watch()

    @pytest.fixture
    async def limiters(self, watch: Watch, tmp_path: Path, anyio_backend: str) -> AsyncIterator[Sequence[RateLimiter]]:
        async with self.open_limiters(tmp_path, watch) as limiters:
            yield limiters

    async def test_events_above_the_rate_are_refused(self, limiters: Sequence[RateLimiter], watch: Watch) -> None:
        """The wait is that of the oldest event, at most a second more; after it, one event is admitted."""
        limiter, rate = limiters[0], Rate(ORG, 2)
        assert list(await limiter.admit([rate])) == [0]
        watch.now += 10 * SECOND
        assert list(await limiter.admit([rate])) == [0]
        (wait,) = await limiter.admit([rate])
        assert 50 * SECOND <= wait <= 51 * SECOND
        watch.now += 50 * SECOND - 1
        assert not await is_admitted(limiter, rate)
        watch.now += wait - 50 * SECOND + 1
        assert [await is_admitted(limiter, rate) for _ in range(2)] == [True, False]

    async def test_a_refused_event_does_not_count(self, limiters: Sequence[RateLimiter], watch: Watch) -> None:
        """However often events are refused, the wait becomes no longer."""
        limiter, rate = limiters[0], Rate(ORG, 1)
        await limiter.admit([rate])
        (wait,) = await limiter.admit([rate])
        for _ in range(5):
            watch.now += 2 * SECOND
            await limiter.admit([rate])
        watch.now += wait - 10 * SECOND
        assert await is_admitted(limiter, rate)

    async def test_all_keys_or_none(self, limiters: Sequence[RateLimiter]) -> None:
        """An event that one key refuses counts for no other; the waits show which."""
        limiter, few, many = limiters[0], Rate(f"{ORG}:few", 1), Rate(f"{ORG}:many", 2)
        assert list(await limiter.admit([few, many])) == [0, 0]
        for rates in ([few, many], [many, few]) * 3:
            waits = dict(zip(rates, await limiter.admit(rates), strict=True))
            assert waits[few] > 0 == waits[many]
        assert await is_admitted(limiter, many)
        assert all(await limiter.admit([many, few]))

    async def test_keys_are_separate(self, limiters: Sequence[RateLimiter]) -> None:
        """An event of one key does not count for another one."""
        for key in (ORG, OTHER, f"{ORG}:x"):
            assert [await is_admitted(limiters[0], Rate(key, 1)) for _ in range(2)] == [True, False]

    @pytest.mark.parametrize("seconds", [1, 60, 86_400])
    async def test_no_time_has_more(self, limiters: Sequence[RateLimiter], watch: Watch, seconds: int) -> None:
        """At any pace, and an event is admitted once the wait of the last refusal is over."""
        random, admitted, free_at = Random(1), list[int](), 0  # noqa: S311  (a test)
        for number in range(80):
            watch.now += round(random.choice((0, 1, 5, 16, 17, 100, 517)) * seconds)
            (wait,) = await limiters[number % len(limiters)].admit([Rate(ORG, 3, seconds)])
            assert not (wait and free_at and watch.now >= free_at)
            free_at = watch.now + wait if wait else 0
            if not wait:
                admitted.append(watch.now)
                assert len([at for at in admitted if at > watch.now - seconds * SECOND]) <= 3
        assert len(admitted) > 20

    async def test_processes_share_the_counts(self, limiters: Sequence[RateLimiter]) -> None:
        """Of many events at the same time, exactly as many as allowed are admitted."""
        rates = [Rate(f"{ORG}:user", 50), Rate(ORG, 7)]
        calls = [limiters[number % len(limiters)].admit(rates) for number in range(30)]
        waits = [tuple(found) for found in await asyncio.gather(*calls)]
        assert waits.count((0, 0)) == 7
        assert all(own == 0 < shared for own, shared in set(waits) - {(0, 0)})

    async def test_a_flood_of_one_leaves_others_alone(self, limiters: Sequence[RateLimiter]) -> None:
        """Beside refused events of one organization, all of another one are admitted."""
        flood = [limiters[number % len(limiters)].admit([Rate(ORG, 2)]) for number in range(40)]
        calls = [limiters[number % len(limiters)].admit([Rate(OTHER, 5)]) for number in range(5)]
        waits = [wait for (wait,) in await asyncio.gather(*flood, *calls)]
        assert (waits[:40].count(0), waits[40:]) == (2, [0] * 5)

    async def test_counts_are_dropped(self, limiters: Sequence[RateLimiter], watch: Watch) -> None:
        """After a minute without events the whole rate is available again."""
        for _ in range(2):
            found = [await is_admitted(limiters[0], Rate(ORG, 4)) for _ in range(5)]
            assert found == [True] * 4 + [False]
            watch.now += MINUTE + SECOND
