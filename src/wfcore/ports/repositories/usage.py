"""The usage of models, call by call. An append writes the rows, in the same transaction as its entries."""

from typing import Final, Literal, Protocol, get_args

import attrs

GroupBy = Literal["model", "skill", "workflow", "user", "day", "origin"]

GROUPS: Final[tuple[str, ...]] = get_args(GroupBy)


@attrs.frozen
class UsageSum:
    """The sum of some calls. `cost` is in billionths of the operator's currency unit, None when no call has a price."""

    key: str | None
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    duration_ms: int = 0
    cost: int | None = None


class UsageRows(Protocol):
    """Reads what the journal wrote."""

    async def sums(
        self, org: str, group_by: GroupBy, *, since: int, until: int, user_id: str | None = None
    ) -> list[UsageSum]:
        """The calls from `since` to before `until` (epoch milliseconds), of one user's executions if given, by key.

        One sum for each key, ascending, numbers by their value. Calls without a skill, workflow or named model have
        the key None, which comes first. A day is in UTC, `2026-01-31`; the origin is that of the first turn of the
        execution.
        """
        ...
