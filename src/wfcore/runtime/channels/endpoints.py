"""The endpoint at the url of an interface, and its workflow or skill (interface, workflow interfaces)."""

from collections.abc import Mapping

import attrs

from wfcore.domain.channels.interfaces import Interface, InterfaceKind, entry_of
from wfcore.domain.kernel.errors import NotFound
from wfcore.domain.kernel.json_readers import as_object
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal
from wfcore.domain.resources.lifecycle import Status
from wfcore.domain.resources.resource import Kind, Resource, Variation
from wfcore.ports.storage import UnitOfWork
from wfcore.runtime.agents.context_sources import input_schema_of
from wfcore.runtime.common.authorization import authorize
from wfcore.runtime.common.ports import Ports


@attrs.frozen
class Endpoint:
    """An interface, its organization, and its current workflow or skill."""

    org: str
    row: Interface
    target: Resource

    @property
    def target_field(self) -> dict[str, JSON]:
        """The field of the body of a run that names the target."""
        return {f"{self.target.kind}Id": self.target.id}


async def find_endpoint(ports: Ports, kind: InterfaceKind, id: str) -> Endpoint:
    """The endpoint with this id, of any organization, for requests without a principal.

    NotFound for an unknown id, for one of another kind, while the workflow or skill is deleted, and while the active
    variation of the skill has no such interface, indistinguishably.
    """
    found = await ports.storage.find_interface(id)
    if found is None or found.row.kind is not kind:
        raise NotFound
    target = await ports.storage.find_resource(found.org, found.row.target, found.row.resource_id)
    if target is None or target.status is Status.DELETED:
        raise NotFound
    row = found.row if target.kind is Kind.WORKFLOW else await _current(ports, found.org, found.row, target)
    return Endpoint(found.org, row, target)


async def _current(ports: Ports, org: str, row: Interface, skill: Resource) -> Interface:
    """The interface with the `config` of the active variation. NotFound when that has none of its kind."""
    async with ports.storage.reading(org) as work:
        active = await active_variation(work, skill)
    entry = None if active is None else entry_of(active.skill.interfaces, row.kind)
    if entry is None:
        raise NotFound
    return attrs.evolve(row, config=as_object(entry.get("config") or {}))


async def endpoint_for(ports: Ports, me: Principal, kind: InterfaceKind, id: str) -> Endpoint:
    """The endpoint for this principal, who must be able to use the workflow or skill.

    NotFound as for `find_endpoint`, and for another organization's; Forbidden for a manager without use.
    """
    endpoint = await find_endpoint(ports, kind, id)
    if endpoint.org != me.org_uuid:
        raise NotFound
    authorize(me, endpoint.target, "use")
    return endpoint


async def active_variation(work: UnitOfWork, target: Resource) -> Variation | None:
    """The variation that an endpoint runs, never a draft. None before the first deployment."""
    return await work.resources(target.kind).variation(target.id, target.active_variation_id or "")


async def input_schema(ports: Ports, endpoint: Endpoint) -> Mapping[str, JSON]:
    """The `inputSchema` of the active variation of a workflow if it describes an object, otherwise {}."""
    async with ports.storage.reading(endpoint.org) as work:
        variation = await active_variation(work, endpoint.target)
    return input_schema_of(variation.workflow) if variation else {}
