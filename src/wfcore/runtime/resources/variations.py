"""Variations: reading one, and how two differ (interface, Variations)."""

import attrs

from wfcore.domain.kernel.errors import Issue, NotFound, refuse
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal
from wfcore.domain.resources.content import Content, content_to_wire
from wfcore.domain.resources.differences import Difference, difference
from wfcore.domain.resources.resource import CONTENTS, Resource, Variation
from wfcore.ports.storage import UnitOfWork
from wfcore.runtime.common.authorization import authorize, needs
from wfcore.runtime.resources.base import DeployedVariation, ResourceBase

ACTIVE, DRAFT = "active", "draft"


@attrs.frozen
class VariationView(DeployedVariation):
    """A variation with its content."""

    def to_wire(self) -> dict[str, JSON]:
        return {**super().to_wire(), "variation": content_to_wire(self.variation.content)}


class VariationUseCases(ResourceBase):
    """Reads variations of one kind of resource."""

    @needs("*:read")
    async def variation(self, me: Principal, id: int, variation_id: str) -> VariationView:
        """One variation with its content. A draft requires manage: Forbidden. NotFound for an unknown one."""
        async with self._ports.storage.reading(me.org_uuid) as work:
            resource = (await self._authorized(work, me, id, "see")).resource
            found = await work.resources(self.kind).variation(id, variation_id)
        if found is None:
            raise NotFound
        if found.deployed_at is None:
            authorize(me, resource, "manage")
        return VariationView(found, found.id == resource.active_variation_id)

    @needs("*:read")
    async def diff(self, me: Principal, id: int, from_: str = ACTIVE, to: str = DRAFT) -> Difference:
        """How two variations differ: each is `active`, `draft` or an id. A draft requires manage: Forbidden.

        `active` of what was never deployed is empty; `draft` without a draft is the active one. Invalid for an unknown
        variation.
        """
        async with self._ports.storage.reading(me.org_uuid) as work:
            resource = (await self._authorized(work, me, id, "see")).resource
            old = await self._chosen_content(work, me, resource, "from", from_)
            return difference(old, await self._chosen_content(work, me, resource, "to", to))

    async def _chosen_content(
        self, work: UnitOfWork, me: Principal, resource: Resource, name: str, chosen: str
    ) -> Content:
        active = resource.active_variation_id
        if chosen == DRAFT:
            authorize(me, resource, "manage")
        names = {ACTIVE: active, DRAFT: resource.draft_variation_id or active}
        found: Variation | None = None
        if (variation_id := names.get(chosen, chosen)) is not None:
            found = await work.resources(self.kind).variation(resource.id, variation_id)
            if found is None:
                refuse([Issue(name, f"unknown variation `{chosen[:80]}`: use an id, `active` or `draft`", "reference")])
        if found is None:
            return CONTENTS[self.kind]()
        if found.deployed_at is None:
            authorize(me, resource, "manage")
        return found.content
