"""The rules of a graph: those for storing it, and further ones for deploying it.

`write_issues` takes any JSON value and finds faults of shape and reference (interface, WorkflowStructure).
`deploy_issues` takes a graph that can be stored and finds every reason why it cannot run. Its rules are a tuple of
small checks, errors before warnings. Each is one pass over nodes or edges: linear in their number.

Every cycle must contain a condition or a humanApproval, which can lead out of it. In other words, the graph
without these nodes has no cycle.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any

import msgspec
from msgspec import UnsetType

from wfcore.domain.expressions.expression import Expression
from wfcore.domain.expressions.templates import expressions
from wfcore.domain.graph.checks import (
    MAX_ISSUES,
    Check,
    CompleteCatalog,
    Known,
    ListedCatalog,
    ReferenceCatalog,
    clip,
    every,
    list_of,
    prefixed,
    record,
    unique,
)
from wfcore.domain.graph.declared import check_of, strict_type
from wfcore.domain.graph.limits import GraphLimits
from wfcore.domain.graph.node_types import ELSE, NODE_DATA
from wfcore.domain.graph.shapes import EdgeDto, NodeDto, Position, WorkflowStructure
from wfcore.domain.graph.structure import (
    Graph,
    Node,
    NodeType,
    handles,
    parse_graph,
    selection_issues,
    structure_of_body,
)
from wfcore.domain.kernel.errors import Issue, join_path
from wfcore.domain.kernel.json_type import JSON

__all__ = ["GraphLimits", "ListedCatalog", "ReferenceCatalog", "body_errors", "deploy_issues", "write_issues"]

MAX_SHOWN = 20
"""The most names in one message."""


DEFAULT_LIMITS = GraphLimits()


# Rules for storing.


def write_issues(structure: JSON, path: str = "workflowStructure", limits: GraphLimits = DEFAULT_LIMITS) -> list[Issue]:
    """Every reason why a `workflowStructure` cannot be stored, at most `MAX_ISSUES`.

    Keys other than `nodes` and `edges` are kept verbatim. A list longer than its limit is one issue.
    """
    if _passes_fast_check(structure, limits):
        return []
    known = Known(nodes=_node_ids(structure))
    return _capped(_structure(limits)(structure, known), path)


_GRAPH: type[Any] = strict_type(WorkflowStructure)


def _passes_fast_check(structure: JSON, limits: GraphLimits) -> bool:
    """Whether the structure has no issues. Nearly all pass, at a quarter of the cost of listing issues."""
    try:
        graph = msgspec.convert(structure, _GRAPH)
    except (msgspec.ValidationError, OverflowError, UnicodeError):  # the last for a surrogate in a message
        return False
    nodes, edges = graph.nodes or (), graph.edges or ()
    names = {node.id for node in nodes}
    ends = {edge.source for edge in edges} | {edge.target for edge in edges}
    return (
        len(names) == len(nodes) <= limits.nodes
        and len({edge.id for edge in edges}) == len(edges) <= limits.edges
        and ends <= names
        and all(_is_finite(node.position) for node in nodes)
    )


def _is_finite(position: Position | UnsetType) -> bool:
    return not position or (math.isfinite(position.x) and math.isfinite(position.y))


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


NODE, EDGE = check_of(NodeDto), check_of(EdgeDto)


# Rules for deploying.


def deploy_issues(graph: Graph, catalog: ReferenceCatalog, path: str = "workflowStructure") -> list[Issue]:
    """Every reason why a graph cannot run, then warnings: at most `MAX_ISSUES`. Messages name the node.

    The graph comes from a structure without write issues. `catalog` has the tools and skills that it may use.
    """
    known = Known(graph.by_id.keys(), catalog)
    return _capped(chain.from_iterable(rule(graph, known) for rule in DEPLOY_RULES), path)


def body_errors(body: Mapping[str, JSON], limits: GraphLimits = DEFAULT_LIMITS) -> list[Issue]:
    """The errors for which the graph of a create body cannot run, whatever tools and skills there are."""
    structure, selection = body.get("workflowStructure"), body.get("agentSelection")
    found = [] if structure is None else write_issues(structure, limits=limits)
    found += [] if selection is None else selection_issues(selection)
    found = found or deploy_issues(parse_graph(structure_of_body(body)), CompleteCatalog())
    return [issue for issue in found if issue.severity == "error"]


def _one_start(graph: Graph, known: Known) -> Iterator[Issue]:
    starts = [(index, node) for index, node in enumerate(graph.nodes) if node.type is NodeType.START]
    if not starts:
        yield Issue("nodes", "a graph must have a `start` node", "start")
    for index, node in starts[1:]:
        yield _at(node, f"nodes[{index}].type", "a graph must have only one `start` node", "start")


def _no_edge_to_start(graph: Graph, known: Known) -> Iterator[Issue]:
    for index, edge in enumerate(graph.edges):
        target = graph.by_id[edge.target]
        if target.type is NodeType.START:
            yield _at(target, f"edges[{index}].target", "an edge cannot lead to a `start` node", "start")


def _all_reachable(graph: Graph, known: Known) -> Iterator[Issue]:
    reached = _reached(graph)
    for index, node in enumerate(graph.nodes):
        if reached and node.id not in reached:
            yield _at(node, f"nodes[{index}]", "it cannot be reached from the `start` node", "reachable")


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
    known_handles = {node.id: handles(node) for node in graph.nodes}
    for index, edge in enumerate(graph.edges):
        if edge.source_handle not in known_handles[edge.source]:
            message = _unknown_handle(edge.source_handle, known_handles[edge.source])
            yield _at(graph.by_id[edge.source], f"edges[{index}].sourceHandle", message, "handle")


def _unknown_handle(handle: str | None, allowed: frozenset[str | None]) -> str:
    fault = "an edge needs a `sourceHandle`" if handle is None else f"unknown handle `{clip(handle)}`"
    if len(allowed) > MAX_SHOWN:
        return f"{fault}: use one of its {len(allowed)} handles"
    *names, last = [f"`{clip(name)}`" for name in sorted(filter(None, allowed))] + ["none"] * (None in allowed)
    return f"{fault}: use {', '.join(names)} or {last}" if names else f"{fault}: use {last}"


def _cycles_have_exits(graph: Graph, known: Known) -> Iterator[Issue]:
    cycles = list(find_cycles(_without_cycle_exits(graph)))
    index = {node.id: index for index, node in enumerate(graph.nodes)} if cycles else {}
    for cycle in cycles:
        names = [f"`{clip(name, 40)}`" for name in cycle]
        more = ["..."] if len(cycle) > MAX_SHOWN else []
        walk = " -> ".join([*names[:MAX_SHOWN], *more, names[0]])
        message = f"a cycle must contain a condition or a humanApproval: {walk}"
        yield Issue(f"nodes[{index[cycle[0]]}]", message, "cycle")


def _without_cycle_exits(graph: Graph) -> dict[str, list[str]]:
    """The successors of each node, without the nodes that can lead out of a cycle."""
    inner = {node.id: None for node in graph.nodes if node.type not in CYCLE_EXITS}
    return {name: [edge.target for edge in graph.outgoing[name] if edge.target in inner] for name in inner}


def find_cycles(successors: Mapping[str, Iterable[str]]) -> Iterator[list[str]]:
    """Disjoint cycles, at least one of every strongly connected component that has one.

    A depth-first search whose stack is the dict `path`. A cycle that is found is removed from it as a whole.
    """
    finished: set[str] = set()
    for root in successors:
        path = {} if root in finished else {root: iter(successors[root])}
        while path:
            successor = next(reversed(path.values()))
            target = next(successor, None)
            if target is None:
                finished.add(path.popitem()[0])
            elif target in path:
                cycle = _pop_until(target, path)
                finished.update(cycle)
                yield cycle
            elif target not in finished:
                path[target] = iter(successors[target])


def _pop_until(name: str, path: dict[str, Iterator[str]]) -> list[str]:
    """Remove the end of the stack, from `name` on, and return it."""
    popped = [path.popitem()[0]]
    while popped[-1] != name:
        popped.append(path.popitem()[0])
    return popped[::-1]


def _valid_data(graph: Graph, known: Known) -> Iterator[Issue]:
    for index, node in enumerate(graph.nodes):
        for issue in NODE_DATA[node.type](node.data, known):
            yield _at(node, join_path(f"nodes[{index}].data", issue.path), issue.message, issue.rule)


def _item_in_scope(graph: Graph, known: Known) -> Iterator[Issue]:
    for index, node in enumerate(graph.nodes):
        for path, value in _templates_without_item(node):
            for where in _readers_of_item(value):
                fields = "`params` and `concurrencyKey`"
                message = f"reads `item`, which is available only in {fields} of an action with `forEach`"
                yield _at(node, f"nodes[{index}].data.{join_path(path, where)}", message, "reference")


def _templates_without_item(node: Node) -> Iterator[tuple[str, JSON]]:
    """The templates in a node's data that cannot read `item`, with their paths; an expression is wrapped as one."""
    data = node.data
    if node.type is NodeType.ACTION:
        yield "forEach", _as_template(data.get("forEach"))
        if "forEach" not in data:
            yield "params", data.get("params")
            yield "concurrencyKey", data.get("concurrencyKey")
    elif node.type is NodeType.CONDITION:
        branches = data.get("branches")
        for position, branch in enumerate(branches if isinstance(branches, list) else ()):
            yield f"branches[{position}].when", _as_template(branch.get("when") if isinstance(branch, dict) else None)
    elif node.type in (NodeType.AGENT, NodeType.HUMAN_APPROVAL):
        yield "message", data.get("message")


def _as_template(expression: JSON) -> str:
    return f"{{{{ {expression} }}}}" if isinstance(expression, str) else ""


def _readers_of_item(value: JSON) -> Iterable[str]:
    """The paths of the strings of a template that read `item`. What does not compile is left to another rule."""
    return dict.fromkeys(
        where for where, one in expressions(value, "") if isinstance(one, Expression) and one.reads_item
    )


def _else_is_connected(graph: Graph, known: Known) -> Iterator[Issue]:
    for index, node in enumerate(graph.nodes):
        if node.type is not NodeType.CONDITION:
            continue
        if not any(edge.source_handle == ELSE for edge in graph.outgoing[node.id]):
            message = "it has no `else` edge: if no branch holds, the path ends here"
            yield _warn(node, f"nodes[{index}]", message, "else")


def _no_ineffective_keys(graph: Graph, known: Known) -> Iterator[Issue]:
    for index, node in enumerate(graph.nodes):
        for key, needed in INEFFECTIVE_WITHOUT.get(node.type, {}).items():
            if key in node.data and needed not in node.data:
                message = f"`{key}` has no effect without `{needed}`"
                yield _warn(node, f"nodes[{index}].data.{key}", message, "idle")
        tool = node.data.get("toolId") if node.type is NodeType.ACTION else None
        for key in INEFFECTIVE_ON.get(tool, ()) if isinstance(tool, str) else ():
            if key in node.data:
                yield _warn(node, f"nodes[{index}].data.{key}", f"`{key}` has no effect on `{tool}`", "idle")


def _expired_can_be_taken(graph: Graph, known: Known) -> Iterator[Issue]:
    for index, edge in enumerate(graph.edges):
        source = graph.by_id[edge.source]
        has_no_timeout = source.type is NodeType.HUMAN_APPROVAL and "timeoutSeconds" not in source.data
        if has_no_timeout and edge.source_handle == "expired":
            message = "`expired` is never taken without `timeoutSeconds`"
            yield _warn(source, f"edges[{index}].sourceHandle", message, "idle")


def _at(node: Node, path: str, message: str, rule: str) -> Issue:
    return Issue(path, f"node `{node.id}`: {message}", rule)


def _warn(node: Node, path: str, message: str, rule: str) -> Issue:
    return Issue(path, f"node `{node.id}`: {message}", rule, "warning")


CYCLE_EXITS = frozenset({NodeType.CONDITION, NodeType.HUMAN_APPROVAL})

INEFFECTIVE_WITHOUT: Mapping[NodeType, Mapping[str, str]] = {
    NodeType.ACTION: {"maxConcurrency": "forEach", "concurrencyLimit": "concurrencyKey"},
    NodeType.HUMAN_APPROVAL: {"onTimeout": "timeoutSeconds"},
}
"""Keys of `data` that have no effect without another key."""

INEFFECTIVE_ON: Mapping[str, tuple[str, ...]] = {
    "core.transform": ("retry", "timeoutSeconds", "concurrencyKey"),
    "core.fail": ("timeoutSeconds", "concurrencyKey"),
    "core.wait": ("retry", "concurrencyKey"),
    "core.workflow": ("concurrencyKey",),
}
"""Keys of `data` that have no effect on these built-in tools: they take no time, never retry, or make no call."""

DEPLOY_RULES: tuple[Callable[[Graph, Known], Iterable[Issue]], ...] = (
    _one_start,
    _no_edge_to_start,
    _all_reachable,
    _known_handles,
    _cycles_have_exits,
    _valid_data,
    _item_in_scope,
    _else_is_connected,
    _no_ineffective_keys,
    _expired_can_be_taken,
)
"""Errors before warnings: if the list is truncated, warnings are left out first."""


def _capped(issues: Iterable[Issue], path: str) -> list[Issue]:
    kept = prefixed(path, list(islice(issues, MAX_ISSUES + 1)))
    if len(kept) > MAX_ISSUES:
        message = f"there are more issues than the {MAX_ISSUES - 1} shown"
        kept[MAX_ISSUES - 1 :] = [Issue(path, message, "truncated", kept[MAX_ISSUES - 1].severity)]
    return kept
