"""The workflows, or the skills, of one organization, in tables."""

import asyncio
from collections.abc import Collection, Mapping
from functools import cache
from typing import Any, Final

import attrs

from wfcore.adapters.sql.repositories.row_values import (
    deployment_row,
    resource_row,
    to_key,
    to_resource,
    to_variation,
    variation_row,
)
from wfcore.adapters.sql.schema.deferred import dialect, sa
from wfcore.adapters.sql.schema.named_tables import counters, executions, grants, resources, runs, variations
from wfcore.adapters.sql.schema.names import PREFIX
from wfcore.adapters.sql.schema.statement import Statement
from wfcore.adapters.sql.store import Transaction
from wfcore.domain.kernel.search import folded
from wfcore.domain.resources import access
from wfcore.domain.resources.access import AccessConfig, Principal
from wfcore.domain.resources.ownership import is_party
from wfcore.domain.resources.resource import Kind, Resource, Variation
from wfcore.ports.storage import Duplicate, Stale

NEXT_ID: Final = Statement(
    lambda d: (
        f"""
INSERT INTO {d[counters]} (org, kind, last) VALUES ({d[1]}, {d[2]}, 1)
ON CONFLICT (org, kind) DO UPDATE SET last = {d[counters]}.last + 1 RETURNING last"""
    )
)

LAST_ID: Final = Statement(lambda d: f"SELECT max(id) FROM {d[resources]} WHERE org = {d[1]} AND kind = {d[2]}")

NEAR: Final = 300
"""The resources whose grants a page looks up one by one. Nearly always that is enough."""

LARGE_CONTENT: Final = 2**16
"""Characters of a content from which on a thread decodes it."""


async def add_row(connection: Transaction, table: "sa.Table", row: dict[str, Any]) -> None:
    """Insert one row. Raises Duplicate, and writes nothing, when a unique key exists."""
    done = await connection.execute(dialect.insert_new(table).values(row))
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
        scheduled: bool = False,
    ) -> list[Resource]:
        values = {
            "org": self.org, "kind": self.kind.value, "subjects": access.subjects(principal), "after": after,
            "last": after + NEAR, "status": status, "query": query and folded(query),
        }  # fmt: skip
        shape = status is not None, status == "deleted", query is not None
        if scheduled:
            return await self._resources(scheduled_resources(*shape), values | {"limit": limit})
        found = await self._resources(near_resources(*shape), values | {"limit": limit})
        if len(found) < limit and await self._last_id() > after + NEAR:
            found += await self._resources(far_resources(*shape), values | {"limit": limit - len(found)})
        return found

    async def visible(self, principal: Principal, ids: Collection[int]) -> list[Resource]:
        if not ids:
            return []
        values = {
            "org": self.org, "kind": self.kind.value, "subjects": access.subjects(principal), "ids": sorted(set(ids)),
        }  # fmt: skip
        return await self._resources(visible_resources(), values)

    async def _resources(self, found: "sa.Select[Any]", values: Mapping[str, Any]) -> list[Resource]:
        rows = (await self.connection.execute(found, values)).mappings().all()
        return [to_resource(row, self.org_uuid) for row in rows]

    async def _last_id(self) -> int:
        return (await self.connection.run(LAST_ID, (self.org, self.kind.value))).scalar_one() or 0

    async def offers_of(self, user_id: str) -> list[Resource]:
        offered = sa.select(resources).where(
            *self._of_organization(resources), resources.c.pending_transfer.is_not(None)
        )
        rows = (await self.connection.execute(offered.order_by(resources.c.id))).mappings()
        return [found for row in rows if is_party(user_id, found := to_resource(row, self.org_uuid))]

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

    def _of_organization(self, table: "sa.FromClause") -> "tuple[sa.ColumnElement[bool], ...]":
        return table.c.org == self.org, table.c.kind == self.kind.value

    def _is_variation(self, id: int, variation_id: str) -> "tuple[sa.ColumnElement[bool], ...]":
        return *self._of_organization(variations), variations.c.resource_id == id, variations.c.id == variation_id

    def _deployed_before(self, id: int, before: str) -> "sa.ColumnElement[bool]":
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


@cache
def near_resources(has_status: bool, needs_manage: bool, has_query: bool) -> "sa.Select[Any]":
    """The page of the next `NEAR` resources, with a look-up of grants for each.

    It is the cheaper one where the principal can see most resources. Its parameters are `org`, `kind`, `subjects`,
    `after`, `last`, `limit`, and `status` and `query` if it has them.
    """
    granted = sa.exists().where(grants.c.resource == resources.c.key, _granted(needs_manage=needs_manage))
    ids = resources.c.id > sa.bindparam("after"), resources.c.id <= sa.bindparam("last")
    found = _listed(has_status=has_status, has_query=has_query)
    page = found.where(resources.c.org == sa.bindparam("org"), *ids, granted).order_by(resources.c.id)
    return page.limit(sa.bindparam("limit", type_=sa.Integer()))


@cache
def scheduled_resources(has_status: bool, needs_manage: bool, has_query: bool) -> "sa.Select[Any]":
    """The page of the next resources with a schedule, by their own index, with a look-up of grants for each. Its
    parameters are those of `near_resources` without `last`.
    """
    granted = sa.exists().where(grants.c.resource == resources.c.key, _granted(needs_manage=needs_manage))
    # The text of the condition of the index: SQLite uses it only then.
    found = _listed(has_status=has_status, has_query=has_query).where(sa.literal_column("is_scheduled"))
    page = found.where(resources.c.org == sa.bindparam("org"), resources.c.id > sa.bindparam("after"), granted)
    return page.order_by(resources.c.id).limit(sa.bindparam("limit", type_=sa.Integer()))


@cache
def visible_resources() -> "sa.Select[Any]":
    """Those of `ids` that `subjects` can use or manage."""
    granted = sa.exists().where(grants.c.resource == resources.c.key, _granted(needs_manage=False))
    ids = resources.c.id.in_(sa.bindparam("ids", expanding=True))
    found = _listed(has_status=False, has_query=False)
    return found.where(resources.c.org == sa.bindparam("org"), ids, granted).order_by(resources.c.id)


@cache
def far_resources(has_status: bool, needs_manage: bool, has_query: bool) -> "sa.Select[Any]":
    """The page of the resources after `last`, by the grants of the principal, who can see few of them. It can use no
    other index. Its parameters are those of `near_resources`.
    """
    listed = resources.c.key.in_(sa.select(grants.c.resource).where(_granted(needs_manage=needs_manage)))
    ids = resources.c.org + 0 == sa.bindparam("org"), resources.c.id + 0 > sa.bindparam("last")
    found = _listed(has_status=has_status, has_query=has_query)
    return found.where(*ids, listed).order_by(resources.c.id + 0).limit(sa.bindparam("limit", type_=sa.Integer()))


def _granted(*, needs_manage: bool) -> "sa.ColumnElement[bool]":
    mine: sa.ColumnElement[bool] = grants.c.subject.in_(sa.bindparam("subjects", expanding=True))
    return mine & grants.c.manage if needs_manage else mine


def _listed(*, has_status: bool, has_query: bool) -> "sa.Select[Any]":
    """Those of a kind in a state, by default those that are not deleted, whose name or slug contain `query`."""
    status = resources.c.status == sa.bindparam("status") if has_status else resources.c.status != "deleted"
    found = sa.select(resources).where(resources.c.kind == sa.bindparam("kind"), status)
    if not has_query:
        return found
    query = sa.bindparam("query", type_=sa.Text())
    return found.where(dialect.contains(query, resources.c.name, resources.c.slug))
