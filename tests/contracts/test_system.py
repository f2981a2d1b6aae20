"""The contracts of clock and ids, for the real ones and the fakes."""

from wfcore.adapters.system import RandomIds, SystemClock
from wfcore.ports.system import Clock, Ids
from wfcore.testing.contracts.system import ClockContract, IdsContract
from wfcore.testing.fakes import FakeClock, SequentialIds


class TestSystemClock(ClockContract):
    def make_clock(self) -> Clock:
        return SystemClock()

    def let_pass(self, clock: Clock, seconds: float) -> None:
        """It passes by itself."""


class TestFakeClock(ClockContract):
    def make_clock(self) -> Clock:
        return FakeClock()

    def let_pass(self, clock: Clock, seconds: float) -> None:
        assert isinstance(clock, FakeClock)
        clock.advance(seconds)


class TestRandomIds(IdsContract):
    def make_ids(self) -> Ids:
        return RandomIds()


class TestSequentialIds(IdsContract):
    def make_ids(self) -> Ids:
        return SequentialIds()
