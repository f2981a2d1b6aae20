"""The target of a run: the workflow, skill, assistant or single action that a body names, with its variation pinned.

A workflow runs with its deployer's access, a skill and the assistant with the caller's (interface, Runs).
"""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from wfcore.api.runs import CreateRun, RunAction, RunConfig
from wfcore.domain.agents.narrowing import Allowance, connections_of, late_issues, merged, narrowed
from wfcore.domain.expressions.expression import ExpressionError
from wfcore.domain.expressions.templates import compile_template
from wfcore.domain.graph.structure import structure_of
from wfcore.domain.json.schema import compile_schema
from wfcore.domain.json.values import UNSET, UnsetType, given, to_json
from wfcore.domain.kernel.errors import Invalid, Issue, NotFound, refuse
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal, derive
from wfcore.domain.resources.lifecycle import Operation, move
from wfcore.domain.resources.resource import Kind, Resource, Variation
from wfcore.domain.run.entries import Pinned
from wfcore.domain.run.events import TargetKind
from wfcore.domain.run.machine.machine import Machine
from wfcore.domain.run.plan import Plan, action_plan, assistant_plan, skill_plan
from wfcore.ports.journal import Execution
from wfcore.ports.providers import Tool, ToolFailed
from wfcore.ports.storage import UnitOfWork
from wfcore.runtime.agents.guardrails import config_issues
from wfcore.runtime.agents.selections import config_faults, joined
from wfcore.runtime.common.authorization import authorize, check_not_limited
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.execution.plans import Plans
from wfcore.runtime.resources.deployment import deploy_faults, look_up_tools, lost_access, skills_of
from wfcore.runtime.tools.connection_use import ConnectionUser
from wfcore.runtime.tools.mcp_tools import ServedTools, is_served, tool_exists

INPUT_TEMPLATE: Final = "{{ input }}"
"""The parameters of an action in its graph. They are rendered once before the run begins, and become its input."""

SINGLE_AGENT_FIELDS: Final = ("model", "modelSettings")
"""The fields of a `config` that only a run of a single agent can have."""


class Target(Struct, frozen=True, gc=False):
    """The plan to run. With a `refusal` the run ends at once with this error; "" is none."""

    kind: TargetKind
    plan: Plan
    resource_id: int | None = None
    variation_id: str | None = None
    refusal: str = ""
    is_draft: bool = False


class Chosen(Struct, frozen=True, gc=False):
    """The plan that a run goes on with; `pinned` is its variation if that is another one than before."""

    plan: Plan
    pinned: Pinned | None = None
    is_draft: bool = False
    refusal: str = ""


class Targets:
    """Looks up targets and what they allow."""

    def __init__(self, ports: Ports, plans: Plans) -> None:
        self._ports = ports
        self._plans = plans
        self._served = ServedTools(ports)

    async def of(self, me: Principal, body: CreateRun) -> Target:
        """The target of a start. Errors: NotFound, Forbidden, Conflict, Invalid."""
        if body.workflow_id is not UNSET:
            return await self._workflow(me, body.workflow_id, body.version == "draft")
        if body.skill_id is not UNSET:
            return await self._skill(me, body.skill_id, body.version == "draft")
        check_not_limited(me)
        return Target("assistant", assistant_plan())

    async def _workflow(self, me: Principal, number: int, draft: bool) -> Target:
        chosen = await self._chosen(me, Kind.WORKFLOW, number, draft)
        if draft:
            await self._check_draft(me, number, chosen)
        else:
            plan = await self._plans.get(me.org_uuid, number, chosen)
            if not plan.names_skills:
                return Target("workflow", plan, number, chosen)
        async with self._ports.storage.reading(me.org_uuid) as work:
            variation = await _variation(work, Kind.WORKFLOW, number, chosen)
            refusal = "" if draft else await lost_access(work, me.org_uuid, variation)
            plan = await self._plans.keep(me.org_uuid, chosen, variation.workflow)
            return Target("workflow", plan, number, chosen, refusal, draft)

    async def _check_draft(self, me: Principal, number: int, chosen: str) -> None:
        org = me.org_uuid
        async with self._ports.storage.reading(org) as work:
            variation = await _variation(work, Kind.WORKFLOW, number, chosen)
        served = await look_up_tools(self._ports, me, variation.content)
        async with self._ports.storage.reading(org) as work:
            refuse(await deploy_faults(self._ports, served, work, me, variation.workflow), as_invalid=True)

    async def _skill(self, me: Principal, number: int, draft: bool) -> Target:
        chosen = await self._chosen(me, Kind.SKILL, number, draft)
        return Target("skill", skill_plan(number), number, chosen, is_draft=draft)

    async def _chosen(self, me: Principal, kind: Kind, number: int, draft: bool) -> str:
        """The id of the variation to run. It requires use of the resource; a draft also requires manage."""
        resource = await self._ports.storage.find_resource(me.org_uuid, kind, number)
        authorize(me, resource, "use")
        assert resource is not None  # noqa: S101  (authorize raised)
        if draft:
            authorize(me, resource, "manage")
        move(resource.status, Operation.RUN_DRAFT if draft else Operation.RUN)
        return (resource.draft_variation_id if draft else None) or resource.active_variation_id or ""

    async def debug(self, me: Principal, target: Target) -> dict[str, JSON]:
        """The field `debug` of `run`, for a caller who can manage the target; the assistant is managed by its caller.

        Others have no debug events.
        """
        if target.resource_id is None:
            return {"debug": True}
        found = await self._ports.storage.find_resource(me.org_uuid, Kind(target.kind), target.resource_id)
        return {"debug": True} if found is not None and derive(me, found.access).can_manage else {}

    # Repairs

    async def authorize(self, me: Principal, execution: Execution, grant: str) -> Resource:
        """The resource of an execution that has one. Errors: NotFound, Forbidden."""
        kind, number = Kind(execution.kind), execution.resource_id or 0
        resource = await self._ports.storage.find_resource(me.org_uuid, kind, number)
        authorize(me, resource, grant)
        assert resource is not None  # noqa: S101  (authorize raised)
        return resource

    async def chosen(self, me: Principal, execution: Execution, machine: Machine, version: str) -> Chosen:
        """The variation that the run of this machine goes on with: `pinned`, `published` or `draft`.

        Errors as for a start. What has no variations goes on with its plan.
        """
        now, org = machine.pinned[2] if machine.pinned else execution.variation_id, me.org_uuid
        if execution.resource_id is None or now is None:
            return Chosen(machine.plan)
        kind, number = Kind(execution.kind), execution.resource_id
        if version == "pinned":
            is_draft = self._runs_draft(execution, machine)
            resource = await self.authorize(me, execution, "use")
            move(resource.status, Operation.RUN_DRAFT if is_draft else Operation.RUN)
            refusal, is_lent = "", kind is Kind.WORKFLOW and not is_draft
            if is_lent and machine.plan.names_skills:
                async with self._ports.storage.reading(org) as work:
                    refusal = await lost_access(work, org, await _variation(work, kind, number, now))
            return Chosen(machine.plan, refusal=refusal)
        look_up = self._workflow if kind is Kind.WORKFLOW else self._skill
        target = await look_up(me, number, version == "draft")
        if target.variation_id == now:
            return Chosen(machine.plan, refusal=target.refusal)
        return Chosen(target.plan, (kind.value, number, target.variation_id or ""), target.is_draft, target.refusal)

    @staticmethod
    def _runs_draft(execution: Execution, machine: Machine) -> bool:
        return machine.is_draft if machine.pinned else execution.is_draft

    # Actions

    async def action(self, me: Principal, body: RunAction, info: Mapping[str, JSON]) -> tuple[Target, JSON, JSON]:
        """The target of a single action, the descriptor that the run stores, and the rendered parameters.

        `info` is the expression variable `run`. Invalid for an unknown tool, and for parameters that cannot be rendered
        or do not match the tool's schema; those of a served tool that cannot be looked up now are not checked.
        """
        action = body.action
        tool = await self._tool(me, action.tool_id)
        outputs = {node: {"output": output} for node, output in (given(body.previous_outputs) or {}).items()}
        params = _rendered(given(action.params) or {}, {"input": {}, "nodes": outputs, "run": info})
        refuse(_parameter_issues(tool, action.tool_id, params), as_invalid=True)
        kept = {**to_json(action), "params": INPUT_TEMPLATE}
        return Target("action", action_plan(kept)), kept, params

    async def _tool(self, me: Principal, tool_id: str) -> Tool | ToolFailed | None:
        if not is_served(tool_id):
            return self._ports.tools.get(tool_id)
        result = (await self._served.look_up(ConnectionUser.of(me), [tool_id]))[tool_id]
        return None if tool_exists(result) is False else result

    # Config

    async def config(
        self,
        org: str,
        target: Target,
        wanted: RunConfig | UnsetType,
        before: Mapping[str, JSON] | None = None,
        *,
        has_agents: bool = False,
    ) -> dict[str, JSON]:
        """The config of a turn merged with that of the turns `before`, as a field of the variable `run`; {} for none.

        Invalid for a config that exceeds what the target allows, or that comes too late for agents under way
        (`has_agents`).
        """
        config = {} if wanted is UNSET else to_json(wanted)
        if not config:
            return {}
        refuse(_ineffective(target, config))
        allowed = await self._allowance(org, target)
        left = narrowed(allowed, before or {})
        refuse(config_issues(self._ports.guardrails, config, left))
        refuse(late_issues(config, left) if has_agents else ())
        async with self._ports.storage.reading(org) as work:
            refuse(await config_faults(work, config, (allowed.connections, connections_of(before or {}))))
            config = await joined(work, before or {}, config)
        return {"config": merged(before or {}, config)}

    async def _allowance(self, org: str, target: Target) -> Allowance:
        """What the pinned variation allows; for a workflow, what the skills of its agents allow now."""
        if target.resource_id is None:
            return Allowance(frozenset(self._ports.models))
        kind, number = Kind(target.kind), target.resource_id
        async with self._ports.storage.reading(org) as work:
            resource = await work.resources(kind).get(number)
            variation = await _variation(work, kind, number, target.variation_id or "")
            if resource is None:
                raise NotFound
            if kind is Kind.SKILL:
                return self._of_skill(resource, variation)
            parts = [await self._active(work, skill) for _, skill in skills_of(structure_of(variation.workflow))]
            return Allowance.joined([part for part in parts if part is not None], resource.access.guardrails or ())

    async def _active(self, work: UnitOfWork, number: int) -> Allowance | None:
        skill = await work.skills.get(number)
        if skill is None or skill.active_variation_id is None:
            return None
        return self._of_skill(skill, await _variation(work, Kind.SKILL, number, skill.active_variation_id))

    def _of_skill(self, skill: Resource, variation: Variation) -> Allowance:
        return Allowance.of_skill(variation.skill, skill.access.guardrails or (), self._ports.models)


async def _variation(work: UnitOfWork, kind: Kind, number: int, variation_id: str) -> Variation:
    variation = await work.resources(kind).variation(number, variation_id)
    if variation is None:
        raise NotFound
    return variation


def _ineffective(target: Target, config: Mapping[str, JSON]) -> list[Issue]:
    """Fields without effect: the nodes of a workflow name their own models, and an action has no agents."""
    names = config if target.kind == "action" else SINGLE_AGENT_FIELDS if target.kind == "workflow" else ()
    return [
        Issue(f"config.{name}", f"has no effect on a run of kind `{target.kind}`", "unsupported")
        for name in names
        if config.get(name)
    ]


def _rendered(params: JSON, scope: Mapping[str, JSON]) -> JSON:
    """The parameters rendered in this scope. The result is data and is not rendered again."""
    try:
        rendered = compile_template(params).render(scope)
        return compile_template(INPUT_TEMPLATE).render({"input": rendered})
    except ExpressionError as error:
        issue = Issue("action.params", error.message, "expression")
        raise Invalid(f"`{issue.path}`: {issue.message}", {"errors": [issue.to_wire()]}) from None


def _parameter_issues(tool: Tool | ToolFailed | None, tool_id: str, params: JSON) -> Sequence[Issue]:
    if tool is None:
        return [Issue("action.toolId", f"there is no tool `{tool_id[:80]}`", "reference")]
    if isinstance(tool, ToolFailed):
        return ()
    return compile_schema(tool.parameters).check(params, "action.params")
