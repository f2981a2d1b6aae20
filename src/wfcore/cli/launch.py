"""The entry point of the `wfcore` command. It reports on one line when the extra `cli` is not installed."""

import atexit
import gc
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NoReturn

from wfcore.extras import MissingExtra, needs_extra

OBJECTS: Final = 20_000
"""New objects before a garbage collection. The default, 700, makes hundreds of them during the imports of a command."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status: 1 when the extra `cli` is not installed, 130 after Ctrl-C."""
    gc.set_threshold(OBJECTS)
    _open_closed_streams()
    atexit.register(gc.freeze)  # the interpreter collects garbage twice when it ends
    sys.unraisablehook = interrupt_loop
    try:
        with needs_extra("cli", "the command `wfcore`"):
            from wfcore.cli.main import main as run
    except MissingExtra as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        return 1
    except KeyboardInterrupt:  # `run` reports those that come later
        print("error: interrupted", file=sys.stderr)  # noqa: T201
        return 130
    status = run(arguments)
    if _are_tools_at_work():
        os._exit(status)  # a thread cannot be stopped, and the interpreter would wait for it
    return status


def _open_closed_streams() -> None:
    """Open those that the caller has closed, as in `wfcore serve >&-`: writing would fail, or write to another file."""
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: SIM115
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115


def interrupt_loop(ignored: "sys.UnraisableHookArgs", /) -> None:
    """Raise the exception in the event loop if it is of Ctrl-C, else report it as Python does.

    Python runs the handler of a signal between any two instructions. In those of a callback that cannot raise, such as
    one of `weakref`, it would drop the exception, and the command would go on.
    """
    if isinstance(ignored.exc_value, KeyboardInterrupt):
        from asyncio import get_running_loop

        with suppress(RuntimeError):  # without an event loop
            get_running_loop().call_soon(_interrupt)
            return
    sys.__unraisablehook__(ignored)


def _interrupt() -> NoReturn:
    raise KeyboardInterrupt


def _are_tools_at_work() -> bool:
    """Whether a function that blocks is still under way after its command has ended."""
    threads = sys.modules.get("wfcore.tool_threads")
    return threads is not None and bool(threads.under_way)
