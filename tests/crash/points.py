"""The points at which a process can be killed: each boundary that it passes, numbered within its kind.

A point is named `kind/moment/number`: `write/amid/3` is within the third statement that writes. A process without a
kill counts its points, so that another one can be killed at any of them, repeatably.

| Kind | What is passed |
|---|---|
| read | a statement that writes nothing |
| write | a statement within a transaction |
| commit | the end of a transaction, or a statement that is one by itself |
| append | entries of the journal: `acknowledged` is one turn of the event loop after the append returned |
| effect | an effect that is requested (`before`), has happened outside (`amid`), and has a result (`after`) |
| publish | events that are delivered to subscribers |
| lease | a worker registers, claims, sends a heartbeat, or releases its executions |
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

from wfcore.adapters.sql.postgres.pipeline import PipelineConnection, Request
from wfcore.adapters.sql.sqlite.numbered import CONNECTION, CURSOR

CONNECT = sqlite3.connect
SENDING = psycopg.AsyncCursor.execute, psycopg.AsyncCursor.executemany
ENDING = psycopg.AsyncConnection.commit, psycopg.AsyncTransaction.__aexit__
PIPELINE_SEND = PipelineConnection.send
"""The original functions that are wrapped."""

_WRITES = re.compile(r"\b(INSERT|UPDATE|DELETE)\b", re.ASCII | re.IGNORECASE)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Points:
    """The points that this process passes. It is killed at the point `kill`, if it reaches it."""

    def __init__(self, kill: str | None = None) -> None:
        self.passed: Counter[str] = Counter()
        self._kill = kill

    def is_kill_point(self, kind: str, moment: str) -> bool:
        """Count a point. Returns whether it is the one of the kill."""
        self.passed[name := f"{kind}/{moment}"] += 1
        return f"{name}/{self.passed[name]}" == self._kill

    def reach(self, kind: str, moment: str) -> None:
        if self.is_kill_point(kind, moment):
            die()

    def around(self, kind: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """The function or coroutine function, with a point before and after each call."""
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
        for name in ("register", "heartbeat", "release", "claim_due", "claim"):
            setattr(journal, name, self.around("lease", getattr(journal, name)))
        for name in ("begin", "append"):
            setattr(journal, name, self._acknowledged(getattr(journal, name)))

    def _acknowledged(self, call: Callable[..., Any]) -> Callable[..., Any]:
        async def passing(*args: Any) -> Any:
            result = await call(*args)
            if self.is_kill_point("append", "acknowledged"):
                asyncio.get_running_loop().call_soon(die)
            return result

        return passing

    # Drivers

    def watch_sqlite(self) -> None:
        """Make every statement of this process a point, on every connection."""
        points = self

        class Cursor(CURSOR):
            def execute(self, statement: str, values: Any = ()) -> Any:
                return points._statement(self.connection, statement, partial(super().execute, statement, values))

            def executemany(self, statement: str, rows: Any) -> Any:
                return points._statement(self.connection, statement, partial(super().executemany, statement, rows))

        class Connection(CONNECTION):
            def cursor(self, factory: Any = Cursor) -> Any:
                return super().cursor(factory)

            def execute(self, statement: str, values: Any = ()) -> Any:
                return self.cursor().execute(statement, values)

            def executemany(self, statement: str, rows: Any) -> Any:
                return self.cursor().executemany(statement, rows)

            def commit(self) -> None:
                points._at_once("commit", self, super().commit)

        def connect(*args: Any, **options: Any) -> sqlite3.Connection:
            return CONNECT(*args, **{**options, "factory": Connection})

        sqlite3.connect = sqlite3.dbapi2.connect = connect

    def watch_postgres(self) -> None:
        """As `watch_sqlite`, for psycopg and for the pipeline, where statements that are sent together are one.

        The point `amid` of a statement is after it was sent, and before its result.
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

        def send_here(pipeline: PipelineConnection, statements: Sequence[Request], *, aborted: bool = False) -> Any:
            kind = _kind_of(pipeline, [statement.server("") for statement, _ in statements])
            self.reach(kind, "before")
            results = PIPELINE_SEND(pipeline, statements, aborted=aborted)
            if kind != "read":
                if self.is_kill_point(kind, "amid"):
                    asyncio.get_running_loop().call_soon(die)
                results.add_done_callback(lambda _: self.reach(kind, "after"))
            return results

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
        here = self.is_kill_point(kind, "amid")
        if here:
            connection.set_progress_handler(die, 3)
        result = work()
        if here:
            die()  # the statement took fewer than three instructions
        self.reach(kind, "after")
        return result

    async def _sent(self, kind: str, work: Callable[[], Any]) -> Any:
        self.reach(kind, "before")
        if kind == "read":
            return await work()
        if self.is_kill_point(kind, "amid"):
            asyncio.get_running_loop().call_soon(die)
        result = await work()
        self.reach(kind, "after")
        return result


def _kind_of(pipeline: PipelineConnection, statements: Sequence[str]) -> str:
    kinds = {_kind(statement) for statement in statements}
    alone = "BEGIN" not in statements and pipeline._inner.transaction_status == TransactionStatus.IDLE
    return "commit" if "commit" in kinds or ("write" in kinds and alone) else max(kinds, default="read")


def _kind(statement: str) -> str:
    if statement.lstrip()[:6].upper() == "COMMIT":
        return "commit"
    return "write" if _WRITES.search(statement) else "read"
