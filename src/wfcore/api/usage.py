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
    """`key` is a model's name, an id, or a day of UTC; null for calls that have none."""

    key: str | None


UsageReport = TypedDict(
    "UsageReport",
    {
        "usage": list[UsageGroup],
        "totals": UsageTotals,
        "from": Time,
        "to": Time,
        "groupBy": Literal["model", "skill", "workflow", "user", "day"],
    },
)
"""What was consumed from `from` to before `to`."""
