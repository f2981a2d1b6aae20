"""Threads for functions of the product that block, such as tools: as many for each event loop, and used by no others.

The loop's own threads, which also resolve host names, and those of anyio, in which frameworks call sync views, stay
free.
"""

from collections.abc import Callable
from functools import partial
from threading import get_ident
from typing import Any, Final

from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar

THREADS: Final = 40

under_way: Final[set[int]] = set()
"""The threads in which a function is under way, also after a cancellation."""

_limiter: Final = RunVar[CapacityLimiter]("wfcore.tool_threads")


async def in_tool_thread(function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Any:
    """The result of the function, called in a thread. A cancellation does not wait for it."""
    try:
        limiter = _limiter.get()
    except LookupError:
        limiter = CapacityLimiter(THREADS)
        _limiter.set(limiter)
    call = partial(_call, function, *arguments, **named)
    return await to_thread.run_sync(call, limiter=limiter, abandon_on_cancel=True)


def _call(function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Any:
    thread = get_ident()
    under_way.add(thread)
    try:
        return function(*arguments, **named)
    finally:
        under_way.discard(thread)
