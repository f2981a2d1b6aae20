"""The time of an event loop: the slice of a turn, which all use cases share, and large work in threads.

On local files a use case never waits. Many in a row, or many that were gathered, would be one turn of the host's loop:
those that come after the slice of a turn yield.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping
from heapq import heappop, heappush
from itertools import count
from typing import Any, Final, ParamSpec, TypeVar

import attrs

from wfcore.domain.json.nesting import extent

P = ParamSpec("P")
T = TypeVar("T")

SECONDS: Final = 0.004
"""The slice of one turn. What begins within it goes on until it waits."""

MORE: Final = 8
"""After a turn, as many tasks are released as had time in it, and one more for each so many: the rest would only yield
again.
"""

LARGE: Final = 200
"""The nodes and edges of a graph from which on its checks take milliseconds."""

CHARACTERS: Final = 500
"""The characters of texts that take as long as a node."""


class LoopSlice:
    """The slice of one event loop. Those that yield continue in the order in which they came."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._began: float | None = None
        self._continued = 0
        self._numbers = count()
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []

    async def take(self) -> None:
        """Return at once within the slice of this turn, else within that of a later one."""
        if not self._waiting and self._has_time():
            return
        number = next(self._numbers)
        while True:
            released = self.loop.create_future()
            heappush(self._waiting, (number, released))
            await released
            if self._has_time():
                return

    def _has_time(self) -> bool:
        """Whether the slice of this turn is not used up. The first call in a turn begins it, and has time."""
        now = self.loop.time()
        if self._began is None:
            self._began = now
            self.loop.call_soon(self._end_turn)
        elif now - self._began >= SECONDS:
            return False
        self._continued += 1
        return True

    def _end_turn(self) -> None:
        left = self._continued + self._continued // MORE + 1
        self._began, self._continued = None, 0
        while self._waiting and left:
            _, released = heappop(self._waiting)
            if not released.done():
                released.set_result(None)
                left -= 1
        if self._waiting:
            self._has_time()


_of_thread: Final = threading.local()


def loop_slice() -> LoopSlice:
    """The slice of the running loop."""
    loop, found = asyncio.get_running_loop(), getattr(_of_thread, "slice", None)
    if not isinstance(found, LoopSlice) or found.loop is not loop:
        found = _of_thread.slice = LoopSlice(loop)
    return found


def check_home(home: asyncio.AbstractEventLoop | None) -> None:
    """RuntimeError on another loop than this one: what waits there would never be woken."""
    if home is not None and home is not asyncio.get_running_loop():
        raise RuntimeError(
            "this core was opened on another event loop: use it there, or open one on this loop and in this process, or"
            " use `wfcore.open_sync`, whose core can be used in any thread"
        )


async def within_slice(work: Coroutine[Any, Any, T], home: asyncio.AbstractEventLoop | None = None) -> T:
    """Await the work, which begins within the slice of a turn.

    Raises RuntimeError on another loop than `home`, if that is given.
    """
    try:
        check_home(home)
        await loop_slice().take()
    except BaseException:
        work.close()
        raise
    return await work


async def beside_loop(size: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a pure function: in a thread, if `size` says that it takes long."""
    if size < LARGE:
        return work(*args, **kwargs)
    return await asyncio.to_thread(work, *args, **kwargs)


def size_of(value: object) -> int:
    """The items of the lists near the root of an object or of a value, or more if it has very long texts."""
    if attrs.has(type(value)):
        value = attrs.asdict(value, recurse=False)  # type: ignore[arg-type]  # mypy does not see that `value` is attrs
    items = _items(value, 3)
    return items if items >= LARGE else max(items, extent(value).characters // CHARACTERS)


def _items(value: object, levels: int) -> int:
    if isinstance(value, list):
        return len(value)
    if isinstance(value, Mapping) and levels:
        return sum(_items(one, levels - 1) for one in value.values())
    return 0
