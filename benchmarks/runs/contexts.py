"""Rows of contexts: their composition from threads of any length."""

import asyncio
import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks.library import Library, opened
from benchmarks.measure import Cost, Stopwatch, Turns
from benchmarks.scale import Scale
from benchmarks.table import Figure
from wfcore.domain.agents.context import Composed, CompositionInput, compose
from wfcore.domain.agents.context_messages import request_of
from wfcore.runtime.agents import contexts as module
from wfcore.runtime.common.requests import thread_of

CALLS = 20
"""The number of compositions in one measurement."""

TEXT = "The customer wrote again about the refund of the order, and has read that it can take some days. " * 3
SESSION = {"sessionId": "s"}


def contexts(scale: Scale) -> Iterator[Figure]:
    """The composition of a context with a conversation, against parsing the JSON of its messages."""
    with asyncio.Runner() as runner:
        long, short = runner.run(_contexts(scale))
    pure, whole = long
    times = (f"{pure.typical(side, 'cpu') / CALLS * 1e6:.0f} us" for side in ("raw", "ours"))
    yield Figure(f"context of a thread of {scale.messages} messages", "composed, to json.loads of it",
                 1 / pure.ratio("cpu"), "", *times, at_most=2.0)  # fmt: skip
    yield Figure("", "with all reads of the store", whole.typical("ours", "cpu") / CALLS * 1e6, "us")
    grown = whole.typical("ours", "cpu") / short[1].typical("ours", "cpu")
    yield Figure("", "to that of a tenth of the thread", grown, at_most=1.2)


async def _contexts(scale: Scale) -> tuple[tuple[Turns, Turns], tuple[Turns, Turns]]:
    path = scale.directory / "contexts.db"
    async with opened(path, "NORMAL") as library:
        skill = await library.core.skills.create(library.me, name="Support", instructions=["Answer briefly."])
        await library.core.skills.deploy(library.me, skill.id)
        return await _thread(scale, library, skill.id, path, 1), await _thread(scale, library, skill.id, path, 10)


async def _thread(scale: Scale, library: Library, skill: int, path: Path, part: int) -> tuple[Turns, Turns]:
    """The pure function and the whole use case, on a thread with this share of the messages."""
    _fill(path, thread_of(library.me, None, SESSION["sessionId"]) or "", scale.messages // part)
    rounds = [await _measured(library, skill) for _ in range(scale.rounds + 1)][1:]
    raw, pure, whole = zip(*rounds, strict=True)
    return Turns(raw, pure), Turns(raw, whole)


async def _measured(library: Library, skill: int) -> tuple[Cost, Cost, Cost]:
    with Stopwatch() as whole:
        for _ in range(CALLS):
            view = await library.core.contexts.compose(library.me, skill, message="What of my refund?", **SESSION)
    with _noting() as noted:
        await library.core.contexts.compose(library.me, skill, message="What of my refund?", **SESSION)
    ingredients, stored = noted
    with Stopwatch() as pure:
        for _ in range(CALLS):
            request_of(compose(ingredients), stored, ())
    text = json.dumps(view.to_wire())
    with Stopwatch() as raw:
        for _ in range(CALLS):
            json.loads(text)
    return raw.cost, pure.cost, whole.cost


@contextmanager
def _noting() -> Iterator[list[Any]]:
    """The arguments of the pure functions while the block runs: the ingredients, and the messages."""
    noted: list[Any] = []

    def composing(ingredients: CompositionInput) -> Composed:
        noted.append(ingredients)
        return compose(ingredients)

    def requesting(context: Composed, stored: Any, transcript: Any) -> Any:
        noted.append(stored)
        return request_of(context, stored, transcript)

    with patch.multiple(module, compose=composing, request_of=requesting):
        yield noted


def _fill(path: Path, thread: str, count: int) -> None:
    """Replace the conversation of the thread by one with `count` messages."""
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM wfcore_messages")
        connection.execute("DELETE FROM wfcore_conversations")
        connection.execute(
            "INSERT INTO wfcore_conversations (key, org, thread_id, user_id, created_at, updated_at) "
            "VALUES (1, 1, ?, 'u1', 1, 1)",
            (thread,),
        )
        rows = ((("human", "ai")[index % 2], len(TEXT), f"m{index}", json.dumps(TEXT)) for index in range(count))
        connection.executemany(
            "INSERT INTO wfcore_messages (conversation, type, length, skill_id, attached, execution, at, id, content) "
            "VALUES (1, ?, ?, 1, 0, 1, 1, ?, ?)",
            rows,
        )
    connection.close()
