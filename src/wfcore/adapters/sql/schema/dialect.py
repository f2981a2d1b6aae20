"""What SQLite and PostgreSQL say in different words. All else is said once, for both.

Statements that are built are compiled for each by SQLAlchemy. Those that are written out are in SQLite's words, kept
to what `in_postgres` can translate; a statement that asks whether a value is NULL casts it, since PostgreSQL has to
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
"""In the order of code points, whatever the database's own order is."""


def only_where(condition: Any) -> dict[str, Any]:
    """The options of an index that covers these rows alone."""
    return {"sqlite_where": condition, "postgresql_where": condition}


class _IfNew(SyntaxExtension, sa.ClauseElement):
    inherit_cache = True
    _traverse_internals: list[Any] = []  # noqa: RUF012

    def apply_to_insert(self, insert_stmt: Any) -> None:
        insert_stmt.apply_syntax_extension_point(lambda existing: [*existing, self], "post_values")


@compiles(_IfNew)
def _if_new(_element: _IfNew, _compiler: Any, **_: Any) -> str:
    return "ON CONFLICT DO NOTHING"


def insert_new(table: sa.Table) -> Insert:
    """An INSERT that does nothing when a unique key is taken: the count of rows tells which."""
    return sa.insert(table).ext(_IfNew()).execution_options(preserve_rowcount=True)


class place_of(FunctionElement[int]):  # noqa: N801  (a function of SQL)
    """Where in a text another one begins, counted from 1; 0 for nowhere."""

    type = sa.Integer()
    inherit_cache = True


@compiles(place_of)
def _place_of(element: place_of, compiler: Any, **options: Any) -> str:
    return f"instr({compiler.process(element.clauses, **options)})"


@compiles(place_of, "postgresql")
def _place_of_in_postgres(element: place_of, compiler: Any, **options: Any) -> str:
    return f"strpos({compiler.process(element.clauses, **options)})"


_WORDS: Final = (
    (r"json_each\((:\w+|\?\d+)\) (\w+)", r"json_array_elements_text(CAST(\1 AS json)) \2(value)"),
    (r"json_each\((:\w+|\?\d+)\)", r"json_array_elements_text(CAST(\1 AS json)) each(value)"),
    (r"json_group_array\(([\w.]+)\)", r"CAST(coalesce(json_agg(\1), '[]') AS text)"),
    (r"date\(([^,]+), 'unixepoch'\)", r"to_char(to_timestamp(\1) AT TIME ZONE 'UTC', 'YYYY-MM-DD')"),
    (r"\bmax\(([^(),]+, [^()]+)\)", r"greatest(\1)"),
    (r"\bCROSS JOIN\b", "JOIN"),
)

_NAME: Final = r"(?<!:):([a-z]\w*)"


def _in_its_words(statement: str) -> str:
    for pattern, words in _WORDS:
        statement = re.sub(pattern, words, statement)
    numbers = count(1)
    return re.sub(r"\?(?!\d)", lambda _: f"?{next(numbers)}", statement)


@cache
def in_postgres(statement: str) -> str:
    """A statement of SQLite's as the driver of PostgreSQL takes it: `?` and `?1` are named `p1`, `:name` is `name`."""
    statement = re.sub(r"\?(\d+)", r"%(p\1)s", _in_its_words(statement).replace("%", "%%"))
    return re.sub(_NAME, r"%(\1)s", statement)


def on_the_wire(statement: str, values: Sequence[Any] | Mapping[str, Any]) -> tuple[str, Sequence[Any]]:
    """A statement of SQLite's, and its values, as the server of PostgreSQL takes them: they are `$1`, `$2`, ..."""
    text, names = _numbered(statement)
    return text, [values[name] for name in names] if isinstance(values, Mapping) else values


@cache
def _numbered(statement: str) -> tuple[str, Sequence[str]]:
    """The statement, and its names in the order of their numbers."""
    text = re.sub(r"\?(\d+)", r"$\1", _in_its_words(statement))
    names = list(dict.fromkeys(re.findall(_NAME, text)))
    return re.sub(_NAME, lambda found: f"${names.index(found[1]) + 1}", text), names


def named(values: Sequence[Any] | Mapping[str, Any]) -> dict[str, Any]:
    """The values of a statement by the names that `in_postgres` gave them."""
    if isinstance(values, Mapping):
        return dict(values)
    return {f"p{number}": value for number, value in enumerate(values, 1)}
