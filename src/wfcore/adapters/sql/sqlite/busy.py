"""The wait for another process that writes to the file, and the detection of one."""

import sqlite3
from typing import Final

BUSY_SECONDS: Final = 10.0
"""How long a writer waits by default."""
INLINE_BUSY_MS: Final = 1
"""Milliseconds for which the event loop itself waits for another process that writes."""
LOCKED: Final = (
    "the database is locked: another transaction writes to its file, perhaps one of this process, such as that of a "
    "request; end it first, or pass its connection as `connection`"
)
"""Why a writer that has waited in vain is Unavailable."""


def is_busy(error: BaseException) -> bool:
    """Whether another process is writing. Errors of Python's own module have no code."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
