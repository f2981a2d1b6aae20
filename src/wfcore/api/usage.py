"""The shapes of usage reports on the wire."""

from typing import Annotated, Literal, TypedDict

from msgspec import Meta

from wfcore.domain.json.codec import Time

Cost = Annotated[float, Meta(description="In the operator's unit of money; null when no call has a price")]


class UsageTotals(TypedDict):
    calls: int
    inputTokens: int
    outputTokens: int
    durationMs: int
    cost: Cost | None


class UsageGroup(UsageTotals):
    """`key` is the name of a model, an id, a day in UTC, or the origin of a run; null for calls without one."""

    key: str | None


UsageReport = TypedDict(
    "UsageReport",
    {
        "usage": list[UsageGroup],
        "totals": UsageTotals,
        "from": Time,
        "to": Time,
        "groupBy": Literal["model", "skill", "workflow", "user", "day", "origin"],
    },
)
"""The consumption from `from` until before `to`."""
