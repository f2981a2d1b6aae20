"""Ids of tool calls: a provider can use one again in each response."""

import pytest
from bench import Bench, deployed_skill, opened
from played import Played, asks, enabled

from wfcore.domain.run.events import EventKind

pytestmark = pytest.mark.anyio


async def ids_of_calls(bench: Bench, run_id: str) -> list[str]:
    """The ids in the events of the calls and their results, in order."""
    kinds = (EventKind.tool_call, EventKind.tool_result)
    return [str(event.data["toolCallId"]) for event in await bench.events(run_id) if event.kind in kinds]


async def test_ids_that_a_provider_repeats(database: str) -> None:
    """Each call of a conversation has an id of its own, whether of another round or turn."""
    call = asks("echo", value=1)
    model = Played(call, call, "done", call, "done again")
    async with opened(database, models={"default": model}) as bench:
        number = await deployed_skill(bench, toolset=enabled("echo"))
        chat = {"message": "go", "file_thread_id": "t"}
        first = await bench.ended(await bench.core.runs.chat(bench.me, number, **chat))
        second = await bench.ended(await bench.core.runs.chat(bench.me, number, **chat))
        (given,) = {call["id"] for call in call["toolCalls"]}
        assert await ids_of_calls(bench, first.id) == [given, given, f"{given}-2", f"{given}-2"]
        assert await ids_of_calls(bench, second.id) == [f"{given}-3"] * 2
        sent = [one["id"] for message in model.requests[-1].messages for one in message.get("toolCalls") or ()]
        assert sent == [given, f"{given}-2", f"{given}-3"]
