"""A workflow graph described in Python: each call adds a node, and the result is exactly the stored structure."""

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, Final, TypeVar

import attrs

from wfcore.adapters.tools.functions import tool_of
from wfcore.adapters.tools.injection import UNCHECKED
from wfcore.adapters.tools.shapes import Schemas, prepared
from wfcore.domain.graph.checks import Known
from wfcore.domain.graph.flowchart import mermaid
from wfcore.domain.graph.node_types import NODE_DATA, NodeType
from wfcore.domain.graph.rules import deploy_issues, write_issues
from wfcore.domain.graph.structure import parse_graph
from wfcore.domain.kernel.errors import Issue
from wfcore.domain.kernel.json_type import JSON
from wfcore.flows.expressions import Expr, bare, to_json
from wfcore.flows.labels import label_of
from wfcore.flows.nodes import ActionNode, AgentNode, ApprovalNode, ConditionNode, Exit, FlowNode, StartNode
from wfcore.flows.origins import FlowError, SourceLine, origin, refused
from wfcore.flows.svg import svg
from wfcore.ports.providers import Tool

After = FlowNode | Exit | Iterable[FlowNode | Exit]
"""The nodes or handles that a node follows; several are joined, an empty list is none."""
Schema = type | Mapping[str, Any] | bool
"""A JSON Schema, or a class whose schema it is."""
Retry = int | Mapping[str, Any]
"""The number of attempts, or a retry policy as it is stored."""
Position = tuple[float, float]

N = TypeVar("N", bound=FlowNode)
_LAST: Final = StartNode("", lambda _exit, _target: None)
"""The default of `after`: the node that was added last."""


class _Everything:
    """A catalog and a graph that have every name: what a node refers to is checked with the whole graph."""

    def __contains__(self, _: object) -> bool:
        return True

    def tool(self, _: str, /) -> bool:
        return True

    def skill(self, _: int, /) -> bool:
        return True


_ANY: Final = Known(_Everything(), _Everything())


@attrs.define
class _Drawn:
    """A node or an edge as it is stored, and the line that describes it."""

    wire: dict[str, JSON]
    line: SourceLine


class Flow:
    """The graph of a workflow. `input` is the schema of the run's input: a JSON Schema, or a class that has one.

    Each method adds a node after the one that was added last, or after what `after` names. Options that are left out
    are not stored. `data` has further keys of the node's data, kept verbatim, and `position` is where a builder
    draws it. Raises FlowError, at the line of the call, for data that cannot run.
    """

    def __init__(
        self,
        name: str,
        *,
        input: Schema | None = None,
        id: str = "start",
        data: Mapping[str, object] | None = None,
        position: Position | None = None,
    ) -> None:
        self.name = name
        self._nodes: dict[str, _Drawn] = {}
        self._edges: list[_Drawn] = []
        values = {"inputSchema": _schema(input)}
        self.start = self._added(StartNode(id, self._connect), NodeType.START, values, data, position, ())

    @property
    def input(self) -> Expr:
        """The input of the run, in expressions."""
        return Expr("input")

    @property
    def run(self) -> Expr:
        """The run, in expressions: `flow.run.userId`."""
        return Expr("run")

    @property
    def item(self) -> Expr:
        """The item of a `for_each`, in expressions."""
        return Expr("item")

    # Nodes

    def action(
        self,
        tool: Callable[..., object] | Tool | str,
        params: Mapping[str, object] | None = None,
        /,
        *,
        id: str | None = None,
        after: After = _LAST,
        for_each: Expr | str | None = None,
        max_concurrency: int | None = None,
        concurrency_key: str | Expr | None = None,
        concurrency_limit: int | None = None,
        requires_approval: bool | None = None,
        retry: Retry | None = None,
        timeout: float | timedelta | None = None,
        data: Mapping[str, object] | None = None,
        position: Position | None = None,
        **named: object,
    ) -> ActionNode:
        """Call a tool: a function, a `Tool` or an id. Its parameters are keywords, or the mapping `params`."""
        tool_id, schema = _tool(tool)
        given = {**(params or {}), **named}
        name = self._free_id(id, tool_id.rpartition(".")[2])
        if schema is not None:
            _check_names(name, given, schema)
        values = {
            "toolId": tool_id,
            "params": to_json(given) if given or params is not None else None,
            "forEach": None if for_each is None else bare(for_each),
            "maxConcurrency": max_concurrency,
            "concurrencyKey": None if concurrency_key is None else str(concurrency_key),
            "concurrencyLimit": concurrency_limit,
            "requiresApproval": requires_approval,
            **_tries(retry, timeout),
        }
        return self._added(ActionNode(name, self._connect), NodeType.ACTION, values, data, position, after)

    def agent(
        self,
        skill: int | None = None,
        *,
        message: str | Expr | None = None,
        instructions: str | list[str] | None = None,
        id: str | None = None,
        after: After = _LAST,
        tools: Iterable[Callable[..., object] | Tool | str] | None = None,
        model: str | None = None,
        model_settings: Mapping[str, JSON] | None = None,
        output: Schema | None = None,
        retry: Retry | None = None,
        timeout: float | timedelta | None = None,
        data: Mapping[str, object] | None = None,
        position: Position | None = None,
    ) -> AgentNode:
        """Run a skill, or call a model once. `tools` are the only ones it can use; `output` is the schema of its
        output."""
        values = {
            "agent_id": skill,
            "message": None if message is None else str(message),
            "instructions": instructions,
            "tool_restrictions": None if tools is None else [_tool(tool)[0] for tool in tools],
            "model": model,
            "modelSettings": None if model_settings is None else to_json(model_settings),
            "outputSchema": _schema(output),
            **_tries(retry, timeout),
        }
        name = self._free_id(id, "agent")
        return self._added(AgentNode(name, self._connect), NodeType.AGENT, values, data, position, after)

    def approval(
        self,
        message: str | Expr | None = None,
        *,
        emails: Iterable[str] | None = None,
        groups: Iterable[str] | None = None,
        id: str | None = None,
        after: After = _LAST,
        required: int | None = None,
        allow_self_approval: bool | None = None,
        form: Schema | None = None,
        timeout: float | timedelta | None = None,
        on_timeout: str | None = None,
        data: Mapping[str, object] | None = None,
        position: Position | None = None,
    ) -> ApprovalNode:
        """Wait for the decision of people: of `emails` and `groups`, or of everyone who can use the workflow."""
        named = {"emails": emails, "groups": groups}
        approvers: dict[str, JSON] = {key: list(given) for key, given in named.items() if given is not None}
        values = {
            "message": None if message is None else str(message),
            "approvers": approvers or None,
            "requiredApprovals": required,
            "allowSelfApproval": allow_self_approval,
            "formSchema": _schema(form),
            "timeoutSeconds": _seconds(timeout),
            "onTimeout": on_timeout,
        }
        name = self._free_id(id, "approval")
        return self._added(ApprovalNode(name, self._connect), NodeType.HUMAN_APPROVAL, values, data, position, after)

    def condition(
        self,
        branches: Mapping[str, Expr | str] | None = None,
        /,
        *,
        id: str | None = None,
        after: After = _LAST,
        data: Mapping[str, object] | None = None,
        position: Position | None = None,
        **named: Expr | str,
    ) -> ConditionNode:
        """Take the first branch that holds, else `otherwise`. The branches are keywords, or a mapping."""
        given = {**(branches or {}), **named}
        values = {"branches": [{"handle": handle, "when": bare(when)} for handle, when in given.items()]}
        node = ConditionNode(self._free_id(id, "condition"), self._connect, tuple(given))
        return self._added(node, NodeType.CONDITION, values, data, position, after)

    # Results

    def structure(self) -> dict[str, JSON]:
        """The `workflowStructure`. Raises FlowError with the line of each part that cannot run."""
        made = self._drawn()
        issues = write_issues(made) or [
            issue for issue in deploy_issues(parse_graph(made), _Everything()) if issue.severity == "error"
        ]
        if issues:
            raise FlowError(issues, [self._line_of(issue) for issue in issues])
        return made

    def mermaid(self) -> str:
        """A flow chart in Mermaid."""
        return mermaid(parse_graph(self._drawn()), label_of)

    def svg(self) -> str:
        """A drawing in SVG."""
        return svg(parse_graph(self._drawn()))

    # Parts

    def _drawn(self) -> dict[str, JSON]:
        return {"nodes": [node.wire for node in self._nodes.values()], "edges": [edge.wire for edge in self._edges]}

    def _added(
        self,
        node: N,
        kind: NodeType,
        values: Mapping[str, JSON],
        data: Mapping[str, object] | None,
        position: Position | None,
        after: After,
    ) -> N:
        stored = {**{key: value for key, value in values.items() if value is not None}, **_to_json_object(data)}
        problems = NODE_DATA[kind](stored, _ANY)
        if problems:
            issues = [Issue(it.path, f"node `{node.id}`: `{it.path}`: {it.message}", it.rule) for it in problems]
            raise FlowError(issues, [origin()] * len(issues))
        exits = self._exits(after)
        wire: dict[str, JSON] = {"id": node.id, "type": kind.value}
        if stored:
            wire["data"] = stored
        if position is not None:
            wire["position"] = {"x": position[0], "y": position[1]}
        self._nodes[node.id] = _Drawn(wire, origin())
        for way in exits:
            self._connect(way, node)
        self._last: FlowNode = node
        return node

    def _exits(self, after: After) -> list[Exit]:
        if after is _LAST:
            after = self._last
        given = [after] if isinstance(after, (FlowNode, Exit)) else list(after)
        return [each if isinstance(each, Exit) else each.done for each in given]

    def _connect(self, way: Exit, target: FlowNode) -> None:
        for node in (way.node, target):
            if node.connect != self._connect:
                raise refused(f"node `{node.id}` is of another flow")
        wire: dict[str, JSON] = {"id": f"e{len(self._edges) + 1}", "source": way.node.id, "target": target.id}
        if way.handle is not None:
            wire["sourceHandle"] = way.handle
        self._edges.append(_Drawn(wire, origin()))

    def _free_id(self, wanted: str | None, kind: str) -> str:
        """The id that is given, else one from the kind of the node, with a number if that is taken."""
        if wanted is not None:
            if not isinstance(wanted, str):
                raise refused("`id` is the id of the node: give a parameter of this name in a mapping", "type")
            if wanted in self._nodes:
                raise refused(f"node `{wanted}` is defined twice: {self._nodes[wanted].line} has it too", "unique")
            return wanted
        name, count = kind, 1
        while name in self._nodes:
            count += 1
            name = f"{kind}_{count}"
        return name

    def _line_of(self, issue: Issue) -> SourceLine:
        """The line of the node or edge that an issue is about; that of the flow where it is about the graph."""
        place = re.match(r"workflowStructure\.(nodes|edges)\[(\d+)\]", issue.path)
        drawn = list(self._nodes.values()) if place is None or place[1] == "nodes" else self._edges
        return drawn[int(place[2]) if place else 0].line


def _to_json_object(data: Mapping[str, object] | None) -> dict[str, JSON]:
    return {str(key): to_json(value) for key, value in (data or {}).items()}


def _tool(tool: Callable[..., object] | Tool | str) -> tuple[str, Mapping[str, JSON] | None]:
    """The id of a tool, and the schema of its parameters if it is known."""
    if isinstance(tool, str):
        return tool, None
    try:
        found = tool if isinstance(tool, Tool) else tool_of(tool, UNCHECKED)
    except TypeError as error:
        raise refused(str(error), "tool") from error
    return found.id, found.parameters


def _check_names(node: str, given: Mapping[str, object], schema: Mapping[str, Any]) -> None:
    known = schema.get("properties", {})
    if schema.get("additionalProperties") is False and (unknown := [name for name in given if name not in known]):
        allowed = ", ".join(f"`{name}`" for name in known) or "none"
        raise refused(f"node `{node}`: unknown parameter `{unknown[0]}`: use {allowed}", "unknown")
    if missing := [name for name in schema.get("required", ()) if name not in given]:
        raise refused(f"node `{node}`: parameter `{missing[0]}` is required", "required")


def _schema(given: Schema | None) -> JSON:
    if given is None or isinstance(given, bool):
        return given
    if isinstance(given, Mapping):
        return dict(given)
    schemas = Schemas()
    try:
        shape = schemas.of(prepared(given), given.__name__)
    except TypeError as error:
        raise refused(str(error), "schema") from error
    return {**shape, "$defs": schemas.definitions} if schemas.definitions else shape


def _tries(retry: Retry | None, timeout: float | timedelta | None) -> dict[str, JSON]:
    policy: JSON = {"maxAttempts": retry} if isinstance(retry, int) else retry and _to_json_object(retry)
    return {"retry": policy if retry is not None else None, "timeoutSeconds": _seconds(timeout)}


def _seconds(given: float | timedelta | None) -> float | None:
    return given.total_seconds() if isinstance(given, timedelta) else given
