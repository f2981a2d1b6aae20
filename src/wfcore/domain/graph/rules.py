"""The rules of a graph: what it must be to be stored, and what more it must be to be deployed.

`write_issues` takes any JSON value and finds faults of shape and reference (interface, WorkflowStructure).
`deploy_issues` takes a graph that may be stored and finds all for which it could not run. Its rules are a
tuple of small checks, errors before warnings, each one pass over nodes or edges: linear in their number.

A cycle needs a node by which it can be left, a condition or a humanApproval. In other words, the graph
without these nodes has no cycle.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Annotated, Any

import msgspec

from wfcore.domain.expressions.expression import ExpressionError
from wfcore.domain.expressions.templates import compile_template
from wfcore.domain.graph.limits import GraphLimits
from wfcore.domain.graph.node_data import (
    MAX_ISSUES,
    NODE_DATA,
    Check,
    Known,
    ListedCatalog,
    ReferenceCatalog,
    clip,
    every,
    free_object,
    is_number,
    list_of,
    must,
    node_id,
    one_of,
    record,
    string,
    text,
    then,
    under,
    unique,
)
from wfcore.domain.graph.structure import ELSE, Graph, Node, NodeType, handles
from wfcore.domain.kernel.errors import Issue, join_path
from wfcore.domain.kernel.json_type import JSON

__all__ = ["GraphLimits", "ListedCatalog", "ReferenceCatalog", "deploy_issues", "write_issues"]

MAX_ID = 255
MAX_SHOWN = 20
"""The most names that one message lists."""


DEFAULT_LIMITS = GraphLimits()


# To be stored.


def write_issues(structure: JSON, path: str = "workflowStructure", limits: GraphLimits = DEFAULT_LIMITS) -> list[Issue]:
    """Every fault for which a `workflowStructure` cannot be stored, at most `MAX_ISSUES` of them.

    Extra keys beside `nodes` and `edges` are carried verbatim. A list longer than its limit is one fault.
    """
    if _is_faultless(structure, limits):
        return []
    known = Known(nodes=_node_ids(structure))
    return _capped(_structure(limits)(structure, known), path)


class _Position(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    x: float
    y: float


class _Node(msgspec.Struct, forbid_unknown_fields=True):
    id: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_ID)]
    type: NodeType
    position: _Position | msgspec.UnsetType = msgspec.UNSET
    data: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


class _Edge(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    id: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_ID)]
    source: str
    target: str
    sourceHandle: str | msgspec.UnsetType = msgspec.UNSET  # noqa: N815  (the wire name)


class _Graph(msgspec.Struct):
    nodes: list[_Node] = []
    edges: list[_Edge] = []


def _is_faultless(structure: JSON, limits: GraphLimits) -> bool:
    """Whether there is nothing to tell: nearly always, and a quarter of the cost of finding what there is."""
    try:
        graph = msgspec.convert(structure, _Graph)
    except (msgspec.ValidationError, OverflowError):
        return False
    nodes = {node.id for node in graph.nodes}
    ends = {edge.source for edge in graph.edges} | {edge.target for edge in graph.edges}
    return (
        len(nodes) == len(graph.nodes) <= limits.nodes
        and len({edge.id for edge in graph.edges}) == len(graph.edges) <= limits.edges
        and ends <= nodes
        and all(_is_finite(node.position) for node in graph.nodes)
    )


def _is_finite(position: _Position | msgspec.UnsetType) -> bool:
    return isinstance(position, msgspec.UnsetType) or (math.isfinite(position.x) and math.isfinite(position.y))


def _node_ids(structure: JSON) -> frozenset[str]:
    nodes = structure.get("nodes") if isinstance(structure, dict) else None
    return frozenset(
        node["id"]
        for node in (nodes if isinstance(nodes, list) else ())
        if isinstance(node, dict) and isinstance(node.get("id"), str)
    )


def _structure(limits: GraphLimits) -> Check:
    return record(
        {
            "nodes": every(list_of(NODE, most=limits.nodes), unique("id")),
            "edges": every(list_of(EDGE, most=limits.edges), unique("id")),
        },
        extra=True,
    )


def _axis(name: str) -> Check:
    """A coordinate that is missing breaks the same rule as one that is no number."""
    return must(lambda position, _: is_number(position.get(name)), "position", "must be a finite number", name)


NODE = record(
    {
        "id": text(most=MAX_ID),
        "type": one_of(NodeType),
        "position": then(free_object, every(_axis("x"), _axis("y"), record({"x": every(), "y": every()}))),
        "data": free_object,
    },
    required=("id", "type"),
)
EDGE = record(
    {"id": text(most=MAX_ID), "source": node_id, "target": node_id, "sourceHandle": string},
    required=("id", "source", "target"),
)


# To be deployed.


def deploy_issues(graph: Graph, catalog: ReferenceCatalog, path: str = "workflowStructure") -> list[Issue]:
    """Everything for which a graph cannot run, then warnings: at most `MAX_ISSUES`. Messages name the node.

    The graph comes from a structure without write issues; `catalog` is asked about its tools and skills.
    """
    known = Known(graph.by_id.keys(), catalog)
    return _capped(chain.from_iterable(rule(graph, known) for rule in DEPLOY_RULES), path)


def _one_start(graph: Graph, known: Known) -> Iterator[Issue]:
    starts = [(index, node) for index, node in enumerate(graph.nodes) if node.type is NodeType.START]
    if not starts:
        yield Issue("nodes", "there is no `start` node", "start")
    for index, node in starts[1:]:
        yield _at(node, f"nodes[{index}].type", "there is another `start`, a graph has one", "start")


def _nothing_before_start(graph: Graph, known: Known) -> Iterator[Issue]:
    for index, edge in enumerate(graph.edges):
        target = graph.by_id[edge.target]
        if target.type is NodeType.START:
            yield _at(target, f"edges[{index}].target", "no edge may lead to a `start`", "start")


def _all_reachable(graph: Graph, known: Known) -> Iterator[Issue]:
    reached = _reached(graph)
    for index, node in enumerate(graph.nodes):
        if reached and node.id not in reached:
            yield _at(node, f"nodes[{index}]", "it cannot be reached from the start", "reachable")


def _reached(graph: Graph) -> set[str]:
    waiting = [node.id for node in graph.nodes if node.type is NodeType.START]
    reached = set(waiting)
    while waiting:
        for edge in graph.outgoing[waiting.pop()]:
            if edge.target not in reached:
                reached.add(edge.target)
                waiting.append(edge.target)
    return reached


def _known_handles(graph: Graph, known: Known) -> Iterator[Issue]:
    exits = {node.id: handles(node) for node in graph.nodes}
    for index, edge in enumerate(graph.edges):
        if edge.source_handle not in exits[edge.source]:
            message = _no_such_exit(edge.source_handle, exits[edge.source])
            yield _at(graph.by_id[edge.source], f"edges[{index}].sourceHandle", message, "handle")


def _no_such_exit(handle: str | None, exits: frozenset[str | None]) -> str:
    given = "an edge without `sourceHandle`" if handle is None else f"`{clip(handle)}`"
    if len(exits) > MAX_SHOWN:
        return f"it has no exit for {given}, but {len(exits)} others"
    names = ", ".join("none" if name is None else f"`{clip(name)}`" for name in sorted(exits, key=str))
    return f"it has no exit for {given}, only {names}"


def _cycles_can_be_left(graph: Graph, known: Known) -> Iterator[Issue]:
    cycles = list(find_cycles(_without_exits(graph)))
    index = {node.id: index for index, node in enumerate(graph.nodes)} if cycles else {}
    for cycle in cycles:
        names = [f"`{clip(name, 40)}`" for name in cycle]
        more = ["..."] if len(cycle) > MAX_SHOWN else []
        walk = " -> ".join([*names[:MAX_SHOWN], *more, names[0]])
        message = f"a cycle needs a condition or a humanApproval by which to leave it: {walk}"
        yield Issue(f"nodes[{index[cycle[0]]}]", message, "cycle")


def _without_exits(graph: Graph) -> dict[str, list[str]]:
    """The successors among the nodes where no cycle can be left."""
    inner = {node.id: None for node in graph.nodes if node.type not in CYCLE_EXITS}
    return {name: [edge.target for edge in graph.outgoing[name] if edge.target in inner] for name in inner}


def find_cycles(successors: Mapping[str, Iterable[str]]) -> Iterator[list[str]]:
    """Cycles without a common node, at least one of every knot (strongly connected component) that has one.

    A depth-first search whose stack is the dict `path`. A cycle is taken off it whole.
    """
    settled: set[str] = set()
    for root in successors:
        path = {} if root in settled else {root: iter(successors[root])}
        while path:
            onward = next(reversed(path.values()))
            target = next(onward, None)
            if target is None:
                settled.add(path.popitem()[0])
            elif target in path:
                cycle = _pop_until(target, path)
                settled.update(cycle)
                yield cycle
            elif target not in settled:
                path[target] = iter(successors[target])


def _pop_until(name: str, path: dict[str, Iterator[str]]) -> list[str]:
    """Take the end of the stack off, from `name` on."""
    popped = [path.popitem()[0]]
    while popped[-1] != name:
        popped.append(path.popitem()[0])
    return popped[::-1]


def _good_data(graph: Graph, known: Known) -> Iterator[Issue]:
    for index, node in enumerate(graph.nodes):
        for issue in NODE_DATA[node.type](node.data, known):
            yield _at(node, join_path(f"nodes[{index}].data", issue.path), issue.message, issue.rule)


def _item_is_there(graph: Graph, known: Known) -> Iterator[Issue]:
    for index, node in enumerate(graph.nodes):
        for path, value in _without_item(node):
            if _reads_item(value):
                message = "reads `item`, which is there only in the `params` of a `forEach`"
                yield _at(node, f"nodes[{index}].data.{path}", message, "reference")


def _without_item(node: Node) -> Iterator[tuple[str, JSON]]:
    """What of a node's data is a template or, as one, an expression, and is rendered for no item of a list."""
    data = node.data
    if node.type is NodeType.ACTION:
        yield "forEach", _as_template(data.get("forEach"))
        if "forEach" not in data:
            yield "params", data.get("params")
    elif node.type is NodeType.CONDITION:
        branches = data.get("branches")
        for position, branch in enumerate(branches if isinstance(branches, list) else ()):
            yield f"branches[{position}].when", _as_template(branch.get("when") if isinstance(branch, dict) else None)
    elif node.type in (NodeType.AGENT, NodeType.HUMAN_APPROVAL):
        yield "message", data.get("message")


def _as_template(expression: JSON) -> str:
    return f"{{{{ {expression} }}}}" if isinstance(expression, str) else ""


def _reads_item(value: JSON) -> bool:
    """Whether this template reads `item`; one that is wrong is another rule's affair."""
    try:
        return compile_template(value).reads_item
    except ExpressionError:
        return False


def _else_leads_on(graph: Graph, known: Known) -> Iterator[Issue]:
    for index, node in enumerate(graph.nodes):
        if node.type is not NodeType.CONDITION:
            continue
        if not any(edge.source_handle == ELSE for edge in graph.outgoing[node.id]):
            message = "it has no `else` edge: when no branch holds, its path ends"
            yield _warn(node, f"nodes[{index}]", message, "else")


def _no_idle_keys(graph: Graph, known: Known) -> Iterator[Issue]:
    for index, node in enumerate(graph.nodes):
        for key, needed in IDLE_WITHOUT.get(node.type, {}).items():
            if key in node.data and needed not in node.data:
                message = f"`{key}` does nothing without `{needed}`"
                yield _warn(node, f"nodes[{index}].data.{key}", message, "idle")
        tool = node.data.get("toolId") if node.type is NodeType.ACTION else None
        for key in IDLE_ON.get(tool, ()) if isinstance(tool, str) else ():
            if key in node.data:
                yield _warn(node, f"nodes[{index}].data.{key}", f"`{key}` does nothing on `{tool}`", "idle")


def _expired_can_happen(graph: Graph, known: Known) -> Iterator[Issue]:
    for index, edge in enumerate(graph.edges):
        source = graph.by_id[edge.source]
        waits_for_ever = source.type is NodeType.HUMAN_APPROVAL and "timeoutSeconds" not in source.data
        if waits_for_ever and edge.source_handle == "expired":
            message = "`expired` is never taken without `timeoutSeconds`"
            yield _warn(source, f"edges[{index}].sourceHandle", message, "idle")


def _at(node: Node, path: str, message: str, rule: str) -> Issue:
    return Issue(path, f"node `{node.id}`: {message}", rule)


def _warn(node: Node, path: str, message: str, rule: str) -> Issue:
    return Issue(path, f"node `{node.id}`: {message}", rule, "warning")


CYCLE_EXITS = frozenset({NodeType.CONDITION, NodeType.HUMAN_APPROVAL})

IDLE_WITHOUT: Mapping[NodeType, Mapping[str, str]] = {
    NodeType.ACTION: {"maxConcurrency": "forEach"},
    NodeType.HUMAN_APPROVAL: {"onTimeout": "timeoutSeconds"},
}
"""Keys of `data` that do nothing unless another one stands beside them."""

IDLE_ON: Mapping[str, tuple[str, ...]] = {
    "core.transform": ("retry", "timeoutSeconds"),
    "core.fail": ("timeoutSeconds",),
    "core.wait": ("retry",),
}
"""Keys of `data` that do nothing on these tools: what is done at once takes no time, a wait fails once and for all."""

DEPLOY_RULES: tuple[Callable[[Graph, Known], Iterable[Issue]], ...] = (
    _one_start,
    _nothing_before_start,
    _all_reachable,
    _known_handles,
    _cycles_can_be_left,
    _good_data,
    _item_is_there,
    _else_leads_on,
    _no_idle_keys,
    _expired_can_happen,
)
"""Errors before warnings, so that a long list loses its warnings first."""


def _capped(issues: Iterable[Issue], path: str) -> list[Issue]:
    kept = under(path, list(islice(issues, MAX_ISSUES + 1)))
    if len(kept) > MAX_ISSUES:
        message = f"there are more issues than the {MAX_ISSUES - 1} shown"
        kept[MAX_ISSUES - 1 :] = [Issue(path, message, "truncated", kept[MAX_ISSUES - 1].severity)]
    return kept
