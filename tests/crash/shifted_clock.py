"""A wall clock that another process sets back or forward: the offset is in a file that both have mapped."""

import mmap
from pathlib import Path
from struct import Struct

from wfcore.adapters.system import ServerClock, SystemClock

OFFSET = Struct("q")
"""Milliseconds by which the clock is ahead."""

NOW = SystemClock.now


def set_offset(file: Path, seconds: float) -> None:
    """Set the clock of the processes that follow the file ahead of the real one, or behind with a negative number."""
    with file.open("r+b" if file.exists() else "w+b") as opened:
        opened.write(OFFSET.pack(round(seconds * 1_000)))


def follow(file: Path, *, of_servers: bool = False) -> None:
    """Let the wall clock of this process have the offset in the file, which exists, from now on.

    `of_servers`: also that of a database server as this process knows it, which in truth is the same for all.
    """
    with file.open("r+b") as opened:
        shared = mmap.mmap(opened.fileno(), OFFSET.size)
    SystemClock.now = lambda clock: NOW(clock) + OFFSET.unpack_from(shared)[0]  # type: ignore[method-assign]
    if of_servers:
        known = ServerClock.now
        ServerClock.now = lambda clock: known(clock) + OFFSET.unpack_from(shared)[0]  # type: ignore[method-assign]
