"""A disk that fails: every write, or every sync, of the database files returns an error of the system for a while."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from file_calls import AVAILABLE, OK, SYNC_FAILS, WRITE_FAILS, Call, FileCalls, Sync, Write, watched_files
from power_cuts import GRAPH, ORG, opened
from waiting import HANG

from wfcore.adapters.http import app
from wfcore.core import Core
from wfcore.domain.kernel.errors import Unavailable
from wfcore.domain.resources.access import Principal

pytestmark = [
    pytest.mark.xdist_group("crash"),
    pytest.mark.anyio,
    pytest.mark.skipif(not AVAILABLE, reason="SQLite is not a shared library in this build of Python"),
]

FAILURES = {
    "EIO": lambda call: WRITE_FAILS if isinstance(call, Write) else OK,
    "EIO in the log": lambda call: WRITE_FAILS if isinstance(call, Write) and call.file.endswith("-wal") else OK,
    "fsync": lambda call: SYNC_FAILS if isinstance(call, Sync) else OK,
}


@pytest.mark.parametrize("failure", FAILURES)
async def test_a_failing_disk(tmp_path: Path, failure: str) -> None:
    """A change is `Unavailable`, and `/readyz` is 503. Nothing that was acknowledged is lost, nothing that was refused
    is half written, and the same process goes on when the disk works again.
    """
    path = tmp_path / "wfcore.db"
    with watched_files(tmp_path) as calls:
        async with opened(f"sqlite:///{path}") as core:
            await core.directory.create_organization("Acme", id=ORG)
            me = core.principal(ORG, user="ann")
            flow = (await core.workflows.create(me, name="Doubles", structure=GRAPH)).id
            await core.workflows.deploy(me, flow)
            waiting = await core.runs.start(me, workflow=flow, input={"n": 1}, key="before")
            await followed(core, me, waiting.id)
            before, broken = rows(path), FAILURES[failure]
            calls.refusal = broken
            await is_unavailable(lambda: core.runs.start(me, workflow=flow, input={"n": 2}, key="amid"))
            await is_unavailable(lambda: core.runs.resume(me, waiting.id, decision="approve", key="answer"))
            await is_unavailable(lambda: core.workflows.create(me, name="Another", structure=GRAPH))
            assert await readiness(core) == 503
            assert (await core.runs.get(me, waiting.id)).status == "interrupted"
            calls.refusal = lambda _: OK
            assert rows(path) == before
            await recovered(core)
            turn = await core.runs.resume(me, waiting.id, decision="approve", key="answer")
            await followed(core, me, turn.id)
            assert (await core.runs.get(me, turn.id)).output == 4
            run = await core.runs.start(me, workflow=flow, input={"n": 2}, key="amid")
            await followed(core, me, run.id)
            assert [one async for one in core.ports.journal.damaged()] == []
    after = rows(path)
    assert before["wfcore_journal"] < after["wfcore_journal"]
    assert after["wfcore_runs"] >= {"before", "amid"}


async def test_a_disk_that_fails_while_runs_are_under_way(tmp_path: Path) -> None:
    """Runs whose steps cannot be recorded wait for the disk: none ends in `error`, and no step counts as an attempt."""
    path = tmp_path / "wfcore.db"
    with watched_files(tmp_path) as calls:
        async with opened(f"sqlite:///{path}") as core:
            await core.directory.create_organization("Acme", id=ORG)
            me = core.principal(ORG, user="ann")
            flow = (await core.workflows.create(me, name="Doubles", structure=GRAPH)).id
            await core.workflows.deploy(me, flow)
            refused = refuse_some(calls)
            runs = [await start(core, me, flow, n) for n in range(4)]
            assert refused.is_set()
            for n, run in enumerate(runs):
                await followed(core, me, run)
                turn = await persistently(core.runs.resume, me, run, decision="approve", key=f"answer-{n}")
                await followed(core, me, turn.id)
                view = await core.runs.get(me, turn.id)
                assert (view.status, view.output) == ("done", 4 * n)
                graph = (await core.runs.graph(me, turn.id)).to_wire()
                assert {visit["attempts"] for node in graph["nodes"] for visit in node["visits"]} == {1}
            assert [one async for one in core.ports.journal.damaged()] == []


def refuse_some(calls: FileCalls) -> asyncio.Event:
    """Refuse every third sync and every 61st write: a commit has about 30; the event is set with the first refusal."""
    refused, seen = asyncio.Event(), {Sync: 0, Write: 0}

    def refusal(call: Call) -> int:
        kind = Sync if isinstance(call, Sync) else Write
        every, code = (3, SYNC_FAILS) if kind is Sync else (61, WRITE_FAILS)
        seen[kind] += 1
        if seen[kind] % every:
            return OK
        refused.set()
        return code

    calls.refusal = refusal
    return refused


async def start(core: Core, me: Principal, flow: int, n: int) -> str:
    return (await persistently(core.runs.start, me, workflow=flow, input={"n": n}, key=f"run-{n}")).id


async def persistently(call: Callable[..., Awaitable[Any]], *args: Any, **more: Any) -> Any:
    """The result of the call, which is repeated while the store is not available, as clients do."""
    async with asyncio.timeout(HANG):
        while True:
            try:
                return await call(*args, **more)
            except Unavailable:
                await asyncio.sleep(0.01)


async def is_unavailable(call: Callable[[], Awaitable[Any]]) -> None:
    with pytest.raises(Unavailable):
        await call()


async def followed(core: Core, me: Principal, run: str) -> None:
    async with asyncio.timeout(HANG):
        async for _ in await core.runs.follow(me, run):
            pass


async def readiness(core: Core) -> int:
    transport = httpx.ASGITransport(app(core, secret=bytes(32)))
    async with httpx.AsyncClient(transport=transport, base_url="http://wfcore", trust_env=False) as client:
        return (await client.get("/readyz")).status_code


async def recovered(core: Core) -> None:
    """Wait until the server is ready: it repeats its check after a second."""
    async with asyncio.timeout(HANG):
        while await readiness(core) != 200:  # noqa: ASYNC110
            await asyncio.sleep(0.1)


def rows(path: Path) -> dict[str, set[Any]]:
    """What is committed: the entries of the journal, the ids of runs, and the names of workflows."""
    with closing(sqlite3.connect(path)) as connection:
        return {
            "wfcore_journal": set(connection.execute("SELECT execution, pos, entry FROM wfcore_journal")),
            "wfcore_runs": {run for (run,) in connection.execute("SELECT id FROM wfcore_runs")},
            "wfcore_resources": set(connection.execute("SELECT id, name FROM wfcore_resources")),
        }
