"""The workflows, or the skills, of one organization, in tables."""

import asyncio
import string
from collections.abc import Collection
from typing import Any, Final

import attrs
import sqlalchemy as sa

from wfcore.adapters.sql.repositories.row_values import (
    deployment_row,
    resource_row,
    to_key,
    to_resource,
    to_variation,
    variation_row,
)
from wfcore.adapters.sql.schema.dialect import insert_new, position_of
from wfcore.adapters.sql.schema.names import PREFIX
from wfcore.adapters.sql.schema.statement import Statement
from wfcore.adapters.sql.schema.tables import counters, executions, grants, resources, runs, variations
from wfcore.adapters.sql.store import Transaction
from wfcore.domain.resources import access
from wfcore.domain.resources.access import AccessConfig, Principal
from wfcore.domain.resources.ownership import is_offered_to
from wfcore.domain.resources.resource import Kind, Resource, Variation
from wfcore.ports.storage import Duplicate, Stale

NEXT_ID: Final = Statement(
    lambda d: (
        f"""
INSERT INTO {d[counters]} (org, kind, last) VALUES ({d[1]}, {d[2]}, 1)
ON CONFLICT (org, kind) DO UPDATE SET last = {d[counters]}.last + 1 RETURNING last"""
    )
)

LARGE_CONTENT: Final = 2**16
"""Characters of a content from which on a thread decodes it."""

_ASCII_LOWER: Final = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


async def add_row(connection: Transaction, table: sa.Table, row: dict[str, Any]) -> None:
    """Insert one row. Raises Duplicate, and writes nothing, when a unique key exists."""
    done = await connection.execute(insert_new(table).values(row))
    if not done.rowcount:
        raise Duplicate(table.name.removeprefix(PREFIX))


@attrs.frozen
class SqlResources:
    """Implements the port `ResourceRepository` within one transaction. `org` is the organization's key."""

    connection: Transaction
    org: int
    org_uuid: str
    kind: Kind

    async def next_id(self) -> int:
        counted = await self.connection.run(NEXT_ID, (self.org, self.kind.value))
        return int(counted.scalar_one())

    async def slugs_taken(self, slugs: Collection[str]) -> set[str]:
        found = sa.select(resources.c.slug).where(*self._of_organization(resources), resources.c.slug.in_(slugs))
        return set((await self.connection.execute(found)).scalars())

    async def add(self, resource: Resource) -> None:
        await add_row(self.connection, resources, {"org": self.org} | resource_row(resource))
        await self._add_grants(await self._key(resource.id), resource.access)

    async def get(self, id: int) -> Resource | None:
        found = sa.select(resources).where(*self._of_organization(resources), resources.c.id == id)
        row = (await self.connection.execute(found)).mappings().first()
        return to_resource(row, self.org_uuid) if row else None

    async def save(self, old: Resource, new: Resource) -> None:
        unchanged = (resources.c.id == old.id, resources.c.revision == old.revision)
        change = resources.update().where(*self._of_organization(resources), *unchanged).values(resource_row(new))
        if not (await self.connection.execute(change)).rowcount:
            raise Stale(f"{self.kind} {old.id}")
        if access.grants(new.access) != access.grants(old.access):
            key = await self._key(old.id)
            await self.connection.execute(grants.delete().where(grants.c.resource == key))
            await self._add_grants(key, new.access)

    async def page(
        self,
        principal: Principal,
        *,
        limit: int,
        after: int = 0,
        status: str | None = None,
        query: str | None = None,
    ) -> list[Resource]:
        found = self.page_statement(principal, limit=limit, after=after, status=status, query=query)
        rows = (await self.connection.execute(found)).mappings().all()
        return [to_resource(row, self.org_uuid) for row in rows]

    def page_statement(
        self, principal: Principal, *, limit: int, after: int, status: str | None, query: str | None
    ) -> sa.Select[Any]:
        """One scan of the unique key of ids, with one look-up of grants for each resource."""
        granted = sa.exists().where(
            grants.c.resource == resources.c.key, grants.c.subject.in_(access.subjects(principal))
        )
        if status == "deleted":
            granted = granted.where(grants.c.manage)
        found = sa.select(resources).where(*self._of_organization(resources), resources.c.id > after, granted)
        wanted = resources.c.status != "deleted" if status is None else resources.c.status == status
        found = found.where(wanted, *_containing(query)).order_by(resources.c.id)
        return found.limit(limit)

    async def offered_to(self, user_id: str) -> list[Resource]:
        offered = sa.select(resources).where(
            *self._of_organization(resources), resources.c.pending_transfer.is_not(None)
        )
        rows = (await self.connection.execute(offered.order_by(resources.c.id))).mappings()
        return [found for row in rows if is_offered_to(user_id, found := to_resource(row, self.org_uuid))]

    async def add_variation(self, id: int, variation: Variation) -> None:
        row = {"org": self.org, "kind": self.kind.value, "resource_id": id}
        await add_row(self.connection, variations, row | variation_row(variation))

    async def save_variation(self, id: int, variation: Variation) -> None:
        change = variations.update().where(*self._is_variation(id, variation.id)).values(deployment_row(variation))
        if not (await self.connection.execute(change)).rowcount:
            raise Stale(f"variation {variation.id}")

    async def drop_variation(self, id: int, variation_id: str) -> None:
        of_it = executions.c.variation_id == to_key(variation_id), executions.c.org == self.org
        pinned = sa.exists().where(sa.literal_column("is_draft"), *of_it)
        repaired = sa.exists().where(runs.c.variation_id == to_key(variation_id), runs.c.org == self.org)
        draft = variations.c.deployed_at.is_(None)
        unused = draft, ~pinned, ~repaired
        await self.connection.execute(variations.delete().where(*self._is_variation(id, variation_id), *unused))

    async def variation(self, id: int, variation_id: str) -> Variation | None:
        found = sa.select(variations).where(*self._is_variation(id, variation_id))
        row = (await self.connection.execute(found)).mappings().first()
        if row is None:
            return None
        is_large = len(row["content"]) >= LARGE_CONTENT
        return await asyncio.to_thread(to_variation, row) if is_large else to_variation(row)

    async def variations(
        self,
        id: int,
        *,
        limit: int,
        before: str | None = None,
    ) -> list[Variation]:
        latest_first = (variations.c.deployed_at.desc(), variations.c.id.desc())
        found = sa.select(variations).where(
            *self._of_organization(variations), variations.c.resource_id == id, variations.c.deployed_at.is_not(None)
        )
        if before is not None:
            found = found.where(self._deployed_before(id, before))
        rows = (await self.connection.execute(found.order_by(*latest_first).limit(limit))).mappings().all()
        return [to_variation(row) for row in rows]

    def _of_organization(self, table: sa.FromClause) -> tuple[sa.ColumnElement[bool], ...]:
        return table.c.org == self.org, table.c.kind == self.kind.value

    def _is_variation(self, id: int, variation_id: str) -> tuple[sa.ColumnElement[bool], ...]:
        return *self._of_organization(variations), variations.c.resource_id == id, variations.c.id == variation_id

    def _deployed_before(self, id: int, before: str) -> sa.ColumnElement[bool]:
        other = variations.alias("other")
        position = sa.select(other.c.deployed_at, other.c.id).where(
            *self._of_organization(other), other.c.resource_id == id, other.c.id == before
        )
        return sa.tuple_(variations.c.deployed_at, variations.c.id) < position.scalar_subquery()

    async def _key(self, id: int) -> int:
        found = sa.select(resources.c.key).where(*self._of_organization(resources), resources.c.id == id)
        return int((await self.connection.execute(found)).scalar_one())

    async def _add_grants(self, key: int, config: AccessConfig) -> None:
        rows = [
            {"resource": key, "subject": grant.subject, "use": grant.use, "manage": grant.manage}
            for grant in access.grants(config)
        ]
        if rows:
            await self.connection.execute(grants.insert(), rows)


def _containing(query: str | None) -> list[sa.ColumnElement[bool]]:
    """The condition that name or slug contain `query`, ignoring ASCII case. LIKE would refuse a long pattern."""
    if query is None:
        return []
    lowered = query.translate(_ASCII_LOWER)
    texts = (resources.c.name, resources.c.slug)
    return [sa.or_(*(position_of(sa.func.lower(text), lowered) > 0 for text in texts))]
