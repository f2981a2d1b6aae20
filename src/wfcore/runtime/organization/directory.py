"""Organizations, members, groups, personal access tokens; from a token to the principal (interface, Authentication)."""

import secrets
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta

import attrs

from wfcore.api.organization import CreateMember
from wfcore.domain.json.codec import check
from wfcore.domain.kernel.errors import Conflict, Issue, NotFound, Unauthenticated, refuse
from wfcore.domain.kernel.ids import format_token, hash_secret, is_uuid, normalize_email, parse_token, secret_matches
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.people.people import AccessToken, Group, Member, Organization
from wfcore.domain.resources.access import TOKEN_SCOPES, Principal, Role
from wfcore.domain.resources.resource import Variation
from wfcore.ports.identity import Identity
from wfcore.ports.storage import Duplicate, UnitOfWork
from wfcore.runtime.common.audit import audit
from wfcore.runtime.common.authorization import conflict
from wfcore.runtime.common.ports import Ports

MAX_NAMED = 100
"""How many resources a Conflict names at most."""

_NOBODY = hash_secret(secrets.token_hex(16))


class Directory:
    """What an operator does from the command line or from the embedding program: it asks for no principal."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    async def create_organization(self, name: str, *, id: str | None = None) -> Organization:
        """A new organization. `id` is its UUID; Conflict when it is taken."""
        uuid = self._ports.ids.uuid() if id is None else id
        refuse([*_name_issues(name), *_uuid_issues("id", [uuid])])
        organization = Organization(uuid, name, self._ports.now())
        try:
            await self._ports.storage.add_organization(organization)
        except Duplicate:
            raise Conflict(f"organization `{uuid}` exists already", {"reason": "duplicate"}) from None
        return organization

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
        """Add a member, or change what is given of the one of this user id. An e-mail given counts as verified.

        A new one is a `member` without groups. Conflicts are those of `Members.create` and `Members.patch`.
        """
        given = {"email": email, "name": name, "role": role, "groups": None if groups is None else list(groups)}
        data = {key: value for key, value in given.items() if value is not None}
        issues = [*check(CreateMember, {"userId": user_id, **data}), *_uuid_issues("groups", groups or ())]
        refuse([*issues, *email_issues(email)])
        async with self._ports.storage.transaction(org) as work:
            old = await work.directory.member(user_id)
            member = await changed_member(work, old or new_member(user_id), data)
            await save_member(work, org, old, member)
            await note_member(work, None, self._ports.now(), old, member)
        return member

    async def create_group(self, org: str, name: str) -> Group:
        """A new group, empty."""
        refuse(_name_issues(name))
        group = Group(self._ports.ids.uuid(), name)
        async with self._ports.storage.transaction(org) as work:
            await work.directory.add_group(group)
            await audit(work, None, self._ports.now(), "group", "create", group.id, {"name": name})
        return group

    async def create_token(
        self, org: str, user_id: str, *, scopes: Collection[str], name: str = "token", expires_in: int | None = None
    ) -> str:
        """A personal access token for a member. Returned this once; only a hash of its secret is kept."""
        unknown = [scope for scope in scopes if scope not in TOKEN_SCOPES]
        issues = [Issue("scopes", f"`{scope}` is no token scope", "enum") for scope in unknown]
        if expires_in is not None and expires_in < 1:
            issues.append(Issue("expiresInSeconds", "must be at least 1", "minimum"))
        refuse(issues)
        async with self._ports.storage.transaction(org) as work:
            if await work.directory.member(user_id) is None:
                raise NotFound(f"the organization has no member `{user_id}`")
            row, text = self.new_token(org, user_id, name, scopes, expires_in)
            await keep_token(work, None, row)
        return text

    def new_token(
        self, org: str, user_id: str, name: str, scopes: Collection[str], expires_in: int | None
    ) -> tuple[AccessToken, str]:
        """The row of a token that begins now, and its text. `expires_in` counts seconds."""
        secret, now = self._ports.ids.token(43), self._ports.now()
        expires_at = None if expires_in is None else now + timedelta(seconds=expires_in)
        given = tuple(scope for scope in TOKEN_SCOPES if scope in scopes)
        row = AccessToken(self._ports.ids.token(8), hash_secret(secret), user_id, name, given, now, expires_at)
        return row, format_token(org, row.prefix, secret)

    async def authenticate(self, text: str) -> Principal:
        """The principal of a personal access token. `Unauthenticated`, always in the same words, for any other text."""
        token = parse_token(text)
        if token is None:
            raise unauthenticated()
        found = await self._ports.storage.credential(token.org_uuid, token.prefix)
        genuine = secret_matches(token.secret, found[0].secret_hash if found else _NOBODY)
        if found is None or not genuine or not self._is_valid(found[0]):
            raise unauthenticated()
        kept, member = found
        return principal_of(token.org_uuid, member, kept.scopes)

    async def recognize(self, identity: Identity) -> Principal:
        """The principal of a verified access token: a member, with that member's role.

        `Unauthenticated` for whoever is no member. Groups that a token names count where the organization has them.
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
        return principal_of(identity.org_uuid, member, identity.scopes)

    def _is_valid(self, token: AccessToken) -> bool:
        now = self._ports.now()
        return token.revoked_at is None and (token.expires_at is None or now < token.expires_at)


def principal_of(org: str, member: Member, scopes: Iterable[str] = TOKEN_SCOPES) -> Principal:
    """The principal that a member is, with these token scopes."""
    return Principal(
        org, member.user_id, member.email, member.groups, frozenset(scopes), member.role, member.email_verified
    )


async def deployer_of(work: UnitOfWork, org: str, variation: Variation) -> Principal | None:
    """The member who deployed the variation, as it is now; None for one that is gone.

    An organization without any member is one whose people only the embedding program knows: who deployed is then a
    user without e-mail and groups.
    """
    user_id = variation.deployed_by or ""
    member = await work.directory.member(user_id)
    if member is not None:
        return principal_of(org, member)
    if await is_gone(work, user_id):
        return None
    return Principal(org, user_id, None, frozenset(), frozenset(TOKEN_SCOPES), Role.MEMBER)


async def is_gone(work: UnitOfWork, user_id: str) -> bool:
    """Whether the user is no member any more. Where there is no member at all, the embedding program knows who is."""
    return await work.directory.member(user_id) is None and bool(await work.directory.members(limit=1))


async def keep_token(work: UnitOfWork, me: Principal | None, row: AccessToken) -> None:
    """Save a new token, of which the audit tells everything but the secret."""
    await work.directory.add_token(row)
    details = {"name": row.name, "userId": row.user_id, "scopes": list(row.scopes)}
    await audit(work, me, row.created_at, "token", "create", row.prefix, details)


def new_member(user_id: str) -> Member:
    """A member of whom nothing else is known. Invalid for an id that no URL can name (RFC 3986, 5.2.4)."""
    if user_id in (".", ".."):
        refuse([Issue("userId", "`.` and `..` are no names in a URL", "pattern")])
    return Member(user_id, None, None, Role.MEMBER, frozenset())


async def changed_member(work: UnitOfWork, old: Member, data: Mapping[str, JSON]) -> Member:
    """The member that the body makes of `old`. Raises Invalid, or Conflict for an e-mail that is taken."""
    email, groups = data.get("email", old.email), frozenset(data.get("groups", old.groups))
    refuse([*email_issues(email), *await group_issues(work, groups - old.groups)])
    address = None if email is None else normalize_email(email)
    holder = None if address is None else await work.directory.member_by_email(address)
    if holder and address != old.email and holder.user_id != old.user_id:
        raise conflict(f"the e-mail `{address}` is that of another member", "duplicate")
    verified, role = old.email_verified or "email" in data, Role(data.get("role", old.role))
    return Member(old.user_id, address, data.get("name", old.name), role, groups, verified)


async def save_member(work: UnitOfWork, org: str, old: Member | None, new: Member) -> None:
    """Put the member in the place of `old`. Conflict `last_owner` or `unmanaged`, as of `check_left`."""
    await work.directory.add_member(new)
    if old is not None:
        await check_left(work, org, old, new)


async def note_member(work: UnitOfWork, me: Principal | None, now: datetime, old: Member | None, new: Member) -> None:
    """Write down in the audit that a member came or changed."""
    details = {"role": new.role.value, "email": new.email, "groups": sorted(new.groups)}
    if old != new:
        await audit(work, me, now, "member", "create" if old is None else "update", new.user_id, details)


async def check_left(work: UnitOfWork, org: str, old: Member, new: Member | None) -> None:
    """Refuse what left owners or managers out. The change is made already: the error undoes it."""
    owned = old.role is Role.OWNER and (new is None or new.role is not Role.OWNER)
    if owned and not await work.directory.members(limit=1, role=Role.OWNER):
        raise conflict(f"`{old.user_id}` is the last owner", "last_owner")
    kept = frozenset[str]() if new is None else principal_of(org, new).subjects
    await check_managed(work, principal_of(org, old).subjects - kept)


async def check_managed(work: UnitOfWork, lost: Collection[str]) -> None:
    """Refuse what left a resource, which one of these subjects managed, without anyone who can manage it."""
    alone = await work.directory.unmanaged(lost, limit=MAX_NAMED) if lost else []
    if alone:
        named: JSON = [{"type": kind.value, "id": number} for kind, number in alone]
        raise conflict("this would leave resources without anyone who can manage them", "unmanaged", resources=named)


async def group_issues(work: UnitOfWork, groups: Collection[str]) -> list[Issue]:
    """Those that the organization does not have."""
    known = {group.id for group in await work.directory.groups(groups)}
    unknown = sorted(set(groups) - known)
    return [Issue("groups", f"the organization has no group `{group}`", "group") for group in unknown]


def email_issues(email: str | None) -> list[Issue]:
    if email is None or normalize_email(email):
        return []
    return [Issue("email", f"`{email}` is no ASCII e-mail address", "email")]


def unauthenticated() -> Unauthenticated:
    """The one answer to every credential that is missing or no good."""
    return Unauthenticated("the access token is missing, invalid or expired")


def _name_issues(name: str) -> list[Issue]:
    good = 1 <= len(name) <= 200
    return [] if good else [Issue("name", "must have 1 to 200 characters", "minLength")]


def _uuid_issues(path: str, uuids: Iterable[str]) -> list[Issue]:
    return [
        Issue(path, f"`{uuid}` is no UUID in lower case with hyphens", "uuid") for uuid in uuids if not is_uuid(uuid)
    ]


async def acting(work: UnitOfWork, org: str, user_id: str) -> Principal:
    """The user as a principal, with what the organization knows of it now. One who is no member, but known to the
    embedding program, has an id and the implicit group alone."""
    member = await work.directory.member(user_id)
    if member is None:
        return Principal(org, user_id, None, frozenset(), frozenset(TOKEN_SCOPES), Role.MEMBER)
    return principal_of(org, member)
