"""The policies of an organization at a deploy: what they need is read, and they are checked in a thread."""

import asyncio
from collections.abc import Collection, Sequence
from typing import Final

import attrs

from wfcore.domain.kernel.errors import Issue, join_path
from wfcore.domain.resources.access import Principal, derive
from wfcore.domain.resources.content import Content, SkillContent, WorkflowContent
from wfcore.domain.resources.lifecycle import Status
from wfcore.domain.resources.supervision import subordinates
from wfcore.domain.rules.policies import MOST_POLICIES, Policy
from wfcore.domain.rules.policy_check import (
    Parts,
    PolicyVerdict,
    check_policies,
    check_skill_policies,
    lost_by_hand,
    references,
)
from wfcore.ports.storage import Storage, UnitOfWork

MOST_PARTS: Final = 1_000
"""The most workflows, and skills, that one check looks into."""


@attrs.frozen
class PolicyInputs:
    """All that the verdicts on a content depend on."""

    content: Content
    policies: Sequence[Policy] = ()
    parts: Parts = attrs.field(factory=Parts)


@attrs.frozen
class PolicyCheck:
    """The verdicts on the policies for these inputs."""

    inputs: PolicyInputs
    verdicts: Sequence[PolicyVerdict]

    def issues(self) -> list[Issue]:
        """One issue for each policy that is not kept: errors and warnings, by its severity."""
        found = [verdict.issue() for verdict in self.verdicts if not verdict.is_kept]
        if isinstance(self.inputs.content, WorkflowContent):
            return found
        return [attrs.evolve(issue, path="toolset") for issue in found]


async def read_inputs(work: UnitOfWork, me: Principal, content: Content) -> PolicyInputs:
    """The policies, and the active contents of all that the content refers to. The graph must be deployable."""
    policies = await work.policies.page(limit=MOST_POLICIES)
    if not policies:
        return PolicyInputs(content)
    workflows, skills = set[int](), set[int]()
    if isinstance(content, WorkflowContent):
        workflows, skills = references(content)
    else:
        skills = subordinates(content)
    known, hidden = await _workflows(work, me, workflows, skills)
    return PolicyInputs(content, policies, Parts(known, await skill_contents(work, skills), hidden))


async def check_inputs(inputs: PolicyInputs, known: PolicyCheck | None = None) -> PolicyCheck:
    """The verdicts, from `known` if its inputs are the same. The work is done in a thread."""
    if known is not None and known.inputs == inputs:
        return known
    if not inputs.policies:
        return PolicyCheck(inputs, ())
    content, policies, parts = inputs.content, inputs.policies, inputs.parts
    if isinstance(content, WorkflowContent):
        return PolicyCheck(inputs, await asyncio.to_thread(check_policies, content, policies, parts))
    return PolicyCheck(inputs, await asyncio.to_thread(check_skill_policies, content, policies, parts))


async def by_hand_issues(
    storage: Storage, me: Principal, workflow_id: int, variation_id: str, nodes: Collection[str]
) -> list[Issue]:
    """Issues of `outputs` that approve these nodes by hand, if a policy of severity `error` leaves that to people."""
    async with storage.reading(me.org_uuid) as work:
        variation = await work.workflows.variation(workflow_id, variation_id)
        if variation is None:
            return []  # a draft that is gone: policies are about what is deployed
        inputs = await read_inputs(work, me, variation.workflow)
    strict = [policy for policy in inputs.policies if policy.severity == "error"]
    lost = await asyncio.to_thread(lost_by_hand, variation.workflow, strict, inputs.parts, nodes) if strict else []
    why = "requires that people decide it: leave this output out"
    return [Issue(join_path("outputs", name), f"policy `{policy.name[:100]}` {why}", "policy") for policy, name in lost]


async def _workflows(
    work: UnitOfWork, me: Principal, waiting: set[int], skills: set[int]
) -> tuple[dict[int, WorkflowContent], frozenset[int]]:
    """The contents of these workflows and of those that they call, and which the principal cannot use; adds to
    `skills` those that they use.
    """
    found, hidden, known = dict[int, WorkflowContent](), set[int](), set[int]()
    while waiting and len(known) < MOST_PARTS:
        number = waiting.pop()
        known.add(number)
        flow = await work.workflows.get(number)
        if flow is None or flow.status is not Status.ACTIVE:
            continue
        variation = await work.workflows.variation(number, flow.active_variation_id or "")
        if variation is None:
            continue
        found[number] = variation.workflow
        if not derive(me, flow.access).can_use:
            hidden.add(number)
        called, used = references(variation.workflow)
        waiting |= called - known
        skills |= used
    return found, frozenset(hidden)


async def skill_contents(work: UnitOfWork, named: set[int]) -> dict[int, SkillContent]:
    """The active contents of these skills and of those below them."""
    found, known, waiting = dict[int, SkillContent](), set[int](), set(named)
    while waiting and len(known) < MOST_PARTS:
        number = waiting.pop()
        known.add(number)
        skill = await work.skills.get(number)
        active = skill.active_variation_id if skill is not None and skill.status is Status.ACTIVE else None
        variation = None if active is None else await work.skills.variation(number, active)
        if variation is not None:
            found[number] = variation.skill
            waiting |= subordinates(variation.skill) - known
    return found
