"""Evaluations of skills: each case is a durable run whose tools are stubbed, and its verdict is written with its end.

Conversations, memories and the events of other runs do not include such a run. Its model calls count as usage.
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Final, Literal

import attrs

from wfcore.domain.evaluations.cases import EvaluationCase, cases_of
from wfcore.domain.json.codec import fingerprint, iso_ms
from wfcore.domain.json.values import given, to_json
from wfcore.domain.kernel.errors import Issue, refuse
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.projections.verdict_rows import VerdictRow
from wfcore.domain.resources.access import Principal
from wfcore.domain.resources.lifecycle import Operation, move
from wfcore.domain.resources.resource import Resource, Variation
from wfcore.domain.run.plan import evaluation_plan
from wfcore.ports.storage import UnitOfWork
from wfcore.runtime.common.authorization import authorize, needs
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.common.requests import key_issues
from wfcore.runtime.common.run_views import RunView
from wfcore.runtime.runs.bodies import RequestedRun, short_fingerprint
from wfcore.runtime.runs.runs import Runs
from wfcore.runtime.runs.targets import Target

MOST_VARIATIONS: Final = 10
"""The most variations whose results are compared at once."""

View = Literal["active", "draft"]


@attrs.frozen
class EvaluationView:
    """An evaluation that has begun: a run for each case."""

    id: str
    runs: Sequence[RunView]

    def to_wire(self) -> dict[str, JSON]:
        return {"id": self.id}


@attrs.frozen
class CaseResult:
    """The newest verdict on a case of a variation."""

    case: EvaluationCase
    variation_id: str
    verdict: VerdictRow

    @property
    def passed(self) -> bool | None:
        """None as long as the run has not ended."""
        return self.verdict.passed

    def to_wire(self) -> dict[str, JSON]:
        row = self.verdict
        unknown: dict[str, JSON] = {"checks": [], "output": None, "toolCalls": [], "cost": None, "error": None}
        return {
            "caseId": self.case.id,
            "name": given(self.case.name),
            "required": bool(given(self.case.required)),
            "variationId": self.variation_id,
            "evaluationId": row.evaluation_id,
            "runId": row.run_id,
            "passed": row.passed,
            "at": iso_ms(row.at),
            **unknown,
            **row.body,
        }


@attrs.frozen
class EvaluationResults:
    """The newest results of some variations, and a comparison of them case by case."""

    variations: Sequence[Variation]
    results: Sequence[CaseResult]

    def to_wire(self) -> dict[str, JSON]:
        passed = {(one.case.id, one.variation_id): one.passed for one in self.results}
        cases = {case.id: case for variation in reversed(self.variations) for case in cases_of(variation.skill)}
        return {
            "results": [one.to_wire() for one in self.results],
            "comparison": [
                {
                    "caseId": case.id,
                    "name": given(case.name),
                    "passed": {one.id: passed.get((case.id, one.id)) for one in self.variations},
                }
                for case in cases.values()
            ],
        }


class Evaluations:
    """Runs the cases of a skill and reads their results. Both require manage of the skill, running them use too."""

    def __init__(self, ports: Ports, runs: Runs) -> None:
        self._ports = ports
        self._runs = runs

    @needs("skills:read", "workflows:invoke")
    async def run(self, me: Principal, skill: int, view: str = "draft", *, key: str | None = None) -> EvaluationView:
        """Begin a run for each case of the draft, which is the active variation without a draft, or of that one.

        `key` is an Idempotency-Key: the same key returns the same evaluation. Errors: NotFound, Forbidden; Invalid for
        a variation without cases; Conflict with `info.reason` `deleted`, `not_deployed` or `key_reused`.
        """
        refuse([*key_issues(key), *_view_issues(view)])
        async with self._ports.storage.reading(me.org_uuid) as work:
            resource = await self._allowed(work, me, skill)
            authorize(me, resource, "use")
            move(resource.status, Operation.RUN_DRAFT if view == "draft" else Operation.RUN)
            chosen = (resource.draft_variation_id if view == "draft" else None) or resource.active_variation_id
            variation = await work.skills.variation(skill, chosen or "")
        cases = cases_of(variation.skill) if variation else []
        if variation is None or not cases:
            refuse([Issue("evaluations", "this variation has no cases", "required_if")])
        assert variation is not None  # noqa: S101  (refused)
        name = self._ports.ids.uuid() if key is None else _id_of(me, skill, key)
        target = variation, variation.id == resource.draft_variation_id
        return EvaluationView(name, [await self._begin(me, skill, target, name, case) for case in cases])

    async def _begin(
        self, me: Principal, skill: int, target: tuple[Variation, bool], name: str, case: EvaluationCase
    ) -> RunView:
        """Begin the run of one case; `target` is the variation and whether it is a draft. Durable when it returns."""
        (variation, is_draft), tree, uuid = target, to_json(case), self._ports.ids.uuid
        content = fingerprint(to_json(variation.content))
        run = RequestedRun(
            f"{name}.{case.id}",
            short_fingerprint([me.user_id, "evaluation", skill, content, case.id]),
            "thread_" + uuid().replace("-", ""),
            uuid(),
            "evaluation",
            "evaluation",
        )
        evaluation: JSON = {"id": name, "content": content, "case": tree}
        plan = Target("skill", evaluation_plan(skill, tree), skill, variation.id, is_draft=is_draft)
        return await self._runs.launch(me, plan, run, {}, {**_sent(case), "evaluation": evaluation})

    @needs("skills:read")
    async def results(self, me: Principal, skill: int, variations: Sequence[str] | None = None) -> EvaluationResults:
        """The newest result of each case of these variations; by default of the draft and the active one.

        The result of another variation with the same content counts for both. NotFound; Forbidden without manage;
        Invalid for an unknown variation and for more than 10.
        """
        async with self._ports.storage.reading(me.org_uuid) as work:
            resource = await self._allowed(work, me, skill)
            own = [one for one in (resource.draft_variation_id, resource.active_variation_id) if one]
            chosen = own if variations is None else list(dict.fromkeys(variations))
            if len(chosen) > MOST_VARIATIONS:
                refuse([Issue("variationId", f"at most {MOST_VARIATIONS} variations are compared", "query")])
            read = {name: await work.skills.variation(skill, name) for name in chosen}
        refuse(
            Issue("variationId", f"unknown variation `{name[:80]}`", "reference")
            for name, found in read.items()
            if found is None
        )
        found = [variation for variation in read.values() if variation is not None]
        results = [result for variation in found for result in await self._results(me, skill, variation)]
        return EvaluationResults(found, results)

    async def _results(self, me: Principal, skill: int, variation: Variation) -> list[CaseResult]:
        rows = await self._ports.journal.verdicts.latest(me.org_uuid, skill, fingerprint(to_json(variation.content)))
        newest = {row.case_id: row for row in rows}
        cases = cases_of(variation.skill)
        return [CaseResult(case, variation.id, newest[case.id]) for case in cases if case.id in newest]

    async def _allowed(self, work: UnitOfWork, me: Principal, skill: int) -> Resource:
        resource = await work.skills.get(skill)
        authorize(me, resource, "manage")
        assert resource is not None  # noqa: S101  (authorize raised)
        return resource


def _sent(case: EvaluationCase) -> dict[str, JSON]:
    """The fields of the variable `run` that a message of an end user would have."""
    user: Mapping[str, JSON] | None = None if (one := given(case.input.user_context)) is None else to_json(one)
    return {"message": case.input.message, **({} if user is None else {"userContext": dict(user)})}


def _id_of(me: Principal, skill: int, key: str) -> str:
    """The id of the evaluation that this user began with this key."""
    text = "\n".join((me.org_uuid, me.user_id, str(skill), key))
    return f"evaluation-{sha256(text.encode()).hexdigest()[:32]}"


def _view_issues(view: str) -> list[Issue]:
    known = view in ("active", "draft")
    return [] if known else [Issue("view", f"unknown view `{view[:80]}`: use `active` or `draft`", "query")]
