"""wfcore for programs without an event loop: scripts, WSGI, sync views of Django and Flask.

    with wfcore.open_sync("sqlite:///app.db", tools=[send_refund]) as core:
        run = core.runs.start(me, workflow=7, input={"order": 7})
        for event in core.runs.follow(me, run.id):
            ...

One thread has the event loop, and every method has the name and the arguments of its async counterpart. Any number of
threads can use one core at the same time.
"""

import asyncio
import inspect
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from concurrent.futures import CancelledError, Future
from concurrent.futures import wait as wait_for
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager, suppress
from threading import RLock, Thread, get_ident
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, overload

from wfcore.bootstrap import open as open_async
from wfcore.core import Core
from wfcore.domain.kernel.errors import Unavailable, closed
from wfcore.opening import SyncOpening

if TYPE_CHECKING:
    from wfcore.sync_types import SyncUseCases
else:
    SyncUseCases = object

P = ParamSpec("P")
R = TypeVar("R")

_END = object()


class EventLoop:
    """The running event loop, for calls of other threads. Calls that still wait at its end raise Unavailable."""

    async def __aenter__(self) -> Self:
        self._loop, self._thread, self._process = asyncio.get_running_loop(), get_ident(), os.getpid()
        self._lock, self._has_ended = RLock(), False  # a handler of a signal can make a call within a call
        self._tasks: set[asyncio.Task[None]] = set()
        return self

    async def __aexit__(self, *_: object) -> None:
        with self._lock:
            self._has_ended = True
        await asyncio.sleep(0)  # the calls that are waiting for the loop begin
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def is_of_this_process(self) -> bool:
        """False after a fork: the new process has no thread that runs the loop."""
        return os.getpid() == self._process

    def check_process(self) -> None:
        """Raises RuntimeError in a process that forked."""
        if not self.is_of_this_process:
            raise RuntimeError("wfcore was opened before this process was forked: open it after the fork")

    def call(self, function: Callable[..., Awaitable[object]], *arguments: object) -> object:
        """The result of a coroutine function. What interrupts the waiting thread, such as a signal, cancels the call.

        Raises Unavailable after the end of the loop, RuntimeError on the loop itself and in a process that forked.
        """
        self.check_process()
        if get_ident() == self._thread:
            raise RuntimeError(
                "a method of `open_sync` cannot be called on its event loop: use the async core there, or a thread"
            )
        call = _Call(function, arguments)
        try:
            self._submit(call)
            return call.outcome.result()
        finally:
            if not call.outcome.done():
                self._cancel(call)

    def _submit(self, call: "_Call") -> None:
        with self._lock:
            if self._has_ended:
                call.outcome.set_exception(closed())
            else:
                self._loop.call_soon_threadsafe(self._begin, call)

    def _cancel(self, call: "_Call") -> None:
        """Cancel the call, and wait until it does not use what its caller cleans up, such as a connection."""
        with self._lock:
            if self._has_ended:
                return
            self._loop.call_soon_threadsafe(call.cancel)
        wait_for([call.outcome])

    def _begin(self, call: "_Call") -> None:
        call.task = asyncio.create_task(call.make())
        self._tasks.add(call.task)
        call.task.add_done_callback(lambda task: self._settle(task, call.outcome))

    def _settle(self, task: asyncio.Task[None], outcome: Future[object]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            outcome.set_exception(closed() if self._has_ended else CancelledError())


class _Call:
    """A call of a coroutine function. The loop sets the outcome of a call that is cancelled."""

    def __init__(self, function: Callable[..., Awaitable[object]], arguments: tuple[object, ...]) -> None:
        self.outcome: Future[object] = Future()
        self.task: asyncio.Task[None] | None = None
        self._function = function
        self._arguments = arguments

    async def make(self) -> None:
        try:
            result = await self._function(*self._arguments)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001  (SystemExit too is for the caller, and must not end the loop)
            self.outcome.set_exception(error)
        else:
            self.outcome.set_result(result)

    def cancel(self) -> None:
        if self.task is None:
            self.outcome.set_exception(CancelledError())
        else:
            self.task.cancel()


class SyncArea:
    """The use cases of one area, such as `core.runs`: each method waits for its result.

    What is awaited is returned (`start` returns the record of the run), and what is iterated with `async for` is
    iterated with `for`.
    """

    def __init__(self, target: object, loop: EventLoop) -> None:
        self._target = target
        self._loop = loop

    if not TYPE_CHECKING:  # `wfcore.sync_types` has the attributes of each area

        def __getattr__(self, name: str) -> Any:
            found = getattr(self._target, name)
            if callable(found):
                return _waiting(found, self._loop)
            return SyncArea(found, self._loop) if hasattr(found, "area") else found  # as of `workflows.interfaces`

    def __dir__(self) -> list[str]:
        return [name for name in dir(self._target) if not name.startswith("_")]


class SyncCore(SyncArea, SyncUseCases):
    """An open wfcore, with the use cases of `wfcore.Core` as attributes."""

    def __init__(self, core: Core, loop: EventLoop) -> None:
        super().__init__(core, loop)

    if not TYPE_CHECKING:  # a type checker must not take every name for an attribute

        def __getattr__(self, name: str) -> Any:
            self._loop.check_process()  # another thread can have held the lock of an import at the fork
            found = getattr(self._target, name)
            return _waiting(found, self._loop) if callable(found) else SyncArea(found, self._loop)

    @overload
    def call(
        self,
        function: Callable[Concatenate[Core, P], AsyncIterator[R] | Awaitable[AsyncIterator[R]]],
        *arguments: P.args,
        **named: P.kwargs,
    ) -> Generator[R, None, None]: ...

    @overload
    def call(
        self, function: Callable[Concatenate[Core, P], Awaitable[R]], *arguments: P.args, **named: P.kwargs
    ) -> R: ...

    @overload
    def call(self, function: Callable[Concatenate[Core, P], R], *arguments: P.args, **named: P.kwargs) -> R: ...

    def call(self, function: Callable[..., object], *arguments: object, **named: object) -> object:
        """The result of `function(core, *arguments)`, sync or async, on the event loop; `core` is the async core."""
        return _waiting(function, self._loop)(self._target, *arguments, **named)


def _waiting(function: Callable[..., object], loop: EventLoop) -> Callable[..., object]:
    async def result(arguments: tuple[object, ...], named: dict[str, object]) -> object:
        found = function(*arguments, **named)
        return await found if inspect.isawaitable(found) else found

    def wait(*arguments: object, **named: object) -> object:
        found = loop.call(result, arguments, named)
        return _iterated(found, loop) if isinstance(found, AsyncIterator) else found

    wait.__name__ = getattr(function, "__name__", type(function).__name__)
    wait.__doc__ = function.__doc__
    return wait


def _iterated(items: AsyncIterator[object], loop: EventLoop) -> Generator[object, None, None]:
    async def following() -> object:
        return await anext(items, _END)

    try:
        while (item := loop.call(following)) is not _END:
            yield item
    finally:
        if hasattr(items, "aclose") and loop.is_of_this_process:
            with suppress(Unavailable):
                loop.call(items.aclose)


def _with_parameters_of(_: Callable[P, object], /) -> Callable[[Callable[..., R]], Callable[P, R]]:
    """For type checkers: the function takes what the other one takes."""
    return lambda function: function


@_with_parameters_of(open_async)
def open_sync(*arguments: Any, **named: Any) -> AbstractContextManager[SyncCore]:
    """Open wfcore as `wfcore.open` does, with an event loop in a thread of its own, and sync methods.

    A process that forks (as servers with `preload` do) must open it after the fork. Raises as `wfcore.open`; the
    methods raise RuntimeError when they are called from the event loop itself, as an async tool would, and in a process
    that forked. What interrupts the waiting thread, such as KeyboardInterrupt, ends the wait and cancels the call.
    """
    return SyncOpening(_opened(*arguments, **named))


@contextmanager
def _opened(*arguments: Any, **named: Any) -> Iterator[SyncCore]:
    thread, process = _CoreThread(open_async(*arguments, **named)), os.getpid()
    try:
        thread.start()
        yield thread.opened.result()
    finally:
        if os.getpid() == process:
            thread.end()


class _CoreThread(Thread):
    """The thread of an event loop, and of a task on it that opens and closes a core."""

    def __init__(self, opening: AbstractAsyncContextManager[Core]) -> None:
        super().__init__(name="wfcore", daemon=True)
        self.opened: Future[SyncCore] = Future()
        self._opening = opening
        self._task: Future[asyncio.Task[None]] = Future()
        self._failure: BaseException | None = None

    def run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001  (it is raised in the thread that opens or closes the core)
            if self.opened.done():
                self._failure = error
            else:
                self.opened.set_exception(error)

    async def _serve(self) -> None:
        task: Any = asyncio.current_task()
        self._task.set_result(task)
        async with EventLoop() as loop, self._opening as core:
            self.opened.set_result(SyncCore(core, loop))
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                task.uncancel()

    def end(self) -> None:
        """Close the core, or stop to open it. Raises what the core raises when it closes."""
        task = self._task.result()
        with suppress(RuntimeError):  # the loop is closed when the core could not be opened
            task.get_loop().call_soon_threadsafe(task.cancel)
        self.join()
        if self._failure is not None:
            raise self._failure
