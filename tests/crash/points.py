"""Where a process may die: every boundary that it passes is a point, numbered within its kind.

A point is named `kind/moment/number`: `write/amid/3` is within the third statement that writes. A life that counts
tells how many there were of each, so that another one can be killed at any of them, again and again at the same one.

| Kind | What is passed |
|---|---|
| read | a statement that writes nothing |
| write | a statement within a transaction |
| commit | the end of a transaction, or a statement that is one by itself |
| append | entries of the journal: `told` is one turn of the event loop after the caller was told |
| effect | an effect that was asked for (`before`), has happened outside (`amid`), and was answered (`after`) |
| publish | events on their way to those who listen |
| lease | a worker registers, claims, shows that it is alive, or gives up what it holds |
"""

import asyncio
import os
import re
import signal
import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from wfcore.adapters.sql.postgres.pipeline import PipelineConnection, Statement

CONNECT = sqlite3.connect
SENDING = psycopg.AsyncCursor.execute, psycopg.AsyncCursor.executemany
ENDING = psycopg.AsyncConnection.commit, psycopg.AsyncTransaction.__aexit__
ASKING = PipelineConnection.send
"""What is watched, as it was."""

_WRITES = re.compile(r"\b(INSERT|UPDATE|DELETE)\b", re.ASCII | re.IGNORECASE)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Points:
    """The points that this process passes. It dies at the one named `kill`, if it gets there."""

    def __init__(self, kill: str | None = None) -> None:
        self.passed: Counter[str] = Counter()
        self._kill = kill

    def is_here(self, kind: str, moment: str) -> bool:
        """Count one more; whether it is the one to die at."""
        self.passed[name := f"{kind}/{moment}"] += 1
        return f"{name}/{self.passed[name]}" == self._kill

    def reach(self, kind: str, moment: str) -> None:
        if self.is_here(kind, moment):
            die()

    def around(self, kind: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, or coroutine function, with a point before and after it."""
        if asyncio.iscoroutinefunction(call):

            @wraps(call)
            async def passing(*args: Any, **more: Any) -> Any:
                self.reach(kind, "before")
                result = await call(*args, **more)
                self.reach(kind, "after")
                return result

            return passing

        @wraps(call)
        def passing_at_once(*args: Any, **more: Any) -> Any:
            self.reach(kind, "before")
            result = call(*args, **more)
            self.reach(kind, "after")
            return result

        return passing_at_once

    def watch_journal(self, journal: Any) -> None:
        for name in ("register", "heartbeat", "release", "claim_due"):
            setattr(journal, name, self.around("lease", getattr(journal, name)))
        for name in ("begin", "append"):
            setattr(journal, name, self._telling(getattr(journal, name)))

    def _telling(self, call: Callable[..., Any]) -> Callable[..., Any]:
        async def passing(*args: Any) -> Any:
            result = await call(*args)
            if self.is_here("append", "told"):
                asyncio.get_running_loop().call_soon(die)
            return result

        return passing

    # Drivers

    def watch_sqlite(self) -> None:
        """From now on every statement of this process is a point, whoever opens the connection."""
        points = self

        class Cursor(sqlite3.Cursor):
            def execute(self, statement: str, values: Any = ()) -> Any:
                return points._statement(self.connection, statement, partial(super().execute, statement, values))

            def executemany(self, statement: str, rows: Any) -> Any:
                return points._statement(self.connection, statement, partial(super().executemany, statement, rows))

        class Connection(sqlite3.Connection):
            def cursor(self, factory: Any = Cursor) -> Any:
                return super().cursor(factory)

            def execute(self, statement: str, values: Any = ()) -> Any:
                return self.cursor().execute(statement, values)

            def executemany(self, statement: str, rows: Any) -> Any:
                return self.cursor().executemany(statement, rows)

            def commit(self) -> None:
                points._at_once("commit", self, super().commit)

        connect = partial(CONNECT, factory=Connection)
        sqlite3.connect = sqlite3.dbapi2.connect = connect

    def watch_postgres(self) -> None:
        """As `watch_sqlite`, for psycopg and for the wire, where statements that go out together are one.

        Within a statement is: sent, and nobody waits for its answer.
        """
        (execute, executemany), (commit, leave) = SENDING, ENDING

        def kind_of(cursor: Any, statement: Any) -> str:
            connection, kind = cursor.connection, _kind(str(statement))
            alone = connection.autocommit and connection.info.transaction_status == TransactionStatus.IDLE
            return "commit" if kind == "write" and alone else kind

        async def execute_here(cursor: Any, statement: Any, *args: Any, **more: Any) -> Any:
            return await self._sent(kind_of(cursor, statement), lambda: execute(cursor, statement, *args, **more))

        async def executemany_here(cursor: Any, statement: Any, *args: Any, **more: Any) -> Any:
            return await self._sent(kind_of(cursor, statement), lambda: executemany(cursor, statement, *args, **more))

        async def commit_here(connection: Any) -> None:
            await self._sent("commit", lambda: commit(connection))

        async def leave_here(transaction: Any, error: Any, *args: Any) -> Any:
            kind = "read" if error else "commit"
            return await self._sent(kind, lambda: leave(transaction, error, *args))

        def send_here(wire: PipelineConnection, asked: Sequence[Statement]) -> Any:
            kind = _kind_of(wire, [statement for statement, _ in asked])
            self.reach(kind, "before")
            told = ASKING(wire, asked)
            if kind != "read":
                if self.is_here(kind, "amid"):
                    asyncio.get_running_loop().call_soon(die)
                told.add_done_callback(lambda _: self.reach(kind, "after"))
            return told

        PipelineConnection.send = send_here
        psycopg.AsyncCursor.execute = execute_here
        psycopg.AsyncCursor.executemany = executemany_here
        psycopg.AsyncConnection.commit = commit_here
        psycopg.AsyncTransaction.__aexit__ = leave_here

    def _statement(self, connection: sqlite3.Connection, statement: str, execute: Callable[[], Any]) -> Any:
        kind = _kind(statement)
        if kind == "write" and not connection.in_transaction:
            kind = "commit"
        return self._at_once(kind, connection, execute)

    def _at_once(self, kind: str, connection: sqlite3.Connection, work: Callable[[], Any]) -> Any:
        self.reach(kind, "before")
        if kind == "read":
            return work()
        here = self.is_here(kind, "amid")
        if here:
            connection.set_progress_handler(die, 3)
        result = work()
        if here:
            die()  # it took no three instructions
        self.reach(kind, "after")
        return result

    async def _sent(self, kind: str, work: Callable[[], Any]) -> Any:
        self.reach(kind, "before")
        if kind == "read":
            return await work()
        if self.is_here(kind, "amid"):
            asyncio.get_running_loop().call_soon(die)
        result = await work()
        self.reach(kind, "after")
        return result


def _kind_of(wire: PipelineConnection, asked: Sequence[str]) -> str:
    kinds = {_kind(statement) for statement in asked}
    alone = "BEGIN" not in asked and wire._inner.transaction_status == TransactionStatus.IDLE
    return "commit" if "commit" in kinds or ("write" in kinds and alone) else max(kinds, default="read")


def _kind(statement: str) -> str:
    if statement.lstrip()[:6].upper() == "COMMIT":
        return "commit"
    return "write" if _WRITES.search(statement) else "read"
