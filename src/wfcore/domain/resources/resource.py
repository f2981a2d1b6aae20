"""Workflows and skills, and the operations on them.

A resource is stored apart from its variations. A list shows the resource, which only names its active and its draft
variation. The content of a variation never changes: an edit makes another one, and a run that pinned the former
keeps it. Each operation takes the values it needs and returns a `Change`: the resource after it, and the variations
to save and to drop.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Final, TypedDict, Unpack

import attrs

from wfcore.domain.kernel.errors import Conflict, Issue, refuse
from wfcore.domain.kernel.ids import iso
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources import access as access_rules
from wfcore.domain.resources.access import Access, AccessConfig
from wfcore.domain.resources.content import (
    Content,
    ContentClass,
    SkillContent,
    WorkflowContent,
    as_skill,
    as_workflow,
    compared,
    content_to_wire,
)
from wfcore.domain.resources.lifecycle import Operation, Status, move


class Kind(StrEnum):
    """The kind of a resource. The interface calls a skill a scope."""

    WORKFLOW = "workflow"
    SKILL = "skill"


CONTENTS: Final[Mapping[Kind, ContentClass]] = {Kind.WORKFLOW: WorkflowContent, Kind.SKILL: SkillContent}
"""The content of the variations of each kind."""


@attrs.frozen
class Variation:
    """One version of the content. `deployed_at` and `deployed_by` are of its latest deploy."""

    id: str
    content: Content
    created_at: datetime
    created_by: str
    deployed_at: datetime | None = None
    deployed_by: str | None = None

    @property
    def workflow(self) -> WorkflowContent:
        """The content of a workflow. Raises TypeError for that of a skill."""
        return as_workflow(self.content)

    @property
    def skill(self) -> SkillContent:
        """The content of a skill. Raises TypeError for that of a workflow."""
        return as_skill(self.content)


@attrs.frozen
class OwnershipTransfer:
    """A pending request for an ownership transfer (interface, PendingOwnershipTransfer)."""

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
    """A workflow or skill without its content. `is_scheduled`: whether the active variation has a schedule. `revision`
    counts its changes from 1.
    """

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
    is_scheduled: bool = False
    pending_transfer: OwnershipTransfer | None = None
    deleted_at: datetime | None = None
    revision: int = 1

    @property
    def ever_deployed(self) -> bool:
        return self.active_variation_id is not None

    # INVARIANT: a pending draft differs from the active variation (an edit that makes them equal drops the draft), and
    # a resource that was never deployed has a draft. So there are unpublished changes exactly if a draft is pending.
    @property
    def has_unpublished_changes(self) -> bool:
        return self.draft_variation_id is not None


@attrs.frozen
class Change:
    """The result of an operation: the resource, a variation to save, the id of the draft that was dropped.

    A resource that did not change is the same object as before. A dropped draft does not belong to the resource any
    more, but runs that pinned it may still need it.
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
    content: Content,
    variation_id: str,
    by: str,
    now: datetime,
) -> Change:
    """A new resource in state `draft`, with its first draft."""
    draft = Variation(variation_id, content, now, by)
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
    """Change name, description and access; the variations and the slug stay."""
    move(resource.status, Operation.EDIT)
    return Change(changed(resource, now, name=name, description=description, access=access))


def edit_content(
    resource: Resource,
    active: Variation | None,
    draft: Variation | None,
    content: Content,
    *,
    new_id: str,
    by: str,
    now: datetime,
) -> Change:
    """Replace the draft by one with this content.

    If the content equals that of the active variation, the draft is dropped; if it equals that of the draft, nothing
    changes. Raises IllegalMove.
    """
    move(resource.status, Operation.EDIT)
    if active and same_content(content, active.content):
        return _drop_draft(resource, now)
    if draft and same_content(content, draft.content):
        return Change(resource)
    edited = changed(resource, now, draft_variation_id=new_id)
    return Change(edited, saved=Variation(new_id, content, now, by), dropped=resource.draft_variation_id)


def discard_draft(resource: Resource, *, now: datetime) -> Change:
    """Drop the draft. Raises IllegalMove if the resource was never deployed."""
    move(resource.status, Operation.DISCARD_DRAFT)
    return _drop_draft(resource, now)


def deploy(resource: Resource, draft: Variation | None, *, by: str, now: datetime) -> Change:
    """Make the draft the active variation; without a draft nothing changes. Raises IllegalMove."""
    status = move(resource.status, Operation.DEPLOY)
    if draft is None:
        return Change(resource)
    return _activate(attrs.evolve(resource, status=status, draft_variation_id=None), draft, by, now)


def rollback(resource: Resource, target: Variation, draft: Variation | None, *, by: str, now: datetime) -> Change:
    """Deploy `target` again; a draft stays pending unless its content is the same.

    A rollback to the active variation changes nothing. Raises Conflict if `target` was never deployed, IllegalMove.
    """
    move(resource.status, Operation.ROLLBACK)
    if target.deployed_at is None:
        raise Conflict(f"variation `{target.id}` was never deployed", {"reason": "not_deployed"})
    if target.id == resource.active_variation_id:
        return Change(resource)
    if draft is None or not same_content(draft.content, target.content):
        return _activate(resource, target, by, now)
    change = _activate(attrs.evolve(resource, draft_variation_id=None), target, by, now)
    return attrs.evolve(change, dropped=draft.id)


def toggle(resource: Resource, has_schedule: bool, is_enabled: bool | None = None, *, now: datetime) -> Change:
    """Enable or disable the schedule; None toggles it.

    `has_schedule`: whether the active variation has a schedule. Raises Invalid for enabling without one, IllegalMove.
    """
    move(resource.status, Operation.TOGGLE)
    wanted = not resource.is_enabled if is_enabled is None else is_enabled
    if wanted and not has_schedule:
        refuse([Issue("isEnabled", "the active variation has no schedule", "schedule")])
    return Change(changed(resource, now, is_enabled=wanted))


def delete(resource: Resource, *, now: datetime) -> Change:
    """Soft delete, and disable the schedule; a deleted resource stays unchanged."""
    return _change_status(resource, Operation.DELETE, now, deleted_at=resource.deleted_at or now, is_enabled=False)


def restore(resource: Resource, *, now: datetime) -> Change:
    """Undo a delete; the schedule stays disabled. A live resource stays unchanged."""
    return _change_status(resource, Operation.RESTORE, now, deleted_at=None)


def same_json(a: JSON, b: JSON) -> bool:
    """Whether two JSON values are equal: 1 equals 1.0, true does not equal 1, key order does not matter."""
    return bool(a == b) and _same_booleans(a, b)  # values that differ, as most do, are not walked in Python


def _same_booleans(a: JSON, b: JSON) -> bool:
    """Whether two values that are equal in Python, where true equals 1, have booleans at the same places."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return all(_same_booleans(a[key], b[key]) for key in a)
    return not (isinstance(a, list) and isinstance(b, list)) or all(map(_same_booleans, a, b))


def same_content(a: Content, b: Content) -> bool:
    """Whether two contents are equal as JSON, with the defaults of nodes."""
    return same_json(compared(a), compared(b))


def _activate(resource: Resource, variation: Variation, by: str, now: datetime) -> Change:
    deployed = attrs.evolve(variation, deployed_at=now, deployed_by=by)
    scheduled = _is_scheduled(variation.content)
    enabled = resource.is_enabled and scheduled
    active = changed(resource, now, active_variation_id=variation.id, is_enabled=enabled, is_scheduled=scheduled)
    return Change(active, saved=deployed)


def _is_scheduled(content: Content) -> bool:
    return isinstance(content, WorkflowContent) and content.is_scheduled


def _drop_draft(resource: Resource, now: datetime) -> Change:
    return Change(changed(resource, now, draft_variation_id=None), dropped=resource.draft_variation_id)


class ResourceFields(TypedDict, total=False):
    """The fields of a resource that an operation changes."""

    name: str
    description: str | None
    status: Status
    access: AccessConfig
    active_variation_id: str | None
    draft_variation_id: str | None
    is_enabled: bool
    is_scheduled: bool
    pending_transfer: OwnershipTransfer | None
    deleted_at: datetime | None


def _change_status(resource: Resource, operation: Operation, now: datetime, **fields: Unpack[ResourceFields]) -> Change:
    fields["status"] = move(resource.status, operation, deployed=resource.ever_deployed)
    return Change(changed(resource, now, **fields))


def changed(resource: Resource, now: datetime, **fields: Unpack[ResourceFields]) -> Resource:
    """The resource with these fields, the next revision and the time `now`; the same object if nothing differs."""
    other = attrs.evolve(resource, **fields)
    return resource if other == resource else touched(other, now)


def touched(resource: Resource, now: datetime) -> Resource:
    """The resource with the next revision and the time `now`."""
    return attrs.evolve(resource, updated_at=now, revision=resource.revision + 1)


_HEAD = ("id", "slug", "name", "description", "status")
_VERSIONS = ("orgUuid", "activeVariationId", "draftVariationId", "hasUnpublishedChanges")
_TIMES = ("createdAt", "updatedAt", "deletedAt")
_RIGHTS = ("canManage", "canUse", "manageDenial")
_SHARING = ("accessConfig", "pendingOwnershipTransfer")

FIELDS: Final[Mapping[Kind, tuple[str, ...]]] = {
    Kind.WORKFLOW: (*_HEAD, "type", *_VERSIONS, "isEnabled", *_SHARING, "variation", *_TIMES, *_RIGHTS),
    Kind.SKILL: (*_HEAD, *_VERSIONS, *_SHARING, *_TIMES, *_RIGHTS, "variation"),
}
"""The fields on the wire, in the order of the interface's tables."""


def to_wire(
    resource: Resource, access: Access, variation: Variation | None = None, with_variation: bool = False
) -> dict[str, JSON]:
    """The resource for a client with this `access` (interface, WorkflowDto and scope response).

    `with_variation` adds the content of `variation`, or null; items of a list omit it. A caller without access is
    the pending owner: then the description is null, and the people it is shared with are left out.
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
        values["variation"] = content_to_wire(variation.content) if variation else None
    return {field: values[field] for field in FIELDS[resource.kind] if field in values}
