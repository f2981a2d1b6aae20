"""The transfer of ownership: the table, the parties, and the access after an acceptance."""

import attrs
import pytest
from hypothesis import assume, given

from wfcore.domain.kernel.errors import Conflict, Invalid
from wfcore.domain.resources import ownership
from wfcore.domain.resources.access import AccessConfig, Principal, SharedUser, derive
from wfcore.domain.resources.lifecycle import IllegalMove, Status
from wfcore.domain.resources.ownership import PARTY, TABLE, TransferStep
from wfcore.domain.resources.resource import Change, OwnershipTransfer, Resource
from wfcore.testing.contracts.storage.values import (
    FOR_ALL,
    ORG,
    access_configs,
    at,
    new_resource,
    principal,
    principals,
)

OWNER, TARGET, THIRD = (principal(name, f"{name}@x.org") for name in ("owner", "heir", "third"))
PRIVATE = AccessConfig("private", {}, (), "owner", "owner@x.org")
PENDING = OwnershipTransfer("heir", "heir@x.org", "owner", at(1))


def resource(pending: bool, access: AccessConfig = PRIVATE, status: Status = Status.ACTIVE) -> Resource:
    made = new_resource(1, access=access, status=status)
    return attrs.evolve(made, pending_transfer=PENDING) if pending else made


def take(step: TransferStep, old: Resource) -> Change:
    if step is TransferStep.ASK:
        return ownership.request(old, TARGET, by="owner", path="userId", now=at(2))
    if step is TransferStep.ACCEPT:
        return ownership.accept(old, TARGET, "owner@x.org", now=at(2))
    return ownership.withdraw(old, step, now=at(2))


@pytest.mark.parametrize("pending", TABLE)
@pytest.mark.parametrize("step", TransferStep)
def test_the_table_of_steps(pending: bool, step: TransferStep) -> None:
    """A step in the table leads to its state; every other step is a conflict with a reason."""
    old = resource(pending)
    if step in TABLE[pending]:
        new = take(step, old).resource
        assert (new.pending_transfer is not None) == TABLE[pending][step]
        assert (new.revision, new.updated_at) == (old.revision + 1, at(2))
    else:
        with pytest.raises(Conflict) as error:
            take(step, old)
        assert error.value.info["reason"] == ("transfer_pending" if pending else "no_transfer")
        assert error.value.info["legal"] == [str(legal) for legal in TABLE[pending]]
    assert PARTY.keys() == set(TransferStep)


@pytest.mark.parametrize("step", TransferStep)
def test_a_deleted_resource_cannot_be_transferred(step: TransferStep) -> None:
    """A step is an edit, and is refused where an edit is refused."""
    with pytest.raises(IllegalMove):
        take(step, resource(step is not TransferStep.ASK, status=Status.DELETED))


def test_a_request_does_not_change_access() -> None:
    """A request records who requested it, of whom and when; withdrawing it restores the resource."""
    old = resource(pending=False)
    requested = take(TransferStep.ASK, old).resource
    assert requested.pending_transfer == attrs.evolve(PENDING, requested_at=at(2))
    assert requested.access == old.access
    for step in (TransferStep.CANCEL, TransferStep.DECLINE):
        back = take(step, requested).resource
        assert attrs.evolve(back, revision=1, updated_at=old.updated_at) == old


def test_the_owner_cannot_be_the_target() -> None:
    """A request for the current owner is invalid."""
    with pytest.raises(Invalid):
        ownership.request(resource(pending=False), OWNER, by="owner", path="email", now=at(2))


def test_who_is_the_owner() -> None:
    """The owner matches by user id or, without one, by verified e-mail; others do not match."""
    assert ownership.is_owner(OWNER, PRIVATE)
    assert not ownership.is_owner(principal("x", "owner@x.org"), PRIVATE)
    by_email = attrs.evolve(PRIVATE, owner_user_id=None)
    assert ownership.is_owner(principal("x", "Owner@x.org"), by_email)
    assert not ownership.is_owner(principal("x", "owner@x.org", verified=False), by_email)
    nobody = attrs.evolve(PRIVATE, owner_user_id=None, owner_email=None)
    assert not ownership.is_owner(principal("x"), nobody)


def test_who_is_the_pending_owner() -> None:
    """The pending owner matches by user id; another user with the same e-mail does not."""
    assert ownership.is_pending_owner(TARGET, resource(pending=True))
    assert not ownership.is_pending_owner(TARGET, resource(pending=False))
    assert not ownership.is_pending_owner(principal("x", "heir@x.org"), resource(pending=True))
    assert not ownership.is_pending_owner(OWNER, resource(pending=True))


def test_the_former_owner_of_a_private_resource_can_use_it() -> None:
    """On acceptance the former owner is added to `sharedWith`, once, and the new owner is removed from it."""
    entries = tuple(SharedUser(f"{name}@x.org", "", "owner") for name in ("heir", "owner", "third"))
    access = take(TransferStep.ACCEPT, resource(True, attrs.evolve(PRIVATE, shared_with=entries))).resource.access
    assert (access.owner_user_id, access.owner_email) == ("heir", "heir@x.org")
    assert access.shared_with == (
        entries[2],
        SharedUser("owner@x.org", ownership.iso(at(2)), "heir", "owner"),
    )


def test_a_former_owner_without_an_address_cannot_be_shared_with() -> None:
    """An entry needs an e-mail."""
    old = resource(True, attrs.evolve(PRIVATE, owner_email=None))
    assert ownership.accept(old, TARGET, None, now=at(2)).resource.access.shared_with == ()


def test_a_shared_resource_keeps_its_grants() -> None:
    """The owner has no rights on a shared resource, so the grants do not change."""
    access = take(TransferStep.ACCEPT, resource(True, attrs.evolve(FOR_ALL, owner_user_id="owner"))).resource.access
    assert access == attrs.evolve(FOR_ALL, owner_user_id="heir", owner_email="heir@x.org")


@given(config=access_configs, heir=principals, other=principals)
def test_an_acceptance_keeps_the_rights_of_others(config: AccessConfig, heir: Principal, other: Principal) -> None:
    """The new owner manages a private resource; only the former owner loses a right, and can still use it."""
    pending = OwnershipTransfer(heir.user_id, None, "owner", at(1))
    old = attrs.evolve(new_resource(1, access=config, status=Status.ACTIVE), pending_transfer=pending)
    former = config.owner_email or (f"{config.owner_user_id}@x.org" if config.owner_user_id else None)
    new = ownership.accept(old, heir, former, now=at(2)).resource.access
    assert ownership.is_owner(heir, new)
    assert derive(heir, new).can_manage or config.visibility == "shared"
    displaced = {entry.user_id for entry in config.shared_with if entry.email == former}
    # An entry has one e-mail: those of the former and the new owner are removed or replaced.
    assume(other.user_id not in displaced and other.email not in (former, heir.email))
    before, after = derive(other, config), derive(other, new)
    if config.visibility == "shared":
        assert before == after
    elif not ownership.is_owner(other, config):
        assert after.can_use >= before.can_use
        assert not after.can_manage or ownership.is_owner(other, new)
    elif config.owner_user_id == other.user_id:
        assert after.can_use


def test_a_transfer_changes_only_access_and_request() -> None:
    """A transfer changes only the owner, the sharing and the request."""
    old, new = resource(pending=True), take(TransferStep.ACCEPT, resource(pending=True)).resource
    same = attrs.evolve(
        new, access=old.access, pending_transfer=PENDING, revision=old.revision, updated_at=old.updated_at
    )
    assert same == old
    assert new.org_uuid == ORG
    assert not derive(THIRD, new.access).visible


@pytest.mark.parametrize("status", Status)
def test_a_request_lapses_in_every_state(status: Status) -> None:
    """The request of a member who left is removed, from a deleted resource too."""
    lapsed = ownership.lapse(resource(pending=True, status=status), now=at(2)).resource
    assert (lapsed.pending_transfer, lapsed.access, lapsed.status) == (None, PRIVATE, status)
