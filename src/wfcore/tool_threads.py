"""Threads for functions of the product that block, such as tools: as many for each event loop, and used by no others.

The loop's own threads, which also resolve host names, and those of anyio, in which frameworks call sync views, stay
free.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar

THREADS: Final = 40

_limiter: Final = RunVar[CapacityLimiter]("wfcore.tool_threads")


async def in_tool_thread(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """The result of the function, called in a thread. A cancellation does not wait for it."""
    try:
        limiter = _limiter.get()
    except LookupError:
        limiter = CapacityLimiter(THREADS)
        _limiter.set(limiter)
    return await to_thread.run_sync(partial(function, *arguments, **named), limiter=limiter, abandon_on_cancel=True)
