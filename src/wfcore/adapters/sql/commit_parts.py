"""What callers ask of a group commit, and how each learns its outcome."""

import asyncio
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from msgspec import Struct

Work = Callable[[Any], Any]
Rows = Sequence[tuple[Any, ...]]


class CommitPart(Struct, frozen=True, eq=False):
    """What one caller asked for: rows of the journal, or else some work; who waits for it, and what it is about."""

    rows: Rows
    work: Work | None
    done: asyncio.Future[Any]
    about: Hashable = None


def settle(parts: list[CommitPart], outcomes: list[Any]) -> None:
    for part, outcome in zip(parts, outcomes, strict=True):
        if part.done.done():
            continue
        if isinstance(outcome, Exception):
            part.done.set_exception(outcome)
        else:
            part.done.set_result(outcome)
