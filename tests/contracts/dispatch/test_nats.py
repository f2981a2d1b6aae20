"""The contracts of dispatchers and hints over NATS, and what only a broker can show."""

import asyncio
import base64
import json
import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import attrs
import nkeys
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from nats.js import JetStreamContext
from nats.js.errors import NotFoundError
from nats_server import NatsServer, nats_url
from waiting import HANG

from wfcore.adapters.dispatch.nats import connection as nats_connection
from wfcore.adapters.dispatch.nats import dispatcher as nats_dispatcher
from wfcore.adapters.dispatch.nats import hints as nats_hints
from wfcore.adapters.dispatch.nats.connection import NatsConnection, NatsServers
from wfcore.adapters.dispatch.nats.dispatcher import NatsDispatcher
from wfcore.adapters.dispatch.nats.hints import NatsHints
from wfcore.adapters.inmemory.journal.journal import MemoryJournal
from wfcore.domain.kernel.errors import Unavailable
from wfcore.ports.dispatcher import Dispatcher
from wfcore.ports.hints import Hints
from wfcore.ports.journal import ExecutionRef, Journal, JournalConflict
from wfcore.testing.contracts.dispatcher import Bench, DispatcherContract, Recorder, eventually
from wfcore.testing.contracts.events import ONE, OTHER, events
from wfcore.testing.contracts.journal_values import NOW, ORG, begin, due
from wfcore.testing.contracts.processes.hints import HintedProcess, HintsContract
from wfcore.testing.fakes import FakeClock

_numbers = count(1)


def installation() -> NatsServers:
    """The servers, with a name that no other test has."""
    return NatsServers([nats_url()], name=f"test{next(_numbers)}")


class TestNatsHints(HintsContract):
    @pytest.fixture(autouse=True)
    def servers(self) -> None:
        self.installation = installation()

    def make(self, place: Path) -> Hints:
        return NatsHints(NatsConnection(self.installation))


class Worker:
    """One process with its connection, its dispatcher and the handler of a bench."""

    def __init__(self, servers: NatsServers, journal: Journal, concurrency: int = 100) -> None:
        self.journal = journal
        self.connection = NatsConnection(servers)
        self.hints = NatsHints(self.connection)
        self.clock = FakeClock(NOW)
        self.dispatcher = NatsDispatcher(journal, self.clock, self.connection, self.hints, concurrency=concurrency)
        self.handler = Recorder(journal)

    async def start(self) -> None:
        await self.hints.open(self.dispatcher.receive, lambda _, __: None)
        await self.dispatcher.start(self.handler)
        await eventually(lambda: self.clock.next_timer)  # its first poll is over

    async def die(self) -> None:
        """End without a word: nothing is released, acknowledged or answered any more."""
        for task in self.dispatcher._loops:
            task.cancel()
        await self.connection.close()

    async def stop(self) -> None:
        await self.dispatcher.stop(0)
        await self.hints.close()


class TestNats(DispatcherContract):
    """Beside the contract: who gets a message, and what happens while the server or a worker is away."""

    @pytest.fixture(autouse=True)
    def limits(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A busy server is not one that is away: no message is lost, which only a poll would make good."""
        monkeypatch.setattr(nats_connection, "CONNECT_SECONDS", HANG)
        monkeypatch.setattr(nats_connection, "PING_SECONDS", HANG)

    @asynccontextmanager
    async def open_journal(self, place: Path) -> AsyncIterator[Journal]:
        self.servers = installation()
        self.connection = NatsConnection(self.servers)
        self.hints = NatsHints(self.connection)
        await self.hints.open(lambda _, __: None, lambda _, __: None)
        self.workers: list[Worker] = []
        try:
            yield MemoryJournal()
        finally:
            for worker in self.workers:
                await worker.stop()
            with suppress(NotFoundError):
                await self.streams.delete_stream(self.connection.stream)
            await self.hints.close()

    def make(self, journal: Journal, clock: FakeClock, concurrency: int) -> Dispatcher:
        return NatsDispatcher(journal, clock, self.connection, self.hints, concurrency=concurrency)

    @property
    def streams(self) -> JetStreamContext:
        return self.connection._client.jetstream()

    async def worker(self, bench: Bench, concurrency: int = 100) -> Worker:
        worker = Worker(self.servers, bench.journal, concurrency)
        self.workers.append(worker)
        await worker.start()
        return worker

    async def queued(self) -> int:
        return await queued_by(self.connection)

    async def test_one_worker_gets_each(self, bench: Bench) -> None:
        """Of several workers exactly one drives each execution, and all of them work; then the queue is empty."""
        workers = [await self.worker(bench) for _ in range(3)]
        gate = asyncio.Event()
        for worker in workers:
            worker.handler.before = lambda _: gate.wait()
        refs = [await bench.due(f"r-{number}") for number in range(300)]
        handled: Counter[ExecutionRef] = Counter()

        def count_handled() -> bool:
            handled.clear()
            for worker in workers:
                handled.update(worker.handler.handled)
            return handled.total() >= len(refs)

        await eventually(count_handled)
        gate.set()
        assert handled == Counter(refs)
        assert all(worker.handler.handled for worker in workers)

        async def is_empty() -> bool:
            return not await self.queued()

        await eventually(is_empty)

    async def test_a_wake_up_counts_once(self, bench: Bench) -> None:
        """A second one for the same length of the journal is dropped, one for the next length is not."""
        ref = await due(bench.journal, "r-1", NOW)
        for length in (1, 1, 2, 1, None):
            bench.dispatcher.wake(ref, length)

        async def are_queued() -> bool:
            return await self.queued() == 3

        await eventually(are_queued)
        await bench.dispatcher.start(bench.handler)
        await bench.until_handled(ref)
        assert bench.handler.handled == {ref: 1}

    async def test_the_driver_is_signalled_by_whoever_gets_the_message(self, bench: Bench) -> None:
        """A wake-up by a third process reaches the worker that drives the execution."""
        driver, other = await self.worker(bench), await self.worker(bench)
        gate = asyncio.Event()
        for worker in (driver, other):
            worker.handler.before = lambda _: gate.wait()
        refs = [await bench.due(f"r-{number}") for number in range(20)]
        await eventually(lambda: len(driver.handler.under_way | other.handler.under_way) == 20)
        for ref in refs:
            await bench.write(ref, wakes=True)
            bench.dispatcher.wake(ref, 2)
        await eventually(lambda: {*driver.handler.signals, *other.handler.signals} >= {*refs})
        gate.set()

    async def test_a_worker_that_dies(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        """The server delivers its message again, and another worker takes the execution over, without a heartbeat."""
        monkeypatch.setattr(nats_connection, "ACK_WAIT", 0.3)
        dead = await self.worker(bench)
        dead.handler.before = lambda _: asyncio.Event().wait()
        ref = await bench.due("r-1")
        await eventually(lambda: dead.handler.handled[ref])
        await eventually(lambda: dead.dispatcher._held)
        await dead.die()
        heir = await self.worker(bench)
        await eventually(lambda: heir.handler.handled[ref])
        assert (await bench.journal.execution(ref)).epoch == 2

    async def test_a_worker_that_lost_its_message_only(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        """A message that is delivered again, of a worker that responds, takes nothing from it."""
        monkeypatch.setattr(nats_connection, "ACK_WAIT", 0.2)
        monkeypatch.setattr(nats_dispatcher, "ACK_WAIT", 3_600)  # it never reports progress
        alive, gate = await self.worker(bench, 1), asyncio.Event()  # it requests no other message
        alive.handler.before = lambda _: gate.wait()
        ref = await bench.due("r-1")
        await eventually(lambda: alive.handler.handled[ref])
        other = await self.worker(bench)

        async def is_acknowledged() -> bool:
            return not await self.queued()

        await eventually(is_acknowledged)
        assert alive.handler.signals == [ref]
        assert (alive.handler.handled[ref], other.handler.handled[ref]) == (1, 0)
        assert (await bench.journal.execution(ref)).epoch == 1
        gate.set()

    async def test_a_message_that_comes_back(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        """The worker that drives the execution gets its own message again: it keeps it until the end."""
        monkeypatch.setattr(nats_connection, "ACK_WAIT", 0.1)
        monkeypatch.setattr(nats_dispatcher, "ACK_WAIT", 3_600)
        worker, gate = await self.worker(bench), asyncio.Event()
        worker.handler.before = lambda _: gate.wait()
        ref = await bench.due("r-1")
        await eventually(lambda: worker.handler.signals.count(ref) >= 2)
        assert await self.queued() == 1
        gate.set()

        async def is_acknowledged() -> bool:
            return not await self.queued()

        await eventually(is_acknowledged)
        assert worker.handler.handled == {ref: 1}

    async def test_progress_keeps_the_message(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        """While a worker reports progress, its message is not delivered again, however long a step takes."""
        monkeypatch.setattr(nats_connection, "ACK_WAIT", 1.0)
        monkeypatch.setattr(nats_dispatcher, "ACK_WAIT", 0.1)
        worker, gate, reports = await self.worker(bench), asyncio.Event(), Counter[str]()
        send = worker.connection.send

        def count_and_send(subject: str, data: bytes = b"", **more: Any) -> bool:
            reports[data.decode()] += 1
            return send(subject, data, **more)

        monkeypatch.setattr(worker.connection, "send", count_and_send)
        worker.handler.before = lambda _: gate.wait()
        ref = await bench.due("r-1")
        await eventually(lambda: worker.dispatcher._held)
        await eventually(lambda: reports["+WPI"] >= 60)
        found = await self.streams.consumer_info(self.connection.stream, nats_connection.CONSUMER)
        assert (found.num_redelivered, found.num_ack_pending) == (0, 1)
        gate.set()
        await eventually(lambda: not worker.dispatcher._held)
        assert worker.handler.handled == {ref: 1}

    async def test_while_the_server_is_away(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        """A wake-up makes this worker look into the journal, and polls find what others wrote."""
        await bench.dispatcher.start(bench.handler)
        await bench.rounds()
        monkeypatch.setattr(type(self.connection), "is_connected", property(lambda _: False))
        woken = await bench.due("woken")
        await bench.until_handled(woken)
        lost = await due(bench.journal, "lost", NOW)
        bench.clock.advance(bench.dispatcher.delays.timer)
        await bench.until_handled(lost)

    async def test_a_queue_that_is_deleted(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        """It is created again, and works as before; a message that names nothing is dropped."""
        monkeypatch.setattr(nats_dispatcher, "RETRY_SECONDS", 0.01)
        monkeypatch.setattr(nats_dispatcher, "PULL_SECONDS", 0.2)
        await bench.dispatcher.start(bench.handler)
        await bench.rounds()
        await self.streams.delete_stream(self.connection.stream)

        async def is_there() -> bool:
            with suppress(NotFoundError):
                return await self.queued() == 0
            return False

        await eventually(is_there)
        for data in (b"nothing", b"org/-1", b"\xff/1"):
            self.connection.send(self.connection.subject("work"), data)
        self.connection.put(ExecutionRef(ORG, 999))
        ref = await bench.due("r-1")
        await bench.until_handled(ref)
        await eventually(is_there)

    async def test_a_worker_without_free_capacity(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        """It requests nothing, and gives back what it gets all the same; an end makes it work again."""
        monkeypatch.setattr(nats_dispatcher, "PULL_SECONDS", 0.05)
        monkeypatch.setattr(nats_dispatcher, "REPLY_SECONDS", 0.0)
        bench.dispatcher, gate = bench.make(1), asyncio.Event()
        bench.handler.before = lambda _: gate.wait()
        await bench.dispatcher.start(bench.handler)
        await eventually(lambda: bench.clock.next_timer)
        refs = [await bench.due(f"r-{number}") for number in range(3)]
        await eventually(lambda: bench.handler.under_way)
        dispatcher: Any = bench.dispatcher
        await eventually(lambda: dispatcher._expected == 0)
        dispatcher._connection.pull(dispatcher._inbox, 1, 1.0)  # as one of a moment ago
        assert len(bench.handler.under_way) == 1
        gate.set()
        for ref in refs:
            await bench.until_handled(ref)
        assert bench.handler.most == 1

    async def test_only_what_a_silent_worker_holds_is_taken_over(self, bench: Bench) -> None:
        """Not what nobody holds, what does not exist, or what was written to meanwhile."""
        worker = await self.worker(bench)
        free = await due(bench.journal, "r-1", NOW + 60_000)
        held = await begin(bench.journal, "r-2", claimed_by=99)
        is_left = worker.dispatcher._is_left
        assert not await is_left(free, True)
        assert not await is_left(ExecutionRef(ORG, 999), True)
        assert not await is_left(held, False)

        async def conflict(*_: object) -> None:
            raise JournalConflict("somebody else wrote")

        append, bench.journal.append = bench.journal.append, conflict  # type: ignore[method-assign, assignment]
        assert not await is_left(held, True)
        bench.journal.append = append  # type: ignore[method-assign]
        assert await is_left(held, True)
        assert (await bench.journal.execution(held)).claimed_by is None

    async def test_settings_of_the_queue_change(
        self, bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: Any
    ) -> None:
        """They are those of the process that started last. What the server refuses is logged, and tried again."""
        monkeypatch.setattr(nats_connection, "DUPLICATES_SECONDS", 7)
        await self.connection.prepare_again()
        found = await self.streams.stream_info(self.connection.stream)
        assert found.config.duplicate_window == 7
        monkeypatch.setattr(nats_connection, "PREPARE_DELAY", 0.01)
        for seconds in (0.2, 2, 20):  # the response of the server comes late on a busy machine
            monkeypatch.setattr(nats_connection, "CONNECT_SECONDS", seconds)
            alone = NatsConnection(attrs.evolve(self.servers, replicas=3))
            await alone.open()
            await alone.close()
            assert "NATS cannot be used yet" in caplog.text
            if "replicas" in caplog.text:
                break
        assert "replicas" in caplog.text

    async def test_messages_that_cannot_be_sent(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        """More than fit into the queue are dropped; one that the client refuses does not stop the next."""
        monkeypatch.setattr(nats_connection, "MAX_UNSENT", 2)
        small = NatsConnection(self.servers)
        await small.open()
        received = list[bytes]()

        async def receive(message: Any) -> None:
            received.append(message.data)

        await self.connection.subscribe(self.connection.subject("due"), receive)
        await self.connection._client.flush()
        subjects = ["not a subject", small.subject("due"), small.subject("due")]
        assert [small.send(subject, b"1") for subject in subjects] == [True, True, False]

        async def arrives() -> object:
            await asyncio.sleep(0.1)
            return received or small.send(small.subject("due"), b"1") is None  # NATS can lose one, but not each

        try:
            await eventually(arrives)
        finally:
            await small.close()
        assert set(received) == {b"1"}

    async def test_a_store_that_fails(self, bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
        """The message is delivered again until the execution can be claimed."""
        claim, refusals = bench.journal.claim, [OSError("the disk is full")]

        async def fail(*values: Any) -> bool:
            if refusals:
                raise refusals.pop()
            return await claim(*values)

        bench.journal.claim = fail  # type: ignore[method-assign]
        await bench.dispatcher.start(bench.handler)
        await eventually(lambda: bench.clock.next_timer)
        ref = await bench.due("r-1")
        await bench.until_handled(ref)
        assert "could not be handled" in caplog.text


async def queued_by(connection: NatsConnection) -> int:
    """Messages that are not acknowledged."""
    found = await connection._client.jetstream().stream_info(connection.stream)
    return int(found.state.messages)


class TestConnection:
    """Credentials, TLS, and servers that are away."""

    pytestmark = pytest.mark.anyio

    async def test_a_server_that_starts_later(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Opening does not wait for it for ever; what was followed meanwhile is received once it is there."""
        monkeypatch.setattr(nats_connection, "CONNECT_SECONDS", 0.01)
        nats_url()  # skips without the server
        server = NatsServer(tmp_path)
        process = HintedProcess(NatsHints(NatsConnection(NatsServers([server.url]))))
        await process.open()
        process.hints.follow(ONE)
        process.hints.notify_workers(ONE)
        assert not process.hints.has_peers()
        server.start()
        try:
            other = HintedProcess(NatsHints(NatsConnection(NatsServers([server.url]))))
            await other.open()

            def is_received() -> bool:
                other.hints.notify_followers(ONE, events(1))
                return bool(process.news)

            await eventually(is_received)
            await other.hints.close()
        finally:
            await process.hints.close()
            server.kill()
        assert process.due == []

    async def test_a_server_that_restarts(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        """Subscriptions go on, the queue is still there, and changes may be missing. An error is logged once."""
        nats_url()
        server, missed = NatsServer(tmp_path), list[str]()
        server.start().wait()
        connection = NatsConnection(NatsServers([server.url]))
        process = HintedProcess(NatsHints(connection))
        await process.open()
        process.hints.start_receiving(lambda _, __: None, lambda: missed.append("changes"))
        try:
            await eventually(lambda: connection.put(ONE))
            await connection._unsent.join()
            await connection._client.flush()
            await eventually(lambda: queued_by(connection))  # the stream is written after the server has responded
            server.kill()
            await eventually(lambda: not connection.is_connected)
            assert not connection.send("lost")
            await eventually(lambda: connection._client._server_pool[0].reconnects > 2)
            assert len({record.message for record in caplog.records}) == len(caplog.records)
            server.start()
            await eventually(lambda: missed)
            info = await connection._client.jetstream().stream_info(connection.stream)
            assert info.state.messages == 1
        finally:
            await process.hints.close()
            server.kill()

    async def test_a_password(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: Any) -> None:
        """The URL has it. A wrong one is logged, without the password, and the process works alone."""
        monkeypatch.setattr(nats_connection, "CONNECT_SECONDS", 5.0)
        nats_url()
        server = NatsServer(tmp_path, options=("--user", "ann", "--pass", "right-one"))
        server.start().wait()
        try:
            for password, is_right in (("right-one", True), ("wrong-one", False)):
                connection = NatsConnection(NatsServers([f"nats://ann:{password}@127.0.0.1:{server.port}"]))
                assert password not in repr(connection._settings)
                await connection.open()
                assert connection.is_connected is is_right
                monkeypatch.setattr(nats_connection, "CONNECT_SECONDS", 0.5)
                await connection.close()
        finally:
            server.kill()
        assert "Authorization Violation" in caplog.text
        assert "wrong-one" not in caplog.text

    async def test_a_client_that_loses_a_cancellation(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A close that meets a client which connects ends too."""
        monkeypatch.setattr(nats_connection, "CONNECT_SECONDS", 0.01)
        monkeypatch.setattr(nats_connection, "CLOSE_SECONDS", 0.01)
        connection = NatsConnection(NatsServers(["nats://127.0.0.1:1"]))
        connect, lost = connection._client.connect, list[BaseException]()

        async def go_on(**options: Any) -> None:
            try:
                await connect(**options)
            except asyncio.CancelledError as error:
                lost.append(error)
                await connect(**options)

        connection._client.connect = go_on  # type: ignore[method-assign]
        await connection.open()
        async with asyncio.timeout(HANG):
            await connection.close()
        assert len(lost) == 1

    async def test_the_account_of_a_user(self, tmp_path: Path) -> None:
        """A file of credentials, whose user has the documented subjects only, is enough for dispatch and events."""
        nats_url()
        accounts = NatsAccounts(tmp_path)
        server = NatsServer(tmp_path, options=accounts.options)
        server.start().wait()
        worker = Worker(NatsServers([server.url], credentials=accounts.credentials), MemoryJournal())
        events_of = HintedProcess(NatsHints(NatsConnection(worker.connection._settings)))
        try:
            await worker.start()
            assert worker.connection.is_connected
            await events_of.open()
            events_of.hints.follow(ONE)
            ref = await due(worker.journal, "r-1", NOW)
            worker.dispatcher.wake(ref, 1)
            await eventually(lambda: worker.handler.handled[ref])

            async def is_acknowledged() -> bool:
                return not await queued_by(worker.connection)

            await eventually(is_acknowledged)

            def is_received() -> bool:
                worker.hints.notify_followers(ONE, events(1))
                return bool(events_of.news)

            await eventually(is_received)
        finally:
            await worker.stop()
            await events_of.hints.close()
            server.kill()

    async def test_certificates(self, tmp_path: Path) -> None:
        """With `tls_ca`, and a certificate of its own where the server demands one."""
        nats_url()
        ca, certificate, key = certificates(tmp_path)
        options = ("--tls", "--tlscert", certificate, "--tlskey", key, "--tlscacert", ca, "--tlsverify")
        server = NatsServer(tmp_path, options=options)
        server.start().wait()
        mine = NatsServers([f"tls://localhost:{server.port}"], tls_ca=ca, tls_certificate=certificate, tls_key=key)
        connection = NatsConnection(mine)
        try:
            await connection.open()
            assert connection.is_connected
        finally:
            await connection.close()
            server.kill()

    @pytest.mark.parametrize("field", ["credentials", "tls_ca", "tls_certificate"])
    async def test_files_that_cannot_be_read(self, tmp_path: Path, field: str) -> None:
        """Opening fails at once, and names the file."""
        missing = {field: str(tmp_path / "missing.pem")}
        with pytest.raises(Unavailable, match="credentials for NATS"):
            await NatsConnection(NatsServers(["nats://127.0.0.1:1"], **missing)).open()

    async def test_what_is_large_is_read_from_the_journal(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The hint has no events then; after `unfollow` nothing is received."""
        monkeypatch.setattr(nats_hints, "MAX_FRAME", 100)
        servers = installation()
        one, other = (HintedProcess(NatsHints(NatsConnection(servers))) for _ in range(2))
        for process in (one, other):
            await process.open()
        other.hints.follow(ONE)

        def is_received() -> bool:
            one.hints.notify_followers(ONE, events(9))
            return bool(other.news)

        await eventually(is_received)
        assert {len(found) for _, found in other.news} == {0}
        other.hints.unfollow(ONE)
        other.hints.unfollow(ONE)
        other.hints.follow(OTHER)
        await eventually(lambda: not other.hints._leaving)
        await other.hints._connection._client.flush()
        other.news.clear()
        one.hints.notify_followers(ONE, events(1))

        def is_other_received() -> bool:
            one.hints.notify_followers(OTHER, events(1))
            return bool(other.news)

        await eventually(is_other_received)
        assert {ref for ref, _ in other.news} == {OTHER}
        for process in (one, other):
            await process.hints.close()


def certificates(folder: Path) -> tuple[str, str, str]:
    """A self-signed certificate for `localhost` and its key, as PEM files; the first one is its authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    begin = datetime.now(UTC) - timedelta(days=1)
    certificate = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(1).not_valid_before(begin).not_valid_after(begin + timedelta(days=9))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    pem, secret = folder / "certificate.pem", folder / "key.pem"
    pem.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    pkcs8, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    secret.write_bytes(key.private_bytes(serialization.Encoding.PEM, pkcs8, plain))
    return str(pem), str(pem), str(secret)


class NatsAccounts:
    """An operator with two accounts, as `nsc` makes them: the configuration of a server, and the file of a user.

    The user has exactly the subjects that the documentation lists.
    """

    def __init__(self, folder: Path) -> None:
        self.options = ("-c", str(folder / "server.conf"))
        self.credentials = str(folder / "user.creds")
        operator, system, account, user = map(_key_pair, "OAAU")
        plain = dict.fromkeys(("subs", "data", "payload", "imports", "exports", "conn", "leaf"), -1)
        stored = dict.fromkeys(("mem_storage", "disk_storage", "streams", "consumer"), -1)
        accounts = {
            one: _jwt(operator, one, {"type": "account", "limits": {**limits, "wildcards": True}})
            for one, limits in ((account, {**plain, **stored}), (system, plain))
        }
        preload = "\n".join(f"{_public(one)}: {text}" for one, text in accounts.items())
        Path(self.options[1]).write_text(
            f"operator: {_jwt(operator, operator, {'type': 'operator'})}\nresolver: MEMORY\n"
            f"system_account: {_public(system)}\nresolver_preload: {{\n{preload}\n}}\n"
        )
        allowed = {"allow": ["wfcore.>", "_INBOX.>", "$JS.API.>", "$JS.ACK.>"]}
        named = {"type": "user", "pub": allowed, "sub": {"allow": ["wfcore.>", "_INBOX.>"]}, "subs": -1, "data": -1,
                 "payload": -1}  # fmt: skip
        Path(self.credentials).write_text(
            f"-----BEGIN NATS USER JWT-----\n{_jwt(account, user, named)}\n------END NATS USER JWT------\n\n"
            f"-----BEGIN USER NKEY SEED-----\n{bytes(user.seed).decode()}\n------END USER NKEY SEED------\n"
        )


def _key_pair(kind: str) -> nkeys.KeyPair:
    prefix = {"O": nkeys.PREFIX_BYTE_OPERATOR, "A": nkeys.PREFIX_BYTE_ACCOUNT, "U": nkeys.PREFIX_BYTE_USER}[kind]
    return nkeys.from_seed(nkeys.encode_seed(os.urandom(32), prefix))


def _public(pair: nkeys.KeyPair) -> str:
    return bytes(pair.public_key).decode()


def _jwt(issuer: nkeys.KeyPair, subject: nkeys.KeyPair, claims: dict[str, Any]) -> str:
    body = {"jti": os.urandom(16).hex(), "iat": 1, "iss": _public(issuer), "sub": _public(subject), "name": "test",
            "nats": {**claims, "version": 2}}  # fmt: skip
    parts = [_base64(json.dumps(part).encode()) for part in ({"typ": "JWT", "alg": "ed25519-nkey"}, body)]
    signed = ".".join(parts)
    return f"{signed}.{_base64(issuer.sign(signed.encode()))}"


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
