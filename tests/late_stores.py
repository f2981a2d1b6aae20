"""Makes stores answer late, as a database over a busy network does: of two tasks, either can be the first.

A test that fails with one seed has found a race, of wfcore or of its own. Within a task and within a transaction
nothing changes its order: only the answers to different tasks do, of which no store promises any.
"""

import asyncio
import inspect
import os
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any, Final

SEED: Final = os.environ.get("JITTER", "")
"""A number, or nothing for stores without delays: see `make jitter`."""

RATE: Final = 0.1
"""How many of the calls wait before they begin, and after they have ended; twice as many let other tasks go first."""

MOST: Final = 0.02
"""The most seconds of a wait."""

BLOCKS: Final = ("transaction", "reading")
AT_ONCE: Final = ("within", "upgrade", "close")
"""Calls in which a wait would find no race: nothing else is under way."""


def install() -> None:
    """Delay the calls of the journals and storages of wfcore in this process."""
    from wfcore.adapters.inmemory.journal.journal import MemoryJournal
    from wfcore.adapters.inmemory.storage import MemoryStorage
    from wfcore.adapters.sql.journal.journal import SqlJournal
    from wfcore.adapters.sql.storage import SqlStorage
    from wfcore.ports.journal import Journal
    from wfcore.ports.storage import Storage

    draw = random.Random(SEED)
    for port, classes in ((Journal, (MemoryJournal, SqlJournal)), (Storage, (MemoryStorage, SqlStorage))):
        for name in dir(port):
            if not name.startswith("_") and name not in AT_ONCE:
                for each in classes:
                    _delay(each, name, draw)


def _delay(cls: type, name: str, draw: random.Random) -> None:
    method: Callable[..., Any] = getattr(cls, name, None)  # type: ignore[assignment]

    async def late() -> None:
        number = draw.random()
        if number < 3 * RATE:
            await asyncio.sleep(draw.random() * MOST if number < RATE else 0)

    @wraps(method)
    async def call(*args: Any, **named: Any) -> Any:
        await late()
        found = await method(*args, **named)
        await late()
        return found

    @asynccontextmanager
    async def block(*args: Any, **named: Any) -> AsyncIterator[Any]:
        await late()
        async with method(*args, **named) as work:
            yield work
        await late()

    if name in BLOCKS:
        setattr(cls, name, wraps(method)(block))
    elif inspect.iscoroutinefunction(method):
        setattr(cls, name, call)
