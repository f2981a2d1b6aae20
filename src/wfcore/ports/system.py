"""The clock and the ids of the world outside. Nothing else in wfcore reads a clock or makes an id."""

from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    """Time. Implementers: `now` never goes backwards by more than the system's clock does."""

    def now(self) -> int:
        """Milliseconds since the Unix epoch."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait; a fake clock returns when it has been moved that far."""
        ...

    def alarm(self, seconds: float, ring: Callable[[], None]) -> Callable[[], object]:
        """Have `ring` called after so long, in a turn of the running event loop; it may be a little early. Calling what
        is returned calls the alarm off.
        """
        ...


class Ids(Protocol):
    """Ids and secrets. Implementers: no value is ever returned twice, by any process."""

    def uuid(self) -> str:
        """A new UUID of version 7 (RFC 9562) in canonical text form."""
        ...

    def token(self, length: int) -> str:
        """`length` characters of [A-Za-z0-9] from a cryptographic source."""
        ...
