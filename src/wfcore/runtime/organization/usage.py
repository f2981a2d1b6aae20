"""Usage of models: sums over the calls of an organization (interface, functional areas: LLM usage).

Admins and owners see the usage of the organization; a member sees that of its own executions.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import attrs

from wfcore.domain.json.codec import EPOCH, to_ms
from wfcore.domain.kernel.errors import Issue, refuse
from wfcore.domain.kernel.ids import iso
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.projections.cost import to_money
from wfcore.domain.resources.access import Principal, Role
from wfcore.ports.repositories.usage import GROUPS, GroupBy, UsageSum
from wfcore.runtime.common.authorization import needs
from wfcore.runtime.common.ports import Ports

DEFAULT_PERIOD: Final = timedelta(days=30)
LONGEST_PERIOD: Final = timedelta(days=366)


@attrs.frozen
class UsageReport:
    """The sums of the period from `since` to before `until`."""

    sums: Sequence[UsageSum]
    since: datetime
    until: datetime
    group_by: GroupBy

    def to_wire(self) -> dict[str, JSON]:
        return {
            "usage": [{"key": one.key, **_counted(one)} for one in self.sums],
            "totals": _counted(_total(self.sums)),
            "from": iso(self.since),
            "to": iso(self.until),
            "groupBy": self.group_by,
        }


class Usage:
    """Reads the usage of models."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    @needs("usage:read")
    async def report(
        self,
        me: Principal,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        group_by: GroupBy = "model",
    ) -> UsageReport:
        """The calls from `since` to before `until`: by default the last 30 days until now, at most 366 days.

        Malformed for a period that is empty or too long, and for an unknown `group_by`.
        """
        until = until or self._ports.now() + timedelta(milliseconds=1)
        since = since or max(until, EPOCH) - DEFAULT_PERIOD
        refuse(_period_issues(since, until))
        if group_by not in GROUPS:
            refuse([Issue("groupBy", f"must be one of {', '.join(f'`{one}`' for one in GROUPS)}", "query")])
        own = me.user_id if me.role is Role.MEMBER else None
        period = {"since": to_ms(since), "until": to_ms(until)}
        sums = await self._ports.journal.usage.sums(me.org_uuid, group_by, **period, user_id=own)
        return UsageReport(sums, since, until, group_by)


def _period_issues(since: datetime, until: datetime) -> list[Issue]:
    if until < EPOCH:
        return [Issue("to", "must be in 1970 or later", "query")]
    if since >= until:
        return [Issue("from", "must be earlier than `to`", "query")]
    if until - since > LONGEST_PERIOD:
        return [Issue("from", f"must be within {LONGEST_PERIOD.days} days of `to`", "query")]
    return []


def _total(sums: Sequence[UsageSum]) -> UsageSum:
    costs = [one.cost for one in sums if one.cost is not None]
    return UsageSum(
        None,
        sum(one.calls for one in sums),
        sum(one.input_tokens for one in sums),
        sum(one.output_tokens for one in sums),
        sum(one.duration_ms for one in sums),
        sum(costs) if costs else None,
    )


def _counted(one: UsageSum) -> dict[str, JSON]:
    return {
        "calls": one.calls,
        "inputTokens": one.input_tokens,
        "outputTokens": one.output_tokens,
        "durationMs": one.duration_ms,
        "cost": to_money(one.cost),
    }
