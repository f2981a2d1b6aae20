"""The contracts of the ports of `wfcore.ports.system`. Inherit one, write its factory, and inherit every test."""

import asyncio
from abc import abstractmethod

from wfcore.domain.kernel.ids import ALPHABET, is_uuid
from wfcore.ports.system import Clock, Ids
from wfcore.testing.contracts.on_asyncio import OnAsyncio


class ClockContract(OnAsyncio):
    """What every clock promises."""

    @abstractmethod
    def make_clock(self) -> Clock:
        """A clock as described in the port."""

    @abstractmethod
    def let_pass(self, clock: Clock, seconds: float) -> None:
        """Make sure that this much time passes soon: nothing to do for a real clock."""

    def test_now_is_in_milliseconds_since_1970(self) -> None:
        """A time of this century, as an integer, that does not go backwards."""
        clock = self.make_clock()
        first, second = clock.now(), clock.now()
        assert isinstance(first, int)
        assert 946_684_800_000 < first <= second < 4_102_444_800_000

    async def test_sleep_waits_as_long_as_told(self, anyio_backend: str) -> None:
        """A sleeper wakes up once that much time has passed, and no sooner."""
        clock = self.make_clock()
        began = clock.now()
        sleeper = asyncio.create_task(clock.sleep(0.02))
        await asyncio.sleep(0)
        assert not sleeper.done()
        self.let_pass(clock, 0.02)
        await asyncio.wait_for(sleeper, 5)
        assert clock.now() - began >= 19  # a millisecond may be lost to rounding

    async def test_sleeping_no_time_returns(self, anyio_backend: str) -> None:
        """Zero and less is no wait."""
        clock = self.make_clock()
        await clock.sleep(0)
        await clock.sleep(-1)

    async def test_an_alarm_rings_once_and_no_sooner(self, anyio_backend: str) -> None:
        """In a turn of the loop of its own, once that much time has passed."""
        clock, rung = self.make_clock(), asyncio.Event()
        began = clock.now()
        clock.call_later(0.02, rung.set)
        await asyncio.sleep(0)
        assert not rung.is_set()
        self.let_pass(clock, 0.02)
        await asyncio.wait_for(rung.wait(), 5)
        assert clock.now() - began >= 19

    async def test_an_alarm_that_was_called_off_is_silent(self, anyio_backend: str) -> None:
        """Also when it is called off twice, and while others ring."""
        clock, rung, other = self.make_clock(), list[str](), asyncio.Event()
        call_off = clock.call_later(0.01, lambda: rung.append("off"))
        clock.call_later(0.02, other.set)
        call_off()
        call_off()
        self.let_pass(clock, 0.02)
        await asyncio.wait_for(other.wait(), 5)
        assert rung == []


class IdsContract:
    """What every source of ids promises."""

    @abstractmethod
    def make_ids(self) -> Ids:
        """A source of ids as described in the port."""

    def test_uuids_are_canonical_version_7_and_new(self) -> None:
        """Lower case with hyphens, version 7 and the RFC 9562 variant, never the same twice."""
        ids = self.make_ids()
        made = [ids.uuid() for _ in range(1_000)]
        assert len(set(made)) == len(made)
        assert all(is_uuid(text) and text[14] == "7" and text[19] in "89ab" for text in made)

    def test_uuids_sort_by_their_making(self) -> None:
        """Later ids are greater: a list by id is a list by time."""
        ids = self.make_ids()
        made = [ids.uuid() for _ in range(100)]
        assert made == sorted(made)

    def test_tokens_are_of_the_alphabet_and_new(self) -> None:
        """As long as asked for, of [A-Za-z0-9] only, never the same twice."""
        ids = self.make_ids()
        made = [ids.token(43) for _ in range(1_000)]
        assert len(set(made)) == len(made)
        assert all(len(text) == 43 and set(text) <= set(ALPHABET) for text in made)
