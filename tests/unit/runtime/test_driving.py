"""A run under way: breaking it off, deadlines and timers, restarts, a store that fails, a claim that is lost."""

import asyncio
import logging
from itertools import pairwise
from typing import Any

import pytest
from bench import Bench, Disk, Toolbox, act, agent, ask, eventually, graph, kinds, one, opened, reason, why

from wfcore.domain.kernel.errors import Forbidden, NotFound
from wfcore.domain.run.entries import Limits
from wfcore.runtime.common.installation import Settings
from wfcore.runtime.common.run_views import RunView
from wfcore.runtime.execution.session import Session
from wfcore.testing.fakes import FakeClock

pytestmark = pytest.mark.anyio

HOLD = graph("s>a a>b", a=act("hold"), b=act("echo", value="after"))
APPROVAL = graph("s>h h:approved>a", h=ask(), a=act("echo", value="a"))


class TestCancel:
    """Interface, Run states: `cancelled` is an end."""

    @pytest.mark.parametrize("edges", ["s>a a>b", "s>a s>h a>b"])
    async def test_the_tool_in_flight_is_cancelled(self, bench: Bench, edges: str) -> None:
        """A running run, its tool alone or beside an open approval: `cancelled` is the last event, nothing follows."""
        nodes = {"a": act("hold"), "b": act("echo")} | ({"h": ask()} if "h" in edges else {})
        run = await bench.started(graph(edges, **nodes))
        await bench.until("it")
        assert (await bench.core.runs.cancel(bench.other, run.id)).status == "cancelled"
        assert kinds(await bench.events(run.id))[-1] == "cancelled"
        await eventually(lambda: bench.tools.broken_off)
        assert bench.tools.count("echo") == 0
        assert await reason(bench.core.runs.cancel(bench.me, run.id)) == "ended"
        assert await bench.core.runs.interrupts(bench.me) == ([], None)

    async def test_a_parked_run(self, bench: Bench) -> None:
        """Its record becomes `cancelled`, its interrupt leaves the inbox, and it is not resumed any more."""
        run = await bench.ran(APPROVAL)
        cancelled = await bench.core.runs.cancel(bench.me, run.id)
        assert (cancelled.status, cancelled.to_wire()["interrupts"]) == ("cancelled", [])
        assert await bench.core.runs.interrupts(bench.me) == ([], None)
        assert await reason(bench.core.runs.resume(bench.me, run.id, decision="approve")) == "not_interrupted"

    async def test_what_waits_has_plain_attributes(self, bench: Bench) -> None:
        """An item of the inbox has the names of the HTTP interface in the spelling of Python."""
        run = await bench.ran(APPROVAL)
        (item,), _ = await bench.core.runs.interrupts(bench.me)
        wire = item.to_wire()
        assert item.run_id == run.id == wire["runId"]
        assert [item.interrupt_id, item.node_id, item.message] == [
            wire[key] for key in ("interruptId", "nodeId", "message")
        ]

    async def test_what_has_ended_or_moved_on(self, bench: Bench) -> None:
        """A run that is done, and a turn that was resumed: 409 for cancel and interrupt."""
        done = await bench.ran(one(act("echo")))
        parked = await bench.ran(APPROVAL)
        await bench.core.runs.resume(bench.me, parked.id, decision="approve")
        for call in (bench.core.runs.cancel, bench.core.runs.interrupt):
            assert await reason(call(bench.me, done.id)) in ("ended", "not_running")
            assert await reason(call(bench.me, parked.id)) == "already_resumed"
            with pytest.raises(NotFound):
                await call(bench.me, "none")

    async def test_who_may(self, bench: Bench) -> None:
        """Who started it, and who can use the workflow; a named approver only sees it."""
        node = ask(approvers={"emails": ["boss@x.org"]})
        number = await bench.deployed(one(node), access={"visibility": "private"})
        run = await bench.ended(await bench.core.runs.start(bench.me, workflow=number, input={}))
        with pytest.raises(NotFound):
            await bench.core.runs.cancel(bench.other, run.id)
        with pytest.raises(Forbidden):
            await bench.core.runs.cancel(bench.person("boss"), run.id)
        assert (await bench.core.runs.cancel(bench.me, run.id)).status == "cancelled"


class TestReminders:
    """`remindAfterSeconds`, `escalateAfterSeconds`, `escalateTo` of a humanApproval."""

    BOSS = ask(remindAfterSeconds=60, escalateAfterSeconds=120, escalateTo={"emails": ["boss@x.org"]})
    GRAPH = graph("s>h h:approved>a", h=BOSS, a=act("echo", value="a"))

    async def test_an_escalation(self, bench: Bench) -> None:
        """The new approver sees and decides the same interrupt, without use; the audit has what the system did."""
        number = await bench.deployed(self.GRAPH, access={"visibility": "private"})
        run = await bench.ended(await bench.core.runs.start(bench.me, workflow=number, input={}))
        boss, name = bench.person("boss"), run.interrupts[0].id
        bench.clock.advance(60)
        reminded = await bench.ended(await bench.resumed_by(run))
        assert (reminded.status, [one.id for one in reminded.interrupts]) == ("interrupted", [name])
        assert await bench.core.runs.interrupts(boss) == ([], None)
        bench.clock.advance(60)
        escalated = await bench.ended(await bench.resumed_by(reminded))
        (item,), _ = await bench.core.runs.interrupts(boss)
        assert (item.found.interrupt.id, item.found.run_id) == (name, escalated.id)
        assert [one.found.interrupt.id for one in (await bench.core.runs.interrupts(bench.me))[0]] == [name]
        rows = {
            row.to_wire()["action"]: row.to_wire()
            for row in await bench.core.audit.page(bench.person("root", role="admin"))
        }
        assert rows["run.remind"]["resource"]["id"] == run.id
        assert (rows["run.escalate"]["userId"], rows["run.escalate"]["details"]) == (
            None,
            {"target": {"type": "workflow", "id": 1}, "interruptId": name, "emails": ["boss@x.org"], "groups": []},
        )  # fmt: skip
        last = await bench.ended(await bench.core.runs.resume(boss, escalated.id, decision="approve"))
        assert (last.status, bench.tools.count("echo")) == ("done", 1)

    async def test_the_run_that_was_interrupted_is_still_resumed_and_cancelled(self, bench: Bench) -> None:
        """A reminder does not outdate a run id that a client holds; a decision does."""
        for decide in (True, False):
            run = await bench.ran(self.GRAPH)
            bench.clock.advance(60)
            turn = await bench.ended(await bench.resumed_by(run))
            if decide:
                next_turn = await bench.core.runs.resume(bench.me, run.id, decision="approve")
                assert next_turn.row.parent_run_id == turn.id
                assert (await bench.ended(next_turn)).status == "done"
                assert await reason(bench.core.runs.resume(bench.me, run.id, decision="deny")) == "already_resumed"
            else:
                await bench.core.runs.cancel(bench.me, run.id)
                assert (await bench.core.runs.get(bench.me, turn.id)).status == "cancelled"


class TestInterrupt:
    """`/interrupt` parks the run at the next step."""

    async def test_it_parks_after_what_is_in_flight(self, bench: Bench) -> None:
        """The tool under way ends, the next does not begin; the record has no open interrupt."""
        run = await bench.started(HOLD)
        await bench.until("it")
        await bench.core.runs.interrupt(bench.me, run.id)
        bench.tools.free["it"].set()
        parked = await bench.ended(run)
        assert (parked.status, parked.to_wire()["interrupts"]) == ("interrupted", [])
        assert [name for name, *_ in bench.tools.calls] == ["hold"]
        assert bench.tools.broken_off == []
        assert await reason(bench.core.runs.resume(bench.me, run.id, decision="approve")) == "not_interrupted"
        turn = await bench.ended(await bench.core.runs.resume(bench.me, run.id))
        assert (turn.status, turn.output) == ("done", "after")

    async def test_twice(self, bench: Bench) -> None:
        """A run that is to park already, or is parked, is not interrupted again."""
        run = await bench.started(HOLD)
        await bench.until("it")
        await bench.core.runs.interrupt(bench.me, run.id)
        assert await reason(bench.core.runs.interrupt(bench.me, run.id)) == "not_running"


class TestTime:
    """Deadlines, timers and bounds, driven by a clock that jumps."""

    async def test_a_deadline_of_a_parked_run(self, bench: Bench) -> None:
        """The system makes the next turn, `resumedBy` links it; the approval is expired, not denied."""
        structure = graph("s>h h:denied>d h:expired>e", h=ask(timeoutSeconds=60), d=act("echo"),
                          e=act("echo", value="{{ nodes.h.output.decision }}"))  # fmt: skip
        run = await bench.ran(structure)
        bench.clock.advance(59)
        assert (await bench.core.runs.get(bench.me, run.id)).row.resumed_by is None
        bench.clock.advance(1)
        turn = await bench.ended(await bench.resumed_by(run))
        assert (turn.status, turn.output, turn.row.parent_run_id) == ("done", "expired", run.id)
        assert kinds(await bench.events(turn.id))[0] == "run_started"
        assert await reason(bench.core.runs.resume(bench.me, run.id, decision="approve")) == "already_resumed"

    @pytest.mark.parametrize(("on_timeout", "status"), [("approve", "done"), ("deny", "done"), ("error", "error")])
    async def test_on_timeout(self, bench: Bench, on_timeout: str, status: str) -> None:
        """Without an `expired` edge the deadline does what `onTimeout` says, in a turn that ends at once too."""
        node = ask(timeoutSeconds=60, onTimeout=on_timeout)
        run = await bench.ran(graph("s>h h:approved>a", h=node, a=act("echo", value="a")))
        bench.clock.advance(60)
        turn = await bench.ended(await bench.resumed_by(run))
        assert turn.status == status
        assert bench.tools.count("echo") == (on_timeout == "approve")

    async def test_a_deadline_beside_a_branch_that_works(self, bench: Bench) -> None:
        """It passes within the turn; the branch is not disturbed."""
        structure = graph("s>h s>w h:expired>e", h=ask(timeoutSeconds=60), w=act("hold"), e=act("echo", value="late"))
        run = await bench.started(structure)
        await bench.until("it")
        bench.clock.advance(60)
        await eventually(lambda: bench.tools.count("echo"))
        bench.tools.free["it"].set()
        assert (await bench.ended(run)).output == {"e": "late", "w": "it"}
        assert bench.tools.count("hold") == 1

    async def test_a_long_back_off_gives_the_claim_back(self, bench: Bench) -> None:
        """While it waits nobody holds the execution; it comes back by itself, under the same key."""
        retry = {"retry": {"maxAttempts": 3, "initialIntervalSeconds": 100, "backoffCoefficient": 2}}
        run = await bench.started(one(act("flaky", fails=2, more=retry)))
        for called, seconds in ((1, 100), (2, 200)):
            await eventually(lambda called=called: bench.tools.count("flaky") == called)
            await given_back(bench, run)
            bench.clock.advance(seconds)
        assert (await bench.ended(run)).output == 3
        assert len({key for _, _, key, _ in bench.tools.calls}) == 1
        assert [attempt for *_, attempt in bench.tools.calls] == [1, 2, 3]

    async def test_a_short_back_off_stays_in_memory(self, bench: Bench) -> None:
        """Within the hold time the driver waits itself."""
        retry = {"retry": {"maxAttempts": 2, "initialIntervalSeconds": 1}}
        run = await bench.started(one(act("flaky", fails=1, more=retry)))
        await bench.seen(run, "node_retrying")
        execution = await bench.core.ports.journal.execution(run.row.execution)
        assert execution.claimed_by == bench.core.ports.dispatcher.worker
        bench.clock.advance(1)
        assert (await bench.ended(run)).output == 2

    async def test_attempts_run_out(self, bench: Bench) -> None:
        """`maxAttempts` counts the first try; the last failure is the node's."""
        retry = {"retry": {"maxAttempts": 2, "initialIntervalSeconds": 0}}
        run = await bench.ran(one(act("flaky", fails=9, more=retry)))
        assert why(run) == ("RuntimeError: attempt 2 fails", "tool")
        assert bench.tools.count("flaky") == 2

    async def test_a_run_that_goes_on_for_too_long(self, database: str) -> None:
        """The bound on duration ends it, though its one tool never answers."""
        async with opened(database, settings=Settings(limits=Limits(max_run_seconds=50))) as bench:
            run = await bench.started(HOLD)
            await bench.until("it")
            bench.clock.advance(51)
            assert why(await bench.ended(run)) == ("the run went on for longer than 50 seconds", "bounds")
            assert bench.tools.broken_off == ["it"]

    async def test_time_that_runs_out_in_the_middle_of_a_commit(self, database: str) -> None:
        """Nothing could be broken off at that moment: what follows is not begun."""
        async with opened(database, settings=Settings(limits=Limits(max_run_seconds=50))) as bench:
            journal, begun = bench.core.ports.journal, asyncio.Event()
            append = journal.append

            async def slow(*args: Any) -> None:
                await append(*args)
                if not begun.is_set():
                    begun.set()
                    bench.clock.advance(51)
                    for _ in range(3):
                        await asyncio.sleep(0)

            journal.append = slow  # type: ignore[method-assign]
            run = await bench.started(graph("s>a a>b", a=act("echo"), b=act("hold")))
            assert why(await bench.ended(run)) == ("the run went on for longer than 50 seconds", "bounds")
            assert bench.tools.count("hold") == 0

    async def test_node_visits_are_bounded(self, database: str) -> None:
        """A cycle that never ends is ended."""
        loop = graph("s>a a>c c:again>a", a=act("echo"),
                     c={"type": "condition", "data": {"branches": [{"handle": "again", "when": "true"}]}})  # fmt: skip
        async with opened(database, settings=Settings(limits=Limits(max_node_visits=20))) as bench:
            assert why(await bench.ran(loop)) == ("the run passed its bound of 20 node visits", "bounds")


async def given_back(bench: Bench, run: RunView) -> None:
    async def free() -> bool:
        return (await bench.core.ports.journal.execution(run.row.execution)).claimed_by is None

    await eventually(free)


class TestRestart:
    """Closing and opening again on the same file: runs go on, and what was done is not done again."""

    async def test_in_the_middle_of_a_tool(self, database: str) -> None:
        """The step that was durable is not repeated; the one in flight is, under the same key."""
        structure = graph("s>a a>b b>c", a=act("echo", value=1), b=act("hold"), c=act("echo", value=2))
        async with opened(database, before := Toolbox()) as bench:
            run = await bench.started(structure)
            await bench.until("it")
        assert before.broken_off == ["it"]
        async with opened(database, after := Toolbox(), org=bench.org) as again:
            after.free["it"].set()
            done = await again.ended(run.id)
            assert (done.status, done.output) == ("done", 2)
            assert [name for name, *_ in after.calls] == ["hold", "echo"]
            assert after.calls[0][2] == before.calls[1][2]
            seqs = [event.seq for event in await again.events(run.id)]
            assert seqs == list(range(1, len(seqs) + 1))

    async def test_while_parked(self, database: str) -> None:
        """An interrupt is open after a restart, and its answer carries the run on."""
        async with opened(database) as bench:
            run = await bench.ran(APPROVAL)
        async with opened(database, org=bench.org) as again:
            ((item,), _) = await again.core.runs.interrupts(again.me)
            assert item.to_wire()["runId"] == run.id
            turn = await again.ended(await again.core.runs.resume(again.me, run.id, decision="approve"))
            assert turn.output == "a"

    async def test_what_was_carried_and_refused(self, database: str) -> None:
        """What a resume carried, and why a start was refused, are read back as they were."""
        skill_flow = one(agent(agent_id=1, message="hi"))
        async with opened(database) as bench:
            await bench.core.directory.add_member(bench.org, "me", "me@x.org")
            skill = await bench.core.skills.create(bench.me, name="s")
            await bench.core.skills.deploy(bench.me, skill.id)
            number = await bench.deployed(skill_flow)
            await bench.core.skills.delete(bench.me, skill.id)
            refused = await bench.core.runs.start(bench.me, workflow=number, input={})
            events = await bench.events(refused.id)
            run = await bench.ran(
                graph("s>h h:approved>w w>a", h=ask(), w=act("hold"), a=act("echo", value="{{ run.message }}"))
            )
            turn = await bench.core.runs.resume(bench.me, run.id, decision="approve", message="go on")
            await bench.until("it")
        async with opened(database, after := Toolbox(), org=bench.org) as again:
            after.free["it"].set()
            assert (await again.ended(turn.id)).output == "go on"
            assert await again.events(refused.id) == events
            assert kinds(events) == ["run_started", "error"]

    async def test_waiting(self, database: str) -> None:
        """A `core.wait` and an approval's deadline that fell due while nobody worked expire at the next start."""
        clock = FakeClock()
        async with opened(database, clock=clock) as bench:
            waits = await bench.started(graph("s>w w>a", w=act("core.wait", seconds=3600), a=act("echo", value="up")))
            parked = await bench.ran(one(ask(timeoutSeconds=3600)))
            await given_back(bench, waits)
            clock.advance(1800)
        async with opened(database, org=bench.org, clock=clock) as again:
            assert (await again.core.runs.get(again.me, waits.id)).status == "running"
        clock.advance(1800)
        async with opened(database, org=bench.org, clock=clock) as again:
            assert (await again.ended(waits.id)).output == "up"
            turn = await again.ended(await again.resumed_by(parked))
            assert turn.output["decision"] == "expired"

    async def test_without_the_tool(self, database: str) -> None:
        """A tool that is gone after a restart fails its node, and says which."""
        async with opened(database) as bench:
            run = await bench.started(HOLD)
            await bench.until("it")
        async with opened(database, org=bench.org, tools=[]) as again:
            assert why(await again.ended(run.id)) == ("there is no tool `hold`", "tool")

    async def test_started_without_a_worker(self, database: str) -> None:
        """What a process without a worker starts is queued, and claimed by the next one that works."""
        async with opened(database, worker=False) as bench:
            run = await bench.started(one(act("echo", value=5)))
            assert run.status == "queued"
        async with opened(database, org=bench.org) as again:
            assert (await again.ended(run.id)).output == 5


async def test_a_driver_that_fails_tries_again(caplog: pytest.LogCaptureFixture) -> None:
    """A store that fails for a while costs the run nothing: it is logged, and the execution is driven again."""
    async with opened("sqlite://") as bench:
        disk = Disk(bench, full=True)
        with caplog.at_level(logging.ERROR, "wfcore.dispatcher"):
            run = await bench.started(one(act("echo", value=1)))
            await eventually(lambda: "an execution could not be driven" in caplog.text)
        disk.full = False
        bench.clock.advance(10)
        assert (await bench.ended(run)).output == 1


async def test_what_no_exception_is_delays_a_driver_too(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The execution is driven again after the same pause, not at every heartbeat, and the log has the cause."""
    tries, drive = list[int](), Session.drive

    async def panic(session: Session) -> None:
        tries.append(bench.clock.monotonic())
        if len(tries) == 3:
            return await drive(session)
        raise asyncio.CancelledError if len(tries) == 1 else BaseException("index out of bounds")

    def has_ended() -> bool:
        bench.clock.advance(1)
        return len(tries) == 3

    async with opened("sqlite://") as bench:
        monkeypatch.setattr(Session, "drive", panic)
        run = await bench.started(one(act("echo", value=1)))
        await eventually(has_ended)
        assert (await bench.ended(run)).output == 1
        assert all(later - earlier >= 10_000 for earlier, later in pairwise(tries))
        assert caplog.text.count("an execution could not be driven") == 2
        assert "index out of bounds" in caplog.text


async def test_a_claim_that_was_lost_is_left_alone(database: str) -> None:
    """Another worker took the execution over while a tool ran here: what comes of it is not written."""
    async with opened(database) as bench:
        run = await bench.started(HOLD)
        await bench.until("it")
        journal, mine = bench.core.ports.journal, bench.core.ports.dispatcher.worker
        assert mine is not None
        thief = await journal.register("elsewhere", 1)
        await journal.release(mine)
        assert await journal.claim_due(thief, bench.clock.now(), 10) == [run.row.execution]
        length = (await journal.execution(run.row.execution)).length
        bench.tools.free["it"].set()
        await eventually(lambda: not bench.core.driver.lengths())
        execution = await journal.execution(run.row.execution)
        assert (execution.length, execution.claimed_by) == (length, thief)
