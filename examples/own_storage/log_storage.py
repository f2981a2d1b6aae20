"""A storage of your own: every row in memory, and every change in one append-only file.

It shows all that a store of wfcore needs, on a "database" that is smaller than any: a file to which each commit appends
one record with its checksum. The rules of the rows are those of wfcore's own store in memory; this module makes them
durable. One process opens the file. It only grows: start again from an export when it is too large.

    stores = await open_stores(Path("product.log"))
    ports = wfcore.Overrides(storage=stores.storage, journal=stores.journal)
    async with wfcore.open(ports=ports) as core:
        ...

The records are pickled: protect the file like code.
"""

import fcntl
import inspect
import os
import pickle
import struct
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from wfcore import Unavailable
from wfcore.adapters.inmemory.journal.journal import MemoryJournal
from wfcore.adapters.inmemory.maintenance import MemoryMaintenance
from wfcore.adapters.inmemory.storage import MemoryStorage
from wfcore.ports.journal import Append, Execution, ExecutionRef, NewExecution
from wfcore.ports.repositories.audit import AuditRow
from wfcore.records import Organization

HEAD = struct.Struct("<II")
"""The length and the checksum before each record."""

Call = tuple[tuple[Any, ...], str, tuple[Any, ...], dict[str, Any]]
"""The steps to an object, the name of its method, and the arguments."""


class Log:
    """The file. Raises Unavailable when another process has it open, and after a write that failed."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a+b")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self.close()
            raise Unavailable(f"`{path}` is open in another process") from error

    def records(self) -> Iterator[Any]:
        """Every whole record. What a process left behind that was killed while it wrote is cut off."""
        self._file.seek(0)
        end = 0
        while len(head := self._file.read(HEAD.size)) == HEAD.size:
            length, checksum = HEAD.unpack(head)
            record = self._file.read(length)
            if len(record) < length or crc32(record) != checksum:
                break
            end += HEAD.size + length
            yield pickle.loads(record)  # noqa: S301  (this module wrote it)
        self._file.truncate(end)
        self._file.seek(0, os.SEEK_END)

    def write(self, *record: Any) -> None:
        """Append one record; it is on the disk when this returns, or the log is closed."""
        if self._file.closed:
            raise Unavailable("the store is closed")
        data = pickle.dumps(record)
        try:
            self._file.write(HEAD.pack(len(data), crc32(data)) + data)
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            self.close()
            raise Unavailable("the log cannot be written") from error

    def close(self) -> None:
        self._file.close()


class Recorder:
    """An object whose calls are recorded, and those of the objects that it leads to."""

    def __init__(self, target: Any, calls: list[Call], steps: tuple[Any, ...] = ()) -> None:
        self._target, self._calls, self._steps = target, calls, steps

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if inspect.iscoroutinefunction(found):
            return self._recorded(name, found)
        if callable(found):
            return lambda *given: Recorder(found(*given), self._calls, (*self._steps, (name, given)))
        return Recorder(found, self._calls, (*self._steps, (name, None)))

    def _recorded(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        async def call(*given: Any, **named: Any) -> Any:
            result = await method(*given, **named)  # what raises has changed nothing, and is not recorded
            self._calls.append((self._steps, name, given, named))
            return result

        return call


async def repeat(target: Any, call: Call) -> None:
    """Make a recorded call again."""
    steps, name, given, named = call
    for step, arguments in steps:
        target = getattr(target, step) if arguments is None else getattr(target, step)(*arguments)
    await getattr(target, name)(*given, **named)


class LogStorage(MemoryStorage):
    """Implements `Storage`: a transaction is one record, written before its changes are visible."""

    def __init__(self, log: Log, journal: Callable[[], MemoryJournal]) -> None:
        super().__init__(
            lambda variation: journal().pinned(variation),
            lambda org, run: journal().find_run(org, run),
            lambda: journal().close(),
        )
        self.log = log

    @property
    def known(self) -> Collection[str]:
        """The organizations."""
        return self._tenants

    @asynccontextmanager
    async def transaction(self, org: str) -> AsyncIterator[Any]:
        async with super().transaction(org) as work:
            calls: list[Call] = []
            yield Recorder(work, calls)
            self.log.write("transaction", org, calls)

    async def repeat_transaction(self, org: str, calls: Sequence[Call]) -> None:
        async with super().transaction(org) as work:
            for call in calls:
                await repeat(work, call)

    async def add_organization(self, organization: Organization) -> None:
        await super().add_organization(organization)
        self.log.write("storage", "add_organization", (organization,))

    async def register_handler(self, name: str, events: Collection[str]) -> None:
        await super().register_handler(name, events)
        self.log.write("storage", "register_handler", (name, events))

    async def close(self) -> None:
        await super().close()
        self.log.close()


class LogJournal(MemoryJournal):
    """Implements `Journal`: a write is one record. No await is between a change and its record."""

    def __init__(self, log: Log, storage: LogStorage) -> None:
        super().__init__(
            org_exists=lambda org: org in storage.known,
            usable=storage.may_use,
            add_audit_rows=storage.add_audit_rows,
            add_notices=storage.add_notices,
            run_limit=storage.run_limit,
        )
        self.durable = True
        self.log = log

    async def begin(self, new: NewExecution, append: Append) -> Execution:
        return await self._written("begin", new, append)  # type: ignore[no-any-return]

    async def append(self, execution: ExecutionRef, append: Append) -> int | None:
        return await self._written("append", execution, append)  # type: ignore[no-any-return]

    async def delete(self, execution: ExecutionRef, length: int, audit: Sequence[AuditRow] = ()) -> None:
        await self._written("delete", execution, length, audit)

    async def register(self, host: str, pid: int, worker: int | None = None) -> int:
        return await self._written("register", host, pid, worker)  # type: ignore[no-any-return]

    async def heartbeat(self, worker: int) -> None:
        await self._written("heartbeat", worker)

    async def release(self, worker: int) -> int:
        return await self._written("release", worker)  # type: ignore[no-any-return]

    async def claim_due(self, worker: int, now: int, limit: int) -> list[ExecutionRef]:
        return await self._written("claim_due", worker, now, limit)  # type: ignore[no-any-return]

    async def _written(self, name: str, *given: Any) -> Any:
        result = await getattr(MemoryJournal, name)(self, *given)
        self.log.write("journal", name, given)
        return result


class Stores(NamedTuple):
    storage: LogStorage
    journal: LogJournal


async def open_stores(path: Path) -> Stores:
    """The stores of a file, which is created if it is missing. Raises Unavailable when another process has it."""
    log = Log(path)
    storage = LogStorage(log, lambda: journal)
    journal = LogJournal(log, storage)
    maintenance = MemoryMaintenance(storage, journal)
    for kind, first, rest in log.records():
        if kind == "transaction":
            await storage.repeat_transaction(first, rest)
        elif kind == "maintenance":
            await repeat(maintenance, first)
        else:
            base, target = (MemoryStorage, storage) if kind == "storage" else (MemoryJournal, journal)
            await getattr(base, first)(target, *rest)
    storage.maintenance = Logged(maintenance, log)
    return Stores(storage, journal)


class Logged:
    """The maintenance of the stores; each of its calls is one record."""

    def __init__(self, inner: MemoryMaintenance, log: Log) -> None:
        self._inner, self._log = inner, log

    def __getattr__(self, name: str) -> Any:
        calls: list[Call] = []
        found = getattr(Recorder(self._inner, calls), name)
        if not inspect.iscoroutinefunction(found):
            return getattr(self._inner, name)  # an async iterator only reads

        async def call(*given: Any, **named: Any) -> Any:
            named.pop("on_read", None)
            result = await found(*given, **named)
            self._log.write("maintenance", calls[0], ())
            return result

        return call
