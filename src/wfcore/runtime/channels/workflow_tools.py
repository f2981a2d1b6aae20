"""A deployed workflow or skill as a tool of an MCP server (interface, workflow interfaces; Model Context Protocol).

The tool is the active variation: its start node's `inputSchema` describes the arguments, or it takes a message. A call
starts a run.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from re import Pattern
from typing import Final

import attrs

from wfcore.domain.channels.elicitations import decision_of, form_of, question_of
from wfcore.domain.channels.interfaces import InterfaceKind
from wfcore.domain.graph.node_types import NodeType
from wfcore.domain.graph.structure import structure_of
from wfcore.domain.json.codec import fingerprint, text_of
from wfcore.domain.json.schema import compile_schema
from wfcore.domain.kernel.errors import Conflict, Invalid, NotFound, WfcoreError, refuse
from wfcore.domain.kernel.ids import is_run_id
from wfcore.domain.kernel.json_readers import as_object, as_objects, as_text, optional_object, optional_text
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal, missing_scopes
from wfcore.domain.resources.resource import Kind, Variation
from wfcore.domain.resources.supervision import subordinates
from wfcore.domain.run.effects import FAIL, TRANSFORM, WAIT
from wfcore.domain.run.events import Event, EventKind
from wfcore.domain.run.state import RunStatus
from wfcore.ports.journal import RunFilter, RunRow
from wfcore.runtime.channels.endpoints import Endpoint, active_variation, endpoint_for
from wfcore.runtime.common.authorization import conflict, needs
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.common.run_views import Batches, RunView, Turn, latest_turn
from wfcore.runtime.runs.decisions import by_id
from wfcore.runtime.runs.runs import Runs

ANYTHING: Final[Mapping[str, JSON]] = {"type": "object"}
"""The schema of a workflow without an `inputSchema` that takes no message."""

MESSAGE: Final[Mapping[str, JSON]] = {
    "type": "object",
    "properties": {"message": {"type": "string", "minLength": 1, "description": "The message to it"}},
    "required": ["message"],
    "additionalProperties": False,
}
"""The schema of a skill, and of a workflow without an `inputSchema` in which an agent receives the run's message."""

MOST_OUTPUTS: Final = 50
"""How many of the caller's latest outputs are listed."""

_DECISION: Final = re.compile(r"^decisions\[[0-9]+\]\.")
_HARMLESS: Final = (TRANSFORM, WAIT, FAIL)


@attrs.frozen
class WorkflowTool:
    """A workflow or skill as a tool. `parameters` is the JSON Schema of a call's arguments, which are an object.

    `is_read_only`: a call changes nothing outside of its run. `is_open_world`: a call can reach what is outside of the
    installation's own tools.
    """

    name: str
    title: str
    description: str
    parameters: Mapping[str, JSON]
    is_read_only: bool = False
    is_open_world: bool = False

    @property
    def takes_message(self) -> bool:
        return self.parameters is MESSAGE


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
            return text_of(self.output)
        if self.failed:
            return self.problem
        open_ = "; ".join(str(interrupt.get("message") or interrupt["type"]) for interrupt in self.interrupts)
        return f"The run `{self.run_id}` is not done: it waits for {f'a decision: {open_}' if open_ else 'its resume'}"


@attrs.frozen
class Question:
    """An open approval that the caller can decide, as a form. `form` is a JSON Schema."""

    interrupt_id: str
    message: str
    form: Mapping[str, JSON]


@attrs.frozen
class Reply:
    """The answer to a question: `accept` with the content of the form, `decline` or `cancel`."""

    action: str
    content: Mapping[str, JSON] | None = None


class WorkflowTools:
    """The endpoint of an interface of kind `mcp`, for callers who can use its workflow or skill.

    All use cases raise the errors of `endpoint_for`. The interface's id follows the principal.
    """

    area = "workflows"

    def __init__(self, ports: Ports, runs: Runs) -> None:
        self._ports = ports
        self._runs = runs

    @needs("*:invoke")
    async def endpoint(self, me: Principal, id: str) -> Endpoint:
        """The interface and its workflow or skill."""
        return await endpoint_for(self._ports, me, InterfaceKind.MCP, id)

    @needs("*:invoke")
    async def tool(self, me: Principal, id: str) -> WorkflowTool | None:
        """The tool of the active variation; None before the first deployment."""
        return await self._tool(me, await self.endpoint(me, id))

    async def _tool(self, me: Principal, endpoint: Endpoint) -> WorkflowTool | None:
        async with self._ports.storage.reading(me.org_uuid) as work:
            active = await active_variation(work, endpoint.target)
        return None if active is None else tool_of(endpoint, active)

    # Calls

    @needs("*:invoke")
    def call(self, me: Principal, id: str, arguments: Mapping[str, JSON], *, key: str | None = None) -> Turn:
        """Run the target with these arguments: await the turn for its run, or iterate over its events.

        The arguments are the input of a workflow's run; a text `message` among them is the run's message too.
        `key` identifies the call among those of this caller: a repeated call joins its run, at the latest turn. When
        a decision resumes the run while other branches are active, the events continue with those of the new turn.
        Other errors: as for `Runs.start`.
        """
        return Turn(self._call(me, id, arguments, key), partial(self._batches, me), self._ports.loop)

    async def _call(self, me: Principal, id: str, arguments: Mapping[str, JSON], key: str | None) -> RunView:
        endpoint = await self.endpoint(me, id)
        tool, message = await self._tool(me, endpoint), arguments.get("message")
        if tool is not None and tool.takes_message:
            refuse(compile_schema(dict(MESSAGE)).check(dict(arguments), "input"), as_invalid=True)
        body: dict[str, JSON] = {**endpoint.target_field, "origin": "mcp"}
        if message and isinstance(message, str):
            body["message"] = message
        if endpoint.target.kind is Kind.WORKFLOW:
            body["input"] = dict(arguments)
        begun = await self._runs.start_from(me, "mcp", body, key=None if key is None else run_id_of(me, id, key))
        return begun if begun.row.resumed_by is None else RunView(await self._latest(me, begun.id))

    @needs("*:invoke")
    def follow(self, me: Principal, id: str, run_id: str) -> Turn:
        """The latest turn of an earlier call of the caller. NotFound for any other run."""
        return Turn(self._found(me, id, run_id), partial(self._batches, me), self._ports.loop)

    async def _found(self, me: Principal, id: str, run_id: str) -> RunView:
        return RunView(await self._own_run(me, await self.endpoint(me, id), run_id))

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

    # Questions

    @needs("*:invoke")
    async def questions(self, me: Principal, end: CallEnd, problem: str = "") -> list[Question]:
        """The approvals of a parked call that the caller can decide in a flat form; `problem` goes above each."""
        if end.status is not RunStatus.interrupted or not end.interrupts:
            return []
        found = await by_id(self._ports, me, [as_text(one["interruptId"]) for one in end.interrupts])
        own = {name for name, one in found.items() if one.decidable}
        return [
            Question(as_text(one["interruptId"]), question_of(one, problem), form)
            for one in end.interrupts
            if one["interruptId"] in own and (form := form_of(one)) is not None
        ]

    @needs("*:invoke")
    async def reply(self, me: Principal, id: str, run_id: str, replies: Mapping[str, Reply]) -> str:
        """Decide interrupts of the caller's own call: accepted ones as the form says, declined ones are denied.

        Cancelled ones stay open. Returns what was wrong with an answer, or "". A decision that came from elsewhere in
        the meantime stands. NotFound for any other run.
        """
        row = await self._own_run(me, await self.endpoint(me, id), run_id)
        found = {name: decision_of(reply.action, reply.content) for name, reply in replies.items()}
        decisions: list[JSON] = [{"interruptId": name, **one} for name, one in found.items() if one is not None]
        if not decisions:
            return ""
        try:
            await self._runs.resume(me, row.id, {"decisions": decisions})
        except Invalid as error:
            return faults_of_fields(error, _DECISION)
        except Conflict:
            return ""
        return ""

    @needs("*:invoke")
    async def latest(self, me: Principal, id: str, run_id: str) -> RunRow:
        """The latest turn of a call of the caller. NotFound for any other run."""
        return await self._own_run(me, await self.endpoint(me, id), run_id)

    # Outputs

    @needs("*:invoke")
    async def outputs(self, me: Principal, id: str) -> list[RunRow]:
        """The latest runs of the target that the caller has started and that are done, newest first."""
        target = (await self.endpoint(me, id)).target
        where = RunFilter(RunStatus.done, target.kind, target.id, started_by=me.user_id)
        return await self._ports.journal.list_runs(me.org_uuid, limit=MOST_OUTPUTS, where=where, principal=me)

    @needs("*:invoke")
    async def output(self, me: Principal, id: str, run_id: str) -> JSON:
        """The output of a run of the target: of an own one or, with the scope `workflows:read`, of any.

        NotFound for other runs; Conflict `not_done` while there is no output.
        """
        endpoint = await self.endpoint(me, id)
        reads_all = not missing_scopes(me.scopes, ("workflows:read",))
        row = await self._own_run(me, endpoint, run_id, reads_all=reads_all)
        if row.status is not RunStatus.done:
            raise conflict(f"the run has no output: its status is `{row.status}`", "not_done")
        return as_object(row.result or {}).get("output")

    async def _own_run(self, me: Principal, endpoint: Endpoint, run_id: str, *, reads_all: bool = False) -> RunRow:
        """The latest turn of a run of the target that the caller, or with `reads_all` anybody, has started."""
        row, target = await self._latest(me, run_id), endpoint.target
        is_readable = reads_all or row.root_user_id == me.user_id
        if (row.kind, row.resource_id) != (target.kind, target.id) or not is_readable:
            raise NotFound
        return row

    async def _latest(self, me: Principal, run_id: str) -> RunRow:
        """The latest turn of this run's execution. NotFound if no run has this id."""
        row = await latest_turn(self._ports.journal, me.org_uuid, run_id) if is_run_id(run_id) else None
        if row is None:
            raise NotFound
        return row


def tool_of(endpoint: Endpoint, active: Variation) -> WorkflowTool:
    """This variation as a tool. Its name is the slug of its workflow or skill, which a rename does not change.

    Title and description are those of the interface's `config`, or else of the workflow or skill.
    """
    target, config = endpoint.target, endpoint.row.config
    title = optional_text(config.get("title")) or target.name
    described = optional_text(config.get("description")) or target.description
    described = described or f"Runs the {target.kind} {target.name}"
    if target.kind is Kind.SKILL:
        acts = bool(active.skill.enabled_tools or subordinates(active.skill))
        return WorkflowTool(target.slug, title, described, MESSAGE, not acts, acts)
    nodes = as_objects(structure_of(active.workflow).get("nodes") or ())
    data = {as_text(node["id"]): (node["type"], optional_object(node.get("data")) or {}) for node in nodes}
    tools = [optional_text(own.get("toolId")) or "" for kind, own in data.values() if kind == NodeType.ACTION]
    agents = [own for kind, own in data.values() if kind == NodeType.AGENT]
    reaches_out = bool(agents) or any(tool == "core.http" or tool.startswith("mcp.") for tool in tools)
    harmless = not agents and all(tool in _HARMLESS for tool in tools)
    return WorkflowTool(target.slug, title, described, _parameters(data.values()), harmless, reaches_out)


def _parameters(nodes: Iterable[tuple[JSON, Mapping[str, JSON]]]) -> Mapping[str, JSON]:
    """The `inputSchema` of the start node; without one a message, if an agent receives the run's."""
    schemas = [own.get("inputSchema") for kind, own in nodes if kind == NodeType.START]
    schema = schemas[0] if schemas else None
    if isinstance(schema, dict):
        return {**schema, **ANYTHING}
    takes = any(kind == NodeType.AGENT and not own.get("message") for kind, own in nodes)
    return MESSAGE if schema is None and takes else ANYTHING


def run_id_of(me: Principal, id: str, key: str) -> str:
    """The id of a call's run: `mcp-` and 32 hexadecimal digits, a digest of interface, caller and key."""
    return f"mcp-{fingerprint([id, me.user_id, key])[:32]}"


def faults_of_fields(error: WfcoreError, prefix: Pattern[str]) -> str:
    """Every fault in words, a line for each. Without `prefix` its path is the name that the client knows."""
    issues = as_objects(error.info.get("errors") or ())
    places = [prefix.sub("", as_text(issue["path"])) for issue in issues]
    lines = [
        f"`{at}`: {issue['message']}" if at else issue["message"] for at, issue in zip(places, issues, strict=True)
    ]
    return "\n".join(map(as_text, lines)) or error.message


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
