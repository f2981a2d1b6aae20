"""One PostgreSQL database: its connections, transactions and locks.

Write transactions are READ COMMITTED, and rely on row locks, unique keys and comparisons within one statement: writers
of one organization wait for the lock on its row, writers of one execution for the lock on its row. A reader sees one
snapshot.

Each use of the database has separate connections, so that two uses never deadlock over connections.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, Literal, TypeVar

import psycopg
import sqlalchemy as sa
from psycopg import sql
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from wfcore.adapters.sql.postgres.connections import PostgresAddress, check_alive, domain_errors, is_own_limit
from wfcore.adapters.sql.postgres.group_commit import PostgresCommits
from wfcore.adapters.sql.postgres.host import joined
from wfcore.adapters.sql.postgres.names import TableNames
from wfcore.adapters.sql.postgres.pipeline import BY_VALUES, PipelineClient
from wfcore.adapters.sql.schema.names import DEFAULT_SCHEMA
from wfcore.adapters.sql.schema.statement import PostgresDialect, Statement, Values, named
from wfcore.adapters.sql.schema.tables import metadata
from wfcore.adapters.sql.store import Commits, Result, Rows, Store, Synchronous, Transaction, Transactions, shielded
from wfcore.domain.kernel.errors import Unavailable, closed

T = TypeVar("T")
Use = Literal["write", "read"]

CONNECTIONS: Final[Mapping[Use, int]] = {"write": 4, "read": 4}
"""Connections of a process for each use, beside one for commits, one for look-ups and those for lists."""

LISTS: Final = 2
"""Connections for lists. A list waits for those before it on its connection, so that no look-up waits for a list."""

_OPTIONS: Final[Mapping[Use, Mapping[str, Any]]] = {
    "write": {"isolation_level": "READ COMMITTED", "postgresql_readonly": None},
    "read": {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True},
}
"""With None the server decides whether a transaction can write, as for appends: an operator can make it read-only. The
library's reset after a read would be an explicit READ WRITE, which overrides that.
"""


LOCK_MILLISECONDS: Final = 1_500
"""How long the rewriting of a table waits for its lock at a time: statements on the table wait behind it. An autovacuum
gives way after `deadlock_timeout`, a second by default.
"""

SCRUB_TRIES: Final = 8
SCRUB_PAUSE: Final = 1.0
"""Seconds between two attempts, in which the statements that have waited go on."""

_SCRUBBING: Final = (
    f"SET lock_timeout = {LOCK_MILLISECONDS}; SET statement_timeout = 0; SET client_min_messages = warning"
)

_ALIVE: Final = Statement(lambda _: "SELECT 1")
_NOW: Final = Statement(lambda _: "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)")

_LITTLE_MEMORY: Final = Statement(lambda _: "SET LOCAL work_mem = '64kB'")
_SPACE: Final = Statement(lambda _: "SELECT count(*) FROM generate_series(1, 32000)")
"""With little memory the server writes these rows, half a MiB, into a temporary file on the disk of the database."""

_COUNTED: Final = {"preserve_rowcount": True}


class PostgresTransaction:
    """Implements `Transaction`."""

    def __init__(self, inner: AsyncConnection, schema: str) -> None:
        self._inner = inner
        self._schema = schema

    async def execute(self, statement: sa.Executable, parameters: Any = None) -> Result:
        return await self._inner.execute(statement, parameters)

    async def scan(self, statement: Statement, values: Values) -> Rows:
        return [tuple(row) for row in await self.run(statement, values)]

    async def run(self, statement: Statement, values: Values = ()) -> Result:
        return await self._inner.execute(statement.clause(self._schema), named(values), execution_options=_COUNTED)

    async def run_sync(self, work: Callable[[sa.Connection], T]) -> T:
        return await self._inner.run_sync(work)


class PostgresDatabase:
    """A PostgreSQL database. Implements `Store`. `url` is `postgresql://user:password@host:port/name`.

    The tables are in the schema `schema`.

    With `synchronous` FULL a commit is as durable as the server makes it; with NORMAL the last ones may be lost when
    the server ends unexpectedly. Raises ValueError for any other URL. Needs the extra `postgres`.
    """

    def __init__(self, url: str, *, synchronous: Synchronous = "FULL", schema: str = DEFAULT_SCHEMA) -> None:
        server = PostgresAddress(url, synchronous, schema)
        self.schema = server.schema
        self.durable = False
        self.commit_client = PipelineClient(server)
        self._look_up_client = PipelineClient(server)
        self._list_clients = [PipelineClient(server, BY_VALUES) for _ in range(LISTS)]
        self._server = server
        self._slots = {use: asyncio.Semaphore(size) for use, size in CONNECTIONS.items()}
        self._engine: AsyncEngine | None = None

    async def open(self) -> None:
        """Connect. Raises Unavailable when the server does not respond, or its encoding is not UTF-8."""
        if self._engine is not None:
            return
        with domain_errors():
            async with await self._server.connect(autocommit=True) as connection:
                self.durable = await _is_server_durable(connection)
        self._engine = create_async_engine(
            "postgresql+psycopg://",
            async_creator=self._server.connect,
            pool_size=sum(CONNECTIONS.values()),
            max_overflow=0,
            pool_use_lifo=True,
            use_native_hstore=False,
        )
        sa.event.listen(self._engine.sync_engine, "checkout", check_alive)
        dialect = self._engine.sync_engine.dialect
        dialect.identifier_preparer = TableNames(dialect, self.schema)

    async def close(self) -> None:
        await shielded(self._close())

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[Transaction]:
        async with self._connected("write") as connection:
            yield PostgresTransaction(connection, self.schema)
            await shielded(connection.commit())

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[Transaction]:
        async with self._connected("read") as connection:
            yield PostgresTransaction(connection, self.schema)

    def beside_loop(self) -> Transactions:
        return self

    async def now(self) -> int:
        """The wall time of the server in epoch milliseconds."""
        return int((await self.look_up(_NOW))[0][0])

    async def look_up(self, statement: Statement, *values: Any) -> Rows:
        self.check_open()
        return (await self._look_up_client.look_up((statement, values))).rows

    async def scan(self, statement: Statement, *values: Any) -> Rows:
        self.check_open()
        client = min(self._list_clients, key=lambda client: client.waiting)
        return (await client.execute((statement, values))).rows

    async def revision(self) -> str | None:
        return None

    async def create_tables(self, statements: Callable[[], Iterable[str]]) -> bool:
        return False

    def commits(self, on_commit: Callable[[float], None] | None = None) -> Commits:
        return PostgresCommits(self, on_commit)

    async def commit_problem(self) -> str | None:
        """Small writes succeed on a full disk: they use free parts of pages. A temporary file has none."""
        try:
            async with self.commit_client.exclusive() as connection:
                await connection.send([(_ALIVE, ())])
            async with self.reading() as transaction:
                await transaction.run(_LITTLE_MEMORY)
                await transaction.run(_SPACE)
        except Unavailable as error:
            return None if is_own_limit(error) else error.message
        return None

    async def scrub(self) -> None:
        """Rewrite the tables. The server's write-ahead log is not rewritten: it is recycled, or archived."""
        self.check_open()
        with domain_errors():
            async with await self._server.connect(autocommit=True) as connection:
                await connection.execute(_SCRUBBING)
                warnings: list[str | None] = []
                connection.add_notice_handler(lambda notice: warnings.append(notice.message_primary))
                for table in metadata.sorted_tables:
                    await _rewrite(connection, PostgresDialect(self.schema, str)[table])
        if warnings:  # a role that does not own a table skips it, without an error
            raise Unavailable(f"the tables cannot be rewritten: {warnings[0]}")

    async def joined(self, connection: object) -> Store:
        return await joined(self, connection)

    def check_open(self) -> None:
        if self._engine is None:
            raise closed()

    @asynccontextmanager
    async def _connected(self, use: Use) -> AsyncIterator[AsyncConnection]:
        """A connection for one use. An uncommitted transaction is rolled back at the end."""
        async with self._slots[use]:
            self.check_open()
            assert self._engine is not None  # noqa: S101
            with domain_errors():
                connection = await self._engine.connect().start()
                try:
                    await connection.execution_options(**_OPTIONS[use])  # of an engine, a cancel here loses connections
                    yield connection
                finally:
                    await shielded(connection.close())  # the library's own exit can leave that to a later task

    async def _close(self) -> None:
        engine, self._engine = self._engine, None
        for use, size in CONNECTIONS.items():
            for _ in range(size):
                await self._slots[use].acquire()
        for client in (self._look_up_client, self.commit_client, *self._list_clients):
            await client.close()
        if engine is not None:
            await engine.dispose()
        for use, size in CONNECTIONS.items():
            for _ in range(size):
                self._slots[use].release()


async def _is_server_durable(connection: psycopg.AsyncConnection[Any]) -> bool:
    """Whether the settings of the server make commits durable. Raises Unavailable when its encoding is not UTF-8."""
    names = ("server_encoding", "synchronous_commit", "fsync")
    encoding, *durability = [
        (await (await connection.execute("SELECT current_setting(%s)", (name,))).fetchall())[0][0] for name in names
    ]
    if encoding != "UTF8":
        raise Unavailable(f"the encoding of the database must be `UTF8`, not `{encoding}`")
    return "off" not in durability


async def _rewrite(connection: psycopg.AsyncConnection[Any], table: str) -> None:
    """Rewrite a table once no transaction holds it. Raises LockNotAvailable when some do at each attempt."""
    for attempt in range(1, SCRUB_TRIES + 1):
        try:
            await connection.execute(sql.SQL("VACUUM (FULL, ANALYZE) {}").format(sql.SQL(table)))
        except psycopg.errors.LockNotAvailable:
            if attempt == SCRUB_TRIES:
                raise
            await asyncio.sleep(SCRUB_PAUSE)
        else:
            return
