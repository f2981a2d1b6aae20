"""Bodies of use cases: one value, whichever way the caller gave it."""

import pytest

from wfcore.api.resources import CreateSkill, CreateWorkflow, PatchWorkflow, ToolSetting
from wfcore.domain.json.values import UNSET
from wfcore.domain.kernel.errors import Invalid, Issue, Malformed
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


def test_all_faults_are_reported_at_once() -> None:
    """Those of the key, of the shape and of the rules."""
    with pytest.raises(Malformed) as caught:
        parsed(CreateWorkflow, {"name": 7}, {}, lambda _: [Issue("trigger", "wrong", "enum")], key="")
    paths = {error["path"] for error in caught.value.info["errors"]}
    assert paths == {"Idempotency-Key", "name", "type", "trigger"}


def test_null_creates_as_if_absent() -> None:
    """What was read can be created again: null for an optional field is the same as absent, for a required one not."""
    body = parsed(CreateWorkflow, {**WIRE, "description": None}, {})
    assert body.description is UNSET
    with pytest.raises(Malformed):
        parsed(CreateWorkflow, {**WIRE, "name": None}, {})
    with pytest.raises((Malformed, Invalid)):
        parsed(PatchWorkflow, {"name": None}, {})
