"""The entry point of the `wfcore` command. It reports on one line when the extra `cli` is not installed."""

import atexit
import gc
import sys
from collections.abc import Sequence
from typing import Final

from wfcore.extras import MissingExtra, needs_extra

OBJECTS: Final = 20_000
"""New objects before a garbage collection. The default, 700, makes hundreds of them during the imports of a command."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status: 1 when the extra `cli` is not installed."""
    gc.set_threshold(OBJECTS)
    atexit.register(gc.freeze)  # the interpreter collects garbage twice when it ends
    try:
        with needs_extra("cli", "the command `wfcore`"):
            from wfcore.cli.main import main as run
    except MissingExtra as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return run(arguments)
