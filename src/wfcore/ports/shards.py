"""Where the rows of an organization are, in an installation with several databases.

Every database is a shard with a name. `MAIN` is the one that also has the placements. An organization is on one shard;
its numbers and ids stay the same when it moves, because the shards assign numbers of disjoint ranges.
"""

from typing import Final, Protocol

import attrs

from wfcore.domain.kernel.errors import Unavailable

MAIN: Final = "main"
"""The shard of the organizations that were never placed."""

RANGE: Final = 2**40
"""The shard with the number n assigns numbers greater than n * RANGE."""


class Moving(Unavailable):
    """The organization is being moved, and its writes wait. Nothing was written; a retry can succeed."""


@attrs.frozen
class Placement:
    """The shard of an organization. While `is_moving`, it can change at any time, and must not be cached."""

    shard: str
    is_moving: bool = False


class Placements(Protocol):
    """Implementers: a process sees every change that is older than `LEASE` seconds."""

    def cached(self, org: str) -> str | None:
        """The shard of the organization, if it is known without a read."""
        ...

    async def of(self, org: str) -> Placement:
        """The shard of the organization; `MAIN` for one that was never placed."""
        ...

    async def place(self, org: str) -> str:
        """The shard of a new organization, which is chosen and stored; without effect for one that was placed."""
        ...


LEASE: Final = 0.5
"""Seconds for which a process uses what it has read without looking for changes."""
