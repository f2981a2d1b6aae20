"""Members, groups and personal access tokens, as the people of an organization manage them.

Reading members and groups takes a token scope alone; changing them the role admin or owner too. Nothing leaves a
resource without anyone who can manage it, nor an organization that had owners without one.
"""

from collections.abc import Collection, Mapping

import attrs

from wfcore.domain.access import Principal, Role, missing_scopes
from wfcore.domain.codec import check
from wfcore.domain.errors import JSON, Forbidden, NotFound, refuse
from wfcore.domain.ids import iso, normalize_email
from wfcore.domain.people_shapes import CreateGroup, CreateMember, PatchGroup, PatchMember
from wfcore.domain.shapes import CreateToken
from wfcore.ports.storage import AccessToken, Group, Member, UnitOfWork
from wfcore.runtime.audit import audit
from wfcore.runtime.context import Ports, administer, conflict, needs
from wfcore.runtime.organization import Directory, email_issues, group_issues, keep_token, principal_of
from wfcore.runtime.wire import wire_body

MAX_NAMED = 100
"""How many resources a Conflict names at most."""


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
    async def create(self, me: Principal, body: Mapping[str, JSON] | None = None, **fields: JSON) -> MemberView:
        """Add a member, whose e-mail counts as verified. Conflict when user id or e-mail is taken."""
        administer(me)
        data = wire_body(body, fields)
        refuse(check(CreateMember, data))
        async with self._ports.storage.transaction(me.org_uuid) as work:
            if await work.directory.member(data["userId"]):
                raise conflict(f"there is a member `{data['userId']}` already", "duplicate")
            nobody = Member(data["userId"], None, None, Role.MEMBER, frozenset())
            return await self._save(work, me, "create", nobody, await self._changed(work, nobody, data))

    @needs("members:read")
    async def get(self, me: Principal, user_id: str) -> MemberView:
        async with self._ports.storage.reading(me.org_uuid) as work:
            return MemberView(await _found(work, user_id))

    @needs("members:read")
    async def page(
        self, me: Principal, *, limit: int = 25, after: str = "", group: str | None = None
    ) -> list[MemberView]:
        """By user id; with `group`, those in the group of this id. The implicit group has everybody in it."""
        group = None if group == me.org_uuid else group
        async with self._ports.storage.reading(me.org_uuid) as work:
            return [MemberView(row) for row in await work.directory.members(limit=limit, after=after, group=group)]

    @needs("members:write")
    async def patch(
        self, me: Principal, user_id: str, body: Mapping[str, JSON] | None = None, **fields: JSON
    ) -> MemberView:
        """Change what is given. Conflict `last_owner`, or `unmanaged` with the resources nobody could manage then."""
        administer(me)
        data = wire_body(body, fields)
        refuse(check(PatchMember, data))
        async with self._ports.storage.transaction(me.org_uuid) as work:
            old = await _found(work, user_id)
            return await self._save(work, me, "update", old, await self._changed(work, old, data))

    @needs("members:write")
    async def delete(self, me: Principal, user_id: str) -> MemberView:
        """Remove the member; its tokens stop working at once. Conflicts as for `patch`."""
        administer(me)
        async with self._ports.storage.transaction(me.org_uuid) as work:
            old = await _found(work, user_id)
            _check_owners(me, old.role, Role.MEMBER)
            await work.directory.revoke_tokens(user_id, self._ports.now())
            await work.directory.remove_member(user_id)
            await self._check_left(work, me, old, None)
            await audit(work, me, self._ports.now(), "member", "delete", user_id)
            return MemberView(old)

    async def _changed(self, work: UnitOfWork, old: Member, data: Mapping[str, JSON]) -> Member:
        """The member that the body makes of `old`. Raises Invalid, or Conflict for an e-mail that is taken."""
        email, groups = data.get("email", old.email), frozenset(data.get("groups", old.groups))
        refuse([*email_issues(email), *await group_issues(work, groups - old.groups)])
        address = None if email is None else normalize_email(email)
        holder = None if address is None else await work.directory.member_by_email(address)
        if holder and address != old.email and holder.user_id != old.user_id:
            raise conflict(f"the e-mail `{address}` is that of another member", "duplicate")
        verified, role = old.email_verified or "email" in data, Role(data.get("role", old.role))
        return Member(old.user_id, address, data.get("name", old.name), role, groups, verified)

    async def _save(self, work: UnitOfWork, me: Principal, verb: str, old: Member, new: Member) -> MemberView:
        _check_owners(me, old.role, new.role)
        await work.directory.add_member(new)
        await self._check_left(work, me, old, new)
        details = {"role": new.role.value, "email": new.email, "groups": sorted(new.groups)}
        if verb == "create" or old != new:
            await audit(work, me, self._ports.now(), "member", verb, new.user_id, details)
        return MemberView(new)

    async def _check_left(self, work: UnitOfWork, me: Principal, old: Member, new: Member | None) -> None:
        """Refuse what left owners or managers out. The change is made already: the error undoes it."""
        owned = old.role is Role.OWNER and (new is None or new.role is not Role.OWNER)
        if owned and not await work.directory.members(limit=1, role=Role.OWNER):
            raise conflict(f"`{old.user_id}` is the last owner", "last_owner")
        if new is None and me.user_id == old.user_id and not await work.directory.members(limit=1):
            raise conflict(f"`{old.user_id}` is the last member", "last_member")
        kept = frozenset[str]() if new is None else principal_of(me.org_uuid, new).subjects
        await _check_managed(work, principal_of(me.org_uuid, old).subjects - kept)


async def _found(work: UnitOfWork, user_id: str) -> Member:
    if (member := await work.directory.member(user_id)) is None:
        raise NotFound
    return member


def _check_owners(me: Principal, old: Role, new: Role) -> None:
    """Only an owner makes or unmakes owners."""
    if old is not new and Role.OWNER in (old, new) and me.role is not Role.OWNER:
        raise Forbidden("only an owner makes or unmakes owners", {"role": me.role.value})


async def _check_managed(work: UnitOfWork, lost: Collection[str]) -> None:
    """Refuse what left a resource, which one of these subjects managed, without anyone who can manage it."""
    alone = await work.directory.unmanaged(lost, limit=MAX_NAMED) if lost else []
    if alone:
        named: JSON = [{"type": kind.value, "id": number} for kind, number in alone]
        raise conflict("this would leave resources without anyone who can manage them", "unmanaged", resources=named)


@attrs.frozen
class GroupView:
    group: Group

    @property
    def id(self) -> str:
        return self.group.id

    def to_wire(self) -> dict[str, JSON]:
        return {"id": self.group.id, "name": self.group.name}


class Groups:
    """The groups of the caller's organization. The implicit one of all members is not among them."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    @needs("members:write")
    async def create(self, me: Principal, body: Mapping[str, JSON] | None = None, **fields: JSON) -> GroupView:
        """A new group, empty. Names need not be unique."""
        administer(me)
        data = wire_body(body, fields)
        refuse(check(CreateGroup, data))
        group = Group(self._ports.ids.uuid(), data["name"])
        async with self._ports.storage.transaction(me.org_uuid) as work:
            await work.directory.add_group(group)
            await audit(work, me, self._ports.now(), "group", "create", group.id, {"name": group.name})
        return GroupView(group)

    @needs("members:read")
    async def get(self, me: Principal, id: str) -> GroupView:
        async with self._ports.storage.reading(me.org_uuid) as work:
            return await self._found(work, id)

    @needs("members:read")
    async def page(self, me: Principal, *, limit: int = 25, after: str = "") -> list[GroupView]:
        async with self._ports.storage.reading(me.org_uuid) as work:
            return [GroupView(row) for row in await work.directory.groups(limit=limit, after=after)]

    @needs("members:write")
    async def patch(self, me: Principal, id: str, body: Mapping[str, JSON] | None = None, **fields: JSON) -> GroupView:
        administer(me)
        data = wire_body(body, fields)
        refuse(check(PatchGroup, data))
        async with self._ports.storage.transaction(me.org_uuid) as work:
            old = (await self._found(work, id)).group
            new = Group(id, data.get("name", old.name))
            if new != old:
                await work.directory.rename_group(new)
                await audit(work, me, self._ports.now(), "group", "update", id, {"name": new.name})
        return GroupView(new)

    @needs("members:write")
    async def delete(self, me: Principal, id: str) -> GroupView:
        """Dissolve the group. Conflict `unmanaged`, with the resources that nobody could manage then."""
        administer(me)
        async with self._ports.storage.transaction(me.org_uuid) as work:
            old = await self._found(work, id)
            await work.directory.remove_group(id)
            await _check_managed(work, [f"g:{id}"])
            await audit(work, me, self._ports.now(), "group", "delete", id, {"name": old.group.name})
        return old

    async def _found(self, work: UnitOfWork, id: str) -> GroupView:
        for group in await work.directory.groups([id]):
            return GroupView(group)
        raise NotFound


@attrs.frozen
class TokenView:
    """A personal access token. `text` is the token itself, which only its creation shows."""

    row: AccessToken
    text: str | None = attrs.field(default=None, repr=False)

    @property
    def id(self) -> str:
        return self.row.prefix

    def to_wire(self) -> dict[str, JSON]:
        row = self.row
        wire: dict[str, JSON] = {
            "id": row.prefix,
            "name": row.name,
            "userId": row.user_id,
            "scopes": list(row.scopes),
            "createdAt": iso(row.created_at),
            "expiresAt": row.expires_at and iso(row.expires_at),
            "revokedAt": row.revoked_at and iso(row.revoked_at),
        }
        return wire if self.text is None else wire | {"token": self.text}


class Tokens:
    """The caller's own tokens; an admin's or owner's reach to those of everybody."""

    def __init__(self, ports: Ports, directory: Directory) -> None:
        self._ports = ports
        self._directory = directory

    @needs("tokens:write")
    async def create(self, me: Principal, body: Mapping[str, JSON] | None = None, **fields: JSON) -> TokenView:
        """A new token of the caller's own, with no scope that the caller's credential lacks (Forbidden)."""
        data = wire_body(body, fields)
        refuse(check(CreateToken, data))
        if missing := missing_scopes(me.scopes, data["scopes"]):
            raise Forbidden("a token has no scope that its maker lacks", {"missing": missing})
        seconds = data.get("expiresInSeconds")
        row, text = self._directory.new_token(me.org_uuid, me.user_id, data["name"], data["scopes"], seconds)
        async with self._ports.storage.transaction(me.org_uuid) as work:
            if await work.directory.member(me.user_id) is None:
                raise conflict("tokens are for members of the organization", "not_a_member")
            await keep_token(work, me, row)
        return TokenView(row, text)

    @needs("tokens:write")
    async def page(
        self, me: Principal, *, limit: int = 25, after: str = "", user: str | None = None
    ) -> list[TokenView]:
        """By id: the caller's own, or, to an admin or owner, those of `user`. Revoked and expired ones too."""
        user = me.user_id if user is None else user
        if user != me.user_id:
            administer(me)
        async with self._ports.storage.reading(me.org_uuid) as work:
            return [TokenView(row) for row in await work.directory.tokens(user, limit=limit, after=after)]

    @needs("tokens:write")
    async def get(self, me: Principal, id: str) -> TokenView:
        async with self._ports.storage.reading(me.org_uuid) as work:
            return await self._found(work, me, id)

    @needs("tokens:write")
    async def revoke(self, me: Principal, id: str) -> TokenView:
        """From now on it opens nothing, in any process. Again: unchanged."""
        async with self._ports.storage.transaction(me.org_uuid) as work:
            found = await self._found(work, me, id)
            if found.row.revoked_at is None:
                await work.directory.revoke_token(id, self._ports.now())
                await audit(work, me, self._ports.now(), "token", "revoke", id, {"userId": found.row.user_id})
            return await self._found(work, me, id)

    async def _found(self, work: UnitOfWork, me: Principal, id: str) -> TokenView:
        """Another member's token does not exist to who is no admin."""
        row = await work.directory.token(id)
        if row is None or (row.user_id != me.user_id and me.role is Role.MEMBER):
            raise NotFound
        return TokenView(row)
