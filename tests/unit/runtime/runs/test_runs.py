"""Starting a run, or joining it (interface, Events 4 and the run endpoints)."""

import asyncio
from typing import Any

import pytest
from bench import Bench, Toolbox, act, agent, ask, graph, kinds, one, opened, paths, start

from wfcore.domain.kernel.errors import Conflict, Forbidden, Invalid, Malformed, NotFound, WfcoreError

pytestmark = pytest.mark.anyio

ECHO = one(act("echo", value="{{ input.n }}"))
PRIVATE: dict[str, Any] = {"visibility": "private", "sharedWith": [{"email": "other@x.org"}]}


class TestKeys:
    """The run id is the Idempotency-Key, otherwise the body's `runId`, otherwise new."""

    async def test_fifty_starts_with_one_key_execute_once(self, bench: Bench) -> None:
        """Fifty concurrent starts make one run, and its tool is called once."""
        number = await bench.deployed(ECHO)
        body = {"workflowId": number, "input": {"n": 1}}
        views = await asyncio.gather(*(bench.core.runs.start(bench.me, body, key="k") for _ in range(50)))
        assert {view.id for view in views} == {"k"}
        await bench.ended("k")
        assert bench.tools.count("echo") == 1
        assert len(await bench.core.runs.page(bench.me)) == 1

    async def test_the_header_wins_over_the_body(self, bench: Bench) -> None:
        """With a key the body's `runId` is ignored; without, it is the id."""
        number = await bench.deployed(ECHO)
        body = {"workflowId": number, "input": {"n": 1}, "runId": "from-body"}
        assert (await bench.core.runs.start(bench.me, body, key="from-header")).id == "from-header"
        assert (await bench.core.runs.start(bench.me, body)).id == "from-body"
        assert (
            await bench.core.runs.start(bench.me, {**body, "runId": "other"}, key="from-header")
        ).id == "from-header"

    async def test_bodies_are_compared_as_json(self, bench: Bench) -> None:
        """Key order and `1.0` make no difference; a run that has ended is joined too."""
        number = await bench.deployed(ECHO)
        await bench.core.runs.start(bench.me, {"workflowId": number, "input": {"n": 1, "m": 2}}, key="k")
        done = await bench.ended("k")
        again = await bench.core.runs.start(
            bench.me, {"input": {"m": 2.0, "n": 1}, "workflowId": float(number)}, key="k"
        )
        assert again.to_wire() == done.to_wire()
        assert bench.tools.count("echo") == 1

    async def test_another_request_with_the_key_is_a_conflict(self, bench: Bench) -> None:
        """Another body, target or principal: 409 with the same message, revealing nothing of the run."""
        number, second = await bench.deployed(ECHO), await bench.deployed(ECHO)
        body = {"workflowId": number, "input": {"n": 1}}
        await bench.core.runs.start(bench.me, body, key="k")
        for who, what in (
            (bench.me, {**body, "input": {"n": 2}}),
            (bench.me, {**body, "workflowId": second}),
            (bench.me, {**body, "input": {"n": True}}),
            (bench.other, body),
        ):
            with pytest.raises(Conflict) as error:
                await bench.core.runs.start(who, what, key="k")
            assert error.value.info == {"reason": "key_reused"}
            assert error.value.message == "the run id `k` was used for another request"

    async def test_a_redeploy_or_a_delete_does_not_disturb_joining(self, bench: Bench) -> None:
        """A retry of a start joins its run, whatever happened to the workflow and its `inputSchema` since."""
        number = await bench.deployed(ECHO)
        body = {"workflowId": number, "input": {"n": 1}}
        await bench.core.runs.start(bench.me, body, key="k")
        stricter = graph("s>a", s=start(required=["x"]), a=act("echo"))
        await bench.core.workflows.patch(bench.me, number, structure=stricter)
        await bench.core.workflows.deploy(bench.me, number)
        assert (await bench.core.runs.start(bench.me, body, key="k")).id == "k"
        await bench.core.workflows.delete(bench.me, number)
        assert (await bench.core.runs.start(bench.me, body, key="k")).id == "k"

    async def test_ids_are_per_organization(self, bench: Bench) -> None:
        """The same id names another run in another organization, and neither sees the other's."""
        number = await bench.deployed(ECHO)
        await bench.core.runs.start(bench.me, workflow=number, input={"n": 1}, key="k")
        elsewhere = (await bench.core.directory.create_organization("Else")).uuid
        stranger = bench.core.principal(elsewhere, "me", email="me@x.org")
        with pytest.raises(NotFound):
            await bench.core.runs.get(stranger, "k")
        with pytest.raises(NotFound):
            await bench.core.runs.start(stranger, workflow=number, input={"n": 1}, key="k")

    @pytest.mark.parametrize("key", ["", "a b", "x" * 256, "é", "a\n"])
    async def test_a_key_is_visible_ascii(self, bench: Bench, key: str) -> None:
        """1 to 255 visible ASCII characters, as key (400) and as `runId` (422)."""
        number = await bench.deployed(ECHO)
        with pytest.raises(Malformed):
            await bench.core.runs.start(bench.me, workflow=number, input={}, key=key)
        with pytest.raises(Invalid) as error:
            await bench.core.runs.start(bench.me, workflow=number, input={}, run_id=key)
        assert {path for path, _ in paths(error)} == {"runId"}
        assert "^" not in error.value.message  # words, and not the pattern


class TestTargets:
    """Who can start which target."""

    async def test_the_never_deployed_and_the_deleted(self, bench: Bench) -> None:
        """Never deployed: 409 `not_deployed`. Deleted: 409 to managers, 404 to users."""
        flows, start_run = bench.core.workflows, bench.core.runs.start
        number = (await flows.create(bench.me, name="f", structure=ECHO, access=PRIVATE)).id
        for who in (bench.me, bench.other):
            with pytest.raises(Conflict) as error:
                await start_run(who, workflow=number, input={"n": 1})
            assert error.value.info["reason"] == "not_deployed"
        await flows.deploy(bench.me, number)
        await flows.delete(bench.me, number)
        with pytest.raises(Conflict) as error:
            await start_run(bench.me, workflow=number, input={"n": 1})
        assert error.value.info["reason"] == "deleted"
        with pytest.raises(NotFound):
            await start_run(bench.other, workflow=number, input={"n": 1})

    async def test_drafts_are_for_managers_and_must_pass_the_rules(self, bench: Bench) -> None:
        """`version: draft` requires manage, runs the draft, and is refused for what a deploy would refuse."""
        flows = bench.core.workflows
        number = (await flows.create(bench.me, name="f", structure=one(act("echo", value="draft")), access=PRIVATE)).id
        run = await bench.ended(await bench.core.runs.start(bench.me, workflow=number, input={}, version="draft"))
        assert run.output == "draft"
        with pytest.raises(Forbidden) as error:
            await bench.core.runs.start(bench.other, workflow=number, input={}, version="draft")
        assert error.value.info == {"manageDenial": "not_owner"}
        await flows.patch(bench.me, number, structure=one(act("nope")))
        with pytest.raises(Invalid) as refused:
            await bench.core.runs.start(bench.me, workflow=number, input={}, version="draft")
        assert paths(refused) == {("workflowStructure.nodes[1].data.toolId", "reference")}

    async def test_without_a_draft_the_active_variation_is_the_draft(self, bench: Bench) -> None:
        """Without a pending draft, `version: draft` runs the active variation."""
        run = await bench.ran(ECHO, {"n": 5}, version="draft")
        assert run.output == 5

    async def test_a_variation_is_pinned(self, bench: Bench) -> None:
        """A deploy, or an edit of a running draft, does not change active runs."""
        structure = graph("s>h h:approved>a", h=ask(), a=act("echo", value="old"))
        number = await bench.deployed(structure)
        run = await bench.ended(await bench.core.runs.start(bench.me, workflow=number, input={}))
        await bench.core.workflows.patch(bench.me, number, structure=one(act("echo", value="new")))
        draft = await bench.ended(await bench.core.runs.start(bench.me, workflow=number, input={}, version="draft"))
        await bench.core.workflows.deploy(bench.me, number)
        resumed = await bench.ended(await bench.core.runs.resume(bench.me, run.id, decision="approve"))
        assert (draft.output, resumed.output) == ("new", "old")

    async def test_the_input_can_be_left_out(self, bench: Bench) -> None:
        """It is `{}` where the schema of the start node accepts that; otherwise it is required."""
        free = await bench.deployed(one(act("echo", value="{{ input }}")))
        assert (await bench.ended(await bench.core.runs.start(bench.me, workflow=free))).output == {}
        strict = await bench.deployed(graph("s>a", s=start(required=["order"]), a=act("echo", value="x")))
        with pytest.raises(Malformed) as refused:
            await bench.core.runs.start(bench.me, workflow=strict)
        assert str(refused.value) == "`input`: is required"

    @pytest.mark.parametrize(
        ("body", "error", "found"),
        [
            ({}, Malformed, {("workflowId", "required")}),
            ({"workflowId": "1", "input": {}}, Malformed, {("workflowId", "type")}),
            ({"workflowId": 1, "input": []}, Malformed, {("input", "type")}),
            ({"workflowId": 1, "input": {}, "streamProtocolVersion": 1}, Invalid, {("streamProtocolVersion", "enum")}),
            ({"workflowId": 1, "input": {}, "other": 1}, Invalid, {("other", "unknown")}),
            ({"workflowId": 1, "skillId": 1, "input": {}}, Invalid, {("skillId", "exclusive")}),
            ({"skillId": 1, "assistant": True, "message": "m"}, Invalid, {("assistant", "exclusive")}),
            ({"assistant": False, "message": "m"}, Invalid, {("assistant", "const")}),
            ({"assistant": True}, Invalid, {("message", "required_if")}),
            ({"skillId": 1}, Invalid, {("message", "required_if")}),
            ({"workflowId": 1, "input": {}, "decision": "approve", "interruptId": "i", "data": 1}, Invalid,
             {("decision", "unsupported"), ("interruptId", "unsupported"), ("data", "unsupported")}),
            ({"workflowId": 1, "input": {}, "config": {"model": "m"}}, Invalid, {("config.model", "unsupported")}),
            ({"workflowId": 1, "input": {}, "attachments": {"images": [{"storageKey": "x"}]}}, Invalid,
             {("attachments.images[0].storageKey", "reference")}),
        ],
    )  # fmt: skip
    async def test_invalid_bodies(
        self, bench: Bench, body: dict[str, Any], error: type[WfcoreError], found: set[tuple[str, str]]
    ) -> None:
        """400 for the shape, 422 for a rule; a field without effect is refused as `unsupported`."""
        await bench.deployed(ECHO)
        with pytest.raises(error) as refused:
            await bench.core.runs.start(bench.me, body)
        assert type(refused.value) is error
        assert paths(refused) == found
        assert await bench.core.runs.page(bench.me) == []


class TestInput:
    """The start node's `inputSchema`, and the fields that a run keeps."""

    async def test_input_must_match_the_schema(self, bench: Bench) -> None:
        """A violation of any rule is 422, with a path under `input`."""
        schema = {
            "properties": {"n": {"type": "integer"}, "m": {"properties": {"x": {"maximum": 1}}}},
            "required": ["n"],
        }
        number = await bench.deployed(graph("s>a", s=start(**schema), a=act("echo", value="{{ input.n }}")))
        with pytest.raises(Invalid) as error:
            await bench.core.runs.start(bench.me, workflow=number, input={"n": "x", "m": {"x": 2}})
        assert {path for path, _ in paths(error)} == {"input.n", "input.m.x"}
        with pytest.raises(Invalid) as error:
            await bench.core.runs.start(bench.me, workflow=number, input={})
        assert paths(error) == {("input.n", "required")}

    async def test_threads(self, bench: Bench) -> None:
        """A user's `sessionId` always leads to the same thread, another user's to another one; `fileThreadId` names
        one.
        """
        number = await bench.deployed(ECHO)

        async def thread(who: Any, **fields: Any) -> str:
            return (await bench.core.runs.start(who, workflow=number, input={"n": 1}, **fields)).to_wire()["threadId"]

        mine = [await thread(bench.me, session_id="s") for _ in range(2)]
        assert mine[0] == mine[1]
        others = [await thread(bench.other, session_id="s"), await thread(bench.me), await thread(bench.me)]
        assert len({mine[0], *others}) == 4
        assert await thread(bench.me, file_thread_id="t", session_id="s") == "t"
        for name in ("...", ".t", "ä/b", "\n"):
            assert await thread(bench.me, file_thread_id=name) == name
        for name in (".", ".."):
            with pytest.raises(WfcoreError, match=r"neither `\.` nor `\.\.`"):  # no path leads to its conversation
                await thread(bench.me, file_thread_id=name)

    async def test_kept_fields_can_be_read(self, bench: Bench) -> None:
        """`message`, `userContext`, `origin` and flags are `run.*`; they are data, not identity."""
        carried = {
            "message": "hello", "userContext": {"email": "x@x.org", "userId": "other"}, "origin": "api",
            "debug": True, "experimentalFeatures": False,
        }  # fmt: skip
        number = await bench.deployed(one(act("echo", value="{{ run }}")))
        body = {"workflowId": number, "input": {}, "streamProtocolVersion": 2, "config": {}, **carried}
        run = await bench.ended(await bench.core.runs.start(bench.me, body))
        assert {name: run.output[name] for name in carried} == carried
        assert (run.output["userId"], run.output["target"]["id"], run.output["id"]) == ("me", number, run.id)

    async def test_the_record_has_the_fields_of_the_interface(self, bench: Bench) -> None:
        """`GET /runs/{runId}` returns exactly these keys."""
        run = (await bench.ran(ECHO, {"n": 1})).to_wire()
        assert set(run) == {
            "runId", "status", "target", "threadId", "parentRunId", "resumedBy", "output", "error", "interrupts",
            "usage", "createdAt", "updatedAt", "finishedAt", "startedBy", "executionStartedBy", "origin", "version",
            "variationId", "retriedBy", "forkedFrom",
        }  # fmt: skip
        assert (run["status"], run["output"], run["error"], run["interrupts"]) == ("done", 1, None, [])
        assert run["target"] == {"type": "workflow", "id": 1}
        assert run["finishedAt"] is not None


class TestDeployer:
    """Agent nodes use skills with their deployer's access, checked again when a run starts."""

    async def test_access_lost_since_the_deploy_ends_the_run_in_error(self, bench: Bench) -> None:
        """The run begins with `run_started` and ends in an `error` that names node and skill."""
        core = bench.core
        await core.directory.add_member(bench.org, "me", "me@x.org")
        skill = await core.skills.create(
            bench.other, name="s", access={"visibility": "private", "sharedWith": [{"email": "me@x.org"}]}
        )
        await core.skills.deploy(bench.other, skill.id)
        number = await bench.deployed(one(agent(agent_id=skill.id, message="hi")))
        assert (await bench.ended(await core.runs.start(bench.me, workflow=number, input={}))).status == "done"
        await core.skills.patch(bench.other, skill.id, access={"visibility": "private"})
        run = await core.runs.start(bench.me, workflow=number, input={})
        assert kinds(await bench.events(run.id)) == ["run_started", "error"]
        message = (await core.runs.get(bench.me, run.id)).to_wire()["error"]["message"]
        assert "`a`" in message
        assert f"`{skill.id}`" in message

    async def test_a_deployer_in_an_organization_without_members(self, bench: Bench) -> None:
        """The embedding program's users have no member rows; their runs are not refused."""
        skill = await bench.core.skills.create(bench.me, name="s")
        await bench.core.skills.deploy(bench.me, skill.id)
        assert (await bench.ran(one(agent(agent_id=skill.id, message="hi")))).status == "done"


class TestTurn:
    """`core.runs.start(...)` can be awaited and iterated."""

    async def test_a_start_is_iterated(self, bench: Bench) -> None:
        """Iterating starts once and yields the run's events to its end; `workflows:invoke` is enough."""
        number = await bench.deployed(ECHO)
        caller = bench.person("me", scopes=["workflows:invoke"])
        turn = bench.core.runs.start(caller, workflow=number, input={"n": 1})
        seen = [event async for event in turn]
        assert kinds(seen) == ["run_started", "node_started", "node_finished", "node_started", "node_finished", "done"]
        assert (await turn).id == seen[0].run_id
        assert bench.tools.count("echo") == 1
        with pytest.raises(Forbidden):
            await bench.core.runs.follow(caller, seen[0].run_id)

    async def test_a_resume_is_iterated(self, bench: Bench) -> None:
        """A resume yields the new turn's events to its end."""
        run = await bench.ran(graph("s>h h:approved>a", h=ask(), a=act("echo", value=1)))
        seen = [event async for event in bench.core.runs.resume(bench.me, run.id, decision="approve")]
        assert kinds(seen) == ["run_started", "node_finished", "node_started", "node_finished", "done"]


async def test_runs_beyond_the_capacity_are_queued(database: str) -> None:
    """Beyond `max_concurrent_runs` a run is `queued`; it begins when another one ends."""
    from wfcore.runtime.common.installation import Settings

    tools = Toolbox()
    async with opened(database, tools, settings=Settings(max_concurrent_runs=1)) as bench:
        number = await bench.deployed(one(act("hold", name="{{ input.n }}")))
        runs = [await bench.core.runs.start(bench.me, workflow=number, input={"n": str(n)}) for n in range(3)]
        assert [run.status for run in runs] == ["running", "queued", "queued"]
        await bench.core.runs.cancel(bench.me, runs[2].id)
        await bench.until("0")
        tools.free["0"].set()
        await bench.until("1")
        assert (await bench.core.runs.get(bench.me, runs[1].id)).status == "running"
        tools.free["1"].set()
        assert [(await bench.ended(run)).status for run in runs] == ["done", "done", "cancelled"]
        assert tools.count("hold") == 2


async def test_runs_beyond_the_limit_of_their_workflow_are_queued(database: str) -> None:
    """The next one begins as soon as one ends; those of another workflow do not wait, and children do not count."""
    async with opened(database, tools := Toolbox()) as bench:
        number = await bench.deployed(one(act("hold", name="{{ input.n }}")))
        await bench.core.directory.limit_runs(bench.org, 1, workflow=number)
        runs = [await bench.core.runs.start(bench.me, workflow=number, input={"n": str(n)}) for n in range(2)]
        assert [run.status for run in runs] == ["queued", "queued"]
        await bench.until("0")
        assert (await bench.ran(one(act("echo", value=1)))).output == 1
        child = await bench.started(one(act("core.workflow", workflowId=number, input={"n": "child"})))
        await bench.until("child")
        assert (await bench.core.runs.get(bench.me, runs[1].id)).status == "queued"
        for name in ("0", "1", "child"):
            tools.free[name].set()
            await bench.until(name)
        assert [(await bench.ended(run)).status for run in (*runs, child)] == ["done"] * 3


@pytest.mark.parametrize("stored", ["memory", "sqlite"])
async def test_runs_beyond_the_limit_of_the_organization_are_queued(database: str, stored: str) -> None:
    """The next one begins as soon as one ends or waits for a person; its resume and its retry wait in turn."""
    tools = Toolbox()
    async with opened(database if stored == "sqlite" else "sqlite://", tools) as bench:
        await bench.core.directory.limit_runs(bench.org, 1)
        number = await bench.deployed(one(act("hold", name="{{ input.n }}")))
        asking = await bench.deployed(graph("s>h h:approved>a", h=ask(), a=act("echo", value=1)))
        runs = [await bench.core.runs.start(bench.me, workflow=number, input={"n": str(n)}) for n in range(2)]
        asked = await bench.core.runs.start(bench.me, workflow=asking)
        assert [run.status for run in (*runs, asked)] == ["queued", "queued", "interrupted"]
        await bench.until("0")
        resumed = await bench.core.runs.resume(bench.me, asked.id, decision="approve")
        assert resumed.status == "queued"
        assert (await bench.core.runs.get(bench.me, runs[1].id)).status == "queued"
        for name in ("0", "1"):
            tools.free[name].set()
            await bench.until(name)
        assert [(await bench.ended(run)).status for run in (*runs, resumed)] == ["done"] * 3


@pytest.mark.parametrize("stored", ["memory", "sqlite"])
async def test_the_begin_of_a_queued_run_is_a_change(database: str, stored: str) -> None:
    """Pages that show a queued run are notified when a worker takes it, before it does anything."""
    from wfcore.runtime.common.installation import Settings

    tools = Toolbox()
    url = database if stored == "sqlite" else "sqlite://"
    async with opened(url, tools, settings=Settings(max_concurrent_runs=1)) as bench:
        number = await bench.deployed(one(act("hold", name="{{ input.n }}")))
        runs = [await bench.core.runs.start(bench.me, workflow=number, input={"n": str(n)}) for n in range(2)]
        await bench.until("0")
        feed = bench.core.ports.changes.subscribe(bench.org)
        tools.free["0"].set()
        await bench.until("1")
        changed = [one.id for one in await feed.next(0) if (one.kind, one.what) == ("run", "changed")]
        assert runs[1].status == "queued"
        assert changed == [run.id for run in runs]
        feed.close()
        tools.free["1"].set()
        await bench.ended(runs[1])
