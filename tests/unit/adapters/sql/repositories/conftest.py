"""An empty SQLite store, and the query plans of statements on it."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from wfcore.adapters.sql.schema.statement import Statement
from wfcore.adapters.sql.sqlite.database import Database
from wfcore.adapters.sql.storage import SqlStorage


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqlStorage]:
    database = Database(f"sqlite:///{tmp_path}/a.db", synchronous="NORMAL")
    await database.open()
    store = SqlStorage(database)
    await store.upgrade()
    yield store
    await store.close()


@pytest.fixture
def plan(store: SqlStorage) -> Callable[..., list[str]]:
    """Returns the steps of a statement's query plan. Its parameters have the given names."""

    def plan_of(statement: Statement, *names: str) -> list[str]:
        values = dict.fromkeys(names, 1) | {"org": "o", "user": "u", "subjects": "[]"}
        return [
            row[3]
            for row in store.database.look_up_connection.execute(f"EXPLAIN QUERY PLAN {statement.sqlite}", values)
        ]

    return plan_of
