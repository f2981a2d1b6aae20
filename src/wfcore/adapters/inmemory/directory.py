"""Members, groups and tokens of one organization, in dicts."""

from collections.abc import Collection, Mapping
from datetime import datetime

import attrs

from wfcore.adapters.inmemory.tenant import Tenant
from wfcore.domain.kernel.search import contains
from wfcore.domain.people.people import AccessToken, Group, Member
from wfcore.domain.resources.access import Role, grants
from wfcore.domain.resources.lifecycle import Status
from wfcore.domain.resources.resource import Kind, Resource
from wfcore.ports.storage import Duplicate


@attrs.frozen
class MemoryDirectory:
    """Implements the port `DirectoryRepository` on one tenant."""

    tenant: Tenant

    async def add_member(self, member: Member) -> None:
        self.tenant.members[member.user_id] = member

    async def member(self, user_id: str) -> Member | None:
        return self.tenant.members.get(user_id)

    async def member_by_email(self, email: str) -> Member | None:
        found = (member for _, member in sorted(self.tenant.members.items()) if member.email == email)
        return next(found, None)

    async def members(
        self,
        *,
        limit: int,
        after: str = "",
        group: str | None = None,
        role: Role | None = None,
        ids: Collection[str] | None = None,
        query: str | None = None,
    ) -> list[Member]:
        found = [
            member
            for name, member in sorted(self.tenant.members.items())
            if name > after
            and (group is None or group in member.groups)
            and role in (None, member.role)
            and (ids is None or name in ids)
            and contains(query, name, member.name, member.email)
        ]
        return found[:limit]

    async def remove_member(self, user_id: str) -> None:
        self.tenant.members.pop(user_id, None)

    async def add_group(self, group: Group) -> None:
        if group.id in self.tenant.groups:
            raise Duplicate("groups")
        self.tenant.groups[group.id] = group

    async def groups(
        self, ids: Collection[str] | None = None, *, limit: int | None = None, after: str = ""
    ) -> list[Group]:
        known = self.tenant.groups
        names = sorted(name for name in (known if ids is None else known.keys() & set(ids)) if name > after)
        return [known[name] for name in names[:limit]]

    async def rename_organization(self, name: str) -> None:
        self.tenant.name = name

    async def limit_runs(self, most: int | None, workflow: int | None = None) -> None:
        if workflow is None:
            self.tenant.max_concurrent_runs = most
        elif most is None:
            self.tenant.workflow_limits.pop(workflow, None)
        else:
            self.tenant.workflow_limits[workflow] = most

    async def run_limits(self) -> Mapping[int, int]:
        return dict(self.tenant.workflow_limits)

    async def rename_group(self, group: Group) -> None:
        if group.id in self.tenant.groups:
            self.tenant.groups[group.id] = group

    async def remove_group(self, id: str) -> None:
        self.tenant.groups.pop(id, None)
        for name, member in self.tenant.members.items():
            self.tenant.members[name] = attrs.evolve(member, groups=member.groups - {id})

    async def unmanaged(self, subjects: Collection[str], *, limit: int) -> list[tuple[Kind, int]]:
        found = [
            (kind, number)
            for kind, table in sorted(self.tenant.resource_tables.items())
            for number, resource in sorted(table.rows.items())
            if resource.status != Status.DELETED
            and not (managers := _managers(resource)).isdisjoint(subjects)
            and managers.isdisjoint(self._member_subjects(resource.org_uuid))
        ]
        return found[:limit]

    def _member_subjects(self, org: str) -> set[str]:
        """All subjects of at least one member."""
        found = {f"g:{org}"}
        for member in self.tenant.members.values():
            found |= {f"u:{member.user_id}", *(f"g:{group}" for group in member.groups)}
            if member.email and member.email_verified:
                found.add(f"e:{member.email}")
        return found

    async def add_token(self, token: AccessToken) -> None:
        if token.prefix in self.tenant.tokens:
            raise Duplicate("tokens")
        self.tenant.tokens[token.prefix] = token

    async def token(self, prefix: str) -> AccessToken | None:
        return self.tenant.tokens.get(prefix)

    async def tokens(self, user_id: str, *, limit: int, after: tuple[datetime, str] | None = None) -> list[AccessToken]:
        of_user = [token for token in self.tenant.tokens.values() if token.user_id == user_id]
        found = [token for token in of_user if after is None or token.position > after]
        return sorted(found, key=lambda token: token.position)[:limit]

    async def revoke_tokens(self, user_id: str, at: datetime) -> None:
        for prefix in [name for name, token in self.tenant.tokens.items() if token.user_id == user_id]:
            await self.revoke_token(prefix, at)

    async def revoke_token(self, prefix: str, at: datetime) -> None:
        token = self.tenant.tokens.get(prefix)
        if token and token.revoked_at is None:
            self.tenant.tokens[prefix] = attrs.evolve(token, revoked_at=at)


def _managers(resource: Resource) -> set[str]:
    return {grant.subject for grant in grants(resource.access) if grant.manage}
