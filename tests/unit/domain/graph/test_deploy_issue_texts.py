"""What issues say of a graph that cannot be deployed: word by word, and where they are."""

from typing import Any

import pytest

from wfcore.domain.graph.checks import ListedCatalog
from wfcore.domain.graph.rules import deploy_issues, write_issues
from wfcore.domain.graph.structure import parse_graph, structure_of_body
from wfcore.domain.kernel.errors import Issue

START = {"id": "s", "type": "start"}
CATALOG = ListedCatalog(frozenset({"core.http", "core.transform"}), frozenset({1}))


def agent(name: str, **data: Any) -> dict[str, Any]:
    return {"id": name, "type": "agent", "data": data or {"message": "hi"}}


def edge(number: int, source: str, target: str, handle: str | None = None) -> dict[str, Any]:
    return {"id": str(number), "source": source, "target": target} | ({"sourceHandle": handle} if handle else {})


def ring(size: int) -> dict[str, Any]:
    """A start, and a cycle of agents behind it."""
    names = [f"n{number}" for number in range(size)]
    arrows = [edge(number, name, names[(number + 1) % size]) for number, name in enumerate(names)]
    return {"nodes": [START, *map(agent, names)], "edges": [edge(-1, "s", "n0"), *arrows]}


def deployed(structure: Any) -> list[Issue]:
    assert write_issues(structure) == []
    return deploy_issues(parse_graph(structure), CATALOG, "g")


APPROVAL = {"id": "h", "type": "humanApproval"}
CONDITION = {"id": "c", "type": "condition", "data": {"branches": [{"handle": "a", "when": "true"}]}}


@pytest.mark.parametrize(
    ("nodes", "edges", "expected"),
    [
        ([], [], Issue("g.nodes", "a graph must have a `start` node", "start")),
        (
            [START, {"id": "t", "type": "start"}],
            [],
            Issue("g.nodes[1].type", "node `t`: a graph must have only one `start` node", "start"),
        ),
        (
            [START, agent("a")],
            [edge(1, "s", "a"), edge(2, "a", "s")],
            Issue("g.edges[1].target", "node `s`: an edge cannot lead to a `start` node", "start"),
        ),
        (
            [START, agent("a")],
            [],
            Issue("g.nodes[1]", "node `a`: it cannot be reached from the `start` node", "reachable"),
        ),
        (
            [START, agent("a")],
            [edge(1, "s", "a", "x")],
            Issue("g.edges[0].sourceHandle", "node `s`: unknown handle `x`: use none", "handle"),
        ),
        (
            [START, CONDITION, agent("a")],
            [edge(1, "s", "c"), edge(2, "c", "a")],
            Issue("g.edges[1].sourceHandle", "node `c`: an edge needs a `sourceHandle`: use `a` or `else`", "handle"),
        ),
        (
            [START, agent("a", agent_id=2)],
            [edge(1, "s", "a")],
            Issue("g.nodes[1].data.agent_id", "node `a`: unknown skill `2`", "reference"),
        ),
        (
            [START, agent("a", message="{{ item }}")],
            [edge(1, "s", "a")],
            Issue(
                "g.nodes[1].data.message",
                "node `a`: reads `item`, which is available only in `params` and `concurrencyKey` of an action with "
                "`forEach`",
                "reference",
            ),
        ),
        (
            [START, CONDITION, agent("a")],
            [edge(1, "s", "c"), edge(2, "c", "a", "a")],
            Issue("g.nodes[1]", "node `c`: it has no `else` edge: if no branch holds, the path ends here", "else",
                  "warning"),
        ),
        (
            [START, {"id": "b", "type": "action", "data": {"toolId": "core.http", "maxConcurrency": 2}}],
            [edge(1, "s", "b")],
            Issue("g.nodes[1].data.maxConcurrency", "node `b`: `maxConcurrency` has no effect without `forEach`",
                  "idle", "warning"),
        ),
        (
            [START, {"id": "b", "type": "action", "data": {"toolId": "core.transform", "timeoutSeconds": 2}}],
            [edge(1, "s", "b")],
            Issue("g.nodes[1].data.timeoutSeconds", "node `b`: `timeoutSeconds` has no effect on `core.transform`",
                  "idle", "warning"),
        ),
        (
            [START, APPROVAL, agent("a")],
            [edge(1, "s", "h"), edge(2, "h", "a", "expired")],
            Issue("g.edges[1].sourceHandle", "node `h`: `expired` is never taken without `timeoutSeconds`", "idle",
                  "warning"),
        ),
    ],
)  # fmt: skip
def test_of_what_cannot_be_deployed(nodes: list[Any], edges: list[Any], expected: Issue) -> None:
    """Each names the node that it is about."""
    assert expected in deployed({"nodes": nodes, "edges": edges})


def test_keys_that_have_no_effect_on_a_tool_are_named_for_actions_only() -> None:
    """Another type of node may carry a `toolId` of its own."""
    other = agent("a", message="hi", toolId="core.transform", retry={"maxAttempts": 2})
    assert deployed({"nodes": [START, other], "edges": [edge(1, "s", "a")]}) == []


def test_a_tool_id_of_another_type_is_one_issue() -> None:
    """Rules that look tools up leave it alone."""
    action = {"id": "b", "type": "action", "data": {"toolId": ["core.wait"], "retry": {}}}
    (issue,) = deployed({"nodes": [START, action], "edges": [edge(1, "s", "b")]})
    assert issue == Issue("g.nodes[1].data.toolId", "node `b`: must be a string, not an array", "type")


@pytest.mark.parametrize(
    ("size", "walk"),
    [
        (2, "`n0` -> `n1` -> `n0`"),
        (20, " -> ".join(f"`n{number}`" for number in [*range(20), 0])),
        (21, " -> ".join([*(f"`n{number}`" for number in range(20)), "...", "`n0`"])),
    ],
)
def test_of_a_cycle(size: int, walk: str) -> None:
    """Its nodes in order, the first twenty of them."""
    (issue,) = deployed(ring(size))
    expected = f"a cycle must contain a condition or a humanApproval: {walk}"
    assert issue == Issue("g.nodes[1]", expected, "cycle")


def test_names_in_a_cycle_are_cut() -> None:
    """Up to 40 characters of each are shown."""
    long = "x" * 41
    nodes = [START, agent(long), agent("y" * 40)]
    (issue,) = deployed(
        {"nodes": nodes, "edges": [edge(1, "s", long), edge(2, long, "y" * 40), edge(3, "y" * 40, long)]}
    )
    assert issue.message.endswith(f"`{'x' * 40}...` -> `{'y' * 40}` -> `{'x' * 40}...`")


@pytest.mark.parametrize(("branches", "shown"), [(19, "use `b00`, `b01`, "), (20, "use one of its 21 handles")])
def test_of_a_node_with_many_handles(branches: int, shown: str) -> None:
    """Up to twenty handles are listed, `else` included."""
    many = [{"handle": f"b{number:02}", "when": "true"} for number in range(branches)]
    condition = {"id": "c", "type": "condition", "data": {"branches": many}}
    edges = [edge(1, "s", "c"), edge(2, "c", "a", "x")]
    issues = deployed({"nodes": [START, condition, agent("a")], "edges": edges})
    (issue,) = [one for one in issues if one.rule == "handle"]
    assert issue.message.startswith(f"node `c`: unknown handle `x`: {shown}")


def test_a_workflow_without_a_structure_has_an_empty_one() -> None:
    """Both lists are there."""
    assert structure_of_body({}) == {"nodes": [], "edges": []}
