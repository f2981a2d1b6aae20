"""Statements with numbered parameters on a driver that takes them for named ones: the same results, and no warning."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from wfcore.adapters.sql.sqlite.numbered import ARE_NAMED, CONNECTION, NamingConnection, NamingCursor


@pytest.fixture(params=sorted({CONNECTION, NamingConnection}, key=lambda one: one.__name__))
def connection(request: pytest.FixtureRequest) -> Iterator[sqlite3.Connection]:
    """Of this interpreter, and of one that needs the names."""
    with closing(sqlite3.connect(":memory:", factory=request.param)) as opened:
        yield opened


@pytest.mark.parametrize(
    ("statement", "values"),
    [
        ("SELECT ?1, ?2", (1, "two")),
        ("SELECT ?1, ?2", [1, "two"]),
        ("SELECT CAST(?1 AS INTEGER), ?2 WHERE ?1 < 2", (1, "two")),
        ("SELECT ?2, ?1", ("two", 1)),
        ("SELECT ?, ?", (1, "two")),
        ("SELECT :one, :two", {"one": 1, "two": "two"}),
        ("SELECT 1, 'two'", ()),
    ],
)
def test_values(connection: sqlite3.Connection, statement: str, values: Any) -> None:
    assert connection.execute(statement, values).fetchall() == [(1, "two")]
    assert connection.cursor().execute(statement, values).fetchall() == [(1, "two")]


def test_many_rows(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE t (a, b)")
    connection.executemany("INSERT INTO t VALUES (?2, ?1)", iter([("two", 1), ("four", 3)]))
    connection.executemany("INSERT INTO t VALUES (?, ?)", [(5, "six")])
    assert connection.execute("SELECT * FROM t").fetchall() == [(1, "two"), (3, "four"), (5, "six")]


def test_a_cursor_of_another_connection() -> None:
    with closing(sqlite3.connect(":memory:")) as host:
        assert host.cursor(NamingCursor).execute("SELECT ?1 + ?1", (2,)).fetchone() == (4,)


def test_only_where_it_is_needed() -> None:
    """Whether the driver of this interpreter warns is what the version says."""
    with closing(sqlite3.connect(":memory:")) as plain:
        if ARE_NAMED:
            with pytest.warns(DeprecationWarning, match="named parameter"):
                plain.execute("SELECT ?1", (1,))
        else:
            assert CONNECTION is sqlite3.Connection
            plain.execute("SELECT ?1", (1,))
