"""Notifications between processes on one PostgreSQL database, and their effect before the next poll."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import psycopg
import pytest
from postgres_server import new_database
from waiting import HANG, until

from wfcore import bootstrap
from wfcore.adapters.dispatch import embedded
from wfcore.adapters.sql.postgres import hints as postgres_hints
from wfcore.adapters.sql.postgres.hints import PostgresHints
from wfcore.adapters.sql.postgres.pipeline import PipelineConnection, Request, StatementResult
from wfcore.adapters.tools.catalog import tool
from wfcore.core import Core
from wfcore.domain.resources.access import Principal
from wfcore.domain.run.state import RunStatus
from wfcore.ports.hints import Hints
from wfcore.ports.journal import ExecutionRef
from wfcore.runtime.common.installation import Settings
from wfcore.runtime.execution import event_stream as stream
from wfcore.testing.contracts.events import events
from wfcore.testing.contracts.processes.hints import HintsContract

ORG = "00000000-0000-4000-8000-000000000001"
NEVER = 3_600.0
Sent = asyncio.Future[list[StatementResult]]
COUNT = """
SELECT count(*) FROM pg_stat_activity WHERE application_name = 'wfcore hints' AND datname = current_database()"""
CUT = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE application_name = 'wfcore hints' AND datname = current_database()"""

pytestmark = pytest.mark.anyio


@pytest.fixture
def url() -> str:
    return new_database()


class Process:
    """A process with hints, and the executions that it received."""

    def __init__(self, url: str) -> None:
        self.hints = PostgresHints(url)
        self.worker: list[ExecutionRef] = []
        self.follower: list[ExecutionRef] = []

    async def open(self) -> None:
        await self.hints.open(
            lambda execution, _: self.worker.append(execution), lambda execution, _: self.follower.append(execution)
        )

    async def received(self, number: int) -> None:
        async with asyncio.timeout(HANG):
            while len(self.worker) + len(self.follower) < number:  # noqa: ASYNC110  (it comes from a server)
                await asyncio.sleep(0.001)


@pytest.fixture
async def processes(url: str, anyio_backend: str) -> AsyncIterator[list[Process]]:
    made = [Process(url) for _ in range(3)]
    for one in made:
        await one.open()
    yield made
    for one in made:
        await one.hints.close()


def refs(number: int) -> list[ExecutionRef]:
    return [ExecutionRef(ORG, 2**62 + one) for one in range(number)]


class TestPostgresHints(HintsContract):
    @pytest.fixture(autouse=True)
    def database(self, url: str) -> None:
        self.url = url

    def make(self, place: Path) -> Hints:
        return PostgresHints(self.url)


class TestHints:
    async def test_all_others_hear(self, processes: list[Process]) -> None:
        """Workers and followers receive their own hints, in every process except the sender."""
        sender, *others = processes
        due, news = refs(2)
        sender.hints.notify_workers(due)
        sender.hints.notify_followers(news, events(1))
        for other in others:
            await other.received(2)
            assert (other.worker, other.follower) == ([due], [news])
        assert sender.worker == sender.follower == []

    async def test_a_process_has_one_connection(self, processes: list[Process], url: str) -> None:
        """It receives and sends."""
        async with await psycopg.AsyncConnection.connect(url) as connection:
            found = await (await connection.execute(COUNT)).fetchone()
        assert found == (len(processes),)

    async def test_an_idle_connection_is_checked(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """With nothing to send, and hints are sent and received after that as before."""
        checks: list[PipelineConnection] = []

        class Counted(PipelineConnection):
            def send(self, statements: Sequence[Request], *, aborted: bool = False) -> Sent:
                if not statements:
                    checks.append(self)
                return super().send(statements, aborted=aborted)

        monkeypatch.setattr(postgres_hints, "CHECK_AFTER", 0.001)
        monkeypatch.setattr(postgres_hints, "PipelineConnection", Counted)
        one, other = Process(url), Process(url)
        await one.open()
        await other.open()
        await until(lambda: len(set(checks)) == 2 and len(checks) > 4)
        one.hints.notify_workers(refs(1)[0])
        await other.received(1)
        assert other.worker == refs(1)
        await one.hints.close()
        await other.hints.close()

    async def test_many_at_once(self, processes: list[Process]) -> None:
        """Any number of hints is sent, in notifications of valid size; duplicates are sent once."""
        sender, other, _ = processes
        for ref in [*refs(1_000), *refs(1_000)]:
            sender.hints.notify_workers(ref)
        await other.received(1_000)
        assert other.worker == refs(1_000)

    async def test_a_process_without_peers_sends_nothing(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """It has no peers if no reply arrives; a peer counts until it is known to be gone."""
        monkeypatch.setattr(postgres_hints, "REPLY_SECONDS", 0.0)
        one, other = Process(url), Process(url)
        await one.open()
        await until(lambda: not one.hints.has_peers())
        one.hints.notify_workers(refs(1)[0])
        await other.open()
        await until(lambda: one.hints.has_peers() and other.hints.has_peers())
        one.hints.notify_workers(refs(2)[1])
        await other.received(1)
        assert other.worker == refs(2)[1:]
        await other.hints.close()
        await until(lambda: not one.hints.has_peers())
        await one.hints.close()

    async def test_after_a_restart_peers_are_found_again(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """All connections are lost, also one that is about to send: then all processes are peers again."""
        monkeypatch.setattr(postgres_hints, "REPLY_SECONDS", 0.0)
        monkeypatch.setattr(postgres_hints, "RECONNECT_DELAY", 0.001)
        made = [Process(url) for _ in range(3)]
        for each in made:
            await each.open()
        await until(lambda: all(len(each.hints._peers) == 2 for each in made))
        made[0].hints.notify_workers(refs(1)[0])
        for each in made:
            each.hints._peers.clear()
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            await connection.execute(CUT)
        await until(lambda: all(len(each.hints._peers) == 2 for each in made))
        for each in made:
            await each.hints.close()

    async def test_closing_sends_queued_hints(self, processes: list[Process]) -> None:
        """After it nothing is sent or received."""
        sender, other, _ = processes
        sender.hints.notify_workers(refs(1)[0])
        await sender.hints.close()
        await sender.hints.close()
        sender.hints.notify_workers(refs(2)[1])
        await other.received(1)
        assert other.worker == refs(1)

    async def test_invalid_hints_are_ignored(self, processes: list[Process], url: str) -> None:
        """An invalid hint is ignored, and the next one is received."""
        (ref,) = refs(1)
        good = f"somebody w/{ORG}/{ref.id}"
        said = [
            "",
            "somebody",
            "x y z",
            f"s w/{ORG}/",
            f"s w/{ORG}/-1",
            f"s q/{ORG}/1",
            "s w/\N{CIRCLED DIGIT ONE}",
            good,
        ]
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            for text in said:
                await connection.execute("SELECT pg_notify('wfcore', %s)", (text,))
        await processes[0].received(1)
        assert (processes[0].worker, processes[0].follower) == ([ref], [])

    async def test_connections_that_break(
        self, processes: list[Process], url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """They are made again, the log reports it with the cause, and hints are received as before."""
        monkeypatch.setattr(postgres_hints, "RECONNECT_DELAY", 0.001)
        sender, other, _ = processes
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            await connection.execute(CUT)
        async with asyncio.timeout(HANG):
            while not other.worker:
                sender.hints.notify_workers(refs(1)[0])
                await asyncio.sleep(0.001)
        found = [record.message for record in caplog.records if record.name == "wfcore.hints"]
        assert "hints between processes work again" in found
        causes = [message for message in found if "interrupted" in message]
        assert causes
        assert all("closed the connection" in message or "terminating connection" in message for message in causes)

    async def test_without_a_server(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Opening, sending and closing raise no error: a process works without hints."""
        monkeypatch.setattr(postgres_hints, "CONNECT_SECONDS", 0.01)
        monkeypatch.setattr(postgres_hints, "CLOSE_SECONDS", 0.01)
        monkeypatch.setattr(postgres_hints, "MAX_UNSENT", 10)
        alone = Process("postgresql://nobody@127.0.0.1:1/nothing")
        await alone.open()
        for ref in refs(20):
            alone.hints.notify_workers(ref)
        await alone.hints.close()
        assert alone.worker == []


GRAPH = {
    "nodes": [
        {"id": "begin", "type": "start"},
        {"id": "allow", "type": "humanApproval", "data": {"message": "go on?"}},
        {"id": "work", "type": "action", "data": {"toolId": "work"}},
    ],
    "edges": [
        {"id": "1", "source": "begin", "target": "allow"},
        {"id": "2", "source": "allow", "target": "work", "sourceHandle": "approved"},
    ],
}


class TestOpened:
    """Nobody here looks by himself within an hour: whatever happens, happens because of a hint."""

    @pytest.fixture(autouse=True)
    def hourly(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(embedded, "HEARTBEAT", NEVER)
        monkeypatch.setattr(stream, "SOONEST", NEVER)
        monkeypatch.setattr(stream, "LATEST", NEVER)

    @pytest.fixture
    async def stack(self, anyio_backend: str) -> AsyncIterator[AsyncExitStack]:
        async with AsyncExitStack() as stack, asyncio.timeout(HANG):
            yield stack

    async def test_a_run_through_several_processes(self, url: str, stack: AsyncExitStack) -> None:
        """Started in one, driven in another, followed and answered in a third; taken over as its worker ends, and
        broken off from where nobody drives it."""
        did: list[str] = []
        first, third = [await opened(stack, url, did, "nobody", worker=False) for _ in range(2)]
        leaving = await stack.enter_async_context(AsyncExitStack())
        await opened(leaving, url, did, "second")
        me, flow = await deployed(first)
        await first.runs.start(me, workflow=flow, input={}, key="r-1")
        assert [event.kind async for event in await third.runs.follow(me, "r-1")][-1] == "done"
        await third.runs.resume(me, "r-1", decision="approve", key="r-2")
        following = await third.runs.follow(me, "r-2")
        assert (await anext(following)).kind == "run_started"
        await until(lambda: did == ["second began"])
        await opened(stack, url, did, "heir")
        await leaving.aclose()
        await until(lambda: did == ["second began", "second broken off", "heir began"])
        await first.runs.cancel(me, "r-2")
        assert [event.kind async for event in following][-1] == "cancelled"
        await until(lambda: did[-1] == "heir broken off")
        assert (await third.runs.get(me, "r-2")).status == RunStatus.cancelled


async def opened(stack: AsyncExitStack, url: str, did: list[str], name: str, *, worker: bool = True) -> Core:
    """wfcore with a tool that works until it is broken off."""

    @tool(idempotent=True)
    async def work() -> None:
        did.append(f"{name} began")
        try:
            await asyncio.Event().wait()
        finally:
            did.append(f"{name} broken off")

    settings = Settings(grace=0)
    opening = bootstrap.open(url, tools=[work], settings=settings, worker=worker, secrets=bytes(32))
    return await stack.enter_async_context(opening)


async def deployed(core: Core) -> tuple[Principal, int]:
    await core.directory.create_organization("Acme", id=ORG)
    me = core.principal(ORG, user="ann")
    made = await core.workflows.create(me, name="Flow", structure=GRAPH)
    await core.workflows.deploy(me, made.id)
    return me, made.id
