"""Numbered parameters, `?1`, on CPython 3.12.0 to 3.12.3.

Its driver takes them for named ones, and warns of each value that is given by position (CPython issue 117995); under
`-W error` that is an exception. Given by name, under `1`, `2`, ..., they are accepted.
"""

import sqlite3
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final, Self

ARE_NAMED: Final = (3, 12) <= sys.version_info < (3, 12, 4)
"""Whether numbered parameters have to be given by name."""


def by_name(statement: str, values: Any) -> Any:
    """The values of numbered parameters by name; other values as they are."""
    if "?1" not in statement or isinstance(values, Mapping):
        return values
    return {str(number): value for number, value in enumerate(values, 1)}


class NamingCursor(sqlite3.Cursor):
    """A cursor that gives the values of numbered parameters by name."""

    def execute(self, statement: str, values: Any = (), /) -> Self:
        return super().execute(statement, by_name(statement, values))

    def executemany(self, statement: str, rows: Iterable[Any], /) -> Self:
        return super().executemany(statement, [by_name(statement, row) for row in rows])


class NamingConnection(sqlite3.Connection):
    """A connection that does so, and whose cursors do."""

    def cursor(self, factory: Any = NamingCursor) -> Any:
        return super().cursor(factory)

    def execute(self, statement: str, values: Any = (), /) -> sqlite3.Cursor:
        return super().execute(statement, by_name(statement, values))

    def executemany(self, statement: str, rows: Iterable[Any], /) -> sqlite3.Cursor:
        return super().executemany(statement, [by_name(statement, row) for row in rows])


CONNECTION: Final[type[sqlite3.Connection]] = NamingConnection if ARE_NAMED else sqlite3.Connection
"""The class of wfcore's own connections."""
CURSOR: Final[type[sqlite3.Cursor]] = NamingCursor if ARE_NAMED else sqlite3.Cursor
"""The class of cursors for wfcore's statements on the connection of a host."""
