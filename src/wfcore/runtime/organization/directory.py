"""Organizations, members, groups, personal access tokens, and authentication by token (interface, Authentication)."""

import secrets
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from functools import lru_cache

import attrs

from wfcore.api.organization import CreateGroup, CreateMember, PatchMember
from wfcore.domain.json.codec import CENTURY, check, value_issues
from wfcore.domain.json.values import UNSET, given, structure
from wfcore.domain.kernel.errors import Conflict, Issue, NotFound, Unauthenticated, refuse
from wfcore.domain.kernel.ids import format_token, hash_secret, is_uuid, normalize_email, parse_token, secret_matches
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.people.people import AccessToken, Group, Member, Organization
from wfcore.domain.resources.access import TOKEN_SCOPES, Principal, Role
from wfcore.domain.resources.resource import Variation
from wfcore.ports.identity import Identity
from wfcore.ports.storage import Duplicate, UnitOfWork
from wfcore.runtime.common.arguments import checks_arguments
from wfcore.runtime.common.audit import audit
from wfcore.runtime.common.authorization import conflict
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.organization.embed_tokens import claims_of, is_embed_token, within

MAX_NAMED = 100
"""The most resources that a Conflict names."""

_DUMMY_HASH = hash_secret(secrets.token_hex(16))


class Directory:
    """Operations of the operator, from the command line or the embedding program. They take no principal."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    @checks_arguments
    async def create_organization(self, name: str, *, id: str | None = None) -> Organization:
        """A new organization. `id` is its UUID; Conflict when it is taken."""
        uuid = self._ports.ids.uuid() if id is None else id
        refuse([*_name_issues(name), *_uuid_issues("id", [uuid])])
        organization = Organization(uuid, name, self._ports.now())
        try:
            await self._ports.storage.add_organization(organization)
        except Duplicate:
            raise Conflict(f"organization `{uuid}` already exists", {"reason": "duplicate"}) from None
        return organization

    @checks_arguments
    async def ensure_organization(self, name: str, *, id: str) -> Organization:
        """The organization with this UUID: a new one, or the existing one, which gets this name. Safe to repeat."""
        with suppress(Conflict):
            return await self.create_organization(name, id=id)
        async with self._ports.storage.transaction(id) as work:
            found = await self._ports.storage.organization(id)
            assert found is not None  # noqa: S101  (the transaction has found it)
            if found.name != name:
                await work.directory.rename_organization(name)
                await audit(work, None, self._ports.now(), "organization", "update", id, {"name": name})
        return attrs.evolve(found, name=name)

    @checks_arguments
    async def limit_runs(self, org: str, max_concurrent_runs: int | None, *, workflow: int | None = None) -> None:
        """Limit how many runs of the organization workers drive at the same time, in all processes together.

        With `workflow`: those of this workflow, which count for the organization too. Further ones are `queued`; runs
        that wait for a person or a time do not count. None: no limit. Runs that are driven now continue. Safe to
        repeat. Invalid for a number below 1, NotFound for an unknown organization or workflow.
        """
        if max_concurrent_runs is not None and max_concurrent_runs < 1:
            refuse([Issue("maxConcurrentRuns", "must be at least 1", "minimum")])
        details: dict[str, JSON] = {"maxConcurrentRuns": max_concurrent_runs}
        async with self._ports.storage.transaction(org) as work:
            found = await self._ports.storage.organization(org)
            assert found is not None  # noqa: S101  (the transaction has found it)
            before = found.max_concurrent_runs
            if workflow is not None:
                if await work.workflows.get(workflow) is None:
                    raise NotFound(f"unknown workflow `{workflow}`")
                before = (await work.directory.run_limits()).get(workflow)
            if before == max_concurrent_runs:
                return
            await work.directory.limit_runs(max_concurrent_runs, workflow)
            changed = ("organization", org) if workflow is None else ("workflow", str(workflow))
            await audit(work, None, self._ports.now(), changed[0], "update", changed[1], details)

    @checks_arguments
    async def run_limits(self, org: str) -> Mapping[int, int]:
        """The limits of `limit_runs` for workflows, by id."""
        async with self._ports.storage.transaction(org) as work:
            return await work.directory.run_limits()

    @checks_arguments
    async def ensure_group(self, org: str, name: str, *, id: str) -> Group:
        """The group with this UUID: a new one, or the existing one, which gets this name. Safe to repeat."""
        refuse([*_name_issues(name), *_uuid_issues("id", [id])])
        if id == org:
            refuse([Issue("id", "is the organization's own UUID, which names its implicit group", "group")])
        async with self._ports.storage.transaction(org) as work:
            group = Group(id, name)
            match await work.directory.groups([id]):
                case []:
                    await work.directory.add_group(group)
                    await audit(work, None, self._ports.now(), "group", "create", id, {"name": name})
                case [found] if found != group:
                    await work.directory.rename_group(group)
                    await audit(work, None, self._ports.now(), "group", "update", id, {"name": name})
        return group

    @checks_arguments
    async def add_member(
        self,
        org: str,
        user_id: str,
        email: str | None = None,
        *,
        name: str | None = None,
        role: str | None = None,
        groups: Collection[str] | None = None,
    ) -> Member:
        """Add a member, or change the given fields of the member with this user id. A given e-mail counts as verified.

        A new member has the role `member` and no groups. Conflicts are those of `Members.create` and `Members.patch`.
        """
        fields = {"email": email, "name": name, "role": role, "groups": None if groups is None else list(groups)}
        data = {key: value for key, value in fields.items() if value is not None}
        issues = [*_issues(CreateMember, {"userId": user_id, **data}), *_uuid_issues("groups", groups or ())]
        refuse([*issues, *email_issues(email)])
        async with self._ports.storage.transaction(org) as work:
            old = await work.directory.member(user_id)
            member = await changed_member(work, old or new_member(user_id), structure(PatchMember, data))
            await save_member(work, org, old, member)
            await audit_member(work, None, self._ports.now(), old, member)
        return member

    @checks_arguments
    async def create_group(self, org: str, name: str) -> Group:
        """A new group, empty."""
        refuse(_name_issues(name))
        group = Group(self._ports.ids.uuid(), name)
        async with self._ports.storage.transaction(org) as work:
            await work.directory.add_group(group)
            await audit(work, None, self._ports.now(), "group", "create", group.id, {"name": name})
        return group

    @checks_arguments
    async def create_token(
        self, org: str, user_id: str, *, scopes: Collection[str], name: str = "token", expires_in: int | None = None
    ) -> str:
        """A personal access token for a member. Only this call returns it; the store keeps a hash of its secret."""
        unknown = [scope for scope in scopes if scope not in TOKEN_SCOPES]
        known = ", ".join(f"`{scope}`" for scope in TOKEN_SCOPES)
        issues = [Issue("scopes", f"`{scope}` is not a token scope: use {known}", "enum") for scope in unknown]
        if expires_in is not None and expires_in < 1:
            issues.append(Issue("expiresInSeconds", "must be at least 1", "minimum"))
        if expires_in is not None and expires_in > CENTURY:
            issues.append(Issue("expiresInSeconds", f"must be at most {CENTURY}", "range"))
        refuse(issues)
        async with self._ports.storage.transaction(org) as work:
            if await work.directory.member(user_id) is None:
                raise NotFound(f"the organization has no member `{user_id}`")
            row, text = self.new_token(org, user_id, name, scopes, expires_in)
            await save_token(work, None, row)
        return text

    def new_token(
        self, org: str, user_id: str, name: str, scopes: Collection[str], expires_in: int | None
    ) -> tuple[AccessToken, str]:
        """The row of a token that is valid from now on, and its text. `expires_in` is in seconds."""
        secret, now = self._ports.ids.token(43), self._ports.now()
        expires_at = None if expires_in is None else now + timedelta(seconds=expires_in)
        given = tuple(scope for scope in TOKEN_SCOPES if scope in scopes)
        row = AccessToken(self._ports.ids.token(8), hash_secret(secret), user_id, name, given, now, expires_at)
        return row, format_token(org, row.prefix, secret)

    @checks_arguments
    async def authenticate(self, text: str) -> Principal:
        """The principal of a personal access token or of an embed token (`Tokens.embed`).

        `Unauthenticated`, with a constant message, for any other text.
        """
        if is_embed_token(text):
            return await self._embedded(text)
        token = parse_token(text)
        if token is None:
            raise unauthenticated()
        found = await self._ports.storage.credential(token.org_uuid, token.prefix)
        genuine = secret_matches(token.secret, found[0].secret_hash if found else _DUMMY_HASH)
        if found is None or not genuine or not self._is_valid(found[0]):
            raise unauthenticated()
        return _principal_of_token(token.org_uuid, *found)

    async def renewed(self, me: Principal) -> Principal | None:
        """The principal of the same personal access token now; None when the token or its member is not valid."""
        found = await self._ports.storage.credential(me.org_uuid, me.token or "")
        if found is None or not self._is_valid(found[0]):
            return None
        renewed = within(_principal_of_token(me.org_uuid, *found), me.scopes)
        return attrs.evolve(renewed, expires_at=me.expires_at, workflows=me.workflows)

    async def _embedded(self, text: str) -> Principal:
        """The principal of an embed token: what the token states and its maker still has."""
        claims = claims_of(self._ports.sealer, text, self._ports.now())
        if claims is None:
            raise unauthenticated()
        try:
            async with self._ports.storage.reading(claims.org) as work:
                member = await work.directory.member(claims.user)
                known = await work.directory.groups(claims.groups) if claims.groups else []
                own = None if claims.token is None else await work.directory.token(claims.token)
        except NotFound:
            raise unauthenticated() from None
        principal = claims.principal(member, frozenset(group.id for group in known))
        if principal is None or (claims.token is not None and (own is None or not self._is_valid(own))):
            raise unauthenticated()
        return principal if own is None else within(principal, frozenset(own.scopes))

    async def recognize(self, identity: Identity) -> Principal:
        """The principal of a verified access token: a member, with that member's role.

        `Unauthenticated` for a user who is not a member. Groups of the token that the organization lacks are ignored.
        """
        try:
            async with self._ports.storage.reading(identity.org_uuid) as work:
                member = await work.directory.member(identity.user_id)
                known = await work.directory.groups(identity.groups) if identity.groups else []
        except NotFound:
            raise unauthenticated() from None
        if member is None:
            raise unauthenticated()
        if identity.groups is not None:
            member = attrs.evolve(member, groups=frozenset(group.id for group in known))
        if identity.email is not None:
            member = attrs.evolve(member, email=identity.email, email_verified=identity.email_verified)
        return principal_of(identity.org_uuid, member, identity.scopes, identity.expires_at)

    def _is_valid(self, token: AccessToken) -> bool:
        now = self._ports.now()
        return token.revoked_at is None and (token.expires_at is None or now < token.expires_at)


def principal_of(
    org: str,
    member: Member,
    scopes: Iterable[str] = TOKEN_SCOPES,
    expires_at: datetime | None = None,
    token: str | None = None,
) -> Principal:
    """The principal of a member, with these token scopes; `token` is the prefix of a personal access token."""
    return Principal(
        org,
        member.user_id,
        member.email,
        member.groups,
        _set_of(tuple(scopes)),
        member.role,
        member.email_verified,
        expires_at,
        token,
    )


@lru_cache(maxsize=256)
def _set_of(scopes: tuple[str, ...]) -> frozenset[str]:
    """One set for all requests with these scopes: an open stream keeps its principal."""
    return frozenset(scopes)


def _principal_of_token(org: str, token: AccessToken, member: Member) -> Principal:
    return principal_of(org, member, token.scopes, token.expires_at, token.prefix)


async def deployer_of(work: UnitOfWork, org: str, variation: Variation) -> Principal | None:
    """The current principal of the member who deployed the variation; None for a former member."""
    return await known_principal(work, org, variation.deployed_by or "")


async def known_principal(work: UnitOfWork, org: str, user_id: str) -> Principal | None:
    """The current principal of a member; None for a former member.

    In an organization without members only the embedding program knows the users: this is then a user without e-mail
    and groups.
    """
    member = await work.directory.member(user_id)
    if member is not None:
        return principal_of(org, member)
    if await is_former_member(work, user_id):
        return None
    return Principal(org, user_id, None, frozenset(), frozenset(TOKEN_SCOPES), Role.MEMBER)


async def is_former_member(work: UnitOfWork, user_id: str) -> bool:
    """Whether the user is not a member any more. False in an organization without members."""
    return await work.directory.member(user_id) is None and bool(await work.directory.members(limit=1))


async def as_of_now(work: UnitOfWork, me: Principal) -> Principal:
    """The caller as the directory has it in this transaction: it can have lost groups, or left, since its access token
    was read. The principal of another credential is what that says. Raises Unauthenticated for a former member.
    """
    if me.token is None:
        return me
    member = await work.directory.member(me.user_id)
    if member is None:
        raise unauthenticated()
    return principal_of(me.org_uuid, member, me.scopes)


async def save_token(work: UnitOfWork, me: Principal | None, row: AccessToken) -> None:
    """Save a new token and audit it, without its secret."""
    await work.directory.add_token(row)
    details = {"name": row.name, "userId": row.user_id, "scopes": list(row.scopes)}
    await audit(work, me, row.created_at, "token", "create", row.prefix, details)


def new_member(user_id: str) -> Member:
    """A member with an id and defaults. Invalid for an id that a URL cannot contain (RFC 3986, 5.2.4)."""
    if user_id in (".", ".."):
        refuse([Issue("userId", "`.` and `..` cannot be part of a URL", "pattern")])
    return Member(user_id, None, None, Role.MEMBER, frozenset())


async def changed_member(work: UnitOfWork, old: Member, changes: PatchMember) -> Member:
    """`old` with the changes of the body. Raises Invalid, or Conflict for an e-mail that is taken."""
    email = old.email if changes.email is UNSET else changes.email
    groups = old.groups if changes.groups is UNSET else frozenset(changes.groups)
    refuse([*email_issues(email), *await group_issues(work, groups - old.groups)])
    address = None if email is None else normalize_email(email)
    holder = None if address is None else await work.directory.member_by_email(address)
    if holder and address != old.email and holder.user_id != old.user_id:
        raise conflict(f"the e-mail `{address}` belongs to another member", "duplicate")
    verified, role = old.email_verified or changes.email is not UNSET, Role(given(changes.role) or old.role)
    name = old.name if changes.name is UNSET else changes.name
    return Member(old.user_id, address, name, role, groups, verified)


async def save_member(work: UnitOfWork, org: str, old: Member | None, new: Member) -> None:
    """Save the member in place of `old`. Conflict `last_owner` or `unmanaged`, as `check_departure` raises."""
    await work.directory.add_member(new)
    if old is not None:
        await check_departure(work, org, old, new)


async def audit_member(work: UnitOfWork, me: Principal | None, now: datetime, old: Member | None, new: Member) -> None:
    """Audit that a member was added or changed."""
    details = {"role": new.role.value, "email": new.email, "groups": sorted(new.groups)}
    if old != new:
        await audit(work, me, now, "member", "create" if old is None else "update", new.user_id, details)


async def check_departure(work: UnitOfWork, org: str, old: Member, new: Member | None) -> None:
    """Refuse a change that leaves no owner, or a resource without managers. The change is already written: the error
    rolls it back.
    """
    owned = old.role is Role.OWNER and (new is None or new.role is not Role.OWNER)
    if owned and not await work.directory.members(limit=1, role=Role.OWNER):
        raise conflict(f"`{old.user_id}` is the last owner: make another member an owner first", "last_owner")
    kept = frozenset[str]() if new is None else principal_of(org, new).subjects
    await check_still_managed(work, principal_of(org, old).subjects - kept)


async def check_still_managed(work: UnitOfWork, lost: Collection[str]) -> None:
    """Refuse a change after which no member can manage a resource that one of these subjects managed."""
    alone = await work.directory.unmanaged(lost, limit=MAX_NAMED) if lost else []
    if alone:
        named: JSON = [{"type": kind.value, "id": number} for kind, number in alone]
        raise conflict("after this no member could manage some resources", "unmanaged", resources=named)


async def group_issues(work: UnitOfWork, groups: Collection[str]) -> list[Issue]:
    """The groups that the organization does not have."""
    known = {group.id for group in await work.directory.groups(groups)}
    unknown = sorted(set(groups) - known)
    return [Issue("groups", f"the organization has no group `{group}`", "group") for group in unknown]


def email_issues(email: str | None) -> list[Issue]:
    if email is None or normalize_email(email):
        return []
    return [Issue("email", f"`{email}` is not an ASCII e-mail address", "email")]


def unauthenticated() -> Unauthenticated:
    """The error for every credential that is missing or invalid, always the same."""
    return Unauthenticated("the access token is missing, invalid or expired")


def _name_issues(name: str) -> list[Issue]:
    return _issues(CreateGroup, {"name": name})


def _issues(shape: type, fields: Mapping[str, JSON]) -> list[Issue]:
    """The issues of fields that Python code gave: no JSON of a client has been read."""
    return value_issues(fields) or check(shape, fields)


def _uuid_issues(path: str, uuids: Iterable[str]) -> list[Issue]:
    return [
        Issue(path, f"`{uuid}` is not a UUID in lower case with hyphens", "uuid") for uuid in uuids if not is_uuid(uuid)
    ]


async def current_principal(work: UnitOfWork, org: str, user_id: str) -> Principal:
    """The user's principal with its current member row.

    A user who is not a member, known to the embedding program only, has nothing but an id and the implicit group.
    """
    member = await work.directory.member(user_id)
    if member is None:
        return Principal(org, user_id, None, frozenset(), frozenset(TOKEN_SCOPES), Role.MEMBER)
    return principal_of(org, member)
