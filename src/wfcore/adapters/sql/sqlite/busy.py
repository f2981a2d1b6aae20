"""How long a connection waits while another process writes to the file, and how it learns that one does."""

import sqlite3
from typing import Final

BUSY_SECONDS: Final = 10.0
INLINE_BUSY_MS: Final = 1
"""How long the event loop itself waits for another process that writes."""


def is_busy(error: sqlite3.OperationalError) -> bool:
    """Whether another process is writing."""
    return error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
