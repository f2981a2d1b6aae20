"""Bytes of the journal that changed in the database: the run is set aside, and the others go on."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from bench import Bench, act, ask, eventually, graph, opened
from postgres_server import new_database
from sql_texts import qualified

from wfcore.cli.main import main
from wfcore.domain.run.entries import TimePassed
from wfcore.ports.journal import Append, JournalDamaged

pytestmark = pytest.mark.anyio

GRAPH = graph("s>a a>h h:approved>b", a=act("echo", value="before"), h=ask(), b=act("echo", value="after"))

CHANGES = {
    "a byte": "UPDATE wfcore_journal SET entry = replace(entry, 'before', 'befort') WHERE execution = {}",
    "a missing entry": "DELETE FROM wfcore_journal WHERE execution = {} AND pos = 1",
    "a checksum": "UPDATE wfcore_journal SET checksum = checksum - 1 WHERE execution = {} AND pos = 1",
}

SNAPSHOTS = {
    "its checksum": "UPDATE wfcore_snapshots SET checksum = checksum - 1 WHERE execution = {}",
    "its length": "UPDATE wfcore_snapshots SET length = length - 1 WHERE execution = {}",
    "the last entry": "UPDATE wfcore_journal SET checksum = checksum - 1 WHERE execution = {} AND pos > 2",
}


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'wfcore.db'}" if request.param == "sqlite" else new_database()


def change(url: str, statement: str) -> None:
    """Change the database as another program would."""
    if url.startswith("sqlite"):
        with sqlite3.connect(url.removeprefix("sqlite:///")) as file:
            file.execute(statement)
        file.close()
    else:
        with psycopg.connect(url, autocommit=True) as server:
            server.execute(qualified(statement))  # type: ignore[arg-type]


async def parked(bench: Bench) -> Any:
    return await bench.ended(await bench.started(GRAPH))


@pytest.mark.parametrize("damage", CHANGES.values(), ids=CHANGES)
async def test_it_is_detected_on_load(url: str, damage: str) -> None:
    """Streams end with an error, no entry is read, and the other run goes on; `db check --deep` would name the run."""
    async with opened(url) as bench:
        run, other = await parked(bench), await parked(bench)
        journal, ref = bench.core.ports.journal, run.row.execution
        assert [run_id async for run_id in journal.damaged()] == []
        change(url, damage.format(ref.id))
        with pytest.raises(JournalDamaged):
            await journal.read(ref)
        (event,) = await bench.events(run.id)
        assert (event.kind, event.data["error"]["code"]) == ("error", "INTERNAL_ERROR")
        assert event.data["error"]["info"] == {"reason": "defect"}
        assert [run_id async for run_id in journal.damaged()] == [run.id]
        again = await bench.core.runs.resume(bench.me, other.id, decision="approve")
        assert (await bench.ended(again)).output == "after"


@pytest.mark.parametrize("damage", SNAPSHOTS.values(), ids=SNAPSHOTS)
async def test_a_snapshot_that_changed_counts_as_none(url: str, damage: str) -> None:
    """So does one of other entries than those that the journal has now."""
    async with opened(url) as bench:
        ref = (await parked(bench)).row.execution
        journal = bench.core.ports.journal
        length = (await journal.execution(ref)).length
        await journal.append(ref, Append(length, [TimePassed(1)], snapshot=b"state"))
        assert await journal.snapshot(ref) == (length + 1, b"state")
        change(url, damage.format(ref.id))
        assert await journal.snapshot(ref) is None


async def test_a_run_under_way_is_set_aside(url: str) -> None:
    """A worker that claims it ends its record, releases the claim, and does not try again."""
    async with opened(url) as bench:
        waits = graph("s>a a>w", a=act("echo", value="before"), w=act("core.wait", seconds=100))
        run = await bench.started(waits)
        ref, journal = run.row.execution, bench.core.ports.journal
        await eventually(lambda: _is_released(bench, ref))
        change(url, CHANGES["a byte"].format(ref.id))
        bench.clock.advance(200)

        async def ended() -> Any:
            row = await journal.find_run(bench.org, run.id)
            return row if row is not None and not row.status.under_way else None

        row = await eventually(ended)
        assert (row.status, row.result["error"]["info"]["reason"]) == ("error", "defect")
        assert (await journal.execution(ref)).claimed_by is None
        assert await journal.next_wake() is None


async def _is_released(bench: Bench, ref: Any) -> bool:
    return (await bench.core.ports.journal.execution(ref)).claimed_by is None


async def test_reading_on_checks_the_new_entries(url: str) -> None:
    """The entries after the first few are checked against the checksum of the last of those."""
    async with opened(url) as bench:
        run = await parked(bench)
        journal, ref = bench.core.ports.journal, run.row.execution
        entries = await journal.read(ref)
        assert [await journal.read(ref, after) for after in range(len(entries) + 2)] == [
            entries[after:] for after in range(len(entries) + 2)
        ]


def test_the_command_names_damaged_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`wfcore db check --deep` prints the ids, and fails."""
    url = f"sqlite:///{tmp_path / 'wfcore.db'}"
    assert main(["db", "upgrade", "--database", url]) == 0
    change(url, "INSERT INTO wfcore_organizations (key, uuid, name, created_at) VALUES (1, 'o', 'o', 0)")
    change(
        url,
        "INSERT INTO wfcore_executions (id, org, kind, is_draft, user_id, thread_id, started_by, epoch)"
        " VALUES (1, 1, 'workflow', 0, 'u', 't', 'person', 0)",
    )
    change(
        url,
        "INSERT INTO wfcore_runs (org, id, execution, user_id, fingerprint, status, created_at, updated_at, started_by,"
        " origin, target, is_draft) VALUES (1, 'r-1', 1, 'u', x'', 'running', 0, 0, '', '', 0, 0)",
    )
    assert main(["db", "check", "--deep", "--database", url]) == 0
    assert "all journals are intact" in capsys.readouterr().out
    change(url, "INSERT INTO wfcore_journal (execution, pos, checksum, entry) VALUES (1, 1, 0, '[]')")
    assert main(["db", "check", "--deep", "--database", url]) == 1
    out, err = capsys.readouterr()
    assert "r-1" in out.splitlines()
    assert "the journals of 1 runs are damaged" in err


@pytest.mark.parametrize("damage", [lambda data: b"\0" * 4096 + data[4096:], lambda data: b"x" * len(data)])
def test_a_damaged_file_is_named_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: Callable[[bytes], bytes]
) -> None:
    """`wfcore serve` says that the file is damaged, and ends with status 1."""
    file = tmp_path / "wfcore.db"
    assert main(["db", "upgrade", "--database", f"sqlite:///{file}"]) == 0
    file.write_bytes(damage(file.read_bytes()))
    assert main(["serve", "--port", "0", "--database", f"sqlite:///{file}"]) == 1
    assert "the database file is damaged" in capsys.readouterr().err
