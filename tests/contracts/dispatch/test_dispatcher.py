"""The dispatcher's contract for the embedded dispatcher over both journals, and its own properties."""

import asyncio
import os
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from wfcore.adapters.dispatch import embedded
from wfcore.adapters.dispatch.embedded import EmbeddedDispatcher, is_alive, this_machine
from wfcore.adapters.sql.journal.journal import SqlJournal
from wfcore.adapters.sql.sqlite.database import Database
from wfcore.adapters.sql.storage import SqlStorage
from wfcore.domain.people.people import Organization
from wfcore.ports.dispatcher import Dispatcher
from wfcore.ports.journal import Claimed, ExecutionRef, Journal
from wfcore.testing.contracts.dispatcher import Bench, DispatcherContract, eventually
from wfcore.testing.contracts.journal_values import NOW, ORG, begin, due
from wfcore.testing.fakes import FakeClock

WRITES = {"heartbeat", "claim_due", "append", "release", "register", "begin"}


class Watched:
    """A journal that counts what is asked of it."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        self.calls[name] += 1
        return getattr(self._journal, name)

    @property
    def writes(self) -> set[str]:
        return self.calls.keys() & WRITES


class EmbeddedContract(DispatcherContract):
    """Beside the contract: what a dispatcher that lives in the process promises."""

    def make(self, journal: Journal, clock: FakeClock, concurrency: int) -> Dispatcher:
        return EmbeddedDispatcher(journal, clock, concurrency=concurrency)

    async def test_waiting_writes_nothing(self, bench: Bench) -> None:
        """A minute of waiting, with an execution due much later, writes nothing."""
        await begin(bench.journal, "later", wake_at=NOW + 3_600_000)
        watched = Watched(bench.journal)
        bench.dispatcher = EmbeddedDispatcher(watched, bench.clock)  # type: ignore[arg-type]
        await bench.dispatcher.start(bench.handler)
        watched.calls.clear()
        await bench.beats(60)
        assert watched.calls["next_wake"] >= 60
        assert watched.writes == set()

    @pytest.mark.parametrize("is_signalled", [False, True])
    async def test_what_a_claim_has_read(self, bench: Bench, is_signalled: bool) -> None:
        """The handler receives it, unless the execution was signalled meanwhile: it can have more entries by now."""
        claim = bench.journal.claim

        async def signalled(execution: ExecutionRef, *claimant: int) -> Claimed | None:
            claimed = await claim(execution, *claimant)
            assert is_signalled is False or dispatcher.signal(execution) is False
            return claimed

        async def nothing(*_: int) -> list[ExecutionRef]:
            return []

        bench.journal.claim, bench.journal.claim_due = signalled, nothing  # type: ignore[method-assign]
        dispatcher = bench.dispatcher = EmbeddedDispatcher(bench.journal, bench.clock, engine_lag=lambda: 60.0)
        await dispatcher.start(bench.handler)
        ref, asleep = await due(bench.journal, "r-1", NOW), await due(bench.journal, "r-2", NOW + 9)
        assert await dispatcher.claim(asleep) is None
        driving = await dispatcher.claim(ref)
        assert driving is not None
        await driving
        claimed = bench.handler.claimed[ref]
        assert (claimed is None) == is_signalled
        assert claimed is None or claimed.execution.ref == ref

    async def test_a_claim_under_way_is_not_lost(self, bench: Bench) -> None:
        """A beat between its commit and its return leaves the execution to who claims it."""
        claim = bench.journal.claim

        async def slow(*given: Any) -> Claimed | None:
            claimed = await claim(*given)
            await bench.beats(2)
            return claimed

        bench.journal.claim = slow  # type: ignore[method-assign]
        dispatcher = bench.dispatcher = EmbeddedDispatcher(bench.journal, bench.clock, engine_lag=lambda: 60.0)
        await dispatcher.start(bench.handler)
        await bench.rounds()
        ref = await due(bench.journal, "r-1", NOW)
        driving = await dispatcher.claim(ref)
        assert driving is not None
        await driving
        assert (bench.handler.handled[ref], bench.handler.claimed[ref] is None) == (1, False)

    async def test_a_holder_sends_heartbeats(self, bench: Bench) -> None:
        """While it holds an execution, a worker sends a heartbeat each round, also during the grace of a stop."""
        watched, gate = Watched(bench.journal), asyncio.Event()
        bench.handler.before = lambda _: gate.wait()
        bench.dispatcher = EmbeddedDispatcher(watched, bench.clock)  # type: ignore[arg-type]
        await bench.dispatcher.start(bench.handler)
        ref = await bench.due("r-1")
        await bench.until_handled(ref)
        before = watched.calls["heartbeat"]
        await bench.beats(3)
        assert watched.calls["heartbeat"] >= before + 3
        watched.calls.clear()
        stopping = asyncio.create_task(bench.dispatcher.stop(60))
        await eventually(lambda: watched.calls["heartbeat"])
        gate.set()
        await stopping

    async def test_a_dead_process_of_this_machine(self, bench: Bench) -> None:
        """The process table shows that it ended: its executions are claimed at the start, without waiting."""
        dead = await bench.journal.register(this_machine(), ended_process())
        alive = await bench.journal.register(this_machine(), os.getpid())
        lost = await begin(bench.journal, "lost", wake_at=NOW, claimed_by=dead)
        held = await begin(bench.journal, "held", wake_at=NOW, claimed_by=alive)
        await bench.dispatcher.start(bench.handler)
        await bench.until_handled(lost)
        bench.clock.advance(60)
        await bench.rounds()
        assert bench.handler.handled[held] == 0

    async def test_a_long_step_keeps_its_claim(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        """A worker that beats is not dead to those of other machines, however long a step takes and whatever their
        clocks say."""
        gate = asyncio.Event()
        bench.handler.before = lambda _: gate.wait()
        watched = Watched(bench.journal)
        bench.dispatcher = EmbeddedDispatcher(watched, bench.clock)  # type: ignore[arg-type]
        await bench.dispatcher.start(bench.handler)
        ref = await bench.due("r-1")
        await bench.until_handled(ref)
        monkeypatch.setattr(embedded, "this_machine", lambda: "another machine")
        fast = FakeClock(NOW + 3_600_000)
        other = EmbeddedDispatcher(bench.journal, fast)
        await other.start(bench.handler)
        for beat in range(12):
            before = watched.calls["heartbeat"]
            bench.clock.advance(1)
            await eventually(lambda before=before: watched.calls["heartbeat"] > before)
            await eventually(lambda: fast.next_timer)
            fast.advance(1)
            assert bench.handler.handled[ref] == 1, beat
        gate.set()
        await bench.until_parked(ref)
        await other.stop(0)
        assert bench.handler.handled[ref] == 1

    @pytest.mark.parametrize("machine", ["this machine", "another machine"])
    @pytest.mark.parametrize("ahead", [-86_400_000, 86_400_000])
    async def test_clocks_that_differ(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch, machine: str, ahead: int
    ) -> None:
        """Two workers whose clocks differ by a day keep their executions, however long a step takes."""
        gate = asyncio.Event()
        bench.handler.before = lambda _: gate.wait()
        await bench.dispatcher.start(bench.handler)
        mine = await bench.due("mine", 0)
        await bench.until_handled(mine)
        if machine != "this machine":
            monkeypatch.setattr(embedded, "this_machine", lambda: machine)
        clock = FakeClock(NOW + ahead)
        other = EmbeddedDispatcher(bench.journal, clock)
        await other.start(bench.handler)
        theirs = await begin(bench.journal, "theirs", wake_at=0, claimed_by=other.worker)
        other.adopt(theirs)
        for _ in range(70):
            for each in (bench.clock, clock):
                await eventually(lambda each=each: each.next_timer)
                each.advance(1)
                await eventually(lambda each=each: each.next_timer)
        assert bench.handler.handled == {mine: 1, theirs: 1}
        gate.set()
        for ref in (mine, theirs):
            await bench.until_parked(ref)
        await other.stop(0)
        assert bench.handler.handled == {mine: 1, theirs: 1}

    async def test_heartbeats_go_on_when_the_clock_is_set_back(self, bench: Bench) -> None:
        """The holder of an execution sends a heartbeat each second, also right after the step."""
        watched, gate = Watched(bench.journal), asyncio.Event()
        bench.handler.before = lambda _: gate.wait()
        bench.dispatcher = EmbeddedDispatcher(watched, bench.clock)  # type: ignore[arg-type]
        await bench.dispatcher.start(bench.handler)
        await bench.until_handled(await bench.due("r-1", 0))
        await bench.beats(1)
        bench.clock.step(-3_600)
        before = watched.calls["heartbeat"]
        await bench.beats(5)
        assert watched.calls["heartbeat"] >= before + 5
        gate.set()

    async def test_a_suspended_worker_does_not_declare_others_dead(self, bench: Bench) -> None:
        """After a minute without a poll (no database, a stopped process) no worker is declared dead at once."""
        other = await bench.journal.register("another machine", 1)
        ref = await begin(bench.journal, "r-1", wake_at=NOW, claimed_by=other)
        await bench.dispatcher.start(bench.handler)
        await bench.beats(1)
        bench.clock.advance(60)
        await bench.rounds()
        assert bench.handler.handled[ref] == 0
        await bench.journal.heartbeat(other)
        await bench.beats(3)
        assert bench.handler.handled[ref] == 0

    async def test_due_executions_are_claimed_in_batches(self, bench: Bench) -> None:
        """A claim takes at most `CLAIM_BATCH` executions, and all are claimed."""
        limits: list[int] = []
        claim = bench.journal.claim_due

        async def claim_due(worker: int, now: int, limit: int) -> list[ExecutionRef]:
            limits.append(limit)
            return await claim(worker, now, limit)

        watched = Watched(bench.journal)
        watched.claim_due = claim_due  # type: ignore[attr-defined]
        refs = [await begin(bench.journal, f"r-{number}", wake_at=NOW) for number in range(embedded.CLAIM_BATCH + 1)]
        bench.dispatcher = EmbeddedDispatcher(watched, bench.clock)  # type: ignore[arg-type]
        await bench.dispatcher.start(bench.handler)
        for ref in refs:
            await bench.until_handled(ref)
        assert max(limits) == embedded.CLAIM_BATCH

    async def test_other_processes_are_notified(self, bench: Bench) -> None:
        """Of wake-ups of executions that are not driven here, and of executions that a stop releases; not of others."""
        notified: list[ExecutionRef] = []
        bench.handler.before = lambda _: asyncio.Event().wait()
        bench.dispatcher = EmbeddedDispatcher(bench.journal, bench.clock, notify=lambda one, _: notified.append(one))
        await bench.dispatcher.start(bench.handler)
        ref = await bench.due("r-1")
        await bench.until_handled(ref)
        assert notified == [ref]
        bench.dispatcher.wake(ref)
        bench.dispatcher.receive(ref)
        assert (notified, bench.handler.signals) == ([ref], [ref, ref])
        await bench.dispatcher.stop(0)
        assert notified == [ref, ref]

    async def test_a_wake_up_that_comes_late(self, bench: Bench) -> None:
        """It is about entries that the driver has read: nothing is read again. A later one is not."""
        gate = asyncio.Event()
        bench.handler.before = lambda _: gate.wait()
        bench.dispatcher = EmbeddedDispatcher(bench.journal, bench.clock)
        await bench.dispatcher.start(bench.handler)
        ref = await due(bench.journal, "r-1", NOW)
        bench.dispatcher.receive(ref)
        await eventually(lambda: ref in bench.handler.read)
        bench.handler.signals.clear()
        length = bench.handler.read[ref]
        bench.dispatcher.receive(ref, length)
        assert bench.handler.signals == []
        for later in (length + 1, None):
            bench.dispatcher.receive(ref, later)
        assert bench.handler.signals == [ref, ref]
        gate.set()

    @pytest.mark.parametrize("happens", ["nothing", "a wake-up", "a failure"])
    async def test_what_a_round_has_claimed_is_read_together(self, bench: Bench, happens: str) -> None:
        """The handler gets what one read has found, unless the execution was woken meanwhile or the read has failed."""
        watched, refs = Watched(bench.journal), [await due(bench.journal, f"r-{number}", NOW) for number in range(2)]

        async def read(executions: Sequence[ExecutionRef]) -> list[Claimed]:
            if happens == "a failure":
                raise OSError("the disk is full")
            found = await bench.journal.with_entries(executions)
            if happens == "a wake-up":
                dispatcher.receive(refs[0])
            return found

        watched.with_entries = read  # type: ignore[attr-defined]
        dispatcher = bench.dispatcher = EmbeddedDispatcher(watched, bench.clock)  # type: ignore[arg-type]
        await dispatcher.start(bench.handler)
        for ref in refs:
            await bench.until_handled(ref)
        given = [bench.handler.claimed[ref] is not None for ref in refs]
        assert given == {"nothing": [True, True], "a wake-up": [False, True], "a failure": [False, False]}[happens]

    async def test_a_stop_without_a_store(self, bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
        """Active executions get their grace and end; failed writes are logged."""

        async def fail(*_: object) -> None:
            raise OSError("the disk is full")

        watched, gate = Watched(bench.journal), asyncio.Event()
        bench.handler.before = lambda _: gate.wait()
        bench.dispatcher = EmbeddedDispatcher(watched, bench.clock)  # type: ignore[arg-type]
        await bench.dispatcher.start(bench.handler)
        ref = await bench.due("r-1")
        await bench.until_handled(ref)
        watched.heartbeat = watched.release = fail  # type: ignore[attr-defined]
        await bench.dispatcher.stop(0.001)
        assert bench.handler.under_way == set()
        assert "a heartbeat failed" in caplog.text
        assert "executions could not be released" in caplog.text

    async def test_a_round_that_fails(self, bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
        """A failure of the store is logged, and the round repeated after a heartbeat interval."""
        watched = Watched(bench.journal)
        bench.dispatcher = EmbeddedDispatcher(watched, bench.clock)  # type: ignore[arg-type]
        await bench.dispatcher.start(bench.handler)
        watched.next_wake = watched.claim_due = None  # type: ignore[attr-defined]
        ref = await bench.due("r-1")
        await eventually(lambda: "a round of the dispatcher failed" in caplog.text)
        del watched.next_wake, watched.claim_due
        bench.clock.advance(1)
        await bench.until_handled(ref)


class TestEmbeddedOverMemory(EmbeddedContract):
    """Over the journal of the suite."""


class TestEmbeddedInRealTime(DispatcherContract):
    """The same contract with real timers, which are made shorter."""

    real_time = True

    @pytest.fixture(autouse=True)
    def short(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, seconds in (("HEARTBEAT", 0.02), ("DEAD_AFTER", 0.5), ("RETRY_DELAY", 0.02)):
            monkeypatch.setattr(embedded, name, seconds)

    def make(self, journal: Journal, clock: FakeClock, concurrency: int) -> Dispatcher:
        return EmbeddedDispatcher(journal, clock, concurrency=concurrency)


class TestEmbeddedOverSql(EmbeddedContract):
    @asynccontextmanager
    async def open_journal(self, place: Path) -> AsyncIterator[Journal]:
        database = Database(f"sqlite:///{place / 'journal.db'}", synchronous="NORMAL")
        await database.open()
        storage = SqlStorage(database)
        await storage.upgrade()
        await storage.add_organization(Organization(ORG, "one", datetime(2026, 1, 1, tzinfo=UTC)))
        try:
            yield SqlJournal(database)
        finally:
            await storage.close()


def ended_process() -> int:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return ended.pid


def test_zombies_are_dead() -> None:
    """A process that ended and was not reaped is not alive; a running one is."""
    running = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert is_alive(running.pid)
    assert running.stdin is not None
    running.stdin.close()
    while is_alive(running.pid):
        pass
    assert running.returncode is None
    running.wait()
    assert not is_alive(running.pid)
