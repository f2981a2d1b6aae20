"""A database as a copy uses it: one connection and one transaction, with plain statements of its driver.

Both stores give equal rows for equal content: values in the order of the columns of `metadata`, booleans as `bool`,
rows in the order of the primary key (texts are compared by their bytes).
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs
import sqlalchemy as sa

from wfcore.adapters.sql import migrations
from wfcore.adapters.sql.migrations import RELEASED, RevisionChain
from wfcore.adapters.sql.schema.names import DEFAULT_SCHEMA, check_schema
from wfcore.adapters.sql.schema.statement import PostgresDialect, own_name
from wfcore.adapters.sql.schema.tables import metadata
from wfcore.adapters.sql.sqlite.driver import domain_errors
from wfcore.addresses import address_of, is_server, server_options
from wfcore.domain.kernel.errors import Conflict, Unavailable
from wfcore.extras import needs_extra

if TYPE_CHECKING:
    import psycopg

Row = tuple[Any, ...]

BATCH: Final = 2_000
"""Rows of one read or write."""

LOCK_SECONDS: Final = 5
"""How long a copy waits for writers of its source."""

TABLES: Final[Sequence[sa.Table]] = metadata.sorted_tables
"""Every table, after those that it refers to."""


class CopySource(Protocol):
    """What a copy reads."""

    def lock(self) -> None:
        """Exclude other writers until the transaction ends. Raises Unavailable when they do not end in time."""
        ...

    def count(self, table: sa.Table) -> int:
        """The number of rows."""
        ...

    def rows(self, table: sa.Table) -> Iterator[Row]:
        """All rows, by primary key."""
        ...

    def last_number(self, table: sa.Table, column: sa.Column[Any]) -> int:
        """The greatest number that the store has ever assigned; 0 for none."""
        ...


class CopyDatabase(CopySource, Protocol):
    """An open database in a transaction, which `databases.opened` commits."""

    connection: sa.Connection

    def shards(self) -> list[str]:
        """The names of the shards of which this is the main database."""
        ...

    def has_placements(self) -> bool:
        """Whether organizations were placed on shards: their rows are expected where they were."""
        ...

    def insert(self, table: sa.Table, rows: Iterable[Row]) -> None:
        """Add rows."""
        ...

    def set_last_number(self, table: sa.Table, column: sa.Column[Any], last: int) -> None:
        """Assign only numbers greater than this from now on."""
        ...

    def analyze(self) -> None:
        """Collect the statistics with which the database plans, of all rows that were added."""
        ...


@attrs.frozen
class Address:
    """The URL of a database, `sqlite:///path` or `postgresql://...`, and its PostgreSQL schema.

    Raises ValueError for any other URL, one that is not valid, and a schema that is not a plain name.
    """

    url: str = attrs.field(converter=address_of, repr=False)
    schema: str = attrs.field(default=DEFAULT_SCHEMA, converter=check_schema)

    def __attrs_post_init__(self) -> None:
        if not is_server(self.url) and self.file is None:
            raise ValueError("use a database that is stored: `sqlite:///path` or `postgresql://user@host/name`")
        if is_server(self.url):
            with needs_extra("postgres", "a PostgreSQL database"):
                server_options(self.url)

    @property
    def file(self) -> Path | None:
        """The file of a SQLite database; None for a server."""
        path = self.url.removeprefix("sqlite:///")
        return None if path in (self.url, "", ":memory:") or "?" in path else Path(path).absolute()


def columns_of(table: sa.Table) -> list[str]:
    return [f'"{column.name}"' for column in table.columns]


def keys_of(table: sa.Table) -> str:
    return ", ".join(f'"{column.name}"' for column in table.primary_key.columns)


def numbered(table: sa.Table) -> sa.Column[Any] | None:
    """The column that the store numbers; None when there is none."""
    return table.autoincrement_column


class SqliteCopy:
    """Implements `CopyDatabase` on a file."""

    def __init__(self, connection: sa.Connection) -> None:
        self.connection = connection
        self._inner: sqlite3.Connection = connection.connection.driver_connection  # type: ignore[assignment]

    def shards(self) -> list[str]:
        return []

    def has_placements(self) -> bool:
        return False

    def lock(self) -> None:
        """The transaction has locked the file already."""

    def count(self, table: sa.Table) -> int:
        return int(self._inner.execute(f"SELECT count(*) FROM {table.name}").fetchone()[0])

    def rows(self, table: sa.Table) -> Iterator[Row]:
        names = ", ".join(columns_of(table))
        flags = [index for index, column in enumerate(table.columns) if isinstance(column.type, sa.Boolean)]
        found = self._inner.execute(f"SELECT {names} FROM {table.name} ORDER BY {keys_of(table)}")
        for row in found:
            yield _with_booleans(row, flags) if flags else row

    def insert(self, table: sa.Table, rows: Iterable[Row]) -> None:
        names = columns_of(table)
        values = ", ".join("?" for _ in names)
        statement = f"INSERT INTO {table.name} ({', '.join(names)}) VALUES ({values})"
        self._inner.executemany(statement, rows)

    def last_number(self, table: sa.Table, column: sa.Column[Any]) -> int:
        if table.dialect_options["sqlite"]["autoincrement"]:
            found = self._inner.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (table.name,)).fetchone()
            return found[0] if found else 0
        found = self._inner.execute(f'SELECT max("{column.name}") FROM {table.name}').fetchone()
        return found[0] or 0

    def set_last_number(self, table: sa.Table, column: sa.Column[Any], last: int) -> None:
        """Without AUTOINCREMENT, SQLite itself numbers from the greatest row on."""
        if table.dialect_options["sqlite"]["autoincrement"] and last:
            self._inner.execute("DELETE FROM sqlite_sequence WHERE name = ?", (table.name,))
            self._inner.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (table.name, last))

    def analyze(self) -> None:
        """SQLite plans wfcore's statements by their indexes alone."""


def _with_booleans(row: Row, flags: Sequence[int]) -> Row:
    values = list(row)
    for index in flags:
        values[index] = bool(values[index])
    return tuple(values)


class PostgresCopy:
    """Implements `CopyDatabase` on a PostgreSQL schema."""

    def __init__(self, connection: sa.Connection, schema: str) -> None:
        self.connection = connection
        self._inner: psycopg.Connection[Any] = connection.connection.driver_connection  # type: ignore[assignment]
        self._names = PostgresDialect(schema, "${}".format)
        self._schema = schema

    def shards(self) -> list[str]:
        return self._texts("name", "shards")

    def has_placements(self) -> bool:
        return bool(self._texts("org", "placements"))

    def _texts(self, column: str, table: str) -> list[str]:
        """The values of a column; empty without the table, which only an installation with shards has."""
        name = f'"{self._schema}".{table}'
        is_there = self._value(f"SELECT to_regclass('{name}') IS NOT NULL")
        query: Any = f"SELECT {column} FROM {name} ORDER BY {column}"
        return [text for (text,) in self._inner.execute(query)] if is_there else []

    def lock(self) -> None:
        """Begins a new transaction, which sees what is committed when the locks are taken."""
        self._inner.rollback()
        names = ", ".join(self._names[table] for table in TABLES)
        self._run(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'")
        self._run(f"LOCK TABLE {names} IN SHARE MODE")

    def count(self, table: sa.Table) -> int:
        return int(self._value(f"SELECT count(*) FROM {self._names[table]}"))

    def rows(self, table: sa.Table) -> Iterator[Row]:
        """Read with a cursor of the server, so that memory does not grow with the table."""
        names = ", ".join(columns_of(table))
        with self._inner.cursor(name=f"copy_{own_name(table)}") as cursor:
            cursor.itersize = BATCH
            cursor.execute(f"SELECT {names} FROM {self._names[table]} ORDER BY {keys_of(table)}")
            yield from cursor

    def insert(self, table: sa.Table, rows: Iterable[Row]) -> None:
        names = ", ".join(columns_of(table))
        statement: Any = f"COPY {self._names[table]} ({names}) FROM STDIN"
        with self._inner.cursor() as cursor, cursor.copy(statement) as copy:
            for row in rows:
                copy.write_row(row)

    def last_number(self, table: sa.Table, column: sa.Column[Any]) -> int:
        return int(self._value(f"SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM {self._of(table, column)}"))

    def set_last_number(self, table: sa.Table, column: sa.Column[Any], last: int) -> None:
        self._value(f"SELECT setval('{self._of(table, column)}', {max(last, 1)}, {bool(last)})")

    def analyze(self) -> None:
        """Else PostgreSQL would plan with guesses until its autovacuum comes to the tables, if that is on."""
        self._run(f"ANALYZE {', '.join(self._names[table] for table in TABLES)}")

    def _of(self, table: sa.Table, column: sa.Column[Any]) -> str:
        """The sequence of a column."""
        return str(self._value(f"SELECT pg_get_serial_sequence('{self._names[table]}', '{column.name}')"))

    def _run(self, statement: Any) -> None:
        self._inner.execute(statement)

    def _value(self, statement: Any) -> Any:
        found = self._inner.execute(statement).fetchone()
        return None if found is None else found[0]


@contextmanager
def opened(address: Address, *, begin: str = "IMMEDIATE") -> Iterator[CopyDatabase]:
    """The database in one transaction, committed at the end, rolled back on any exception.

    `begin` is that of SQLite: IMMEDIATE locks the file against other writers, DEFERRED does not, and EXCLUSIVE needs a
    file that nobody else has open. The transaction sees one state of the database. Raises Conflict when somebody else
    still has the file open after `LOCK_SECONDS`, and Unavailable when the database cannot be used.
    """
    with _errors(address.file), _engine(address).connect() as connection:
        if address.file is not None:
            driver: Any = connection.connection.driver_connection
            driver.execute("PRAGMA foreign_keys = ON")
            if begin == "EXCLUSIVE":
                _lock_file(driver, address.file)
            else:
                driver.execute(f"BEGIN {begin}")
            yield SqliteCopy(connection)
        else:
            yield PostgresCopy(connection, address.schema)
        connection.connection.driver_connection.commit()  # type: ignore[union-attr]


def _lock_file(driver: sqlite3.Connection, file: Path) -> None:
    """Begin a transaction alone. In WAL mode, which servers use, BEGIN EXCLUSIVE excludes writers only."""
    driver.execute("PRAGMA locking_mode = EXCLUSIVE")
    try:
        driver.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
            raise
        message = f"another process has `{file}` open: stop the servers and workers of this database first"
        raise Conflict(message) from error


def revision_of(database: CopyDatabase, address: Address) -> str | None:
    """The revision of the schema; None when the database has none."""
    return migrations.revision(database.connection, address.schema)


def planned_upgrade(address: Address, history: RevisionChain = RELEASED) -> tuple[str | None, list[str]]:
    """The revision of the schema, and the statements with which an upgrade would change it. Changes nothing.

    The upgrade is done in a transaction that is rolled back; for a SQLite file that does not exist, in memory.
    """
    statements: list[str] = []
    exists = address.file is None or address.file.exists()
    engine = _engine(address) if exists else sa.create_engine("sqlite://", poolclass=sa.pool.NullPool)
    with _errors(address.file), engine.connect() as connection:
        if address.file is not None:
            driver: Any = connection.connection.driver_connection
            driver.isolation_level = None
            driver.execute("BEGIN IMMEDIATE")
        found = migrations.revision(connection, address.schema)
        sa.event.listen(connection, "before_cursor_execute", _collecting(statements))
        migrations.upgrade(connection, history, address.schema)
        connection.connection.driver_connection.rollback()  # type: ignore[union-attr]
    return found, statements


def _collecting(statements: list[str]) -> Callable[..., None]:
    """A listener that collects the statements that change something."""

    def collect(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if statement.lstrip().partition(" ")[0].upper() in ("CREATE", "ALTER", "DROP", "INSERT", "UPDATE", "DELETE"):
            statements.append(" ".join(statement.split()))

    return collect


def _engine(address: Address) -> sa.Engine:
    if address.file is not None:
        return sa.create_engine(
            sa.URL.create("sqlite", database=str(address.file)),
            poolclass=sa.pool.NullPool,
            connect_args={"isolation_level": None, "timeout": LOCK_SECONDS, "check_same_thread": False},
        )
    with needs_extra("postgres", "a PostgreSQL database"):
        import psycopg

    return sa.create_engine(
        "postgresql+psycopg://",
        creator=lambda: psycopg.connect(**server_options(address.url)),
        poolclass=sa.pool.NullPool,
        isolation_level="REPEATABLE READ",
    )


@contextmanager
def _errors(file: Path | None) -> Iterator[None]:
    """Convert errors of SQLAlchemy and of the drivers to Unavailable. Of a file, they say what hinders it."""
    try:
        with domain_errors(file):
            yield
    except (sa.exc.DBAPIError, sqlite3.Error) as error:
        raise _unavailable(getattr(error, "orig", None) or error) from error
    except Exception as error:
        if type(error).__module__.partition(".")[0] == "psycopg":
            raise _unavailable(error) from error
        raise


def _unavailable(error: BaseException) -> Unavailable:
    return Unavailable(f"the database does not answer: {str(error).partition(chr(10))[0]}")
