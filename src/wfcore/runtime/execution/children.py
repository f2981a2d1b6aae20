"""Opening children: which variation of which workflow or skill is pinned, and whether it may be."""

from typing import Final

from wfcore.domain.agents.context_tools import MESSAGE_SCHEMA
from wfcore.domain.json.schema import compile_schema
from wfcore.domain.kernel.errors import NotFound
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal, derive
from wfcore.domain.resources.lifecycle import Status
from wfcore.domain.resources.resource import Kind, Resource
from wfcore.domain.run.effects import Address, OpenChild
from wfcore.domain.run.entries import Opened
from wfcore.domain.run.machine.requests import CHANGED
from wfcore.ports.journal import Execution
from wfcore.ports.storage import UnitOfWork
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.execution.plans import PlanKey, Plans
from wfcore.runtime.organization.directory import current_principal, is_former_member
from wfcore.runtime.resources.deployment import lost_access

MAX_CHILD_DEPTH = 8
"""The depth of children inside each other."""
MOST_ISSUES = 10
"""Issues of an input that are reported at once."""

_MESSAGE: Final = compile_schema(MESSAGE_SCHEMA)


class ChildRefused(Exception):
    """The child cannot be opened, and trying again cannot help."""

    retryable = False

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.message = message
        self.reason = reason


class ChildChanged(ChildRefused):
    """Another variation is deployed than when the call was approved. `info` has the one that is deployed now."""

    def __init__(self, name: str, variation_id: str) -> None:
        super().__init__(f"{name} has changed since it was approved", CHANGED)
        self.info: dict[str, JSON] = {"definition": variation_id}


class Children:
    """Resolves what a node or an agent requests to a variation."""

    def __init__(self, ports: Ports, plans: Plans) -> None:
        self._ports = ports
        self._plans = plans

    async def pinned(self, execution: Execution, effect: OpenChild) -> str:
        """The id of the variation that the child runs. `ChildRefused` when there is none, or the input does not fit;
        `ChildChanged` when it is not the variation whose call was approved.

        The same message stands for what does not exist, what is deleted, and what cannot be used. An agent has the
        access of the user who started the execution, a node of a workflow that of the user who deployed the workflow.
        Where an expression chose the id, whoever started the execution needs use as well: a deployer lends access to
        the children that the graph names, not to any that an input names.
        """
        if effect.depth > MAX_CHILD_DEPTH:
            raise ChildRefused(f"children go at most {MAX_CHILD_DEPTH} levels deep", "depth")
        org, kind, name = execution.ref.org, Kind(effect.kind), f"{effect.kind} `{effect.resource_id}`"
        opener = None if effect.agent else effect.frame or await self._frame(execution, effect.address[:-3])
        chosen = opener is not None and await self._is_chosen_by_expression(org, opener, effect)
        async with self._ports.storage.reading(org) as work:
            user_id = execution.user_id if opener is None else await _deployer(work, opener) or execution.user_id
            found = await work.resources(kind).get(effect.resource_id)
            gone = opener is not None and await is_former_member(work, user_id)
            users = {user_id, execution.user_id} if chosen else {user_id}
            principals = [await current_principal(work, org, user) for user in users]
            if found is None or gone or not all(_is_usable(found, principal) for principal in principals):
                raise ChildRefused(f"{name} does not exist, or may not be used here", "not_found")
            variation = await work.resources(kind).variation(found.id, found.active_variation_id or "")
            if variation is None:
                raise ChildRefused(f"{name} is not deployed", "not_deployed")
            lost = await lost_access(work, org, variation) if kind is Kind.WORKFLOW else ""
        if lost:
            raise ChildRefused(f"{name}: {lost}", "refused")
        await self._check_input(org, (effect.kind, found.id, variation.id), effect.input)
        if effect.definition not in ("", variation.id):
            raise ChildChanged(name, variation.id)
        return variation.id

    async def _is_chosen_by_expression(self, org: str, opener: PlanKey, effect: OpenChild) -> bool:
        """Whether the node of a workflow renders the id of its child instead of naming it."""
        kind, number, variation_id = opener
        if kind != Kind.WORKFLOW:
            return True
        plan = await self._plans.get(org, number, variation_id)
        return not plan.nodes[effect.address[-3]].names_child

    async def _frame(self, execution: Execution, within: Address) -> PlanKey:
        """What runs in a frame. A child's is in its `Opened`, at its address and attempt."""
        if not within:
            return execution.kind, execution.resource_id or 0, execution.variation_id or ""
        for entry in await self._ports.journal.read(execution.ref):
            if isinstance(entry, Opened):
                opened_at = (*entry.within, entry.node, entry.visit, entry.step, entry.attempt)
                if opened_at == within:
                    return entry.kind, entry.resource_id, entry.variation_id
        raise NotFound

    async def _check_input(self, org: str, key: PlanKey, given: JSON) -> None:
        """Of a workflow as at a start of it; a skill takes the arguments that its caller was offered: a message."""
        if not isinstance(given, dict):
            raise ChildRefused("`input`: must be object", "input")
        plan = await self._plans.child(org, key)
        schema = _MESSAGE if key[0] == Kind.SKILL else plan.nodes[plan.start].schema
        issues = schema.check(given, "input")[:MOST_ISSUES] if schema else []
        if issues:
            raise ChildRefused("; ".join(f"`{issue.path}`: {issue.message}" for issue in issues), "input")


async def _deployer(work: UnitOfWork, frame: PlanKey) -> str | None:
    """Who deployed the workflow that runs in a frame. None for a trial of a draft, and for a skill."""
    kind, number, variation_id = frame
    variation = await work.workflows.variation(number, variation_id) if kind == Kind.WORKFLOW else None
    return None if variation is None else variation.deployed_by


def _is_usable(found: Resource, principal: Principal) -> bool:
    return found.status is not Status.DELETED and derive(principal, found.access).can_use
