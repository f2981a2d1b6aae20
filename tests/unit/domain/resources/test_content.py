"""The content of workflows and skills is a typed value, equal on the wire to what was parsed."""

from typing import Any

import pytest

from wfcore.api.resources import CreateSkill, PatchWorkflow
from wfcore.domain.json.values import structure, to_json
from wfcore.domain.resources.content import (
    BudgetDto,
    Content,
    SkillContent,
    ToolSetting,
    WorkflowContent,
    as_skill,
    as_workflow,
    content_of,
    content_to_wire,
    every_field,
    given_fields,
    names_of,
)
from wfcore.domain.resources.resource import CONTENTS, Kind, Variation
from wfcore.testing.contracts.storage.values import at

SKILL: dict[str, Any] = {
    "model": "m",
    "toolset": {"a": {"enabled": True, "requiresApproval": True}, "b": {"enabled": False}},
    "contextSelections": [{"id": "c", "kept": {"verbatim": [1, 1.0]}}],
    "budget": {"maxTokens": 5},
}


def test_a_skill_is_structured_to_its_leaves() -> None:
    """Tools and budget are values; what only the interface knows is kept as it is, with the other fields' defaults."""
    content = as_skill(content_of(SkillContent, {**SKILL, "name": "n"}))
    assert content.toolset == {"a": ToolSetting(enabled=True, requires_approval=True), "b": ToolSetting(enabled=False)}
    assert list(content.enabled_tools) == ["a"]
    assert content.budget == BudgetDto(max_tokens=5)
    assert to_json(content) == {**to_json(SkillContent()), **SKILL}
    assert repr(to_json(content)["contextSelections"]) == repr(SKILL["contextSelections"])


def test_unknown_keys_of_a_graph_are_kept_and_those_of_a_content_are_refused() -> None:
    """A graph, a trigger and a selection can have keys that this release does not know."""
    graph = {"nodes": [{"id": "a", "later": 1}], "zoom": 2}
    content = content_of(WorkflowContent, {"workflowStructure": graph})
    assert to_json(content) == {"trigger": None, "workflowStructure": graph, "agentSelection": None}
    with pytest.raises(Exception, match="nope"):
        structure(WorkflowContent, {"nope": 1})


@pytest.mark.parametrize(
    ("trigger", "is_scheduled"),
    [({"trigger_type": "schedule"}, True), ({"trigger_type": "manual"}, False), ({}, False), (None, False)],
)
def test_is_scheduled(trigger: dict[str, Any] | None, is_scheduled: bool) -> None:
    """Only a trigger of type `schedule` has a schedule."""
    assert WorkflowContent(trigger=trigger).is_scheduled is is_scheduled


def test_an_empty_budget_is_not_on_the_wire() -> None:
    """The interface's table of a skill does not have it; a workflow has none."""
    assert "budget" not in content_to_wire(SkillContent())
    assert content_to_wire(SkillContent(budget=BudgetDto(max_tokens=1)))["budget"] == {"maxTokens": 1}
    assert list(content_to_wire(WorkflowContent())) == list(names_of(WorkflowContent))


def test_the_fields_that_a_body_has() -> None:
    """Null is a value; an absent field is not."""
    assert given_fields(WorkflowContent, PatchWorkflow(trigger=None, name="n")) == {"trigger": None}
    assert given_fields(SkillContent, CreateSkill(name="n", model="m")) == {"model": "m"}
    assert every_field(WorkflowContent()) == {"trigger", "workflow_structure", "agent_selection"}


@pytest.mark.parametrize("kind", list(Kind))
def test_a_variation_has_the_content_of_its_kind(kind: Kind) -> None:
    """The content of the other kind is a TypeError."""
    content: Content = CONTENTS[kind]()
    variation = Variation("v", content, at(1), "u")
    if kind is Kind.WORKFLOW:
        assert (variation.workflow, as_workflow(content)) == (content, content)
        with pytest.raises(TypeError, match="belongs to a workflow"):
            _ = variation.skill
    else:
        assert (variation.skill, as_skill(content)) == (content, content)
        with pytest.raises(TypeError, match="belongs to a skill"):
            _ = variation.workflow
