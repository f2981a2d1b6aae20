"""The constants of the capacity model, measured on this machine: PostgreSQL, one server and one worker, NATS."""

import asyncio
import json
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from statistics import median
from time import perf_counter, process_time
from typing import Any

import attrs
import psycopg

from benchmarks.graphs import chain
from benchmarks.library import ORG, nap
from benchmarks.runs.dispatch import Nats, database_cpu
from benchmarks.scale import Scale
from benchmarks.scaling.planning import Constants
from benchmarks.server import followers
from wfcore.adapters.http.application import app
from wfcore.bootstrap import open as open_core
from wfcore.core import Core
from wfcore.domain.resources.access import TOKEN_SCOPES, Principal
from wfcore.runtime.common.installation import Dispatch, Settings


@attrs.frozen
class Spent:
    """What some runs consumed: CPU seconds of the process and of the database, and bytes."""

    process: float
    database: float
    stored: float
    log: float
    commits: float

    def per(self, runs: int) -> "Spent":
        return Spent(*(value / runs for value in attrs.astuple(self)))

    def slope(self, longer: "Spent", steps: int) -> "Spent":
        """For each of the further steps of a longer run. CPU is counted in ticks: noise must not be negative."""
        pairs = zip(attrs.astuple(self), attrs.astuple(longer), strict=True)
        return Spent(*(max(0.0, (more - less) / steps) for less, more in pairs))


async def measured(url: str, nats: Nats, scale: Scale) -> Constants:
    runs, more = scale.starts * 5, scale.steps
    async with _opened(url, worker=True) as core:
        await core.directory.create_organization("Bench", id=ORG)
        await core.directory.add_member(ORG, "u1", email="u1@example.org")
        token = await core.directory.create_token(ORG, "u1", scopes=TOKEN_SCOPES)
        me = core.principal(ORG, "u1", email="u1@example.org")
        short, long = [await _deployed(core, me, 1 + steps) for steps in (1, 1 + more)]
        await _completed(core, me, short, runs)  # compiled code, prepared statements, statistics
        one, longer = [(await _spent(url, core, me, flow, runs)).per(runs) for flow in (short, long)]
        a_step = one.slope(longer, more)
        connections = _one(url, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()") - 1
        organizations = await _bytes_of_organizations(url, core, runs)
        flush = await _flush(url)
    async with _opened(url, worker=False) as core:
        began = process_time()
        for _ in range(runs):
            await core.runs.start(me, workflow=short, input={})
        start = (process_time() - began) / runs
        request = await _cpu_of_start(core, token, short, runs)
    async with _opened(url, worker=True), _opened(url, worker=True):
        before, began = database_cpu(url), perf_counter()
        await asyncio.sleep(scale.rounds)
        poll = (database_cpu(url) - before) / (perf_counter() - began) / 2
    lag, sent = await _by_nats(url, nats, me, short, runs // 5)
    _, sent_by_longer = await _by_nats(url, nats, me, long, runs // 5)
    messages = max(0.0, (sent_by_longer - sent) / more)
    readers = await followers.measured(url, nats.url, runs)
    return Constants(
        server_cpu_start=request,
        server_cpu_stream=readers.cpu_open,
        server_cpu_event=readers.cpu_event,
        worker_cpu_run=max(0.0, one.process - a_step.process - start),
        worker_cpu_step=a_step.process,
        database_cpu_run=max(0.0, one.database - a_step.database),
        database_cpu_step=a_step.database,
        database_cpu_poll=poll,
        flush=flush,
        dispatch=lag,
        bytes_run=max(0.0, one.stored - a_step.stored),
        bytes_step=a_step.stored,
        log_run=max(0.0, one.log - a_step.log),
        log_step=a_step.log,
        bytes_organization=organizations,
        commits_run=max(0.0, one.commits - a_step.commits),
        commits_step=a_step.commits,
        messages_run=max(0.0, sent - messages),
        messages_step=messages,
        memory_stream=readers.memory,
        connections=connections,
    )


@asynccontextmanager
async def _opened(url: str, *, worker: bool, engine: Dispatch | None = None) -> AsyncIterator[Core]:
    settings = Settings(grace=0, dispatch=engine or Dispatch())
    async with open_core(url, tools=(nap,), settings=settings, worker=worker, secrets=bytes(32)) as core:
        yield core


async def _deployed(core: Core, me: Principal, nodes: int) -> int:
    flow = await core.workflows.create(me, name="Bench", structure=chain(nodes, "nap"))
    return (await core.workflows.deploy(me, flow.id)).id


async def _completed(core: Core, me: Principal, flow: int, count: int, gap: float = 0.002) -> None:
    """Start runs at a steady pace, and wait until all have ended."""
    for _ in range(count):
        await core.runs.start(me, workflow=flow, input={})
        await asyncio.sleep(gap)
    journal = core.ports.journal
    while await journal.next_wake() is not None or await journal.holders():  # noqa: ASYNC110  (others write)
        await asyncio.sleep(gap)


async def _spent(url: str, core: Core, me: Principal, flow: int, runs: int) -> Spent:
    before = _consumed(url)
    await _completed(core, me, flow, runs)
    return Spent(*(after - old for old, after in zip(before, _consumed(url), strict=True)))


def _consumed(url: str) -> tuple[float, ...]:
    stored = _one(url, "SELECT sum(pg_total_relation_size(relid)) FROM pg_stat_user_tables")
    log = _one(url, "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')")
    commits = _one(url, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint")
    return process_time(), database_cpu(url), stored, log, commits


def _one(url: str, question: str) -> float:
    with psycopg.connect(url) as connection:
        return float(connection.execute(question).fetchall()[0][0])  # type: ignore[arg-type]


async def _bytes_of_organizations(url: str, core: Core, count: int) -> float:
    before = _consumed(url)[2]
    for number in range(count):
        org = await core.directory.create_organization(f"Organization {number}")
        await core.directory.add_member(org.uuid, "u1", email=f"u1@{number}.example.org")
    return (_consumed(url)[2] - before) / count


async def _flush(url: str) -> float:
    """The median of the time of a commit that writes one small row."""
    took = []
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE flushes (n integer)")
        for number in range(100):
            began = perf_counter()
            connection.execute("INSERT INTO flushes VALUES (%s)", (number,))
            took.append(perf_counter() - began)
        connection.execute("DROP TABLE flushes")
    return median(took)


async def _cpu_of_start(core: Core, token: str, flow: int, count: int) -> float:
    """Of a request over HTTP, without the socket and its protocol."""
    application, body = app(core), json.dumps({"workflowId": flow, "input": {}}).encode()
    began = process_time()
    for _ in range(count):
        await _request(application, token, "POST", "/agent/v1/runs", body)
    return (process_time() - began) / count


async def _request(application: Any, token: str, method: str, path: str, body: bytes = b"") -> None:
    """A request whose response is read to its end; RuntimeError for any status but success."""

    async def receive() -> dict[str, Any]:
        nonlocal body
        if body is None:
            await asyncio.get_running_loop().create_future()
        sent, body = body, None  # type: ignore[assignment]
        return {"type": "http.request", "body": sent, "more_body": False}

    async def send(message: Any) -> None:
        if message.get("status", 200) >= 300:
            raise RuntimeError(f"{method} {path}: {message['status']}")

    headers = {"host": "localhost", "authorization": f"Bearer {token}", "content-type": "application/json",
               "content-length": str(len(body)),
               "accept": "application/json" if body else "text/event-stream"}  # fmt: skip
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
        "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
    }  # fmt: skip
    await application(scope, receive, send)


async def _by_nats(url: str, nats: Nats, me: Principal, flow: int, count: int) -> tuple[float, float]:
    """The median of the time from a start to its first event at another server, and the messages of a run."""
    engine = Dispatch("nats", [nats.url], "plan")
    lags = []
    async with (
        _opened(url, worker=False, engine=engine) as server,
        _opened(url, worker=True, engine=engine),
    ):
        await asyncio.sleep(0.5)  # until the first messages between the processes have passed
        before = _messages(nats)
        for _ in range(count):
            run, began = await server.runs.start(me, workflow=flow, input={}), perf_counter()
            events = await server.runs.follow(me, run.id)
            lags += [perf_counter() - began async for event in events if event.kind == "node_started"][:1]
        return median(lags), (_messages(nats) - before) / count


def _messages(nats: Nats) -> int:
    with urllib.request.urlopen(f"{nats.monitor}/varz") as response:
        return int(json.load(response)["in_msgs"])
