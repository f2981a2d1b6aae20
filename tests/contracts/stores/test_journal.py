"""The journal's contract for every adapter, and properties of several processes."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from msgspec.structs import replace

from wfcore.adapters.inmemory.journal.journal import MemoryJournal
from wfcore.adapters.sql.journal.journal import SqlJournal
from wfcore.adapters.sql.schema.tables import metadata
from wfcore.adapters.sql.sqlite.database import Database
from wfcore.domain.kernel.errors import NotFound
from wfcore.domain.projections.messages import message_rows
from wfcore.domain.projections.usage import UsageRow
from wfcore.domain.resources.access import Principal
from wfcore.domain.run.state import RunStatus
from wfcore.ports.journal import (
    Append,
    ExecutionRef,
    Journal,
    JournalConflict,
    NewExecution,
    NewRun,
    RunChange,
    RunExists,
)
from wfcore.testing.contracts.interrupted.journals import JournalCrashContract
from wfcore.testing.contracts.journal import JournalContract
from wfcore.testing.contracts.journal_values import NOW, ORG, OTHER_ORG, READERS, begin, due, interrupt, reader, steps
from wfcore.testing.contracts.run_records import human

STORE = f"""
INSERT INTO wfcore_organizations (key, uuid, name, created_at)
VALUES (1, '{ORG}', 'one', 0), (2, '{OTHER_ORG}', 'two', 0);
INSERT INTO wfcore_resources
    (key, org, kind, id, slug, name, status, access, is_enabled, created_at, updated_at, revision, is_scheduled)
VALUES (1, 1, 'workflow', 1, 'one', 'one', 'active', '', 0, 0, 0, 1, 0);
INSERT INTO wfcore_grants (resource, subject, use, manage) VALUES (1, 'g:{READERS}', 1, 0);
"""


WIPE = """
DELETE FROM wfcore_executions; DELETE FROM wfcore_journal; DELETE FROM wfcore_runs; DELETE FROM wfcore_interrupts;
DELETE FROM wfcore_conversations; DELETE FROM wfcore_participants; DELETE FROM wfcore_messages;
DELETE FROM wfcore_usage; DELETE FROM wfcore_workers; DELETE FROM sqlite_sequence;
"""


async def open_database(path: Path) -> Database:
    """A new file as the contract wants it, or one that was made before."""
    database = Database(f"sqlite:///{path}", synchronous="NORMAL")
    await database.open()
    if not database.commit_connection.execute("SELECT 1 FROM sqlite_master").fetchone():
        async with database.writing() as connection:
            await connection.run_sync(metadata.create_all)
        database.commit_connection.executescript(STORE)
    return database


@asynccontextmanager
async def sql_journal(path: Path) -> AsyncIterator[SqlJournal]:
    database = await open_database(path)
    try:
        yield SqlJournal(database)
    finally:
        await database.close()


class TestCrashesOfSqlite(JournalCrashContract):
    def open_journal(self, place: Path) -> AbstractAsyncContextManager[Journal]:
        return sql_journal(place / "journal.db")


class TestMemoryJournal(JournalContract):
    @asynccontextmanager
    async def open_journal(self, place: Path) -> AsyncIterator[Journal]:
        def usable(org: str, principal: Principal, kind: str, number: int) -> bool:
            return (org, kind, number) == (ORG, "workflow", 1) and READERS in principal.groups

        journal = MemoryJournal(org_exists=lambda org: org in (ORG, OTHER_ORG), usable=usable)
        yield journal
        journal.close()


class TestSqlJournal(JournalContract):
    @asynccontextmanager
    async def open_journal(self, place: Path) -> AsyncIterator[Journal]:
        async with sql_journal(place / "journal.db") as journal:
            yield journal


# The two adapters answer alike, whatever they are asked.

RUN_IDS = st.sampled_from(["r-1", "r-2", "r-3", "r-4"])
FIRST = Append(0, steps(1), new_run=NewRun("r-1", "ann", b"f", RunStatus.queued, 0))
EXPECTED = st.integers(0, 5)
WORKER = st.none() | st.integers(1, 2)
STATUS = st.sampled_from([RunStatus.queued, RunStatus.running, RunStatus.interrupted, RunStatus.done])
APPENDS = st.builds(
    Append,
    expected=EXPECTED,
    entries=st.integers(0, 2).map(steps),
    new_run=st.none() | st.builds(NewRun, RUN_IDS, st.just("bob"), st.just(b"f"), STATUS, st.integers(0, 9)),
    changes=st.lists(st.builds(RunChange, RUN_IDS, STATUS, st.integers(0, 9), st.none() | st.just({})), max_size=1),
    interrupts=st.none()
    | st.lists(st.sampled_from("abc"), max_size=2, unique=True).map(lambda ids: [*map(interrupt, ids)]),
    updates_claim=st.booleans(),
    wakes=st.booleans(),
    wake_at=st.none() | st.integers(0, 9),
    claimed_by=WORKER,
    holder=WORKER,
    messages=st.sampled_from([[], message_rows([human("a"), human("b", 3, skill_id=1)])]),
    usage=st.sampled_from([[], [UsageRow(1, "m", 2, None, 5, 0, 1, 0, None)]]),
)
CALLS = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 3), APPENDS),
    st.tuples(st.just("begin"), APPENDS),
    st.tuples(st.just("claim_due"), st.integers(1, 2), st.integers(0, 9), st.integers(1, 2)),
    st.tuples(st.just("claim"), st.integers(1, 3), st.integers(1, 2), st.integers(0, 9)),
    st.tuples(st.just("release"), st.integers(1, 2)),
)


async def answer(journal: Journal, name: str, *values: Any) -> object:
    """What a call returned, or the kind of its refusal."""
    call: Awaitable[object]
    match name:
        case "append":
            call = journal.append(ExecutionRef(ORG, values[0]), values[1])
        case "begin":
            new = NewExecution(ORG, "workflow", 1, None, "ann", "t")
            call = journal.begin(new, replace(values[0], expected=0))
        case "claim":
            call = journal.claim(ExecutionRef(ORG, values[0]), *values[1:])
        case _:
            call = getattr(journal, name)(*values)
    try:
        return await call
    except (JournalConflict, RunExists, NotFound, ValueError) as error:
        return type(error)


async def everything(journal: Journal) -> list[object]:
    """All that can be seen of the organization. Keys of interrupts are compared by their order alone."""
    refs = [ExecutionRef(ORG, number) for number in range(1, 20)]
    opened = await journal.open_interrupts(ORG, limit=99)
    return [
        await journal.list_runs(ORG, limit=99),
        [structs.replace(row, key=0) for row in opened],
        [await journal.read(ref) for ref in refs],
        await journal.next_wake(),
        [holder.worker for holder in await journal.holders()],
        await said(journal),
        await journal.usage.sums(ORG, "skill", since=0, until=9),
    ]


async def said(journal: Journal) -> list[object]:
    """The conversations and their messages, without their keys."""
    pages = await journal.conversations.page(reader("ann"), limit=99)
    messages = [await journal.conversations.messages(parts, after=0, up_to=2**62) for parts in pages]
    return [
        [[attrs.evolve(one, key=0) for one in parts] for parts in pages],
        [[attrs.evolve(one, seq=0) for one in spoken] for spoken in messages],
    ]


def test_the_adapters_are_equivalent(tmp_path: Path) -> None:
    """Any sequence of calls has the same results and rows in memory and in SQLite."""

    async def compare(database: Database, calls: list[tuple[Any, ...]]) -> None:
        database.commit_connection.executescript(WIPE)
        journal, model = SqlJournal(database), MemoryJournal()
        for call in [("begin", FIRST), *calls]:
            assert await answer(journal, *call) == await answer(model, *call)
        assert await everything(journal) == await everything(model)

    with asyncio.Runner() as runner:
        database = runner.run(open_database(tmp_path / "journal.db"))

        @settings(max_examples=150)
        @given(calls=st.lists(CALLS, max_size=12))
        def check(calls: list[tuple[Any, ...]]) -> None:
            runner.run(compare(database, calls))

        try:
            check()
        finally:
            runner.run(database.close())


# What only several processes can show. Each is this very module, run as a program.


def process(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "error", __file__, *map(str, arguments)]
    shared = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True, env=shared)


async def claim_all(path: Path) -> None:
    """Claim in small bites until nothing is due, and print what was claimed."""
    async with sql_journal(path) as journal:
        worker = await journal.register("host", 1)
        print("ready", flush=True)
        sys.stdin.readline()
        while claimed := await journal.claim_due(worker, NOW, 2):
            print(*(ref.id for ref in claimed), sep="\n", flush=True)


async def append_for_ever(path: Path) -> None:
    """Append three entries at a time to several executions, and print each length once it is acknowledged."""
    async with sql_journal(path) as journal:

        async def writer(number: int) -> None:
            ref = await begin(journal, f"r-{number}", entries=steps(3))
            length = 3
            while True:
                await journal.append(ref, Append(length, steps(3, length)))
                length += 3
                print(ref.id, length, flush=True)

        await asyncio.gather(*map(writer, range(5)))


@pytest.mark.anyio
async def test_two_processes_claim_each_execution_once(tmp_path: Path) -> None:
    """Two real processes that claim the same 200 executions get each one exactly once."""
    path = tmp_path / "journal.db"
    async with sql_journal(path) as journal:
        refs = [await due(journal, f"r-{number}", NOW) for number in range(200)]
    workers = [process("claim_all", path) for _ in range(2)]
    assert [worker.stdout.readline() for worker in workers if worker.stdout] == ["ready\n"] * 2
    for worker in workers:
        assert worker.stdin
        worker.stdin.write("go\n")
        worker.stdin.flush()
    claims = [[int(line) for line in worker.communicate()[0].split()] for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0]
    assert sorted(claims[0] + claims[1]) == [ref.id for ref in refs]


@pytest.mark.anyio
async def test_acknowledged_appends_survive_a_kill(tmp_path: Path) -> None:
    """After kill -9 during appends, every acknowledged append is stored, and none is half stored."""
    path = tmp_path / "journal.db"
    writer = process("append_for_ever", path)
    assert writer.stdout
    seen = [writer.stdout.readline() for _ in range(300)]
    writer.send_signal(signal.SIGKILL)
    seen += writer.stdout.readlines()
    writer.communicate()
    reports = (line.split() for line in seen if line.endswith("\n"))
    acknowledged = {int(number): int(length) for number, length in reports}
    async with sql_journal(path) as journal:
        for number, length in acknowledged.items():
            entries = await journal.read(ExecutionRef(ORG, number))
            assert len(entries) in (length, length + 3)
            assert entries == list(steps(len(entries)))


if __name__ == "__main__":
    asyncio.run(globals()[sys.argv[1]](Path(sys.argv[2])))
