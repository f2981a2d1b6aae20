"""What every store of members, groups and tokens has to keep: a part of the storage contract."""

import attrs
import pytest

from wfcore.domain.access import Role
from wfcore.ports.storage import Duplicate, Group, Member, Storage
from wfcore.testing.storage_values import (
    ORG,
    at,
    new_member,
    new_token,
)


class DirectoryContract:
    """Inherited by `StorageContract`."""

    async def test_a_member_is_replaced_as_a_whole(self, store: Storage) -> None:
        """Add, or replace the member of the same user id: groups left out are left."""
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
        """By user id, ascending, after a given one; of several with one e-mail, the first is found."""
        everybody = [new_member(name, email="one@x.org") for name in ("a", "b", "c")]
        async with store.transaction(ORG) as work:
            for member in reversed(everybody):
                await work.directory.add_member(member)
            assert await work.directory.members(limit=2) == everybody[:2]
            assert await work.directory.members(limit=2, after="b") == everybody[2:]
            assert await work.directory.member_by_email("one@x.org") == everybody[0]

    async def test_groups_are_found_by_id(self, store: Storage) -> None:
        """All groups, or those of these ids, by id ascending; `Duplicate` when the id is taken."""
        async with store.transaction(ORG) as work:
            for name in ("b", "a", "c"):
                await work.directory.add_group(Group(name, name.upper()))
            with pytest.raises(Duplicate):
                await work.directory.add_group(Group("a", "other"))
            assert await work.directory.groups() == [Group("a", "A"), Group("b", "B"), Group("c", "C")]
            assert await work.directory.groups(["c", "nobody", "a"]) == [Group("a", "A"), Group("c", "C")]
            assert await work.directory.groups([]) == []

    async def test_a_token_is_revoked_once(self, store: Storage) -> None:
        """`Duplicate` when the prefix is taken; a token stays revoked from the first time on."""
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
