"""Clock and id generator. No other code of wfcore reads a clock or makes an id."""

from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    """Implementers: `now` never goes backwards by more than the system clock does."""

    def now(self) -> int:
        """Milliseconds since the Unix epoch."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait; a fake clock returns when the test has advanced it that far."""
        ...

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Callable[[], object]:
        """Call `callback` from the running event loop after `seconds`, possibly slightly earlier.

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
