"""The calls that SQLite makes to write its files: they are recorded, and can be made to fail.

The functions of SQLite's own VFS are replaced in memory (https://sqlite.org/c3ref/vfs.html), so that the `sqlite3`
module, wfcore and all of its connections stay as they are.
"""

import _sqlite3
import ctypes
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import attrs

OK: Final = 0
WRITE_FAILS: Final = sqlite3.SQLITE_IOERR_WRITE
SYNC_FAILS: Final = sqlite3.SQLITE_IOERR_FSYNC

LIBRARY: Final[str | None] = getattr(_sqlite3, "__file__", None)
"""The extension module of Python that is linked to SQLite; None where it is a part of the interpreter."""

AVAILABLE: Final = hasattr(ctypes.CDLL(LIBRARY), "sqlite3_vfs_find")
"""Whether the functions of SQLite can be found in this build of Python."""

_Pointer = ctypes.c_void_p
_Open = ctypes.CFUNCTYPE(ctypes.c_int, _Pointer, _Pointer, _Pointer, ctypes.c_int, _Pointer)
_Delete = ctypes.CFUNCTYPE(ctypes.c_int, _Pointer, _Pointer, ctypes.c_int)
_Write = ctypes.CFUNCTYPE(ctypes.c_int, _Pointer, _Pointer, ctypes.c_int, ctypes.c_int64)
_Truncate = ctypes.CFUNCTYPE(ctypes.c_int, _Pointer, ctypes.c_int64)
_Sync = ctypes.CFUNCTYPE(ctypes.c_int, _Pointer, ctypes.c_int)


class _Vfs(ctypes.Structure):
    """The first members of `sqlite3_vfs`."""

    _fields_ = (
        ("iVersion", ctypes.c_int), ("szOsFile", ctypes.c_int), ("mxPathname", ctypes.c_int), ("pNext", _Pointer),
        ("zName", ctypes.c_char_p), ("pAppData", _Pointer), ("xOpen", _Pointer), ("xDelete", _Pointer),
    )  # fmt: skip


_METHODS: Final = (
    "xClose", "xRead", "xWrite", "xTruncate", "xSync", "xFileSize", "xLock", "xUnlock", "xCheckReservedLock",
    "xFileControl", "xSectorSize", "xDeviceCharacteristics", "xShmMap", "xShmLock", "xShmBarrier", "xShmUnmap",
    "xFetch", "xUnfetch",
)  # fmt: skip


class _Methods(ctypes.Structure):
    """`sqlite3_io_methods`, version 3."""

    _fields_ = (("iVersion", ctypes.c_int), *((name, _Pointer) for name in _METHODS))


@attrs.frozen
class Write:
    """Bytes written to a file, named by the last part of its path."""

    file: str
    offset: int
    data: bytes


@attrs.frozen
class Truncate:
    file: str
    size: int


@attrs.frozen
class Delete:
    file: str


@attrs.frozen
class Sync:
    """What was written to the file before is on the disk from here on."""

    file: str


@attrs.frozen
class Acknowledged:
    """The program has reported a fact as durable."""

    fact: Any


Call = Write | Truncate | Delete | Sync | Acknowledged


class FileCalls:
    """The calls for the files of one folder, in order. `refusal` answers a call with an error code of SQLite, or OK."""

    def __init__(self, folder: Path) -> None:
        self.made: list[Call] = []
        self.refusal: Callable[[Call], int] = lambda _: OK
        self._folder = str(folder)
        self._lock = threading.Lock()

    def acknowledge(self, fact: Any) -> None:
        self.note(Acknowledged(fact))

    def covers(self, path: str) -> bool:
        return str(Path(path).parent) == self._folder

    def note(self, call: Call) -> int:
        """Record the call, unless it is refused. Returns the code of the refusal, or OK."""
        with self._lock:
            code = self.refusal(call)
            if code == OK:
                self.made.append(call)
        return code


class _Hooks:
    """The replaced functions. They stay alive as long as the process: connections can outlive the test."""

    def __init__(self) -> None:
        library = ctypes.CDLL(LIBRARY)
        library.sqlite3_vfs_find.restype = ctypes.POINTER(_Vfs)
        library.sqlite3_vfs_find.argtypes = (ctypes.c_char_p,)
        self.vfs: _Vfs = library.sqlite3_vfs_find(None).contents
        self.original = self.vfs.xOpen, self.vfs.xDelete
        self._open, self._delete = _Open(self.vfs.xOpen), _Delete(self.vfs.xDelete)
        self._here = _Open(self._open_here), _Delete(self._delete_here)
        self._tables: dict[int, tuple[_Methods, tuple[Any, ...]]] = {}
        self._files: dict[int, tuple[FileCalls, str]] = {}
        self.calls: FileCalls | None = None

    def install(self, calls: FileCalls) -> None:
        self.calls = calls
        self.vfs.xOpen, self.vfs.xDelete = (ctypes.cast(one, _Pointer).value for one in self._here)

    def remove(self) -> None:
        self.calls = None
        self.vfs.xOpen, self.vfs.xDelete = self.original

    def _open_here(self, vfs: int, name: int | None, file: int, flags: int, out: int | None) -> int:
        code = int(self._open(vfs, name, file, flags, out))
        path = "" if name is None else ctypes.string_at(name).decode()
        self._files.pop(file, None)
        if code == OK and self.calls is not None and self.calls.covers(path):
            self._files[file] = self.calls, Path(path).name
            methods = ctypes.cast(file, ctypes.POINTER(_Pointer))
            methods[0] = self._replaced(methods[0])
        return code

    def _delete_here(self, vfs: int, name: int, sync: int) -> int:
        path = ctypes.string_at(name).decode()
        if self.calls is not None and self.calls.covers(path):
            code = self.calls.note(Delete(Path(path).name))
            if code:
                return code
        return int(self._delete(vfs, name, sync))

    def _replaced(self, address: int) -> int:
        """The address of a copy of these methods that records writes."""
        if address not in self._tables:
            table = _Methods.from_buffer_copy(ctypes.string_at(address, ctypes.sizeof(_Methods)))
            write, truncate, sync = _Write(table.xWrite), _Truncate(table.xTruncate), _Sync(table.xSync)

            def write_here(file: int, data: int, amount: int, offset: int) -> int:
                calls, name = self._files[file]
                return calls.note(Write(name, offset, ctypes.string_at(data, amount))) or int(
                    write(file, data, amount, offset)
                )

            def truncate_here(file: int, size: int) -> int:
                calls, name = self._files[file]
                return calls.note(Truncate(name, size)) or int(truncate(file, size))

            def sync_here(file: int, flags: int) -> int:
                calls, name = self._files[file]
                return int(sync(file, flags)) or calls.note(Sync(name))

            here = _Write(write_here), _Truncate(truncate_here), _Sync(sync_here)
            table.xWrite, table.xTruncate, table.xSync = (ctypes.cast(one, _Pointer).value for one in here)
            self._tables[address] = table, (write, truncate, sync, *here)
        return ctypes.addressof(self._tables[address][0])


_hooks: list[_Hooks] = []


@contextmanager
def watched_files(folder: Path) -> Iterator[FileCalls]:
    """The calls of SQLite for files of this folder that are opened within the context."""
    if not _hooks:
        _hooks.append(_Hooks())
    calls = FileCalls(folder)
    _hooks[0].install(calls)
    try:
        yield calls
    finally:
        _hooks[0].remove()
