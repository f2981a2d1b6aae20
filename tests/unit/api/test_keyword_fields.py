"""Keyword arguments of use cases: the TypedDict beside a body has the names of the body's fields."""

import attrs
import pytest

from wfcore.api import connections, contexts, management, memories, organization, resources, runs

PAIRS = [
    (runs.CreateRun, runs.CreateRunFields, {"workflow", "skill"}, set()),
    (runs.ResumeRun, runs.ResumeRunFields, set(), {"run_id"}),
    (runs.Chat, runs.ChatFields, set(), set()),
    (runs.RunAction, runs.RunActionFields, set(), set()),
    (resources.CreateWorkflow, resources.CreateWorkflowFields, {"structure", "access"}, set()),
    (resources.PatchWorkflow, resources.PatchWorkflowFields, {"structure", "access"}, set()),
    (resources.CreateSkill, resources.CreateSkillFields, {"access"}, set()),
    (resources.PatchSkill, resources.PatchSkillFields, {"access"}, set()),
    (resources.ToggleBody, resources.ToggleFields, set(), set()),
    (resources.Supervision, resources.SupervisionFields, set(), set()),
    (resources.CreateToken, resources.CreateTokenFields, set(), set()),
    (management.RollbackBody, management.RollbackFields, set(), set()),
    (management.TransferBody, management.TransferFields, set(), set()),
    (management.CreateInterface, management.CreateInterfaceFields, set(), set()),
    (management.PatchInterface, management.PatchInterfaceFields, set(), set()),
    (organization.CreateMember, organization.CreateMemberFields, set(), set()),
    (organization.PatchMember, organization.PatchMemberFields, set(), set()),
    (organization.CreateGroup, organization.GroupFields, set(), set()),
    (organization.PatchGroup, organization.GroupFields, set(), set()),
    (connections.CreateConnection, connections.CreateConnectionFields, set(), set()),
    (connections.PatchConnection, connections.PatchConnectionFields, set(), set()),
    (contexts.CreateContextItem, contexts.ContextItemFields, set(), set()),
    (contexts.PatchContextItem, contexts.ContextItemFields, set(), set()),
    (contexts.AssistantContext, contexts.AssistantContextFields, set(), set()),
    (contexts.SkillContext, contexts.SkillContextFields, set(), set()),
    (memories.CreateMemory, memories.CreateMemoryFields, set(), set()),
    (memories.PatchMemory, memories.PatchMemoryFields, set(), set()),
    (memories.SearchMemories, memories.SearchMemoriesFields, set(), set()),
]
"""A body, its keyword arguments, the short names that only these have, and the fields that a use case takes itself."""


@pytest.mark.parametrize(
    ("body", "fields", "short", "elsewhere"), PAIRS, ids=lambda each: getattr(each, "__name__", "")
)
def test_every_field_is_a_keyword(body: type, fields: type, short: set[str], elsewhere: set[str]) -> None:
    """A field that is added to a body can be given as a keyword argument, too."""
    names = {field.name for field in attrs.fields(body)} - elsewhere
    assert fields.__annotations__.keys() == names | short
