"""Checks whether the content of a workflow or skill can run, and whether its deployer can still use what it uses.

A run uses skills with its deployer's access, which is checked at the deploy and again when a run starts. The workflows
that it calls are checked when they are called; at the deploy they only cause warnings, since the order of deploys is
free.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import attrs

from wfcore.domain.agents.context_tools import skill_id
from wfcore.domain.graph.checks import subordinate_of, workflow_of
from wfcore.domain.graph.rules import deploy_issues
from wfcore.domain.graph.structure import Graph, NodeType, parse_graph, structure_of
from wfcore.domain.kernel.errors import Issue, join_path
from wfcore.domain.kernel.json_readers import as_list, as_objects, as_text, optional_object, optional_text
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal, derive
from wfcore.domain.resources.content import Content, SkillContent, WorkflowContent
from wfcore.domain.resources.lifecycle import Status
from wfcore.domain.resources.resource import Variation
from wfcore.domain.resources.supervision import subordinates
from wfcore.domain.run.effects import WORKFLOW
from wfcore.ports.providers import Tool, ToolFailed, Tools
from wfcore.ports.storage import UnitOfWork
from wfcore.runtime.agents.selections import entry_faults, selection_faults
from wfcore.runtime.common.loop_slice import beside_loop, size_of
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.organization.directory import is_former_member, principal_of
from wfcore.runtime.tools.connection_use import ConnectionUser
from wfcore.runtime.tools.mcp_tools import ServedTools, ToolLookup, is_served, tool_exists
from wfcore.runtime.tools.parameters import parameter_issues

T = TypeVar("T")

Reference = tuple[str, str, T]
"""The node, the path and the id of something that a graph names."""


@attrs.frozen
class _Found:
    """Of a graph, without the store: faults, tools of servers that could not be queried, and references."""

    faults: list[Issue]
    unverified: list[Issue]
    groups: list[Reference[str]]
    workflows: list[Reference[int]]


class _Catalog:
    """The tools and skills that a graph can refer to."""

    def __init__(self, tools: Tools, served: ToolLookup, skills: set[int]) -> None:
        self._tools = tools
        self._served = served
        self._skills = skills

    def tool(self, tool_id: str) -> bool:
        if is_served(tool_id):
            return tool_exists(self._served.get(tool_id)) is not False
        return self._tools.get(tool_id) is not None

    def skill(self, agent_id: int) -> bool:
        return agent_id in self._skills


async def look_up_tools(ports: Ports, me: Principal, content: Content) -> ToolLookup:
    """Look up the served tools in this content. Servers can be slow, so call this outside of a transaction."""
    named = content.enabled_tools if isinstance(content, SkillContent) else await _of_nodes(tools_of, content)
    return await ServedTools(ports).look_up(ConnectionUser.of(me), named)


async def deploy_faults(
    ports: Ports, served: ToolLookup, work: UnitOfWork, me: Principal, content: WorkflowContent
) -> list[Issue]:
    """The errors that prevent this content from running when this principal deploys it, then the warnings.

    A served tool that cannot be looked up now is a warning, since it can exist when the run needs it.
    """
    structure = structure_of(content)
    usable = await _usable(work, me, set(await _of_nodes(_all_skills_of, content)))
    found = await beside_loop(size_of(structure), _found_in, ports, served, structure, usable)
    groups = await _unknown_groups(work, me, found.groups)
    return [*found.faults, *groups, *found.unverified, *await _uncallable_workflows(work, me, found.workflows)]


def _found_in(ports: Ports, served: ToolLookup, structure: Mapping[str, JSON], usable: set[int]) -> _Found:
    """For a large graph this takes long. `usable` are skills."""
    graph = parse_graph(structure)
    faults = deploy_issues(graph, _Catalog(ports.tools, served, usable))
    faults += parameter_issues(ports.tools, served, graph)
    return _Found(
        [*faults, *_missing_models(ports, graph)],
        [*_unverified_tools(graph, served)],
        [*_approver_groups(graph)],
        [*_called_workflows(graph)],
    )


async def skill_faults(ports: Ports, served: ToolLookup, work: UnitOfWork, content: SkillContent) -> list[Issue]:
    """References of a skill's content that do not exist: the model, the enabled tools, the context items.

    An absent model means the installation's default. A served tool that cannot be looked up now is a warning.
    """
    return [
        *_unknown_model(ports, content),
        *_unknown_tools(ports.tools, served, content),
        *await selection_faults(work, content.context_selections),
        *await entry_faults(work, "connectionSet", content.connection_set),
    ]


async def lost_access(work: UnitOfWork, org: str, variation: Variation) -> str:
    """Why the variation's deployer can no longer use one of its skills; "" when it can use all of them.

    A former member can use none. In an organization without members nothing is lost: only the embedding program
    knows its users.
    """
    skills, user_id = await _of_nodes(skills_of, variation.workflow), variation.deployed_by or ""
    member = await work.directory.member(user_id) if skills else None
    if member is None and not (skills and await is_former_member(work, user_id)):
        return ""
    usable = await _usable(work, principal_of(org, member), {number for _, number in skills}) if member else set()
    lost = [f"`{node}`: skill `{number}`" for node, number in skills if number not in usable]
    return f"the deployer of this workflow can no longer use, in node {lost[0]}" if lost else ""


def skills_of(structure: Mapping[str, JSON]) -> Iterator[tuple[str, int]]:
    """The agent nodes that name a skill, with its number. A float with an integral value counts as an integer."""
    for node in as_objects(structure.get("nodes") or ()):
        number = _data(node).get("agent_id")
        if node["type"] != NodeType.AGENT or isinstance(number, bool):
            continue
        if isinstance(number, int) or (isinstance(number, float) and number.is_integer()):
            yield as_text(node["id"]), int(number)


def tools_of(structure: Mapping[str, JSON]) -> Iterator[str]:
    """The ids of the tools that nodes name."""
    for node in as_objects(structure.get("nodes") or ()):
        data = _data(node)
        named = data.get("tool_restrictions")
        for tool_id in (data.get("toolId"), *(named if isinstance(named, list) else ())):
            if isinstance(tool_id, str):
                yield tool_id


def _all_skills_of(structure: Mapping[str, JSON]) -> Iterator[int]:
    """The skills that agent nodes name, and those that tool ids name."""
    yield from (number for _, number in skills_of(structure))
    yield from (number for tool_id in tools_of(structure) if (number := subordinate_of(tool_id)) is not None)


async def _of_nodes(find: Callable[[Mapping[str, JSON]], Iterator[T]], content: WorkflowContent) -> list[T]:
    """What `find` finds in the nodes of a graph: in a thread if they are many."""
    structure = structure_of(content)
    return await beside_loop(len(as_list(structure.get("nodes") or [])), lambda: list(find(structure)))


def _data(node: Mapping[str, JSON]) -> Mapping[str, JSON]:
    return optional_object(node.get("data")) or {}


def _unknown_model(ports: Ports, content: SkillContent) -> Iterator[Issue]:
    named: list[tuple[str, str | None]] = [("model", content.model)]
    for place, case in enumerate(content.evaluations):
        for position, check in enumerate(as_objects(case["checks"])):
            path = f"evaluations[{place}].checks[{position}].model"
            named.append((path, optional_text(check.get("model"))))
    for path, model in named:
        if model and model not in ports.models:
            yield Issue(path, f"there is no model `{model[:80]}`", "reference")


def _missing_models(ports: Ports, graph: Graph) -> Iterator[Issue]:
    """Models of nodes that this installation does not have. Not checked without models, as other workers run agents."""
    for index, node in enumerate(graph.nodes):
        model = node.data.get("model")
        if node.type is NodeType.AGENT and isinstance(model, str) and ports.models and model not in ports.models:
            path = f"workflowStructure.nodes[{index}].data.model"
            yield Issue(path, f"node `{node.id}`: there is no model `{model[:80]}`", "reference", "warning")


def _unknown_tools(tools: Tools, served: ToolLookup, content: SkillContent) -> Iterator[Issue]:
    below = set(map(skill_id, subordinates(content)))
    for tool_id in content.enabled_tools:
        path, result = join_path("toolset", tool_id), served.get(tool_id)
        known = tool_exists(result) if is_served(tool_id) else tool_id in below or tools.get(tool_id) is not None
        if known is None:
            yield Issue(path, f"`{tool_id[:80]}` is not known now: {_reason(result)}", "reference", "warning")
        elif not known:
            yield Issue(path, f"there is no tool `{tool_id[:80]}`", "reference")
        elif tool_id == WORKFLOW:
            yield Issue(path, f"`{tool_id}` is for nodes: agents are not offered it", "reference", "warning")


def _reason(result: Tool | ToolFailed | None) -> str:
    return result.message if isinstance(result, ToolFailed) else "its server was not queried"


def _unverified_tools(graph: Graph, served: ToolLookup) -> Iterator[Issue]:
    """The nodes whose tool belongs to a server that could not be queried."""
    for index, node in enumerate(graph.nodes):
        tool_id = node.data.get("toolId")
        if isinstance(tool_id, str) and is_served(tool_id) and tool_exists(served.get(tool_id)) is None:
            why = _reason(served.get(tool_id))
            path = f"workflowStructure.nodes[{index}].data.toolId"
            yield Issue(path, f"node `{node.id}`: `{tool_id[:80]}` is not known now: {why}", "reference", "warning")


async def _unknown_groups(work: UnitOfWork, me: Principal, named: Sequence[Reference[str]]) -> list[Issue]:
    """Groups that approvals name and that do not exist: nobody could ever answer for them."""
    known = {me.org_uuid} | {group.id for group in await work.directory.groups({group for _, _, group in named})}
    return [
        Issue(path, f"node `{node}`: there is no group `{group[:80]}`", "reference")
        for node, path, group in named
        if group not in known
    ]


def _approver_groups(graph: Graph) -> Iterator[Reference[str]]:
    """Every group that an approval names, from the start or after an escalation."""
    for index, node in enumerate(graph.nodes):
        for key in ("approvers", "escalateTo") if node.type is NodeType.HUMAN_APPROVAL else ():
            people = node.data.get(key)
            groups = people.get("groups") if isinstance(people, Mapping) else None
            for place, group in enumerate(groups if isinstance(groups, list) else ()):
                if isinstance(group, str):
                    yield node.id, f"workflowStructure.nodes[{index}].data.{key}.groups[{place}]", group


def _called_workflows(graph: Graph) -> Iterator[Reference[int]]:
    """Every workflow whose id the graph has."""
    for index, node in enumerate(graph.nodes):
        number = workflow_of(node.data.get("params")) if node.data.get("toolId") == WORKFLOW else None
        if number is not None:
            yield node.id, f"workflowStructure.nodes[{index}].data.params.workflowId", number


async def _uncallable_workflows(work: UnitOfWork, me: Principal, named: Sequence[Reference[int]]) -> list[Issue]:
    """Workflows that the graph calls: errors where the deployer cannot use them, warnings until deployed."""
    issues = []
    for node, path, number in named:
        flow = await work.workflows.get(number)
        if flow is None or flow.status is Status.DELETED or not derive(me, flow.access).can_use:
            message = f"node `{node}`: there is no workflow `{number}` that you can use"
            issues.append(Issue(path, message, "reference"))
        elif flow.status is not Status.ACTIVE:
            message = f"node `{node}`: the workflow `{number}` is not deployed yet"
            issues.append(Issue(path, message, "reference", "warning"))
    return issues


async def _usable(work: UnitOfWork, principal: Principal, skills: Iterable[int]) -> set[int]:
    usable = set()
    for number in skills:
        skill = await work.skills.get(number)
        if skill and skill.status is Status.ACTIVE and derive(principal, skill.access).can_use:
            usable.add(number)
    return usable
