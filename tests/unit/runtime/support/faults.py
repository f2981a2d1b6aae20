"""A store and a journal whose calls fail, each in every possible way."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, get_args, get_origin, get_type_hints

from wfcore.domain.kernel.errors import Unavailable
from wfcore.ports.journal import Journal
from wfcore.ports.storage import ResourceRepository, Storage, UnitOfWork

WAYS = ("error before", "done, then error", "time-out", "cancelled")
TRANSACTIONS = ("transaction", "reading")


class Faults:
    """Counts calls by name, and those in progress. The call with one number, from 1, fails in one of the `WAYS`."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.under_way = 0
        self._number = 0
        self._way = ""
        self._lost = ""
        self._patience: asyncio.Timeout | None = None

    def arm(self, number: int, way: str, patience: asyncio.Timeout | None = None) -> None:
        """Start counting again. `patience` is the caller's timeout: a call without a response runs it out."""
        self.calls.clear()
        self._number, self._way, self._patience = number, way, patience

    def lose(self, name: str) -> None:
        """The next call of this name is done, and its response is lost."""
        self._lost = name

    @contextmanager
    def counted(self) -> Iterator[None]:
        """While this block runs, a caller waits for the store: in a thread if the disk is slow."""
        self.under_way += 1
        try:
            yield
        finally:
            self.under_way -= 1

    async def begin(self, name: str) -> str:
        """Count the call, and let it fail before anything is done. Returns the way, for `end`."""
        self.calls.append(name)
        way = self._way if len(self.calls) == self._number else ""
        if name == self._lost:
            self._lost, way = "", "done, then error"
        if way == "error before":
            raise Unavailable("the store does not answer")
        if way == "cancelled" and (task := asyncio.current_task()):
            task.cancel()
        if way == "time-out" and self._patience:
            self._patience.reschedule(asyncio.get_running_loop().time())
            await asyncio.Event().wait()
        return way

    def end(self, way: str) -> None:
        if way == "done, then error":
            raise Unavailable("the store has not answered")


class Watched:
    """A port, and every object that it returns, all of whose calls are counted."""

    def __init__(self, inner: Any, port: type, faults: Faults) -> None:
        self._inner = inner
        self._port = port
        self._faults = faults

    def __getattr__(self, name: str) -> Any:
        value, declared = getattr(self._inner, name), getattr(self._port, name, None)
        if isinstance(declared, property):
            return Watched(value, _returned(declared), self._faults)
        if name == "resources":
            return lambda kind: Watched(value(kind), ResourceRepository, self._faults)
        if name not in TRANSACTIONS and not inspect.iscoroutinefunction(declared):
            return value
        full = f"{self._port.__name__}.{name}"
        return self._opening(full, value) if name in TRANSACTIONS else self._calling(full, value)

    def _calling(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        async def calling(*args: Any, **more: Any) -> Any:
            with self._faults.counted():
                way = await self._faults.begin(name)
                result = await call(*args, **more)
            self._faults.end(way)
            return result

        return calling

    def _opening(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """A failure of a transaction happens at its end."""

        @asynccontextmanager
        async def opening(org: str) -> AsyncIterator[Watched]:
            with self._faults.counted():
                async with call(org) as work:
                    yield Watched(work, UnitOfWork, self._faults)
                    way = await self._faults.begin(name)
            self._faults.end(way)

        return opening


def every_call() -> set[str]:
    """Every method of the storage ports, by name, as the protocols declare them."""
    return {f"{port.__name__}.{name}" for port in _ports(Storage, UnitOfWork, Journal) for name in _calls(port)}


def _ports(*ports: type) -> Iterator[type]:
    for port in ports:
        yield port
        yield from {_returned(value) for value in vars(port).values() if isinstance(value, property)}


def _calls(port: type) -> Iterator[str]:
    """The methods of a protocol, those that it inherits too."""
    for name, value in inspect.getmembers(port):
        if inspect.iscoroutinefunction(value) or name in TRANSACTIONS:
            yield name


def _returned(declared: property) -> type:
    port: Any = get_type_hints(declared.fget)["return"]
    return get_origin(port) if get_args(port) else port
