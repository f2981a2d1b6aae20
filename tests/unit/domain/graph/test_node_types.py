"""The rules of node data, type by type (interface, WorkflowStructure)."""

from typing import Annotated, Any, Literal

import attrs
import jsonschema_rs
import pytest
from hypothesis import given

from wfcore.domain.graph.checks import (
    MAX_ISSUES,
    Check,
    Known,
    ListedCatalog,
    every,
    list_of,
    must,
    node_id,
    one_of,
    record,
    string,
    text,
    then,
    unique,
)
from wfcore.domain.graph.declared import Rule, check_of
from wfcore.domain.graph.node_types import (
    NODE_DATA,
    NODE_TYPES,
    Approvers,
    ModelSettingsDto,
    NodeDeclaration,
    RetryPolicy,
)
from wfcore.domain.graph.rules import deploy_issues
from wfcore.domain.graph.shapes import NodeDto
from wfcore.domain.graph.structure import HANDLES, NodeType, parse_graph
from wfcore.domain.json.codec import canonical, schemas_of
from wfcore.domain.json.values import structure, to_json, wire_name
from wfcore.domain.kernel.errors import Issue
from wfcore.testing.graphs import CATALOG, deployable_graphs

GROUP = "123e4567-e89b-12d3-a456-426614174000"


def branch(**changes: Any) -> dict[str, Any]:
    return {"branches": [{"handle": "a", "when": "true", **changes}]}


DATA: list[tuple[str, dict[str, Any], str, str]] = [
    ("start", {"inputSchema": 1}, "inputSchema", "schema"),
    ("start", {"inputSchema": {"type": "no such type"}}, "inputSchema", "schema"),
    ("action", {}, "toolId", "required"),
    ("action", {"toolId": ""}, "toolId", "minLength"),
    ("action", {"toolId": None}, "toolId", "type"),
    ("action", {"toolId": "no.such"}, "toolId", "reference"),
    ("action", {"params": []}, "params", "type"),
    ("action", {"params": {"a": [{"b": "{{ 1 + }}"}]}}, "params.a[0].b", "expression"),
    ("action", {"params": {"a": "{{ nodes.nobody.output }}"}}, "params.a", "reference"),
    ("action", {"forEach": 1}, "forEach", "type"),
    ("action", {"forEach": ""}, "forEach", "expression"),
    ("action", {"forEach": "nodes.nobody.output"}, "forEach", "reference"),
    ("action", {"forEach": 'nodes["no body"].output'}, "forEach", "reference"),
    ("action", {"toolName": 1}, "toolName", "type"),
    ("action", {"aiDescription": []}, "aiDescription", "type"),
    ("action", {"maxConcurrency": 0}, "maxConcurrency", "range"),
    ("action", {"toolId": "skill:1"}, "toolId", "reference"),
    ("action", {"maxConcurrency": 1.5}, "maxConcurrency", "integer"),
    ("action", {"maxConcurrency": True}, "maxConcurrency", "type"),
    ("action", {"concurrencyKey": 7}, "concurrencyKey", "type"),
    ("action", {"concurrencyKey": ""}, "concurrencyKey", "minLength"),
    ("action", {"concurrencyKey": "{{ 1 + }}"}, "concurrencyKey", "expression"),
    ("action", {"concurrencyKey": "{{ nodes.gone.output }}"}, "concurrencyKey", "reference"),
    ("action", {"concurrencyLimit": 0}, "concurrencyLimit", "range"),
    ("action", {"concurrencyLimit": 1_001}, "concurrencyLimit", "range"),
    ("action", {"requiresApproval": 1}, "requiresApproval", "type"),
    ("action", {"timeoutSeconds": 0}, "timeoutSeconds", "range"),
    ("action", {"timeoutSeconds": float("inf")}, "timeoutSeconds", "range"),
    ("action", {"timeoutSeconds": float("nan")}, "timeoutSeconds", "range"),
    ("action", {"timeoutSeconds": 10**400}, "timeoutSeconds", "range"),
    ("action", {"timeoutSeconds": "5"}, "timeoutSeconds", "type"),
    ("action", {"retry": []}, "retry", "type"),
    ("action", {"retry": {"attempts": 1}}, "retry.attempts", "unknown"),
    ("action", {"retry": {"maxAttempts": 0}}, "retry.maxAttempts", "range"),
    ("action", {"retry": {"maxAttempts": 101}}, "retry.maxAttempts", "range"),
    ("action", {"retry": {"maxAttempts": 1.5}}, "retry.maxAttempts", "integer"),
    ("action", {"retry": {"initialIntervalSeconds": -1}}, "retry.initialIntervalSeconds", "range"),
    ("action", {"retry": {"backoffCoefficient": 0.5}}, "retry.backoffCoefficient", "range"),
    ("action", {"retry": {"maxIntervalSeconds": -0.1}}, "retry.maxIntervalSeconds", "range"),
    ("condition", {}, "branches", "required"),
    ("condition", {"branches": []}, "branches", "minItems"),
    ("condition", {"branches": {}}, "branches", "type"),
    ("condition", {"branches": ["a"]}, "branches[0]", "type"),
    ("condition", {"branches": [{"when": "true"}]}, "branches[0].handle", "required"),
    ("condition", {"branches": [{"handle": "a"}]}, "branches[0].when", "required"),
    ("condition", branch(handle=""), "branches[0].handle", "minLength"),
    ("condition", branch(handle="else"), "branches[0].handle", "reserved"),
    ("condition", branch(when=True), "branches[0].when", "type"),
    ("condition", branch(when="1 +"), "branches[0].when", "expression"),
    ("condition", branch(when="nodes.nobody.output > 1"), "branches[0].when", "reference"),
    ("condition", {"branches": branch()["branches"] * 2}, "branches[1].handle", "unique"),
    ("agent", {}, "message", "required_if"),
    ("agent", {"kept": 10**5_000}, "message", "required_if"),
    ("agent", {"message": "", "instructions": []}, "message", "required_if"),
    ("agent", {"agent_id": 0}, "agent_id", "range"),
    ("agent", {"agent_id": "1"}, "agent_id", "type"),
    ("agent", {"agent_id": True}, "agent_id", "type"),
    ("agent", {"agent_id": 1.5}, "agent_id", "integer"),
    ("agent", {"agent_id": 99}, "agent_id", "reference"),
    ("agent", {"agent_id": 10**400}, "agent_id", "range"),
    ("agent", {"message": {}}, "message", "type"),
    ("agent", {"message": "{{ 1 + }}"}, "message", "expression"),
    ("agent", {"instructions": 1}, "instructions", "type"),
    ("agent", {"instructions": ["a", 1]}, "instructions[1]", "type"),
    ("agent", {"agent_id": 1, "tool_restrictions": "core.http"}, "tool_restrictions", "type"),
    ("agent", {"agent_id": 1, "tool_restrictions": ["no.such"]}, "tool_restrictions[0]", "reference"),
    ("agent", {"agent_id": 1, "tool_restrictions": ["skill:99"]}, "tool_restrictions[0]", "reference"),
    ("agent", {"agent_id": 1, "tool_restrictions": ["skill:01"]}, "tool_restrictions[0]", "reference"),
    ("agent", {"agent_id": 1, "model": 1}, "model", "type"),
    ("agent", {"agent_id": 1, "model": ""}, "model", "minLength"),
    ("agent", {"agent_id": 1, "modelSettings": {"x": 1}}, "modelSettings.x", "unknown"),
    ("agent", {"agent_id": 1, "outputSchema": "x"}, "outputSchema", "schema"),
    ("agent", {"agent_id": 1, "timeoutSeconds": -1}, "timeoutSeconds", "range"),
    ("humanApproval", {"message": 1}, "message", "type"),
    ("humanApproval", {"approvers": []}, "approvers", "type"),
    ("humanApproval", {"approvers": {}}, "approvers", "minItems"),
    ("humanApproval", {"approvers": {"emails": [], "groups": []}}, "approvers", "minItems"),
    ("humanApproval", {"approvers": {"users": ["u"]}}, "approvers.users", "unknown"),
    ("humanApproval", {"approvers": {"emails": ["no e-mail"]}}, "approvers.emails[0]", "email"),
    ("humanApproval", {"approvers": {"groups": ["{x}"]}}, "approvers.groups[0]", "uuid"),
    ("humanApproval", {"requiredApprovals": 0}, "requiredApprovals", "range"),
    (
        "humanApproval",
        {"requiredApprovals": 2, "approvers": {"emails": ["a@x.org", "A@x.org"]}},
        "requiredApprovals",
        "range",
    ),
    ("humanApproval", {"allowSelfApproval": 1}, "allowSelfApproval", "type"),
    ("humanApproval", {"formSchema": []}, "formSchema", "schema"),
    ("humanApproval", {"timeoutSeconds": 10**10}, "timeoutSeconds", "range"),
    ("humanApproval", {"onTimeout": "retry"}, "onTimeout", "enum"),
    ("humanApproval", {"remindAfterSeconds": 0}, "remindAfterSeconds", "range"),
    ("humanApproval", {"remindAfterSeconds": 5, "timeoutSeconds": 5}, "remindAfterSeconds", "range"),
    ("humanApproval", {"escalateAfterSeconds": 5}, "escalateTo", "required_if"),
    ("humanApproval", {"escalateTo": {"emails": ["a@x.org"]}}, "escalateAfterSeconds", "required_if"),
    ("humanApproval", {"escalateAfterSeconds": 5, "escalateTo": {}}, "escalateTo", "minItems"),
    (
        "humanApproval",
        {"escalateAfterSeconds": 6, "escalateTo": {"emails": ["a@x.org"]}, "timeoutSeconds": 5},
        "escalateAfterSeconds",
        "range",
    ),
]


KNOWN_KEYS = {
    (kind, key)
    for kind, keys in {
        "start": "inputSchema",
        "action": "toolId toolName aiDescription params forEach maxConcurrency concurrencyKey concurrencyLimit "
        "requiresApproval retry timeoutSeconds",
        "condition": "branches",
        "agent": "agent_id message instructions tool_restrictions model modelSettings outputSchema retry "
        "timeoutSeconds",
        "humanApproval": "message approvers requiredApprovals allowSelfApproval formSchema timeoutSeconds onTimeout "
        "remindAfterSeconds escalateAfterSeconds escalateTo",
    }.items()
    for key in keys.split()
}


def deploy_data(kind: str, data: dict[str, Any]) -> list[Issue]:
    """The errors of a graph whose one node of this type has this data, with paths below the data."""
    nodes = [{"id": "x", "type": kind, "data": data}]
    arrows = []
    if kind != "start":
        nodes = [*nodes, {"id": "s", "type": "start"}]
        arrows = [{"id": "1", "source": "s", "target": "x"}]
    issues = deploy_issues(parse_graph({"nodes": nodes, "edges": arrows}), CATALOG, "")
    return [
        attrs.evolve(issue, path=issue.path.removeprefix("nodes[0].data."))
        for issue in issues
        if issue.severity == "error"
    ]


def is_json(value: Any) -> bool:
    """Whether a validator of JSON can read the value: not an infinite or a very large number."""
    return not isinstance(value, int | float) or abs(value) < 2**53


class TestData:
    """Node data, type by type."""

    def test_rules_between_keys_are_checked_beside_each_other(self) -> None:
        """Each is checked where none of its keys has another issue."""
        data = {
            "approvers": {"emails": ["a@x.org"]},
            "requiredApprovals": 3,
            "escalateAfterSeconds": 9,
            "remindAfterSeconds": 9,
            "timeoutSeconds": 5,
        }
        paths = ["requiredApprovals", "escalateTo", "remindAfterSeconds", "escalateAfterSeconds"]
        assert [issue.path for issue in deploy_data("humanApproval", data)] == paths
        faulty = {**data, "message": 5, "timeoutSeconds": "5", "approvers": {"emails": [1]}}
        found = [issue.path for issue in deploy_data("humanApproval", faulty)]
        assert sorted(found) == ["approvers.emails[0]", "escalateTo", "message", "timeoutSeconds"]
        assert [issue.path for issue in deploy_data("agent", {"model": 1})] == ["model", "message"]
        assert [issue.path for issue in deploy_data("agent", {"message": 1})] == ["message"]

    @pytest.mark.parametrize(("kind", "data", "below", "rule"), DATA)
    def test_each_fault_has_its_rule_and_path(self, kind: str, data: dict[str, Any], below: str, rule: str) -> None:
        """A known key with a wrong value is one issue at its path; the issues of a schema may be below it."""
        if kind == "action" and below != "toolId":
            data = {"toolId": "core.http", **data}
        [issue] = deploy_data(kind, data)
        assert issue.rule == rule
        assert issue.path == below or (rule == "schema" and issue.path.startswith(below))

    @pytest.mark.parametrize(
        ("kind", "data"),
        [
            ("action", {"toolId": "core.http", "timeoutSeconds": 0.5, "retry": {"maxAttempts": 3.0}}),
            ("action", {"toolId": "core.http", "params": {"a": ["{{ nodes.s.output }}", 1, None]}}),
            ("action", {"toolId": "core.http", "forEach": "input.items", "params": {"a": "{{ item }}"}}),
            ("condition", {"branches": [{"handle": "a", "when": "true", "label": "mine"}]}),
            ("agent", {"agent_id": 1}),
            ("agent", {"agent_id": 2.0}),
            ("agent", {"agent_id": 1, "tool_restrictions": ["core.http", "skill:2"]}),
            ("agent", {"instructions": "be kind"}),
            ("humanApproval", {"requiredApprovals": 9}),
            (
                "humanApproval",
                {"requiredApprovals": 9, "approvers": {"groups": [GROUP], "emails": ["a@x.org"]}},
            ),
            ("humanApproval", {"requiredApprovals": 2, "approvers": {"emails": ["a@x.org", "b@x.org"]}}),
            ("agent", {"agent_id": 1, "role": "editor", "colour": None, "nested": {"any": [1]}}),
        ],
    )
    def test_good_data(self, kind: str, data: dict[str, Any]) -> None:
        """Valid data has no issues, with unknown keys too."""
        assert deploy_data(kind, data) == []

    def test_all_faults_of_one_node_are_reported(self) -> None:
        """Wrong types, unresolved names and unknown keys of one node are reported together."""
        data = {"toolId": "no.such", "timeoutSeconds": -1, "retry": {"x": 1, "maxAttempts": "1"}}
        assert {issue.path for issue in deploy_data("action", data)} == {
            "toolId",
            "timeoutSeconds",
            "retry.x",
            "retry.maxAttempts",
        }

    def test_the_table_has_every_type(self) -> None:
        """Every node type has a check."""
        assert set(NODE_DATA) == set(NodeType)

    def test_every_known_key_has_a_case(self) -> None:
        """The cases above have a fault for each known key of each type."""
        touched = {(kind, below.split(".")[0].split("[")[0]) for kind, _, below, _ in DATA}
        retried = {("agent", "retry")}  # the same check as for an action
        assert touched | retried >= KNOWN_KEYS


class TestSchemas:
    """The JSON Schema of each type's data says what the types and bounds of the check say."""

    @pytest.mark.parametrize(("kind", "data", "below", "rule"), DATA)
    def test_it_refuses_the_faults_of_types_and_bounds(
        self, kind: str, data: dict[str, Any], below: str, rule: str
    ) -> None:
        """What it accepts although the check does not is a rule between keys, a reference or a syntax."""
        if kind == "action" and below != "toolId":
            data = {"toolId": "core.http", **data}
        if not all(map(is_json, data.values())):
            return
        valid = jsonschema_rs.validator_for(NODE_TYPES[NodeType(kind)].schema()).is_valid(data)
        beyond = {"reference", "expression", "required_if", "unique", "reserved", "email", "uuid"}
        between = {"approvers", "escalateTo", "requiredApprovals", "inputSchema", "outputSchema", "formSchema"}
        if rule in beyond or below in between or (below.endswith("AfterSeconds") and data.get("timeoutSeconds")):
            return
        assert not valid

    def test_a_declaration_names_every_known_key(self) -> None:
        """The keys of the schemas are those of the interface."""
        declared = {(str(kind), key) for kind, one in NODE_TYPES.items() for key in one.schema()["properties"]}
        assert declared == KNOWN_KEYS

    @pytest.mark.parametrize("declared", NODE_TYPES.values(), ids=list(NODE_TYPES))
    def test_what_a_builder_reads(self, declared: NodeDeclaration) -> None:
        """Type, texts, schema, and the handles, of which null is the unnamed one."""
        shown = declared.to_wire()
        assert shown["type"] == declared.kind
        assert shown["dataSchema"] == declared.schema()
        assert shown["handles"] == [
            {"handle": handle, "description": declared.handles[handle]} for handle in declared.handles
        ]
        assert HANDLES[declared.kind] == declared.handles.keys()

    def test_nodes_have_the_declared_types(self) -> None:
        """The shape of a node lists the types that are declared."""
        types = schemas_of([NodeDto])["Node"]["properties"]["type"]["enum"]
        assert sorted(types) == sorted(NODE_TYPES)


class TestDerivedChecks:
    """The check of an annotation."""

    def test_a_type_that_a_graph_does_not_use(self) -> None:
        """It is an error of the declaration."""
        with pytest.raises(TypeError, match="no check for the annotation"):
            check_of(bytes)

    @pytest.mark.parametrize(("value", "rules"), [("a", []), (["a"], []), ([1], ["type"]), (None, ["type"])])
    def test_alternatives(self, value: Any, rules: list[str]) -> None:
        """The alternative of the value's type checks it; the message names all."""
        found = check_of(str | list[str])(value, Known())
        assert [issue.rule for issue in found] == rules
        if value is None:
            assert found[0].message == "must be a string or an array of strings, not null"

    @pytest.mark.parametrize(("how", "rules"), [("then", ["type"]), ("every", ["type", "own"]), ("instead", ["own"])])
    def test_rules(self, how: Literal["then", "every", "instead"], rules: list[str]) -> None:
        """A rule comes after the type, beside it, or instead of it."""
        own = Rule(must(lambda value, known: False, "own", "is wrong"), how)
        assert [issue.rule for issue in check_of(Annotated[str, own])(1, Known())] == rules


class TestChecks:
    """The small checks, of which the table is made."""

    @pytest.mark.parametrize(
        ("check", "value", "rules"),
        [
            (text(most=2), "abc", ["maxLength"]),
            (text(most=2), "ab", []),
            (record({"a": string}), {"a": 1, "b": 2}, ["type", "unknown"]),
            (record({"a": string}), [], ["type"]),
            (list_of(string, most=1), ["a", "b"], ["maxItems"]),
            (list_of(string), [1] * (2 * MAX_ISSUES), ["type"] * (MAX_ISSUES + 1)),
            (list_of(string), ["a", 1], ["type"]),
            (record({}), dict.fromkeys(map(str, range(2 * MAX_ISSUES))), ["unknown"] * (MAX_ISSUES + 1)),
            (unique("id"), "no array", []),
            (unique("id"), ["x", {}, {"id": None}, {"id": 1}, {"id": 1.0}], ["unique"]),
            (node_id, 1, ["type"]),
            (node_id, "a", []),
            (node_id, "b", ["reference"]),
            (every(string, text()), "", ["minLength"]),
            (then(string, text()), 1, ["type"]),
            (must(lambda value, known: value, "rule", "message", "below"), 0, ["rule"]),
        ],
    )
    def test_each_check(self, check: Check, value: Any, rules: list[str]) -> None:
        """A check returns one issue for each fault, up to a bound."""
        assert [issue.rule for issue in check(value, Known(frozenset("a")))] == rules

    def test_the_catalog(self) -> None:
        """A listed catalog has exactly its ids."""
        catalog = ListedCatalog(frozenset({"t"}), frozenset({1}))
        assert (catalog.tool("t"), catalog.tool("x"), catalog.skill(1), catalog.skill(2)) == (True, False, True, False)

    def test_values_in_messages(self) -> None:
        """A long value is shortened, a repeated text is shown."""
        [issue] = unique("id")([{"id": "x" * 200}] * 2, Known())
        assert issue.message == f"`{'x' * 100}...` is already used"
        [issue] = one_of(["a", "b"])("c", Known())
        assert issue.message == "`c` is not one of `a`, `b`"


def nulls_of(cls: type) -> dict[str, None]:
    """Null for every optional key."""
    return {wire_name(field): None for field in attrs.fields(cls) if field.default is not attrs.NOTHING}


NULLABLE: list[tuple[str, dict[str, Any]]] = [
    ("start", {}),
    ("action", {"toolId": "core.http", "params": {"method": None}, "note": None}),
    ("action", {"toolId": "core.http", "retry": {"maxAttempts": 3}}),
    ("condition", branch(note=None)),
    ("agent", {"message": "hello"}),
    ("agent", {"agent_id": 1, "modelSettings": {"contextWindow": 9}, "retry": {}}),
    ("humanApproval", {}),
    ("humanApproval", {"approvers": {"emails": ["a@x.org"]}, "timeoutSeconds": 9, "escalateAfterSeconds": 1,
                       "escalateTo": {"groups": [GROUP]}}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "data"), NULLABLE)
def test_null_for_an_optional_key_is_absent(kind: str, data: dict[str, Any]) -> None:
    """In the data of every type and its parts. Keys that are not known, and arguments of tools, keep theirs."""
    parts = {"retry": RetryPolicy, "modelSettings": ModelSettingsDto, "approvers": Approvers, "escalateTo": Approvers}
    filled = {key: {**nulls_of(parts[key]), **item} if key in parts else item for key, item in data.items()}
    filled = {**nulls_of(NODE_TYPES[NodeType(kind)].data), **filled}
    assert deploy_data(kind, filled) == deploy_data(kind, data) == []
    (node,) = parse_graph({"nodes": [{"id": "n", "type": kind, "data": filled}]}).nodes
    assert node.data == data


@given(deployable_graphs())
def test_a_schema_accepts_what_a_deploy_accepts(structure: dict[str, Any]) -> None:
    """Every node of a graph that can be deployed."""
    for node in structure["nodes"]:
        schema = NODE_TYPES[NodeType(node["type"])].schema()
        assert jsonschema_rs.validator_for(schema).is_valid(node.get("data", {}))


@given(deployable_graphs())
def test_a_value_has_what_was_checked(built: dict[str, Any]) -> None:
    """The typed value of a node's data is the data without its unknown keys."""
    for node in built["nodes"]:
        cls, data = NODE_TYPES[NodeType(node["type"])].data, node.get("data", {})
        known = to_json(structure(cls, data))
        assert canonical(known) == canonical({key: item for key, item in data.items() if key in known})
        assert {key for kind, key in KNOWN_KEYS if kind == node["type"]} & data.keys() == known.keys()
