"""The clock of a server that several processes use."""

import asyncio
import logging
from typing import Final

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from waiting import until

from wfcore.adapters import system
from wfcore.adapters.system import ServerClock, SystemClock
from wfcore.domain.kernel.errors import Unavailable
from wfcore.testing.fakes import NOON

pytestmark = pytest.mark.anyio

DAY: Final = 86_400_000
DIFFERENCES: Final = st.integers(-DAY, DAY)
DELAYS: Final = st.lists(st.tuples(st.integers(0, 3_000), st.integers(0, 3_000)), min_size=1, max_size=5)
"""Milliseconds until the server reads its clock, and from then until the response is there."""


@attrs.define
class Server:
    """A machine and a server. `ahead` is how much the clock of the server is ahead of that of the machine."""

    ahead: int = 0
    elapsed: int = 5
    step: int = 0
    delays: tuple[int, int] = (0, 0)
    is_away: bool = False
    fault: Exception | None = None
    times_read: int = 0

    @property
    def now(self) -> int:
        return NOON + self.elapsed + self.ahead

    async def read(self) -> int:
        self.times_read += 1
        if self.is_away:
            raise Unavailable("away")
        if self.fault is not None:
            raise self.fault
        self.elapsed += self.delays[0]
        shown = self.now
        self.elapsed += self.delays[1]
        return shown

    def clock(self, patch: pytest.MonkeyPatch) -> ServerClock:
        patch.setattr(SystemClock, "now", lambda _: NOON + self.elapsed + self.step)
        patch.setattr(SystemClock, "monotonic", lambda _: self.elapsed)
        return ServerClock(self.read)


@given(DIFFERENCES, DELAYS, DIFFERENCES)
async def test_it_has_the_time_of_the_server(ahead: int, delays: list[tuple[int, int]], step: int) -> None:
    """To the shortest time that a reading took, whatever the clock of the machine shows, then or later."""
    with pytest.MonkeyPatch.context() as patch:
        server = Server(ahead)
        clock, best = server.clock(patch), DAY
        for each in delays:
            server.delays = each
            await clock.read()
            server.step = step
            best = min(best, sum(each) + 1)
            assert abs(clock.now() - server.now) <= best


@given(DELAYS)
async def test_a_server_on_this_machine_changes_nothing(delays: list[tuple[int, int]]) -> None:
    """However long a reading takes, the time is exactly that of the machine."""
    with pytest.MonkeyPatch.context() as patch:
        server = Server()
        clock = server.clock(patch)
        for server.delays in delays:
            await clock.read()
            assert clock.now() == SystemClock().now() == server.now


async def test_it_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """From time to time, also after the server was away: the clock follows a step of that of the server."""
    server = Server(DAY)
    clock = server.clock(monkeypatch)
    monkeypatch.setattr(system, "READ_INTERVAL", 0)
    async with clock.following():
        assert abs(clock.now() - server.now) <= 1
        server.is_away, before = True, server.times_read
        await until(lambda: server.times_read > before)
        server.is_away, server.ahead = False, -DAY
        await until(lambda: abs(clock.now() - server.now) <= 1)
    before = server.times_read
    await asyncio.sleep(0)
    assert server.times_read == before


async def test_an_unexpected_error_is_logged(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """And the clock is read again."""
    server = Server()
    clock = server.clock(monkeypatch)
    monkeypatch.setattr(system, "READ_INTERVAL", 0)
    async with clock.following():
        server.fault = RuntimeError("broken")
        await until(lambda: bool(caplog.records))
        server.fault, server.ahead = None, DAY
        await until(lambda: abs(clock.now() - server.now) <= 1)
    assert caplog.messages[0] == "the clock of the database server could not be read"


async def test_a_server_that_is_away_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its time cannot be known."""
    with pytest.raises(Unavailable):
        async with Server(is_away=True).clock(monkeypatch).following():
            pass


@pytest.mark.parametrize(
    ("ahead", "said"), [(-6_000, ["6 seconds ahead of"]), (6_000, ["6 seconds behind"]), (4_000, []), (-4_000, [])]
)
async def test_a_wrong_clock(
    ahead: int, said: list[str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A machine whose clock differs from that of the server by more than five seconds is named in a warning."""
    caplog.set_level(logging.WARNING)
    async with Server(ahead).clock(monkeypatch).following():
        pass
    expected = "the clock of this machine is {} that of the database server, which is used: synchronize the clocks"
    assert caplog.messages == [expected.format(each) for each in said]
