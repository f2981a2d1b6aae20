"""Who may use and who may manage a resource, and by which rule.

The decision is a pure function with one source. `grants` turns an access configuration into a list of grants, each
for one subject. A principal has a set of `subjects`, and `derive` allows what the grants of these subjects allow.
A store may keep the same grants as rows and select by subject, which gives the same decision.

The default is deny. Only a grant allows something: a role in the organization does not, and no grant denies.
"""

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Final, Literal

import attrs

from wfcore.domain.kernel.ids import normalize_email
from wfcore.domain.kernel.json_readers import as_list, as_object, as_objects, as_text, optional_text
from wfcore.domain.kernel.json_type import JSON

_RIGHTS: Final = {
    "workflows": ("read", "write", "invoke"),
    "skills": ("read", "write"),
    "memories": ("read", "write"),
    "conversations": ("read", "write"),
    "connections": ("read", "write"),
    "context": ("read", "write"),
    "members": ("read", "write"),
    "tokens": ("write",),
    "usage": ("read",),
    "hooks": ("read", "write"),
    "policies": ("read", "write"),
}

TOKEN_SCOPES: Final = tuple(f"{area}:{right}" for area, rights in _RIGHTS.items() for right in rights)
"""Every scope that a token can have (interface, Authentication)."""

Visibility = Literal["shared", "private"]
ManageDenial = Literal["not_owner", "needs_group_manage"]
By = Literal["group", "ownerUserId", "ownerEmail", "sharedWith"]

_SUBJECT_TYPES: Final = {"g": "group", "u": "user", "e": "email"}


class Role(StrEnum):
    """A member's role in the organization. It does not give access to resources."""

    OWNER = "owner"
    ADMIN = "admin"
    MEMBER = "member"


def missing_scopes(granted: Collection[str], required: Collection[str]) -> list[str]:
    """The required token scopes that are not granted, in order. `X:write` includes `X:read` and nothing else."""
    absent = [scope for scope in required if scope not in granted]
    if not absent:
        return absent
    return [scope for scope in absent if not scope.endswith(":read") or scope[: -len("read")] + "write" not in granted]


@attrs.frozen
class Principal:
    """The caller: a member of one organization, with the scopes of the credential."""

    org_uuid: str
    user_id: str
    email: str | None
    groups: frozenset[str]
    scopes: frozenset[str]
    role: Role
    email_verified: bool = True
    expires_at: datetime | None = None
    """When the credential ends: a token that the caller makes ends no later. None: it does not end."""
    token: str | None = attrs.field(default=None, eq=False)
    """The prefix of the personal access token; None for another credential."""
    workflows: frozenset[int] | None = None
    """The only workflows that the credential reaches; None: it is not limited to some."""

    def reaches(self, kind: str, id: int | None) -> bool:
        """Whether the credential reaches this resource, and runs of it."""
        return self.workflows is None or (kind == "workflow" and id in self.workflows)

    def all_groups(self) -> frozenset[str]:
        """The groups, with the implicit group of every member, whose UUID is that of the organization."""
        return self.groups | {self.org_uuid}

    @property
    def verified_email(self) -> str | None:
        """The normalized address if it is verified and valid (`normalize_email`); else None: no grant matches it."""
        return normalize_email(self.email) if self.email and self.email_verified else None

    @cached_property
    def subjects(self) -> frozenset[str]:
        """Every subject whose grants apply to this principal."""
        email = self.verified_email
        people = {f"u:{self.user_id}"} if email is None else {f"u:{self.user_id}", f"e:{email}"}
        return frozenset(people | {f"g:{uuid}" for uuid in self.all_groups()})


@attrs.frozen
class GroupGrant:
    """The rights of a group's members on a shared resource. The two flags are independent."""

    use: bool
    manage: bool


@attrs.frozen
class SharedUser:
    """A person with whom a private resource is shared. If `user_id` is set, only that user matches, not the address."""

    email: str
    added_at: str
    added_by: str
    user_id: str | None = None


@attrs.frozen
class AccessConfig:
    """The access configuration (interface, AccessConfig). The owner has rights only while it is private.

    If `owner_user_id` is set, only that user matches, as in `sharedWith`; the owner's address is only for display.
    """

    visibility: Visibility
    group_permissions: Mapping[str, GroupGrant]
    shared_with: tuple[SharedUser, ...]
    owner_user_id: str | None
    owner_email: str | None
    guardrails: tuple[JSON, ...] = ()

    @cached_property
    def grants(self) -> tuple["Grant", ...]:
        """See `grants`."""
        return tuple(grants(self))


@attrs.frozen
class Grant:
    """One grant of a configuration: `subject` may use, manage or both, by the rule `by`.

    A subject is `g:<group uuid>`, `u:<user id>` or `e:<e-mail>`.
    """

    subject: str
    use: bool
    manage: bool
    by: By

    def __str__(self) -> str:
        rights = " and ".join(right for right in ("use", "manage") if getattr(self, right))
        return f"{rights} by {self.by} `{self.subject[2:]}`"

    def to_wire(self) -> dict[str, JSON]:
        kind, subject = _SUBJECT_TYPES[self.subject[0]], self.subject[2:]
        return {"subjectType": kind, "subject": subject, "use": self.use, "manage": self.manage, "rule": self.by}


@attrs.frozen
class Access:
    """The rights of a principal on a resource, and the grants that give them.

    For a principal without rights the resource must look as if it did not exist.
    """

    can_use: bool
    can_manage: bool
    manage_denial: ManageDenial | None
    rules: tuple[Grant, ...]

    @property
    def visible(self) -> bool:
        return self.can_use or self.can_manage


def subjects(principal: Principal) -> list[str]:
    """The subjects of a principal, in order: a store selects grants by them."""
    return sorted(principal.subjects)


def grants(config: AccessConfig) -> list[Grant]:
    """The grants of a configuration, one for each subject that has a right: a store keeps these."""
    if config.visibility == "shared":
        return [
            Grant(f"g:{uuid}", bits.use, bits.manage, "group")
            for uuid, bits in config.group_permissions.items()
            if bits.use or bits.manage
        ]
    found: dict[str, Grant] = {}
    for grant in _private_grants(config):
        found.setdefault(grant.subject, grant)  # the owner comes first and has every right
    return list(found.values())


def _private_grants(config: AccessConfig) -> Iterator[Grant]:
    if config.owner_user_id is not None:
        yield Grant(f"u:{config.owner_user_id}", True, True, "ownerUserId")
    elif config.owner_email is not None:
        yield Grant(f"e:{config.owner_email}", True, True, "ownerEmail")
    for entry in config.shared_with:
        subject = f"e:{entry.email}" if entry.user_id is None else f"u:{entry.user_id}"
        yield Grant(subject, True, False, "sharedWith")


def derive(principal: Principal, config: AccessConfig) -> Access:
    """The rights of `principal` under `config`, and the grants that give them (interface, AccessConfig)."""
    subjects = principal.subjects
    rules = tuple([grant for grant in config.grants if grant.subject in subjects])
    can_use, can_manage = any(grant.use for grant in rules), any(grant.manage for grant in rules)
    denial: ManageDenial = "needs_group_manage" if config.visibility == "shared" else "not_owner"
    return Access(can_use, can_manage, None if can_manage else denial, rules)


def revokes_self(principal: Principal, new: AccessConfig) -> bool:
    """Whether `principal` could no longer manage under `new`; the caller must refuse such an update."""
    return not derive(principal, new).can_manage


def default_access(org_uuid: str, owner: Principal) -> AccessConfig:
    """Shared with the whole organization, to use and manage; the creator is the owner."""
    return AccessConfig("shared", {org_uuid: GroupGrant(True, True)}, (), owner.user_id, owner.verified_email)


def apply_access(
    data: Mapping[str, JSON], current: AccessConfig | None, writer: Principal, now: str, *, owner_gone: bool = False
) -> AccessConfig:
    """The configuration of a body without issues (`access_checks.check_access`). `now` is in ISO 8601.

    It replaces `current` as a whole: missing keys become empty. The server's own values stay: who added an entry and
    when, and the owner. The writer becomes the owner on create, and when the resource becomes private and has no owner
    or `owner_gone`. An entry keeps its user id if the body has only the e-mail, so that a recycled address does not
    inherit access.
    """
    private = data["visibility"] == "private"
    owner = (current.owner_user_id, current.owner_email) if current else (None, None)
    if current is None or (private and (owner_gone or owner == (None, None))):
        owner = (writer.user_id, writer.verified_email)
    known = {entry.email: entry for entry in current.shared_with} if current else {}
    return AccessConfig(
        visibility="private" if data["visibility"] == "private" else "shared",
        group_permissions={} if private else _group_permissions(data),
        shared_with=tuple(_shared_user(entry, known, writer, now) for entry in as_objects(data.get("sharedWith", ()))),
        owner_user_id=owner[0],
        owner_email=owner[1],
        guardrails=tuple(as_list(data.get("guardrails", ()))),
    )


def _group_permissions(data: Mapping[str, JSON]) -> dict[str, GroupGrant]:
    permissions = ((uuid, as_object(bits)) for uuid, bits in as_object(data.get("groupPermissions", {})).items())
    return {uuid: GroupGrant(bits["use"] is True, bits["manage"] is True) for uuid, bits in permissions}


def _shared_user(entry: Mapping[str, JSON], known: Mapping[str, SharedUser], writer: Principal, now: str) -> SharedUser:
    address = as_text(entry["email"])
    email = normalize_email(address) or address
    before = known.get(email) or SharedUser(email, now, writer.user_id)
    return attrs.evolve(before, user_id=optional_text(entry.get("userId", before.user_id)))


def to_wire(config: AccessConfig) -> dict[str, JSON]:
    """The configuration on the wire and in a store."""
    wire: dict[str, JSON] = {
        "visibility": config.visibility,
        "groupPermissions": {
            uuid: {"use": bits.use, "manage": bits.manage} for uuid, bits in config.group_permissions.items()
        },
        "sharedWith": [_user_to_wire(entry) for entry in config.shared_with],
        "ownerUserId": config.owner_user_id,
        "ownerEmail": config.owner_email,
    }
    return wire | {"guardrails": list(config.guardrails)} if config.guardrails else wire


def _user_to_wire(entry: SharedUser) -> dict[str, str]:
    wire = {"email": entry.email, "addedAt": entry.added_at, "addedBy": entry.added_by}
    return wire | {"userId": entry.user_id} if entry.user_id is not None else wire


def from_wire(data: Mapping[str, JSON]) -> AccessConfig:
    """The inverse of `to_wire`, for stored configurations."""
    return AccessConfig(
        visibility="private" if data["visibility"] == "private" else "shared",
        group_permissions=_group_permissions(data),
        shared_with=tuple(
            SharedUser(
                as_text(entry["email"]),
                as_text(entry["addedAt"]),
                as_text(entry["addedBy"]),
                optional_text(entry.get("userId")),
            )
            for entry in as_objects(data["sharedWith"])
        ),
        owner_user_id=optional_text(data["ownerUserId"]),
        owner_email=optional_text(data["ownerEmail"]),
        guardrails=tuple(as_list(data.get("guardrails", ()))),
    )
