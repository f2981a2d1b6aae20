"""Whether the content of a workflow or skill can run, and whether who deployed it may still use what it uses.

A run uses skills with its deployer's access: it is checked at the deploy, and again when a run starts. So are the
workflows that it calls: at the deploy for a warning, since either may be deployed first, and when they are called.
"""

from collections.abc import Iterable, Iterator, Mapping

from wfcore.domain.agents.context_tools import skill_id
from wfcore.domain.agents.narrowing import enabled
from wfcore.domain.graph.rules import deploy_issues
from wfcore.domain.graph.structure import NodeType, parse_graph, structure_of
from wfcore.domain.kernel.errors import Issue, join_path
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal, derive
from wfcore.domain.resources.lifecycle import Status
from wfcore.domain.resources.resource import Variation
from wfcore.domain.resources.supervision import subordinates
from wfcore.domain.run.plan import WORKFLOW
from wfcore.ports.providers import Tool, ToolFailed, Tools
from wfcore.ports.storage import UnitOfWork
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.organization.directory import is_gone, principal_of
from wfcore.runtime.tools.mcp_tools import LookedUp, ServedTools, exists, is_served
from wfcore.runtime.tools.parameters import misfits


class _Catalog:
    """What a graph may refer to."""

    def __init__(self, tools: Tools, served: LookedUp, skills: set[int]) -> None:
        self._tools = tools
        self._served = served
        self._skills = skills

    def tool(self, tool_id: str) -> bool:
        if is_served(tool_id):
            return exists(self._served.get(tool_id)) is not False
        return self._tools.get(tool_id) is not None

    def skill(self, agent_id: int) -> bool:
        return agent_id in self._skills


async def looked_up(ports: Ports, org: str, content: Mapping[str, JSON]) -> LookedUp:
    """What servers outside say of the tools in this content. They may be slow: this is no work for a transaction."""
    return await ServedTools(ports).looked_up(org, [*tools_of(structure_of(content)), *_switched_on(content)])


async def deploy_faults(
    ports: Ports, served: LookedUp, work: UnitOfWork, me: Principal, content: Mapping[str, JSON]
) -> list[Issue]:
    """Everything for which this content cannot run when this principal deploys it, then warnings.

    A server's tool that nobody could look up now is one: it may be there when the run comes to it.
    """
    structure, tools = structure_of(content), ports.tools
    usable = await _usable(work, me, {number for _, number in skills_of(structure)})
    issues = deploy_issues(parse_graph(structure), _Catalog(tools, served, usable))
    issues += misfits(tools, served, structure)
    issues += _missing_models(ports, structure)
    return [*issues, *_unsure(structure, served), *await _uncallable(work, me, structure)]


async def skill_faults(ports: Ports, served: LookedUp, work: UnitOfWork, content: Mapping[str, JSON]) -> list[Issue]:
    """What a skill's content names and what is not there: the model, the tools that are enabled, the context items.

    No model is the installation's default. A server's tool that nobody could look up now is a warning.
    """
    return [
        *_unknown_model(ports, content),
        *_unknown_tools(ports.tools, served, content),
        *await selection_faults(work, content),
    ]


async def lost_access(work: UnitOfWork, org: str, variation: Variation) -> str:
    """Which skill the variation's deployer, a member as it is now, may no longer use; "" when there is none.

    Who is no member any more may use none. In an organization without any member nothing is lost: the embedding
    program knows its people, not the store.
    """
    skills, user_id = list(skills_of(structure_of(variation.content))), variation.deployed_by or ""
    member = await work.directory.member(user_id) if skills else None
    if member is None and not (skills and await is_gone(work, user_id)):
        return ""
    usable = await _usable(work, principal_of(org, member), {number for _, number in skills}) if member else set()
    lost = [f"`{node}`: skill `{number}`" for node, number in skills if number not in usable]
    return f"who deployed this workflow may no longer use, in node {lost[0]}" if lost else ""


def skills_of(structure: Mapping[str, JSON]) -> Iterator[tuple[str, int]]:
    """The agent nodes that name a skill, and which. A number that is whole is a whole number."""
    for node in structure.get("nodes") or ():
        number = (node.get("data") or {}).get("agent_id")
        if node["type"] != NodeType.AGENT or isinstance(number, bool):
            continue
        if isinstance(number, int) or (isinstance(number, float) and number.is_integer()):
            yield node["id"], int(number)


def tools_of(structure: Mapping[str, JSON]) -> Iterator[str]:
    """The ids of the tools that nodes name."""
    for node in structure.get("nodes") or ():
        data = node.get("data") or {}
        named = data.get("tool_restrictions")
        for tool_id in (data.get("toolId"), *(named if isinstance(named, list) else ())):
            if isinstance(tool_id, str):
                yield tool_id


def _unknown_model(ports: Ports, content: Mapping[str, JSON]) -> Iterator[Issue]:
    model = content.get("model")
    if model and model not in ports.models:
        yield Issue("model", f"there is no model `{model[:80]}`", "reference")


def _missing_models(ports: Ports, structure: Mapping[str, JSON]) -> Iterator[Issue]:
    """The models that nodes name and this installation does not know; where it knows none, others run the agents."""
    for index, node in enumerate(structure.get("nodes") or ()):
        model = (node.get("data") or {}).get("model")
        if node["type"] == NodeType.AGENT and isinstance(model, str) and ports.models and model not in ports.models:
            path = f"workflowStructure.nodes[{index}].data.model"
            yield Issue(path, f"node `{node['id']}`: there is no model `{model[:80]}`", "reference", "warning")


def _switched_on(content: Mapping[str, JSON]) -> Iterator[str]:
    """The tools of a skill's toolset that are on."""
    return (tool_id for tool_id, _ in enabled(content.get("toolset", {})))


def _unknown_tools(tools: Tools, served: LookedUp, content: Mapping[str, JSON]) -> Iterator[Issue]:
    below = set(map(skill_id, subordinates(content)))
    for tool_id in _switched_on(content):
        path, answer = join_path("toolset", tool_id), served.get(tool_id)
        known = exists(answer) if is_served(tool_id) else tool_id in below or tools.get(tool_id) is not None
        if known is None:
            yield Issue(path, f"`{tool_id[:80]}` is not known now: {_why(answer)}", "reference", "warning")
        elif not known:
            yield Issue(path, f"there is no tool `{tool_id[:80]}`", "reference")


async def selection_faults(work: UnitOfWork, content: Mapping[str, JSON]) -> list[Issue]:
    """The context items that a skill's content, or a `config`, selects and that are not there."""
    issues = []
    for index, one in enumerate(content.get("contextSelections", ())):
        path, item = f"contextSelections[{index}].id", one.get("id")
        if "id" not in one:
            issues.append(Issue(path, "`id` is required", "required"))
        elif not isinstance(item, str) or await work.context_items.get(item) is None:
            issues.append(Issue(path, "there is no such context item", "reference"))
    return issues


def _why(answer: Tool | ToolFailed | None) -> str:
    return answer.message if isinstance(answer, ToolFailed) else "its server was not asked"


def _unsure(structure: Mapping[str, JSON], served: LookedUp) -> Iterator[Issue]:
    """The nodes whose tool is one of a server that could not be asked."""
    for index, node in enumerate(structure.get("nodes") or ()):
        tool_id = (node.get("data") or {}).get("toolId")
        if isinstance(tool_id, str) and is_served(tool_id) and exists(served.get(tool_id)) is None:
            why = _why(served.get(tool_id))
            path = f"workflowStructure.nodes[{index}].data.toolId"
            yield Issue(path, f"node `{node['id']}`: `{tool_id[:80]}` is not known now: {why}", "reference", "warning")


async def _uncallable(work: UnitOfWork, me: Principal, structure: Mapping[str, JSON]) -> list[Issue]:
    """The workflows that nodes call by their ids, and that could not be called now."""
    issues = []
    for index, node in enumerate(structure.get("nodes") or ()):
        data = node.get("data") or {}
        params = data.get("params") if data.get("toolId") == WORKFLOW else None
        number = params.get("workflowId") if isinstance(params, Mapping) else None
        if type(number) is int:
            flow = await work.workflows.get(number)
            if not (flow and flow.status is Status.ACTIVE and derive(me, flow.access).can_use):
                path = f"workflowStructure.nodes[{index}].data.params.workflowId"
                message = f"node `{node['id']}`: there is no deployed workflow `{number}` that you may use"
                issues.append(Issue(path, message, "reference", "warning"))
    return issues


async def _usable(work: UnitOfWork, principal: Principal, skills: Iterable[int]) -> set[int]:
    usable = set()
    for number in skills:
        skill = await work.skills.get(number)
        if skill and skill.status is Status.ACTIVE and derive(principal, skill.access).can_use:
            usable.add(number)
    return usable
