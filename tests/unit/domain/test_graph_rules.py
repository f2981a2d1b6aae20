"""The rules for storing and for deploying a graph (interface, WorkflowStructure)."""

from typing import Any

import pytest

from wfcore.domain.graph.node_data import MAX_ISSUES, Known, record
from wfcore.domain.graph.rules import GraphLimits, deploy_issues, find_cycles, write_issues
from wfcore.domain.graph.structure import parse_graph
from wfcore.domain.kernel.errors import Invalid, Issue, Malformed, refuse
from wfcore.testing.graphs import CATALOG


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
    """What may be stored."""

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
        """One fault gives one issue, where it stands."""
        assert found(write_issues(structure, "")) == [(path, rule)]

    @pytest.mark.parametrize("bad", [None, "1", True, float("nan"), float("inf"), [1], "missing"])
    def test_a_position_has_two_finite_numbers(self, bad: Any) -> None:
        """A coordinate that is missing, no number or not finite is invalid, not malformed."""
        position = {"x": 1} if bad == "missing" else {"x": 1, "y": bad}
        issues = write_issues({"nodes": [{"id": "a", "type": "start", "position": position}]}, "")
        assert found(issues) == [("nodes[0].position.y", "position")]
        with pytest.raises(Invalid):
            refuse(issues)

    def test_a_position_is_an_object_of_x_and_y_alone(self) -> None:
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
        """An edge has its keys, ends that exist, and a handle that is a string if any."""
        structure = {"nodes": [node("a"), node("b")], "edges": [edge]}
        assert found(write_issues(structure, "")) == [(f"edges[0]{below}", rule)]

    def test_ids_are_unique_among_nodes_and_among_edges(self) -> None:
        """The second use is the fault; a node and an edge may share an id."""
        structure = {"nodes": [node("a"), node("b"), node("a")], "edges": edges("a -> b")}
        structure["edges"] = [{**edges("a -> b")[0], "id": "a"}] * 2
        assert found(write_issues(structure, "")) == [("nodes[2].id", "unique"), ("edges[1].id", "unique")]

    def test_all_faults_are_told_at_once_with_wire_paths(self) -> None:
        """Faults of form and of business come together; form makes the request malformed."""
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

    def test_extra_keys_of_the_structure_are_carried(self) -> None:
        """Keys beside `nodes` and `edges` are free; both lists may be left out."""
        assert write_issues({"viewport": {"zoom": 1}}) == []

    def test_limits(self) -> None:
        """A list at its limit passes; one over it is one issue and is not looked into."""
        limits = GraphLimits(nodes=2, edges=1)
        structure = {"nodes": [node("a"), node("b")], "edges": edges("a -> b")}
        assert write_issues(structure, limits=limits) == []
        structure = {"nodes": [node("a"), node("b"), None], "edges": edges("a -> b", "b -> x")}
        assert found(write_issues(structure, "", limits)) == [("nodes", "maxItems"), ("edges", "maxItems")]

    def test_default_limits(self) -> None:
        """By default 5,000 nodes and 20,000 edges."""
        assert GraphLimits() == GraphLimits(5_000, 20_000)

    def test_issues_are_capped_and_the_last_says_so(self) -> None:
        """At most `MAX_ISSUES`, the last tells that there are more; exactly as many are all shown."""
        issues = write_issues({"nodes": [{}] * 2_000})
        assert len(issues) == MAX_ISSUES
        assert issues[-1] == Issue("workflowStructure", "there are more issues than the 999 shown", "truncated")
        assert [issue.rule for issue in write_issues({"nodes": [{}] * 500})] == ["required"] * 1_000

    def test_the_issues_of_one_object_are_bounded(self) -> None:
        """An object with very many unknown keys does not even make very many issues."""
        crowd = {str(key): 0 for key in range(10 * MAX_ISSUES)}
        assert len(record({})(crowd, Known())) <= MAX_ISSUES + 1
        assert len(write_issues({"nodes": [crowd] * 3})) == MAX_ISSUES

    def test_long_values_are_clipped_in_messages(self) -> None:
        """A message never repeats a huge value whole."""
        [issue] = write_issues({"nodes": [{"id": "a", "type": "x" * 10_000}]})
        assert len(issue.message) < 300


class TestDeploying:
    """What can run."""

    def test_a_start_alone_deploys(self) -> None:
        """The smallest graph is one start."""
        assert deploy([node("s", "start")], []) == []

    def test_an_empty_graph_does_not(self) -> None:
        """Without a start nothing can run, and that is all that is said."""
        assert deploy([], []) == [("nodes", "start")]
        assert deploy([node("a"), node("b")], edges("a -> b")) == [("nodes", "start")]

    def test_there_is_one_start(self) -> None:
        """Each further start is a fault."""
        starts = [node(name, "start") for name in "abc"]
        assert deploy(starts, []) == [("nodes[1].type", "start"), ("nodes[2].type", "start")]

    def test_nothing_leads_to_the_start(self) -> None:
        """An edge to the start is a fault even where its cycle could be left."""
        nodes = [node("s", "start"), node("h", "humanApproval")]
        assert deploy(nodes, edges("s -> h", "h.denied -> s")) == [("edges[1].target", "start")]

    def test_every_node_is_reachable(self) -> None:
        """Each node that the start does not lead to is named, whatever leads away from it."""
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
        """An edge leaves by an exit that its source has; several exits have no unnamed one."""
        data = {
            "action": {"toolId": "core.http"},
            "condition": {"branches": [{"handle": "big", "when": "true"}]},
        }
        nodes = [node("s", "start"), node("x", kind, **data.get(kind, {})), node("y")]
        arrows = edges("s -> x", f"x.{handle} -> y")
        assert deploy(nodes, arrows) == ([] if legal else [("edges[1].sourceHandle", "handle")])

    def test_a_missing_exit_is_told_with_those_there_are(self) -> None:
        """The message says what was asked for and what there is, of very many exits the number."""
        for count, end in ((1, "only `else`, `x0`"), (50, "but 51 others")):
            branches = [{"handle": f"x{number}", "when": "true"} for number in range(count)]
            structure = {
                "nodes": [node("s", "start"), node("c", "condition", branches=branches), node("a")],
                "edges": edges("s -> c", "c.y -> a"),
            }
            [message] = [
                issue.message for issue in deploy_issues(parse_graph(structure), CATALOG) if issue.rule == "handle"
            ]
            assert message == f"node `c`: it has no exit for `y`, {end}"

    def test_a_start_has_no_named_handle(self) -> None:
        """The start's only exit is the unnamed one; the empty name is no way to say it."""
        nodes = [node("s", "start"), node("a")]
        arrows = [{**edges("s -> a")[0], "sourceHandle": ""}]
        assert deploy(nodes, arrows) == [("edges[0].sourceHandle", "handle")]

    def test_a_cycle_without_exit_is_named(self) -> None:
        """The issue names the nodes of one cycle in order; an error edge does not let a cycle end."""
        nodes = [node("s", "start"), node("a"), node("b"), node("c")]
        arrows = edges("s -> a", "a -> b", "b -> c", "c.error -> a")
        structure = {"nodes": nodes, "edges": arrows}
        [issue] = deploy_issues(parse_graph(structure), CATALOG, "")
        assert (issue.path, issue.rule) == ("nodes[1]", "cycle")
        assert "`a` -> `b` -> `c` -> `a`" in issue.message

    def test_every_knot_of_cycles_has_its_issue(self) -> None:
        """Two cycles apart are two issues; a self-loop is a cycle."""
        nodes = [node("s", "start"), node("a"), node("b")]
        arrows = edges("s -> a", "a -> a", "a -> b", "b -> b")
        assert sorted(deploy(nodes, arrows)) == [("nodes[1]", "cycle"), ("nodes[2]", "cycle")]

    @pytest.mark.parametrize("kind", ["condition", "humanApproval"])
    def test_a_cycle_through_an_exit_is_legal(self, kind: str) -> None:
        """A condition or a humanApproval on the way makes a cycle legal."""
        data = {"branches": [{"handle": "denied", "when": "true"}]} if kind == "condition" else {}
        nodes = [node("s", "start"), node("a"), node("x", kind, **data)]
        assert deploy(nodes, edges("s -> a", "a -> x", "x.denied -> a")) == []

    def test_a_very_long_cycle_is_found_and_clipped(self) -> None:
        """No recursion: 5,000 nodes in one ring; the message shows the first of them."""
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
        """Of overlapping cycles one is told; the order follows the graph, not a hash."""
        assert list(find_cycles({"a": "bc", "b": "a", "c": "a"})) == [["a", "b"]]
        assert list(find_cycles({"a": "b", "b": "c", "c": "bd", "d": "de", "e": ""})) == [["b", "c"], ["d"]]

    def test_messages_name_the_node(self) -> None:
        """Every issue of a deploy that is about a node says which."""
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

    def test_issues_are_capped(self) -> None:
        """Very many faults give `MAX_ISSUES`; when only warnings are cut, the last is a warning."""
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
    """What runs, but perhaps not as meant."""

    def test_a_condition_without_else(self) -> None:
        """When no branch holds, the path ends: the builder is told."""
        nodes = [
            node("s", "start"),
            node("c", "condition", branches=[{"handle": "x", "when": "true"}]),
            node("a"),
        ]
        assert deploy(nodes, edges("s -> c", "c.x -> a"), "warning") == [("nodes[1]", "else")]
        assert deploy(nodes, edges("s -> c", "c.else -> a"), "warning") == []

    def test_a_deadline_that_is_never_set(self) -> None:
        """`onTimeout` and an `expired` edge do nothing without `timeoutSeconds`."""
        for data, expected in (
            ({"onTimeout": "deny"}, [("nodes[1].data.onTimeout", "idle"), ("edges[1].sourceHandle", "idle")]),
            ({"onTimeout": "deny", "timeoutSeconds": 5}, []),
        ):
            nodes = [node("s", "start"), node("h", "humanApproval", **data), node("a")]
            assert deploy(nodes, edges("s -> h", "h.expired -> a"), "warning") == expected

    def test_concurrency_of_nothing(self) -> None:
        """`maxConcurrency` does nothing without `forEach`."""
        data = {"toolId": "core.http", "maxConcurrency": 3}
        idle = [("nodes[1].data.maxConcurrency", "idle")]
        for more, expected in (({}, idle), ({"forEach": "input.items"}, [])):
            nodes = [node("s", "start"), node("a", "action", **data, **more)]
            assert deploy(nodes, edges("s -> a"), "warning") == expected


def test_the_search_for_cycles_is_linear() -> None:
    """However dense the knot, each node is taken up once, and is in one cycle at most."""
    taken_up: list[str] = []

    class Watched(dict[str, list[str]]):
        def __getitem__(self, key: str) -> list[str]:
            taken_up.append(key)
            return super().__getitem__(key)

    names = [str(number) for number in range(300)]
    cycles = list(find_cycles(Watched(dict.fromkeys(names, names))))
    assert len(taken_up) == len(set(taken_up)) == len(names)
    assert sorted(name for cycle in cycles for name in cycle) == sorted(names)
