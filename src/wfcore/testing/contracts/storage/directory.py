"""The part of the storage contract for members, groups and tokens."""

import attrs
import pytest

from wfcore.domain.people.people import Group, Member
from wfcore.domain.resources.access import AccessConfig, GroupGrant, Role, SharedUser
from wfcore.domain.resources.lifecycle import Status
from wfcore.domain.resources.resource import Kind
from wfcore.ports.storage import Duplicate, Storage
from wfcore.testing.contracts.storage.values import (
    GROUP,
    ORG,
    OTHER_ORG,
    at,
    new_member,
    new_organization,
    new_resource,
    new_token,
)


class DirectoryContract:
    """Inherit `StorageContract`, not this class."""

    async def test_a_member_is_replaced_as_a_whole(self, store: Storage) -> None:
        """Add, or replace the member with the same user id: the member leaves omitted groups."""
        first = new_member("u1", groups=frozenset({"g1", "g2"}))
        second = Member("u1", None, None, Role.OWNER, frozenset({"g2"}), email_verified=False)
        async with store.transaction(ORG) as work:
            await work.directory.add_member(first)
            assert await work.directory.member("u1") == first
            await work.directory.add_member(second)
            assert await work.directory.member("u1") == second
            assert await work.directory.member_by_email("u1@x.org") is None
            assert await work.directory.member("u2") is None

    async def test_members_are_paged_by_user_id(self, store: Storage) -> None:
        """By user id, ascending, after a given one; of several with one e-mail address, the first is found."""
        everybody = [new_member(name, email="one@x.org") for name in ("a", "b", "c")]
        async with store.transaction(ORG) as work:
            for member in reversed(everybody):
                await work.directory.add_member(member)
            assert await work.directory.members(limit=2) == everybody[:2]
            assert await work.directory.members(limit=2, after="b") == everybody[2:]
            assert await work.directory.member_by_email("one@x.org") == everybody[0]

    async def test_members_are_filtered_by_group_and_role(self, store: Storage) -> None:
        """`members`: those in a group, those with a role, in the same order and pages."""
        async with store.transaction(ORG) as work:
            for name, groups in (("a", {"g1"}), ("b", {"g2"}), ("c", {"g1", "g2"})):
                await work.directory.add_member(new_member(name, groups=frozenset(groups)))
            await work.directory.add_member(Member("d", None, None, Role.OWNER, frozenset({"g1"})))
            assert [m.user_id for m in await work.directory.members(limit=9, group="g1")] == ["a", "c", "d"]
            assert [m.user_id for m in await work.directory.members(limit=1, after="a", group="g1")] == ["c"]
            assert [m.user_id for m in await work.directory.members(limit=9, role=Role.OWNER)] == ["d"]
            assert await work.directory.members(limit=9, group="g3") == []

    async def test_members_are_found_by_their_ids(self, store: Storage) -> None:
        """`members`: those with the given user ids, with their groups; unknown ids are ignored."""
        async with store.transaction(ORG) as work:
            found = [new_member(name, groups=frozenset({"g1"})) for name in ("a", "b", "c")]
            for member in found:
                await work.directory.add_member(member)
            assert await work.directory.members(limit=9, ids=["c", "x", "a"]) == [found[0], found[2]]
            assert await work.directory.members(limit=1, after="a", ids={"a", "b", "c"}) == [found[1]]
            assert await work.directory.members(limit=9, ids=[]) == []

    @pytest.mark.parametrize(
        ("query", "ids"),
        [("hopper", ["b"]), ("HOPPER", ["b"]), ("ADA", ["a", "d"]), ("@x.org", ["a", "d"]), ("%", ["c"]), ("_", []),
         ("É", ["d"]), ("é", []), ("zz", []), ("", ["a", "b", "c", "d"]), ("r" * 100_000, [])],
    )  # fmt: skip
    async def test_members_are_found_by_plain_text(self, store: Storage, query: str, ids: list[str]) -> None:
        """User id, name or e-mail contains it, ASCII letters in either case; it has no wildcards."""
        people = (("a", "ada@x.org", None), ("b", None, "Grace Hopper"), ("c", None, "100 %"), ("d", "z@x.org", "ÉAda"))
        async with store.transaction(ORG) as work:
            for user, email, name in people:
                await work.directory.add_member(Member(user, email, name, Role.MEMBER, frozenset()))
            assert [m.user_id for m in await work.directory.members(limit=9, query=query)] == ids

    async def test_found_members_have_pages(self, store: Storage) -> None:
        """`query` beside `group`, `limit` and `after`."""
        async with store.transaction(ORG) as work:
            for user, groups in (("u1", {"g1"}), ("u2", set[str]()), ("u3", {"g1"}), ("x4", {"g1"})):
                await work.directory.add_member(Member(user, None, None, Role.MEMBER, frozenset(groups)))
            found = await work.directory.members(limit=9, query="U", group="g1")
            assert [m.user_id for m in found] == ["u1", "u3"]
            found = await work.directory.members(limit=1, after="u1", query="u")
            assert [m.user_id for m in found] == ["u2"]

    async def test_the_names_of_members(self, store: Storage) -> None:
        """`member_names`: of those that are members of the organization."""
        found = [attrs.evolve(new_member("a"), name="Ann"), attrs.evolve(new_member("b"), name=None)]
        async with store.transaction(ORG) as work:
            for member in found:
                await work.directory.add_member(member)
        assert await store.member_names(ORG, ["b", "x", "a"]) == {"a": "Ann", "b": None}
        assert await store.member_names(ORG, []) == await store.member_names(OTHER_ORG, ["a"]) == {}

    async def test_a_removed_member_leaves_its_groups(self, store: Storage) -> None:
        """`remove_member`: delete the member and its group memberships; an unknown member is ignored."""
        async with store.transaction(ORG) as work:
            await work.directory.add_member(new_member("u1", groups=frozenset({"g1"})))
            for _ in range(2):
                await work.directory.remove_member("u1")
            assert await work.directory.member("u1") is None
            await work.directory.add_member(new_member("u1"))
            assert await work.directory.members(limit=9, group="g1") == []

    async def test_a_group_is_renamed_and_removed(self, store: Storage) -> None:
        """`rename_group` and `remove_group`: a removed group has no members; an unknown group is ignored."""
        async with store.transaction(ORG) as work:
            await work.directory.add_group(Group("g1", "old"))
            await work.directory.add_group(Group("g2", "other"))
            await work.directory.add_member(new_member("u1", groups=frozenset({"g1", "g2"})))
            await work.directory.rename_group(Group("g1", "new"))
            await work.directory.rename_group(Group("g9", "nobody"))
            assert await work.directory.groups() == [Group("g1", "new"), Group("g2", "other")]
            for _ in range(2):
                await work.directory.remove_group("g1")
            assert await work.directory.groups() == [Group("g2", "other")]
            assert await work.directory.member("u1") == new_member("u1", groups=frozenset({"g2"}))

    async def test_the_organization_is_renamed(self, store: Storage) -> None:
        """`rename_organization`: only this organization, and only when the transaction is committed."""
        other = await store.organization(OTHER_ORG)
        with pytest.raises(LookupError):
            async with store.transaction(ORG) as work:
                await work.directory.rename_organization("never")
                raise LookupError
        assert (await store.organization(ORG)) == new_organization(ORG)
        async with store.transaction(ORG) as work:
            await work.directory.rename_organization("new")
        renamed = attrs.evolve(new_organization(ORG), name="new")
        assert await store.organization(ORG) == renamed
        assert await store.organizations(limit=9) == [renamed, other]

    async def test_groups_are_paged_by_id(self, store: Storage) -> None:
        """`groups`: at most `limit`, after an id."""
        async with store.transaction(ORG) as work:
            for name in ("b", "a", "c"):
                await work.directory.add_group(Group(name, name))
            assert [g.id for g in await work.directory.groups(limit=2)] == ["a", "b"]
            assert [g.id for g in await work.directory.groups(limit=2, after="b")] == ["c"]

    async def test_unmanaged_is_what_no_member_manages(self, store: Storage) -> None:
        """`unmanaged`: of the resources that these subjects can manage, those that no member can manage now: by
        group, user id or verified e-mail address. Deleted resources and the grant use do not count."""
        async with store.transaction(ORG) as work:
            for number, access in enumerate(_CONFIGS, 1):
                await work.workflows.add(new_resource(number, access=access))
            await work.workflows.add(new_resource(9, access=_OWNED, status=Status.DELETED))
            await work.skills.add(new_resource(1, Kind.SKILL, access=_OWNED))
            lost = ["u:u1", "e:u1@x.org", f"g:{GROUP}", f"g:{ORG}"]
            everything = [(Kind.SKILL, 1), (Kind.WORKFLOW, 1), (Kind.WORKFLOW, 2), (Kind.WORKFLOW, 5)]
            assert await work.directory.unmanaged(lost, limit=9) == everything
            assert await work.directory.unmanaged(lost, limit=2) == everything[:2]
            assert await work.directory.unmanaged([f"g:{GROUP}"], limit=9) == [(Kind.WORKFLOW, 2)]
            assert await work.directory.unmanaged([], limit=9) == []
            await work.directory.add_member(attrs.evolve(new_member("u2", email="u1@x.org"), email_verified=False))
            assert await work.directory.unmanaged(lost, limit=9) == everything
            await work.directory.add_member(new_member("u2", email="u1@x.org", groups=frozenset({GROUP})))
            assert await work.directory.unmanaged(lost, limit=9) == [(Kind.WORKFLOW, 5)]
            await work.directory.add_member(new_member("u1", email="else@x.org"))
            assert await work.directory.unmanaged(lost, limit=9) == []

    async def test_groups_are_found_by_id(self, store: Storage) -> None:
        """All groups, or those with these ids, by id ascending; `Duplicate` if the id exists."""
        async with store.transaction(ORG) as work:
            for name in ("b", "a", "c"):
                await work.directory.add_group(Group(name, name.upper()))
            with pytest.raises(Duplicate):
                await work.directory.add_group(Group("a", "other"))
            assert await work.directory.groups() == [Group("a", "A"), Group("b", "B"), Group("c", "C")]
            assert await work.directory.groups(["c", "nobody", "a"]) == [Group("a", "A"), Group("c", "C")]
            assert await work.directory.groups([]) == []

    async def test_a_token_is_revoked_once(self, store: Storage) -> None:
        """`Duplicate` if the prefix exists; the first revocation of a token is final."""
        token = new_token("p", expires_at=at(9))
        async with store.transaction(ORG) as work:
            await work.directory.add_token(token)
            with pytest.raises(Duplicate):
                await work.directory.add_token(new_token("p"))
            assert await work.directory.token("p") == token
            for when in (at(3), at(4)):
                await work.directory.revoke_token("p", when)
            assert await work.directory.token("p") == attrs.evolve(token, revoked_at=at(3))
            assert await work.directory.token("q") is None

    async def test_a_credential_is_a_token_with_its_member(self, store: Storage) -> None:
        """`credential`: both as last committed, of its own organization only; None if either is missing."""
        token, member = new_token("p", expires_at=at(9)), new_member("u1", groups=frozenset({"g1", "g2"}))
        async with store.transaction(ORG) as work:
            await work.directory.add_token(token)
            await work.directory.add_member(member)
            assert await store.credential(ORG, "p") is None
        assert await store.credential(ORG, "p") == (token, member)
        for org, prefix in ((ORG, "q"), (OTHER_ORG, "p"), ("33333333-3333-4333-8333-333333333333", "p")):
            assert await store.credential(org, prefix) is None
        async with store.transaction(ORG) as work:
            await work.directory.revoke_token("p", at(3))
            await work.directory.add_member(Member("u1", None, None, Role.OWNER, frozenset(), email_verified=False))
        changed = attrs.evolve(token, revoked_at=at(3)), Member("u1", None, None, Role.OWNER, frozenset(), False)
        assert await store.credential(ORG, "p") == changed
        async with store.transaction(ORG) as work:
            await work.directory.remove_member("u1")
        assert await store.credential(ORG, "p") is None

    async def test_tokens_of_a_member_are_paged_and_revoked_together(self, store: Storage) -> None:
        """`tokens`: those of one member, oldest first; `revoke_tokens` does not change others or revoked ones."""
        mine = [attrs.evolve(new_token(name), created_at=at(made)) for name, made in (("c", 1), ("a", 2), ("b", 2))]
        async with store.transaction(ORG) as work:
            for token in (*reversed(mine), attrs.evolve(new_token("d"), user_id="u2")):
                await work.directory.add_token(token)
            assert await work.directory.tokens("u1", limit=2) == mine[:2]
            assert await work.directory.tokens("u1", limit=2, after=mine[1].position) == mine[2:]
            await work.directory.revoke_token("a", at(3))
            await work.directory.revoke_tokens("u1", at(4))
            found = await work.directory.tokens("u1", limit=9)
            assert [token.revoked_at for token in found] == [at(4), at(3), at(4)]
            assert [token.revoked_at for token in await work.directory.tokens("u2", limit=9)] == [None]


_OWNED = AccessConfig("private", {}, (SharedUser("u2@x.org", "", "u1", "u2"),), None, "u1@x.org")
_CONFIGS = (
    _OWNED,
    AccessConfig("shared", {GROUP: GroupGrant(use=True, manage=True)}, (), None, None),
    AccessConfig("shared", {ORG: GroupGrant(use=True, manage=True)}, (), None, None),
    AccessConfig("shared", {GROUP: GroupGrant(use=True, manage=False)}, (), None, None),
    AccessConfig("private", {}, (), "u1", None),
)
