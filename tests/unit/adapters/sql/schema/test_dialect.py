"""The translation of SQLite's statements for the driver and for the server of PostgreSQL."""

from typing import Any

import pytest

from wfcore.adapters.sql.schema.dialect import named_values, to_driver_statement, to_server_statement


@pytest.mark.parametrize(
    ("statement", "values", "expected"),
    [
        ("a = ?1 AND b = ?2 AND c = ?1", (1, 2), ("a = $1 AND b = $2 AND c = $1", (1, 2))),
        ("VALUES (?, ?)", (1, 2), ("VALUES ($1, $2)", (1, 2))),
        ("a = :b AND c = :a % :b", {"a": 1, "b": 2}, ("a = $1 AND c = $2 % $1", [2, 1])),
        ("CAST(a::text AS json)", (), ("CAST(a::text AS json)", ())),
    ],
)
def test_server_statements_have_numbered_parameters(statement: str, values: Any, expected: Any) -> None:
    """The values are in the order of the numbers."""
    assert to_server_statement(statement, values) == expected


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("a = ?1 AND b = ?2 AND c = ?1", "a = %(p1)s AND b = %(p2)s AND c = %(p1)s"),
        ("VALUES (?, ?)", "VALUES (%(p1)s, %(p2)s)"),
        ("a = :a_b % 2", "a = %(a_b)s %% 2"),
        ("max(a.b, c.d) + max(e)", "greatest(a.b, c.d) + max(e)"),
        ("o CROSS JOIN p ON a", "o JOIN p ON a"),
    ],
)
def test_driver_statements_are_translated(statement: str, expected: str) -> None:
    """SQLite's dialect becomes PostgreSQL's, with named parameters."""
    assert to_driver_statement(statement) == expected


def test_values_by_name() -> None:
    """Positional values are named by their position, counted from 1; named ones keep their names."""
    assert named_values((7, None)) == {"p1": 7, "p2": None}
    assert named_values({"a": 1}) == {"a": 1}
