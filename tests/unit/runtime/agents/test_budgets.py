"""Budgets of runs, skills, users and organizations: a run that would exceed one opens an interrupt."""

from typing import Any

import pytest
from bench import Bench, act, agent, deployed_skill, graph, kinds, opened, paths, why
from played import Played, asks, enabled

from wfcore.adapters.models.scripted import ScriptedModel
from wfcore.domain.agents.budgets import Budget
from wfcore.domain.kernel.errors import Invalid
from wfcore.domain.projections.cost import Price
from wfcore.runtime.common.installation import Settings

pytestmark = pytest.mark.anyio

DAY = 86_400


def spending(*budgets: Budget, **more: Any) -> dict[str, Any]:
    return {"models": {"default": ScriptedModel("one two three")}, "settings": Settings(budgets=budgets, **more)}


async def chat(bench: Bench, me: Any = None, skill: int | None = None, **fields: Any) -> Any:
    """The record of one chat, with the assistant or a skill."""
    run = await bench.core.runs.chat(me or bench.me, skill, message="hello", **fields)
    async for _ in bench.core.runs.batches(run):
        pass
    return await bench.core.runs.get(me or bench.me, run.id)


async def decided(bench: Bench, run: Any, decision: str) -> Any:
    return await bench.ended(await bench.core.runs.resume(bench.me, run.id, decision=decision))


class TestUsersAndOrganizations:
    """The usage is read from the journal before each call."""

    async def test_the_budget_of_a_user(self, database: str) -> None:
        """The interrupt names the exhausted budget; other users continue; approval continues the run; a new day resets
        it.
        """
        async with opened(database, **spending(Budget("user", "day", 3))) as bench:
            assert (await chat(bench)).status == "done"
            run = await chat(bench)
            (waiting,) = run.interrupts
            assert waiting.call["budget"] == {"maxTokens": 3, "of": "user", "period": "day"}
            assert waiting.message.startswith("the user's budget of 3 tokens a day is spent")
            assert (await chat(bench, bench.other)).status == "done"
            bench.clock.advance(DAY)
            assert (await chat(bench)).status == "done"

    async def test_the_budget_of_an_organization(self, database: str) -> None:
        """Approved the run continues, denied it fails with `budget`; all users share the budget."""
        async with opened(database, **spending(Budget("organization", "month", 60))) as bench:
            while (run := await chat(bench)).status == "done":
                pass
            assert (await chat(bench, bench.other)).status == "interrupted"
            assert (await decided(bench, run, "approve")).status == "done"
            denied = await decided(bench, await chat(bench), "deny")
            assert why(denied)[1] == "budget"

    async def test_an_approval_holds_for_its_day(self, database: str) -> None:
        """A visit that goes on the next day requests another approval when that day is spent too."""
        model = Played(*[asks("echo", value=1)] * 6, "well")
        async with opened(
            database, models={"default": model}, settings=Settings(budgets=[Budget("user", "day", 2)])
        ) as bench:
            run = await chat(bench, skill=await deployed_skill(bench, toolset=enabled("echo")))
            for _ in range(3):
                run = await decided(bench, run, "approve")
            assert (run.status, len(model.requests)) == ("interrupted", 4)
            bench.clock.advance(DAY)
            assert (await decided(bench, run, "approve")).status == "interrupted"
            assert len(model.requests) == 5

    async def test_an_agent_without_a_skill(self) -> None:
        """It opens an interrupt like any other, and its siblings in flight continue."""
        async with opened("sqlite://", **spending(Budget("user", "day", 1))) as bench:
            assert (await chat(bench)).status == "done"
            run = await bench.ran(graph("s>a s>b", a=agent(message="go"), b=agent(message="go")))
            assert (run.status, len(run.interrupts)) == ("interrupted", 2)
            answers = [{"interruptId": one.id, "decision": "approve"} for one in run.interrupts]
            ended = await bench.ended(await bench.core.runs.resume(bench.me, run.id, decisions=answers))
            assert ended.output == {"a": "one two three", "b": "one two three"}

    async def test_siblings_continue(self) -> None:
        """The interrupt does not end the other branches: a tool in flight is not cancelled."""
        async with opened("sqlite://", **spending(Budget("user", "day", 1))) as bench:
            assert (await chat(bench)).status == "done"
            run = await bench.started(graph("s>a s>b", a=agent(message="go"), b=act("hold")))
            await bench.seen(run, "interrupt")
            await bench.until("it")
            bench.tools.free["it"].set()
            stopped = await bench.ended(run)
            assert (stopped.status, bench.tools.broken_off) == ("interrupted", [])
            assert (await decided(bench, stopped, "approve")).output == {"a": "one two three", "b": "it"}

    async def test_costs(self) -> None:
        """Costs follow the prices of models; without prices no cost budget can be exceeded."""
        dear = {"prices": {"default": Price(1e6, 1e6)}}
        for more, status in ((dear, "interrupted"), ({}, "done")):
            async with opened("sqlite://", **spending(Budget("user", "month", cost=2), **more)) as bench:
                assert (await chat(bench)).status == "done"
                assert (await chat(bench)).status == status

    def test_periods(self) -> None:
        """Days and months of UTC."""
        noon = 1_772_366_400_000  # 2026-03-01T12:00:00Z
        assert Budget("user", "day").since(noon) == noon - 12 * 3_600_000
        assert Budget("user", "month").since(noon) == noon - 12 * 3_600_000
        assert Budget("user", "month").since(noon + 30 * DAY * 1000) == noon - 12 * 3_600_000
        assert Budget("user", "month").since(noon - DAY * 1000) == noon - (12 + 28 * 24) * 3_600_000


class TestSkillsAndRuns:
    """`budget` of a skill applies to each visit of its agent, that of a run's `config` to the whole run."""

    async def test_a_skill(self, database: str) -> None:
        """Its first completion spends the budget; after the approval the agent runs to its end."""
        model = Played(asks("echo", value=1), "well")
        async with opened(database, models={"default": model}) as bench:
            number = await deployed_skill(bench, toolset=enabled("echo"), budget={"maxTokens": 2})
            run = await chat(bench, skill=number)
            (waiting,) = run.interrupts
            assert (run.status, waiting.call["budget"]) == ("interrupted", {"maxTokens": 2})
            ended = await decided(bench, run, "approve")
            assert (ended.status, ended.output) == ("done", "well")

    async def test_a_run(self) -> None:
        """The budget covers all agents of the run, including those without a skill."""
        async with opened("sqlite://", **spending()) as bench:
            number = await bench.deployed(graph("s>a a>b", a=agent(message="go"), b=agent(message="go")))
            config = {"budget": {"maxTokens": 4}}
            run = await bench.ended(await bench.core.runs.start(bench.me, workflow=number, input={}, config=config))
            assert run.status == "interrupted"
            assert kinds(await bench.events(run.id)).count("message") == 1
            assert (await decided(bench, run, "approve")).output == "one two three"

    async def test_a_run_of_a_skill(self) -> None:
        """One approval continues it, also where the skill has a larger budget of its own."""
        model = Played(asks("echo", value=1), "well")
        async with opened("sqlite://", models={"default": model}) as bench:
            for own in ({}, {"budget": {"maxTokens": 500}}):
                number = await deployed_skill(bench, toolset=enabled("echo"), **own)
                run = await chat(bench, skill=number, config={"budget": {"maxTokens": 2}})
                (waiting,) = run.interrupts
                assert waiting.call["budget"] == {"maxTokens": 2, "of": "run"}
                ended = await decided(bench, run, "approve")
                assert (ended.status, ended.output) == ("done", "well")

    async def test_a_run_only_narrows(self, bench: Bench) -> None:
        """A config beyond the skill's budget is refused, and so is an invalid one."""
        number = await deployed_skill(bench, budget={"maxTokens": 5})
        for budget, found in (
            ({"maxTokens": 6}, ("config.budget.maxTokens", "widening")),
            ({"maxTokens": 0}, ("config.budget.maxTokens", "minimum")),
            ({"most": 1}, ("config.budget.most", "unknown")),
        ):
            with pytest.raises(Invalid) as refused:
                await chat(bench, skill=number, config={"budget": budget})
            assert paths(refused) == {found}

    async def test_a_skill_shows_its_budget(self, bench: Bench) -> None:
        """The wire shape has `budget` only where it is set."""
        budgets: list[dict[str, Any]] = [{}, {"budget": {"maxCost": 1.5}}]
        for given in budgets:
            view = await bench.core.skills.create(bench.me, name="a", **given)
            shown = (await bench.core.skills.get(bench.me, view.id, "draft")).to_wire()["variation"]
            assert {name: shown[name] for name in ("budget",) if name in shown} == given


async def test_a_denied_agent_takes_its_error_edge() -> None:
    """A denied budget is a failure like any other."""
    async with opened("sqlite://", **spending(Budget("user", "day", 1))) as bench:
        await chat(bench)
        run = await bench.ran(graph("s>a a:error>b", a=agent(message="go"), b={"type": "humanApproval", "data": {}}))
        ended = await decided(bench, run, "deny")
        assert [waiting.node_id for waiting in ended.interrupts] == ["b"]
