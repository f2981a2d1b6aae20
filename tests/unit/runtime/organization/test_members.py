"""Members, groups and tokens through the library: access, refusals, and that no resource loses its last manager."""

from typing import Any

import attrs
import pytest
from bench import Bench
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wfcore.domain.kernel.errors import Conflict, Forbidden, Invalid, Malformed, NotFound, Unauthenticated, WfcoreError
from wfcore.domain.people.people import Member
from wfcore.domain.resources.access import TOKEN_SCOPES, AccessConfig, Principal, Role, derive
from wfcore.domain.resources.lifecycle import Status
from wfcore.runtime.organization.directory import principal_of

pytestmark = pytest.mark.anyio

ONLY_OWNER = {"visibility": "private"}


@pytest.fixture
async def admin(bench: Bench) -> Principal:
    return await bench.joined("admin", "admin")


def shared_with(*groups: str) -> dict[str, Any]:
    return {"visibility": "shared", "groupPermissions": {g: {"use": True, "manage": True} for g in groups}}


async def refused(call: Any, kind: type[WfcoreError]) -> dict[str, Any]:
    with pytest.raises(kind) as error:
        await call
    return error.value.info


class TestMembers:
    """Members of an organization, by user id."""

    async def test_create_read_change_delete_a_member(self, bench: Bench, admin: Principal) -> None:
        """A created member is read, changed field by field, listed and deleted; e-mails become lower case."""
        members = bench.core.members
        made = await members.create(admin, userId="ann", email="Ann@X.org", name="Ann")
        shown = {"userId": "ann", "email": "ann@x.org", "name": "Ann", "role": "member", "groups": []}
        assert made.to_wire() == shown
        team = (await bench.core.groups.create(admin, name="team")).id
        changed = await members.patch(admin, "ann", {"groups": [team], "name": None, "role": "admin"})
        assert changed.to_wire() == shown | {"groups": [team], "name": None, "role": "admin"}
        assert (await members.get(bench.other, "ann")).to_wire() == changed.to_wire()
        assert [m.id for m in await members.page(bench.other)] == ["admin", "ann"]
        assert [m.id for m in await members.page(bench.other, group=team)] == ["ann"]
        assert [m.id for m in await members.page(bench.other, group=bench.org)] == ["admin", "ann"]
        assert [m.id for m in await members.page(bench.other, query="X.org", group=team)] == ["ann"]
        assert (await members.delete(admin, "ann")).to_wire() == changed.to_wire()
        await refused(members.get(bench.other, "ann"), NotFound)

    @pytest.mark.parametrize(
        ("body", "kind"),
        [
            ({}, Malformed),
            ({"userId": 7}, Malformed),
            ({"userId": ".."}, Invalid),
            ({"userId": ""}, Invalid),
            ({"userId": "x" * 256}, Invalid),
            ({"userId": "u", "email": "ü@x.org"}, Invalid),
            ({"userId": "u", "role": "king"}, Invalid),
            ({"userId": "u", "groups": ["no uuid"]}, Invalid),
            ({"userId": "u", "groups": ["00000000-0000-4000-8000-000000000000"]}, Invalid),
            ({"userId": "u", "emailVerified": True}, Invalid),
            ({"userId": "u", "name": ""}, Invalid),
        ],
    )
    async def test_a_body_is_checked(self, bench: Bench, admin: Principal, body: Any, kind: type) -> None:
        """Errors have their paths, and nothing is written."""
        info = await refused(bench.core.members.create(admin, body), kind)
        assert info["errors"]
        assert [m.id for m in await bench.core.members.page(admin)] == ["admin"]

    async def test_user_ids_and_emails_are_unique(self, bench: Bench, admin: Principal) -> None:
        """A second member with the same user id or e-mail is a Conflict; one's own address is free."""
        members = bench.core.members
        await members.create(admin, userId="ann", email="ann@x.org")
        for body in ({"userId": "ann"}, {"userId": "bob", "email": "ANN@x.org"}):
            assert (await refused(members.create(admin, body), Conflict))["reason"] == "duplicate"
        assert (await refused(members.patch(admin, "ann", email="admin@x.org"), Conflict))["reason"] == "duplicate"
        assert (await members.patch(admin, "ann", email="ann@x.org")).to_wire()["email"] == "ann@x.org"

    async def test_a_duplicate_address_of_an_older_store(self, bench: Bench, admin: Principal) -> None:
        """An older store can have one twice: other fields can change, and the address can be written back."""
        for name in ("ann", "bob"):
            async with bench.core.ports.storage.transaction(bench.org) as work:
                await work.directory.add_member(Member(name, "team@x.org", None, Role.MEMBER, frozenset()))
        for name in ("ann", "bob"):
            changed = await bench.core.members.patch(admin, name, name="One of two", email="team@x.org")
            assert changed.to_wire()["email"] == "team@x.org"

    async def test_the_role_is_checked_first(self, bench: Bench) -> None:
        """A member with the scope gets 403 with its role, for any body and any target."""
        await bench.joined("ann")
        members, groups, me = bench.core.members, bench.core.groups, bench.me
        for call in (
            members.create(me, {"x": 1}),
            members.patch(me, "ann", {"x": 1}),
            members.patch(me, "nobody", {}),
            members.delete(me, "ann"),
            groups.create(me, {}),
            groups.patch(me, "none", {}),
            groups.delete(me, "none"),
            bench.core.audit.page(me),
            bench.core.tokens.page(me, user="ann"),
        ):
            assert await refused(call, Forbidden) == {"role": "member"}

    async def test_only_an_owner_grants_or_revokes_the_role_owner(
        self, bench: Bench, admin: Principal, boss: Principal
    ) -> None:
        """An admin can neither promote, demote nor remove an owner; an owner can."""
        members = bench.core.members
        await members.create(admin, userId="ann")
        for call in (
            members.create(admin, userId="eve", role="owner"),
            members.patch(admin, "ann", role="owner"),
            members.patch(admin, "boss", role="member"),
            members.delete(admin, "boss"),
        ):
            assert await refused(call, Forbidden) == {"role": "admin"}
        assert (await members.patch(admin, "boss", name="The Boss")).member.role is Role.OWNER
        assert (await members.patch(boss, "ann", role="owner")).member.role is Role.OWNER
        assert (await members.delete(boss, "ann")).id == "ann"

    async def test_the_last_owner_stays(self, bench: Bench, boss: Principal) -> None:
        """Demoting or removing the last owner is a Conflict; with a second one it succeeds."""
        members = bench.core.members
        for call in (members.patch(boss, "boss", role="admin"), members.delete(boss, "boss")):
            with pytest.raises(Conflict, match="make another member an owner first") as error:
                await call
            assert error.value.info == {"reason": "last_owner"}
        await members.create(boss, userId="ann", role="owner")
        assert (await members.patch(boss, "boss", role="admin")).member.role is Role.ADMIN

    async def test_the_last_member_does_not_remove_itself(self, bench: Bench, admin: Principal) -> None:
        """The implicit group, which can manage shared resources, keeps a member."""
        assert (await refused(bench.core.members.delete(admin, "admin"), Conflict))["reason"] == "last_member"

    async def test_a_removed_member_loses_its_tokens(self, bench: Bench, admin: Principal) -> None:
        """Its tokens stop working, and do not return with a new member of the same user id."""
        await bench.joined("ann")
        token = await bench.core.directory.create_token(bench.org, "ann", scopes=TOKEN_SCOPES)
        assert (await bench.core.directory.authenticate(token)).user_id == "ann"
        await bench.core.members.delete(admin, "ann")
        for _ in range(2):
            with pytest.raises(Unauthenticated):
                await bench.core.directory.authenticate(token)
            await bench.joined("ann")

    async def test_a_request_of_a_member_who_has_left_meanwhile(self, bench: Bench, admin: Principal) -> None:
        """A removal between the read of its token and its write leaves no private workflow that nobody manages."""
        await bench.joined("ann")
        ann = await bench.core.directory.authenticate(
            await bench.core.directory.create_token(bench.org, "ann", scopes=TOKEN_SCOPES)
        )
        made = await bench.core.workflows.create(ann, name="Shared")
        await bench.core.members.delete(admin, "ann")
        for call in (
            bench.core.workflows.patch(ann, made.id, access_config=ONLY_OWNER),
            bench.core.workflows.create(ann, name="Mine", access_config=ONLY_OWNER),
        ):
            await refused(call, Unauthenticated)
        assert (await bench.core.workflows.get(admin, made.id)).resource.access.visibility == "shared"

    async def test_a_request_of_a_member_who_has_lost_a_group_meanwhile(self, bench: Bench, admin: Principal) -> None:
        """It cannot leave a workflow to the group, which has no members any more."""
        team = (await bench.core.groups.create(admin, name="team")).id
        await bench.core.members.create(admin, userId="ann", groups=[team])
        ann = await bench.core.directory.authenticate(
            await bench.core.directory.create_token(bench.org, "ann", scopes=TOKEN_SCOPES)
        )
        made = await bench.core.workflows.create(ann, name="Shared")
        await bench.core.members.patch(admin, "ann", groups=[])
        await refused(bench.core.workflows.patch(ann, made.id, access_config=shared_with(team)), Invalid)

    async def test_an_email_from_an_admin_counts_as_verified(self, bench: Bench, admin: Principal) -> None:
        """Other changes leave it unverified."""
        async with bench.core.ports.storage.transaction(bench.org) as work:
            member = (await bench.core.members.get(admin, "admin")).member
            await work.directory.add_member(
                attrs.evolve(member, user_id="ann", email="ann@x.org", email_verified=False)
            )
        assert (await bench.core.members.patch(admin, "ann", name="Ann")).member.email_verified is False
        assert (await bench.core.members.patch(admin, "ann", email="ann@x.org")).member.email_verified is True


class TestNothingLosesItsLastManager:
    """Deleting or emptying the last managing group, or removing the owning member, is a Conflict."""

    async def test_the_owning_member_stays(self, bench: Bench, admin: Principal) -> None:
        """The Conflict names the private resources; once they are shared or deleted, the member can be removed."""
        ann = await bench.joined("ann")
        flow = await bench.core.workflows.create(ann, name="mine", access=ONLY_OWNER)
        skill = await bench.core.skills.create(ann, name="mine too", accessConfig=ONLY_OWNER)
        info = await refused(bench.core.members.delete(admin, "ann"), Conflict)
        owned = [{"type": "skill", "id": skill.id}, {"type": "workflow", "id": flow.id}]
        assert info == {"reason": "unmanaged", "resources": owned}
        assert (await bench.core.members.get(admin, "ann")).id == "ann"
        await bench.core.workflows.patch(ann, flow.id, access=shared_with(bench.org))
        await bench.core.skills.delete(ann, skill.id)
        await bench.core.members.delete(admin, "ann")

    async def test_the_last_managing_group_stays_and_is_not_emptied(self, bench: Bench, admin: Principal) -> None:
        """While a resource needs the group it cannot be deleted, and its last member stays in it."""
        team = (await bench.core.groups.create(admin, name="team")).id
        ann = await bench.joined("ann", "member", team)
        number = (await bench.core.workflows.create(ann, name="ours", access=shared_with(team))).id
        needed = {"reason": "unmanaged", "resources": [{"type": "workflow", "id": number}]}
        members, groups = bench.core.members, bench.core.groups
        for call in (groups.delete(admin, team), members.patch(admin, "ann", groups=[]), members.delete(admin, "ann")):
            assert await refused(call, Conflict) == needed
        await bench.joined("bob", "member", team)
        assert (await members.patch(admin, "ann", groups=[])).to_wire()["groups"] == []
        assert await refused(groups.delete(admin, team), Conflict) == needed

    async def test_an_email_that_owns_stays(self, bench: Bench, admin: Principal) -> None:
        """A resource owned by an address alone keeps the member with that address, and the address."""
        await bench.joined("ann")
        made = (await bench.core.workflows.create(bench.me, name="f")).resource
        owned = attrs.evolve(made, access=AccessConfig("private", {}, (), None, "ann@x.org"), revision=2)
        async with bench.core.ports.storage.transaction(bench.org) as work:
            await work.workflows.save(made, owned)
        needed = {"reason": "unmanaged", "resources": [{"type": "workflow", "id": made.id}]}
        members = bench.core.members
        for call in (members.delete(admin, "ann"), members.patch(admin, "ann", email="else@x.org")):
            assert await refused(call, Conflict) == needed

    async def test_a_deleted_group_can_be_written_back(self, bench: Bench, admin: Principal) -> None:
        """An access configuration can be written back as it was read, although a group in it was deleted."""
        team = (await bench.core.groups.create(admin, name="team")).id
        number = (await bench.core.workflows.create(bench.me, name="f", access=shared_with(bench.org, team))).id
        await bench.core.groups.delete(admin, team)
        read = (await bench.core.workflows.get(bench.me, number)).to_wire()["accessConfig"]
        assert team in read["groupPermissions"]
        await bench.core.workflows.patch(bench.me, number, accessConfig=read)
        await refused(bench.core.workflows.create(bench.me, name="g", access=shared_with(bench.org, team)), Invalid)


class TestGroups:
    """Groups by id, without the implicit group of all members."""

    async def test_create_read_change_delete_a_group(self, bench: Bench, admin: Principal) -> None:
        """Created, renamed, listed, read by every member, deleted: its members leave it."""
        groups = bench.core.groups
        made = await groups.create(admin, name="team")
        await bench.joined("ann", "member", made.id)
        renamed = await groups.patch(admin, made.id, name="crew")
        assert renamed.to_wire() == {"id": made.id, "name": "crew"}
        assert [g.to_wire() for g in await groups.page(bench.other)] == [renamed.to_wire()]
        assert (await groups.patch(admin, made.id, {})).to_wire() == renamed.to_wire()
        assert (await groups.delete(admin, made.id)).to_wire() == renamed.to_wire()
        await refused(groups.get(bench.other, made.id), NotFound)
        assert (await bench.core.members.get(admin, "ann")).to_wire()["groups"] == []

    async def test_the_implicit_group_cannot_be_managed(self, bench: Bench, admin: Principal) -> None:
        """It is neither listed nor found, changed or deleted."""
        groups = bench.core.groups
        assert await groups.page(admin) == []
        for call in (
            groups.get(admin, bench.org),
            groups.patch(admin, bench.org, name="all"),
            groups.delete(admin, bench.org),
        ):
            await refused(call, NotFound)

    @pytest.mark.parametrize("name", ["", "x" * 201])
    async def test_a_group_has_a_name(self, bench: Bench, admin: Principal, name: str) -> None:
        """1 to 200 characters."""
        await refused(bench.core.groups.create(admin, name=name), Invalid)


class TestTokens:
    """Personal access tokens (interface, Authentication 2)."""

    async def test_a_token_is_shown_once_and_works_until_revoked(self, bench: Bench) -> None:
        """Only the response to its creation has the token; a second revocation changes nothing."""
        ann = await bench.joined("ann")
        made = await bench.core.tokens.create(ann, name="ci", scopes=["skills:read", "workflows:read", "skills:read"])
        text = made.to_wire()["token"]
        caller = await bench.core.directory.authenticate(text)
        assert (caller.user_id, caller.scopes) == ("ann", {"skills:read", "workflows:read"})
        (listed,) = await bench.core.tokens.page(ann)
        assert listed.to_wire() == {key: value for key, value in made.to_wire().items() if key != "token"}
        assert text not in repr(made)
        bench.clock.advance(5)
        gone = await bench.core.tokens.revoke(ann, made.id)
        assert gone.to_wire()["revokedAt"] == "2026-01-01T12:00:05.000Z"
        bench.clock.advance(5)
        assert await bench.core.tokens.revoke(ann, made.id) == gone == await bench.core.tokens.get(ann, made.id)
        with pytest.raises(Unauthenticated):
            await bench.core.directory.authenticate(text)

    async def test_a_token_expires(self, bench: Bench) -> None:
        """It works until the last moment before `expiresAt`."""
        ann = await bench.joined("ann")
        made = await bench.core.tokens.create(ann, name="ci", scopes=[], expires_in_seconds=10)
        assert made.to_wire()["expiresAt"] == "2026-01-01T12:00:10.000Z"
        bench.clock.advance(9.999)
        await bench.core.directory.authenticate(str(made.text))
        bench.clock.advance(0.001)
        with pytest.raises(Unauthenticated):
            await bench.core.directory.authenticate(str(made.text))

    async def test_a_token_ends_no_later_than_its_maker(self, bench: Bench) -> None:
        """The end of the credential bounds that of the token, and of the tokens that are made with it."""
        ann = await bench.joined("ann")
        first = await bench.core.tokens.create(ann, name="a", scopes=["tokens:write"], expires_in_seconds=10)
        maker = await bench.core.directory.authenticate(str(first.text))
        for seconds in ({}, {"expires_in_seconds": 60}):
            made = await bench.core.tokens.create(maker, name="b", scopes=[], **seconds)
            assert made.to_wire()["expiresAt"] == first.to_wire()["expiresAt"]
        short = await bench.core.tokens.create(maker, name="c", scopes=[], expires_in_seconds=5)
        assert short.to_wire()["expiresAt"] == "2026-01-01T12:00:05.000Z"

    async def test_a_token_cannot_exceed_its_creator(self, bench: Bench) -> None:
        """A missing scope is in `info.missing` and in the message; an implied scope is not missing."""
        ann = attrs.evolve(await bench.joined("ann"), scopes=frozenset({"tokens:write", "skills:write"}))
        wide = ["skills:read", "workflows:invoke", "members:write"]
        with pytest.raises(Forbidden, match=r"lacks: the scopes `workflows:invoke` and `members:write`$") as error:
            await bench.core.tokens.create(ann, name="t", scopes=wide)
        assert error.value.info == {"missing": ["workflows:invoke", "members:write"]}
        assert await bench.core.tokens.page(ann) == []
        await bench.core.tokens.create(ann, name="t", scopes=["skills:read", "tokens:write"])

    async def test_only_admins_see_the_tokens_of_others(self, bench: Bench, admin: Principal) -> None:
        """For others reading and revoking give the error of an unknown token; an admin lists and revokes it."""
        ann, bob = await bench.joined("ann"), await bench.joined("bob")
        made = await bench.core.tokens.create(ann, name="t", scopes=[])
        for number in (made.id, "nosuchid"):
            for call in (bench.core.tokens.get(bob, number), bench.core.tokens.revoke(bob, number)):
                assert await refused(call, NotFound) == {}
        assert await bench.core.tokens.page(bob) == []
        assert [t.id for t in await bench.core.tokens.page(admin, user="ann")] == [made.id]
        assert (await bench.core.tokens.revoke(admin, made.id)).row.revoked_at is not None

    async def test_only_members_have_tokens(self, bench: Bench) -> None:
        """A user of the embedding product who is not a member gets a Conflict."""
        info = await refused(bench.core.tokens.create(bench.me, name="t", scopes=[]), Conflict)
        assert info == {"reason": "not_a_member"}


class TestOrganizations:
    """Everything belongs to one organization."""

    async def test_organizations_see_nothing_of_each_others_people(self, bench: Bench, admin: Principal) -> None:
        """Members, groups, tokens and audit of another organization do not exist."""
        other = (await bench.core.directory.create_organization("Other")).uuid
        spy = bench.core.principal(other, "spy", role="owner")
        group = (await bench.core.groups.create(admin, name="team")).id
        token = (await bench.core.tokens.create(admin, name="t", scopes=[])).id
        core = bench.core
        assert [await core.members.page(spy), await core.groups.page(spy), await core.audit.page(spy)] == [[], [], []]
        assert await core.tokens.page(spy, user="admin") == []
        for call in (
            core.members.get(spy, "admin"),
            core.members.delete(spy, "admin"),
            core.groups.delete(spy, group),
            core.tokens.revoke(spy, token),
        ):
            await refused(call, NotFound)


PEOPLE = ("boss", "ann", "bob")
_moves = st.lists(
    st.tuples(
        st.sampled_from(["leave", "join", "remove", "dissolve", "demote"]),
        st.sampled_from(PEOPLE),
        st.integers(0, 1),
    ),
    max_size=8,
)


@given(_moves, st.sampled_from(["private", "first", "second", "both"]))
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_no_sequence_of_changes_leaves_a_resource_unmanaged(bench: Bench, moves: Any, how: str) -> None:
    """After any sequence every live resource has a member who can manage it, and an owner stays."""
    org = (await bench.core.directory.create_organization("Law")).uuid
    teams = [(await bench.core.directory.create_group(org, name)).id for name in ("a", "b")]
    people = {"boss": Role.OWNER, "ann": Role.MEMBER, "bob": Role.OWNER}
    for name, role in people.items():
        await bench.core.directory.add_member(org, name, f"{name}@x.org", role=role, groups=teams)
    boss = bench.core.principal(org, "boss", email="boss@x.org", groups=teams, role="owner")
    maker = bench.core.principal(org, "ann", email="ann@x.org", groups=teams)
    chosen = {"first": teams[:1], "second": teams[1:], "both": teams}
    access = ONLY_OWNER if how == "private" else shared_with(*chosen[how])
    await bench.core.workflows.create(maker, name="f", access=access)
    for move, name, index in moves:
        try:
            await _moved(bench, boss, move, name, teams[index])
        except (Conflict, NotFound, Invalid):
            continue
    async with bench.core.ports.storage.reading(org) as work:
        resource = await work.workflows.get(1)
        members = await work.directory.members(limit=9)
    assert resource
    assert resource.status is not Status.DELETED
    assert any(derive(principal_of(org, member), resource.access).can_manage for member in members)
    assert any(member.role is Role.OWNER for member in members)


async def _moved(bench: Bench, boss: Principal, move: str, name: str, team: str) -> None:
    members = bench.core.members
    if move == "remove":
        await members.delete(boss, name)
    elif move == "dissolve":
        await bench.core.groups.delete(boss, team)
    elif move == "demote":
        await members.patch(boss, name, role="member")
    else:
        now = set((await members.get(boss, name)).member.groups)
        await members.patch(boss, name, groups=sorted(now - {team} if move == "leave" else now | {team}))
