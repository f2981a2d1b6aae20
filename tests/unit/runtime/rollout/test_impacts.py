"""The impact of a deploy (interface, Impact), and deploys that are bound to it."""

from typing import Any

import pytest
from bench import Bench, act, agent, ask, graph, opened, private, reason

from wfcore.domain.kernel.errors import Forbidden, NotFound
from wfcore.domain.projections.cost import Price
from wfcore.runtime.common.installation import Settings
from wfcore.runtime.rollout import impacts

pytestmark = pytest.mark.anyio

LINE = graph("s>a a>w w:approved>b", a=act("echo", value=1), w=ask(), b=act("echo", value=2))
MENDED = graph("s>a a>w w:approved>b", a=act("echo", value=1), w=ask(), b=act("echo", value=3))
OTHER = graph("s>w w:approved>b", w=ask(), b=act("echo", value=2))
DAILY = {"trigger_type": "schedule", "schedule": {
    "frequency": "daily", "timezone": "Europe/Berlin", "time_of_day": "09:00"}}  # fmt: skip
CASE: Any = {"id": "hi", "name": "Greets", "input": {"message": "hello"}, "required": True,
             "checks": [{"kind": "contains", "value": "l"}]}  # fmt: skip


async def change(bench: Bench, number: int, structure: Any = None, **fields: Any) -> None:
    """Put this into the draft."""
    fields |= {} if structure is None else {"structure": structure}
    await bench.core.workflows.patch(bench.me, number, **fields)


async def impact(bench: Bench, number: int) -> Any:
    return await bench.core.workflows.impact(bench.me, number)


async def parked(bench: Bench, number: int) -> Any:
    return await bench.ended(await bench.core.runs.start(bench.me, workflow=number, input={}))


class TestWaiting:
    async def test_runs_are_counted_by_variation(self, bench: Bench) -> None:
        """Those that fit the draft, and those that do not with their differences, each once."""
        number = await bench.deployed(OTHER)
        for _ in range(2):
            await parked(bench, number)
        first = (await bench.core.workflows.get(bench.me, number)).active_variation_id
        await change(bench, number, LINE)
        await bench.core.workflows.deploy(bench.me, number)
        await parked(bench, number)
        second = (await bench.core.workflows.get(bench.me, number)).active_variation_id
        await change(bench, number, MENDED)
        wire = (await impact(bench, number)).to_wire()
        assert [(row["variationId"], row["count"], row["fits"]) for row in wire["waiting"]] == [
            (second, 1, True), (first, 2, False),
        ]  # fmt: skip
        assert [(one["nodeId"], one["what"]) for one in wire["waiting"][1]["differences"]] == [
            ("s", "edge"), ("w", "edge"),
        ]  # fmt: skip
        assert wire["diff"]["nodes"]["changed"] == [{"id": "b", "paths": ["data.params.value"]}]

    async def test_without_a_draft(self, bench: Bench) -> None:
        """Runs are held against what is deployed; those on it fit."""
        number = await bench.deployed(LINE)
        await parked(bench, number)
        wire = (await impact(bench, number)).to_wire()
        assert [(row["count"], row["fits"]) for row in wire["waiting"]] == [(1, True)]
        assert wire["diff"] == {
            "nodes": {"added": [], "removed": [], "changed": []}, "edges": {"added": [], "removed": [], "changed": []},
            "fields": [],
        }  # fmt: skip

    async def test_what_is_not_checked(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        """Beyond the newest runs, and while the draft has errors, it is not known whether they fit."""
        number = await bench.deployed(LINE)
        for _ in range(3):
            await parked(bench, number)
        await change(bench, number, MENDED)
        monkeypatch.setattr(impacts, "MOST_CHECKED", 2)
        wire = (await impact(bench, number)).to_wire()
        assert [(row["count"], row["fits"]) for row in wire["waiting"]] == [(2, True), (1, None)]
        await change(bench, number, graph("s>a", a=act("no_such_tool")))
        wire = (await impact(bench, number)).to_wire()
        assert [(row["count"], row["fits"]) for row in wire["waiting"]] == [(3, None)]
        assert [(issue["rule"], issue["severity"]) for issue in wire["issues"]] == [("reference", "error")]

    async def test_a_run_that_goes_on_meanwhile(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        """It is left out, as is one that is gone."""
        number = await bench.deployed(LINE)
        gone, on = await parked(bench, number), await parked(bench, number)
        await change(bench, number, MENDED)
        journal = bench.core.ports.journal
        find = journal.find_turn

        async def late(org: str, run_id: str) -> Any:
            if run_id == gone.id:
                return None
            await bench.core.runs.cancel(bench.me, on.id)
            return await find(org, run_id)

        monkeypatch.setattr(journal, "find_turn", late, raising=False)
        monkeypatch.setattr(bench.core.runs, "_visible", _seen(bench, find), raising=False)
        assert (await impact(bench, number)).waiting == []


def _seen(bench: Bench, find: Any) -> Any:
    async def visible(me: Any, run_id: str) -> Any:
        row, execution = await find(bench.org, run_id)
        return row, execution, True

    return visible


class TestSchedule:
    async def test_before_and_after(self, bench: Bench) -> None:
        """A schedule that the deploy switches on has its next times."""
        number = await bench.deployed(LINE)
        await change(bench, number, trigger=DAILY)
        schedule = (await impact(bench, number)).to_wire()["schedule"]
        assert (schedule["before"]["trigger"], schedule["before"]["nextRuns"]) == (None, [])
        assert schedule["before"]["isEnabled"] is False
        assert (schedule["after"]["trigger"], len(schedule["after"]["nextRuns"])) == (DAILY, 5)
        view = await bench.core.workflows.deploy(bench.me, number)
        assert schedule["after"]["isEnabled"] is view.is_enabled
        firings = await bench.core.workflows.next_runs(bench.me, number, count=1)
        assert schedule["after"]["nextRuns"][0]["local"] == firings[0].local

    async def test_a_deleted_workflow(self, bench: Bench) -> None:
        """Its manager sees the impact that a deploy would have had."""
        number = await bench.deployed(LINE)
        await bench.core.workflows.delete(bench.me, number)
        assert (await impact(bench, number)).to_wire()["schedule"]["after"]["isEnabled"] is False


class TestPolicies:
    async def test_the_verdict_on_each(self, bench: Bench, boss: Any) -> None:
        """Kept, broken with a path, or unknown for a draft with errors."""
        approval: Any = {"approval": {}}
        policies = bench.core.policies
        await policies.create(boss, {"name": "kept", "when": {"tool": "pay"}, "require": approval})
        await policies.create(boss, {"name": "late", "when": {"tool": "echo"}, "require": {"timeout": True},
                                     "severity": "warning"})  # fmt: skip
        number = await bench.deployed(LINE)
        wire = (await impact(bench, number)).to_wire()
        assert [(one["name"], one["status"], one["counterExample"]) for one in wire["policies"]] == [
            ("kept", "kept", None), ("late", "broken", ["s", "a"]),
        ]  # fmt: skip
        assert [(one["rule"], one["severity"]) for one in wire["issues"]] == [("policy", "warning")]
        await change(bench, number, graph("s>a", a=act("no_such_tool")))
        wire = (await impact(bench, number)).to_wire()
        assert [one["status"] for one in wire["policies"]] == ["unknown", "unknown"]

    async def test_none(self, bench: Bench) -> None:
        assert (await impact(bench, await bench.deployed(LINE))).to_wire()["policies"] == []


class TestEvaluations:
    async def test_the_states_of_cases(self, bench: Bench) -> None:
        """Of the skills that the graph uses, as far as the caller can manage them."""
        skill = await bench.core.skills.create(bench.me, name="expert", evaluations=[CASE])
        await bench.core.skills.deploy(bench.me, skill.id, force=True)
        number = await bench.deployed(graph("s>g", g=agent(agent_id=skill.id)))
        expected = {"skillId": skill.id, "caseId": "hi", "name": "Greets", "required": True}
        (never,) = (await impact(bench, number)).to_wire()["evaluations"]
        assert never == {**expected, "state": "never_ran", "runId": None}
        before = (await impact(bench, number)).etag
        (run,) = (await bench.core.evaluations.run(bench.me, skill.id, "active")).runs
        await bench.ended(run)
        (state,) = (await impact(bench, number)).to_wire()["evaluations"]
        assert (state["state"], state["runId"]) == ("passed", run.id)
        assert (await impact(bench, number)).etag != before
        shared = {"evaluations": [CASE], "access_config": private("me@x.org")}
        hidden = await bench.core.skills.create(bench.other, name="hidden", **shared)
        await bench.core.skills.deploy(bench.other, hidden.id, force=True)
        other = await bench.deployed(graph("s>g", g=agent(agent_id=hidden.id)))
        assert (await impact(bench, other)).to_wire()["evaluations"] == []


class TestCost:
    async def test_the_mean_of_recent_runs(self, bench: Bench) -> None:
        """Turns of one run count once; null without runs."""
        number = await bench.deployed(graph("s>g g>w w:approved>b", g=agent(message="hi"), w=ask(), b=act("echo")))
        empty = (await impact(bench, number)).to_wire()["cost"]
        assert empty == {"runs": 0, "perRun": {"inputTokens": None, "outputTokens": None, "cost": None}}
        for _ in range(2):
            run = await parked(bench, number)
            await bench.ended(await bench.core.runs.resume(bench.me, run.id, decision="approve"))
        cost = (await impact(bench, number)).to_wire()["cost"]
        (row,) = (await bench.core.usage.report(bench.me, group_by="workflow")).sums
        assert cost == {
            "runs": 2,
            "perRun": {"inputTokens": row.input_tokens // 2, "outputTokens": row.output_tokens // 2, "cost": None},
        }
        assert row.input_tokens > 0

    async def test_runs_without_a_model(self, bench: Bench) -> None:
        number = await bench.deployed(LINE)
        await parked(bench, number)
        assert (await impact(bench, number)).to_wire()["cost"] == {
            "runs": 1, "perRun": {"inputTokens": 0, "outputTokens": 0, "cost": None},
        }  # fmt: skip

    async def test_with_a_price(self) -> None:
        """The newest runs alone count."""
        settings = Settings(prices={"default": Price(1_000_000, 0)})
        async with opened("sqlite://", settings=settings) as bench:
            number = await bench.deployed(graph("s>g", g=agent(message="hi")))
            for _ in range(3):
                await parked(bench, number)
            before = (await impact(bench, number)).to_wire()["cost"]
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(impacts, "PAGE", 2)
                assert (await impact(bench, number)).to_wire()["cost"] == before
                patch.setattr(impacts, "MOST_RUNS", 2)
                assert (await impact(bench, number)).to_wire()["cost"]["runs"] == 2
        assert before["runs"] == 3
        assert before["perRun"]["cost"] == pytest.approx(before["perRun"]["inputTokens"])


class TestBoundDeploys:
    async def test_a_deploy_of_what_was_seen(self, bench: Bench) -> None:
        """Another draft, deploy or set of waiting runs makes it stale; counts do not."""
        number = await bench.deployed(OTHER)
        await change(bench, number, LINE)
        first = (await impact(bench, number)).etag
        await parked(bench, number)
        seen = await impact(bench, number)
        await parked(bench, number)
        assert (await impact(bench, number)).etag == seen.etag != first
        workflows = bench.core.workflows
        assert await reason(workflows.deploy(bench.me, number, if_match=first)) == "stale"
        await change(bench, number, MENDED)
        assert await reason(workflows.deploy(bench.me, number, if_match=seen.etag)) == "stale"
        current = (await impact(bench, number)).etag
        view = await workflows.deploy(bench.me, number, if_match=f"{seen.etag}, {current}")
        assert view.draft_variation_id is None
        assert await reason(workflows.deploy(bench.me, number, if_match=current)) == "stale"
        await workflows.deploy(bench.me, number, if_match=(await impact(bench, number)).etag)

    async def test_the_name_does_not_matter(self, bench: Bench) -> None:
        number = await bench.deployed(LINE)
        await change(bench, number, MENDED)
        etag = (await impact(bench, number)).etag
        await bench.core.workflows.patch(bench.me, number, name="Renamed")
        view = await bench.core.workflows.deploy(bench.me, number, if_match=etag)
        assert view.draft_variation_id is None

    async def test_a_policy_that_comes_between(self, bench: Bench, boss: Any) -> None:
        """Also between the comparison and the deploy itself: nothing is deployed."""
        number = await bench.deployed(LINE)
        await change(bench, number, MENDED)
        etag = (await impact(bench, number)).etag
        before = bench.core.workflows._before_deploy

        async def late(*args: Any) -> Any:
            policy: Any = {"name": "p", "when": {"tool": "echo"}, "require": {"timeout": True}, "severity": "warning"}
            await bench.core.policies.create(boss, policy)
            return await before(*args)

        bench.core.workflows._before_deploy = late  # type: ignore[method-assign]
        assert await reason(bench.core.workflows.deploy(bench.me, number, if_match=etag)) == "stale"
        assert (await bench.core.workflows.get(bench.me, number)).draft_variation_id is not None

    async def test_a_draft_that_goes_in_between(self, bench: Bench) -> None:
        """Somebody else deploys or discards it after the comparison: the caller is told, and nothing was deployed."""
        number = await bench.deployed(LINE)
        await change(bench, number, MENDED)
        etag, workflows = (await impact(bench, number)).etag, bench.core.workflows
        before = workflows._before_deploy

        async def late(*args: Any) -> Any:
            await workflows.discard_draft(bench.me, number)
            return await before(*args)

        workflows._before_deploy = late  # type: ignore[method-assign]
        assert await reason(workflows.deploy(bench.me, number, if_match=etag)) == "stale"
        etag = (await impact(bench, number)).etag
        assert (await workflows.deploy(bench.me, number, if_match=etag)).draft_variation_id is None

    async def test_beside_the_tag_of_the_workflow(self, bench: Bench) -> None:
        """One of the tags is enough."""
        number = await bench.deployed(LINE)
        await change(bench, number, MENDED)
        own = (await bench.core.workflows.get(bench.me, number)).etag
        view = await bench.core.workflows.deploy(bench.me, number, if_match=f'"impact-old", {own}')
        assert view.draft_variation_id is None

    async def test_moves_take_the_tag_of_the_workflow(self, bench: Bench) -> None:
        number = await bench.deployed(LINE)
        own = (await bench.core.workflows.get(bench.me, number)).etag
        assert await bench.core.workflows.move_runs(bench.me, number, all=True, if_match=own) == []
        await change(bench, number, MENDED)
        assert await reason(bench.core.workflows.move_runs(bench.me, number, all=True, if_match=own)) == "stale"


async def test_a_workflow_without_content(bench: Bench) -> None:
    """Nothing runs, nothing waits, and its issues say why it cannot be deployed."""
    view = await bench.core.workflows.create(bench.me, name="Empty")
    wire = (await impact(bench, view.id)).to_wire()
    assert (wire["waiting"], wire["evaluations"], wire["cost"]["runs"]) == ([], [], 0)
    assert "error" in {issue["severity"] for issue in wire["issues"]}


async def test_who_sees_it(bench: Bench) -> None:
    """Managers: it shows the draft."""
    number = await bench.deployed(LINE, access_config=private())
    with pytest.raises(NotFound):
        await bench.core.workflows.impact(bench.other, number)
    await bench.core.workflows.patch(bench.me, number, access_config=private("other@x.org"))
    with pytest.raises(Forbidden):
        await bench.core.workflows.impact(bench.other, number)
