"""The endpoint at the url of an interface row, and its workflow (interface, workflow interfaces)."""

from collections.abc import Mapping

import attrs

from wfcore.domain.channels.interfaces import Interface, InterfaceKind
from wfcore.domain.kernel.errors import NotFound
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
    """An interface row, its organization, and its current workflow."""

    org: str
    row: Interface
    workflow: Resource


async def find_endpoint(ports: Ports, kind: InterfaceKind, id: str) -> Endpoint:
    """The endpoint with this id, of any organization, for requests without a principal.

    NotFound for an unknown id, for one of another kind, and while the workflow is deleted, indistinguishably.
    """
    found = await ports.storage.find_interface(id)
    if found is None or found.row.kind is not kind:
        raise NotFound
    workflow = await ports.storage.find_resource(found.org, Kind.WORKFLOW, found.row.workflow_id)
    if workflow is None or workflow.status is Status.DELETED:
        raise NotFound
    return Endpoint(found.org, found.row, workflow)


async def endpoint_for(ports: Ports, me: Principal, kind: InterfaceKind, id: str) -> Endpoint:
    """The endpoint for this principal, who must be able to use the workflow.

    NotFound as for `find_endpoint`, and for another organization's; Forbidden for a manager without use.
    """
    endpoint = await find_endpoint(ports, kind, id)
    if endpoint.org != me.org_uuid:
        raise NotFound
    authorize(me, endpoint.workflow, "use")
    return endpoint


async def active_variation(work: UnitOfWork, workflow: Resource) -> Variation | None:
    """The variation that an endpoint runs, never a draft. None before the first deployment."""
    return await work.workflows.variation(workflow.id, workflow.active_variation_id or "")


async def input_schema(ports: Ports, endpoint: Endpoint) -> Mapping[str, JSON]:
    """The `inputSchema` of the active variation if it describes an object, otherwise {}."""
    async with ports.storage.reading(endpoint.org) as work:
        variation = await active_variation(work, endpoint.workflow)
    return input_schema_of(variation.workflow) if variation else {}
