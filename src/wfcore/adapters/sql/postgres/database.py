"""One PostgreSQL database: its transactions, and who waits for whom.

Transactions are READ COMMITTED, and rest on row locks, unique keys and comparisons within one statement: writers of
one organization wait for each other at its row, writers of one execution at that one's. A reader sees one snapshot.

Each use of the database has connections of its own: a transaction that waits for another use never waits for itself.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, Literal, TypeVar

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from wfcore.adapters.sql.postgres.connections import PostgresAddress, refuse_ended, translated
from wfcore.adapters.sql.postgres.group_commit import PostgresCommits
from wfcore.adapters.sql.postgres.pipeline import Line
from wfcore.adapters.sql.schema.dialect import in_postgres, named, on_the_wire
from wfcore.adapters.sql.store import Commits, Result, Rows, Synchronous, Transaction, Values, shielded
from wfcore.domain.kernel.errors import Unavailable

T = TypeVar("T")
Use = Literal["write", "read"]

SHARES: Final[Mapping[Use, int]] = {"write": 4, "read": 4}
"""Connections of a process, beside one for commits and one for look-ups."""

_OPTIONS: Final[Mapping[Use, Mapping[str, Any]]] = {
    "write": {"isolation_level": "READ COMMITTED"},
    "read": {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True},
}


class PostgresTransaction:
    """One transaction, to whoever works in it. Implements `Transaction`."""

    def __init__(self, inner: AsyncConnection) -> None:
        self._inner = inner

    async def execute(self, statement: sa.Executable, parameters: Any = None) -> Result:
        return await self._inner.execute(statement, parameters)

    async def scan(self, statement: str, values: Values) -> Rows:
        return [tuple(row) for row in await self.exec_driver_sql(statement, values)]

    async def exec_driver_sql(self, text: str, parameters: Any = None) -> Result:
        return await self._inner.exec_driver_sql(in_postgres(text), named(parameters or ()))

    async def run_sync(self, work: Callable[[sa.Connection], T]) -> T:
        return await self._inner.run_sync(work)


class PostgresDatabase:
    """A PostgreSQL database. Implements `Store`. `url` is `postgresql://user:password@host:port/name`.

    With `synchronous` FULL a commit is as durable as the server makes it; with NORMAL the last ones may be lost when
    the server ends unexpectedly. Raises ValueError for any other URL. Needs the extra `postgres`.
    """

    def __init__(self, url: str, *, synchronous: Synchronous = "FULL") -> None:
        server = PostgresAddress(url, synchronous)
        self.durable = False
        self.for_commits = Line(server)
        self._for_look_ups = Line(server)
        self._server = server
        self._slots = {use: asyncio.Semaphore(share) for use, share in SHARES.items()}
        self._engine: AsyncEngine | None = None
        self._engines: dict[Use, AsyncEngine] = {}

    async def open(self) -> None:
        """Connect. Raises Unavailable when the server does not answer, or keeps text in something else than UTF-8."""
        if self._engine is not None:
            return
        with translated():
            self.durable = await self._ask_the_server()
        self._engine = create_async_engine(
            "postgresql+psycopg://",
            async_creator=self._server.connect,
            pool_size=sum(SHARES.values()),
            max_overflow=0,
            pool_use_lifo=True,
            use_native_hstore=False,
        )
        sa.event.listen(self._engine.sync_engine, "checkout", refuse_ended)
        self._engines = {use: self._engine.execution_options(**options) for use, options in _OPTIONS.items()}

    async def close(self) -> None:
        await shielded(self._close())

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[Transaction]:
        async with self._connected("write") as connection:
            yield PostgresTransaction(connection)
            await shielded(connection.commit())

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[Transaction]:
        async with self._connected("read") as connection:
            yield PostgresTransaction(connection)

    async def look_up(self, statement: str, *values: Any) -> Rows:
        self.check_open()
        return (await self._for_look_ups.ask(on_the_wire(statement, values))).rows

    def commits(self, told: Callable[[float], None] | None = None) -> Commits:
        return PostgresCommits(self, told)

    def check_open(self) -> None:
        if self._engine is None:
            raise Unavailable("the database is closed")

    @asynccontextmanager
    async def _connected(self, use: Use) -> AsyncIterator[AsyncConnection]:
        """A connection of one use's share. What was not committed in the end is rolled back."""
        async with self._slots[use]:
            self.check_open()
            with translated():
                async with self._engines[use].connect() as connection:
                    yield connection

    async def _ask_the_server(self) -> bool:
        """Whether it keeps what was committed, come what may."""
        names = ("server_encoding", "synchronous_commit", "fsync")
        async with await self._server.connect(autocommit=True) as connection:
            encoding, *careful = [
                (await (await connection.execute("SELECT current_setting(%s)", (name,))).fetchall())[0][0]
                for name in names
            ]
        if encoding != "UTF8":
            raise Unavailable(f"the database keeps text in `{encoding}`: it must be `UTF8`")
        return "off" not in careful

    async def _close(self) -> None:
        engine, self._engine = self._engine, None
        for use, share in SHARES.items():
            for _ in range(share):
                await self._slots[use].acquire()
        for line in (self._for_look_ups, self.for_commits):
            await line.close()
        if engine is not None:
            await engine.dispose()
        for use, share in SHARES.items():
            for _ in range(share):
                self._slots[use].release()
