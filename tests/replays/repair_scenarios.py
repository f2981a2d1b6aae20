"""Runs that were retried and forked."""

from typing import TYPE_CHECKING, Any

import attrs
from bench import act, ask, graph
from playing import scenario

from wfcore.domain.run import entries as e

if TYPE_CHECKING:
    from recorder import Recorder

LINE = graph("s>a a>b b>c", a=act("echo", value=1), b=act("flaky", fails=1), c=act("echo", value=3))


@scenario
async def a_retry(recorder: "Recorder") -> None:
    async with recorder.open() as bench:
        failed = await bench.ran(LINE)
        await recorder.keep(bench, await bench.ended(await bench.core.runs.retry(bench.me, failed.id)))


@scenario
async def a_retry_of_a_list(recorder: "Recorder") -> None:
    async with recorder.open() as bench:
        each = {"forEach": "[0, 1, 0]", "maxConcurrency": 1}
        failed = await bench.ran(graph("s>a", a=act("flaky", fails="{{ item }}", more=each)))
        await recorder.keep(bench, await bench.ended(await bench.core.runs.retry(bench.me, failed.id)))


@scenario
async def a_retry_inside_a_child(recorder: "Recorder") -> None:
    async with recorder.open() as bench:
        number = await bench.deployed(LINE)
        failed = await bench.ran(graph("s>k", k=act("core.workflow", workflowId=number)))
        await recorder.keep(bench, await bench.ended(await bench.core.runs.retry(bench.me, failed.id)))


@scenario
async def a_retry_of_a_mended_draft_by_hand(recorder: "Recorder") -> None:
    async with recorder.open() as bench:
        failed = await bench.ran(graph("s>a a>b b>w w:approved>c", a=act("echo", value=1), b=act("flaky", fails=9),
                                       w=ask(), c=act("echo", value="{{ nodes.b.output }}")))  # fmt: skip
        number: Any = failed.row.resource_id
        mended = graph("s>n n>a a>b b>w w:approved>c s>a", n=act("echo"), a=act("echo", value=1), b=act("flaky"),
                       w=ask(), c=act("echo", value="{{ nodes.b.output }}"))  # fmt: skip
        await bench.core.workflows.patch(bench.me, number, structure=mended)
        view = await bench.core.runs.retry(
            bench.me, failed.id, version="draft", nodes=["a"], outputs={"w": "approve"}, skip=["b"]
        )
        await recorder.keep(bench, await bench.ended(view))


@scenario
async def a_retry_after_access_was_lost(recorder: "Recorder") -> None:
    async with recorder.open() as bench:
        run = await bench.started(graph("s>a", a=act("hold")), stream_protocol_version=2)
        await bench.until("it")
        await bench.core.runs.cancel(bench.me, run.id)
        execution = await bench.core.ports.journal.execution(run.row.execution)
        machine = await bench.core.runs._plans.machine(execution)
        entry = e.Retried(machine.at, "refused", machine.starter, refusal="no access", info={"note": "again"})
        row = await bench.core.ports.journal.find_run(bench.org, run.id)
        assert row is not None
        await bench.core.runs._write_retry(bench.me, row, execution, machine, entry, b"")
        await recorder.keep(bench, run)


@scenario
async def a_move_to_another_variation(recorder: "Recorder") -> None:
    """The nodes have other positions there, and a child waits too."""
    async with recorder.open() as bench:
        inner = await bench.deployed(graph("s>w w:approved>a", w=ask(), a=act("echo", value="{{ input.n }}")))
        call = act("core.workflow", workflowId=inner, input={"n": 3})
        number = await bench.deployed(graph("s>c s>w w:approved>b c>b", c=call, w=ask(), b=act("echo", value=1)))
        parked = await bench.ended(await bench.core.runs.start(bench.me, workflow=number, input={}))
        other = graph(
            "s>c s>w w:approved>n n>b c>b", b=act("echo", value=2), w=ask(message="really?"), n=act("echo"), c=call
        )
        await bench.core.workflows.patch(bench.me, number, structure=other)
        await bench.core.workflows.deploy(bench.me, number)
        await bench.core.workflows.move_runs(bench.me, number, all=True)
        moved = await bench.core.runs.get(bench.me, parked.id)
        decisions = [{"interruptId": one.id, "decision": "approve"} for one in moved.interrupts]
        run = await bench.core.runs.resume(bench.me, parked.id, decisions=decisions)
        await recorder.keep(bench, await bench.ended(run))


@scenario
async def a_fork(recorder: "Recorder") -> None:
    async with recorder.open() as bench:
        source = await bench.ran(LINE)
        fork = await bench.ended(await bench.core.runs.fork(bench.me, source.id, before="b"))
        await recorder.keep(bench, await bench.ended(await bench.core.runs.retry(bench.me, fork.id)))


@scenario
async def a_fork_with_another_input_on_another_graph(recorder: "Recorder") -> None:
    async with recorder.open() as bench:
        flow = graph("s>w w:approved>a", w=ask(), a=act("echo", value="{{ input.n }}"))
        parked = await bench.ran(flow, {"n": 1})
        source = await bench.ended(await bench.core.runs.resume(bench.me, parked.id, decision="approve"))
        number: Any = source.row.resource_id
        other = graph("s>w w:approved>a", w=ask(), a=act("echo", value="{{ input.n + 1 }}"))
        await bench.core.workflows.patch(bench.me, number, structure=other)
        fork = await bench.core.runs.fork(bench.me, source.id, before="a", version="draft", input={"n": 7}, key="fork")
        again = await bench.ended(fork)
        await recorder.keep(
            bench, await bench.ended(await bench.core.runs.resume(bench.me, again.id, decision="approve"))
        )


@scenario
async def a_fork_after_access_was_lost(recorder: "Recorder") -> None:
    async with recorder.open() as bench:
        source = await bench.ran(LINE)
        chosen = bench.core.runs._targets.chosen

        async def refused(*args: Any) -> Any:
            return attrs.evolve(await chosen(*args), refusal="no access")

        bench.core.runs._targets.chosen = refused  # type: ignore[method-assign]
        await recorder.keep(bench, await bench.ended(await bench.core.runs.fork(bench.me, source.id, before="b")))
