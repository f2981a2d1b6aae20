"""The storage contract for each adapter, and properties of a file only."""

import asyncio
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE, Popen

import pytest
import sqlalchemy as sa
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test
from postgres_server import new_database
from sql_texts import statement
from waiting import HANG

from wfcore.adapters.inmemory.storage import MemoryStorage
from wfcore.adapters.sql.postgres.database import PostgresDatabase
from wfcore.adapters.sql.repositories import resources
from wfcore.adapters.sql.repositories.resources import far_resources, near_resources, scheduled_resources
from wfcore.adapters.sql.sqlite.database import Database
from wfcore.adapters.sql.storage import SqlStorage
from wfcore.ports.storage import Storage
from wfcore.testing.contracts.storage.interrupted import StorageCrashContract
from wfcore.testing.contracts.storage.state_machine import StorageMachine
from wfcore.testing.contracts.storage.storage import StorageContract
from wfcore.testing.contracts.storage.values import ORG, new_organization, new_resource, new_variation, principal

QUICK = settings(max_examples=12, stateful_step_count=15)


async def open_sqlite(place: Path) -> SqlStorage:
    database = Database(f"sqlite:///{place}/wfcore.db", synchronous="NORMAL")
    await database.open()
    storage = SqlStorage(database)
    await storage.upgrade()
    return storage


class TestCrashesOfSqlite(StorageCrashContract):
    async def open_storage(self, place: Path) -> Storage:
        return await open_sqlite(place)


class TestMemoryStorage(StorageContract):
    async def open_storage(self, place: Path) -> Storage:
        return MemoryStorage()

    async def test_a_pinned_draft_is_kept(self) -> None:
        """`drop_variation`: forget a draft, unless an execution has pinned it."""
        store = MemoryStorage(pinned={"v1"}.__contains__)
        await store.add_organization(new_organization(ORG))
        await _drop_two_drafts(store)


class TestSqlStorage(StorageContract):
    async def open_storage(self, place: Path) -> Storage:
        return await open_sqlite(place)

    async def test_a_pinned_draft_is_kept(self, tmp_path: Path) -> None:
        """`drop_variation`: forget a draft, unless an execution has pinned it."""
        store = await open_sqlite(tmp_path)
        await store.add_organization(new_organization(ORG))
        async with store.database.writing() as connection:
            await connection.run(
                statement(
                    "INSERT INTO wfcore_executions (org, kind, variation_id, is_draft, user_id, thread_id, started_by,"
                    " epoch) VALUES (1, 'workflow', X'3D7631', true, 'u', 't', 'person', 0)"
                )
            )
        await _drop_two_drafts(store)
        await store.close()

    async def test_committed_rows_outlive_the_store(self, tmp_path: Path) -> None:
        """A committed transaction is read when the file is opened again."""
        store = await open_sqlite(tmp_path)
        await store.add_organization(new_organization(ORG))
        async with store.transaction(ORG) as work:
            await work.workflows.add(new_resource(1))
        await store.close()
        again = await open_sqlite(tmp_path)
        async with again.reading(ORG) as work:
            assert await work.workflows.get(1) == new_resource(1)
        await again.close()

    async def test_a_page_scans_no_table(self, store: SqlStorage) -> None:
        """A page looks up the grants of near resources, which it scans by id, unsorted, and of others by subject.

        A page of resources with a schedule has an index of them.
        """
        async with store.database.reading() as connection:
            values = {"org": 1, "kind": "workflow", "subjects": ["u1"], "after": 3, "last": 303, "limit": 25}
            made = (near_resources, far_resources, scheduled_resources)
            pages = [page(False, False, False).params(values) for page in made]
            plans = [sa.text(f"EXPLAIN QUERY PLAN {_literal(page)}") for page in pages]
            near, far, scheduled = [[row.detail for row in await connection.execute(plan)] for plan in plans]
        assert not any("SCAN" in step or "TEMP B-TREE" in step for step in near + scheduled)
        assert any("SEARCH wfcore_resources USING INDEX wfcore_resources_scheduled" in step for step in scheduled)
        assert any("SEARCH wfcore_resources" in step and "id>? AND id<?" in step for step in near)
        assert any(
            re.match(r"SEARCH wfcore_grants (EXISTS )?USING PRIMARY KEY \(resource=\? AND subject=\?\)", step)
            for step in near
        )
        assert any("SEARCH wfcore_resources USING INTEGER PRIMARY KEY (rowid=?)" in step for step in far)
        assert any("USING COVERING INDEX wfcore_grants_subject (subject=?)" in step for step in far)


async def _drop_two_drafts(store: Storage) -> None:
    async with store.transaction(ORG) as work:
        await work.workflows.add(new_resource(1))
        for name in ("v1", "v2"):
            await work.workflows.add_variation(1, new_variation(name))
            await work.workflows.drop_variation(1, name)
    async with store.reading(ORG) as work:
        assert await work.workflows.variation(1, "v1")
        assert await work.workflows.variation(1, "v2") is None


def _literal(statement: sa.Select[tuple[object]]) -> str:
    from sqlalchemy.dialects import sqlite

    return str(statement.compile(dialect=sqlite.dialect(), compile_kwargs={"literal_binds": True}))


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


async def open_adapter(name: str, place: Path) -> Storage:
    match name:
        case "memory":
            return MemoryStorage()
        case "sqlite":
            return await open_sqlite(place)
        case _:
            database = PostgresDatabase(new_database(), synchronous="NORMAL")
            await database.open()
            return SqlStorage(database)


@pytest.mark.parametrize("adapter", ["memory", "sqlite", "postgres"])
def test_it_agrees_with_dicts(
    adapter: str, runner: asyncio.Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random sequences of operations have the same results on a store and on plain dicts, in both parts of a page."""
    monkeypatch.setattr(resources, "NEAR", 1)
    opened = runner.run(open_adapter(adapter, tmp_path))

    class Machine(StorageMachine):
        store = opened

    Machine.runner = runner
    try:
        few = settings(QUICK, max_examples=4)
        run_state_machine_as_test(Machine, settings=few if adapter == "postgres" else QUICK)
    finally:
        runner.run(opened.close())


WRITER = """
import asyncio, sys
from wfcore.adapters.sql.sqlite.database import Database
from wfcore.adapters.sql.storage import SqlStorage
from wfcore.ports.storage import Duplicate
from wfcore.testing.contracts.storage.values import ORG, new_organization, new_resource

async def main():
    database = Database(sys.argv[1], synchronous="NORMAL")
    print("ready", flush=True)
    sys.stdin.readline()
    await database.open()
    store = SqlStorage(database)
    await store.upgrade()
    try:
        await store.add_organization(new_organization(ORG))
    except Duplicate:
        pass
    for _ in range(40):
        async with store.transaction(ORG) as work:
            await work.workflows.add(new_resource(await work.workflows.next_id()))
    await store.close()

asyncio.run(main())
"""


def test_two_processes_lose_nothing(tmp_path: Path) -> None:
    """Two processes that create, upgrade and write to one file concurrently lose no write."""
    url = f"sqlite:///{tmp_path}/wfcore.db"
    command = [sys.executable, "-W", "error", "-c", WRITER, url]
    processes = [Popen(command, stdin=PIPE, stdout=PIPE, stderr=PIPE, text=True) for _ in range(2)]
    for process in processes:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()
    ends = [(process.communicate(timeout=HANG)[1], process.returncode) for process in processes]
    assert [code for _, code in ends] == [0, 0], ends

    async def ids() -> list[int]:
        store = await open_sqlite(tmp_path)
        async with store.reading(ORG) as work:
            found = [resource.id for resource in await work.workflows.page(principal(), limit=999)]
        await store.close()
        return found

    assert asyncio.run(ids()) == list(range(1, 81))
