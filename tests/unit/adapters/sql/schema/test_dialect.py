"""The translation of SQLite's statements for the driver and for the server of PostgreSQL."""

from typing import Any

import pytest

from wfcore.adapters.sql.schema.dialect import named_values, to_driver_statement, to_server_statement


@pytest.mark.parametrize(
    ("written", "values", "told"),
    [
        ("a = ?1 AND b = ?2 AND c = ?1", (1, 2), ("a = $1 AND b = $2 AND c = $1", (1, 2))),
        ("VALUES (?, ?)", (1, 2), ("VALUES ($1, $2)", (1, 2))),
        ("a = :b AND c = :a % :b", {"a": 1, "b": 2}, ("a = $1 AND c = $2 % $1", [2, 1])),
        ("CAST(a::text AS json)", (), ("CAST(a::text AS json)", ())),
    ],
)
def test_statements_go_out_with_numbers(written: str, values: Any, told: Any) -> None:
    """On the wire placeholders are numbers, and values stand in their order."""
    assert to_server_statement(written, values) == told


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("a = ?1 AND b = ?2 AND c = ?1", "a = %(p1)s AND b = %(p2)s AND c = %(p1)s"),
        ("VALUES (?, ?)", "VALUES (%(p1)s, %(p2)s)"),
        ("a = :a_b % 2", "a = %(a_b)s %% 2"),
        ("max(a.b, c.d) + max(e)", "greatest(a.b, c.d) + max(e)"),
        ("o CROSS JOIN p ON a", "o JOIN p ON a"),
    ],
)
def test_statements_are_translated(written: str, told: str) -> None:
    """SQLite's words in PostgreSQL's, placeholders as names."""
    assert to_driver_statement(written) == told


def test_values_have_the_names_of_their_places() -> None:
    """By position counted from one, or as they are named already."""
    assert named_values((7, None)) == {"p1": 7, "p2": None}
    assert named_values({"a": 1}) == {"a": 1}
