"""Ownership transfers and access explanations (interface, PendingOwnershipTransfer, AccessConfig)."""

from typing import Any

import pytest
from bench import Bench, paths

from wfcore.domain.kernel.errors import Conflict, Forbidden, Invalid, Malformed, NotFound

pytestmark = pytest.mark.anyio

PRIVATE = {"visibility": "private"}

BAD_TARGETS: list[tuple[Any, Any, str, str]] = [
    ({}, Malformed, "userId", "required"),
    ({"userId": 1}, Malformed, "userId", "type"),
    ({"userId": "other", "email": "other@x.org"}, Invalid, "email", "exclusive"),
    ({"userId": "nobody"}, Invalid, "userId", "member"),
    ({"email": "nobody@x.org"}, Invalid, "email", "member"),
    ({"email": "\u212a@x.org"}, Invalid, "email", "member"),
    ({"userId": "me"}, Invalid, "userId", "owner"),
    ({"email": "me@x.org"}, Invalid, "email", "owner"),
    ({"userId": "other", "x": 1}, Invalid, "x", "unknown"),
]


@pytest.fixture(params=["workflows", "skills"])
async def area(request: pytest.FixtureRequest, bench: Bench) -> Any:
    """The use cases of either kind; `me`, `other` and `third` are members."""
    for name in ("me", "other", "third"):
        await bench.core.directory.add_member(bench.org, name, f"{name}@x.org")
    return getattr(bench.core, request.param)


async def offered(bench: Bench, area: Any, access: Any = None) -> int:
    """A resource of `me` whose ownership is offered to `other`."""
    number: int = (await area.create(bench.me, name="r", access=access or PRIVATE)).id
    await area.transfer_ownership(bench.me, number, user_id="other")
    return number


class TestTransfer:
    """Offer, accept, decline, cancel."""

    async def test_an_accepted_transfer_changes_the_owner(self, bench: Bench, area: Any) -> None:
        """The new owner manages; the old one of a private resource keeps use; the transfer is gone."""
        number = await offered(bench, area)
        view = await area.accept_transfer(bench.other, number)
        access = view.to_wire()["accessConfig"]
        assert (access["ownerUserId"], access["ownerEmail"]) == ("other", "other@x.org")
        (entry,) = access["sharedWith"]
        assert (entry["email"], entry["userId"], entry["addedBy"]) == ("me@x.org", "me", "other")
        assert "pendingOwnershipTransfer" not in view.to_wire()
        assert "variation" in view.to_wire()
        seen = (await area.get(bench.me, number)).to_wire()
        assert (seen["canUse"], seen["canManage"], seen["manageDenial"]) == (True, False, "not_owner")
        assert (await area.get(bench.other, number)).access.can_manage

    async def test_a_pending_transfer_changes_nothing_yet(self, bench: Bench, area: Any) -> None:
        """`pendingOwnershipTransfer` shows both users and the time; the pending owner gets no access yet."""
        number = await offered(bench, area)
        shown = (await area.get(bench.me, number)).to_wire()["pendingOwnershipTransfer"]
        assert shown.pop("requestedAt").endswith("Z")
        assert shown == {
            "pendingOwnerUserId": "other",
            "pendingOwnerEmail": "other@x.org",
            "requestedByUserId": "me",
        }
        with pytest.raises(NotFound):
            await area.get(bench.other, number)
        assert await area.page(bench.other) == []

    async def test_a_transfer_by_email(self, bench: Bench, area: Any) -> None:
        """Letters match in either case; the response shows the transfer."""
        number = (await area.create(bench.me, name="r")).id
        view = await area.transfer_ownership(bench.me, number, email="OTHER@x.org")
        assert view.to_wire()["pendingOwnershipTransfer"]["pendingOwnerUserId"] == "other"

    async def test_a_declined_or_cancelled_transfer_leaves_nothing(self, bench: Bench, area: Any) -> None:
        """Owner and access are unchanged, and another transfer can be made."""
        number = await offered(bench, area)
        before = (await area.get(bench.me, number)).resource.access
        declined = await area.decline_transfer(bench.other, number)
        assert "pendingOwnershipTransfer" not in declined.to_wire()
        assert "variation" not in declined.to_wire()
        await area.transfer_ownership(bench.me, number, user_id="third")
        cancelled = await area.cancel_transfer(bench.me, number)
        assert cancelled.resource.pending_transfer is None
        assert cancelled.resource.access == before
        for refused in (
            area.accept_transfer(bench.other, number),
            area.decline_transfer(bench.person("third"), number),
        ):
            with pytest.raises(NotFound):
                await refused

    async def test_one_transfer_at_a_time(self, bench: Bench, area: Any) -> None:
        """A second one is 409 and the first one stays; without one there is nothing to cancel."""
        number = await offered(bench, area)
        with pytest.raises(Conflict) as error:
            await area.transfer_ownership(bench.me, number, user_id="third")
        assert error.value.info["reason"] == "transfer_pending"
        pending = (await area.get(bench.me, number)).resource.pending_transfer
        assert pending.pending_owner_user_id == "other"
        await area.cancel_transfer(bench.me, number)
        with pytest.raises(Conflict) as error:
            await area.cancel_transfer(bench.me, number)
        assert error.value.info["reason"] == "no_transfer"

    async def test_only_the_owner_offers_and_cancels(self, bench: Bench, area: Any) -> None:
        """Other managers are refused; for strangers the resource does not exist."""
        number = await offered(
            bench, area, {"visibility": "shared", "groupPermissions": {bench.org: {"use": True, "manage": True}}}
        )
        manager = bench.person("third")
        for refused in (
            area.transfer_ownership(manager, number, user_id="third"),
            area.cancel_transfer(manager, number),
            area.transfer_ownership(bench.other, number, user_id="other"),
            area.cancel_transfer(bench.other, number),
        ):
            with pytest.raises(Forbidden) as error:
                await refused
            assert error.value.info == {"reason": "not_owner"}
        hidden = (await area.create(bench.me, name="r", access=PRIVATE)).id
        for unknown in (hidden, 99):
            with pytest.raises(NotFound):
                await area.transfer_ownership(manager, unknown, user_id="third")
            with pytest.raises(NotFound):
                await area.cancel_transfer(manager, unknown)

    async def test_only_the_pending_owner_accepts_or_declines(self, bench: Bench, area: Any) -> None:
        """For everyone else there is no transfer: the owner, managers and strangers."""
        number = await offered(
            bench, area, {"visibility": "shared", "groupPermissions": {bench.org: {"use": True, "manage": True}}}
        )
        etag = (await area.get(bench.me, number)).etag
        impostor = bench.person("impostor", email="other@x.org")
        answers = []
        for who in (bench.me, bench.person("third"), impostor):
            for call in (area.accept_transfer, area.decline_transfer):
                for asked_for in (number, 99):
                    with pytest.raises(NotFound) as error:
                        await call(who, asked_for)
                    answers.append((error.value.message, error.value.info))
        assert len(set(map(str, answers))) == 1
        assert (await area.get(bench.me, number)).etag == etag

    async def test_bad_targets(self, bench: Bench, area: Any) -> None:
        """The target must be a member, named in exactly one way, and not the owner; otherwise nothing is written."""
        view = await area.create(bench.me, name="r")
        for body, error, path, rule in BAD_TARGETS:
            with pytest.raises(error) as found:
                await area.transfer_ownership(bench.me, view.id, body)
            assert paths(found) == {(path, rule)}
        assert (await area.get(bench.me, view.id)).etag == view.etag

    async def test_a_deleted_resource_is_not_transferred(self, bench: Bench, area: Any) -> None:
        """409 for the owner; for the pending owner, who cannot manage it, it does not exist any more."""
        number = await offered(bench, area)
        await area.delete(bench.me, number)
        for refused in (
            area.transfer_ownership(bench.me, number, user_id="other"),
            area.cancel_transfer(bench.me, number),
        ):
            with pytest.raises(Conflict) as error:
                await refused
            assert error.value.info["reason"] == "deleted"
        with pytest.raises(NotFound):
            await area.accept_transfer(bench.other, number)
        await area.restore(bench.me, number)
        assert (await area.accept_transfer(bench.other, number)).access.can_manage

    async def test_a_new_owner_without_access_sees_no_content(self, bench: Bench, area: Any) -> None:
        """Ownership of a shared resource gives no access: the response names the owner and has no variation."""
        team = (await bench.core.directory.create_group(bench.org, "team")).id
        mine = bench.person("me", groups=[team])
        access = {"visibility": "shared", "groupPermissions": {team: {"use": True, "manage": True}}}
        number = (await area.create(mine, name="r", access=access)).id
        await area.transfer_ownership(mine, number, user_id="other")
        wire = (await area.accept_transfer(bench.other, number)).to_wire()
        assert wire["accessConfig"]["ownerUserId"] == "other"
        assert (wire["canUse"], wire["canManage"], "variation" in wire) == (False, False, False)
        with pytest.raises(NotFound):
            await area.get(bench.other, number)
        assert (await area.get(mine, number)).access.can_manage


class TestAccessExplained:
    """Who can do what, and by which grant."""

    async def test_every_grant_is_explained(self, bench: Bench, area: Any) -> None:
        """A private resource: the owner and its shares; a shared one: its groups."""
        access = {**PRIVATE, "sharedWith": [{"email": "Other@x.org"}, {"email": "third@x.org", "userId": "third"}]}
        number = (await area.create(bench.me, name="r", access=access)).id
        lines = (await area.explain_access(bench.me, number)).to_wire()["grants"]
        assert [tuple(line.values()) for line in lines] == [
            ("user", "me", True, True, "ownerUserId"),
            ("email", "other@x.org", True, False, "sharedWith"),
            ("user", "third", True, False, "sharedWith"),
        ]
        shared = (await area.create(bench.me, name="r")).id
        assert (await area.explain_access(bench.me, shared)).to_wire() == {
            "grants": [{"subjectType": "group", "subject": bench.org, "use": True, "manage": True, "rule": "group"}]
        }

    async def test_a_member_is_explained(self, bench: Bench, area: Any) -> None:
        """The access of this member by its row, and only the grants that it follows from."""
        number = (
            await area.create(bench.me, name="r", access={**PRIVATE, "sharedWith": [{"email": "other@x.org"}]})
        ).id
        explained = (await area.explain_access(bench.me, number, user_id="other")).to_wire()
        assert explained.pop("grants") == [
            {"subjectType": "email", "subject": "other@x.org", "use": True, "manage": False, "rule": "sharedWith"}
        ]
        assert explained == {"userId": "other", "canUse": True, "canManage": False, "manageDenial": "not_owner"}
        nothing = (await area.explain_access(bench.me, number, user_id="third")).to_wire()
        assert (nothing["canUse"], nothing["canManage"], nothing["grants"]) == (False, False, [])
        with pytest.raises(NotFound):
            await area.explain_access(bench.me, number, user_id="nobody")

    async def test_explanations_require_manage(self, bench: Bench, area: Any) -> None:
        """Users are refused; for strangers the resource does not exist."""
        number = (
            await area.create(bench.me, name="r", access={**PRIVATE, "sharedWith": [{"email": "other@x.org"}]})
        ).id
        with pytest.raises(Forbidden):
            await area.explain_access(bench.other, number, user_id="other")
        with pytest.raises(NotFound):
            await area.explain_access(bench.person("third"), number)
