"""Shared parts of the use cases on workflows and skills: look up, authorize, save a change."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import attrs

from wfcore.domain.kernel.ids import iso
from wfcore.domain.kernel.json_readers import as_objects, as_text, optional_object
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources import resource as rules
from wfcore.domain.resources.access import Access, Principal
from wfcore.domain.resources.lifecycle import Status
from wfcore.domain.resources.resource import CONTENTS, Change, Kind, Resource, Variation
from wfcore.ports.storage import Stale, UnitOfWork
from wfcore.runtime.common.audit import audit_change
from wfcore.runtime.common.authorization import authorize, conflict
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.common.preconditions import stale, tags_of
from wfcore.runtime.resources.deployment import look_up_tools
from wfcore.runtime.tools.mcp_tools import ToolLookup

LIMITED_PAGE: Final = 100
"""Resources that are read at once for a list of a credential that is limited to some workflows."""


@attrs.frozen
class ResourceView:
    """A resource as one principal sees it. Only reads of a single resource set `variation`."""

    resource: Resource
    access: Access
    variation: Variation | None = None
    with_variation: bool = False
    paths: Mapping[str, str] = attrs.field(factory=dict)
    """The URL paths of a skill's interfaces, by kind, below the root of the server."""

    @property
    def id(self) -> int:
        return self.resource.id

    @property
    def slug(self) -> str:
        return self.resource.slug

    @property
    def name(self) -> str:
        return self.resource.name

    @property
    def description(self) -> str | None:
        return self.resource.description

    @property
    def status(self) -> Status:
        return self.resource.status

    @property
    def is_enabled(self) -> bool:
        """Whether the schedule of a workflow runs."""
        return self.resource.is_enabled

    @property
    def active_variation_id(self) -> str | None:
        return self.resource.active_variation_id

    @property
    def draft_variation_id(self) -> str | None:
        return self.resource.draft_variation_id

    @property
    def has_unpublished_changes(self) -> bool:
        return self.resource.has_unpublished_changes

    @property
    def created_at(self) -> datetime:
        return self.resource.created_at

    @property
    def updated_at(self) -> datetime:
        return self.resource.updated_at

    @property
    def deleted_at(self) -> datetime | None:
        return self.resource.deleted_at

    @property
    def can_use(self) -> bool:
        return self.access.can_use

    @property
    def can_manage(self) -> bool:
        return self.access.can_manage

    @property
    def etag(self) -> str:
        """A strong validator (RFC 9110, 8.8.3): changes whenever the resource does, and what its reader may do."""
        rights = "" if self.can_manage and self.can_use else "-m" if self.can_manage else "-u"
        return f'"{self._tag}{rights}"'

    def matches(self, if_match: str) -> bool:
        """Whether one of these tags is of the resource as it is now, whoever has read it."""
        return not tags_of(if_match).isdisjoint({"*", *(f'"{self._tag}{rights}"' for rights in ("", "-m", "-u"))})

    def is_named_in(self, if_match: str) -> bool:
        """Whether one of these tags is of the resource, as it is now or was before."""
        return f'"{self._tag_start}' in if_match

    @property
    def _tag(self) -> str:
        return f"{self._tag_start}{self.resource.revision}"

    @property
    def _tag_start(self) -> str:
        return f"{self.resource.kind}-{self.resource.id}-"

    def to_wire(self, root: str = "") -> dict[str, JSON]:
        """The resource on the wire; `root` is the path prefix under which the server is mounted."""
        wire = rules.to_wire(self.resource, self.access, self.variation, self.with_variation)
        content = optional_object(wire.get("variation"))
        if self.paths and content is not None:
            entries = as_objects(content["interfaces"])
            shown = [{**entry, "url": root + self.paths[as_text(entry["kind"])]} for entry in entries]
            wire["variation"] = {**content, "interfaces": [*shown]}
        return wire


@attrs.frozen
class DeployedVariation:
    """A deployed variation in a list, without its content."""

    variation: Variation
    is_active: bool

    @property
    def id(self) -> str:
        return self.variation.id

    def to_wire(self) -> dict[str, JSON]:
        one = self.variation
        return {
            "id": one.id,
            "deployedAt": iso(one.deployed_at) if one.deployed_at else None,
            "deployedBy": one.deployed_by,
            "createdAt": iso(one.created_at),
            "createdBy": one.created_by,
            "isActive": self.is_active,
        }


class ResourceBase:
    """The resources of one kind. `area` is the prefix of their token scopes."""

    kind: Kind
    area: str

    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    async def _authorized(
        self, work: UnitOfWork, me: Principal, id: int, grant: str, if_match: str | None = None
    ) -> ResourceView:
        """The resource without its variation, if the principal has this grant (see `authorize`).

        Conflict `stale` when its ETag is not in `if_match`, which is also the precondition for changes of its parts.
        """
        resource = await work.resources(self.kind).get(id)
        access = authorize(me, resource, grant)
        assert resource is not None  # noqa: S101  (authorize raised)
        found = ResourceView(resource, access)
        if if_match is not None and not found.matches(if_match):
            raise stale(found.etag)
        return found

    async def _managed(self, work: UnitOfWork, me: Principal, id: int, if_match: str | None = None) -> Resource:
        return (await self._authorized(work, me, id, "manage", if_match)).resource

    async def _page(
        self,
        work: UnitOfWork,
        me: Principal,
        limit: int,
        after: int,
        *,
        status: str | None,
        query: str | None = None,
        scheduled: bool = False,
    ) -> list[Resource]:
        """Those that the principal can use or manage, by id ascending, at most `limit`; see `ResourceRepository`."""
        found, size = list[Resource](), limit if me.workflows is None else LIMITED_PAGE
        where: dict[str, Any] = {"status": status, "query": query, "scheduled": scheduled}
        while len(found) < limit:
            read = await work.resources(self.kind).page(me, limit=size, after=after, **where)
            found += [one for one in read if me.reaches(one.kind, one.id)]
            if len(read) < size or me.workflows is None:
                break
            after = read[-1].id
        return found[:limit]

    async def _look_up_tools(self, me: Principal, id: int, variation_id: str | None = None) -> ToolLookup:
        """Look up the served tools that its draft, or this variation, uses. Called before a transaction."""
        async with self._ports.storage.reading(me.org_uuid) as work:
            resource = await self._managed(work, me, id)
            wanted = resource.draft_variation_id if variation_id is None else variation_id
            chosen = await work.resources(self.kind).variation(id, wanted or "")
        return await look_up_tools(self._ports, me, chosen.content if chosen else CONTENTS[self.kind]())

    async def _variations(self, work: UnitOfWork, resource: Resource) -> tuple[Variation | None, Variation | None]:
        repository = work.resources(self.kind)

        async def one(variation_id: str | None) -> Variation | None:
            return None if variation_id is None else await repository.variation(resource.id, variation_id)

        return await one(resource.active_variation_id), await one(resource.draft_variation_id)

    async def _save(
        self, work: UnitOfWork, me: Principal, old: Resource, change: Change, *, deployed: bool = False
    ) -> None:
        repository = work.resources(self.kind)
        if change.saved:
            write = repository.save_variation if deployed else repository.add_variation
            await write(old.id, change.saved)
        if change.resource is not old:
            try:
                await repository.save(old, change.resource)
            except Stale:
                raise conflict("another request changed this at the same time", "stale") from None
        if change.dropped:
            await repository.drop_variation(old.id, change.dropped)
        await audit_change(work, me, self._ports.now(), old, change.resource)

    async def _touch(self, work: UnitOfWork, me: Principal, resource: Resource) -> None:
        """Give the resource a new ETag: a part of it that is stored apart has changed."""
        await self._save(work, me, resource, Change(rules.touched(resource, self._ports.now())))

    async def _view(self, work: UnitOfWork, me: Principal, id: int, grant: str, view: str = "active") -> ResourceView:
        found = await self._authorized(work, me, id, grant)
        active, draft = await self._variations(work, found.resource)
        shown = (draft or active) if view == "draft" else active
        return attrs.evolve(found, variation=shown, with_variation=True)
