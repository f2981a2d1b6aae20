"""The impact of a deploy: what publishing the draft of a workflow would change (interface, Impact)."""

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import timedelta
from typing import Final

import attrs

from wfcore.domain.json.codec import canonical, fingerprint, to_ms
from wfcore.domain.json.values import to_json
from wfcore.domain.kernel.errors import Issue
from wfcore.domain.kernel.ids import iso
from wfcore.domain.kernel.json_readers import as_list
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.projections.cost import to_money
from wfcore.domain.projections.verdicts import case_states
from wfcore.domain.resources.access import Principal, derive
from wfcore.domain.resources.content import WorkflowContent
from wfcore.domain.resources.differences import Difference
from wfcore.domain.resources.resource import Kind
from wfcore.domain.rules.policies import Policy
from wfcore.domain.rules.policy_check import references
from wfcore.domain.run import entries as e
from wfcore.domain.run.plan import Plan
from wfcore.domain.triggers.schedule import next_fires, schedule_of
from wfcore.ports.journal import RunFilter
from wfcore.ports.storage import UnitOfWork
from wfcore.runtime.common.loop_slice import beside_loop, size_of
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.common.preconditions import tag_of_bytes
from wfcore.runtime.execution.plans import Plans
from wfcore.runtime.resources.policy_checks import PolicyCheck, PolicyInputs, skill_contents
from wfcore.runtime.rollout.moves import misfits, waiting_runs
from wfcore.runtime.runs.reading import LATEST

MOST_CHECKED: Final = 1_000
"""Waiting runs whose journal is read; the newest. Others are counted."""

MOST_DIFFERENCES: Final = 20
"""Differences that are shown for the runs of one variation."""

FIRINGS: Final = 5
"""The next firings of a schedule that are shown."""

MOST_RUNS: Final = 1_000
"""The most runs, of the last `PERIOD`, from which the cost is estimated: the newest."""
PERIOD: Final = timedelta(days=30)
PAGE: Final = 500

PREFIX: Final = '"impact-'
"""How the entity tag of an impact begins."""


@attrs.frozen
class WaitingRuns:
    """The waiting runs of one variation that fit the draft, or do not. `fits` is None for what was not checked."""

    variation_id: str | None
    fits: bool | None
    count: int = 0
    differences: tuple[JSON, ...] = ()

    def to_wire(self) -> dict[str, JSON]:
        return {
            "variationId": self.variation_id, "count": self.count, "fits": self.fits,
            "differences": list(self.differences),
        }  # fmt: skip


@attrs.frozen
class PlannedSchedule:
    """The trigger before or after the deploy, and when its schedule fires next, enabled or not."""

    trigger: JSON
    is_enabled: bool
    next_runs: Sequence[JSON]

    def to_wire(self) -> dict[str, JSON]:
        return {"trigger": self.trigger, "isEnabled": self.is_enabled, "nextRuns": list(self.next_runs)}


@attrs.frozen
class RunCost:
    """What the models of recent runs have consumed."""

    runs: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: int | None = None

    def to_wire(self) -> dict[str, JSON]:
        """The mean of a run; null without runs, and a cost that is null without a price."""
        if not self.runs:
            return {"runs": 0, "perRun": {"inputTokens": None, "outputTokens": None, "cost": None}}
        money = to_money(self.cost)
        each: dict[str, JSON] = {
            "inputTokens": round(self.input_tokens / self.runs),
            "outputTokens": round(self.output_tokens / self.runs),
            "cost": None if money is None else money / self.runs,
        }
        return {"runs": self.runs, "perRun": each}


@attrs.frozen
class DeployInputs:
    """What a deploy depends on, as one transaction reads it: what must be the same when it is done."""

    active_id: str | None
    draft_id: str | None
    content: str
    policies: Sequence[Policy]
    checked: PolicyInputs | None
    evaluations: Sequence[Mapping[str, JSON]]

    def policies_to_wire(self, check: PolicyCheck | None) -> list[dict[str, JSON]]:
        """The verdict on each policy; `unknown` for a content with errors, which is not checked."""
        if check is not None:
            return [verdict.to_wire() for verdict in check.verdicts]
        unknown: dict[str, JSON] = {"status": "unknown", "counterExample": None}
        return [{"policyId": one.id, "name": one.name, "severity": one.severity, **unknown} for one in self.policies]


@attrs.frozen
class Impact:
    """What a deploy would change."""

    inputs: DeployInputs
    difference: Difference
    issues: Sequence[Issue]
    waiting: Sequence[WaitingRuns]
    before: PlannedSchedule
    after: PlannedSchedule
    policies: Sequence[Mapping[str, JSON]]
    cost: RunCost

    @property
    def etag(self) -> str:
        """A strong validator of what a decision about the deploy depends on; counts and times are not part of it."""
        runs = sorted({(one.variation_id or "", str(one.fits)) for one in self.waiting})
        one = self.inputs
        parts: list[JSON] = [
            one.active_id, one.draft_id, one.content, [policy.to_wire() for policy in one.policies],
            [dict(verdict) for verdict in self.policies], [dict(state) for state in one.evaluations],
            [list(pair) for pair in runs],
        ]  # fmt: skip
        return PREFIX + tag_of_bytes(canonical(parts)).removeprefix('"')

    def to_wire(self) -> dict[str, JSON]:
        return {
            "diff": self.difference.to_wire(),
            "issues": [{**issue.to_wire(), "severity": issue.severity} for issue in self.issues],
            "waiting": [one.to_wire() for one in self.waiting],
            "schedule": {"before": self.before.to_wire(), "after": self.after.to_wire()},
            "policies": [dict(verdict) for verdict in self.policies],
            "evaluations": [dict(state) for state in self.inputs.evaluations],
            "cost": self.cost.to_wire(),
        }


class Impacts:
    """The parts of an impact that concern runs, schedules and evaluations."""

    def __init__(self, ports: Ports, plans: Plans) -> None:
        self._ports = ports
        self._plans = plans

    def schedule(self, content: WorkflowContent, *, is_enabled: bool) -> PlannedSchedule:
        """The schedule of this content."""
        schedule = schedule_of(content.trigger)
        firings = next_fires(schedule, self._ports.now(), FIRINGS) if schedule else []
        shown: list[JSON] = [{"at": iso(one.at), "local": one.local, "note": one.note} for one in firings]
        trigger = None if content.trigger is None else dict(content.trigger)
        return PlannedSchedule(trigger, is_enabled, shown)

    async def evaluations(self, work: UnitOfWork, me: Principal, content: WorkflowContent) -> list[dict[str, JSON]]:
        """The state of each case of the skills that the graph names, and of those below them, as far as the caller can
        manage them.
        """
        found: list[dict[str, JSON]] = []
        _, named = await beside_loop(size_of(content.workflow_structure), references, content)
        for number, skill in sorted((await skill_contents(work, named)).items()):
            resource = await work.skills.get(number) if skill.evaluations else None
            if resource is not None and derive(me, resource.access).can_manage:
                rows = await self._ports.journal.verdicts.latest(me.org_uuid, number, fingerprint(to_json(skill)))
                found += [{"skillId": number, **state} for state in case_states(skill, rows)]
        return found

    async def waiting(self, me: Principal, workflow: int, variation_id: str, plan: Plan | None) -> list[WaitingRuns]:
        """The waiting runs of a workflow by their variation, and whether they fit this one, whose plan it is."""
        found = dict[tuple[str | None, bool | None], WaitingRuns]()
        async for variation, fits, differences in self._fits(me, workflow, variation_id, plan):
            known = found.get((variation, fits)) or WaitingRuns(variation, fits)
            new = [one for one in differences if one not in known.differences]
            shown = (*known.differences, *new)[:MOST_DIFFERENCES]
            found[variation, fits] = attrs.evolve(known, count=known.count + 1, differences=shown)
        return list(found.values())

    async def _fits(
        self, me: Principal, workflow: int, variation_id: str, plan: Plan | None
    ) -> AsyncIterator[tuple[str | None, bool | None, Sequence[JSON]]]:
        """The variation of each waiting run, whether it fits, and if not, why."""
        pinned = (Kind.WORKFLOW.value, workflow, variation_id)
        checked = 0
        async for row in waiting_runs(self._ports, me.org_uuid, workflow):
            if row.variation_id == variation_id:
                yield row.variation_id, True, ()
            elif plan is None or checked == MOST_CHECKED:
                yield row.variation_id, None, ()
            else:
                checked += 1
                turn = await self._ports.journal.find_turn(me.org_uuid, row.id)
                if turn is None:
                    continue
                machine = await self._plans.machine(turn[1])
                machine.plans = {**machine.plans, pinned: plan}
                why = misfits(machine, e.Moved(machine.at, machine.starter, pinned))
                if why is None or why.reason == "incompatible":
                    yield row.variation_id, why is None, as_list(why.info["differences"]) if why else ()

    async def cost(self, me: Principal, workflow: int) -> RunCost:
        """The usage of the newest runs of the last 30 days."""
        now = self._ports.now()
        since, runs, before = to_ms(now - PERIOD), 0, LATEST
        where = RunFilter(kind=Kind.WORKFLOW.value, resource_id=workflow, since=since)
        while True:
            rows = await self._ports.journal.list_runs(me.org_uuid, limit=PAGE, before=before, where=where)
            for row in rows:
                runs += row.parent_run_id is None
                if runs == MOST_RUNS:
                    since = row.created_at
                    break
            if runs == MOST_RUNS or len(rows) < PAGE:
                break
            before = rows[-1].key
        sums = await self._ports.journal.usage.sums(me.org_uuid, "workflow", since=since, until=to_ms(now) + 1)
        total = next((one for one in sums if one.key == str(workflow)), None)
        if total is None:
            return RunCost(runs)
        return RunCost(runs, total.input_tokens, total.output_tokens, total.cost)
