"""The verdict of a run of an evaluation, and the cases that prevent a deploy."""

from typing import Any

import attrs
import pytest

from wfcore.domain.projections.verdict_rows import VerdictRow
from wfcore.domain.projections.verdicts import case_states, unmet, verdict_of
from wfcore.domain.resources.content import SkillContent
from wfcore.domain.run.effects import CallModel, CallTool, OpenChild
from wfcore.domain.run.plan import evaluation_plan, skill_plan
from wfcore.domain.run.records import MessageRecord
from wfcore.testing.histories import History

LOOK = {"name": "look", "toolId": "look", "requiresApproval": True,
        "parameters": {"type": "object", "required": ["q"]}}  # fmt: skip
HELP = {"name": "skill_help", "toolId": "skill:2", "kind": "skill", "resourceId": 2}
CONTEXT = {"model": "m", "human": {"content": "hi"}, "tools": [LOOK, HELP]}


def evaluated(*checks: Any, tools: Any = None, **more: Any) -> History:
    """The run of a case whose agent has its context."""
    case = {"id": "a", "input": {"message": "hi"}, "checks": list(checks), "tools": tools or {}, **more}
    about = {"id": "e-1", "content": "digest", "case": case}
    info = {"message": "hi", "evaluation": about, "target": {"type": "skill", "id": 1}}
    return History(evaluation_plan(1, case), info=info).succeed("agent", CONTEXT)


def calls(*named: tuple[str, Any]) -> dict[str, Any]:
    return {"toolCalls": [{"id": f"c{at}", "name": name, "args": args} for at, (name, args) in enumerate(named)]}


def verdict(history: History) -> VerdictRow:
    found = verdict_of(history.machine)
    assert found is not None
    return found


CONTAINS = {"kind": "contains", "value": "tea"}


@pytest.mark.parametrize(("said", "passed"), [("a tea", True), ("a coffee", False)])
def test_the_verdict_comes_with_the_end(said: str, passed: bool) -> None:
    """Until then it is pending; then it has the results of all checks, and what they were applied to."""
    history = evaluated(CONTAINS)
    pending = verdict(history)
    assert pending == VerdictRow(1, "digest", "e-1", "a", "run-1", history.at)
    history.succeed("agent", said)
    message = "" if passed else 'the output does not contain `"tea"`'
    result = {"kind": "contains", "passed": passed, "message": message}
    body = {"checks": [result], "output": said, "toolCalls": [], "cost": None, "error": None}
    assert verdict(history) == attrs.evolve(pending, at=history.at, passed=passed, body=body)


def test_a_run_of_something_else_has_no_verdict() -> None:
    assert verdict_of(History(skill_plan(1), info={"message": "hi"}).machine) is None


def test_tools_are_stubbed_and_recorded() -> None:
    """No tool is called and no approval requested: the model gets the stub's output, or null."""
    history = evaluated({"kind": "toolCalled", "tool": "look", "args": {"q": 1}}, tools={"look": {"found": 2}})
    history.succeed("agent", calls(("look", {"q": 1}), ("look", {}), ("none", {})))
    effect = history.effect("agent")
    assert isinstance(effect, CallModel)
    assert not history.machine.interrupts
    contents = [message["content"] for message in effect.transcript if message["type"] == "tool"]
    assert contents == ['{"found":2}', "error: `params.q`: `q` is missing", "error: there is no tool `none`"]
    made = verdict(history.succeed("agent", "done")).body["toolCalls"]
    assert isinstance(made, list)
    assert made[0] == {"tool": "look", "args": {"q": 1}, "output": {"found": 2}}
    assert [(one["tool"], "error" in one) for one in made] == [("look", False), ("look", True), ("none", True)]
    assert verdict(history).passed


def test_a_tool_without_a_stub_gives_null() -> None:
    history = evaluated(CONTAINS).succeed("agent", calls(("look", {"q": 1})))
    assert not any(isinstance(effect, CallTool) for effect in history.machine.pending.values())
    assert history.effect("agent").transcript[-1]["content"] == "null"  # type: ignore[union-attr]


def test_a_subordinate_runs_unless_it_is_stubbed() -> None:
    history = evaluated(CONTAINS).succeed("agent", calls(("skill_help", {"message": "x"})))
    assert isinstance(next(iter(history.machine.pending.values())), OpenChild)
    stubbed = evaluated(CONTAINS, tools={"skill:2": "helped"}).succeed("agent", calls(("skill_help", {"message": "x"})))
    assert isinstance(stubbed.effect("agent"), CallModel)


def test_an_ordinary_run_calls_its_tools() -> None:
    """A run that is not an evaluation is not changed by any of this."""
    history = History(skill_plan(1), info={"message": "hi"}).succeed("agent", CONTEXT)
    history.succeed("agent", calls(("look", {"q": 1})))
    assert len(history.machine.interrupts) == 1


JUDGE = {"kind": "judge", "criteria": "is it {{ polite }}?", "model": "wise"}


@pytest.mark.parametrize(("passed", "reason"), [(True, "it is"), (False, "it is not")])
def test_judges_follow_the_agent(passed: bool, reason: str) -> None:
    """A judge sees criteria, message and output as data, with its own model; its judgement is the check's result."""
    history = evaluated(CONTAINS, JUDGE).succeed("agent", "tea")
    effect = history.effect("judge-1")
    assert isinstance(effect, CallModel)
    assert effect.model == "wise"
    text = str(effect.messages[-1]["content"])
    assert "is it {{ polite }}?" in text
    assert "<message>\nhi\n</message>" in text
    assert "<output>\ntea\n</output>" in text
    history.succeed("judge-1", f'{{"passed": {str(passed).lower()}, "reason": "{reason}"}}')
    found = verdict(history)
    assert found.passed is passed
    assert found.body["output"] == "tea"
    assert found.body["checks"][1] == {"kind": "judge", "passed": passed, "message": "" if passed else reason}  # type: ignore[index, call-overload]


def test_a_judge_that_fails_fails_the_case() -> None:
    """The other checks have their results."""
    history = evaluated(CONTAINS, JUDGE).succeed("agent", "tea").fail("judge-1", retryable=False)
    found = verdict(history)
    assert found.passed is False
    assert found.body["error"]
    assert [one["passed"] for one in found.body["checks"]] == [True, False]  # type: ignore[union-attr, index, call-overload]


def test_an_agent_that_fails_fails_the_case() -> None:
    found = verdict(evaluated(CONTAINS).fail("agent", retryable=False))
    assert (found.passed, found.body["checks"]) == (False, [])
    assert found.body["error"]


def test_a_cancelled_run_has_not_passed() -> None:
    found = verdict(evaluated({"kind": "equals", "value": None}).cancel())
    assert (found.passed, found.body["error"]) == (False, "the run was cancelled")


def test_the_cost_is_that_of_the_agents() -> None:
    """Not that of judges; a copy of the machine counts on its own."""
    usage = {"model": "m", "calls": 1, "inputTokens": 1, "outputTokens": 1, "cost": 0.25}
    history = evaluated({"kind": "cel", "expression": "cost == 0.5"}, JUDGE)
    history.succeed("agent", calls(("look", {"q": 1})), usage=usage)
    twin = history.machine.copy()
    history.succeed("agent", "tea", usage=usage).succeed("judge-1", '{"passed": true, "reason": ""}', usage=usage)
    found = verdict(history)
    assert (found.passed, found.body["cost"]) == (True, 0.5)
    assert history.machine.usage["cost"] == 0.75
    assert twin.state.evaluated is not None
    assert (twin.state.evaluated.cost, len(twin.state.evaluated.calls)) == (0.25, 1)
    assert [one.type for one in history.records if isinstance(one, MessageRecord)] == ["human", "ai", "tool", "ai"]


def test_what_prevents_a_deploy() -> None:
    """Required cases that failed, are running, or never ran; a case that passed, or is not required, does not."""
    shared = {"input": {"message": "x"}, "checks": [CONTAINS]}
    cases = [{"id": name, "name": name.upper(), **shared, "required": name != "e"} for name in "abcde"]
    row = VerdictRow(1, "digest", "e-1", "", "", 0)
    verdicts = [attrs.evolve(row, case_id=name, run_id=f"r-{name}", passed=passed)
                for name, passed in (("a", True), ("b", False), ("c", None), ("e", False))]  # fmt: skip
    assert unmet(SkillContent(evaluations=cases), verdicts) == [
        {"caseId": "b", "name": "B", "state": "failed", "runId": "r-b"},
        {"caseId": "c", "name": "C", "state": "running", "runId": "r-c"},
        {"caseId": "d", "name": "D", "state": "never_ran", "runId": None},
    ]
    assert unmet(SkillContent(), ()) == []
    states = case_states(SkillContent(evaluations=cases), verdicts)
    assert [(one["caseId"], one["required"], one["state"], one["runId"]) for one in states] == [
        ("a", True, "passed", "r-a"), ("b", True, "failed", "r-b"), ("c", True, "running", "r-c"),
        ("d", True, "never_ran", None), ("e", False, "failed", "r-e"),
    ]  # fmt: skip
