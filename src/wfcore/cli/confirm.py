"""The confirmation of commands that remove something."""

import sys
from typing import Annotated

from cyclopts import CycloptsError, Parameter

from wfcore.cli.common import print_message
from wfcore.cli.lines import Lines

Yes = Annotated[bool, Parameter(name=["--yes", "-y"], negative=(), help="Do not ask for a confirmation.")]


class Declined(CycloptsError):
    """The user did not confirm. Nothing was changed."""


async def confirm(question: str, *, yes: bool) -> None:
    """Ask at the terminal. Raises Declined unless the answer is `y` or `yes`; without a terminal, `yes` is required."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise Declined(msg="stdin is not a terminal: confirm with --yes")
    print_message(f"{question} [y/N]")
    answer = await Lines(sys.stdin.fileno()).next()
    if (answer or "").strip().lower() not in ("y", "yes"):
        raise Declined(msg="not confirmed: nothing was changed")
