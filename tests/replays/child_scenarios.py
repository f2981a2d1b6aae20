"""Workflows that open workflows."""

from typing import TYPE_CHECKING

from bench import act, ask, graph, one
from playing import charge, child, measure, scenario

if TYPE_CHECKING:
    from recorder import Recorder


@scenario
async def a_child_workflow(recorder: "Recorder") -> None:
    async with recorder.open() as bench:
        inner = await bench.deployed(graph("s>d", d=act("echo", value="{{ input.n * 2 }}")))
        outer = graph("s>c c>a", c=child(inner, {"n": "{{ input.n }}"}), a=act("echo", value="{{ nodes.c.output }}"))
        await recorder.keep(bench, await bench.ran(outer, {"n": 4}))


@scenario
async def an_approval_in_a_child(recorder: "Recorder") -> None:
    async with recorder.open() as bench:
        inner = await bench.deployed(graph("s>h h:approved>a", h=ask(), a=act("echo", value="inner")))
        run = await bench.ran(one(child(inner)))
        turn = await bench.core.runs.resume(bench.me, run.id, decision="approve")
        await recorder.keep(bench, await bench.ended(turn))


@scenario
async def a_tool_that_is_announced_in_a_child(recorder: "Recorder") -> None:
    async with recorder.open(tools=[charge]) as bench:
        inner = await bench.deployed(one(act("charge", amount=5)))
        await recorder.keep(bench, await bench.ran(one(child(inner))))


@scenario
async def a_child_that_fails_twice(recorder: "Recorder") -> None:
    async with recorder.open() as bench:
        inner = await bench.deployed(one(act("flaky", fails=99)))
        retry = {"maxAttempts": 2, "initialIntervalSeconds": 0}
        outer = graph("s>c c:error>e", c=child(inner, retry=retry), e=act("echo", value="caught"))
        await recorder.keep(bench, await bench.ran(outer))


@scenario
async def children_of_a_list(recorder: "Recorder") -> None:
    async with recorder.open() as bench:
        inner = await bench.deployed(graph("s>h h:approved>a", h=ask(), a=act("echo", value="{{ input.n }}")))
        middle = await bench.deployed(one(child(inner, {"n": "{{ input.n }}"})))
        each = act("core.workflow", workflowId=middle, input={"n": "{{ item }}"}, more={"forEach": "[7, 8]"})
        run = await bench.ran(one(each))
        answers = [{"interruptId": one_.id, "decision": "approve"} for one_ in run.interrupts]
        turn = await bench.core.runs.resume(bench.me, run.id, decisions=answers)
        await recorder.keep(bench, await bench.ended(turn))


@scenario
async def progress_of_items_in_a_child(recorder: "Recorder") -> None:
    async with recorder.open(tools=[measure]) as bench:
        each = act("measure", size="{{ item }}", more={"forEach": "[2, 4]", "maxConcurrency": 1})
        inner = await bench.deployed(one(each))
        await recorder.keep(bench, await bench.ran(one(child(inner))))


@scenario
async def a_child_that_may_not_be_opened(recorder: "Recorder") -> None:
    async with recorder.open() as bench:
        await recorder.keep(bench, await bench.ran(one(child(77))))


@scenario
async def a_deadline_of_a_child(recorder: "Recorder") -> None:
    async with recorder.open() as bench:
        inner = await bench.deployed(one(ask()))
        run = await bench.ran(one(child(inner, timeoutSeconds=60)))
        bench.clock.advance(60)
        await recorder.keep(bench, await bench.ended(await bench.resumed_by(run)))
