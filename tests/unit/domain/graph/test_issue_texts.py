"""What issues say of a graph that cannot be stored, and of the data of a node: word by word, and where they are."""

from typing import Any

import pytest

from wfcore.domain.graph.checks import Known, ListedCatalog, clip
from wfcore.domain.graph.node_types import NODE_DATA, NodeType
from wfcore.domain.graph.rules import GraphLimits, write_issues
from wfcore.domain.kernel.errors import Issue

START = {"id": "s", "type": "start"}
CATALOG = ListedCatalog(frozenset({"core.http", "core.transform"}), frozenset({1}))
KNOWN = Known(frozenset({"s"}), CATALOG)
UUID = "7c9e6679-7425-40de-944b-e07fc1f90ae7"


@pytest.mark.parametrize(
    ("structure", "path", "message", "rule"),
    [
        (None, "", "must be an object, not null", "type"),
        (1, "", "must be an object, not a number", "type"),
        (1.5, "", "must be an object, not a number", "type"),
        (True, "", "must be an object, not a boolean", "type"),
        ({"nodes": "x"}, ".nodes", "must be an array, not a string", "type"),
        ({"nodes": {}}, ".nodes", "must be an array, not an object", "type"),
        ({"nodes": [[]]}, ".nodes[0]", "must be an object, not an array", "type"),
        ({"nodes": [{"type": "start"}]}, ".nodes[0].id", "is required", "required"),
        ({"nodes": [{"id": None, "type": "start"}]}, ".nodes[0].id", "must be a string, not null", "type"),
        ({"nodes": [{"id": 7, "type": "start"}]}, ".nodes[0].id", "must be a string, not a number", "type"),
        ({"nodes": [{"id": "", "type": "start"}]}, ".nodes[0].id", "must not be empty", "minLength"),
        (
            {"nodes": [{"id": "x" * 256, "type": "start"}]},
            ".nodes[0].id",
            "must have at most 255 characters",
            "maxLength",
        ),
        ({"nodes": [{"id": "a", "type": 1}]}, ".nodes[0].type", "must be a string, not a number", "type"),
        (
            {"nodes": [{"id": "a", "type": "end"}]},
            ".nodes[0].type",
            "`end` is not one of `start`, `action`, `condition`, `agent`, `humanApproval`",
            "enum",
        ),
        (
            {"nodes": [{**START, "label": 1}]},
            ".nodes[0].label",
            "`label` is an unknown key: use `id`, `type`, `position`, `data`",
            "unknown",
        ),
        (
            {"nodes": [{**START, "position": {"x": 1, "y": "1"}}]},
            ".nodes[0].position.y",
            "must be a finite number",
            "position",
        ),
        (
            {"nodes": [{**START, "position": {"y": 1}}]},
            ".nodes[0].position.x",
            "must be a finite number",
            "position",
        ),
        (
            {"nodes": [{**START, "position": {"x": 1, "y": 1, "z": 1}}]},
            ".nodes[0].position.z",
            "`z` is an unknown key: use `x`, `y`",
            "unknown",
        ),
        ({"nodes": [{**START, "data": 1}]}, ".nodes[0].data", "must be an object, not a number", "type"),
        ({"nodes": [START, {"id": "s", "type": "agent"}]}, ".nodes[1].id", "`s` is already used", "unique"),
        ({"nodes": [START] * 3}, ".nodes", "must have at most 2, not 3", "maxItems"),
        (
            {"nodes": [START], "edges": [{"id": "1", "source": "s", "target": 1}]},
            ".edges[0].target",
            "must be a string, not a number",
            "type",
        ),
        (
            {"nodes": [START], "edges": [{"id": "1", "source": "s", "target": "t"}]},
            ".edges[0].target",
            "unknown node `t`",
            "reference",
        ),
        (
            {"nodes": [START], "edges": [{"id": "1", "source": "s", "target": "s", "sourceHandle": None}]},
            ".edges[0].sourceHandle",
            "must be a string, not null",
            "type",
        ),
    ],
)
def test_of_what_cannot_be_stored(structure: Any, path: str, message: str, rule: str) -> None:
    """Below the path of the structure. Keys beside `nodes` and `edges` are kept."""
    found = write_issues(structure, limits=GraphLimits(nodes=2))
    expected = Issue(f"workflowStructure{path}", message, rule)
    assert expected in found
    assert [issue for issue in found if issue.rule != "unique"] == [expected] or rule == "unique"
    if isinstance(structure, dict):
        assert write_issues({**structure, "viewport": {}}, limits=GraphLimits(nodes=2)) == found


def test_a_graph_may_be_as_large_as_its_limits() -> None:
    """Of nodes and of edges; one more of either is too many."""
    structure = {"nodes": [START, {"id": "a", "type": "agent"}], "edges": [{"id": "1", "source": "s", "target": "a"}]}
    assert write_issues(structure, limits=GraphLimits(nodes=2, edges=1)) == []
    (nodes,) = write_issues(structure, limits=GraphLimits(nodes=1, edges=1))
    (edges,) = write_issues(structure, limits=GraphLimits(nodes=2, edges=0))
    assert (nodes.path, edges.path) == ("workflowStructure.nodes", "workflowStructure.edges")


def data_issues(kind: str, data: Any) -> list[tuple[str, str, str]]:
    return [(one.path, one.message, one.rule) for one in NODE_DATA[NodeType(kind)](data, KNOWN)]


@pytest.mark.parametrize(
    ("kind", "data", "path", "message", "rule"),
    [
        ("action", {}, "toolId", "is required", "required"),
        ("action", {"toolId": "x"}, "toolId", "unknown tool `x`", "reference"),
        ("action", {"toolId": "core.http", "params": 1}, "params", "must be an object, not a number", "type"),
        ("action", {"toolId": "core.http", "forEach": 1}, "forEach", "must be a string, not a number", "type"),
        (
            "action",
            {"toolId": "core.http", "forEach": "nodes.t.output"},
            "forEach",
            "reads the unknown node `t`",
            "reference",
        ),
        (
            "action",
            {"toolId": "core.http", "params": {"a": ["{{ nodes.t.output }}"]}},
            "params.a[0]",
            "reads the unknown node `t`",
            "reference",
        ),
        (
            "action",
            {"toolId": "core.http", "requiresApproval": 1},
            "requiresApproval",
            "must be a boolean, not a number",
            "type",
        ),
        (
            "action",
            {"toolId": "core.http", "maxConcurrency": 0},
            "maxConcurrency",
            "must be at least 1 and at most 9007199254740991",
            "range",
        ),
        (
            "action",
            {"toolId": "core.http", "maxConcurrency": 1.5},
            "maxConcurrency",
            "must be an integer",
            "integer",
        ),
        (
            "action",
            {"toolId": "core.http", "timeoutSeconds": 0},
            "timeoutSeconds",
            "must be more than 0 and at most 3153600000",
            "range",
        ),
        (
            "action",
            {"toolId": "core.http", "retry": {"maxAttempts": "3"}},
            "retry.maxAttempts",
            "must be a number, not a string",
            "type",
        ),
        (
            "action",
            {"toolId": "core.http", "retry": {"attempts": 3}},
            "retry.attempts",
            (
                "`attempts` is an unknown key: use `maxAttempts`, `initialIntervalSeconds`, `backoffCoefficient`, "
                "`maxIntervalSeconds`"
            ),
            "unknown",
        ),
        ("condition", {"branches": []}, "branches", "must have at least 1", "minItems"),
        (
            "condition",
            {"branches": [{"handle": "else", "when": "true"}]},
            "branches[0].handle",
            "`else` is reserved for the case that no branch holds",
            "reserved",
        ),
        (
            "condition",
            {"branches": [{"handle": "a", "when": "true"}, {"handle": "a", "when": "true"}]},
            "branches[1].handle",
            "`a` is already used",
            "unique",
        ),
        (
            "agent",
            {},
            "message",
            "without `agent_id`, a `message` or `instructions` is required",
            "required_if",
        ),
        ("agent", {"agent_id": 2}, "agent_id", "unknown skill `2`", "reference"),
        (
            "agent",
            {"instructions": 1},
            "instructions",
            "must be a string or an array of strings, not a number",
            "type",
        ),
        ("agent", {"instructions": ["a", 1]}, "instructions[1]", "must be a string, not a number", "type"),
        (
            "humanApproval",
            {"approvers": {}},
            "approvers",
            "must name an e-mail or a group; without `approvers` everyone who can use the workflow may decide",
            "minItems",
        ),
        (
            "humanApproval",
            {"approvers": {"emails": ["x"]}},
            "approvers.emails[0]",
            "`x` is not a valid e-mail address",
            "email",
        ),
        (
            "humanApproval",
            {"approvers": {"groups": ["x"]}},
            "approvers.groups[0]",
            "`x` is not a UUID in lower case",
            "uuid",
        ),
        (
            "humanApproval",
            {"approvers": {"emails": ["a@x.org", "A@x.org"]}, "requiredApprovals": 2},
            "requiredApprovals",
            "must be at most 1, the number of approvers",
            "range",
        ),
        (
            "humanApproval",
            {"onTimeout": "wait"},
            "onTimeout",
            "`wait` is not one of `approve`, `deny`, `error`",
            "enum",
        ),
        (
            "humanApproval",
            {"escalateAfterSeconds": 5},
            "escalateTo",
            "is required with `escalateAfterSeconds`",
            "required_if",
        ),
        (
            "humanApproval",
            {"remindAfterSeconds": 60, "timeoutSeconds": 60.0},
            "remindAfterSeconds",
            "must be less than `timeoutSeconds` (60)",
            "range",
        ),
    ],
)
def test_of_the_data_of_a_node(kind: str, data: Any, path: str, message: str, rule: str) -> None:
    """Below the path of the data."""
    assert data_issues(kind, data) == [(path, message, rule)]


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("action", {"toolId": "core.http", "retry": {"maxAttempts": 100}}),
        ("humanApproval", {"approvers": {"emails": ["a@x.org"]}}),
        ("humanApproval", {"approvers": {"emails": ["a@x.org"], "groups": [UUID]}, "requiredApprovals": 9}),
        ("start", {"inputSchema": {"type": "object"}}),
    ],
)
def test_of_data_without_issues(kind: str, data: Any) -> None:
    """One approval is required if nothing else is said; members of a group are not counted."""
    assert data_issues(kind, data) == []


def test_of_expressions_and_schemas() -> None:
    """The words of the parser, at the place of the value that it refuses."""
    ((path, message, rule),) = data_issues("condition", {"branches": [{"handle": "a", "when": "1 +"}]})
    assert (path, rule) == ("branches[0].when", "expression")
    assert isinstance(message, str)
    assert message not in ("", "None")
    ((path, message, rule),) = data_issues("action", {"toolId": "core.http", "params": {"a": {"b": "{{ 1 + }}"}}})
    assert (path, rule) == ("params.a.b", "expression")
    assert isinstance(message, str)
    assert message not in ("", "None")
    assert {path for path, _, _ in data_issues("start", {"inputSchema": {"type": "nothing"}})} <= {
        "inputSchema",
        "inputSchema.type",
    }
    assert data_issues("start", {"inputSchema": {"type": "nothing"}})


@pytest.mark.parametrize(("length", "shown"), [(100, "x" * 100), (101, "x" * 100 + "...")])
def test_a_long_value_is_cut(length: int, shown: str) -> None:
    """Up to 100 characters of it are shown."""
    assert clip("x" * length) == shown
