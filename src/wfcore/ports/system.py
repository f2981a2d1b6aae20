"""Clock and id generator. No other code of wfcore reads a clock or makes an id."""

from collections.abc import Callable
from typing import Protocol


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
