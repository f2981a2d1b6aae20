"""Retrying, forking and deleting runs (interface, Retry, Fork and Delete)."""

import asyncio
from typing import Any

import pytest
from bench import Bench, act, ask, deployed_skill, graph, opened, reason, why

from wfcore.domain.kernel.errors import Conflict, Forbidden, Invalid, Malformed, NotFound
from wfcore.ports.providers import ModelError
from wfcore.testing import ScriptedModel

pytestmark = pytest.mark.anyio

LINE = graph("s>a a>b b>c", a=act("echo", value=1), b=act("flaky", fails=1), c=act("echo", value=3))
SHARED: dict[str, Any] = {"visibility": "private", "sharedWith": [{"email": "other@x.org"}]}


def mended(**nodes: Any) -> Any:
    """The line with other nodes."""
    known = {"a": act("echo", value=1), "b": act("flaky", fails=1), "c": act("echo", value=3)} | nodes
    return graph("s>a a>b b>c", **known)


async def redeploy(bench: Bench, number: int, structure: Any) -> None:
    """Deploy this graph as the workflow."""
    await bench.core.workflows.patch(bench.me, number, structure=structure)
    await bench.core.workflows.deploy(bench.me, number)


async def audited(bench: Bench, action: str) -> list[Any]:
    """The rows of the audit of this action."""
    return [view.row for view in await bench.core.audit.page(await bench.joined("auditor", "admin"), action=action)]


class TestRetry:
    async def test_completed_nodes_are_not_called_again(self, bench: Bench) -> None:
        """The failed call is made again under its key; both turns name each other."""
        failed = await bench.ran(LINE)
        assert failed.status == "error"
        view = await bench.core.runs.retry(bench.me, failed.id)
        done = await bench.ended(view)
        assert (done.status, done.output, view.row.parent_run_id) == ("done", 3, failed.id)
        assert (await bench.core.runs.get(bench.me, failed.id)).to_wire()["retriedBy"] == view.id
        assert [(name, attempt) for name, _, _, attempt in bench.tools.calls] == [
            ("echo", 1), ("flaky", 1), ("flaky", 2), ("echo", 1),
        ]  # fmt: skip
        assert len({key for _, _, key, _ in bench.tools.calls}) == 3

    async def test_a_cancelled_run(self, bench: Bench) -> None:
        """It goes on too; its events begin with the turn before."""
        run = await bench.started(graph("s>a a>b", a=act("echo", value=1), b=act("hold")))
        await bench.until("it")
        await bench.core.runs.cancel(bench.me, run.id)
        view = await bench.core.runs.retry(bench.me, run.id)
        bench.tools.free["it"].set()
        events = await bench.events(view.id)
        assert (events[0].kind, events[0].data["parentRunId"], events[-1].data["output"]) == (
            "run_started",
            run.id,
            "it",
        )
        assert bench.tools.count("echo") == 1

    async def test_a_mended_workflow(self, bench: Bench) -> None:
        """`published` and `draft` go on with what was mended; the records show which variation each turn ran."""
        number = await bench.deployed(mended(b=act("flaky", fails=9)))
        failed = await bench.ended(await bench.core.runs.start(bench.me, workflow=number, input={}))
        again = await bench.ended(await bench.core.runs.retry(bench.me, failed.id))
        await bench.core.workflows.patch(bench.me, number, structure=mended(b=act("flaky", fails=8)))
        draft = await bench.ended(await bench.core.runs.retry(bench.me, again.id, version="draft"))
        await redeploy(bench, number, mended(b=act("flaky", fails=0)))
        done = await bench.ended(await bench.core.runs.retry(bench.me, draft.id, version="published"))
        assert [one.status for one in (failed, again, draft, done)] == ["error", "error", "error", "done"]
        assert [one.to_wire()["version"] for one in (failed, draft, done)] == ["published", "draft", "published"]
        assert len({one.row.variation_id for one in (failed, again)}) == 1
        assert len({one.row.variation_id for one in (failed, draft, done)}) == 3
        assert bench.tools.count("echo") == 2

    async def test_what_does_not_fit(self, bench: Bench) -> None:
        """Every difference is reported, and nothing is written."""
        failed = await bench.ran(LINE)
        await redeploy(bench, failed.row.resource_id or 0, graph("s>b b>c", b=act("echo"), c=act("echo")))
        with pytest.raises(Conflict) as refused:
            await bench.core.runs.retry(bench.me, failed.id, version="published")
        assert refused.value.info["reason"] == "incompatible"
        assert [(one["nodeId"], one["what"]) for one in refused.value.info["differences"]] == [("a", "removed")]
        assert (await bench.core.runs.get(bench.me, failed.id)).row.retried_by is None

    async def test_by_hand(self, bench: Bench) -> None:
        """Nodes run again, get outputs and are skipped; the audit names them."""
        failed = await bench.ran(LINE)
        view = await bench.core.runs.retry(bench.me, failed.id, nodes=["a"], outputs={"c": {"by": "hand"}}, skip=["b"])
        done = await bench.ended(view)
        assert (done.output, bench.tools.count("echo"), bench.tools.count("flaky")) == ({"by": "hand"}, 2, 1)
        (row,) = await audited(bench, "run.retry")
        assert (row.user_id, row.resource_id) == ("me", failed.id)
        assert row.details["outputs"] == ["c"]
        assert (row.details["from"], row.details["skip"], row.details["retriedBy"]) == (["a"], ["b"], view.id)

    async def test_unknown_nodes_and_exits(self, bench: Bench) -> None:
        """All are reported with their paths."""
        failed = await bench.ran(graph("s>b b>w w:approved>c", b=act("flaky"), w=ask(), c=act("echo")))
        runs = bench.core.runs
        with pytest.raises(Invalid) as unknown:
            await runs.retry(bench.me, failed.id, {"from": ["z"], "outputs": {"y": 1}, "skip": ["b", "x"]})
        assert [one["path"] for one in unknown.value.info["errors"]] == ["from[0]", "outputs.y", "skip[1]"]
        for body, path in (({"skip": ["w"]}, "skip[0]"), ({"outputs": {"w": {"decision": "maybe"}}}, "outputs.w")):
            with pytest.raises(Invalid) as refused:
                await runs.retry(bench.me, failed.id, body)
            assert [one["path"] for one in refused.value.info["errors"]] == [path]
        with pytest.raises(Malformed):
            await runs.retry(bench.me, failed.id, {"from": "b"})
        done = await bench.ended(await runs.retry(bench.me, failed.id, outputs={"w": "approve"}))
        assert done.status == "done"

    async def test_what_cannot_be_retried(self, bench: Bench) -> None:
        """Each has its reason."""
        runs = bench.core.runs
        done = await bench.ran(graph("s>a", a=act("echo")))
        assert await reason(runs.retry(bench.me, done.id)) == "not_retryable"
        parked = await bench.ran(graph("s>w w:approved>b", w=ask(), b=act("flaky")))
        assert await reason(runs.retry(bench.me, parked.id)) == "not_retryable"
        failed = await bench.ended(await runs.resume(bench.me, parked.id, decision="approve"))
        assert failed.status == "error"
        assert await reason(runs.retry(bench.me, parked.id)) == "already_resumed"
        await bench.ended(await runs.retry(bench.me, failed.id))
        assert await reason(runs.retry(bench.me, failed.id)) == "already_retried"
        with pytest.raises(NotFound):
            await runs.retry(bench.me, "unknown")

    async def test_one_of_many_at_once_succeeds(self, bench: Bench) -> None:
        """The others are refused because it was retried."""
        failed = await bench.ran(LINE)
        tries = (bench.core.runs.retry(bench.me, failed.id) for _ in range(8))
        outcomes = await asyncio.gather(*(one._begun() for one in tries), return_exceptions=True)
        refused = [one for one in outcomes if isinstance(one, Conflict)]
        assert len(refused) == 7
        assert {one.info["reason"] for one in refused} == {"already_retried"}

    async def test_a_key_joins(self, bench: Bench) -> None:
        """The same body with the key is the same turn; another one is a conflict."""
        failed = await bench.ran(LINE)
        runs = bench.core.runs
        first = await runs.retry(bench.me, failed.id, key="again")
        joined = await runs.retry(bench.me, failed.id, key="again")
        assert first.id == joined.id == "again"
        assert await reason(runs.retry(bench.me, failed.id, {"skip": ["c"]}, key="again")) == "key_reused"

    async def test_users_without_manage(self, bench: Bench) -> None:
        """They can retry, without outputs, skipped nodes and drafts; others do not find the run."""
        number = await bench.deployed(LINE, access=SHARED)
        failed = await bench.ended(await bench.core.runs.start(bench.me, workflow=number, input={}))
        runs = bench.core.runs
        for body in ({"outputs": {"b": 1}}, {"skip": ["b"]}, {"version": "draft"}):
            with pytest.raises(Forbidden):
                await runs.retry(bench.other, failed.id, body)
        with pytest.raises(NotFound):
            await runs.retry(bench.person("stranger"), failed.id)
        view = await runs.retry(bench.other, failed.id)
        assert (view.row.user_id, view.row.root_user_id) == ("other", "me")

    async def test_a_resume_after_a_retry_keeps_its_variation(self, bench: Bench) -> None:
        """Also the turns that follow it."""
        number = await bench.deployed(mended(b=act("flaky", fails=9)))
        failed = await bench.ended(await bench.core.runs.start(bench.me, workflow=number, input={}))
        await redeploy(bench, number, graph("s>a a>b b:approved>c", a=act("echo"), b=ask(), c=act("echo")))
        parked = await bench.ended(await bench.core.runs.retry(bench.me, failed.id, version="published"))
        done = await bench.ended(await bench.core.runs.resume(bench.me, parked.id, decision="deny"))
        assert done.row.variation_id == parked.row.variation_id != failed.row.variation_id

    async def test_an_action_by_itself(self, bench: Bench) -> None:
        """A single action is retried by who ran it."""
        view = await bench.core.runs.act(bench.me, action={"toolId": "flaky", "params": {"fails": 1}})
        failed = await bench.ended(view)
        assert (await bench.ended(await bench.core.runs.retry(bench.me, failed.id))).output == 2
        with pytest.raises(NotFound):
            await bench.core.runs.retry(bench.other, failed.id)


@pytest.mark.parametrize("version", ["pinned", "published"])
async def test_runs_of_a_skill(version: str) -> None:
    """Retried, forked, and retried beside others, on the variation that they had too."""
    model = ScriptedModel([ModelError("no credit", retryable=False), "second", "third"])
    async with opened("sqlite://", models={"default": model}) as bench:
        runs, number = bench.core.runs, await deployed_skill(bench)
        failed = await bench.ended(await runs.start(bench.me, skill=number, message="hello"))
        assert why(failed)[1] == "model"
        seen = await runs.retry_all(bench.me, filter={}, version=version, preview=True)
        assert [(one.run_id, one.moved) for one in seen] == [(failed.id, True)]
        (one,) = await runs.retry_all(bench.me, filter={}, version=version)
        assert one.retried_by is not None
        done = await bench.ended(await runs.get(bench.me, one.retried_by))
        assert (done.status, done.output) == ("done", "second")
        fork = await bench.ended(await runs.fork(bench.me, done.id, before="agent", version=version))
        assert (fork.status, fork.output) == ("done", "third")


class TestRetryAll:
    async def test_a_preview_changes_nothing(self, bench: Bench) -> None:
        """It says for each run what the request would do, and the request then does it."""
        number = await bench.deployed(LINE)
        failed = [await bench.ended(await bench.core.runs.start(bench.me, workflow=number, input={})) for _ in range(2)]
        other = await bench.ran(graph("s>b", b=act("flaky")))
        await bench.ran(graph("s>a", a=act("echo")))
        body = {"filter": {"workflowId": number}, "preview": True}
        seen = await bench.core.runs.retry_all(bench.me, body)
        assert [(one.run_id, one.moved, one.retried_by) for one in seen] == [
            (one.id, True, None) for one in failed[::-1]
        ]
        made = await bench.core.runs.retry_all(bench.me, {**body, "preview": False})
        assert [one.run_id for one in made] == [one.run_id for one in seen]
        for one in made:
            assert (await bench.ended(str(one.retried_by))).status == "done"
        assert [one.run_id for one in await bench.core.runs.retry_all(bench.me, {"filter": {}})] == [other.id]

    async def test_what_does_not_fit_is_reported(self, bench: Bench) -> None:
        """With its differences, beside the runs that go on."""
        failed = await bench.ran(LINE)
        await redeploy(bench, failed.row.resource_id or 0, graph("s>b", b=act("echo")))
        (one,) = await bench.core.runs.retry_all(bench.me, {"filter": {"status": "error"}, "version": "published"})
        assert (one.moved, one.reason, len(one.differences)) == (False, "incompatible", 1)

    async def test_bad_filters(self, bench: Bench) -> None:
        """Every fault is named."""
        body = {"filter": {"since": "x", "variationId": "y", "workflowId": 1, "skillId": 2}}
        with pytest.raises(Invalid) as refused:
            await bench.core.runs.retry_all(bench.me, body)
        paths = {one["path"] for one in refused.value.info["errors"]}
        assert paths == {"filter.since", "filter.variationId", "filter.skillId"}


class TestFork:
    async def test_a_new_execution_with_the_results_so_far(self, bench: Bench) -> None:
        """The source is as it was, the fork runs from the node on, in a thread of its own."""
        source = await bench.ran(mended(b=act("flaky", fails=0)))
        fork = await bench.ended(await bench.core.runs.fork(bench.me, source.id, before="c"))
        assert (fork.status, fork.output, fork.to_wire()["forkedFrom"]) == ("done", 3, source.id)
        assert fork.row.thread_id != source.row.thread_id
        assert [name for name, *_ in bench.tools.calls] == ["echo", "flaky", "echo", "echo"]
        assert len({key for _, _, key, _ in bench.tools.calls}) == 4
        assert await bench.core.runs.get(bench.me, source.id) == source
        (row,) = await audited(bench, "run.fork")
        assert (row.resource_id, row.details["forkedTo"]) == (source.id, fork.id)

    async def test_of_a_running_source(self, bench: Bench) -> None:
        """What is durable is taken over."""
        run = await bench.started(graph("s>a a>b", a=act("echo", value=1), b=act("hold")))
        await bench.until("it")
        fork = await bench.core.runs.fork(bench.me, run.id, before="b")
        bench.tools.free["it"].set()
        assert ((await bench.ended(fork)).output, (await bench.ended(run)).output) == ("it", "it")
        assert (bench.tools.count("echo"), bench.tools.count("hold")) == (1, 2)

    async def test_approvals_are_requested_again_for_another_input(self, bench: Bench) -> None:
        """Otherwise they are taken over."""
        flow = graph("s>w w:approved>a", w=ask(), a=act("echo", value="{{ input }}"))
        parked = await bench.ran(flow, {"n": 1})
        source = await bench.ended(await bench.core.runs.resume(bench.me, parked.id, decision="approve"))
        same = await bench.ended(await bench.core.runs.fork(bench.me, source.id, before="a"))
        assert (same.status, same.output) == ("done", {"n": 1})
        other = await bench.ended(await bench.core.runs.fork(bench.me, source.id, before="a", input={"n": 2}))
        assert other.status == "interrupted"
        assert await reason(bench.core.runs.fork(bench.me, other.id, before="a")) == "not_reached"
        done = await bench.ended(await bench.core.runs.resume(bench.me, other.id, decision="approve"))
        assert done.output == {"n": 2}

    async def test_approvals_in_children_are_requested_again_for_another_input(self, bench: Bench) -> None:
        """Otherwise they are taken over, with the output of the child."""
        inner = await bench.deployed(graph("s>w w:approved>a", w=ask(), a=act("echo", value="{{ input.n }}")))
        call = act("core.workflow", workflowId=inner, input={"n": "{{ input.n }}"})
        parked = await bench.ran(graph("s>child child>b", child=call, b=act("echo", value="{{ input.n }}")), {"n": 1})
        source = await bench.ended(await bench.core.runs.resume(bench.me, parked.id, decision="approve"))
        same = await bench.ended(await bench.core.runs.fork(bench.me, source.id, before="b"))
        assert (same.output, bench.tools.count("echo")) == (1, 3)
        for run in (source.id, same.id):
            other = await bench.ended(await bench.core.runs.fork(bench.me, run, before="b", input={"n": 2}))
            assert (other.status, bench.tools.count("echo")) == ("interrupted", 3)

    async def test_an_approval_that_was_skipped_repeats_nothing(self, bench: Bench) -> None:
        """A fork with another input keeps the results of the nodes that would have followed it."""
        choice = {"type": "condition", "data": {"branches": [{"handle": "large", "when": "input.n > 5"}]}}
        flow = graph("s>c c:large>w c:else>a w:approved>a a>b", c=choice, w=ask(), a=act("echo", value=1),
                     b=act("echo", value="{{ input.n }}"))  # fmt: skip
        source = await bench.ran(flow, {"n": 1})
        fork = await bench.ended(await bench.core.runs.fork(bench.me, source.id, before="b", input={"n": 2}))
        assert (fork.output, bench.tools.count("echo")) == (2, 3)

    async def test_the_last_visit_in_a_cycle_that_went_on(self, bench: Bench) -> None:
        """The fork begins where the visit stood, before the cycle started anew."""
        again = {"type": "condition", "data": {"branches": [{"handle": "again", "when": "nodes.a.output < 5"}]}}
        flow = graph(
            "s>a a>b b>c c:again>h h>a", a=act("echo", value=1), b=act("echo", value=2), c=again, h=act("hold")
        )
        run = await bench.started(flow)
        await bench.until("it")
        fork = await bench.core.runs.fork(bench.me, run.id, before="b")
        events = [event.data.get("nodeId") async for event in _first(bench, fork, 4)]
        assert events[:2] == [None, "b"]
        for view in (run, fork):
            await bench.core.runs.cancel(bench.me, view.id)

    async def test_refusals(self, bench: Bench) -> None:
        """A node that was not reached, that does not exist, an input that does not fit, a graph that does not."""
        schema = {"type": "start", "data": {"inputSchema": {"required": ["n"]}}}
        failed = await bench.ran(graph("s>b b>c", s=schema, b=act("flaky"), c=act("echo")), {"n": 1})
        runs = bench.core.runs
        assert await reason(runs.fork(bench.me, failed.id, before="c")) == "not_reached"
        for body, path in (({"before": "z"}, "before"), ({"before": "b", "input": {}}, "input.n")):
            with pytest.raises(Invalid) as refused:
                await runs.fork(bench.me, failed.id, body)
            assert [one["path"] for one in refused.value.info["errors"]] == [path]
        await redeploy(bench, failed.row.resource_id or 0, graph("s>z", z=act("echo")))
        with pytest.raises(Invalid):
            await runs.fork(bench.me, failed.id, before="b", version="published")
        with pytest.raises(NotFound):
            await runs.fork(bench.me, "unknown", before="b")

    async def test_a_key_joins(self, bench: Bench) -> None:
        """The effects of the fork have a key of their own, whatever the client chose."""
        source = await bench.ran(graph("s>a", a=act("echo")))
        first = await bench.core.runs.fork(bench.me, source.id, before="a", key="fork")
        assert (await bench.core.runs.fork(bench.me, source.id, before="a", key="fork")).id == first.id == "fork"
        assert await reason(bench.core.runs.fork(bench.me, source.id, before="s", key="fork")) == "key_reused"
        await bench.ended(first)
        assert not any(key.startswith("fork") for _, _, key, _ in bench.tools.calls)

    async def test_a_fork_of_a_fork_and_a_retry_of_it(self, bench: Bench) -> None:
        """Both have the entries they need."""
        source = await bench.ran(LINE)
        fork = await bench.ended(await bench.core.runs.fork(bench.me, source.id, before="a"))
        second = await bench.ended(await bench.core.runs.fork(bench.me, fork.id, before="b"))
        done = await bench.ended(await bench.core.runs.retry(bench.me, second.id))
        assert (fork.status, second.status, done.status) == ("error", "error", "done")
        assert [name for name, *_ in bench.tools.calls].count("echo") == 3


async def _first(bench: Bench, run: Any, count: int) -> Any:
    """The first events of a run."""
    async for batch in bench.core.runs.batches(run):
        for event in batch:
            yield event
            count -= 1
            if not count:
                return


class TestDelete:
    async def test_the_whole_execution(self, bench: Bench) -> None:
        """By any of its turns; the record is returned, and the audit keeps that it was."""
        failed = await bench.ran(LINE)
        done = await bench.ended(await bench.core.runs.retry(bench.me, failed.id))
        deleted = await bench.core.runs.delete(bench.me, failed.id)
        assert deleted.id == failed.id
        for gone in (failed, done):
            with pytest.raises(NotFound):
                await bench.core.runs.get(bench.me, gone.id)
        assert await bench.core.runs.page(bench.me) == []
        assert [row.resource_id for row in await audited(bench, "run.delete")] == [failed.id]
        with pytest.raises(NotFound):
            await bench.core.runs.delete(bench.me, failed.id)

    async def test_its_key_stays_taken(self, bench: Bench) -> None:
        """409 `deleted` for a start and for a turn."""
        number = await bench.deployed(graph("s>a", a=act("echo")))
        body = {"workflowId": number, "input": {}}
        await bench.core.runs.start(bench.me, body, key="k")
        await bench.ended("k")
        await bench.core.runs.delete(bench.me, "k")
        assert await reason(bench.core.runs.start(bench.me, body, key="k")) == "deleted"
        failed = await bench.ran(LINE)
        assert await reason(bench.core.runs.retry(bench.me, failed.id, key="k")) == "deleted"
        assert bench.tools.count("echo") == 2

    async def test_only_ended_ones(self, bench: Bench) -> None:
        """A run that waits or goes on stays."""
        parked = await bench.ran(graph("s>w", w=ask()))
        assert await reason(bench.core.runs.delete(bench.me, parked.id)) == "not_ended"
        running = await bench.started(graph("s>a", a=act("hold")))
        await bench.until("it")
        assert await reason(bench.core.runs.delete(bench.me, running.id)) == "not_ended"

    async def test_by_managers(self, bench: Bench) -> None:
        """A user without manage may not; who has neither does not find it."""
        number = await bench.deployed(graph("s>a", a=act("echo")), access=SHARED)
        done = await bench.ended(await bench.core.runs.start(bench.other, workflow=number, input={}))
        with pytest.raises(Forbidden):
            await bench.core.runs.delete(bench.other, done.id)
        with pytest.raises(NotFound):
            await bench.core.runs.delete(bench.person("stranger"), done.id)
        await bench.core.runs.delete(bench.me, done.id)

    async def test_what_has_no_resource(self, bench: Bench) -> None:
        """Its starter deletes it, or an admin."""
        for who in (bench.me, await bench.joined("boss", "admin")):
            done = await bench.ended(await bench.core.runs.act(bench.me, action={"toolId": "echo", "params": {}}))
            with pytest.raises(NotFound):
                await bench.core.runs.delete(bench.other, done.id)
            await bench.core.runs.delete(who, done.id)

    async def test_forks_stay(self, bench: Bench) -> None:
        """With what they took over."""
        source = await bench.ran(LINE)
        fork = await bench.ended(await bench.core.runs.fork(bench.me, source.id, before="b"))
        await bench.core.runs.delete(bench.me, source.id)
        assert (await bench.ended(await bench.core.runs.retry(bench.me, fork.id))).status == "done"
