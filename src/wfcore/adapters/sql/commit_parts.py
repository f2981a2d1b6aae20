"""The parts of a group commit, and the delivery of their outcomes."""

import asyncio
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final

from msgspec import Struct

from wfcore.adapters.sql.schema.statement import Statement

Work = Callable[[Any], Any]
Rows = Sequence[tuple[Any, ...]]


class CommitPart(Struct, frozen=True, eq=False, gc=False):
    """The request of one caller: rows of the journal, or a function to run in the transaction.

    `done` receives the outcome. Parts with different `conflict_key` can be done concurrently. `statement`, with its
    values, is all that `work` executes to return its rows.
    """

    rows: Rows
    work: Work | None
    done: asyncio.Future[Any]
    conflict_key: Hashable = None
    statement: tuple[Statement, Sequence[Any]] | None = None


SETTLED: Final = 64
"""The most callers that continue in one turn of the event loop: they do so all at once."""


def settle(parts: list[CommitPart], outcomes: list[Any]) -> None:
    """Set the result or the exception of each part that a caller still waits for; of many parts, in several turns."""
    for part, outcome in zip(parts[:SETTLED], outcomes[:SETTLED], strict=True):
        if part.done.done():
            continue
        if isinstance(outcome, Exception):
            part.done.set_exception(outcome)
        else:
            part.done.set_result(outcome)
    if len(parts) > SETTLED:
        parts[SETTLED].done.get_loop().call_soon(settle, parts[SETTLED:], outcomes[SETTLED:])
