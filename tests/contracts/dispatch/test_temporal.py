"""The contract of dispatchers over Temporal, and what only a server of Temporal can show."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import attrs
import pytest
import temporal_server
from temporal_server import temporal_url
from temporalio.client import WorkflowExecutionDescription, WorkflowExecutionStatus
from temporalio.service import RPCError
from waiting import HANG

from wfcore.adapters.dispatch.temporal import connection as temporal_connection
from wfcore.adapters.dispatch.temporal import dispatcher as temporal_dispatcher
from wfcore.adapters.dispatch.temporal import workflow
from wfcore.adapters.dispatch.temporal.connection import TemporalConnection, TemporalServer, to_text
from wfcore.adapters.dispatch.temporal.dispatcher import TemporalDispatcher
from wfcore.domain.kernel.errors import Unavailable
from wfcore.ports.dispatcher import Dispatcher
from wfcore.ports.journal import Append, Claimed, ExecutionRef, Journal
from wfcore.testing.contracts.dispatcher import Bench, DispatcherContract, Recorder, eventually
from wfcore.testing.contracts.journal_values import NOW, ORG, begin, due
from wfcore.testing.fakes import FakeClock, journal_in_memory

_numbers = count(1)

CLOSED = WorkflowExecutionStatus.COMPLETED


def installation() -> TemporalServer:
    """The server, with a name that no other test has."""
    return TemporalServer(temporal_url(), name=f"test{next(_numbers)}")


class Worker:
    """One process with its connection, its dispatcher and the handler of a bench."""

    def __init__(self, server: TemporalServer, journal: Journal, concurrency: int = 100) -> None:
        self.connection = TemporalConnection(server)
        self.clock = FakeClock(NOW)
        self.notified: list[ExecutionRef] = []
        self.dispatcher = TemporalDispatcher(
            journal, self.clock, self.connection, concurrency=concurrency, notify=self.notified.append
        )
        self.handler = Recorder(journal)

    async def start(self) -> None:
        await self.connection.open()
        await self.dispatcher.start(self.handler)
        await eventually(lambda: self.clock.next_timer)  # its first poll is over

    async def die(self) -> None:
        """End without a word: nothing is released or reported any more."""
        for task in (*self.dispatcher._working, *self.dispatcher._inner._active.values()):
            task.cancel()
        self.dispatcher._working = []
        await self.connection.close()

    async def stop(self) -> None:
        await self.dispatcher.stop(0)
        await self.connection.close()


class TestTemporal(DispatcherContract):
    """Beside the contract: workflows, timers, search attributes, and workers and servers that are away."""

    @pytest.fixture(autouse=True)
    def limits(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A busy server is not one that is away: no wake-up is lost, which only a poll would make good."""
        monkeypatch.setattr(temporal_dispatcher, "RETRY_SECONDS", 0.05)
        monkeypatch.setattr(temporal_connection, "CONNECT_SECONDS", HANG)
        monkeypatch.setattr(temporal_connection, "RPC_SECONDS", HANG)

    @asynccontextmanager
    async def open_journal(self, place: Path) -> AsyncIterator[Journal]:
        self.server = installation()
        self.connection = TemporalConnection(self.server)
        self.workers: list[Worker] = []
        await self.connection.open()
        try:
            yield journal_in_memory()
        finally:
            for worker in self.workers:
                await worker.stop()
            await self.connection.close()

    def make(self, journal: Journal, clock: FakeClock, concurrency: int) -> Dispatcher:
        return TemporalDispatcher(journal, clock, self.connection, concurrency=concurrency)

    async def worker(self, bench: Bench, concurrency: int = 100) -> Worker:
        worker = Worker(self.server, bench.journal, concurrency)
        self.workers.append(worker)
        await worker.start()
        return worker

    async def workflow_of(
        self, ref: ExecutionRef, is_as_expected: Callable[[WorkflowExecutionDescription], Any]
    ) -> WorkflowExecutionDescription:
        """The workflow of the execution, once it is as expected."""
        handle = (await self.connection.client()).get_workflow_handle(f"{self.server.name}/{to_text(ref)}")

        async def found() -> WorkflowExecutionDescription | None:
            try:
                described = await handle.describe()
            except RPCError:  # not begun yet
                return None
            return described if is_as_expected(described) else None

        described = await eventually(found)
        assert isinstance(described, WorkflowExecutionDescription)
        return described

    async def test_one_worker_gets_each(self, bench: Bench) -> None:
        """Of several workers exactly one drives each execution, by an activity that lasts until its end."""
        workers = [await self.worker(bench) for _ in range(2)]
        refs = [await bench.due(f"r-{number}") for number in range(20)]
        handled: Counter[ExecutionRef] = Counter()

        def count_handled() -> bool:
            handled.clear()
            for worker in workers:
                handled.update(worker.handler.handled)
            return handled.total() >= len(refs)

        await eventually(count_handled)
        assert handled == Counter(refs)
        for ref in refs[:3]:
            await self.workflow_of(ref, lambda found: found.status is CLOSED)

    async def test_what_the_user_interface_shows(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        """An execution can be found by its organization, workflow and status, also while it is driven."""
        monkeypatch.setattr(workflow, "LOOK_AFTER", 0.05)
        worker, gate = await self.worker(bench), asyncio.Event()
        worker.handler.before = lambda _: gate.wait()
        ref = await bench.due("r-1")
        row = await bench.journal.execution(ref)
        shown = {workflow.ORGANIZATION: ORG, workflow.RESOURCE: f"{row.kind}/{row.resource_id}",
                 workflow.STATUS: "running"}  # fmt: skip

        def is_shown(found: WorkflowExecutionDescription) -> bool:
            return all(found.typed_search_attributes.get(key) == value for key, value in shown.items())

        found = await self.workflow_of(ref, is_shown)
        assert found.status is WorkflowExecutionStatus.RUNNING
        gate.set()
        await self.workflow_of(ref, lambda found: found.status is CLOSED)

    async def test_a_due_time_is_a_timer(self, bench: Bench) -> None:
        """The server wakes a worker then, without a poll; the workflow stays open until then."""
        worker = await self.worker(bench)
        ref = await due(bench.journal, "r-1", NOW + 300)
        bench.dispatcher.wake(ref)
        worker.clock.step(0.3)  # no timer of the clock runs: nothing is polled
        await eventually(lambda: worker.handler.handled[ref])
        await self.workflow_of(ref, lambda found: found.status is CLOSED)

    async def test_the_driver_is_signalled_by_whoever_is_asked(self, bench: Bench) -> None:
        """A wake-up by a third process reaches the worker that drives the execution, or those that it is sent to."""
        workers, gate = [await self.worker(bench) for _ in range(2)], asyncio.Event()
        for worker in workers:
            worker.handler.before = lambda _: gate.wait()
        ref = await bench.due("r-1")
        await eventually(lambda: any(worker.handler.under_way for worker in workers))
        driver, other = sorted(workers, key=lambda worker: not worker.handler.under_way)
        bench.dispatcher.wake(ref)
        await eventually(lambda: driver.handler.signals or other.notified)
        for worker in workers:
            await worker.dispatcher.look(to_text(ref), True)
        assert (set(driver.handler.signals), set(other.notified)) == ({ref}, {ref})
        gate.set()

    async def test_a_worker_that_dies(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without heartbeats another worker gets the activity, and drives the execution once its claim is released."""
        monkeypatch.setattr(workflow, "SILENCE", timedelta(seconds=1))
        dead = await self.worker(bench)
        dead.handler.before = lambda _: asyncio.Event().wait()
        ref = await bench.due("r-1")
        await eventually(lambda: dead.handler.handled[ref])
        number = dead.dispatcher.worker
        assert number is not None
        await dead.die()
        heir = await self.worker(bench)
        await bench.journal.release(number)
        await eventually(lambda: heir.handler.handled[ref])
        assert (await bench.journal.execution(ref)).epoch == 2

    async def test_a_claim_that_its_worker_does_not_drive(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without a poller of its queue, any worker takes the execution, once it can be claimed."""
        monkeypatch.setattr(workflow, "OWN_QUEUE_SECONDS", timedelta(milliseconds=100))
        ref = await begin(bench.journal, "r-1", wake_at=NOW, claimed_by=99)
        self.connection.start(ref, f"{self.server.name}-worker-99")
        worker = await self.worker(bench)
        found = await self.workflow_of(ref, lambda found: found.raw_description.pending_activities)
        assert found.raw_description.pending_activities[0].activity_type.name == workflow.HANDLE
        await bench.journal.append(ref, Append(1, (), updates_claim=True, wake_at=NOW))
        await eventually(lambda: worker.handler.handled[ref])

    async def test_what_is_driven_without_an_activity_has_a_workflow(self, bench: Bench) -> None:
        """An execution that this worker claimed at its begin, and one that a poll found."""
        worker = await self.worker(bench)
        gate = asyncio.Event()
        worker.handler.before = lambda _: gate.wait()
        adopted = await begin(bench.journal, "r-1", wake_at=NOW, claimed_by=worker.dispatcher.worker)
        worker.dispatcher.adopt(adopted)
        polled = await due(bench.journal, "r-2", NOW)
        worker.clock.advance(worker.dispatcher.delays.timer)
        for ref in (adopted, polled):
            found = await self.workflow_of(ref, lambda found: found.raw_description.pending_activities)
            assert found.status is WorkflowExecutionStatus.RUNNING
        gate.set()
        for ref in (adopted, polled):
            await self.workflow_of(ref, lambda found: found.status is CLOSED)
        assert worker.handler.handled == {adopted: 1, polled: 1}

    async def test_polls_leave_time_for_the_server(self, bench: Bench) -> None:
        """What has been due for less than the lag is left to the server, and claimed by a poll after it."""
        worker = await self.worker(bench)
        ref = await due(bench.journal, "r-1", NOW)
        for _ in range(4):
            worker.clock.advance(1)
            await eventually(lambda: worker.clock.next_timer)
        assert not worker.handler.handled
        worker.clock.advance(2)
        await eventually(lambda: worker.handler.handled[ref])

    async def test_a_history_is_bounded(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        """After so many rounds the workflow continues as a new one, with the same id."""
        monkeypatch.setattr(workflow, "ROUNDS", 1)
        await self.worker(bench)
        ref = await due(bench.journal, "r-1", NOW + 300)
        bench.dispatcher.wake(ref)
        found = await self.workflow_of(ref, lambda _: True)
        later = await self.workflow_of(ref, lambda later: later.run_id != found.run_id)
        assert later.id == found.id

    async def test_an_execution_that_does_not_exist(self, bench: Bench) -> None:
        """Its workflow ends."""
        await self.worker(bench)
        ref = ExecutionRef(ORG, 999)
        bench.dispatcher.wake(ref)
        found = await self.workflow_of(ref, lambda found: found.status is CLOSED)
        assert found.history_length < 20

    async def test_a_worker_without_free_capacity(self, bench: Bench) -> None:
        """The activity is tried again, until a worker is free."""
        worker, gate = await self.worker(bench, 1), asyncio.Event()
        worker.handler.before = lambda _: gate.wait()
        first = await bench.due("r-1")
        await eventually(lambda: worker.handler.under_way)
        second = await bench.due("r-2")

        def is_refused(found: WorkflowExecutionDescription) -> bool:
            pending = found.raw_description.pending_activities
            return bool(pending) and "cannot claim it now" in pending[0].last_failure.message

        await self.workflow_of(second, is_refused)
        gate.set()
        await eventually(lambda: worker.handler.handled[second])
        assert worker.handler.handled == {first: 1, second: 1}

    async def test_an_organization_at_its_limit(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        """What cannot be claimed yet is tried again after a pause, by the same activity."""
        worker, claim, is_full = await self.worker(bench), bench.journal.claim, True

        async def limited(*arguments: Any) -> Claimed | None:
            return None if is_full else await claim(*arguments)

        monkeypatch.setattr(bench.journal, "claim", limited)
        ref = await bench.due("r-1")

        def is_tried_often(found: WorkflowExecutionDescription) -> bool:
            return any(pending.attempt > 5 for pending in found.raw_description.pending_activities)

        await self.workflow_of(ref, is_tried_often)
        is_full = False
        await eventually(lambda: worker.handler.handled[ref])
        found = await self.workflow_of(ref, lambda found: found.status is CLOSED)
        assert found.history_length < 40

    async def test_while_the_server_is_away(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        """A wake-up makes this worker and the others look into the journal, and polls find what others wrote."""
        worker = await self.worker(bench)
        monkeypatch.setattr(worker.connection, "_is_available", False)
        woken = await due(bench.journal, "woken", NOW)
        worker.dispatcher.wake(woken)
        await eventually(lambda: worker.handler.handled[woken])
        assert worker.notified == [woken]
        lost = await due(bench.journal, "lost", NOW)
        worker.clock.advance(1)
        await eventually(lambda: worker.handler.handled[lost])

    async def test_a_request_that_fails(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Its execution is found by a poll, and the server is used again once it responds."""
        worker = await self.worker(bench)
        client, failures = await worker.connection.client(), [TimeoutError()]
        start = client.start_workflow

        async def fail_once(*args: Any, **options: Any) -> Any:
            if failures:
                raise failures.pop()
            return await start(*args, **options)

        monkeypatch.setattr(client, "start_workflow", fail_once)
        lost = await due(bench.journal, "r-1", NOW)
        worker.dispatcher.wake(lost)
        await eventually(lambda: worker.handler.handled[lost])
        await eventually(lambda: worker.connection.is_available)
        assert "Temporal cannot be used: TimeoutError" in caplog.text

    async def test_a_namespace_that_does_not_exist(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """It is logged and tried again, and runs go on by polls."""
        monkeypatch.setattr(temporal_dispatcher, "RESTART_SECONDS", 0.01)
        self.server = attrs.evolve(self.server, namespace="missing")
        worker = await self.worker(bench)
        ref = await due(bench.journal, "r-1", NOW)
        worker.dispatcher.wake(ref)
        await eventually(lambda: worker.handler.handled[ref])
        await eventually(lambda: caplog.text.count("Temporal does not deliver executions") > 2)


class TestTemporalConnection:
    """Credentials, TLS, search attributes, and servers that are away."""

    pytestmark = pytest.mark.anyio

    async def test_a_server_that_restarts(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Opening does not wait for it for ever. Search attributes are registered. After a kill it is used again."""
        monkeypatch.setattr(temporal_connection, "CONNECT_SECONDS", 0.01)
        monkeypatch.setattr(temporal_connection, "RETRY_SECONDS", 0.05)
        temporal_url()
        server, lost = temporal_server.TemporalServer(tmp_path, attributes=False), list[ExecutionRef]()
        connection = TemporalConnection(TemporalServer(server.url))
        connection.on_lost(lost.append)
        await connection.open()
        ref = ExecutionRef(ORG, 1)
        assert not connection.start(ref)
        server.start()
        try:
            await eventually(lambda: connection.is_available)
            assert connection.has_attributes
            assert connection.start(ref)
            await connection._unsent.join()
            server.kill()
            assert connection.start(ref)
            await eventually(lambda: lost)
            assert not connection.is_available
            assert not connection.start(ref)
            server.start()
            await eventually(lambda: connection.is_available)
            handle = (await connection.client()).get_workflow_handle(f"wfcore/{to_text(ref)}")
            assert (await handle.describe()).status is WorkflowExecutionStatus.RUNNING
        finally:
            await connection.close()
            server.kill()

    async def test_what_does_not_fit_is_dropped(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(temporal_connection, "MAX_UNSENT", 1)
        connection = TemporalConnection(installation())
        await connection.open()
        await connection.client()
        try:
            assert [connection.start(ExecutionRef(ORG, number)) for number in (1, 2)] == [True, False]
        finally:
            await connection.close()

    async def test_search_attributes_that_cannot_be_registered(self, caplog: pytest.LogCaptureFixture) -> None:
        """Without the permission, executions are dispatched without them."""
        connection = TemporalConnection(installation())
        await connection.open()
        try:
            client = await connection.client()
            refused = attrs.evolve(connection._server, namespace="missing")
            connection._server = refused
            assert not await connection._register(client)
            assert "does not register search attributes" in caplog.text
        finally:
            await connection.close()

    async def test_files_of_the_server(self, tmp_path: Path) -> None:
        """An API key, certificates, or `tls://` make the connection one with TLS."""
        key = tmp_path / "key"
        key.write_text("secret\n")
        plain = TemporalServer("temporal:7233", namespace="team")
        assert TemporalConnection(plain)._options() == {
            "target_host": "temporal:7233", "namespace": "team", "api_key": None, "tls": False
        }  # fmt: skip
        given = TemporalConnection(attrs.evolve(plain, credentials=str(key)))._options()
        assert (given["api_key"], given["tls"].server_root_ca_cert) == ("secret", None)
        certified = attrs.evolve(plain, url="tls://temporal:7233", tls_certificate=str(key), tls_key=str(key))
        given = TemporalConnection(certified)._options()
        assert (given["target_host"], given["tls"].client_cert) == ("temporal:7233", b"secret\n")

    @pytest.mark.parametrize("field", ["credentials", "tls_ca", "tls_certificate"])
    async def test_files_that_cannot_be_read(self, tmp_path: Path, field: str) -> None:
        """Opening fails at once, and names the file."""
        missing: dict[str, Any] = {field: str(tmp_path / "missing.pem")}
        with pytest.raises(Unavailable, match="credentials for Temporal"):
            await TemporalConnection(TemporalServer("127.0.0.1:1", **missing)).open()
