"""Threads for contexts, and the parts of a context."""

from typing import Any

from bench import Bench, Json

from wfcore.domain.projections.messages import message_rows
from wfcore.domain.run.effects import ComposeContext
from wfcore.domain.run.entries import Actor, Started
from wfcore.domain.run.records import MessageRecord
from wfcore.domain.run.state import RunStatus
from wfcore.ports.journal import Append, Execution, NewExecution, NewRun
from wfcore.runtime.agents.contexts import ContextView

THREAD = "document-1"


async def talked(
    bench: Bench,
    *lines: Json,
    user: str = "me",
    kind: Any = "skill",
    number: int | None = 1,
    variation: str | None = None,
) -> Execution:
    """An execution of this user in the thread that has left these messages."""
    records = [MessageRecord(line["type"], f"m{at}", line.get("content", ""), line.get("toolCalls", ()),
                             line.get("toolCallId"), number, at=at) for at, line in enumerate(lines)]  # fmt: skip
    run_id = bench.core.ports.ids.uuid()
    new = NewExecution(bench.org, kind, number, variation, user, THREAD)
    started = Started(0, run_id, Actor(user), {}, {})
    run = NewRun(run_id, user, b"f", RunStatus.running, 0)
    return await bench.core.ports.journal.begin(new, Append(0, (started,), run, messages=message_rows(records)))


def turn(number: int, size: int = 1) -> list[Json]:
    return [{"type": "human", "content": f"q{number}" * size}, {"type": "ai", "content": f"a{number}" * size}]


def effect(skill: int | None, message: str = "tea?", **more: Any) -> ComposeContext:
    address = more.pop("address", (1, 1, 0))
    return ComposeContext(address, 1, "k", skill, skill is None, more.pop("instructions", ""), message, **more)


def parts(view: ContextView | Json, source: str) -> list[str | None]:
    context = view.context if isinstance(view, ContextView) else view
    return [segment["ref"] for segment in context["segments"] if segment["source"] == source]


def left(view: ContextView | Json) -> set[tuple[str, str | None]]:
    context = view.context if isinstance(view, ContextView) else view
    return {(one["source"], one["ref"]) for one in context["leftOut"]}


def names(view: ContextView) -> list[str]:
    return [tool["toolId"] for tool in view.context["tools"]]
