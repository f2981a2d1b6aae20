"""Changes between the processes on one SQLite file: lines in a file beside it.

The file exists while a process follows changes. Every process appends what it has committed, in whole lines, and
followers look at its size a few times a second. It holds hints only, so it is never synchronized to the disk.
"""

import asyncio
import logging
import os
import secrets
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from wfcore.ports.changes import FeedChange

log = logging.getLogger("wfcore.changes")

POLL_INTERVAL: Final = 0.25
"""Seconds between two looks at the file, of a process and not of each subscriber."""

MAX_BYTES: Final = 2**20
"""The size at which a writer empties the file. Followers that have not read all of it are notified."""


Receive = Callable[[str, Iterable[FeedChange]], None]


class _Line(msgspec.Struct, frozen=True, array_like=True):
    """What one process has committed at once."""

    sender: str
    org: str
    changes: list[FeedChange]


_decode: Final = msgspec.json.Decoder(_Line).decode


class ChangeFile:
    """Implements `ChangeTransport`. `database` is the SQLite file; its errors are logged, never raised."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._path = database.with_name(f"{database.name}.changes")
        self._name = str(self._path)
        self._me = secrets.token_hex(8)
        self._reading: asyncio.Task[None] | None = None

    def has_peers(self) -> bool:
        return os.access(self._name, os.F_OK)  # a third of the cost of `exists` where there is no file

    def send_changes(self, org: str, changes: Sequence[FeedChange]) -> None:
        """Append one line. One write is atomic among the processes, because the file is open for appending."""
        line = msgspec.json.encode(_Line(self._me, org, list(changes))) + b"\n"
        try:
            file = os.open(self._path, os.O_WRONLY | os.O_APPEND)
        except FileNotFoundError:
            return  # nobody follows any more
        except OSError as error:
            log.warning("changes cannot be sent to other processes: %s", error)
            return
        try:
            os.write(file, line)
            if os.fstat(file).st_size > MAX_BYTES:
                os.ftruncate(file, 0)
        except OSError as error:
            log.warning("changes cannot be sent to other processes: %s", error)
        finally:
            os.close(file)

    def start_receiving(self, receive: Receive, missed: Callable[[], None]) -> None:
        reader = _Reader(self._path, self._mode(), self._me, receive, missed)
        reader.poll()
        self._reading = asyncio.get_running_loop().create_task(_poll(reader))

    def stop_receiving(self) -> None:
        """Remove the file. Other followers notice that, and create another one."""
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None
        with suppress(OSError):
            self._path.unlink()

    def _mode(self) -> int:
        """Whoever can open the database can open the file."""
        try:
            return self._database.stat().st_mode & 0o777
        except OSError:
            return 0o600


async def _poll(reader: "_Reader") -> None:
    try:
        while True:
            await asyncio.sleep(POLL_INTERVAL)
            reader.poll()
    finally:
        reader.close()


class _Reader:
    """Reads what was appended since the last time."""

    def __init__(
        self,
        path: Path,
        mode: int,
        me: str,
        receive: Receive,
        missed: Callable[[], None],
    ) -> None:
        self._path = path
        self._mode = mode
        self._me = me
        self._receive = receive
        self._missed = missed
        self._file: int | None = None
        self._position = 0

    def poll(self) -> None:
        try:
            self._poll()
        except OSError as error:
            log.warning("changes of other processes cannot be read: %s", error)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _poll(self) -> None:
        if self._file is None or not self._is_current(self._file):
            was_open = self._file is not None
            self.close()
            self._file = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT, self._mode)
            self._position = os.fstat(self._file).st_size
            if was_open:
                self._missed()
            return
        size = os.fstat(self._file).st_size
        if size < self._position:
            self._position = size
            self._missed()
        elif size > self._position:
            self._read(os.pread(self._file, size - self._position, self._position))

    def _is_current(self, file: int) -> bool:
        """Whether the path still leads to the open file."""
        try:
            return os.path.samestat(os.fstat(file), self._path.stat())
        except FileNotFoundError:
            return False

    def _read(self, appended: bytes) -> None:
        whole, _, _ = appended.rpartition(b"\n")
        self._position += len(whole) + 1 if whole else 0
        for text in whole.split(b"\n") if whole else ():
            try:
                line = _decode(text)
            except msgspec.DecodeError:
                self._missed()
            else:
                if line.sender != self._me:
                    self._receive(line.org, line.changes)
