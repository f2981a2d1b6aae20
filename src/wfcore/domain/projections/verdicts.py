"""The verdicts of evaluations, from the runs of their cases, and the cases that prevent a deploy."""

from collections.abc import Iterable
from typing import Final

import attrs

from wfcore.domain.evaluations.cases import EvaluationCase, cases_of
from wfcore.domain.evaluations.checks import Observed, results_of
from wfcore.domain.json.values import given, structure
from wfcore.domain.kernel.json_readers import as_object, as_text, optional_object
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.projections.verdict_rows import VerdictRow
from wfcore.domain.resources.content import SkillContent
from wfcore.domain.run.machine.machine import Machine
from wfcore.domain.run.plan import judge_of
from wfcore.domain.run.state import RunStatus

AGENT: Final = "agent"
"""The id of the node whose output is checked."""


def verdict_of(machine: Machine) -> VerdictRow | None:
    """The verdict of the execution, pending as long as it has not ended; None if it is not that of an evaluation."""
    evaluation = optional_object(machine.info.get("evaluation"))
    if evaluation is None or machine.state.evaluated is None:
        return None
    case = structure(EvaluationCase, as_object(evaluation["case"]))
    skill = as_object(machine.info["target"])["id"]
    content, name = as_text(evaluation["content"]), as_text(evaluation["id"])
    row = VerdictRow(skill if isinstance(skill, int) else 0, content, name, case.id, machine.run_id, machine.at)
    if not machine.ended:
        return row
    passed, body = _ended(machine, case)
    return attrs.evolve(row, passed=passed, body=body)


def _ended(machine: Machine, case: EvaluationCase) -> tuple[bool, dict[str, JSON]]:
    """`passed` and `body` after the end. A case that gave no output has no results of checks, and has not passed."""
    observed = _observed(machine, case)
    results = results_of(case, observed) if AGENT in machine.nodes else []
    is_done, failure = machine.status is RunStatus.done, optional_object(machine.error)
    error = as_text(failure["message"]) if failure else None if is_done else "the run was cancelled"
    body: dict[str, JSON] = {
        "checks": [one.to_wire() for one in results],
        "output": observed.output,
        "toolCalls": [dict(call) for call in observed.tool_calls],
        "cost": observed.cost,
        "error": error,
    }
    return is_done and all(one.passed for one in results), body


def _observed(machine: Machine, case: EvaluationCase) -> Observed:
    """What the run did. A judge that failed, or was not reached, has no judgement."""
    evaluated, outputs = machine.state.evaluated, machine.nodes
    assert evaluated is not None  # noqa: S101  (the machine is that of an evaluation)
    judgements = {
        place: as_object(outputs[judge_of(place)]["output"])
        for place in range(len(case.checks))
        if judge_of(place) in outputs
    }
    output = outputs[AGENT]["output"] if AGENT in outputs else None
    return Observed(output, evaluated.calls, evaluated.cost, judgements)


# What prevents a deploy


def unmet(content: SkillContent, verdicts: Iterable[VerdictRow]) -> list[dict[str, JSON]]:
    """The required cases of this content that have not passed: `{"caseId", "name", "state", "runId"}`.

    `verdicts` are the newest of each case on the same content. The state is `failed`, `running` or `never_ran`.
    """
    return [
        {name: value for name, value in one.items() if name != "required"}
        for one in case_states(content, verdicts)
        if one["required"] and one["state"] != "passed"
    ]


def case_states(content: SkillContent, verdicts: Iterable[VerdictRow]) -> list[dict[str, JSON]]:
    """The state of each case of this content: `{"caseId", "name", "required", "state", "runId"}`.

    `verdicts` are the newest of each case on the same content. The state is `passed`, `failed`, `running` or
    `never_ran`.
    """
    newest = {row.case_id: row for row in verdicts}
    return [_case_state(case, newest.get(case.id)) for case in cases_of(content)]


def _case_state(case: EvaluationCase, row: VerdictRow | None) -> dict[str, JSON]:
    states = {None: "running", True: "passed", False: "failed"}
    return {
        "caseId": case.id,
        "name": given(case.name),
        "required": bool(given(case.required)),
        "state": "never_ran" if row is None else states[row.passed],
        "runId": None if row is None else row.run_id,
    }
