"""The wait for another process that writes to the file, and the detection of one."""

import sqlite3
from typing import Final

BUSY_SECONDS: Final = 10.0
"""How long a writer waits by default."""
INLINE_BUSY_MS: Final = 1
"""Milliseconds for which the event loop itself waits for another process that writes."""


def is_busy(error: sqlite3.OperationalError) -> bool:
    """Whether another process is writing."""
    return error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
