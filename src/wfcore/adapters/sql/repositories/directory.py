"""Members, groups and tokens of one organization, in tables."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import attrs

from wfcore.adapters.sql.repositories.resources import add_row
from wfcore.adapters.sql.repositories.row_values import to_ms, to_token, token_row
from wfcore.adapters.sql.schema.deferred import dialect, sa
from wfcore.adapters.sql.schema.named_tables import (
    grants,
    group_members,
    groups,
    members,
    organizations,
    resources,
    tokens,
)
from wfcore.adapters.sql.schema.statement import Statement
from wfcore.adapters.sql.store import Transaction
from wfcore.domain.kernel.search import folded
from wfcore.domain.people.people import AccessToken, Group, Member
from wfcore.domain.resources.access import Role
from wfcore.domain.resources.resource import Kind

TOKENS_OF_USER: Final = Statement(
    lambda d: (
        f"""
SELECT t.* FROM {d[tokens]} t {d.by_index("wfcore_tokens_user")}
WHERE t.org = {d[1]} AND t.user_id = {d[2]} AND (t.created_at, t.prefix) > ({d[3]}, {d[4]})
ORDER BY t.created_at, t.prefix LIMIT {d[5]}"""
    )
)


@attrs.frozen
class SqlDirectory:
    """Implements the port `DirectoryRepository` within one transaction. `org` is the organization's key."""

    connection: Transaction
    org: int
    org_uuid: str

    async def add_member(self, member: Member) -> None:
        row = attrs.asdict(member, filter=attrs.filters.exclude("groups")) | {"role": member.role.value}
        key = {"org": self.org, "user_id": member.user_id}
        added = await self.connection.execute(dialect.insert_new(members).values(key | row))
        if not added.rowcount:
            own = (members.c.org == self.org, members.c.user_id == member.user_id)
            await self.connection.execute(members.update().where(*own).values(row))
        await self._set_groups(key, member.groups)

    async def _set_groups(self, key: dict[str, Any], ids: Collection[str]) -> None:
        await self.connection.execute(group_members.delete().filter_by(**key))
        if ids:
            rows = [key | {"group_id": group_id} for group_id in sorted(ids)]
            await self.connection.execute(group_members.insert(), rows)

    async def member(self, user_id: str) -> Member | None:
        return _first(await self._members(members.c.user_id == user_id, limit=1))

    async def member_by_email(self, email: str) -> Member | None:
        return _first(await self._members(members.c.email == email, limit=1))

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
        wanted: list[sa.ColumnElement[bool]] = []
        listed = members.c.user_id
        if group is not None:
            listed = group_members.c.user_id
            of_group = group_members.c.org == self.org, group_members.c.group_id == group
            wanted = [*of_group, members.c.user_id == listed]
        wanted.append(listed > after)
        if ids is not None:
            wanted.append(members.c.user_id.in_(ids))
        if role is not None:
            wanted.append(members.c.role == role.value)
        if query is not None:
            text = sa.literal(folded(query), sa.Text())
            wanted.append(dialect.contains(text, members.c.user_id, members.c.name, members.c.email))
        return await self._members(*wanted, limit=limit, by=listed)

    async def _members(
        self, *wanted: "sa.ColumnElement[bool]", limit: int, by: "sa.ColumnElement[str] | None" = None
    ) -> list[Member]:
        found = sa.select(members).where(members.c.org == self.org, *wanted)
        rows = (
            await self.connection.execute(found.order_by(members.c.user_id if by is None else by).limit(limit))
        ).all()
        groups_of = await self._groups_of([row.user_id for row in rows])
        return [
            Member(
                user_id=row.user_id,
                email=row.email,
                name=row.name,
                role=Role(row.role),
                groups=frozenset(groups_of[row.user_id]),
                email_verified=row.email_verified,
            )
            for row in rows
        ]

    async def _groups_of(self, user_ids: Sequence[str]) -> dict[str, set[str]]:
        found = sa.select(group_members.c.user_id, group_members.c.group_id).where(
            group_members.c.org == self.org, group_members.c.user_id.in_(user_ids)
        )
        groups_of: dict[str, set[str]] = {user_id: set() for user_id in user_ids}
        for user_id, group_id in await self.connection.execute(found):
            groups_of[user_id].add(group_id)
        return groups_of

    async def remove_member(self, user_id: str) -> None:
        for table in (group_members, members):
            await self.connection.execute(table.delete().filter_by(org=self.org, user_id=user_id))

    async def add_group(self, group: Group) -> None:
        await add_row(self.connection, groups, {"org": self.org, "id": group.id, "name": group.name})

    async def groups(
        self, ids: Collection[str] | None = None, *, limit: int | None = None, after: str = ""
    ) -> list[Group]:
        own = (groups.c.org == self.org, groups.c.id > after)
        found = sa.select(groups.c.id, groups.c.name).where(*own).order_by(groups.c.id).limit(limit)
        if ids is not None:
            found = found.where(groups.c.id.in_(ids))
        return [Group(*row) for row in await self.connection.execute(found)]

    async def rename_organization(self, name: str) -> None:
        await self._change_organization(name=name)

    async def limit_runs(self, most: int | None, workflow: int | None = None) -> None:
        if workflow is None:
            await self._change_organization(max_concurrent_runs=most)
            return
        own = (resources.c.org == self.org, resources.c.kind == Kind.WORKFLOW, resources.c.id == workflow)
        await self.connection.execute(resources.update().where(*own).values(max_concurrent_runs=most))

    async def run_limits(self) -> Mapping[int, int]:
        limited = (resources.c.kind == Kind.WORKFLOW, resources.c.max_concurrent_runs.is_not(None))
        found = sa.select(resources.c.id, resources.c.max_concurrent_runs).where(resources.c.org == self.org, *limited)
        rows = await self.connection.execute(found.order_by(resources.c.id))
        return {row.id: row.max_concurrent_runs for row in rows}

    async def _change_organization(self, **values: str | int | None) -> None:
        await self.connection.execute(organizations.update().where(organizations.c.key == self.org).values(**values))

    async def rename_group(self, group: Group) -> None:
        change = groups.update().where(groups.c.org == self.org, groups.c.id == group.id)
        await self.connection.execute(change.values(name=group.name))

    async def remove_group(self, id: str) -> None:
        await self.connection.execute(group_members.delete().filter_by(org=self.org, group_id=id))
        await self.connection.execute(groups.delete().filter_by(org=self.org, id=id))

    async def unmanaged(self, subjects: Collection[str], *, limit: int) -> list[tuple[Kind, int]]:
        other = grants.alias("other")
        managed = sa.exists().where(
            other.c.resource == resources.c.key, other.c.manage, self._has_member(other.c.subject)
        )
        found = (
            sa.select(resources.c.kind, resources.c.id)
            .where(resources.c.org == self.org, resources.c.status != "deleted", ~managed)
            .where(resources.c.key.in_(sa.select(grants.c.resource).where(_manage_grants(subjects))))
        )
        rows = await self.connection.execute(found.order_by(resources.c.kind, resources.c.id).limit(limit))
        return [(Kind(kind), number) for kind, number in rows]

    def _has_member(self, subject: "sa.ColumnElement[str]") -> "sa.ColumnElement[bool]":
        """The condition that a member has the subject, as in `access.subjects`."""
        prefix, name = sa.func.substr(subject, 1, 2), sa.func.substr(subject, 3)

        def one(table: "sa.Table", column: "sa.ColumnElement[str]", *more: "sa.ColumnElement[bool]") -> "sa.Exists":
            return sa.exists().where(table.c.org == self.org, column == name, *more)

        return sa.or_(
            subject == f"g:{self.org_uuid}",
            (prefix == "g:") & one(group_members, group_members.c.group_id),
            (prefix == "u:") & one(members, members.c.user_id),
            (prefix == "e:") & one(members, members.c.email, members.c.email_verified),
        )

    async def add_token(self, token: AccessToken) -> None:
        await add_row(self.connection, tokens, {"org": self.org} | token_row(token))

    async def token(self, prefix: str) -> AccessToken | None:
        found = sa.select(tokens).where(tokens.c.org == self.org, tokens.c.prefix == prefix)
        row = (await self.connection.execute(found)).mappings().first()
        return to_token(row) if row else None

    async def tokens(self, user_id: str, *, limit: int, after: tuple[datetime, str] | None = None) -> list[AccessToken]:
        made, prefix = (-1, "") if after is None else (to_ms(after[0]), after[1])
        rows = await self.connection.run(TOKENS_OF_USER, (self.org, user_id, made, prefix, limit))
        return [to_token(row) for row in rows.mappings()]

    async def revoke_token(self, prefix: str, at: datetime) -> None:
        await self._revoke(tokens.c.prefix == prefix, at)

    async def revoke_tokens(self, user_id: str, at: datetime) -> None:
        await self._revoke(tokens.c.user_id == user_id, at)

    async def _revoke(self, which: "sa.ColumnElement[bool]", at: datetime) -> None:
        live = (tokens.c.org == self.org, which, tokens.c.revoked_at.is_(None))
        await self.connection.execute(tokens.update().where(*live).values(revoked_at=to_ms(at)))


def _manage_grants(subjects: Collection[str]) -> "sa.ColumnElement[bool]":
    """The grants of manage to one of these subjects."""
    return grants.c.subject.in_(subjects) & grants.c.manage


def _first(found: list[Member]) -> Member | None:
    return found[0] if found else None
