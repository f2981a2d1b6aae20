"""Statements in text, in the words of each database.

A statement is a function of a `Dialect`: its tables, its parameters and what the databases call differently are
expressions in the text, which is made on first use.
Constructed statements are compiled by SQLAlchemy; `postgres.names.TableNames` gives them the same names.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

import attrs

from wfcore.adapters.sql.schema.deferred import sa
from wfcore.adapters.sql.schema.names import PREFIX

Values = Sequence[Any] | Mapping[str, Any]
"""The values of the numbered parameters in their order, or those of named parameters by name."""


class Dialect(Protocol):
    """The words of one database. A parameter that is compared with NULL needs a cast: PostgreSQL must know its type."""

    def __getitem__(self, what: "sa.Table | int | str", /) -> str:
        """The name of a table, or a parameter: numbered from 1, or named. A statement has one kind of parameters."""
        ...

    def values(self, texts: str) -> str:
        """Rows `given` for FROM, one for each text of a JSON array, in the column `value`."""
        ...

    def array(self, column: str) -> str:
        """A JSON array of the values of a group."""
        ...

    def greatest(self, one: str, other: str) -> str:
        """The greater of two values."""
        ...

    def day(self, seconds: str) -> str:
        """The day in UTC of seconds since the Unix epoch: `2026-01-31`."""
        ...

    def one_of(self, *values: str) -> str:
        """The condition on the column before it that it has one of these integers, for an index."""
        ...

    def join(self) -> str:
        """An inner join whose order SQLite keeps; PostgreSQL chooses the order."""
        ...

    def by_index(self, name: str) -> str:
        """After a table and its alias: the index that SQLite must use, "" for the key; PostgreSQL chooses."""
        ...

    def for_each(self, source: str, rows: str, table: str, key: str = "x.key") -> str:
        """For FROM: the rows of `source`, each with those of `table` whose `key` the query `rows` finds for it, as `x`.

        `rows` can refer to `source`, and have a limit. `key` can have a condition before it: `x.org = w.org AND x.id`.
        """
        ...

    def selected(self, alias: str, key: str) -> str:
        """What the `rows` of `for_each` select of a table, so that `x` has its columns: the key by which SQLite looks
        a row up again, and the row on PostgreSQL.
        """
        ...

    def locked(self, clause: str) -> str:
        """The clause that locks rows; empty on SQLite, where a writer has locked the file."""
        ...

    def inserted(self, values: str) -> str:
        """What an INSERT writes: these values of one row, or of each row of `Statement.many`."""
        ...

    def given(self, word: str = "FROM") -> str:
        """After the SET of an UPDATE, or after a FROM with a comma: the rows of `Statement.many`; empty for one row."""
        ...


class SqliteDialect:
    """Implements `Dialect`."""

    def __getitem__(self, what: "sa.Table | int | str", /) -> str:
        if isinstance(what, int):
            return f"?{what}"
        return f":{what}" if isinstance(what, str) else what.name

    def values(self, texts: str) -> str:
        return f"json_each({texts}) given"

    def array(self, column: str) -> str:
        return f"json_group_array({column})"

    def greatest(self, one: str, other: str) -> str:
        return f"max({one}, {other})"

    def day(self, seconds: str) -> str:
        return f"date({seconds}, 'unixepoch')"

    def one_of(self, *values: str) -> str:
        return f"IN ({', '.join(values)})"

    def join(self) -> str:
        return "CROSS JOIN"

    def by_index(self, name: str) -> str:
        return f"INDEXED BY {name}" if name else "NOT INDEXED"

    def for_each(self, source: str, rows: str, table: str, key: str = "x.key") -> str:
        return f"{source} CROSS JOIN {table} x ON {key} IN ({rows})"

    def selected(self, alias: str, key: str) -> str:
        return f"{alias}.{key}"

    def locked(self, clause: str) -> str:
        return ""

    def inserted(self, values: str) -> str:
        return f"VALUES ({values})"

    def given(self, word: str = "FROM") -> str:
        return ""


@attrs.frozen
class PostgresDialect:
    """Implements `Dialect` for tables in `schema`. `number` makes the numbered parameters.

    With `types`, those of the parameters, a statement takes many rows: an array for each parameter.
    """

    schema: str
    number: Callable[[int], str]
    types: Sequence[str] = ()

    def __getitem__(self, what: "sa.Table | int | str", /) -> str:
        if isinstance(what, int):
            return self.number(what)
        return f":{what}" if isinstance(what, str) else f'"{self.schema}".{own_name(what)}'

    def values(self, texts: str) -> str:
        return f"json_array_elements_text(CAST({texts} AS json)) given(value)"

    def array(self, column: str) -> str:
        return f"CAST(coalesce(json_agg({column}), '[]') AS text)"

    def greatest(self, one: str, other: str) -> str:
        return f"greatest({one}, {other})"

    def day(self, seconds: str) -> str:
        return f"to_char(to_timestamp({seconds}) AT TIME ZONE 'UTC', 'YYYY-MM-DD')"

    def one_of(self, *values: str) -> str:
        """It makes an OR of IN with values of other rows, which takes a bitmap scan."""
        return f"= ANY (ARRAY[{', '.join(f'CAST({value} AS bigint)' for value in values)}])"

    def join(self) -> str:
        return "JOIN"

    def by_index(self, name: str) -> str:
        return ""

    def for_each(self, source: str, rows: str, table: str, key: str = "x.key") -> str:
        return f"{source} CROSS JOIN LATERAL ({rows}) x"

    def selected(self, alias: str, key: str) -> str:
        return f"{alias}.*"

    def locked(self, clause: str) -> str:
        return f" {clause}"

    def inserted(self, values: str) -> str:
        return f"SELECT {values}{self.given()} ORDER BY given.place" if self.types else f"VALUES ({values})"

    def given(self, word: str = "FROM") -> str:
        if not self.types:
            return ""
        arrays = ", ".join(f"${number}::{name}[]" for number, name in enumerate(self.types, 1))
        names = ", ".join(map("p{}".format, range(1, len(self.types) + 1)))
        return f" {word} unnest({arrays}) WITH ORDINALITY AS given({names}, place)"


SQLITE: Final = SqliteDialect()


class Statement:
    """A statement. `sqlite` is its text for SQLite. Statements are compared by identity.

    An INSERT into a table with a numeric key can return it: `key` is its column, and `sqlite_insert` the text without
    RETURNING, which SQLite does not need to return a key, and which would double the cost.

    `types` are the types of the parameters on PostgreSQL, if the statement can write many rows there: `many` does so,
    with an array for each parameter. It returns the keys of an INSERT in ascending order of the rows.
    """

    __slots__ = ("_build", "_clauses", "_returning", "_servers", "_types", "many", "sqlite", "sqlite_insert")

    sqlite: str
    sqlite_insert: str

    def __init__(
        self, build: Callable[[Dialect], str], key: str = "", types: str = "", *, for_rows: bool = False
    ) -> None:
        self._build: Final = build
        self._types: Final = types.split() if for_rows else []
        self.many: Final = Statement(build, key, types, for_rows=True) if types and not for_rows else None
        self._returning: Final = f" RETURNING {key}" if key else ""
        self._servers: dict[str, str] = {}
        self._clauses: dict[str, sa.TextClause] = {}

    def __getattr__(self, name: str) -> str:
        """Called on the first use of `sqlite` or `sqlite_insert`."""
        if name not in ("sqlite", "sqlite_insert"):
            raise AttributeError(f"`Statement` has no attribute `{name}`", name=name, obj=self)
        self.sqlite_insert = self._build(SQLITE)
        self.sqlite = self.sqlite_insert + self._returning
        return self.sqlite if name == "sqlite" else self.sqlite_insert

    def server(self, schema: str) -> str:
        """The text for a PostgreSQL server, with parameters `$1`, `$2`, ..., and tables in the schema."""
        text = self._servers.get(schema)
        if text is None:
            number = "given.p{}" if self._types else "${}"
            d = PostgresDialect(schema, number.format, self._types)
            text = self._servers[schema] = self._build(d) + self._returning
        return text

    def clause(self, schema: str) -> "sa.TextClause":
        """The statement for SQLAlchemy on PostgreSQL, with parameters by name; see `named`."""
        clause = self._clauses.get(schema)
        if clause is None:
            clause = self._clauses[schema] = sa.text(
                self._build(PostgresDialect(schema, ":p{}".format)) + self._returning
            )
        return clause


def row(d: Dialect, count: int) -> str:
    """Numbered parameters in parentheses, from the first."""
    return f"({', '.join(d[number] for number in range(1, count + 1))})"


def named(values: Values) -> Mapping[str, Any]:
    """The values by the names of the parameters in `Statement.clause`: that of the first numbered one is `p1`."""
    if isinstance(values, Mapping):
        return values
    return {f"p{number}": value for number, value in enumerate(values, 1)}


def own_name(table: "sa.Table") -> str:
    """The name of a table within the schema of PostgreSQL."""
    return table.name.removeprefix(PREFIX)
