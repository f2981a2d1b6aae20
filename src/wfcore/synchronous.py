"""wfcore for programs without an event loop: scripts, WSGI, sync views of Django.

    with wfcore.open_sync("sqlite:///app.db", tools=[send_refund]) as core:
        run = core.runs.start(me, workflow=7, input={"order": 7})
        for event in core.runs.follow(me, run.id):
            ...

One thread has the event loop, and every method has the name and the arguments of its async counterpart. Any number of
threads can use one core at the same time.
"""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from typing import Any, ParamSpec, TypeVar

from anyio.from_thread import BlockingPortal, start_blocking_portal

from wfcore.bootstrap import open as open_async
from wfcore.core import Core
from wfcore.domain.kernel.errors import Unavailable

P = ParamSpec("P")
R = TypeVar("R")

_END = object()

_CLOSED = "This portal is not running"
"""The message of anyio, whose other RuntimeError is for a call from the event loop itself."""


class SyncArea:
    """The use cases of one area, such as `core.runs`: each method waits for its result.

    What is awaited is returned (`start` returns the record of the run), and what is iterated with `async for` is
    iterated with `for`.
    """

    def __init__(self, target: object, portal: BlockingPortal) -> None:
        self._target = target
        self._portal = portal

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        return _waiting(found, self._portal) if callable(found) else found

    def __dir__(self) -> list[str]:
        return [name for name in dir(self._target) if not name.startswith("_")]


class SyncCore(SyncArea):
    """An open wfcore, with the use cases of `wfcore.Core` as attributes."""

    def __init__(self, core: Core, portal: BlockingPortal) -> None:
        super().__init__(core, portal)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        return _waiting(found, self._portal) if callable(found) else SyncArea(found, self._portal)

    def call(self, function: Callable[..., object], *arguments: object) -> Any:
        """The result of `function(core, *arguments)`, sync or async, on the event loop; `core` is the async core."""
        return _waiting(function, self._portal)(self._target, *arguments)


def _waiting(function: Callable[..., object], portal: BlockingPortal) -> Callable[..., object]:
    async def result(arguments: tuple[object, ...], named: dict[str, object]) -> object:
        found = function(*arguments, **named)
        return await found if inspect.isawaitable(found) else found

    def wait(*arguments: object, **named: object) -> object:
        found = _called(portal, result, arguments, named)
        return _iterated(found, portal) if isinstance(found, AsyncIterator) else found

    wait.__name__ = getattr(function, "__name__", type(function).__name__)
    wait.__doc__ = function.__doc__
    return wait


def _called(portal: BlockingPortal, function: Callable[..., Awaitable[object]], *arguments: object) -> object:
    """The result of a coroutine function. Raises Unavailable when the core is closed."""
    try:
        future = portal.start_task_soon(function, *arguments)
    except RuntimeError as error:
        if str(error) == _CLOSED:
            raise Unavailable("wfcore is closed") from None
        raise
    return future.result()


def _iterated(items: AsyncIterator[object], portal: BlockingPortal) -> Generator[object, None, None]:
    async def following() -> object:
        return await anext(items, _END)

    try:
        while (item := _called(portal, following)) is not _END:
            yield item
    finally:
        if hasattr(items, "aclose"):
            with suppress(Unavailable):
                _called(portal, items.aclose)


def _with_parameters_of(_: Callable[P, object], /) -> Callable[[Callable[..., R]], Callable[P, R]]:
    """For type checkers: the function takes what the other one takes."""
    return lambda function: function


@_with_parameters_of(open_async)
@contextmanager
def open_sync(*arguments: Any, **named: Any) -> Iterator[SyncCore]:
    """Open wfcore as `wfcore.open` does, with an event loop in a thread of its own, and sync methods.

    A process that forks (as servers with `preload` do) must open it after the fork. Raises as `wfcore.open`; the
    methods raise RuntimeError when they are called from the event loop itself, as an async tool would.
    """
    with (
        start_blocking_portal(name="wfcore") as portal,
        portal.wrap_async_context_manager(open_async(*arguments, **named)) as core,
    ):
        yield SyncCore(core, portal)
