"""Runs of skills and of the assistant: access, visibility, and the narrowing by `config`."""

from typing import Any

import pytest
from bench import Bench, act, agent, ask, deployed_skill, graph, kinds, one, opened, paths, private
from played import Played, asks

from wfcore.domain.kernel.errors import Conflict, Forbidden, Invalid, NotFound, WfcoreError

pytestmark = pytest.mark.anyio

TOOLSET = {"echo": {"enabled": True}, "flaky": {"enabled": True, "requiresApproval": True}, "hold": {"enabled": False}}


async def chatted(bench: Bench, skill: int | None, me: Any = None, **fields: Any) -> Any:
    """The record of a chat that has come to its end."""
    run = await bench.core.runs.chat(me or bench.me, skill, {"message": "hello", **fields})
    await bench.events(run.id)
    return await bench.core.runs.get(me or bench.me, run.id)


class TestStarting:
    """`skillId` or `assistant` instead of `workflowId`."""

    async def test_a_run_of_a_skill(self, bench: Bench) -> None:
        """The skill receives the message; record, list and events name it as the target."""
        number = await deployed_skill(bench, instructions=["Be kind."])
        run = await chatted(bench, number)
        assert (run.status, "hello" in run.output) == ("done", True)
        assert run.to_wire()["target"] == {"type": "skill", "id": number}
        [listed] = await bench.core.runs.page(bench.me, skill=number)
        assert listed.id == run.id
        assert await bench.core.runs.page(bench.me, workflow=number) == []
        started, *_ = await bench.events(run.id)
        assert started.data["target"] == {"type": "skill", "id": number}

    async def test_a_run_of_the_assistant(self, bench: Bench) -> None:
        """It has no resource id, and only its starter sees it."""
        run = await chatted(bench, None)
        assert (run.status, "hello" in run.output) == ("done", True)
        assert run.to_wire()["target"] == {"type": "assistant", "id": None}
        for read in (bench.core.runs.get, bench.core.runs.cancel, bench.core.runs.events):
            with pytest.raises(NotFound):
                await read(bench.other, run.id)
        assert await bench.core.runs.page(bench.other) == []

    async def test_a_chat_is_the_run_of_the_same_body(self, bench: Bench) -> None:
        """With one key a chat joins the run of `start`, and vice versa."""
        number = await deployed_skill(bench)
        for target, skill in (({"skillId": number}, number), ({"assistant": True}, None)):
            key = f"k{skill}"
            started = await bench.core.runs.start(bench.me, {"message": "hello", **target}, key=key)
            assert (await bench.core.runs.chat(bench.me, skill, {"message": "hello"}, key=key)).id == started.id
            with pytest.raises(Conflict):
                await bench.core.runs.chat(bench.me, skill, {"message": "good bye"}, key=key)

    async def test_input_replaces_the_message(self, bench: Bench) -> None:
        """`input` is optional, and can be given without a message."""
        number = await deployed_skill(bench)
        run = await bench.ended(await bench.core.runs.start(bench.me, skill=number, input={"order": 4711}))
        assert "4711" in run.output

    async def test_access_to_skills(self, bench: Bench) -> None:
        """Use for the published version, manage for the draft; hidden and unknown skills give the same error."""
        chat, skills = bench.core.runs.chat, bench.core.skills
        number = await deployed_skill(bench, access=private("other@x.org"))
        hidden = await deployed_skill(bench, access=private())
        fresh = (await skills.create(bench.me, name="fresh")).id
        deleted = await deployed_skill(bench, access=private("other@x.org"))
        await skills.delete(bench.me, deleted)
        assert (await chatted(bench, number, bench.other)).status == "done"
        refused: list[tuple[Any, int, dict[str, Any], type[WfcoreError]]] = [
            (bench.other, hidden, {}, NotFound), (bench.other, 99, {}, NotFound), (bench.other, 0, {}, NotFound),
            (bench.other, number, {"version": "draft"}, Forbidden), (bench.me, fresh, {}, Conflict),
            (bench.other, deleted, {}, NotFound), (bench.me, deleted, {}, Conflict),
        ]  # fmt: skip
        for who, skill, more, error in refused:
            with pytest.raises(error) as why:
                await chat(who, skill, {"message": "hello", **more})
            if skill == fresh:
                assert why.value.info["reason"] == "not_deployed"
        assert (await chatted(bench, fresh, version="draft")).status == "done"

    async def test_access_lost_later_hides_the_runs(self, bench: Bench) -> None:
        """A caller sees runs while it can use the skill, its own runs too; joining one by its key is also NotFound."""
        number = await deployed_skill(bench)
        mine, theirs = await chatted(bench, number), await chatted(bench, number, bench.other)
        key, body = "k-1", {"message": "hello"}
        assert (await bench.core.runs.chat(bench.other, number, body, key=key)).id == key
        await bench.ended(key)
        assert {run.id for run in await bench.core.runs.page(bench.other)} == {mine.id, theirs.id, key}
        await bench.core.skills.patch(bench.me, number, access=private())
        for run_id in (mine.id, theirs.id):
            with pytest.raises(NotFound):
                await bench.core.runs.get(bench.other, run_id)
        with pytest.raises(NotFound):
            await bench.core.runs.chat(bench.other, number, body, key=key)
        assert await bench.core.runs.page(bench.other) == []


class TestConfig:
    """`config` narrows what the pinned variation allows; anything beyond it is 422."""

    @pytest.mark.parametrize(
        ("config", "path", "rule"),
        [
            ({"model": "other"}, "config.model", "widening"),
            ({"toolset": {"hold": {"enabled": True}}}, "config.toolset.hold.enabled", "widening"),
            ({"toolset": {"flaky": {"enabled": True, "requiresApproval": False}}},
             "config.toolset.flaky.requiresApproval", "widening"),
            ({"guardrails": ["g"]}, "config.guardrails[0]", "unsupported"),
            ({"connectionSet": [{"connectionId": "x"}]}, "config.connectionSet[0].connectionId", "reference"),
            ({"connectionAllModeIds": ["crm"]}, "config.connectionAllModeIds[0]", "reference"),
            ({"strategies": ["s"]}, "config.strategies", "unsupported"),
        ],
    )  # fmt: skip
    async def test_widening_is_refused(self, bench: Bench, config: dict[str, Any], path: str, rule: str) -> None:
        """The error names the path, and no run starts."""
        number = await deployed_skill(bench, model="default", toolset=TOOLSET)
        with pytest.raises(Invalid) as error:
            await bench.core.runs.chat(bench.me, number, {"message": "m", "config": config})
        assert paths(error) == {(path, rule)}
        assert await bench.core.runs.page(bench.me) == []

    async def test_a_narrowing_is_accepted(self, bench: Bench) -> None:
        """A config that removes something, or changes nothing, is accepted."""
        number = await deployed_skill(bench, model="default", toolset=TOOLSET)
        config = {"model": "default", "toolset": {"echo": {"enabled": False}}, "debug": True,
                  "modelSettings": {"contextWindow": 4_000}, "strategies": []}  # fmt: skip
        assert (await chatted(bench, number, config=config)).status == "done"

    async def test_the_config_of_a_hidden_skill_is_not_checked(self, bench: Bench) -> None:
        """A config is checked only after the caller's access to the skill."""
        number = await deployed_skill(bench, access=private(), model="default")
        with pytest.raises(NotFound):
            await bench.core.runs.chat(bench.other, number, {"message": "m", "config": {"model": "x"}})

    async def test_the_assistant_has_the_configured_models(self, bench: Bench) -> None:
        """An unknown model is refused."""
        assert (await chatted(bench, None, config={"model": "default"})).status == "done"
        with pytest.raises(Invalid) as error:
            await bench.core.runs.chat(bench.me, None, {"message": "m", "config": {"model": "x"}})
        assert paths(error) == {("config.model", "widening")}

    async def test_the_config_of_a_workflow(self, bench: Bench) -> None:
        """It can name a tool that one of its skills enables; models and settings belong to the nodes."""
        skill = await deployed_skill(bench, toolset=TOOLSET)
        number = await bench.deployed(one(agent(agent_id=skill, message="m")))
        body = {"workflowId": number, "input": {}}
        for config, found in (
            ({"toolset": {"hold": {"enabled": True}}}, {("config.toolset.hold.enabled", "widening")}),
            ({"model": "default"}, {("config.model", "unsupported")}),
            ({"modelSettings": {"contextWindow": 9}}, {("config.modelSettings", "unsupported")}),
        ):
            with pytest.raises(Invalid) as error:
                await bench.core.runs.start(bench.me, {**body, "config": config})
            assert paths(error) == found
        config = {"toolset": {"echo": {"enabled": True}, "flaky": {"enabled": False}}}
        run = await bench.ended(await bench.core.runs.start(bench.me, {**body, "config": config}))
        assert run.status == "done"

    async def test_a_resume_narrows_further(self, bench: Bench) -> None:
        """A later turn cannot regain what an earlier one removed; `run.config` is the merged config."""
        skill = await deployed_skill(bench, toolset=TOOLSET)
        said = act("echo", value="{{ run.config }}")
        structure = graph("s>g g>h h:approved>a", g=agent(agent_id=skill, message="m"), h=ask(), a=said)
        off, both = {"echo": {"enabled": False}}, {"echo": {"enabled": False}, "flaky": {"enabled": False}}
        run = await bench.ran(structure, config={"toolset": off, "debug": False})
        answer = {"decision": "approve", "debug": True}
        with pytest.raises(Invalid) as error:
            await bench.core.runs.resume(
                bench.me, run.id, {**answer, "config": {"toolset": {"echo": {"enabled": True}}}}
            )
        assert paths(error) == {("config.toolset.echo.enabled", "widening")}
        config = {"toolset": {"flaky": {"enabled": False}}, "debug": True}
        turn = await bench.ended(await bench.core.runs.resume(bench.me, run.id, {**answer, "config": config}))
        assert turn.output == {"toolset": both, "debug": True}

    async def test_a_resume_for_an_agent_under_way(self) -> None:
        """The model of its next round is another one. What is composed already cannot be restricted any more."""
        first, fast = Played(asks("echo", value=1)), Played("none", "done")
        toolset = {"echo": {"enabled": True, "requiresApproval": True}}
        async with opened("sqlite://", models={"default": first, "fast": fast}) as bench:
            items = [await bench.core.context_items.create(bench.me, title=one, content=one) for one in "ab"]
            every = [{"id": item.id} for item in items]
            number = await deployed_skill(bench, toolset=toolset, contextSelections=every)
            started = {"contextSelections": every, "modelSettings": {"contextWindow": 20_000}}
            run = await chatted(bench, number, message="go", config=started)
            late = {"contextSelections": every[:1], "modelSettings": {"contextWindow": 10_000}, "model": "fast"}
            with pytest.raises(Invalid) as error:
                await bench.core.runs.resume(bench.me, run.id, decision="approve", config=late)
            assert paths(error) == {
                ("config.contextSelections", "unsupported"),
                ("config.modelSettings.contextWindow", "unsupported"),
            }
            config = {**started, "model": "fast"}
            turn = await bench.ended(await bench.core.runs.resume(bench.me, run.id, decision="approve", config=config))
            assert (turn.output, len(first.requests), fast.requests[0].model) == ("done", 1, "fast")

    async def test_the_config_of_a_resume_is_checked_after_the_access(self, bench: Bench) -> None:
        """A resume's config is checked only after the caller's right to decide."""
        skill = await deployed_skill(bench, toolset=TOOLSET)
        asked = ask(approvers={"emails": ["other@x.org"]})
        run = await bench.ran(graph("s>g g>h", g=agent(agent_id=skill, message="m"), h=asked))
        config = {"toolset": {"hold": {"enabled": True}}}
        with pytest.raises(Forbidden):
            await bench.core.runs.resume(bench.me, run.id, {"decision": "approve", "config": config})


class TestDebug:
    """`debug` adds events for callers who can manage the target."""

    @pytest.mark.parametrize("body", [{"debug": True}, {"config": {"debug": True}}])
    async def test_a_manager_gets_events(self, bench: Bench, body: dict[str, Any]) -> None:
        """They are numbered with the others, and the same when they are read again."""
        number = await deployed_skill(bench, model="default", instructions=["a secret"])
        run = await bench.core.runs.start(bench.me, skill=number, message="m", **body)
        events = await bench.events(run.id)
        debug = [event for event in events if event.kind == "debug"]
        assert [event.data["about"] for event in debug] == ["timing", "context", "timing"]
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        context = (await bench.core.contexts.compose(bench.me, number, message="m")).context
        assert len(debug[1].data["segments"]) == len(context["segments"])
        assert str(debug[1].data["digest"]).startswith("sha256:")
        assert "secret" not in str([event.data for event in debug])
        assert await bench.events(run.id) == events

    async def test_others_get_none(self, bench: Bench) -> None:
        """Who can only use the target gets the events of a run without `debug`."""
        echo = act("echo", value="{{ has(run.debug) }}")
        number = await bench.deployed(one(echo), access=private("other@x.org"))
        for me, has_debug in ((bench.me, True), (bench.other, False)):
            run = await bench.core.runs.start(me, workflow=number, input={}, debug=True)
            assert ("debug" in kinds(await bench.events(run.id))) is has_debug
            assert (await bench.ended(run)).output is has_debug

    async def test_the_caller_of_the_assistant_manages_it(self, bench: Bench) -> None:
        """Nobody else can see its runs."""
        run = await bench.core.runs.chat(bench.me, None, {"message": "hello", "debug": True})
        assert "debug" in kinds(await bench.events(run.id))

    async def test_each_turn_asks_for_its_own(self, bench: Bench) -> None:
        """A resume has debug events only with its own `debug`, of its own caller; so has a retry."""
        structure = graph("s>h h:approved>a a>b", h=ask(), a=act("echo", value=1), b=act("flaky", fails=1))
        number = await bench.deployed(structure, access=private("other@x.org"))
        for first, me, second, has_debug in (
            (True, bench.me, {}, False), (False, bench.other, {"debug": True}, False),
            (False, bench.me, {"debug": True}, True),
        ):  # fmt: skip
            run = await bench.ended(await bench.core.runs.start(bench.me, workflow=number, input={}, debug=first))
            turn = await bench.core.runs.resume(me, run.id, {"decision": "approve", **second})
            assert ("debug" in kinds(await bench.events(turn.id))) is has_debug
            assert (await bench.ended(turn)).status == "error"
        retried = await bench.core.runs.retry(bench.me, turn.id)
        assert "debug" not in kinds(await bench.events(retried.id))
