"""What `wfcore.open` and `wfcore.open_sync` return: a core that opens with a block, once."""

import asyncio
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Never, TypeVar

T_co = TypeVar("T_co", covariant=True)


class _Opening:
    """Errors that show the block, for a core that is used without one, and for a second block."""

    _block: ClassVar[str]
    _was_entered = False

    if not TYPE_CHECKING:  # a type checker finds a wrong name by itself

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(f"a core that is not open has no `{name}`: open it with `{self._block}`")

    def _enter(self) -> None:
        if self._was_entered:
            raise RuntimeError(f"a core opens once: call the function again, as in `{self._block}`")
        self._was_entered = True


def _check_asyncio() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise RuntimeError(
            "wfcore needs an event loop of asyncio, and trio is none: use `asyncio.run`, or the backend `asyncio`"
            " of anyio"
        ) from None


async def to_its_end(work: Coroutine[Any, Any, object]) -> None:
    """Run `work` to its end, in a task of its own.

    A cancellation of the caller cancels it once. A cancelled scope of anyio would cancel all that it waits for, one
    after the other, and does not.
    """
    import anyio

    task, cancelled = asyncio.ensure_future(work), None
    with anyio.CancelScope(shield=True):
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError as error:
                cancelled = error
                task.cancel()
    if cancelled is not None:
        raise cancelled
    task.result()


class AsyncOpening(_Opening, AbstractAsyncContextManager[T_co]):
    """An async context manager of a core."""

    _block = "async with wfcore.open(...) as core:"

    def __init__(self, opened: AbstractAsyncContextManager[T_co]) -> None:
        self._opened = opened

    if not TYPE_CHECKING:

        def __await__(self) -> Never:
            raise TypeError(f"a core cannot be awaited: open it with `{self._block}`")

    async def __aenter__(self) -> T_co:
        _check_asyncio()
        self._enter()
        return await self._opened.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> bool | None:
        return await self._opened.__aexit__(kind, error, where)


class SyncOpening(_Opening, AbstractContextManager[T_co]):
    """A context manager of a core."""

    _block = "with wfcore.open_sync(...) as core:"

    def __init__(self, opened: AbstractContextManager[T_co]) -> None:
        self._opened = opened

    def __enter__(self) -> T_co:
        self._enter()
        return self._opened.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> bool | None:
        return self._opened.__exit__(kind, error, where)
