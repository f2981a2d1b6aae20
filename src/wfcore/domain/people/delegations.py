"""Delegations: one member decides approvals for another one (decisions on delegations)."""

from collections.abc import Mapping
from datetime import datetime

import attrs

from wfcore.domain.json.codec import from_ms, parse_iso
from wfcore.domain.kernel.errors import Issue
from wfcore.domain.kernel.ids import iso
from wfcore.domain.kernel.json_type import JSON


@attrs.frozen
class Delegation:
    """`to_user` decides for `from_user`, before `until` (None: without end), in all runs or in those of
    `workflow_ids`. Both are user ids.
    """

    id: str
    from_user: str
    to_user: str
    until: datetime | None = None
    workflow_ids: tuple[int, ...] | None = None

    def is_current(self, now: datetime) -> bool:
        return self.until is None or now < self.until

    def covers(self, kind: str, resource_id: int | None) -> bool:
        """Whether it holds for runs of this target."""
        return self.workflow_ids is None or (kind == "workflow" and resource_id in self.workflow_ids)

    def concerns(self, user_id: str) -> bool:
        return user_id in (self.from_user, self.to_user)

    def to_wire(self) -> dict[str, JSON]:
        return {
            "id": self.id,
            "from": self.from_user,
            "to": self.to_user,
            "until": None if self.until is None else iso(self.until),
            "workflowIds": None if self.workflow_ids is None else list(self.workflow_ids),
        }


def delegation_issues(tree: Mapping[str, JSON]) -> list[Issue]:
    """The faults of a delegation's body that its shape does not show."""
    issues, until, workflows = [], tree.get("until"), tree.get("workflowIds")
    if isinstance(until, str) and not _is_instant(until):
        issues.append(Issue("until", "must be an RFC 3339 instant, such as `2026-01-02T03:04:05Z`", "format"))
    if isinstance(workflows, list):
        repeated = [place for place, one in enumerate(workflows) if one in workflows[:place]]
        issues += [Issue(f"workflowIds[{place}]", f"`{workflows[place]}` is given twice", "unique")
                   for place in repeated]  # fmt: skip
    return issues


def _is_instant(text: str) -> bool:
    try:
        from_ms(parse_iso(text))
    except (ValueError, OverflowError):
        return False
    return True
