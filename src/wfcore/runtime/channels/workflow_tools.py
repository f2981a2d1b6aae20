"""A deployed workflow as a tool of an MCP server (interface, workflow interfaces; Model Context Protocol, Tools).

The tool is the active variation: its start node's `inputSchema` describes the arguments, and a call starts a run.
"""

from collections.abc import Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Final

import attrs

from wfcore.domain.channels.interfaces import InterfaceKind
from wfcore.domain.graph.node_types import NodeType
from wfcore.domain.graph.structure import structure_of
from wfcore.domain.json.codec import dumps, fingerprint
from wfcore.domain.kernel.errors import Conflict, NotFound
from wfcore.domain.kernel.json_readers import as_object, as_objects, as_text
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal
from wfcore.domain.resources.resource import Resource, Variation
from wfcore.domain.run.events import Event, EventKind
from wfcore.domain.run.state import RunStatus
from wfcore.ports.journal import RunRow
from wfcore.runtime.channels.endpoints import Endpoint, active_variation, endpoint_for
from wfcore.runtime.common.authorization import needs
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.common.run_views import Batches, RunView, Turn, latest_turn
from wfcore.runtime.runs.runs import Runs

ANYTHING: Final[Mapping[str, JSON]] = {"type": "object"}
"""The schema of a workflow without an `inputSchema`."""


@attrs.frozen
class WorkflowTool:
    """A workflow as a tool. `parameters` is the JSON Schema of a call's arguments, which are an object."""

    name: str
    title: str
    description: str
    parameters: Mapping[str, JSON]


@attrs.frozen
class CallEnd:
    """The outcome of a call's run. A parked run has not ended: `interrupts` are what it waits for."""

    run_id: str
    status: RunStatus
    output: JSON = None
    problem: str = ""
    interrupts: Sequence[Mapping[str, JSON]] = ()

    @property
    def failed(self) -> bool:
        return self.status in (RunStatus.error, RunStatus.cancelled)

    @property
    def text(self) -> str:
        """The outcome as text: the output itself, or why there is none."""
        if self.status is RunStatus.done:
            return self.output if isinstance(self.output, str) else dumps(self.output)
        if self.failed:
            return self.problem
        open_ = "; ".join(str(interrupt.get("message") or interrupt["type"]) for interrupt in self.interrupts)
        return f"The run `{self.run_id}` is not done: it waits for {f'a decision: {open_}' if open_ else 'its resume'}"


class WorkflowTools:
    """The endpoint of an interface row of kind `mcp`, for callers who can use its workflow.

    All use cases raise the errors of `endpoint_for`. The row's id follows the principal.
    """

    area = "workflows"

    def __init__(self, ports: Ports, runs: Runs) -> None:
        self._ports = ports
        self._runs = runs

    @needs("*:invoke")
    async def endpoint(self, me: Principal, id: str) -> Endpoint:
        """The row and its workflow."""
        return await endpoint_for(self._ports, me, InterfaceKind.MCP, id)

    @needs("*:invoke")
    async def tool(self, me: Principal, id: str) -> WorkflowTool | None:
        """The tool of the active variation; None before the first deployment."""
        workflow = (await self.endpoint(me, id)).workflow
        async with self._ports.storage.reading(me.org_uuid) as work:
            active = await active_variation(work, workflow)
        return None if active is None else tool_of(workflow, active)

    @needs("*:invoke")
    def call(self, me: Principal, id: str, arguments: Mapping[str, JSON], *, key: str | None = None) -> Turn:
        """Run the workflow with these arguments as its input: await the turn for its run, or iterate over its events.

        `key` identifies the call among those of this caller: a repeated call joins its run, at the latest turn. When
        a decision resumes the run while other branches are active, the events continue with those of the new turn.
        Other errors: as for `Runs.start`.
        """
        return Turn(self._call(me, id, arguments, key), partial(self._batches, me))

    async def _call(self, me: Principal, id: str, arguments: Mapping[str, JSON], key: str | None) -> RunView:
        workflow = (await self.endpoint(me, id)).workflow
        body: dict[str, JSON] = {"workflowId": workflow.id, "input": dict(arguments), "origin": "mcp"}
        begun = await self._runs.start_from(me, "mcp", body, key=None if key is None else run_id_of(me, id, key))
        return begun if begun.row.resumed_by is None else RunView(await self._latest(me, begun.id))

    async def _batches(self, me: Principal, view: RunView) -> Batches:
        """The events of the turn. When another turn resumed it, that turn's events replace its terminal event."""
        following: RunView | None = view
        while following is not None:
            view, following = following, None
            async with aclosing(self._runs.batches(view)) as batches:
                async for events in batches:
                    if _parked(events[-1]) and (latest := await self._latest(me, view.id)).id != view.id:
                        following = RunView(latest)
                    yield events[:-1] if following else events

    @needs("*:invoke")
    async def cancel(self, me: Principal, id: str, key: str) -> bool:
        """Cancel the run of the call with this key; False when there is none or it has ended."""
        await self.endpoint(me, id)
        try:
            latest = await self._latest(me, run_id_of(me, id, key))
            await self._runs.cancel(me, latest.id)
        except (NotFound, Conflict):
            return False
        return True

    async def _latest(self, me: Principal, run_id: str) -> RunRow:
        """The latest turn of this run's execution."""
        row = await latest_turn(self._ports.journal, me.org_uuid, run_id)
        if row is None:
            raise NotFound
        return row


def tool_of(workflow: Resource, active: Variation) -> WorkflowTool:
    """This variation as a tool. Its name is the workflow's slug, which a rename does not change."""
    nodes = as_objects(structure_of(active.workflow).get("nodes") or ())
    start: Mapping[str, JSON] = next((node for node in nodes if node["type"] == NodeType.START), {})
    schema = as_object(start.get("data") or {}).get("inputSchema")
    parameters = {**schema, **ANYTHING} if isinstance(schema, dict) else ANYTHING
    described = workflow.description or f"Runs the workflow {workflow.name}"
    return WorkflowTool(workflow.slug, workflow.name, described, parameters)


def run_id_of(me: Principal, id: str, key: str) -> str:
    """The id of a call's run: `mcp-` and 32 hexadecimal digits, a digest of row, caller and key."""
    return f"mcp-{fingerprint([id, me.user_id, key])[:32]}"


def _parked(event: Event) -> bool:
    return event.kind is EventKind.done and event.data["status"] == RunStatus.interrupted


def end_of(terminal: Event) -> CallEnd:
    """The outcome of a call whose run ended with this event."""
    data = terminal.data
    match terminal.kind:
        case EventKind.done:
            status = RunStatus(as_text(data["status"]))
            interrupts = as_objects(data.get("interrupts") or ())
            return CallEnd(terminal.run_id, status, data["output"], interrupts=interrupts)
        case EventKind.error:
            problem = as_text(as_object(data["error"])["message"])
            return CallEnd(terminal.run_id, RunStatus.error, problem=problem)
        case _:
            return CallEnd(terminal.run_id, RunStatus.cancelled, problem="the run was cancelled")
