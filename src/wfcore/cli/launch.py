"""The entry point of the `wfcore` command. It reports on one line when the extra `cli` is not installed."""

import sys
from collections.abc import Sequence

from wfcore.extras import MissingExtra, needs_extra


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status: 1 when the extra `cli` is not installed."""
    try:
        with needs_extra("cli", "the command `wfcore`"):
            from wfcore.cli.main import main as run
    except MissingExtra as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return run(arguments)
