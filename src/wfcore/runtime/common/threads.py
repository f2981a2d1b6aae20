"""Calls functions of the product that block."""

from collections.abc import Callable
from typing import Any

from wfcore.ports.providers import ToolFailed
from wfcore.tool_threads import in_tool_thread


async def in_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    """The result of the function, called in a thread. What it raises is a failure by `is_failure`."""
    return await in_tool_thread(_guarded, function, *arguments)


def _guarded(function: Callable[..., Any], *arguments: Any) -> Any:
    """A future cannot carry StopIteration, GeneratorExit would close the coroutines that await the future, and
    KeyboardInterrupt would end the process.
    """
    try:
        return function(*arguments)
    except (StopIteration, GeneratorExit, KeyboardInterrupt) as error:
        raise ToolFailed(f"{type(error).__name__}: {error}") from error
