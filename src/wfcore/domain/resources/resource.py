"""Workflows and skills: what they are, and what each operation makes of them.

A resource and its variations are apart. The resource is what a list shows; it only names its active and its
draft variation. A variation holds content that never changes: an edit makes another one, and whatever pinned
the former keeps what it saw. Each operation takes the values it needs and answers with a `Change`: the
resource after it, and the rows of variations that came or went.
"""

from collections.abc import Mapping
from copy import deepcopy
from datetime import datetime
from enum import StrEnum
from typing import Final

import attrs

from wfcore.domain.kernel.errors import Conflict, Issue, refuse
from wfcore.domain.kernel.ids import iso
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources import access as access_rules
from wfcore.domain.resources.access import Access, AccessConfig
from wfcore.domain.resources.lifecycle import Operation, Status, move


class Kind(StrEnum):
    """What a resource is. A skill is the interface's scope."""

    WORKFLOW = "workflow"
    SKILL = "skill"


CONTENT: Final[Mapping[Kind, Mapping[str, JSON]]] = {
    Kind.WORKFLOW: {"trigger": None, "workflowStructure": None, "agentSelection": None},
    Kind.SKILL: {
        "expectedOutput": "",
        "instructions": [],
        "model": "",
        "toolset": {},
        "connectionSet": [],
        "contextSelections": [],
        "evaluations": [],
        "interfaces": [],
        "supervisionSubordinateIds": [],
        "supervisionSubordinateDescriptions": {},
        "budget": {},
    },
}
"""The fields of a variation's content, with what they are until they are set (interface, variation)."""


@attrs.frozen
class Variation:
    """One version of the content. `deployed_at` and `deployed_by` are those of its latest deploy."""

    id: str
    content: Mapping[str, JSON]
    created_at: datetime
    created_by: str
    deployed_at: datetime | None = None
    deployed_by: str | None = None


@attrs.frozen
class OwnershipTransfer:
    """A request in flight (interface, PendingOwnershipTransfer)."""

    pending_owner_user_id: str
    pending_owner_email: str | None
    requested_by_user_id: str
    requested_at: datetime

    def to_wire(self) -> dict[str, JSON]:
        return {
            "pendingOwnerUserId": self.pending_owner_user_id,
            "pendingOwnerEmail": self.pending_owner_email,
            "requestedByUserId": self.requested_by_user_id,
            "requestedAt": iso(self.requested_at),
        }


@attrs.frozen
class Resource:
    """A workflow or skill without its content. `revision` counts its changes from 1."""

    kind: Kind
    org_uuid: str
    id: int
    slug: str
    name: str
    description: str | None
    status: Status
    access: AccessConfig
    created_at: datetime
    updated_at: datetime
    active_variation_id: str | None = None
    draft_variation_id: str | None = None
    is_enabled: bool = False
    pending_transfer: OwnershipTransfer | None = None
    deleted_at: datetime | None = None
    revision: int = 1

    @property
    def ever_deployed(self) -> bool:
        return self.active_variation_id is not None

    # INVARIANT: a pending draft differs from the active variation (what makes them equal drops the draft) and
    # what was never deployed has one. So changes are unpublished exactly when a draft is pending.
    @property
    def has_unpublished_changes(self) -> bool:
        return self.draft_variation_id is not None


@attrs.frozen
class Change:
    """What an operation made: the resource, a variation to put in its row, the id of the draft that went.

    A resource that did not change is the very object that was given. A dropped draft is no longer the
    resource's, but runs that pinned it may still need it.
    """

    resource: Resource
    saved: Variation | None = None
    dropped: str | None = None


def create(
    kind: Kind,
    *,
    org_uuid: str,
    id: int,
    slug: str,
    name: str,
    description: str | None,
    access: AccessConfig,
    content: Mapping[str, JSON],
    variation_id: str,
    by: str,
    now: datetime,
) -> Change:
    """A new resource in state `draft`, with its first draft. Raises Invalid for a field no content has."""
    draft = Variation(variation_id, _merge(kind, deepcopy(CONTENT[kind]), content), now, by)
    resource = Resource(
        kind=kind,
        org_uuid=org_uuid,
        id=id,
        slug=slug,
        name=name,
        description=description,
        status=Status.DRAFT,
        access=access,
        created_at=now,
        updated_at=now,
        draft_variation_id=draft.id,
    )
    return Change(resource, saved=draft)


def edit_details(
    resource: Resource, *, name: str, description: str | None, access: AccessConfig, now: datetime
) -> Change:
    """Name, description and access: no content, so no variation is touched and the slug stays."""
    move(resource.status, Operation.EDIT)
    return Change(changed(resource, now, name=name, description=description, access=access))


def edit_content(
    resource: Resource,
    active: Variation | None,
    draft: Variation | None,
    changes: Mapping[str, JSON],
    *,
    new_id: str,
    by: str,
    now: datetime,
) -> Change:
    """Put `changes` over the draft, or over the active variation when no draft is pending.

    The result is a new draft in the former one's place; none at all when it says what the active one says, no
    change when it says what the draft said. Raises Invalid for a field no content has, IllegalMove.
    """
    move(resource.status, Operation.EDIT)
    base = draft or active
    if base is None:
        raise ValueError("an edit needs the variation it starts from")
    content = _merge(resource.kind, base.content, changes)
    if active and same_json(content, active.content):
        return _drop_draft(resource, now)
    if draft and same_json(content, draft.content):
        return Change(resource)
    edited = changed(resource, now, draft_variation_id=new_id)
    return Change(edited, saved=Variation(new_id, content, now, by), dropped=resource.draft_variation_id)


def discard_draft(resource: Resource, *, now: datetime) -> Change:
    """Back to the active variation. Raises IllegalMove where there is none to go back to."""
    move(resource.status, Operation.DISCARD_DRAFT)
    return _drop_draft(resource, now)


def deploy(resource: Resource, draft: Variation | None, *, by: str, now: datetime) -> Change:
    """The draft becomes the active variation; unchanged when no draft is pending. Raises IllegalMove."""
    status = move(resource.status, Operation.DEPLOY)
    if draft is None:
        return Change(resource)
    return _activate(attrs.evolve(resource, status=status, draft_variation_id=None), draft, by, now)


def rollback(resource: Resource, target: Variation, draft: Variation | None, *, by: str, now: datetime) -> Change:
    """Deploy `target` again; a draft stays pending unless it says the same. Raises IllegalMove, Conflict.

    Only what was deployed before can be gone back to. Going back to the active variation changes nothing.
    """
    move(resource.status, Operation.ROLLBACK)
    if target.deployed_at is None:
        raise Conflict(f"variation `{target.id}` was never deployed", {"reason": "not_deployed"})
    if target.id == resource.active_variation_id:
        return Change(resource)
    if draft is None or not same_json(draft.content, target.content):
        return _activate(resource, target, by, now)
    change = _activate(attrs.evolve(resource, draft_variation_id=None), target, by, now)
    return attrs.evolve(change, dropped=draft.id)


def toggle(resource: Resource, has_schedule: bool, is_enabled: bool | None = None, *, now: datetime) -> Change:
    """Switch the schedule on or off, or over when `is_enabled` is None.

    `has_schedule` tells of the active variation. Raises Invalid when switching on without one, IllegalMove.
    """
    move(resource.status, Operation.TOGGLE)
    wanted = not resource.is_enabled if is_enabled is None else is_enabled
    if wanted and not has_schedule:
        refuse([Issue("isEnabled", "the active variation has no schedule", "schedule")])
    return Change(changed(resource, now, is_enabled=wanted))


def delete(resource: Resource, *, now: datetime) -> Change:
    """Soft delete, the schedule switched off; unchanged when deleted already."""
    return _settle(resource, Operation.DELETE, now, deleted_at=resource.deleted_at or now, is_enabled=False)


def restore(resource: Resource, *, now: datetime) -> Change:
    """Undo a delete; the schedule stays off. Unchanged when live."""
    return _settle(resource, Operation.RESTORE, now, deleted_at=None)


def same_json(a: JSON, b: JSON) -> bool:
    """Whether two JSON values are the same: 1 and 1.0 are one number, true is none, key order is nothing."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(same_json(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same_json, a, b))
    return bool(a == b)


def is_scheduled(content: Mapping[str, JSON]) -> bool:
    """Whether this content fires by the clock (interface, Trigger)."""
    trigger = content.get("trigger")
    return isinstance(trigger, dict) and trigger.get("trigger_type") == "schedule"


def _shown(content: Mapping[str, JSON]) -> dict[str, JSON]:
    """What the interface's table does not have is there where it was set."""
    return {name: value for name, value in content.items() if value or name != "budget"}


def _merge(kind: Kind, base: Mapping[str, JSON], changes: Mapping[str, JSON]) -> dict[str, JSON]:
    refuse(Issue(key, f"unknown key `{key[:80]}`", "unknown") for key in changes if key not in CONTENT[kind])
    return {**base, **changes}


def _activate(resource: Resource, variation: Variation, by: str, now: datetime) -> Change:
    deployed = attrs.evolve(variation, deployed_at=now, deployed_by=by)
    enabled = resource.is_enabled and is_scheduled(variation.content)
    active = changed(resource, now, active_variation_id=variation.id, is_enabled=enabled)
    return Change(active, saved=deployed)


def _drop_draft(resource: Resource, now: datetime) -> Change:
    return Change(changed(resource, now, draft_variation_id=None), dropped=resource.draft_variation_id)


def _settle(resource: Resource, operation: Operation, now: datetime, **fields: JSON) -> Change:
    status = move(resource.status, operation, deployed=resource.ever_deployed)
    return Change(changed(resource, now, status=status, **fields))


def changed(resource: Resource, now: datetime, **fields: JSON) -> Resource:
    """The resource with other fields, a later revision and time; the same object when nothing differs."""
    other = attrs.evolve(resource, **fields)
    if other == resource:
        return resource
    return attrs.evolve(other, updated_at=now, revision=resource.revision + 1)


_HEAD = ("id", "slug", "name", "description", "status")
_VERSIONS = ("orgUuid", "activeVariationId", "draftVariationId", "hasUnpublishedChanges")
_TIMES = ("createdAt", "updatedAt", "deletedAt")
_RIGHTS = ("canManage", "canUse", "manageDenial")
_SHARING = ("accessConfig", "pendingOwnershipTransfer")

FIELDS: Final[Mapping[Kind, tuple[str, ...]]] = {
    Kind.WORKFLOW: (*_HEAD, "type", *_VERSIONS, "isEnabled", *_SHARING, "variation", *_TIMES, *_RIGHTS),
    Kind.SKILL: (*_HEAD, *_VERSIONS, *_SHARING, *_TIMES, *_RIGHTS, "variation"),
}
"""The fields a client sees, in the order of the interface's tables."""


def to_wire(
    resource: Resource, access: Access, variation: Variation | None = None, with_variation: bool = False
) -> dict[str, JSON]:
    """The resource as a client with this `access` sees it (interface, WorkflowDto and scope response).

    `with_variation` adds the content of `variation`, null when there is none; list rows go without. Who may neither
    use nor manage it was offered it: the description is null then, and with whom it is shared is left out.
    """
    if not access.visible:
        bare = attrs.evolve(resource.access, group_permissions={}, shared_with=(), guardrails=())
        resource = attrs.evolve(resource, description=None, access=bare)
    values: dict[str, JSON] = {
        "id": resource.id,
        "slug": resource.slug,
        "name": resource.name,
        "description": resource.description,
        "status": resource.status.value,
        "type": "workflow",
        "orgUuid": resource.org_uuid,
        "activeVariationId": resource.active_variation_id,
        "draftVariationId": resource.draft_variation_id,
        "hasUnpublishedChanges": resource.has_unpublished_changes,
        "isEnabled": resource.is_enabled,
        "accessConfig": access_rules.to_wire(resource.access),
        "createdAt": iso(resource.created_at),
        "updatedAt": iso(resource.updated_at),
        "deletedAt": iso(resource.deleted_at) if resource.deleted_at else None,
        "canManage": access.can_manage,
        "canUse": access.can_use,
        "manageDenial": access.manage_denial,
    }
    if resource.pending_transfer:
        values["pendingOwnershipTransfer"] = resource.pending_transfer.to_wire()
    if with_variation:
        values["variation"] = _shown(variation.content) if variation else None
    return {field: values[field] for field in FIELDS[resource.kind] if field in values}
