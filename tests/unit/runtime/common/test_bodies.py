"""Bodies of use cases: one value, whichever way the caller gave it."""

from datetime import UTC, datetime
from enum import Enum
from types import MappingProxyType
from typing import Any
from uuid import uuid4

import attrs
import pytest

from wfcore.api.resources import CreateSkill, CreateWorkflow, PatchWorkflow, ToolSetting
from wfcore.api.runs import CreateRun
from wfcore.domain.json.codec import value_issues
from wfcore.domain.json.parsing import MAX_ISSUES
from wfcore.domain.json.values import UNSET
from wfcore.domain.kernel.errors import Invalid, Issue, Malformed
from wfcore.flows import Flow
from wfcore.runtime.common.bodies import parsed, tree_of

WIRE = {"name": "Refunds", "type": "workflow", "workflowStructure": {"nodes": []}}
NAMES = {"structure": "workflowStructure"}


def test_three_ways_to_give_a_body() -> None:
    """An object in wire names, keyword arguments in snake case, and a value are the same body."""
    fields = {"name": "Refunds", "type": "workflow", "structure": {"nodes": []}}
    value = CreateWorkflow(name="Refunds", type="workflow", workflow_structure={"nodes": []})
    assert parsed(CreateWorkflow, WIRE, {}) == value
    assert parsed(CreateWorkflow, None, fields, names=NAMES) == value
    assert parsed(CreateWorkflow, value, {}) == value


def test_a_body_and_keyword_arguments_are_a_type_error() -> None:
    """A caller gives one or the other."""
    with pytest.raises(TypeError):
        tree_of(CreateWorkflow, WIRE, {"name": "x"})


def test_values_within_keyword_arguments() -> None:
    """A field may be given as a value, in lists and objects too."""
    skill = parsed(CreateSkill, None, {"name": "a", "toolset": {"t": ToolSetting(enabled=True)}})
    assert skill.toolset == {"t": ToolSetting(enabled=True)}


def test_a_graph_without_nulls_is_not_copied() -> None:
    """A large graph is stored as it came, without a copy of each node, unless it has nulls that mean absence."""
    edge = {"id": "1", "source": "a", "target": "b"}
    graph: dict[str, Any] = {"nodes": [], "edges": [edge]}
    assert parsed(CreateWorkflow, {**WIRE, "workflowStructure": graph}, {}).workflow_structure is graph
    with_null = {**graph, "edges": [{**edge, "sourceHandle": None}]}
    assert parsed(CreateWorkflow, {**WIRE, "workflowStructure": with_null}, {}).workflow_structure == graph


class Markup(str):
    """A text of a template engine."""

    __slots__ = ()


class Choice(Enum):
    """A choice of the embedding program, which JSON has as its value."""

    FIRST = "first"


def test_texts_of_other_classes_within_keyword_arguments() -> None:
    """What JSON has as a text is a plain text afterwards, for the checks and every store."""
    body = parsed(CreateSkill, None, {"name": Markup("a"), "description": Choice.FIRST, "instructions": [Markup("b")]})
    assert (body.name, body.description, body.instructions) == ("a", "first", ["b"])
    assert {type(body.name), type(body.description), type(body.instructions[0])} == {str}


def test_an_id_in_place_of_a_text() -> None:
    """orjson writes a UUID as a text, but the field must be one already."""
    with pytest.raises(Malformed, match=r"`name`: must be a `dict`, `list`, .* or None, not `UUID`"):
        parsed(CreateSkill, None, {"name": uuid4()})


def test_a_flow_in_place_of_its_structure() -> None:
    """What JSON does not have is refused with what it has."""
    with pytest.raises(Malformed, match=r"`workflowStructure`: must be a `dict`, .* not `Flow`"):
        parsed(CreateWorkflow, None, {"name": "a", "type": "workflow", "workflow_structure": Flow("a")})
    with pytest.raises(Malformed, match="`config`: must have keys of type `str`, not `int`"):
        parsed(CreateSkill, {"name": "a", "config": {1: 2}}, {})
    with pytest.raises(Malformed, match=r"the body: must be a `dict`, .* not `Flow`"):
        parsed(CreateWorkflow, Flow("a"), {})  # type: ignore[arg-type]


@pytest.mark.parametrize("body", ["Refunds", 7, 1.5, True, [{}]])
def test_a_body_that_is_no_object(body: Any) -> None:
    """The rules see objects only."""
    with pytest.raises(Malformed, match="the body: must be of type object, not "):
        parsed(CreateWorkflow, body, {}, lambda tree: [Issue("", str(tree.get("name")), "x")])


def test_all_faults_are_reported_at_once() -> None:
    """Those of the key, of the shape and of the rules."""
    with pytest.raises(Malformed) as caught:
        parsed(CreateWorkflow, {"name": 7}, {}, lambda _: [Issue("trigger", "wrong", "enum")], key="")
    paths = {error["path"] for error in caught.value.info["errors"]}
    assert paths == {"Idempotency-Key", "name", "type", "trigger"}


@pytest.mark.parametrize(
    ("given", "path"),
    [
        (float("nan"), "x"),
        (float("-inf"), "x"),
        ([1, {2}], "x[1]"),
        (b"", "x"),
        ("a\0b", "x"),
        ("\ud83d", "x"),
        (2**63, "x"),
        (-(2**80), "x"),
        ({"y": {1: 2}}, "x.y"),
        ({"\ud83d": 1}, "x"),
    ],
)
def test_what_is_not_json_is_refused_with_its_path(given: Any, path: str) -> None:
    """What no request can have, and NUL, lone surrogates and integers outside 64 bits. Before other faults."""
    tree = {"name": 7, "workflowStructure": {"x": given, "null": None}}
    for body, fields in ((tree, {}), (None, {"name": 7, "workflow_structure": tree["workflowStructure"]})):
        with pytest.raises(Malformed) as caught:
            parsed(CreateWorkflow, body, fields)
        assert [(error["path"], error["rule"]) for error in caught.value.info["errors"]] == [
            (f"workflowStructure.{path}", "json")
        ]


@attrs.frozen
class View:
    """What a use case returned, with a value that JSON does not have."""

    id: int
    name: str
    made: datetime = datetime(2026, 1, 1, tzinfo=UTC)


def test_an_object_in_place_of_an_id() -> None:
    """The issue names the argument, what is allowed, and the `id` of the object if that is; not what the object has."""
    fields = {"workflow": View(7, "a"), "message": View(7, "a"), "input": View(7, "a"), "origin": object()}
    with pytest.raises(Malformed, match=r"^`workflowId`: must be of type number, not `View`: use its `id`") as caught:
        parsed(CreateRun, None, fields, names={"workflow": "workflowId"})
    assert [(error["path"], error["rule"]) for error in caught.value.info["errors"]] == [
        ("workflowId", "type"), ("message", "type"), ("input.made", "json"), ("origin", "json"),
    ]  # fmt: skip
    assert caught.value.info["errors"][1]["message"] == "must be of type string, not `View`"


def test_an_object_in_place_of_a_body() -> None:
    """The one issue says which bodies are allowed."""
    body: Any = View(7, "a")
    with pytest.raises(Malformed, match=r"^the body: must be of type `CreateRun` or `dict`, not `View`$"):
        parsed(CreateRun, body, {})


def test_what_holds_itself_is_refused() -> None:
    """Each fault is reported at the deepest level that is looked at, and no more than a response has room for."""
    structure: dict[str, Any] = {}
    structure["a"] = structure["b"] = structure
    with pytest.raises(Malformed) as caught:
        parsed(CreateWorkflow, {"workflowStructure": structure}, {})
    assert len(caught.value.info["errors"]) == MAX_ISSUES + 1


@pytest.mark.parametrize("given", [2**63 - 1, 1 - 2**63, 1e300, "\\u0000", "\U0001f600", None, MappingProxyType({})])
def test_what_is_json_is_not_refused(given: Any) -> None:
    """Large numbers, texts that only look like escapes, and any mapping."""
    assert value_issues({"x": [given, None]}) == []


def test_null_creates_as_if_absent() -> None:
    """What was read can be created again: null for an optional field is the same as absent, for a required one not."""
    body = parsed(CreateWorkflow, {**WIRE, "description": None}, {})
    assert body.description is UNSET
    with pytest.raises(Malformed):
        parsed(CreateWorkflow, {**WIRE, "name": None}, {})
    with pytest.raises((Malformed, Invalid)):
        parsed(PatchWorkflow, {"name": None}, {})
