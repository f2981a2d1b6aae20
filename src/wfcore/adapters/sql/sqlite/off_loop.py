"""One SQLite file without a database call on the event loop: every statement and every commit runs in a thread.

The file, the statements and the locks are those of `Database`. A hop to a thread costs several times a short statement,
but a slow disk or a large page never delays the host's other work.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from wfcore.adapters.sql.schema.statement import Statement
from wfcore.adapters.sql.sqlite.database import Database
from wfcore.adapters.sql.store import Rows, Transaction


class OffLoopDatabase(Database):
    """A SQLite file as `Database`, for a host whose event loop must not wait for a disk."""

    inline_seconds = -1.0
    """No commit runs on the event loop."""

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[Transaction]:
        async with self.beside_loop().writing() as transaction:
            yield transaction

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[Transaction]:
        async with self.beside_loop().reading() as transaction:
            yield transaction

    async def look_up(self, statement: Statement, *values: Any) -> Rows:
        connection, thread = self.look_up_connection, self.executor("look_up")
        try:
            return await asyncio.get_running_loop().run_in_executor(
                thread, lambda: connection.execute(statement.sqlite, values).fetchall()
            )
        except sqlite3.DatabaseError as error:
            return await self._look_up_again(error, statement, values)

    async def revision(self) -> str | None:
        return await asyncio.get_running_loop().run_in_executor(self.executor("look_up"), self._revision)
