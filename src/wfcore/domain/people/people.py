"""Organizations, members, groups and personal access tokens (interface, Authentication)."""

from datetime import datetime

import attrs

from wfcore.domain.resources.access import Role


@attrs.frozen
class Organization:
    """A tenant. At most `max_concurrent_runs` of its executions are driven at the same time; None: no limit."""

    uuid: str
    name: str
    created_at: datetime
    max_concurrent_runs: int | None = None


@attrs.frozen
class Member:
    """A member; `groups` are the UUIDs of its groups, without the implicit one."""

    user_id: str
    email: str | None
    name: str | None
    role: Role
    groups: frozenset[str]
    email_verified: bool = True


@attrs.frozen
class Group:
    id: str
    name: str


@attrs.frozen
class AccessToken:
    """A personal access token; of its secret only the hash is stored."""

    prefix: str
    secret_hash: str
    user_id: str
    name: str
    scopes: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None

    @property
    def position(self) -> tuple[datetime, str]:
        """What identifies it in a list, which begins with the oldest."""
        return self.created_at, self.prefix
