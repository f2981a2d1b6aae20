"""What is reached at the url of an interface row, and the workflow behind it (interface, workflow interfaces)."""

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
    """An interface row, whose it is, and its workflow as it is now."""

    org: str
    row: Interface
    workflow: Resource


async def find_surface(ports: Ports, kind: InterfaceKind, id: str) -> Endpoint:
    """The surface of this id, whatever its organization: for doors that ask no principal.

    NotFound for an unknown id, for one of another kind, and while the workflow is deleted, without a difference.
    """
    found = await ports.storage.find_interface(id)
    if found is None or found.row.kind is not kind:
        raise NotFound
    workflow = await ports.storage.find_resource(found.org, Kind.WORKFLOW, found.row.workflow_id)
    if workflow is None or workflow.status is Status.DELETED:
        raise NotFound
    return Endpoint(found.org, found.row, workflow)


async def surface_for(ports: Ports, me: Principal, kind: InterfaceKind, id: str) -> Endpoint:
    """The surface as this principal reaches it, who has to be able to use the workflow.

    NotFound as of `find_surface`, and for another organization's; Forbidden to one who manages without use.
    """
    surface = await find_surface(ports, kind, id)
    if surface.org != me.org_uuid:
        raise NotFound
    authorize(me, surface.workflow, "use")
    return surface


async def active_variation(work: UnitOfWork, workflow: Resource) -> Variation | None:
    """What a surface runs and tells of: drafts play no part. None before the first deployment."""
    return await work.workflows.variation(workflow.id, workflow.active_variation_id or "")


async def input_schema(ports: Ports, surface: Endpoint) -> Mapping[str, JSON]:
    """What the active variation asks of its input, if it asks for an object."""
    async with ports.storage.reading(surface.org) as work:
        variation = await active_variation(work, surface.workflow)
    return input_schema_of(variation.content) if variation else {}
