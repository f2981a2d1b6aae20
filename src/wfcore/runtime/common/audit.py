"""The audit: the rows that changes write, and the use case that reads them."""

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from typing import Final

import attrs

from wfcore.domain.kernel.ids import iso
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import AccessConfig, Principal, grants
from wfcore.domain.resources.lifecycle import Status
from wfcore.domain.resources.resource import Resource
from wfcore.ports.executions.rows import Execution, RunRow
from wfcore.ports.executions.writes import NewExecution
from wfcore.ports.repositories.audit import AuditFilter, AuditRow
from wfcore.ports.storage import UnitOfWork
from wfcore.runtime.common.authorization import MEMBER, Named, administer, names_of, needs
from wfcore.runtime.common.ports import Ports

RECORD: Final = ("create", "update", "delete")

ACTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "workflow": (
        "create", "deploy", "access", "ownership", "delete", "restore", "update", "pause", "clear_interfaces",
        "create_webhook", "rotate_webhook",
    ),
    "skill": ("create", "deploy", "force_deploy", "access", "ownership", "delete", "restore"),
    "run": ("resume", "cancel", "interrupt", "retry", "fork", "move", "delete", "remind", "escalate"),
    "interface": (*RECORD, "rotate_secret", "give_up"),
    "hook": (*RECORD, "rotate", "redeliver", "give_up", "disable"),
    "connection": (*RECORD, "authorize"),
    "context_item": RECORD,
    "policy": RECORD,
    "delegation": RECORD,
    "group": RECORD,
    "member": (*RECORD, "erase"),
    "token": ("create", "revoke"),
    "organization": ("update", "prune", "reencrypt"),
}  # fmt: skip
"""The verbs that are recorded, by kind: with a dot between them the actions of the interface."""


@attrs.frozen
class AuditView:
    """One row of the audit, with the names of whom and what it is about. `position` identifies it for the next page."""

    row: AuditRow
    names: Mapping[Named, str] = attrs.field(factory=dict)

    @property
    def position(self) -> tuple[datetime, int]:
        return self.row.at, self.row.key

    def to_wire(self) -> dict[str, JSON]:
        row = self.row
        user_name = None if row.user_id is None else self.names.get((MEMBER, row.user_id))
        name = self.names.get(_named(row), _recorded_name(row))
        return {**audit_to_wire(row), "userName": user_name, "resourceName": name}


def audit_to_wire(row: AuditRow) -> dict[str, JSON]:
    """What is stored."""
    return {
        "at": iso(row.at),
        "userId": row.user_id,
        "action": row.action,
        "resource": {"type": row.kind, "id": row.resource_id},
        "details": dict(row.details),
        "requestId": row.origin.request_id,
        "remoteAddress": row.origin.remote_address,
    }


def _recorded_name(row: AuditRow) -> str | None:
    """The name at that time, which the rows of records of the organization have."""
    found = (row.details.get(key) for key in ("name", "title", "url"))
    return next((text for text in found if isinstance(text, str)), None)


def _subjects(rows: Collection[AuditRow]) -> set[Named]:
    """Who has done something in these rows, and what it was done to."""
    return {_named(row) for row in rows} | {(MEMBER, row.user_id) for row in rows if row.user_id}


def _named(row: AuditRow) -> Named:
    """What the name of a row is that of: of a run its workflow or skill, which rows of older releases do not have."""
    target = row.details.get("target")
    if row.kind == "run" and isinstance(target, Mapping):
        return str(target.get("type")), str(target.get("id"))
    return row.kind, row.resource_id


class AuditTrail:
    """Reads the audit, which requires the role admin or owner."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    @needs("members:write")
    async def page(
        self,
        me: Principal,
        *,
        limit: int = 25,
        before: tuple[datetime, int] | None = None,
        user: str | None = None,
        action: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> list[AuditView]:
        """Newest first. `action` is `<kind>.<verb>`, `until` is exclusive, `before` is the `position` of a row.

        Workflows and skills have a name if the caller can see them, and runs have theirs. Other records have that of
        the time of the row.
        """
        administer(me)
        selected = AuditFilter(user, action, since, until)
        async with self._ports.storage.reading(me.org_uuid) as work:
            rows = await work.audit.page(selected, limit=limit, before=before)
            names = await names_of(work, me, _subjects(rows))
        return [AuditView(row, names) for row in rows]


async def audit(
    work: UnitOfWork,
    me: Principal | None,
    now: datetime,
    kind: str,
    verb: str,
    id: str,
    details: Mapping[str, JSON] | None = None,
) -> None:
    """Record in the transaction of the change that `me` did this; None is the operator."""
    assert verb in ACTIONS[kind], f"{kind}.{verb} is not listed"  # noqa: S101
    user_id = None if me is None else me.user_id
    await work.audit.add(AuditRow(now, user_id, f"{kind}.{verb}", kind, id, details or {}))


def run_row(
    at: datetime,
    user: str | None,
    action: str,
    run_id: str,
    of: NewExecution | Execution | RunRow,
    details: Mapping[str, JSON],
) -> AuditRow:
    """The row of a run, with what it is a run of."""
    target = {"type": of.kind, "id": of.resource_id}
    return AuditRow(at, user, action, "run", run_id, {"target": target, **details})


async def audit_change(work: UnitOfWork, me: Principal, now: datetime, old: Resource | None, new: Resource) -> None:
    """Record the changes of a workflow or skill; `old` is None when it is new."""
    for verb, details in _changes(old, new):
        await audit(work, me, now, new.kind, verb, str(new.id), details)


def _changes(old: Resource | None, new: Resource) -> Iterator[tuple[str, dict[str, JSON]]]:
    """Verbs with details. Edits of the draft or of the name are not audited."""
    if old is None:
        yield "create", _access(new.access)
        return
    if Status.DELETED in (old.status, new.status) and old.status is not new.status:
        yield "delete" if new.status is Status.DELETED else "restore", {}
    if old.active_variation_id != new.active_variation_id:
        yield "deploy", {"variationId": new.active_variation_id}
    if _owner(old) != _owner(new):
        yield "ownership", _owner(new)
    if _access(old.access) != _access(new.access):
        yield "access", _access(new.access)


def _owner(resource: Resource) -> dict[str, JSON]:
    pending = resource.pending_transfer
    pending_owner = None if pending is None else pending.pending_owner_user_id
    return {"ownerUserId": resource.access.owner_user_id, "pendingOwnerUserId": pending_owner}


def _access(config: AccessConfig) -> dict[str, JSON]:
    lines: list[JSON] = [{"subject": one.subject, "use": one.use, "manage": one.manage} for one in grants(config)]
    given: dict[str, JSON] = {"visibility": config.visibility, "grants": lines}
    return {**given, "guardrails": list(config.guardrails)} if config.guardrails else given
