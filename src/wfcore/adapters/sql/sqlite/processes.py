"""Whether other processes use a database file: each process holds a shared lock on a file beside it.

The lock is that of `flock`, which is independent of SQLite's own locks and ends with the process. A process is alone if
it can get the lock exclusively. The file is empty, and the last process removes it.
"""

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

import attrs

if sys.platform != "win32":
    import fcntl


@attrs.define
class _Registration:
    descriptor: int
    count: int


_registered: Final[dict[Path, _Registration]] = {}
"""The files that this process uses, each with how often it is open."""


def lock_file(path: Path) -> Path:
    """The file with the locks."""
    return path.with_name(f"{path.name}.processes")


def register(path: Path) -> bool:
    """Register this process as a user of the file. Returns whether another process uses it, or can use it unseen."""
    known = _registered.get(path)
    if known is not None:
        known.count += 1
        return False
    if sys.platform == "win32":
        return True
    try:
        descriptor = os.open(lock_file(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return True
    _registered[path] = _Registration(descriptor, 1)
    is_alone = True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        is_alone = False
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    return not is_alone


def unregister(path: Path) -> None:
    """End one use of the file by this process."""
    known = _registered.get(path)
    if known is None:
        return
    known.count -= 1
    if known.count:
        return
    del _registered[path]
    if sys.platform != "win32":
        with suppress(OSError):
            fcntl.flock(known.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            lock_file(path).unlink()
    os.close(known.descriptor)
