"""Clock, id generator and rate limiter. No other code of wfcore reads a clock or makes an id."""

import re
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import attrs


class Clock(Protocol):
    """Wall time for what users see, and monotonic time for every wait and every measurement of a duration.

    The wall time can be set back or forward, and differs between processes.
    """

    def now(self) -> int:
        """The wall time in milliseconds since the Unix epoch."""
        ...

    def monotonic(self) -> int:
        """Milliseconds since an arbitrary start. It never goes backwards, and only this process can compare it."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait by monotonic time; a fake clock returns when the test has advanced it that far."""
        ...

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Callable[[], object]:
        """Call `callback` from the running event loop after `seconds` of monotonic time, possibly slightly earlier.

        Returns a function that cancels the call.
        """
        ...


class Ids(Protocol):
    """Ids and secrets. Implementers: no two calls, of any process, return the same value."""

    def uuid(self) -> str:
        """A new UUID of version 7 (RFC 9562) in canonical text form."""
        ...

    def token(self, length: int) -> str:
        """`length` characters of [A-Za-z0-9] from a cryptographic source."""
        ...


UNITS: Final = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400}
RATE: Final = rf"^[1-9][0-9]{{0,8}}/({'|'.join(UNITS)})\Z"
"""The text of a rate, such as `100/minute`."""


@attrs.frozen
class Rate:
    """At most `count` events of the key in any `seconds`. Keys begin with the organization."""

    key: str
    count: int
    seconds: int = 60

    @classmethod
    def of(cls, key: str, text: str) -> "Rate":
        """The rate that a text such as `100/minute` names. Raises ValueError for any other text."""
        if re.match(RATE, text) is None:
            raise ValueError(f"`{text}` is not a valid rate: use a number, `/` and {', '.join(UNITS)}")
        count, _, unit = text.partition("/")
        return cls(key, int(count), UNITS[unit])


class RateLimiter(Protocol):
    """Counts events by key, such as the requests of an organization, for one process or for all.

    Implementers: no such time has more events of a key, in all processes that share the counts.
    """

    async def admit(self, rates: Sequence[Rate]) -> Sequence[int]:
        """Count one event for each of these rates, or for none of them if one admits no event. The keys differ.

        Returns the milliseconds after which each admits an event, at most a 60th of its time too many; all are 0
        exactly if the event was counted. Of events at the same time, one that a rate refuses can count for those before
        it. Raises Unavailable if the shared counts cannot be reached.
        """
        ...

    async def close(self) -> None:
        """Close the connection to the counts."""
        ...
