"""Evaluations of skills: durable runs that touch nothing outside, verdicts, and the check of a deploy."""

import asyncio
from typing import Any

import pytest
from bench import Bench, opened, reason
from chatting import serving
from hooking import delivered, hooked, messages
from waiting import HANG

from wfcore.adapters.models.scripted import ScriptedModel
from wfcore.domain.kernel.errors import Forbidden, Invalid, Malformed, NotFound
from wfcore.domain.projections.cost import Price
from wfcore.runtime.common.installation import Settings
from wfcore.runtime.runs.evaluations import EvaluationResults, EvaluationView

pytestmark = pytest.mark.anyio

LOOK = {"content": "", "toolCalls": [{"name": "echo", "args": {"value": "tea"}}]}
TEA = {"id": "tea", "required": True, "input": {"message": "what?"}, "checks": [{"kind": "contains", "value": "tea"}]}


def reply(request: Any) -> Any:
    """Look the message up, then give back what was found; a judge finds everything good that has tea in it."""
    said = str(request.messages[-1]["content"])
    if request.output_schema is not None:
        return (
            '{"passed": true, "reason": "fine"}'
            if "tea" in said.partition("<output>")[2]
            else '{"passed": false, "reason": "no tea"}'
        )
    return f"found {said}" if request.messages[-1]["type"] == "tool" or not request.tools else LOOK


def modelled(**more: Any) -> dict[str, Any]:
    return {
        "models": {"default": ScriptedModel(reply)},
        "settings": Settings(prices={"default": Price(1e6, 1e6)}),
        **more,
    }


async def skill(bench: Bench, *cases: Any, **fields: Any) -> int:
    """A skill that was never deployed, with the tool `echo`, which needs approval."""
    toolset = {"echo": {"enabled": True, "requiresApproval": True}}
    made = await bench.core.skills.create(bench.me, name="A", toolset=toolset, evaluations=list(cases), **fields)
    return made.id


async def evaluated(bench: Bench, number: int, view: str = "draft", **more: Any) -> EvaluationView:
    """An evaluation whose runs have ended."""
    begun = await bench.core.evaluations.run(bench.me, number, view, **more)
    for run in begun.runs:
        await bench.ended(run)
    return begun


async def results(bench: Bench, number: int, *variations: str) -> EvaluationResults:
    return await bench.core.evaluations.results(bench.me, number, list(variations) or None)


def verdicts(found: EvaluationResults) -> dict[str, Any]:
    return {one.case.id: one.passed for one in found.results}


def stubbed(output: Any, **more: Any) -> dict[str, Any]:
    return {**TEA, "tools": {"echo": output}, **more}


@pytest.fixture(params=["memory", "sqlite"])
async def bench(request: pytest.FixtureRequest, database: str) -> Any:
    async with opened("sqlite://" if request.param == "memory" else database, **modelled()) as made:
        yield made


async def test_a_case_is_a_run_whose_tools_are_stubbed(bench: Bench) -> None:
    """No tool is called, no approval requested, and the run names its origin; the result has all that was checked."""
    called = {"kind": "toolCalled", "tool": "echo", "args": {"value": "tea"}}
    judge = {"kind": "judge", "criteria": "it names a drink"}
    number = await skill(bench, stubbed({"drink": "tea"}, checks=[*TEA["checks"], called, judge], name="Tea"))  # type: ignore[misc]
    begun = await evaluated(bench, number)
    assert begun.to_wire() == {"id": begun.id}
    run = await bench.core.runs.get(bench.me, begun.runs[0].id)
    assert (run.status, run.to_wire()["origin"]) == ("done", "evaluation")
    assert run.to_wire()["startedBy"] == {"userId": "me", "kind": "evaluation"}
    assert bench.tools.calls == []
    (row,) = (await results(bench, number)).to_wire()["results"]  # type: ignore[union-attr, misc]
    variation = (await bench.core.skills.get(bench.me, number)).resource.draft_variation_id
    assert row == {
        "caseId": "tea", "name": "Tea", "required": True, "variationId": variation, "evaluationId": begun.id,
        "runId": run.id, "passed": True, "at": row["at"],  # type: ignore[index, call-overload]
        "checks": [{"kind": kind, "passed": True, "message": ""} for kind in ("contains", "toolCalled", "judge")],
        "output": 'found {"drink":"tea"}',
        "toolCalls": [{"tool": "echo", "args": {"value": "tea"}, "output": {"drink": "tea"}}],
        "cost": row["cost"], "error": None,  # type: ignore[index, call-overload]
    }  # fmt: skip
    assert row["cost"] > 0  # type: ignore[index, call-overload, operator]


async def test_a_case_has_an_end_user(bench: Bench) -> None:
    """The skill is told whom it serves."""
    number = await skill(bench, stubbed("tea", input={"message": "what?", "userContext": {"name": "Grace"}}))
    await evaluated(bench, number)
    model: Any = bench.core.ports.models["default"]
    assert "Name: Grace" in str(model.requests[0].messages[0]["content"])


async def test_it_is_no_part_of_conversations_and_memories(bench: Bench) -> None:
    """Its messages are in no conversation, and its context has no memories; its usage counts."""
    number = await skill(bench, stubbed("tea"))
    await bench.core.memories.create(bench.me, number, memory="what? always coffee")
    begun = await evaluated(bench, number)
    assert await bench.core.conversations.page(bench.me, 0) == []
    entries = await bench.core.ports.journal.read(begun.runs[0].row.execution)
    assert "coffee" not in str(entries)
    assert (await bench.core.usage.report(bench.me)).sums[0].calls == 2


async def test_a_deploy_requires_verdicts(bench: Bench) -> None:
    """A required case that never ran or failed on this very content is a conflict; then it is deployed."""
    number = await skill(bench, stubbed("coffee"), stubbed("coffee", id="free", required=False))
    core, me = bench.core, bench.me
    with pytest.raises(Exception, match="1 required evaluation has not passed") as error:
        await core.skills.deploy(me, number)
    assert error.value.info["cases"] == [{"caseId": "tea", "name": None, "state": "never_ran", "runId": None}]  # type: ignore[attr-defined]
    begun = await evaluated(bench, number)
    with pytest.raises(Exception, match="has not passed") as error:
        await core.skills.deploy(me, number)
    assert error.value.info["cases"][0] == {  # type: ignore[attr-defined]
        "caseId": "tea", "name": None, "state": "failed", "runId": begun.runs[0].id}  # fmt: skip
    assert verdicts(await results(bench, number)) == {"tea": False, "free": False}
    good = [stubbed("tea"), stubbed("coffee", id="free", required=False)]
    await core.skills.patch(me, number, evaluations=good)
    assert await reason(core.skills.deploy(me, number)) == "evaluations"
    await evaluated(bench, number)
    assert (await core.skills.deploy(me, number)).resource.status == "active"
    await core.skills.patch(me, number, instructions=["other"])
    assert await reason(core.skills.deploy(me, number)) == "evaluations"
    await core.skills.patch(me, number, instructions=[])
    assert (await core.skills.deploy(me, number)).resource.draft_variation_id is None


async def test_force_deploys_and_is_audited(bench: Bench, boss: Any) -> None:
    number = await skill(bench, TEA)
    assert (await bench.core.skills.deploy(bench.me, number, force=True)).resource.status == "active"
    (row,) = await bench.core.audit.page(boss, action="skill.force_deploy")
    assert row.row.details["cases"] == [{"caseId": "tea", "name": None, "state": "never_ran", "runId": None}]
    assert row.row.user_id == "me"


async def test_force_without_need_is_an_ordinary_deploy(bench: Bench, boss: Any) -> None:
    number = await skill(bench)
    await bench.core.skills.deploy(bench.me, number, {"force": True})
    assert await bench.core.audit.page(boss, action="skill.force_deploy") == []


async def test_variations_are_compared(bench: Bench) -> None:
    """Case by case, for the draft and the active variation or those that are named; newest results first win."""
    number = await skill(bench, stubbed("tea"))
    await evaluated(bench, number)
    await bench.core.skills.deploy(bench.me, number)
    await bench.core.skills.patch(bench.me, number, evaluations=[stubbed("coffee", name="Tea"), {**TEA, "id": "new"}])
    await evaluated(bench, number)
    resource = (await bench.core.skills.get(bench.me, number)).resource
    active, draft = str(resource.active_variation_id), str(resource.draft_variation_id)
    found = (await results(bench, number)).to_wire()["comparison"]
    assert found == [
        {"caseId": "tea", "name": "Tea", "passed": {draft: False, active: True}},
        {"caseId": "new", "name": None, "passed": {draft: False, active: None}},
    ]
    assert verdicts(await results(bench, number, active)) == {"tea": True}
    with pytest.raises(Invalid, match="unknown variation `none`"):
        await results(bench, number, active, "none")
    with pytest.raises(Malformed, match="at most 10"):
        await results(bench, number, *map(str, range(11)))


async def test_the_active_variation_can_be_evaluated(bench: Bench) -> None:
    number = await skill(bench, stubbed("tea"))
    assert await reason(bench.core.evaluations.run(bench.me, number, "active")) == "not_deployed"
    await bench.core.skills.deploy(bench.me, number, force=True)
    await evaluated(bench, number, "active")
    assert verdicts(await results(bench, number)) == {"tea": True}


async def test_the_same_key_is_the_same_evaluation(bench: Bench) -> None:
    """No case runs twice; with another content the key is refused."""
    number = await skill(bench, stubbed("tea"))
    first = await evaluated(bench, number, key="k")
    again = await evaluated(bench, number, key="k")
    assert (again.id, [run.id for run in again.runs]) == (first.id, [run.id for run in first.runs])
    await bench.core.skills.patch(bench.me, number, instructions=["x"])
    assert await reason(bench.core.evaluations.run(bench.me, number, key="k")) == "key_reused"
    assert (await bench.core.evaluations.run(bench.me, number)).id != first.id


async def test_who_may(bench: Bench) -> None:
    """Manage, and use to run them; others see no skill. A variation without cases cannot be evaluated."""
    group = await bench.core.directory.create_group(bench.org, "Makers")
    maker = bench.person("me", groups=(group.id,))
    rights = {bench.org: {"use": True, "manage": False}, group.id: {"use": False, "manage": True}}
    private = {"visibility": "private", "groupPermissions": {}}
    hidden = await skill(bench, TEA, access=private)
    fields = {"access": {"visibility": "shared", "groupPermissions": rights}, "evaluations": [TEA]}
    shared = (await bench.core.skills.create(maker, name="B", **fields)).id  # type: ignore[arg-type]
    await bench.core.skills.deploy(maker, shared, force=True)
    for call in (bench.core.evaluations.run, bench.core.evaluations.results):
        with pytest.raises(NotFound):
            await call(bench.other, hidden)
        with pytest.raises(Forbidden):
            await call(bench.other, shared)
    stranger = bench.person("x", groups=(group.id,))
    assert (await bench.core.evaluations.results(stranger, shared)).results == []
    empty = await skill(bench)
    with pytest.raises(Invalid, match="has no cases"):
        await bench.core.evaluations.run(bench.me, empty)
    with pytest.raises(Malformed, match="unknown view `old`"):
        await bench.core.evaluations.run(bench.me, hidden, "old")


async def test_it_is_not_retried_or_forked(bench: Bench) -> None:
    """Its verdict is about one content: it is run again as a whole."""
    number = await skill(bench, {**TEA, "checks": [{"kind": "judge", "criteria": "x", "model": "gone"}]})
    begun = await evaluated(bench, number)
    assert verdicts(await results(bench, number)) == {"tea": False}
    run = begun.runs[0].id
    assert await reason(bench.core.runs.retry(bench.me, run)) == "evaluation"
    assert await reason(bench.core.runs.fork(bench.me, run, before="agent")) == "evaluation"
    with pytest.raises(Invalid, match="there is no model `gone`"):
        await bench.core.skills.deploy(bench.me, number, force=True)


async def test_a_cancelled_case_has_not_passed(database: str) -> None:
    """A pending verdict is written with the begin, so that results say that the case runs."""
    model = ScriptedModel("tea", delay=30)
    async with opened(database, models={"default": model}) as bench:
        number = await skill(bench, TEA)
        (run,) = (await bench.core.evaluations.run(bench.me, number)).runs
        assert verdicts(await results(bench, number)) == {"tea": None}
        assert await reason(bench.core.skills.deploy(bench.me, number)) == "evaluations"
        await bench.core.runs.cancel(bench.me, run.id)
        assert verdicts(await results(bench, number)) == {"tea": False}


async def test_verdicts_survive_a_restart(database: str) -> None:
    """A run that was under way is finished by the next process, and its verdict counts."""
    async with opened(database, **modelled(worker=False)) as bench:
        number = await skill(bench, stubbed("tea"))
        (run,) = (await bench.core.evaluations.run(bench.me, number)).runs
        org = bench.org
    async with opened(database, org=org, **modelled()) as bench:
        async with asyncio.timeout(HANG):
            await bench.ended(run.id)
        assert verdicts(await results(bench, number)) == {"tea": True}
    async with opened(database, org=org, **modelled()) as bench:
        await bench.core.skills.deploy(bench.me, number)


async def test_hooks_are_notified_of_failed_cases() -> None:
    """`evaluation.failed`, and no event of ordinary runs."""
    more = modelled()
    more["settings"] = Settings(http_allow=("127.0.0.1",))
    async with opened("sqlite://", **more) as bench, serving() as chat:
        await hooked(bench, chat, events=["evaluation.failed", "run.finished", "run.failed"])
        number = await skill(bench, stubbed("tea"), stubbed("coffee", id="bad"))
        begun = await evaluated(bench, number)
        assert await delivered(bench) == 1
        ((event, data),) = messages(chat)
        assert event == "evaluation.failed"
        assert (data["skillId"], data["runId"], data["status"]) == (number, begun.runs[1].id, "done")
