"""Whether a workflow's content can run, and whether who deployed it may still use what it uses.

A run uses skills with its deployer's access: it is checked at the deploy, and again when a run starts.
"""

from collections.abc import Iterable, Iterator, Mapping

from wfcore.domain.access import Principal, derive
from wfcore.domain.errors import JSON, Issue
from wfcore.domain.graph import NodeType, parse_graph
from wfcore.domain.graph_rules import deploy_issues
from wfcore.domain.lifecycle import Status
from wfcore.domain.resources import Variation
from wfcore.ports.providers import Tools
from wfcore.ports.storage import UnitOfWork
from wfcore.runtime.organization import principal_of
from wfcore.runtime.plans import structure_of


class _Catalog:
    """What a graph may refer to."""

    def __init__(self, tools: Tools, skills: set[int]) -> None:
        self._tools = tools
        self._skills = skills

    def tool(self, tool_id: str) -> bool:
        return self._tools.get(tool_id) is not None

    def skill(self, agent_id: int) -> bool:
        return agent_id in self._skills


async def deploy_faults(tools: Tools, work: UnitOfWork, me: Principal, content: Mapping[str, JSON]) -> list[Issue]:
    """Everything for which this content cannot run when this principal deploys it, then warnings."""
    structure = structure_of(content)
    usable = await _usable(work, me, {number for _, number in _skills(structure)})
    return deploy_issues(parse_graph(structure), _Catalog(tools, usable))


async def lost_access(work: UnitOfWork, org: str, variation: Variation) -> str:
    """Which skill the variation's deployer, a member as it is now, may no longer use; "" when there is none.

    Nothing is lost to who is no row of the organization's members: the embedding program knows them, not the store.
    """
    skills = list(_skills(structure_of(variation.content)))
    member = await work.directory.member(variation.deployed_by or "") if skills else None
    if member is None:
        return ""
    usable = await _usable(work, principal_of(org, member), {number for _, number in skills})
    lost = [f"`{node}`: skill `{number}`" for node, number in skills if number not in usable]
    return f"who deployed this workflow may no longer use, in node {lost[0]}" if lost else ""


def _skills(structure: Mapping[str, JSON]) -> Iterator[tuple[str, int]]:
    """The agent nodes that name a skill, and which. A number that is whole is a whole number."""
    for node in structure.get("nodes") or ():
        number = (node.get("data") or {}).get("agent_id")
        if node["type"] != NodeType.AGENT or isinstance(number, bool):
            continue
        if isinstance(number, int) or (isinstance(number, float) and number.is_integer()):
            yield node["id"], int(number)


async def _usable(work: UnitOfWork, principal: Principal, skills: Iterable[int]) -> set[int]:
    usable = set()
    for number in skills:
        skill = await work.skills.get(number)
        if skill and skill.status is Status.ACTIVE and derive(principal, skill.access).can_use:
            usable.add(number)
    return usable
