"""The workflows, or the skills, of one organization, in dicts."""

from collections.abc import Callable, Collection
from copy import deepcopy
from datetime import datetime

import attrs

from wfcore.domain.kernel.search import contains
from wfcore.domain.resources.access import Principal, derive
from wfcore.domain.resources.lifecycle import Status
from wfcore.domain.resources.ownership import is_party
from wfcore.domain.resources.resource import Resource, Variation
from wfcore.ports.storage import Duplicate, Stale

Pinned = Callable[[str], bool]
"""Returns whether an execution has pinned the variation of this id."""


@attrs.define
class ResourceTable:
    """The resources of one kind of one organization."""

    last_id: int = 0
    rows: dict[int, Resource] = attrs.Factory(dict)
    slugs: set[str] = attrs.Factory(set)
    variations: dict[tuple[int, str], Variation] = attrs.Factory(dict)

    def copy(self) -> "ResourceTable":
        return ResourceTable(self.last_id, dict(self.rows), set(self.slugs), dict(self.variations))


@attrs.frozen
class MemoryResources:
    """Implements the port `ResourceRepository` for one kind."""

    table: ResourceTable
    pinned: Pinned

    async def next_id(self) -> int:
        self.table.last_id += 1
        return self.table.last_id

    async def slugs_taken(self, slugs: Collection[str]) -> set[str]:
        return self.table.slugs.intersection(slugs)

    async def add(self, resource: Resource) -> None:
        if resource.id in self.table.rows or resource.slug in self.table.slugs:
            raise Duplicate("resources")
        self.table.rows[resource.id] = resource
        self.table.slugs.add(resource.slug)

    async def get(self, id: int) -> Resource | None:
        return self.table.rows.get(id)

    async def save(self, old: Resource, new: Resource) -> None:
        current = self.table.rows.get(old.id)
        if current is None or current.revision != old.revision:
            raise Stale(f"{old.kind} {old.id}")
        self.table.rows[old.id] = new

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
        found = (
            resource
            for number, resource in sorted(self.table.rows.items())
            if number > after
            and _has_status(resource, status)
            and contains(query, resource.name, resource.slug)
            and (resource.is_scheduled or not scheduled)
            and _may_see(principal, resource, status)
        )
        return [resource for resource, _ in zip(found, range(limit), strict=False)]

    async def visible(self, principal: Principal, ids: Collection[int]) -> list[Resource]:
        found = (self.table.rows[number] for number in sorted(self.table.rows.keys() & set(ids)))
        return [one for one in found if _has_status(one, None) and _may_see(principal, one, None)]

    async def offers_of(self, user_id: str) -> list[Resource]:
        return [resource for _, resource in sorted(self.table.rows.items()) if is_party(user_id, resource)]

    async def add_variation(self, id: int, variation: Variation) -> None:
        if (id, variation.id) in self.table.variations:
            raise Duplicate("variations")
        self.table.variations[id, variation.id] = deepcopy(variation)

    async def save_variation(self, id: int, variation: Variation) -> None:
        current = self.table.variations.get((id, variation.id))
        if current is None:
            raise Stale(f"variation {variation.id}")
        self.table.variations[id, variation.id] = attrs.evolve(
            current, deployed_at=variation.deployed_at, deployed_by=variation.deployed_by
        )

    async def drop_variation(self, id: int, variation_id: str) -> None:
        current = self.table.variations.get((id, variation_id))
        if current and current.deployed_at is None and not self.pinned(variation_id):
            del self.table.variations[id, variation_id]

    async def variation(self, id: int, variation_id: str) -> Variation | None:
        return deepcopy(self.table.variations.get((id, variation_id)))

    async def variations(
        self,
        id: int,
        *,
        limit: int,
        before: str | None = None,
    ) -> list[Variation]:
        deployed = [
            (variation.deployed_at, variation.id)
            for (owner, _), variation in self.table.variations.items()
            if owner == id and variation.deployed_at is not None
        ]
        deployed.sort(reverse=True)
        if before is not None:
            deployed = _after(deployed, before)
        return [deepcopy(self.table.variations[id, name]) for _, name in deployed[:limit]]


def _has_status(resource: Resource, status: str | None) -> bool:
    return resource.status != Status.DELETED if status is None else resource.status == status


def _may_see(principal: Principal, resource: Resource, status: str | None) -> bool:
    access = derive(principal, resource.access)
    return access.can_manage if status == Status.DELETED else access.visible


def _after(deployed: list[tuple[datetime, str]], before: str) -> list[tuple[datetime, str]]:
    """The variations after `before`; none if `before` does not exist."""
    places = [place for place, (_, name) in enumerate(deployed) if name == before]
    return deployed[places[0] + 1 :] if places else []
