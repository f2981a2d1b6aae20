"""Admission: requests of one organization do not delay those of another one."""

import asyncio
from collections import Counter

import pytest

from wfcore.adapters.http.core import admission as module
from wfcore.adapters.http.core.admission import (
    COUNTED_SECONDS,
    PASSES,
    PRESENT_SECONDS,
    RETURN_SECONDS,
    SHARE,
    SHARE_ALONE,
    Admission,
)
from wfcore.domain.kernel.errors import RateLimited

pytestmark = pytest.mark.anyio


class Time:
    def __init__(self) -> None:
        self.seconds = 100.0
        self.step = 0.0
        """Seconds that pass with each reading."""

    def __call__(self) -> float:
        self.seconds += self.step
        return self.seconds


class Requests:
    """Requests that are handled until `release` is set."""

    def __init__(self, max_waiting: int = 1_000) -> None:
        self.time = Time()
        self.admission = Admission(max_waiting, now=self.time)
        self.handled: Counter[str] = Counter()
        self.order: list[str] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.release = asyncio.Event()

    async def send(self, org: str, count: int = 1) -> None:
        self.tasks += [asyncio.create_task(self._handle(org, f"{org}{number}")) for number in range(count)]
        await settle()

    async def _handle(self, org: str, name: str) -> None:
        async with self.admission.turn(org):
            self.handled[org] += 1
            self.order.append(name)
            try:
                await self.release.wait()
            finally:
                self.handled[org] -= 1


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_an_organization_alone_has_a_higher_limit() -> None:
    """It can send many requests at once; further ones wait, and all are handled in their order."""
    requests = Requests()
    await requests.send("a", SHARE_ALONE + 5)
    assert requests.handled == {"a": SHARE_ALONE}
    requests.release.set()
    await asyncio.gather(*requests.tasks)
    assert requests.order == [f"a{number}" for number in range(SHARE_ALONE + 5)]


async def test_each_organization_has_its_share() -> None:
    """Beside others, a flood has its share at work, and the request of another organization is admitted at once."""
    requests = Requests()
    await requests.send("b")
    await requests.send("a", 50)
    assert requests.handled == {"a": SHARE, "b": 1}
    await requests.send("c")
    assert requests.handled == {"a": SHARE, "b": 1, "c": 1}
    requests.release.set()
    requests.time.step = RETURN_SECONDS
    await asyncio.gather(*requests.tasks)
    assert len(requests.order) == 52


@pytest.mark.parametrize("quick", [False, True])
async def test_the_organization_with_fewer_requests_goes_first(quick: bool) -> None:
    """While one of its requests is handled; for a moment after it too, if it sends one after the other."""
    requests = Requests()
    if quick:
        await requests.send("b")
        requests.tasks.pop().cancel()
        await settle()
    await requests.send("b")
    await requests.send("a", 9)
    requests.tasks[1].cancel()
    await settle()
    assert requests.handled == {"a": 0, "b": 1}
    requests.tasks[0].cancel()
    await settle()
    assert requests.handled == {"a": 0 if quick else 1, "b": 0}
    requests.time.seconds += RETURN_SECONDS
    while not requests.handled["a"]:  # noqa: ASYNC110  (a timer of the event loop admits it)
        await asyncio.sleep(0)
    requests.release.set()
    requests.time.step = RETURN_SECONDS
    await asyncio.gather(*requests.tasks, return_exceptions=True)
    assert len(requests.order) == 1 + 9 + quick


async def test_a_flood_has_a_turn_after_some_requests_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """However soon the others send the next one. A timer would give it the turn at a moment of its own."""
    monkeypatch.setattr(Admission, "_set_timer", lambda *_: None)
    requests = Requests()
    await requests.send("b")
    requests.tasks.pop().cancel()
    await settle()
    await requests.send("b")
    await requests.send("a", 9)
    requests.tasks[1].cancel()
    await settle()
    for number in range(PASSES + 2):
        assert requests.handled == {"a": number // (PASSES + 1), "b": 1}
        requests.tasks[0 if not number else -1].cancel()
        await requests.send("b")
    requests.release.set()
    requests.time.step = RETURN_SECONDS
    await asyncio.gather(*requests.tasks, return_exceptions=True)


async def test_too_many_that_wait_are_refused() -> None:
    """With the time after which to repeat; those of other organizations are not."""
    requests = Requests(max_waiting=3)
    await requests.send("b")
    await requests.send("a", SHARE + 4)
    *_, refused = requests.tasks
    with pytest.raises(RateLimited) as error:
        await refused
    assert error.value.info == {"limit": "waiting", "waitingRequests": 3, "retryAfterSeconds": 1}
    await requests.send("c")
    assert requests.handled == {"a": SHARE, "b": 1, "c": 1}


async def test_a_request_that_waits_for_something_else_counts_no_more() -> None:
    """Requests of its organization that wait are admitted although it has not ended: the event loop has time."""
    requests = Requests()
    requests.admission = Admission(9)
    await requests.send("b")
    await requests.send("a", 2 * SHARE)
    while requests.handled["a"] < 2 * SHARE:  # noqa: ASYNC110  (a timer of the event loop admits them)
        await asyncio.sleep(0.01)
    requests.release.set()
    await asyncio.gather(*requests.tasks)


async def test_a_request_counts_longer_while_the_event_loop_has_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each timer is late: further requests are admitted only after `COUNTED_SECONDS`."""
    monkeypatch.setattr(module, "LATE_SECONDS", -1.0)
    monkeypatch.setattr(module, "COUNTED_SECONDS_IDLE", 0.0)
    requests = Requests()
    await requests.send("b")
    await requests.send("a", 2 * SHARE)
    requests.time.seconds += COUNTED_SECONDS / 2
    await asyncio.sleep(0.01)
    assert requests.handled["a"] == SHARE
    requests.time.seconds += COUNTED_SECONDS / 2
    while requests.handled["a"] < 2 * SHARE:  # noqa: ASYNC110  (a timer of the event loop admits them)
        await asyncio.sleep(0)
    requests.release.set()
    await asyncio.gather(*requests.tasks)


async def test_an_organization_leaves() -> None:
    """Some time after its latest request an organization is forgotten, and no more is stored of it."""
    requests = Requests()
    requests.release.set()
    requests.time.step = RETURN_SECONDS
    for org in "abc":
        await requests.send(org)
    assert len(requests.admission) == 3
    requests.time.seconds += PRESENT_SECONDS
    await requests.send("d")
    assert len(requests.admission) == 1


@pytest.mark.parametrize("admitted", [False, True])
async def test_a_request_that_is_cancelled_while_it_waits(admitted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its place is given to the next one, also when it had been admitted at that moment."""
    monkeypatch.setattr(module, "PASSES", 0)
    requests = Requests()
    await requests.send("b")
    await requests.send("a", SHARE + 3)
    first, second, *_ = requests.tasks[1 + SHARE :]
    if admitted:
        requests.tasks[1].cancel()
        await asyncio.sleep(0)
    first.cancel()
    await settle()
    assert requests.handled["a"] == SHARE
    assert not second.done()
    requests.release.set()
    await asyncio.gather(*requests.tasks, return_exceptions=True)
    assert f"a{SHARE}" not in requests.order
    assert len(requests.order) == 1 + SHARE + 2


async def test_what_has_no_requests_is_not_looked_at() -> None:
    """A request costs the same beside many organizations that are present."""
    requests = Requests()
    requests.release.set()
    for number in range(50):
        await requests.send(f"org{number}")
        requests.time.seconds += RETURN_SECONDS
    await requests.send("a")
    assert (len(requests.admission), list(requests.admission._active)) == (51, ["a"])
