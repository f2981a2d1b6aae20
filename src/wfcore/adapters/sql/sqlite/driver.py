"""The driver of SQLite below SQLAlchemy: its connections, and its errors as those of the domain."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal

from wfcore.adapters.sql.schema.deferred import sa
from wfcore.adapters.sql.schema.statement import Statement, Values
from wfcore.adapters.sql.sqlite.busy import LOCKED, is_busy
from wfcore.adapters.sql.store import Result
from wfcore.domain.kernel.errors import Unavailable

READERS: Final = 4
"""Connections of a file that read at the same time."""

EngineName = Literal["_reader", "_writer"]

_DAMAGED: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def executed(connection: "sa.Connection", statement: Statement, values: Values) -> Result:
    return connection.exec_driver_sql(statement.sqlite, values or None)


def driver_of(connection: "sa.Connection") -> sqlite3.Connection:
    """The driver's own connection."""
    return connection.connection.dbapi_connection  # type: ignore[return-value]


@contextmanager
def domain_errors(opened: Path | None = None) -> Iterator[None]:
    """Convert errors of the driver to those of the domain. Of a file that is `opened`, they say what hinders it."""
    try:
        yield
    except (sqlite3.Error, sa.exc.DBAPIError) as error:
        cause = error.orig if isinstance(error, sa.exc.DBAPIError) else error
        if not isinstance(cause, sqlite3.OperationalError) and type(cause) is not sqlite3.DatabaseError:
            raise
        if getattr(cause, "sqlite_errorcode", 0) & 0xFF in _DAMAGED:
            raise Unavailable(f"the database file is damaged: {cause}") from error
        if is_busy(cause):
            raise Unavailable(LOCKED) from error
        hindrance = None if opened is None else _hindrance(opened)
        if hindrance is not None:
            raise Unavailable(f"the database file `{opened}` cannot be opened: {hindrance}") from error
        raise Unavailable(f"the database does not answer: {cause}") from error


def _hindrance(path: Path) -> str | None:
    """Why SQLite cannot open a file, which it does not say."""
    if not os.access(path.parent, os.X_OK):
        return "its directory does not exist, or this process has no access to it"
    if path.is_dir():
        return "it is a directory"
    can_write = os.access(path.parent, os.W_OK) and (os.access(path, os.W_OK) or not path.exists())
    return None if can_write else "this process cannot write to it and to its directory"
