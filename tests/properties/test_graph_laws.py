"""Laws of graphs and their rules, over random graphs (interface, WorkflowStructure)."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from wfcore.domain.graph.rules import deploy_issues, find_cycles, write_issues
from wfcore.domain.graph.structure import (
    HANDLES,
    Graph,
    NodeType,
    compile_agent_selection,
    handles,
    parse_graph,
    selection_issues,
)
from wfcore.domain.kernel.errors import Issue
from wfcore.testing.graphs import CATALOG, FAULTS, BrokenGraph, broken_graphs, deployable_graphs

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
WORDS = """id type data position x y source target sourceHandle nodes edges toolId params forEach retry
    branches handle when agent_id message approvers emails groups requiredApprovals timeoutSeconds agents
    priority_order modelSettings contextWindow maxConcurrency concurrencyKey concurrencyLimit instructions"""
KEYS = st.sampled_from(WORDS.split())
NEAR_JSON = st.recursive(
    JSON | st.sampled_from(["start", "condition", "agent", "a", "b", "{{ nodes.a }}", "1 +"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=15,
)
ANY_DATA = st.dictionaries(KEYS, NEAR_JSON, max_size=6)


def errors(issues: list[Issue]) -> list[Issue]:
    return [issue for issue in issues if issue.severity == "error"]


@given(deployable_graphs())
def test_a_deployable_graph_has_no_error(structure: dict[str, Any]) -> None:
    """The graphs of the strategy can be stored and deployed."""
    assert write_issues(structure) == []
    assert errors(deploy_issues(parse_graph(structure), CATALOG)) == []


@given(broken_graphs())
def test_one_fault_is_one_error(broken: BrokenGraph) -> None:
    """A valid graph with one fault has one error, with its rule and at its path."""
    issues = write_issues(broken.structure, "")
    if broken.when == "deploy":
        assert issues == []
        issues = errors(deploy_issues(parse_graph(broken.structure), CATALOG, ""))
    assert [(issue.path, issue.rule) for issue in issues] == [(broken.path, broken.rule)]


def test_faults_cover_both_sets_of_rules() -> None:
    """The faults of the strategy include each structural rule."""
    assert {fault.rule for fault in FAULTS if fault.when == "deploy"} >= {
        "start",
        "reachable",
        "handle",
        "cycle",
        "reference",
        "expression",
    }
    assert {fault.rule for fault in FAULTS if fault.when == "write"} >= {
        "required",
        "type",
        "enum",
        "unknown",
        "unique",
        "minLength",
        "maxLength",
        "reference",
        "position",
    }


@given(NEAR_JSON)
def test_any_json_gives_issues_and_never_raises(value: Any) -> None:
    """Any value has issues below the given path, or parses."""
    issues = write_issues(value, "w")
    assert all(issue.path.startswith("w") for issue in issues)
    if not issues:
        assert isinstance(parse_graph(value), Graph)


@given(NEAR_JSON)
def test_any_selection_gives_issues_and_never_raises(value: Any) -> None:
    """An agentSelection without issues compiles to a structure that can be stored."""
    if not selection_issues(value):
        assert write_issues(compile_agent_selection(value)) == []


@given(st.sampled_from(list(NodeType)), ANY_DATA)
def test_any_data_can_be_checked(kind: NodeType, data: dict[str, Any]) -> None:
    """Node data is not checked on storing, so a deploy gets any data; it never raises."""
    structure = {"nodes": [{"id": "a", "type": kind.value, "data": data}]}
    graph = parse_graph(structure)
    assert handles(graph.nodes[0]) >= HANDLES[kind]
    issues = deploy_issues(graph, CATALOG, "")
    assert all(issue.path.startswith("nodes") for issue in issues)


@settings(max_examples=30)
@given(deployable_graphs())
def test_rules_do_not_change_the_structure(structure: dict[str, Any]) -> None:
    """Checking and parsing do not change the structure, and are deterministic."""
    before = json.dumps(structure)
    first = write_issues(structure), deploy_issues(parse_graph(structure), CATALOG)
    second = write_issues(structure), deploy_issues(parse_graph(structure), CATALOG)
    assert first == second
    assert json.dumps(structure) == before


# Agreement with naive definitions, on small graphs of any shape.

MIXED = st.sampled_from(["action", "agent", "condition", "humanApproval"])


@st.composite
def any_graphs(draw: st.DrawFn) -> Graph:
    """A start, up to six nodes and any edges among them."""
    types = ["start", *draw(st.lists(MIXED, max_size=6))]
    pairs = draw(st.lists(st.tuples(*[st.integers(0, len(types) - 1)] * 2), max_size=14))
    structure = {
        "nodes": [{"id": str(index), "type": kind} for index, kind in enumerate(types)],
        "edges": [
            {"id": str(number), "source": str(source), "target": str(target)}
            for number, (source, target) in enumerate(pairs)
        ],
    }
    assert write_issues(structure) == []
    return parse_graph(structure)


@given(any_graphs())
def test_the_index_is_the_edges(graph: Graph) -> None:
    """Each edge is once in `outgoing` of its source."""
    for node in graph.nodes:
        assert graph.by_id[node.id] is node
        assert graph.outgoing[node.id] == tuple(edge for edge in graph.edges if edge.source == node.id)


def closure(graph: Graph, inner: set[str]) -> set[tuple[str, str]]:
    """All pairs of `inner` nodes joined by a path of one edge or more through `inner` nodes."""
    pairs = {(edge.source, edge.target) for edge in graph.edges if {edge.source, edge.target} <= inner}
    while more := {(a, d) for a, b in pairs for c, d in pairs if b == c} - pairs:
        pairs |= more
    return pairs


def paths_with(graph: Graph, rule: str) -> set[str]:
    return {issue.path for issue in deploy_issues(graph, CATALOG, "") if issue.rule == rule}


@given(any_graphs())
def test_reachable_is_the_closure_of_the_edges(graph: Graph) -> None:
    """The unreachable nodes are those that the transitive closure does not connect to the start."""
    joined = closure(graph, set(graph.by_id))
    naive = {f"nodes[{name}]" for name in graph.by_id if name != "0" and ("0", name) not in joined}
    assert paths_with(graph, "reachable") == naive


@given(any_graphs())
def test_a_cycle_is_a_node_that_reaches_itself(graph: Graph) -> None:
    """There is an issue exactly if a node reaches itself without passing a condition or an approval."""
    inner = {node.id for node in graph.nodes if node.type not in ("condition", "humanApproval")}
    on_cycles = {f"nodes[{a}]" for a, b in closure(graph, inner) if a == b}
    reported = paths_with(graph, "cycle")
    assert reported <= on_cycles
    assert bool(reported) == bool(on_cycles)


@given(st.integers(1, 7).flatmap(lambda n: st.lists(st.lists(st.integers(0, n - 1)), min_size=n, max_size=n)))
def test_every_component_with_cycles_has_one(table: list[list[int]]) -> None:
    """Each is a closed walk along edges; no node is in two; each component with a cycle has at least one."""
    successors = {str(index): [str(target) for target in targets] for index, targets in enumerate(table)}
    cycles = list(find_cycles(successors))
    for cycle in cycles:
        for source, target in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
            assert target in successors[source]
    named = [name for cycle in cycles for name in cycle]
    assert len(named) == len(set(named))
    reach = {(a, b) for a in successors for b in successors[a]}
    while more := {(a, d) for a, b in reach for c, d in reach if b == c} - reach:
        reach |= more
    for a, b in reach:
        if a == b:
            assert any(name == a or {(a, name), (name, a)} <= reach for name in named)
