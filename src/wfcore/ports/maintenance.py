"""The rows of an organization as a whole: which are too old, which belong to a person, and the deletion of all.

All times are epoch milliseconds. What these calls delete is not audited by the store.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Final, Literal, Protocol, get_args

Expiring = Literal["runs", "conversations", "audit", "deleted"]
"""What can be too old.

- `runs`: executions that ended before a time, with everything of theirs but usage and messages; deliveries of events,
  and the ids of deleted runs, which can then be used again.
- `conversations`: those whose latest message is older.
- `audit`: rows of the audit.
- `deleted`: workflows and skills that were deleted before, with their variations, memories and ended executions. One
  stays while an execution of its own can still continue, or one of another workflow has called it.
"""

EXPIRING: Final[Sequence[Expiring]] = get_args(Expiring)


class Maintenance(Protocol):
    """Implementers: each call is one transaction, which other writers can precede and follow."""

    async def count(self, org: str, kind: Expiring, before: int) -> int:
        """How many there are that `prune` would delete."""
        ...

    async def prune(self, org: str, kind: Expiring, before: int, *, limit: int) -> int:
        """Delete those that became old before this time, at most `limit`. Returns how many; fewer when none is left.

        A deleted number is not used again.
        """
        ...

    def texts(self, org: str) -> AsyncIterator[Sequence[str]]:
        """Every text of the organization's rows, in batches. Rows that are written meanwhile can be missing."""
        ...

    async def remove_organization(self, org: str) -> bool:
        """Delete the organization and every row of it; False when there is none."""
        ...
