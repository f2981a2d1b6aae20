"""Members, groups and personal access tokens, as the members of an organization manage them.

Reading members and groups requires a token scope; changing them also requires the role admin or owner. No change
leaves a resource without a manager, or an organization that has owners without one.
"""

from datetime import datetime
from typing import Unpack

import attrs

from wfcore.api.organization import (
    CreateGroup,
    CreateMember,
    CreateMemberFields,
    GroupFields,
    PatchGroup,
    PatchMember,
    PatchMemberFields,
)
from wfcore.domain.json.values import UNSET, to_json
from wfcore.domain.kernel.errors import Forbidden, NotFound
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.people.people import Group, Member
from wfcore.domain.resources.access import Principal, Role
from wfcore.domain.resources.ownership import lapse
from wfcore.domain.resources.resource import Kind
from wfcore.ports.storage import UnitOfWork
from wfcore.runtime.common.audit import audit, audit_change
from wfcore.runtime.common.authorization import administer, conflict, needs
from wfcore.runtime.common.bodies import Tree, parsed
from wfcore.runtime.common.idempotency import store_response, stored_response
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.common.preconditions import check_match
from wfcore.runtime.organization.delegations import end_delegations
from wfcore.runtime.organization.directory import (
    audit_member,
    changed_member,
    check_departure,
    check_still_managed,
    new_member,
    save_member,
)


@attrs.frozen
class MemberView:
    member: Member

    @property
    def id(self) -> str:
        return self.member.user_id

    def to_wire(self) -> dict[str, JSON]:
        member = self.member
        return {
            "userId": member.user_id,
            "email": member.email,
            "name": member.name,
            "role": member.role.value,
            "groups": sorted(member.groups),
        }


class Members:
    """The members of the caller's organization, by user id."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    @needs("members:write")
    async def create(
        self,
        me: Principal,
        body: CreateMember | Tree | None = None,
        *,
        key: str | None = None,
        **fields: Unpack[CreateMemberFields],
    ) -> MemberView:
        """Add a member, whose e-mail counts as verified. Conflict when user id or e-mail is taken.

        `key` is an Idempotency-Key: the same key and body return the same response.
        """
        administer(me)
        new = parsed(CreateMember, body, fields, key=key)
        request = to_json(new)
        async with self._ports.storage.transaction(me.org_uuid) as work:
            if kept := await stored_response(work, me, "member", key, request, MemberView):
                return kept
            if await work.directory.member(new.user_id):
                raise conflict(f"member `{new.user_id}` already exists", "duplicate")
            made = await changed_member(work, new_member(new.user_id), new)
            view = await self._save(work, me, None, made)
            await store_response(work, me, "member", key, request, view)
            return view

    @needs("members:read")
    async def get(self, me: Principal, user_id: str) -> MemberView:
        """One member. NotFound for an unknown user id."""
        async with self._ports.storage.reading(me.org_uuid) as work:
            return MemberView(await _found(work, user_id))

    @needs("members:read")
    async def page(
        self, me: Principal, *, limit: int = 25, after: str = "", group: str | None = None, query: str | None = None
    ) -> list[MemberView]:
        """By user id; with `group`, the members of the group with this id. All members are in the implicit group.

        `query`: text that user id, name or e-mail contains; ASCII letters match in either case.
        """
        group = None if group == me.org_uuid else group
        async with self._ports.storage.reading(me.org_uuid) as work:
            found = await work.directory.members(limit=limit, after=after, group=group, query=query)
            return [MemberView(row) for row in found]

    @needs("members:write")
    async def patch(
        self,
        me: Principal,
        user_id: str,
        body: PatchMember | Tree | None = None,
        *,
        if_match: str | None = None,
        **fields: Unpack[PatchMemberFields],
    ) -> MemberView:
        """Change the given fields. Conflict `last_owner`, `unmanaged` with the resources that lose all managers, or
        `stale` for an outdated ETag `if_match`."""
        administer(me)
        changes = parsed(PatchMember, body, fields)
        async with self._ports.storage.transaction(me.org_uuid) as work:
            old = await _found(work, user_id)
            check_match(if_match, MemberView(old).to_wire())
            return await self._save(work, me, old, await changed_member(work, old, changes))

    @needs("members:write")
    async def delete(self, me: Principal, user_id: str, *, if_match: str | None = None) -> MemberView:
        """Remove the member, revoke its tokens, end its delegations and withdraw the ownership transfers
        from and to it.

        Conflicts as for `patch`, and `last_member`.
        """
        administer(me)
        async with self._ports.storage.transaction(me.org_uuid) as work:
            old = await _found(work, user_id)
            check_match(if_match, MemberView(old).to_wire())
            check_owners(me, old.role, Role.MEMBER)
            await work.directory.revoke_tokens(user_id, self._ports.now())
            await work.directory.remove_member(user_id)
            await check_departure(work, me.org_uuid, old, None)
            if me.user_id == user_id and not await work.directory.members(limit=1):
                raise conflict(f"`{user_id}` is the last member", "last_member")
            await withdraw_offers(work, me, self._ports.now(), user_id)
            await end_delegations(work, user_id)
            await audit(work, me, self._ports.now(), "member", "delete", user_id)
            return MemberView(old)

    async def _save(self, work: UnitOfWork, me: Principal, old: Member | None, new: Member) -> MemberView:
        check_owners(me, old.role if old else Role.MEMBER, new.role)
        await save_member(work, me.org_uuid, old, new)
        await audit_member(work, me, self._ports.now(), old, new)
        return MemberView(new)


async def withdraw_offers(work: UnitOfWork, me: Principal, now: datetime, user_id: str) -> None:
    """End the ownership transfers to a member that is removed, and those that the member requested."""
    for repository in map(work.resources, Kind):
        for offered in await repository.offers_of(user_id):
            lapsed = lapse(offered, now=now).resource
            await repository.save(offered, lapsed)
            await audit_change(work, me, now, offered, lapsed)


async def _found(work: UnitOfWork, user_id: str) -> Member:
    if (member := await work.directory.member(user_id)) is None:
        raise NotFound
    return member


def check_owners(me: Principal, old: Role, new: Role) -> None:
    """Forbidden unless an owner grants or revokes the role owner."""
    if old is not new and Role.OWNER in (old, new) and me.role is not Role.OWNER:
        raise Forbidden("only an owner can grant or revoke the role `owner`", {"role": me.role.value})


@attrs.frozen
class GroupView:
    group: Group

    @property
    def id(self) -> str:
        return self.group.id

    def to_wire(self) -> dict[str, JSON]:
        return {"id": self.group.id, "name": self.group.name}


class Groups:
    """The groups of the caller's organization, without the implicit group of all members."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    @needs("members:write")
    async def create(
        self,
        me: Principal,
        body: CreateGroup | Tree | None = None,
        *,
        key: str | None = None,
        **fields: Unpack[GroupFields],
    ) -> GroupView:
        """Create an empty group. Names need not be unique.

        `key` is an Idempotency-Key: the same key and body return the same response.
        """
        administer(me)
        new = parsed(CreateGroup, body, fields, key=key)
        made, request = GroupView(Group(self._ports.ids.uuid(), new.name)), to_json(new)
        async with self._ports.storage.transaction(me.org_uuid) as work:
            if kept := await stored_response(work, me, "group", key, request, GroupView):
                return kept
            await work.directory.add_group(made.group)
            await store_response(work, me, "group", key, request, made)
            await audit(work, me, self._ports.now(), "group", "create", made.id, {"name": made.group.name})
        return made

    @needs("members:read")
    async def get(self, me: Principal, id: str) -> GroupView:
        """One group. NotFound for an unknown id, and for the implicit group."""
        async with self._ports.storage.reading(me.org_uuid) as work:
            return await self._found(work, id)

    @needs("members:read")
    async def page(self, me: Principal, *, limit: int = 25, after: str = "") -> list[GroupView]:
        """By id, ids greater than `after`."""
        async with self._ports.storage.reading(me.org_uuid) as work:
            return [GroupView(row) for row in await work.directory.groups(limit=limit, after=after)]

    @needs("members:write")
    async def patch(
        self,
        me: Principal,
        id: str,
        body: PatchGroup | Tree | None = None,
        *,
        if_match: str | None = None,
        **fields: Unpack[GroupFields],
    ) -> GroupView:
        """Rename the group. Forbidden for members; an outdated ETag `if_match` is a Conflict."""
        administer(me)
        changes = parsed(PatchGroup, body, fields)
        async with self._ports.storage.transaction(me.org_uuid) as work:
            old = (found := await self._found(work, id)).group
            check_match(if_match, found.to_wire())
            new = Group(id, old.name if changes.name is UNSET else changes.name)
            if new != old:
                await work.directory.rename_group(new)
                await audit(work, me, self._ports.now(), "group", "update", id, {"name": new.name})
        return GroupView(new)

    @needs("members:write")
    async def delete(self, me: Principal, id: str, *, if_match: str | None = None) -> GroupView:
        """Delete the group. Conflict `unmanaged`, with the resources that lose all managers."""
        administer(me)
        async with self._ports.storage.transaction(me.org_uuid) as work:
            old = await self._found(work, id)
            check_match(if_match, old.to_wire())
            await work.directory.remove_group(id)
            await check_still_managed(work, [f"g:{id}"])
            await audit(work, me, self._ports.now(), "group", "delete", id, {"name": old.group.name})
        return old

    async def _found(self, work: UnitOfWork, id: str) -> GroupView:
        for group in await work.directory.groups([id]):
            return GroupView(group)
        raise NotFound
