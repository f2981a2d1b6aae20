"""The differences between the SQL of SQLite and of PostgreSQL. All other SQL is written once, for both.

SQLAlchemy compiles constructed statements for each database. Statements in text use SQLite's dialect, limited to what
`to_driver_statement` can translate. A statement that compares a parameter with NULL casts it, because PostgreSQL must
know its type.
"""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import count
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql import SyntaxExtension
from sqlalchemy.sql.dml import Insert
from sqlalchemy.sql.functions import FunctionElement

INT: Final = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TEXT: Final = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
"""Sorted by code points, independent of the database's default collation."""


def only_where(condition: Any) -> dict[str, Any]:
    """The options of an index that covers only rows that meet `condition`."""
    return {"sqlite_where": condition, "postgresql_where": condition}


class _OnConflictDoNothing(SyntaxExtension, sa.ClauseElement):
    inherit_cache = True
    _traverse_internals: list[Any] = []  # noqa: RUF012

    def apply_to_insert(self, insert_stmt: Any) -> None:
        insert_stmt.apply_syntax_extension_point(lambda existing: [*existing, self], "post_values")


@compiles(_OnConflictDoNothing)
def _on_conflict_do_nothing(_element: _OnConflictDoNothing, _compiler: Any, **_: Any) -> str:
    return "ON CONFLICT DO NOTHING"


def insert_new(table: sa.Table) -> Insert:
    """An INSERT that does nothing when a unique key exists; the row count is then 0."""
    return sa.insert(table).ext(_OnConflictDoNothing()).execution_options(preserve_rowcount=True)


class position_of(FunctionElement[int]):  # noqa: N801  (a function of SQL)
    """The position of a text within another, counted from 1; 0 if it does not occur."""

    type = sa.Integer()
    inherit_cache = True


@compiles(position_of)
def _position_of(element: position_of, compiler: Any, **options: Any) -> str:
    return f"instr({compiler.process(element.clauses, **options)})"


@compiles(position_of, "postgresql")
def _position_of_in_postgres(element: position_of, compiler: Any, **options: Any) -> str:
    return f"strpos({compiler.process(element.clauses, **options)})"


_TRANSLATIONS: Final = (
    (r"json_each\((:\w+|\?\d+)\) (\w+)", r"json_array_elements_text(CAST(\1 AS json)) \2(value)"),
    (r"json_each\((:\w+|\?\d+)\)", r"json_array_elements_text(CAST(\1 AS json)) each(value)"),
    (r"json_group_array\(([\w.]+)\)", r"CAST(coalesce(json_agg(\1), '[]') AS text)"),
    (r"date\(([^,]+), 'unixepoch'\)", r"to_char(to_timestamp(\1) AT TIME ZONE 'UTC', 'YYYY-MM-DD')"),
    (r"\bmax\(([^(),]+, [^()]+)\)", r"greatest(\1)"),
    (r"\bCROSS JOIN\b", "JOIN"),
)

_NAME: Final = r"(?<!:):([a-z]\w*)"


def _translated(statement: str) -> str:
    for pattern, replacement in _TRANSLATIONS:
        statement = re.sub(pattern, replacement, statement)
    numbers = count(1)
    return re.sub(r"\?(?!\d)", lambda _: f"?{next(numbers)}", statement)


@cache
def to_driver_statement(statement: str) -> str:
    """A statement of SQLite's for the PostgreSQL driver: `?` and `?1` become the parameter `p1`, `:name` `name`."""
    statement = re.sub(r"\?(\d+)", r"%(p\1)s", _translated(statement).replace("%", "%%"))
    return re.sub(_NAME, r"%(\1)s", statement)


def to_server_statement(statement: str, values: Sequence[Any] | Mapping[str, Any]) -> tuple[str, Sequence[Any]]:
    """A statement of SQLite's, and its values, for the PostgreSQL server: the parameters are `$1`, `$2`, ..."""
    text, names = _numbered(statement)
    return text, [values[name] for name in names] if isinstance(values, Mapping) else values


@cache
def _numbered(statement: str) -> tuple[str, Sequence[str]]:
    """The statement with numbered parameters, and the names of the parameters in the order of their numbers."""
    text = re.sub(r"\?(\d+)", r"$\1", _translated(statement))
    names = list(dict.fromkeys(re.findall(_NAME, text)))
    return re.sub(_NAME, lambda found: f"${names.index(found[1]) + 1}", text), names


def named_values(values: Sequence[Any] | Mapping[str, Any]) -> dict[str, Any]:
    """The values of a statement by their parameter names in the result of `to_driver_statement`."""
    if isinstance(values, Mapping):
        return dict(values)
    return {f"p{number}": value for number, value in enumerate(values, 1)}
