"""Members, groups and tokens of one organization, in tables."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

import attrs
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from wfcore.adapters.sql.database import insert_new
from wfcore.adapters.sql.resources import add_row
from wfcore.adapters.sql.rows import to_ms, to_token, token_row
from wfcore.adapters.sql.tables import group_members, groups, members, tokens
from wfcore.domain.access import Role
from wfcore.ports.storage import AccessToken, Group, Member


@attrs.frozen
class SqlDirectory:
    """Implements the port `Directory` within one transaction. `org` is the organization's number."""

    connection: AsyncConnection
    org: int

    async def add_member(self, member: Member) -> None:
        row = attrs.asdict(member, filter=attrs.filters.exclude("groups")) | {"role": member.role.value}
        key = {"org": self.org, "user_id": member.user_id}
        added = await self.connection.execute(insert_new(members).values(key | row))
        if not added.rowcount:
            mine = (members.c.org == self.org, members.c.user_id == member.user_id)
            await self.connection.execute(members.update().where(*mine).values(row))
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

    async def members(self, *, limit: int, after: str = "") -> list[Member]:
        return await self._members(members.c.user_id > after, limit=limit)

    async def _members(self, wanted: sa.ColumnElement[bool], *, limit: int) -> list[Member]:
        found = sa.select(members).where(members.c.org == self.org, wanted)
        rows = (await self.connection.execute(found.order_by(members.c.user_id).limit(limit))).all()
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

    async def add_group(self, group: Group) -> None:
        await add_row(self.connection, groups, {"org": self.org, "id": group.id, "name": group.name})

    async def groups(self, ids: Collection[str] | None = None) -> list[Group]:
        found = sa.select(groups.c.id, groups.c.name).where(groups.c.org == self.org).order_by(groups.c.id)
        if ids is not None:
            found = found.where(groups.c.id.in_(ids))
        return [Group(*row) for row in await self.connection.execute(found)]

    async def add_token(self, token: AccessToken) -> None:
        await add_row(self.connection, tokens, {"org": self.org} | token_row(token))

    async def token(self, prefix: str) -> AccessToken | None:
        found = sa.select(tokens).where(tokens.c.org == self.org, tokens.c.prefix == prefix)
        row = (await self.connection.execute(found)).mappings().first()
        return to_token(row) if row else None

    async def revoke_token(self, prefix: str, at: datetime) -> None:
        live = (tokens.c.org == self.org, tokens.c.prefix == prefix, tokens.c.revoked_at.is_(None))
        await self.connection.execute(tokens.update().where(*live).values(revoked_at=to_ms(at)))


def _first(found: list[Member]) -> Member | None:
    return found[0] if found else None
