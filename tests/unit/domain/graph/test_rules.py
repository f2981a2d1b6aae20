"""The rules for storing and for deploying a graph (interface, WorkflowStructure)."""

from typing import Any

import pytest

from wfcore.domain.graph.checks import MAX_ISSUES, Known, record
from wfcore.domain.graph.rules import GraphLimits, body_errors, deploy_issues, find_cycles, write_issues
from wfcore.domain.graph.structure import parse_graph
from wfcore.domain.kernel.errors import Invalid, Issue, Malformed, refuse
from wfcore.testing.graphs import CATALOG
from wfcore.testing.histories import sketch


def node(name: str, kind: str = "agent", **data: Any) -> dict[str, Any]:
    return {"id": name, "type": kind, "data": data or ({"message": "hello"} if kind == "agent" else {})}


def edges(*arrows: str) -> list[dict[str, str]]:
    """`a -> b` or `a.handle -> b`, numbered from 1."""
    made = []
    for number, arrow in enumerate(arrows, 1):
        source, target = arrow.split(" -> ")
        source, _, handle = source.partition(".")
        edge = {"id": str(number), "source": source, "target": target}
        made.append({**edge, "sourceHandle": handle} if handle else edge)
    return made


def found(issues: list[Issue], severity: str = "error") -> list[tuple[str, str]]:
    return [(issue.path, issue.rule) for issue in issues if issue.severity == severity]


def deploy(nodes: list[Any], arrows: list[Any], severity: str = "error") -> list[tuple[str, str]]:
    structure = {"nodes": nodes, "edges": arrows}
    assert write_issues(structure) == []
    return found(deploy_issues(parse_graph(structure), CATALOG, ""), severity)


class TestWriting:
    """Rules for storing."""

    @pytest.mark.parametrize(
        ("structure", "path", "rule"),
        [
            (None, "", "type"),
            ([], "", "type"),
            ({"nodes": None}, "nodes", "type"),
            ({"edges": {}}, "edges", "type"),
            ({"nodes": [None]}, "nodes[0]", "type"),
            ({"nodes": [{"type": "start"}]}, "nodes[0].id", "required"),
            ({"nodes": [{"id": 1, "type": "start"}]}, "nodes[0].id", "type"),
            ({"nodes": [{"id": "", "type": "start"}]}, "nodes[0].id", "minLength"),
            ({"nodes": [{"id": "x" * 256, "type": "start"}]}, "nodes[0].id", "maxLength"),
            ({"nodes": [{"id": "a"}]}, "nodes[0].type", "required"),
            ({"nodes": [{"id": "a", "type": None}]}, "nodes[0].type", "type"),
            ({"nodes": [{"id": "a", "type": "START"}]}, "nodes[0].type", "enum"),
            ({"nodes": [{"id": "a", "type": "start", "data": []}]}, "nodes[0].data", "type"),
            ({"nodes": [{"id": "a", "type": "start", "width": 1}]}, "nodes[0].width", "unknown"),
        ],
    )
    def test_each_fault_has_its_rule_and_path(self, structure: Any, path: str, rule: str) -> None:
        """One fault gives one issue, at its path."""
        assert found(write_issues(structure, "")) == [(path, rule)]

    @pytest.mark.parametrize("bad", [None, "1", True, float("nan"), float("inf"), [1], "missing"])
    def test_a_position_has_two_finite_numbers(self, bad: Any) -> None:
        """A coordinate that is missing, not a number or not finite is invalid, not malformed."""
        position = {"x": 1} if bad == "missing" else {"x": 1, "y": bad}
        issues = write_issues({"nodes": [{"id": "a", "type": "start", "position": position}]}, "")
        assert found(issues) == [("nodes[0].position.y", "position")]
        with pytest.raises(Invalid):
            refuse(issues)

    def test_a_position_has_only_x_and_y(self) -> None:
        """Another type is malformed; another key is unknown."""
        at = [{"id": "a", "type": "start", "position": position} for position in ([], {"x": 1, "y": 2, "z": 3})]
        assert found(write_issues({"nodes": at[:1]}, "")) == [("nodes[0].position", "type")]
        assert found(write_issues({"nodes": at[1:]}, "")) == [("nodes[0].position.z", "unknown")]

    @pytest.mark.parametrize(
        ("edge", "below", "rule"),
        [
            (5, "", "type"),
            ({"id": "e", "source": "a", "target": "b", "label": "x"}, ".label", "unknown"),
            ({"source": "a", "target": "b"}, ".id", "required"),
            ({"id": "", "source": "a", "target": "b"}, ".id", "minLength"),
            ({"id": "e", "source": "a"}, ".target", "required"),
            ({"id": "e", "source": 1, "target": "b"}, ".source", "type"),
            ({"id": "e", "source": [], "target": "b"}, ".source", "type"),
            ({"id": "e", "source": "a", "target": "c"}, ".target", "reference"),
            ({"id": "e", "source": "", "target": "b"}, ".source", "reference"),
            ({"id": "e", "source": "a", "target": "b", "sourceHandle": None}, ".sourceHandle", "type"),
        ],
    )
    def test_edges(self, edge: Any, below: str, rule: str) -> None:
        """An edge has its keys, existing ends, and a handle that is a string."""
        structure = {"nodes": [node("a"), node("b")], "edges": [edge]}
        assert found(write_issues(structure, "")) == [(f"edges[0]{below}", rule)]

    def test_ids_are_unique_among_nodes_and_among_edges(self) -> None:
        """The second use is the fault; a node and an edge may share an id."""
        structure = {"nodes": [node("a"), node("b"), node("a")], "edges": edges("a -> b")}
        structure["edges"] = [{**edges("a -> b")[0], "id": "a"}] * 2
        assert found(write_issues(structure, "")) == [("nodes[2].id", "unique"), ("edges[1].id", "unique")]

    def test_all_faults_are_reported_with_wire_paths(self) -> None:
        """Faults of shape and of rules are reported together; a fault of shape makes the request malformed."""
        structure = {"nodes": [{"id": "a", "type": "x", "a": 1}], "edges": [{"id": "e", "source": "b"}]}
        issues = write_issues(structure)
        assert set(found(issues)) == {
            ("workflowStructure.nodes[0].type", "enum"),
            ("workflowStructure.nodes[0].a", "unknown"),
            ("workflowStructure.edges[0].target", "required"),
            ("workflowStructure.edges[0].source", "reference"),
        }
        with pytest.raises(Malformed):
            refuse(issues)

    def test_extra_keys_of_the_structure_are_accepted(self) -> None:
        """Other keys than `nodes` and `edges` are free; both lists are optional."""
        assert write_issues({"viewport": {"zoom": 1}}) == []

    def test_limits(self) -> None:
        """A list at its limit is accepted; a longer one is one issue, and its items are not checked."""
        limits = GraphLimits(nodes=2, edges=1)
        structure = {"nodes": [node("a"), node("b")], "edges": edges("a -> b")}
        assert write_issues(structure, limits=limits) == []
        structure = {"nodes": [node("a"), node("b"), None], "edges": edges("a -> b", "b -> x")}
        assert found(write_issues(structure, "", limits)) == [("nodes", "maxItems"), ("edges", "maxItems")]

    def test_issues_are_truncated(self) -> None:
        """There are at most `MAX_ISSUES`; if there are more, the last one says so."""
        issues = write_issues({"nodes": [{}] * 2_000})
        assert len(issues) == MAX_ISSUES
        assert issues[-1] == Issue("workflowStructure", "there are more issues than the 999 shown", "truncated")
        assert [issue.rule for issue in write_issues({"nodes": [{}] * 500})] == ["required"] * 1_000

    def test_the_issues_of_one_object_are_bounded(self) -> None:
        """An object with very many unknown keys does not give very many issues."""
        crowd = {str(key): 0 for key in range(10 * MAX_ISSUES)}
        assert len(record({})(crowd, Known())) <= MAX_ISSUES + 1
        assert len(write_issues({"nodes": [crowd] * 3})) == MAX_ISSUES

    def test_long_values_are_clipped_in_messages(self) -> None:
        """A message does not repeat a long value in full."""
        [issue] = write_issues({"nodes": [{"id": "a", "type": "x" * 10_000}]})
        assert len(issue.message) < 300


class TestDeploying:
    """Rules for deploying."""

    def test_a_start_alone_deploys(self) -> None:
        """The smallest graph is one start node."""
        assert deploy([node("s", "start")], []) == []

    def test_a_graph_without_a_start_does_not_deploy(self) -> None:
        """The missing start is the only issue; no node counts as unreachable."""
        assert deploy([], []) == [("nodes", "start")]
        assert deploy([node("a"), node("b")], edges("a -> b")) == [("nodes", "start")]

    def test_a_graph_has_one_start(self) -> None:
        """Each further start is an issue."""
        starts = [node(name, "start") for name in "abc"]
        assert deploy(starts, []) == [("nodes[1].type", "start"), ("nodes[2].type", "start")]

    def test_no_edge_leads_to_the_start(self) -> None:
        """An edge to the start is an issue, even in a cycle with an exit."""
        nodes = [node("s", "start"), node("h", "humanApproval")]
        assert deploy(nodes, edges("s -> h", "h.denied -> s")) == [("edges[1].target", "start")]

    def test_every_node_is_reachable(self) -> None:
        """Each node that cannot be reached from the start is an issue."""
        nodes = [node("s", "start"), node("a"), node("b"), node("c")]
        arrows = edges("s -> a", "b -> c", "c -> a")
        assert deploy(nodes, arrows) == [("nodes[2]", "reachable"), ("nodes[3]", "reachable")]

    @pytest.mark.parametrize(
        ("kind", "handle", "legal"),
        [
            ("agent", "", True),
            ("agent", "error", True),
            ("agent", "done", False),
            ("action", "error", True),
            ("humanApproval", "approved", True),
            ("humanApproval", "denied", True),
            ("humanApproval", "", False),
            ("humanApproval", "error", False),
            ("condition", "big", True),
            ("condition", "else", True),
            ("condition", "", False),
            ("condition", "Big", False),
        ],
    )
    def test_handles(self, kind: str, handle: str, legal: bool) -> None:
        """An edge begins at a handle of its source; conditions and approvals do not have the unnamed handle."""
        data = {
            "action": {"toolId": "core.http"},
            "condition": {"branches": [{"handle": "big", "when": "true"}]},
        }
        nodes = [node("s", "start"), node("x", kind, **data.get(kind, {})), node("y")]
        arrows = edges("s -> x", f"x.{handle} -> y")
        assert deploy(nodes, arrows) == ([] if legal else [("edges[1].sourceHandle", "handle")])

    @pytest.mark.parametrize(
        ("kind", "branches", "handle", "message"),
        [
            ("agent", 0, ".nope", "unknown handle `nope`: use `error` or none"),
            ("start", 0, ".nope", "unknown handle `nope`: use none"),
            ("condition", 0, ".nope", "unknown handle `nope`: use `else`"),
            ("condition", 2, ".nope", "unknown handle `nope`: use `else`, `x0` or `x1`"),
            ("condition", 50, ".nope", "unknown handle `nope`: use one of its 51 handles"),
            ("condition", 1, "", "an edge needs a `sourceHandle`: use `else` or `x0`"),
        ],
    )
    def test_the_message_of_an_unknown_handle(self, kind: str, branches: int, handle: str, message: str) -> None:
        """It lists the handles that are allowed, or their number if there are very many."""
        data = {"branches": [{"handle": f"x{number}", "when": "true"} for number in range(branches)]}
        structure = {
            "nodes": [node("s", "start"), node("c", kind, **data), node("a")],
            "edges": edges("s -> c", f"c{handle} -> a"),
        }
        issues = deploy_issues(parse_graph(structure), CATALOG)
        assert [issue.message for issue in issues if issue.rule == "handle"] == [f"node `c`: {message}"]

    def test_a_start_has_no_named_handle(self) -> None:
        """The start has only the unnamed handle; an empty name does not mean it."""
        nodes = [node("s", "start"), node("a")]
        arrows = [{**edges("s -> a")[0], "sourceHandle": ""}]
        assert deploy(nodes, arrows) == [("edges[0].sourceHandle", "handle")]

    @pytest.mark.parametrize(
        ("kind", "data", "path"),
        [
            ("action", {"toolId": "core.http", "forEach": "item"}, "forEach"),
            ("action", {"toolId": "core.http", "params": {"a": ["{{ item }}"]}}, "params.a[0]"),
            ("action", {"toolId": "core.http", "forEach": "input.a", "params": {"a": "{{ item }}"}}, None),
            ("condition", {"branches": [{"handle": "a", "when": "item == 1"}]}, "branches[0].when"),
            ("agent", {"message": "{{ item.name }}"}, "message"),
            ("humanApproval", {"message": "{{ item }}"}, "message"),
            ("agent", {"message": "item"}, None),
        ],
    )
    def test_item_is_available_only_in_params(self, kind: str, data: dict[str, Any], path: str | None) -> None:
        """Only the `params` of an action with `forEach` can read `item`."""
        found = deploy([node("s", "start"), node("a", kind, **data)], edges("s -> a"))
        assert found == ([] if path is None else [(f"nodes[1].data.{path}", "reference")])

    def test_every_expression_of_a_template_is_checked(self) -> None:
        """Also beside those that do not compile: each at the path of its string, and what comes twice once."""
        params = {"a": "{{ 1 + }} {{ item }} {{ foo }}", "b": ["{{ nodes.x.output }} {{ nodes.x.output }}"], "c": "{{"}
        found = deploy([node("s", "start"), node("a", "action", toolId="core.http", params=params)], edges("s -> a"))
        assert sorted(found) == [
            ("nodes[1].data.params.a", "expression"),
            ("nodes[1].data.params.a", "expression"),
            ("nodes[1].data.params.a", "reference"),
            ("nodes[1].data.params.b[0]", "reference"),
            ("nodes[1].data.params.c", "expression"),
        ]

    @pytest.mark.parametrize("branches", [None, ["x"], [{"handle": "a", "when": 1}]])
    def test_malformed_branches_are_reported_once(self, branches: Any) -> None:
        """The rule about `item` ignores branches of the wrong shape."""
        found = deploy(
            [node("s", "start"), {**node("c", "condition"), "data": {"branches": branches}}], edges("s -> c")
        )
        assert [rule for _, rule in found] == ["type"]

    def test_a_cycle_without_exit_is_an_issue(self) -> None:
        """The issue names the nodes of one cycle in order; an error edge is not an exit."""
        nodes = [node("s", "start"), node("a"), node("b"), node("c")]
        arrows = edges("s -> a", "a -> b", "b -> c", "c.error -> a")
        structure = {"nodes": nodes, "edges": arrows}
        [issue] = deploy_issues(parse_graph(structure), CATALOG, "")
        assert (issue.path, issue.rule) == ("nodes[1]", "cycle")
        assert "`a` -> `b` -> `c` -> `a`" in issue.message

    def test_every_component_with_cycles_has_an_issue(self) -> None:
        """Two disjoint cycles are two issues; a self-loop is a cycle."""
        nodes = [node("s", "start"), node("a"), node("b")]
        arrows = edges("s -> a", "a -> a", "a -> b", "b -> b")
        assert sorted(deploy(nodes, arrows)) == [("nodes[1]", "cycle"), ("nodes[2]", "cycle")]

    @pytest.mark.parametrize("kind", ["condition", "humanApproval"])
    def test_a_cycle_through_an_exit_is_legal(self, kind: str) -> None:
        """A condition or a humanApproval in a cycle makes it legal."""
        data = {"branches": [{"handle": "denied", "when": "true"}]} if kind == "condition" else {}
        nodes = [node("s", "start"), node("a"), node("x", kind, **data)]
        assert deploy(nodes, edges("s -> a", "a -> x", "x.denied -> a")) == []

    def test_a_very_long_cycle_is_found_and_shortened(self) -> None:
        """The search does not recurse over 5,000 nodes in one cycle; the message shows the first of them."""
        names = [f"n{number}" for number in range(4_999)]
        ring = [f"{a} -> {b}" for a, b in zip(names, [*names[1:], names[0]], strict=True)]
        structure = {
            "nodes": [node("s", "start"), *map(node, names)],
            "edges": edges("s -> n0", *ring),
        }
        [issue] = deploy_issues(parse_graph(structure), CATALOG, "")
        assert issue.rule == "cycle"
        assert len(issue.message) < 400

    def test_cycles_do_not_share_nodes(self) -> None:
        """Of overlapping cycles one is reported; the order is that of the graph."""
        assert list(find_cycles({"a": "bc", "b": "a", "c": "a"})) == [["a", "b"]]
        assert list(find_cycles({"a": "b", "b": "c", "c": "bd", "d": "de", "e": ""})) == [["b", "c"], ["d"]]

    def test_messages_name_the_node(self) -> None:
        """Every deploy issue about a node names the node."""
        structure = {
            "nodes": [node("s", "start"), node("a", "action"), node("b"), node("h", "humanApproval")],
            "edges": edges("s -> a", "h -> a"),
        }
        issues = deploy_issues(parse_graph(structure), CATALOG)
        assert {issue.path: issue.message.split(":")[0] for issue in issues} == {
            "workflowStructure.nodes[1].data.toolId": "node `a`",
            "workflowStructure.nodes[2]": "node `b`",
            "workflowStructure.nodes[3]": "node `h`",
            "workflowStructure.edges[1].sourceHandle": "node `h`",
        }

    def test_issues_are_truncated(self) -> None:
        """Very many faults give `MAX_ISSUES`; if only warnings are left out, the last one is a warning."""
        lonely = [node(f"n{number}") for number in range(2_000)]
        issues = deploy_issues(parse_graph({"nodes": [node("s", "start"), *lonely]}), CATALOG)
        assert len(issues) == MAX_ISSUES
        assert issues[-1].rule == "truncated"
        assert issues[-1].severity == "error"
        branch = {"branches": [{"handle": "x", "when": "true"}]}
        conditions = [node(f"n{number}", "condition", **branch) for number in range(2_000)]
        arrows = edges(*(f"s -> n{number}" for number in range(2_000)))
        issues = deploy_issues(parse_graph({"nodes": [node("s", "start"), *conditions], "edges": arrows}), CATALOG)
        assert {issue.severity for issue in issues} == {"warning"}
        assert issues[-1].rule == "truncated"


class TestWarnings:
    """Graphs that run, but probably not as intended."""

    def test_a_condition_without_else(self) -> None:
        """The warning says that the path ends if no branch holds."""
        nodes = [
            node("s", "start"),
            node("c", "condition", branches=[{"handle": "x", "when": "true"}]),
            node("a"),
        ]
        assert deploy(nodes, edges("s -> c", "c.x -> a"), "warning") == [("nodes[1]", "else")]
        assert deploy(nodes, edges("s -> c", "c.else -> a"), "warning") == []

    def test_a_deadline_that_is_never_set(self) -> None:
        """`onTimeout` and an `expired` edge have no effect without `timeoutSeconds`."""
        for data, expected in (
            ({"onTimeout": "deny"}, [("nodes[1].data.onTimeout", "idle"), ("edges[1].sourceHandle", "idle")]),
            ({"onTimeout": "deny", "timeoutSeconds": 5}, []),
        ):
            nodes = [node("s", "start"), node("h", "humanApproval", **data), node("a")]
            assert deploy(nodes, edges("s -> h", "h.expired -> a"), "warning") == expected

    @pytest.mark.parametrize(
        ("tool", "key", "idle"),
        [
            ("core.transform", "retry", True),
            ("core.transform", "timeoutSeconds", True),
            ("core.wait", "retry", True),
            ("core.wait", "timeoutSeconds", False),
            ("core.http", "retry", False),
        ],
    )
    def test_keys_without_effect_on_a_built_in_tool(self, tool: str, key: str, idle: bool) -> None:
        """A retry or a timeout of a tool that takes no time is a warning."""
        data = {"toolId": tool, key: {"maxAttempts": 2} if key == "retry" else 5}
        nodes = [node("s", "start"), node("a", "action", **data)]
        assert deploy(nodes, edges("s -> a"), "warning") == [(f"nodes[1].data.{key}", "idle")] * idle

    def test_concurrency_without_a_loop(self) -> None:
        """`maxConcurrency` has no effect without `forEach`."""
        data = {"toolId": "core.http", "maxConcurrency": 3}
        idle = [("nodes[1].data.maxConcurrency", "idle")]
        for more, expected in (({}, idle), ({"forEach": "input.items"}, [])):
            nodes = [node("s", "start"), node("a", "action", **data, **more)]
            assert deploy(nodes, edges("s -> a"), "warning") == expected

    def test_a_limit_without_a_key(self) -> None:
        """`concurrencyLimit` has no effect without `concurrencyKey`."""
        data = {"toolId": "core.http", "concurrencyLimit": 3}
        idle = [("nodes[1].data.concurrencyLimit", "idle")]
        for more, expected in (({}, idle), ({"concurrencyKey": "crm"}, [])):
            nodes = [node("s", "start"), node("a", "action", **data, **more)]
            assert deploy(nodes, edges("s -> a"), "warning") == expected

    @pytest.mark.parametrize("tool", ["core.transform", "core.fail", "core.wait", "core.workflow"])
    def test_a_key_of_a_built_in_tool(self, tool: str) -> None:
        """It makes no call that could wait: a warning."""
        nodes = [node("s", "start"), node("a", "action", toolId=tool, concurrencyKey="crm")]
        assert deploy(nodes, edges("s -> a"), "warning") == [("nodes[1].data.concurrencyKey", "idle")]


def test_the_search_for_cycles_is_linear() -> None:
    """In a dense graph, each node is visited once and is in at most one cycle."""
    visited: list[str] = []

    class Watched(dict[str, list[str]]):
        def __getitem__(self, key: str) -> list[str]:
            visited.append(key)
            return super().__getitem__(key)

    names = [str(number) for number in range(300)]
    cycles = list(find_cycles(Watched(dict.fromkeys(names, names))))
    assert len(visited) == len(set(visited)) == len(names)
    assert sorted(name for cycle in cycles for name in cycle) == sorted(names)


def test_errors_of_a_create_body_by_itself() -> None:
    """Whatever tools and skills there are; the errors of its shape come first, and warnings are none."""
    graph = sketch("s -> a", "a -> g", a={"toolId": "no.such"}, g={"type": "agent", "agent_id": 99})
    assert body_errors({"workflowStructure": graph}) == []
    broken = sketch("s -> a", a={"toolId": ""})
    assert [issue.path for issue in body_errors({"workflowStructure": broken})] == [
        "workflowStructure.nodes[1].data.toolId"
    ]
    shape = body_errors({"workflowStructure": {"nodes": [{"type": "start"}], "edges": []}})
    assert [issue.path for issue in shape] == ["workflowStructure.nodes[0].id"]
    assert [issue.path for issue in body_errors({"agentSelection": {"mode": 7}})] != []
