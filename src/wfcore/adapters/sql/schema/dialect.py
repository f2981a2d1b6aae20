"""Types and constructs of SQLAlchemy that it compiles differently for SQLite and for PostgreSQL."""

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
    """The options of an index that covers only rows that meet `condition`.

    Tables are created by migrations. `postgresql_where` would import the dialect of PostgreSQL, also for a file.
    """
    return {"sqlite_where": condition}


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


def contains(query: sa.ColumnElement[str], *texts: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
    """The condition `wfcore.domain.kernel.search.contains`, for a query that is `folded`. LIKE has wildcards, and would
    refuse a long pattern.
    """
    return sa.or_(*(position_of(sa.func.lower(text), query) > 0 for text in texts))
