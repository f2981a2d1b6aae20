"""People who decide, time that passes, and what the program or its store did."""

import asyncio
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

from bench import act, agent, ask, deployed_skill, eventually, graph, one
from playing import SCENARIOS, decides, scenario

from wfcore.adapters.tools.catalog import tool
from wfcore.domain.run import entries as e
from wfcore.domain.run.entries import Limits
from wfcore.ports.providers import Delta, Finished, ModelRequest, TextDelta, ToolCall
from wfcore.runtime.common.installation import Settings
from wfcore.runtime.execution.poison_runs import TRIES

if TYPE_CHECKING:
    from recorder import Recorder


decides("approved", graph("s>h h:approved>a h:denied>d", h=ask(), a=act("echo", value="yes"), d=act("echo")),
        {"decision": "approve"})  # fmt: skip
decides("denied", graph("s>h h:approved>a h:denied>d", h=ask(), a=act("echo"), d=act("echo", value="no")),
        {"decision": "deny"})  # fmt: skip
decides("denied_without_an_edge", one(ask()), {"decision": "deny"})
decides("still_waiting", graph("s>h s>a", h=ask(message="for {{ input.n }}"), a=act("echo")), given={"n": 1})
decides(
    "an_approval_with_a_form",
    graph("s>h h:approved>a", h=ask(formSchema={"type": "object", "required": ["amount"]}),
          a=act("echo", value="{{ nodes.h.output.data.amount }}")),
    {"decision": "approve", "data": {"amount": 12}},
)  # fmt: skip
decides(
    "two_people_approve",
    graph("s>h h:approved>a", h=ask(requiredApprovals=2), a=act("echo", value="both")),
    {"decision": "approve"},
    {"decision": "approve", "by": "other"},
)
decides(
    "named_approvers",
    graph("s>h h:approved>a", h=ask(approvers={"emails": ["me@x.org"]}, allowSelfApproval=True), a=act("echo")),
    {"decision": "approve"},
)


@scenario
async def a_delegate_approves(recorder: "Recorder") -> None:
    """For an approver who is named."""
    async with recorder.open() as bench:
        for name in ("me", "boss", "other"):
            await bench.core.directory.add_member(bench.org, name, f"{name}@x.org")
        run = await bench.ran(graph("s>h h:approved>a", h=ask(approvers={"emails": ["boss@x.org"]}), a=act("echo")))
        await bench.core.delegations.create(bench.person("boss"), to="other")
        last = await bench.core.runs.resume(bench.other, run.id, decision="approve")
        await recorder.keep(bench, await bench.ended(last))


decides("an_action_that_needs_approval", one(act("echo", value="{{ input.n }}", more={"requiresApproval": True})),
        {"decision": "approve"}, given={"n": [1, 2]})  # fmt: skip
decides("an_action_that_says_what_it_is_for",
        one(act("echo", value=1, more={"requiresApproval": True, "toolName": "Echo", "aiDescription": "Says one"})),
        {"decision": "approve"})  # fmt: skip
decides("an_action_that_is_denied",
        graph("s>a a:error>b", a=act("echo", more={"requiresApproval": True}), b=act("echo", value="denied")),
        {"decision": "deny"})  # fmt: skip


@scenario
async def two_approvals_in_two_turns(recorder: "Recorder") -> None:
    async with recorder.open() as bench:
        run = await bench.ran(graph("s>g s>h g:approved>a", g=ask(), h=ask(), a=act("echo", value="a")))
        for decision in ("approve", "deny"):
            first = run.to_wire()["interrupts"][0]["interruptId"]
            run = await bench.ended(
                await bench.core.runs.resume(bench.me, run.id, decision=decision, interrupt_id=first)
            )
        await recorder.keep(bench, run)


@scenario
async def paused_and_resumed(recorder: "Recorder") -> None:
    async with recorder.open() as bench:
        run = await bench.started(graph("s>a a>b", a=act("hold"), b=act("echo", value="after")))
        await bench.until("it")
        await bench.core.runs.interrupt(bench.me, run.id)
        bench.tools.free["it"].set()
        await bench.ended(run)
        await recorder.keep(bench, await bench.ended(await bench.core.runs.resume(bench.me, run.id)))


@scenario
async def cancelled_while_a_tool_runs(recorder: "Recorder") -> None:
    async with recorder.open() as bench:
        run = await bench.started(graph("s>a a>b", a=act("hold"), b=act("echo")))
        await bench.until("it")
        await bench.core.runs.cancel(bench.me, run.id)
        await recorder.keep(bench, await bench.ended(run))


@scenario
async def cancelled_while_parked(recorder: "Recorder") -> None:
    async with recorder.open() as bench:
        run = await bench.ran(one(ask()))
        await bench.core.runs.cancel(bench.me, run.id)
        await recorder.keep(bench, await bench.core.runs.get(bench.me, run.id))


# Time


def expires(name: str, structure: Any) -> None:
    """A deadline passes while the run is parked."""

    async def play(recorder: "Recorder") -> None:
        async with recorder.open() as bench:
            run = await bench.ran(structure)
            bench.clock.advance(60)
            await recorder.keep(bench, await bench.ended(await bench.resumed_by(run)))

    SCENARIOS[name] = play


expires("expired_with_an_edge", graph("s>h h:expired>e", h=ask(timeoutSeconds=60), e=act("echo", value="late")))
expires("expired_as_approved", graph("s>h h:approved>a", h=ask(timeoutSeconds=60, onTimeout="approve"), a=act("echo")))
expires("expired_as_an_error", one(ask(timeoutSeconds=60, onTimeout="error")))


@scenario
async def reminded_and_escalated(recorder: "Recorder") -> None:
    """In two turns of the system, which park again; then somebody approves."""
    async with recorder.open() as bench:
        form = {"type": "object"}
        boss = {"escalateAfterSeconds": 90, "escalateTo": {"emails": ["boss@x.org"]}}
        node = ask(remindAfterSeconds=60, formSchema=form, **boss)
        run = await bench.ran(graph("s>h h:approved>a", h=node, a=act("echo", value="a")))
        for seconds in (60, 30):
            bench.clock.advance(seconds)
            run = await bench.ended(await bench.resumed_by(run))
        last = await bench.core.runs.resume(bench.me, run.id, decision="approve", data={})
        await recorder.keep(bench, await bench.ended(last))


@scenario
async def a_retry_after_a_while(recorder: "Recorder") -> None:
    async with recorder.open() as bench:
        retry = {"retry": {"maxAttempts": 3, "initialIntervalSeconds": 1, "backoffCoefficient": 2}}
        run = await bench.started(one(act("flaky", fails=1, more=retry)))
        await bench.seen(run, "node_retrying")
        bench.clock.advance(1)
        await recorder.keep(bench, await bench.ended(run))


@scenario
async def a_wait(recorder: "Recorder") -> None:
    async with recorder.open() as bench:
        run = await bench.started(graph("s>w w>a", w=act("core.wait", seconds=3_600), a=act("echo", value="up")))
        await eventually(lambda: not bench.core.driver.lengths())
        bench.clock.advance(3_600)
        await recorder.keep(bench, await bench.ended(run))


@scenario
async def a_tool_that_takes_too_long(recorder: "Recorder") -> None:
    async with recorder.open() as bench:
        run = await bench.started(graph("s>a a:error>b", a=act("hold", more={"timeoutSeconds": 5}), b=act("echo")))
        await bench.until("it")
        bench.clock.advance(5)
        await recorder.keep(bench, await bench.ended(run))


@scenario
async def a_run_that_takes_too_long(recorder: "Recorder") -> None:
    async with recorder.open(settings=Settings(limits=Limits(max_run_seconds=50))) as bench:
        run = await bench.started(one(act("hold")))
        await bench.until("it")
        bench.clock.advance(51)
        await recorder.keep(bench, await bench.ended(run))


@scenario
async def a_deadline_beside_work(recorder: "Recorder") -> None:
    async with recorder.open() as bench:
        structure = graph("s>h s>w h:expired>e", h=ask(timeoutSeconds=60), w=act("hold"), e=act("echo", value="late"))
        run = await bench.started(structure)
        await bench.until("it")
        bench.clock.advance(60)
        await eventually(lambda: bench.tools.count("echo"))
        bench.tools.free["it"].set()
        await recorder.keep(bench, await bench.ended(run))


# What the program or its store did


@scenario
async def an_outcome_that_nobody_knows(recorder: "Recorder") -> None:
    began = asyncio.Event()

    @tool
    async def pay(call: ToolCall) -> str:
        began.set()
        await asyncio.Event().wait()
        return ""

    structure = graph("s>a a:error>b", a=act("pay"), b=act("core.transform", value="{{ nodes.a.error.message }}"))
    async with recorder.open(tools=[pay]) as bench:
        run = await bench.started(structure)
        await began.wait()
    async with recorder.open(tools=[pay]) as again:
        await recorder.keep(again, await again.ended(run.id))


class Halting:
    """A model that says one word, and the other once it is `free`."""

    def __init__(self, *, free: bool = False) -> None:
        self._free = free

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        yield TextDelta("one ")
        if not self._free:
            await asyncio.Event().wait()
        yield TextDelta("two")
        yield Finished()


@scenario
async def an_answer_that_was_broken_off(recorder: "Recorder") -> None:
    async with recorder.open(models={"default": Halting()}) as bench:
        run = await bench.started(one(agent(message="hi")))
        await bench.seen(run, "message_delta")
    async with recorder.open(models={"default": Halting(free=True)}) as again:
        await recorder.keep(again, await again.ended(run.id))


@scenario
async def cut_off_while_a_tool_runs(recorder: "Recorder") -> None:
    """What the next process finds: the effect is still to be done."""
    async with recorder.open() as bench:
        run = await bench.started(graph("s>a a>b", a=act("echo", value=1), b=act("hold", name="{{ nodes.a.output }}x")))
        await bench.until("1x")
        await recorder.keep(bench, run)


@scenario
async def ended_because_it_cannot_be_driven(recorder: "Recorder") -> None:
    async with recorder.open() as bench:
        journal, failures = bench.core.ports.journal, []
        append = journal.append

        async def broken(ref: Any, what: Any) -> None:
            if any(isinstance(entry, e.Succeeded) for entry in what.entries):
                failures.append(ref)
                raise TypeError("this cannot be written")
            await append(ref, what)

        journal.append = broken  # type: ignore[method-assign]
        run = await bench.started(one(act("echo", value=1)))
        for number in range(1, TRIES):
            await eventually(lambda n=number: len(failures) == n and bench.clock.next_timer is not None)
            await asyncio.sleep(0.05)
            bench.clock.advance(10)
        await recorder.keep(bench, await bench.ended(run))


@scenario
async def refused_at_the_start(recorder: "Recorder") -> None:
    async with recorder.open() as bench:
        await bench.core.directory.add_member(bench.org, "me", "me@x.org")
        skill = await deployed_skill(bench)
        number = await bench.deployed(one(agent(agent_id=skill, message="hi")))
        await bench.core.skills.delete(bench.me, skill)
        run = await bench.core.runs.start(bench.me, workflow=number, input={})
        await recorder.keep(bench, await bench.ended(run))


@scenario
async def carried_by_the_caller(recorder: "Recorder") -> None:
    """What a body carries is in the first entry, and what a resume carries in its own."""
    async with recorder.open() as bench:
        number = await bench.deployed(graph("s>h h:approved>a", h=ask(), a=act("echo", value="{{ run.message }}")))
        context = {"userContext": {"name": "Jo", "timezone": "Europe/Paris"}, "fileThreadId": "thread-1"}
        body = {"input": {}, "message": "first", "origin": "api", "runId": "order-7", **context}
        run = await bench.ended(await bench.core.runs.start(bench.me, {"workflowId": number, **body}))
        turn = await bench.core.runs.resume(bench.me, run.id, decision="approve", message="second")
        await recorder.keep(bench, await bench.ended(turn))
