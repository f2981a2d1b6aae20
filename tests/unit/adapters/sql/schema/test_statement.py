"""Statements in text have the words of each database."""

from typing import Any

import pytest

from wfcore.adapters.sql.schema.statement import Dialect, Statement, named, row
from wfcore.adapters.sql.schema.tables import runs


def words(d: Dialect) -> str:
    return f"{d.locked('FOR UPDATE')} {d.join()} {d.values(d[1])} {d.array('a')} {d.greatest('a', 'b')} {d.day('s')}"


ON_SERVER = (
    " CAST(coalesce(json_agg(a), '[]') AS text) greatest(a, b)"
    " to_char(to_timestamp(s) AT TIME ZONE 'UTC', 'YYYY-MM-DD')"
)


@pytest.mark.parametrize(
    ("build", "sqlite", "server", "clause"),
    [
        (
            lambda d: f"SELECT {d[2]}, {d[1]} FROM {d[runs]}",
            "SELECT ?2, ?1 FROM wfcore_runs",
            'SELECT $2, $1 FROM "s".runs',
            'SELECT :p2, :p1 FROM "s".runs',
        ),
        (lambda d: f"VALUES {row(d, 2)}", "VALUES (?1, ?2)", "VALUES ($1, $2)", "VALUES (:p1, :p2)"),
        (lambda d: d["user"], ":user", ":user", ":user"),
        (
            words,
            " CROSS JOIN json_each(?1) given json_group_array(a) max(a, b) date(s, 'unixepoch')",
            f" FOR UPDATE JOIN json_array_elements_text(CAST($1 AS json)) given(value){ON_SERVER}",
            f" FOR UPDATE JOIN json_array_elements_text(CAST(:p1 AS json)) given(value){ON_SERVER}",
        ),
    ],
)
def test_each_database_has_its_words(build: Any, sqlite: str, server: str, clause: str) -> None:
    """Tables, parameters, and what the databases call differently."""
    one = Statement(build)
    assert (one.sqlite, one.server("s"), one.clause("s").text) == (sqlite, server, clause)


def test_a_text_is_made_once() -> None:
    """On first use, on PostgreSQL for each schema."""
    made = list[str]()

    def build(d: Dialect) -> str:
        made.append(d[runs])
        return made[-1]

    one = Statement(build)
    assert not made
    for _ in range(2):
        assert [one.sqlite, one.sqlite_insert] == ["wfcore_runs"] * 2
        assert [one.server("a"), one.server("b"), one.clause("a").text] == ['"a".runs', '"b".runs', '"a".runs']
    assert made == ["wfcore_runs", '"a".runs', '"b".runs', '"a".runs']
    assert not hasattr(one, "text")


def test_an_insert_can_return_its_key() -> None:
    """SQLite has it without RETURNING, which is the more expensive way."""
    one = Statement(lambda d: f"INSERT INTO {d[runs]} VALUES ({d[1]})", key="key")
    assert one.server("s") == 'INSERT INTO "s".runs VALUES ($1) RETURNING key'
    assert one.sqlite == f"{one.sqlite_insert} RETURNING key"
    assert one.sqlite_insert == "INSERT INTO wfcore_runs VALUES (?1)"


def test_values_by_name() -> None:
    """Numbered values are named by their position, counted from 1; named ones keep their names."""
    assert named((7, None)) == {"p1": 7, "p2": None}
    assert named({"a": 1}) == {"a": 1}


def test_many_rows() -> None:
    """On PostgreSQL an array for each parameter; the rows keep their order."""
    given = "FROM unnest($1::bigint[], $2::text[]) WITH ORDINALITY AS given(p1, p2, place)"
    add = Statement(lambda d: f"INSERT INTO t {d.inserted(f'{d[1]}, {d[2]}')}", "key", "bigint text")
    move = Statement(lambda d: f"UPDATE t SET a = {d[2]}{d.given()} WHERE b = {d[1]}", types="bigint text")
    assert add.many
    assert add.many.server("s") == f"INSERT INTO t SELECT given.p1, given.p2 {given} ORDER BY given.place RETURNING key"
    assert move.many
    assert move.many.server("s") == f"UPDATE t SET a = given.p2 {given} WHERE b = given.p1"
    assert [one.server("s") for one in (add, move)] == [
        "INSERT INTO t VALUES ($1, $2) RETURNING key", "UPDATE t SET a = $2 WHERE b = $1",
    ]  # fmt: skip
    assert [one.sqlite_insert for one in (add, move)] == [
        "INSERT INTO t VALUES (?1, ?2)", "UPDATE t SET a = ?2 WHERE b = ?1",
    ]  # fmt: skip
    assert add.many.many is Statement(words).many is None
