"""What models consumed, call by call. Rows are written by the journal, in the same transaction as the entries."""

from collections.abc import Iterable
from typing import Final, Literal, Protocol, get_args

import attrs

from wfcore.domain.run.records import UsageRecord

GroupBy = Literal["model", "skill", "workflow", "user", "day"]

GROUPS: Final[tuple[str, ...]] = get_args(GroupBy)


@attrs.frozen
class UsageSum:
    """The sum of some calls. `cost` is in billionths of the operator's unit of money, None when none has a price."""

    key: str | None
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    duration_ms: int = 0
    cost: int | None = None


class UsageRows(Protocol):
    """Reading what the journal wrote."""

    async def sums(
        self, org: str, group_by: GroupBy, *, since: int, until: int, user_id: str | None = None
    ) -> list[UsageSum]:
        """Of the calls from `since` to before `until` (epoch milliseconds), of one user's executions if given.

        One for each key, ascending, numbers by their value; calls of no skill, workflow or named model have the key
        None, which comes first. A day is one of UTC, `2026-01-31`.
        """
        ...


def consumed(records: Iterable[object]) -> list[UsageRecord]:
    """The records of usage, those within frames too."""
    return [record for record in records if isinstance(record, UsageRecord)]
