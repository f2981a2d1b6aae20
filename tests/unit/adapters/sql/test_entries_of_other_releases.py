"""What the journals in tables read of other releases, on both stores."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from postgres_server import new_database
from sql_texts import statement

from wfcore import bootstrap
from wfcore.adapters.sql.journal import conversion
from wfcore.adapters.sql.journal.checksums import chained
from wfcore.adapters.sql.journal.journal import SqlJournal
from wfcore.domain.kernel.errors import Unavailable
from wfcore.domain.run.entries import Succeeded
from wfcore.domain.run.versions import decode_stored
from wfcore.ports.journal import ExecutionRef
from wfcore.runtime.common.installation import Settings

pytestmark = pytest.mark.anyio

NODES = [
    {"id": "begin", "type": "start"},
    {"id": "send", "type": "action", "data": {"toolId": "send"}},
    {"id": "ask", "type": "humanApproval", "data": {"message": "go on?"}},
]
FLOW = {
    "nodes": NODES,
    "edges": [{"id": "1", "source": "begin", "target": "send"}, {"id": "2", "source": "send", "target": "ask"}],
}


async def send() -> str:
    """Send it."""
    return "sent"


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.service)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return new_database() if request.param == "postgres" else f"sqlite:///{tmp_path}/a.db"


@asynccontextmanager
async def parked(url: str) -> AsyncIterator[tuple[Any, Any, Any]]:
    """An open wfcore, a user, and a run of one that waits behind the call of a tool."""
    async with bootstrap.open(url, tools=[send], settings=Settings(synchronous="NORMAL", grace=0)) as core:
        org = await core.directory.create_organization("One")
        me = core.principal(org.uuid, user="u1")
        flow = await core.workflows.create(me, name="Ask", structure=FLOW)
        await core.workflows.deploy(me, flow.id)
        run = await core.runs.start(me, workflow=flow.id, input={})
        async for _ in await core.runs.follow(me, run.id):
            pass
        yield core, me, await core.runs.get(me, run.id)


async def rewrite(core: Any, change: Callable[[list[Any]], None]) -> None:
    """Store every entry as another release would have."""
    async with core.ports.storage.database.writing() as connection:
        rows = (
            await connection.run(statement("SELECT execution, pos, entry FROM wfcore_journal ORDER BY 1, 2"))
        ).fetchall()
        before = 0
        for execution, pos, text in rows:
            entry = json.loads(text or conversion.DERIVED)
            change(entry)
            ((written, before),) = chained([json.dumps(entry).encode()], before if pos > 1 else 0)
            place = (written, before, execution, pos)
            await connection.run(
                statement("UPDATE wfcore_journal SET entry = ?, checksum = ? WHERE execution = ? AND pos = ?"), place
            )


def to_version_0(entry: list[Any]) -> None:
    """A layout that never was: the outcome of an effect was called `done`, and time was in seconds."""
    entry[0], entry[1], entry[2] = ("done" if entry[0] == "ok" else entry[0]), 0, entry[2] / 1000


def from_version_0(tag: str, fields: list[Any]) -> tuple[str, list[Any]]:
    return ("ok" if tag == "done" else tag), [round(fields[0] * 1000), *fields[1:]]


async def test_entries_of_an_older_version_are_lifted(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same entries are read as before, the first one included, and the run goes on behind them."""
    monkeypatch.setattr(conversion, "decode_stored", lambda line: decode_stored(line, {0: from_version_0}))
    async with parked(url) as (core, me, run):
        before, events = await entries(core, run), await core.runs.events(me, run.id)
        await rewrite(core, to_version_0)
        assert await entries(core, run) == before
        assert any(isinstance(entry, Succeeded) for entry in before)
        assert await core.runs.events(me, run.id) == events
        turn = await core.runs.resume(me, run.id, decision="approve")
        async for event in await core.runs.follow(me, turn.id):
            assert event.kind != "error"
        assert (await core.runs.get(me, turn.id)).status == "done"


async def test_entries_of_a_newer_version_are_unavailable(url: str) -> None:
    """Whoever reads the run gets an error that names the versions; nothing is written, and lists still work."""
    async with parked(url) as (core, me, run):
        await rewrite(core, lambda entry: entry.__setitem__(1, 99))
        calls = (core.runs.events(me, run.id), core.runs.resume(me, run.id, decision="approve"), entries(core, run))
        for call in calls:
            with pytest.raises(Unavailable, match="version `99`, this release reads versions up to `1`"):
                await call
        assert [view.status for view in await core.runs.page(me)] == ["interrupted"]


async def entries(core: Any, run: Any) -> Any:
    journal, ref = core.ports.journal, run.row.execution
    assert isinstance(journal._journal, SqlJournal)  # the one that is wrapped to publish changes
    assert isinstance(ref, ExecutionRef)
    return await journal.read(ref)
