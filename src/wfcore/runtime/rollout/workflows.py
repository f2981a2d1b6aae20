"""Workflows with what concerns runs too: the impact of a deploy, moves of waiting runs, tests of nodes, proposals."""

from functools import partial
from typing import Unpack

from wfcore.api.repairs import MoveFields, MoveRuns
from wfcore.api.run_graphs import TestNode, TestNodeFields
from wfcore.api.variations import ProposalFields, ProposeChange
from wfcore.domain.json.codec import fingerprint
from wfcore.domain.json.values import given, to_json
from wfcore.domain.kernel.errors import Issue
from wfcore.domain.resources import resource as rules
from wfcore.domain.resources.access import Principal
from wfcore.domain.resources.content import WorkflowContent, every_field
from wfcore.domain.resources.differences import difference
from wfcore.domain.resources.lifecycle import Operation, Status, move
from wfcore.domain.resources.resource import Resource, Variation
from wfcore.domain.rules.policies import MOST_POLICIES
from wfcore.domain.run.node_trial import NodeTrial
from wfcore.ports.storage import UnitOfWork
from wfcore.runtime.common.authorization import conflict, needs
from wfcore.runtime.common.bodies import Tree, parsed
from wfcore.runtime.common.loop_slice import beside_loop, size_of
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.execution.plans import Plans
from wfcore.runtime.resources.base import ResourceView
from wfcore.runtime.resources.deployment import look_up_tools
from wfcore.runtime.resources.policy_checks import check_inputs
from wfcore.runtime.resources.workflows import Workflows
from wfcore.runtime.rollout.impacts import PREFIX, DeployInputs, Impact, Impacts
from wfcore.runtime.rollout.moves import MoveOutcome, RunMoves, move_issues
from wfcore.runtime.rollout.node_tests import NodeTests
from wfcore.runtime.rollout.proposals import Proposal, Proposals
from wfcore.runtime.runs.repairs import RepairableRuns

MOVE_NAMES = {"runs": "runIds"}
"""Short keyword arguments of the library, in addition to the wire names in snake case."""


class RolloutWorkflows(Workflows):
    """The use cases of workflows, with those that also concern their runs."""

    def __init__(self, ports: Ports, plans: Plans, runs: RepairableRuns) -> None:
        super().__init__(ports)
        self._plans = plans
        self._moves = RunMoves(ports, plans)
        self._impacts = Impacts(ports, plans)
        self._node_tests = NodeTests(ports, runs)
        self._proposals = Proposals(ports, runs, self._content_issues)

    @needs("*:write")
    async def move_runs(
        self,
        me: Principal,
        id: int,
        body: MoveRuns | Tree | None = None,
        *,
        if_match: str | None = None,
        **fields: Unpack[MoveFields],
    ) -> list[MoveOutcome]:
        """Move waiting runs to the active variation, one by one, where they fit: those named, or all of them.

        Requires manage. `runs` is short for `run_ids`; with `all`, runs that are on the active variation are left out.
        Ids of runs and interrupts stay. Errors: Malformed, Invalid, NotFound, Forbidden; Conflict with `info.reason`
        `not_deployed`, `deleted` or `stale`.
        """
        wanted = parsed(MoveRuns, body, fields, move_issues, names=MOVE_NAMES)
        async with self._ports.storage.reading(me.org_uuid) as work:
            workflow = await self._managed(work, me, id, if_match)
        return await self._moves.move(me, workflow, wanted)

    @needs("*:write")
    async def deploy(self, me: Principal, id: int, *, if_match: str | None = None) -> ResourceView:
        """Publish the draft, if there is one. `Invalid`, with every issue, when it cannot run.

        `if_match` also takes the `etag` of an impact: Conflict `stale` when what it shows has changed since.
        """
        tags = [tag.strip() for tag in (if_match or "").split(",")]
        seen = [tag for tag in tags if tag.startswith(PREFIX)]
        if not seen:
            return await super().deploy(me, id, if_match=if_match)
        impact = await self._impact(me, id)
        if impact.etag in seen:
            try:
                return await self._deploy(me, id, None, partial(self._check_seen, me, id, impact))
            except _Outdated:
                impact = await self._impact(me, id)
        elif len(seen) < len(tags):
            return await super().deploy(me, id, if_match=if_match)
        raise conflict("the impact of this deploy has changed since it was read", "stale", etag=impact.etag)

    @needs("*:read")
    async def impact(self, me: Principal, id: int) -> Impact:
        """What a deploy of the draft would change; without a draft, what is deployed. Requires manage.

        Nothing is written. `etag` is a precondition of the deploy. Errors: NotFound, Forbidden.
        """
        return await self._impact(me, id)

    @needs("*:read")
    async def test_node(
        self,
        me: Principal,
        id: int,
        node: str,
        body: TestNode | Tree | None = None,
        **fields: Unpack[TestNodeFields],
    ) -> NodeTrial:
        """What one node of the draft gives on this input and these outputs of other nodes; without a draft, of the
        active variation. Requires manage.

        Nothing is called: the result lists what would be sent. With `perform`, which requires use and the scope
        `workflows:invoke`, calls of tools, models and workflows are made once, with the caller's access, by a run of a
        single action; approvals are not requested, and timers not set. A node that fails has an `error`.
        Errors: NotFound, also for an unknown node; Forbidden; Malformed; Invalid, also for a node that cannot run;
        Conflict with `info.reason` `deleted` for calls.
        """
        wanted = parsed(TestNode, body, fields)
        async with self._ports.storage.reading(me.org_uuid) as work:
            resource = await self._managed(work, me, id)
            if given(wanted.perform):
                move(resource.status, Operation.RUN_DRAFT)
            active, draft = await self._variations(work, resource)
        chosen = draft or active
        return await self._node_tests.run(me, resource, chosen.workflow if chosen else WorkflowContent(), node, wanted)

    @needs("*:write", "workflows:invoke")
    async def propose(
        self, me: Principal, id: int, body: ProposeChange | Tree | None = None, **fields: Unpack[ProposalFields]
    ) -> Proposal:
        """A change of the draft, or without one of the active variation, that a model makes of a request in words.

        Requires manage. Nothing is saved. The model is called at most three times, by runs of a single agent; what it
        returns could be deployed, its runs end and reach every node, and the `rules` hold for them.
        Errors: Malformed, Invalid, NotFound, Forbidden; Conflict `deleted`. Invalid has an `info.reason` where the
        model is the cause: `no_valid_proposal` with the faults of the last attempt, `timeout`, or that of the failed
        run.
        """
        wanted = parsed(ProposeChange, body, fields)
        async with self._ports.storage.reading(me.org_uuid) as work:
            resource = await self._managed(work, me, id)
            move(resource.status, Operation.EDIT)
            active, draft = await self._variations(work, resource)
        chosen = draft or active
        return await self._proposals.propose(me, id, chosen.workflow if chosen else WorkflowContent(), wanted)

    async def _impact(self, me: Principal, id: int) -> Impact:
        async with self._ports.storage.reading(me.org_uuid) as work:
            resource = await self._managed(work, me, id)
            active, draft = await self._variations(work, resource)
        old, chosen = active.workflow if active else WorkflowContent(), draft or active
        new = chosen.workflow if chosen else WorkflowContent()
        served = await look_up_tools(self._ports, me, new)
        async with self._ports.storage.reading(me.org_uuid) as work:
            issues = await self._deploy_issues(work, new, me, served)
            issues += await self._link_issues(work, me, id, new, new, every_field(new))
            inputs = await self._inputs(work, me, resource, new, issues)
        check = None if inputs.checked is None else await check_inputs(inputs.checked)
        runs = chosen is not None and not _has_errors(issues)
        plan = await self._plans.keep(me.org_uuid, chosen.id, new) if chosen is not None and runs else None
        after = self._activated(me, resource, draft)
        return Impact(
            inputs,
            await beside_loop(size_of(new.workflow_structure), difference, old, new),
            [*issues, *(check.issues() if check else ())],
            await self._impacts.waiting(me, id, chosen.id if chosen else "", plan),
            self._impacts.schedule(old, is_enabled=resource.is_enabled),
            self._impacts.schedule(new, is_enabled=after.is_enabled),
            inputs.policies_to_wire(check),
            await self._impacts.cost(me, id),
        )

    async def _inputs(
        self, work: UnitOfWork, me: Principal, resource: Resource, content: WorkflowContent, issues: list[Issue]
    ) -> DeployInputs:
        """What a deploy of this content depends on. What cannot run is not looked into."""
        runs = not _has_errors(issues)
        return DeployInputs(
            resource.active_variation_id,
            resource.draft_variation_id,
            await beside_loop(size_of(content), fingerprint, to_json(content)),
            await work.policies.page(limit=MOST_POLICIES),
            await self._policy_inputs(work, me, content, issues),
            await self._impacts.evaluations(work, me, content) if runs else [],
        )

    async def _check_seen(
        self, me: Principal, id: int, impact: Impact, work: UnitOfWork, draft: Variation | None
    ) -> None:
        """Raise _Outdated if what the impact depends on has changed since it was computed. Without a draft nothing is
        deployed, so that only one that was there then matters.
        """
        if draft is None:
            if impact.inputs.draft_id is not None:
                raise _Outdated
            return
        resource = await self._managed(work, me, id)
        issues = [issue for issue in impact.issues if issue.rule != "policy"]
        if await self._inputs(work, me, resource, draft.workflow, issues) != impact.inputs:
            raise _Outdated

    def _activated(self, me: Principal, resource: Resource, draft: Variation | None) -> Resource:
        """The workflow after the deploy. What is deleted cannot be deployed."""
        if resource.status is Status.DELETED:
            return resource
        return rules.deploy(resource, draft, by=me.user_id, now=self._ports.now()).resource


class _Outdated(Exception):
    """What an impact depends on has changed before its deploy."""


def _has_errors(issues: list[Issue]) -> bool:
    return any(issue.severity == "error" for issue in issues)
