"""The transfer of ownership: who may request, cancel, accept and decline it, and the resource after each step.

`TABLE` holds every legal step: whether a request is pending, the step, whether one is pending after it. `PARTY`
holds who makes it. A step is also an edit of the lifecycle, so a deleted resource cannot be transferred.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Final

import attrs

from wfcore.domain.kernel.errors import Conflict, Issue, refuse
from wfcore.domain.kernel.ids import iso
from wfcore.domain.resources.access import AccessConfig, Principal, SharedUser
from wfcore.domain.resources.lifecycle import Operation, move
from wfcore.domain.resources.resource import Change, OwnershipTransfer, Resource, changed


class TransferStep(StrEnum):
    """A step of a transfer."""

    ASK = "ask"
    CANCEL = "cancel"
    ACCEPT = "accept"
    DECLINE = "decline"


class Party(StrEnum):
    """Who makes a step. The pending owner may see the resource only as far as the transfer needs it."""

    OWNER = "owner"
    PENDING_OWNER = "pending_owner"


PARTY: Final[Mapping[TransferStep, Party]] = {
    TransferStep.ASK: Party.OWNER,
    TransferStep.CANCEL: Party.OWNER,
    TransferStep.ACCEPT: Party.PENDING_OWNER,
    TransferStep.DECLINE: Party.PENDING_OWNER,
}

TABLE: Final[Mapping[bool, Mapping[TransferStep, bool]]] = {
    False: {TransferStep.ASK: True},
    True: {TransferStep.CANCEL: False, TransferStep.ACCEPT: False, TransferStep.DECLINE: False},
}
"""From whether a request is pending to the legal steps, each with whether one is pending after it."""

REASONS: Final[Mapping[bool, str]] = {False: "no_transfer", True: "transfer_pending"}


def is_owner(principal: Principal, config: AccessConfig) -> bool:
    """Whether the principal is the owner: by user id where there is one, else by a verified e-mail (AccessConfig)."""
    if config.owner_user_id is not None:
        return config.owner_user_id == principal.user_id
    return config.owner_email is not None and config.owner_email == principal.verified_email


def is_pending_owner(principal: Principal, resource: Resource) -> bool:
    """Whether the pending request names the principal."""
    pending = resource.pending_transfer
    return pending is not None and pending.pending_owner_user_id == principal.user_id


def is_party(user_id: str, resource: Resource) -> bool:
    """Whether this user made the pending request, or is named by it."""
    pending = resource.pending_transfer
    return pending is not None and user_id in (pending.pending_owner_user_id, pending.requested_by_user_id)


def request(resource: Resource, target: Principal, *, by: str, path: str, now: datetime) -> Change:
    """Request that the member `target` becomes the owner; `by` is the user id of the requester.

    Raises Conflict while a request is pending, IllegalMove, and Invalid at `path` if `target` already is the owner.
    """
    _step(resource, TransferStep.ASK)
    if is_owner(target, resource.access):
        refuse([Issue(path, f"`{target.user_id}` is already the owner", "owner")])
    pending = OwnershipTransfer(target.user_id, target.verified_email, by, now)
    return Change(changed(resource, now, pending_transfer=pending))


def withdraw(resource: Resource, step: TransferStep, *, now: datetime) -> Change:
    """Remove the request: the owner cancels or the pending owner declines. Raises Conflict without one, IllegalMove."""
    _step(resource, step)
    return Change(changed(resource, now, pending_transfer=None))


def lapse(resource: Resource, *, now: datetime) -> Change:
    """Remove the request because a party of it left. It is not a step, so it is legal in every state."""
    return Change(changed(resource, now, pending_transfer=None))


def accept(resource: Resource, new_owner: Principal, former_email: str | None, *, now: datetime) -> Change:
    """Make the pending owner the owner; a private resource is then shared with the former owner.

    `former_email` is the former owner's address; without it the resource is not shared. Raises Conflict when no
    request is pending, IllegalMove.
    """
    _step(resource, TransferStep.ACCEPT)
    old = resource.access
    shared = tuple(entry for entry in old.shared_with if not _grants_to(entry, new_owner))
    if old.visibility == "private" and former_email is not None:
        shared = (*_without(shared, former_email), _former(old, former_email, new_owner, now))
    access = attrs.evolve(
        old, shared_with=shared, owner_user_id=new_owner.user_id, owner_email=new_owner.verified_email
    )
    return Change(changed(resource, now, pending_transfer=None, access=access))


def _step(resource: Resource, step: TransferStep) -> None:
    move(resource.status, Operation.EDIT)
    pending = resource.pending_transfer is not None
    if step not in TABLE[pending]:
        state = "an ownership transfer is already pending" if pending else "no ownership transfer is pending"
        raise Conflict(state, {"reason": REASONS[pending], "legal": [str(legal) for legal in TABLE[pending]]})


def _former(old: AccessConfig, email: str, new_owner: Principal, now: datetime) -> SharedUser:
    return SharedUser(email, iso(now), new_owner.user_id, old.owner_user_id)


def _without(shared: tuple[SharedUser, ...], email: str) -> Iterator[SharedUser]:
    return (entry for entry in shared if entry.email != email)


def _grants_to(entry: SharedUser, principal: Principal) -> bool:
    """Whether the entry gives rights to this principal."""
    if entry.user_id is not None:
        return entry.user_id == principal.user_id
    return entry.email == principal.verified_email
