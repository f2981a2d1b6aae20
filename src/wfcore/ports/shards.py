"""Where the rows of an organization are, in an installation with several databases.

Every database is a shard with a name. `MAIN` is the one that also has the placements. An organization is on one shard;
its numbers and ids stay the same when it moves, because no two shards assign the same number.
"""

import zlib
from collections.abc import Sequence
from typing import Final, Protocol

import attrs

from wfcore.domain.kernel.errors import Unavailable

MAIN: Final = "main"
"""The shard of the organizations that were never placed."""

STRIDE: Final = 1_024
"""The most shards. That with the number n, 0 for `MAIN`, assigns numbers that are n modulo `STRIDE`."""


def locator_of(org: str) -> int:
    """32 bits by which the directory finds the organization. Few others have the same."""
    return zlib.crc32(org.encode())


class Moving(Unavailable):
    """The organization with this key is being moved, and its writes wait. Nothing was written; a retry can succeed."""

    def __init__(self, message: str, key: int = 0) -> None:
        super().__init__(message)
        self.key = key


@attrs.frozen
class Placement:
    """The shard of an organization. While `is_moving`, it can change at any time, and must not be cached."""

    shard: str
    is_moving: bool = False


class Placements(Protocol):
    """Implementers: a process sees every change that is older than `LEASE` seconds.

    `key` is a secret of the installation, the same in all processes and for ever.
    """

    key: str

    def cached(self, org: str) -> str | None:
        """The shard of the organization, if it is known without a read."""
        ...

    async def of(self, org: str) -> Placement:
        """The shard of the organization; `MAIN` for one that was never placed."""
        ...

    async def located(self, locator: int) -> Sequence[str]:
        """The shards on which an organization with this locator is or can be, the likeliest first."""
        ...

    async def place(self, org: str) -> str:
        """The shard of a new organization, which is chosen and stored; without effect for one that was placed."""
        ...

    async def close(self) -> None:
        """End what runs in the background."""
        ...


LEASE: Final = 0.5
"""Seconds for which a process uses what it has read without looking for changes."""
