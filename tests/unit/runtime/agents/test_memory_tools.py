"""Agents write into the memories of their skill and find them again."""

from typing import Any

import msgspec
import pytest
from bench import act, deployed_skill, one, opened, why
from played import Played, asks, enabled

from wfcore.adapters.inmemory.memories import InMemoryMemories
from wfcore.adapters.tools.memory_tools import memory_tools
from wfcore.ports.providers import ToolCall
from wfcore.testing.fakes import FakeClock

pytestmark = pytest.mark.anyio

TOOLS = ("core.remember", "core.recall")


async def test_a_later_run_gets_the_memories_of_an_earlier_one(database: str) -> None:
    """A memory is written for the caller with its origin; later runs of that caller get it in their context and by
    search.
    """
    keep = asks("core_remember", memory="Jo likes tea", metadata={"kind": "taste", "runId": "forged"})
    model = Played(keep, "noted")
    async with opened(database, models={"default": model}) as bench:
        number = await deployed_skill(bench, toolset=enabled(*TOOLS))
        first = await bench.ended(await bench.core.runs.chat(bench.me, number, message="I like tea"))
        assert first.output == "noted"
        (kept,) = await bench.core.memories.page(bench.me, number, user_id="me")
        wire = kept.to_wire()
        assert (wire["memory"], wire["metadata"]["kind"]) == ("Jo likes tea", "taste")
        assert wire["metadata"]["runId"] == first.id
        assert wire["metadata"]["messageId"].startswith(f"{first.id}:agent:1.1")
        view = await bench.core.contexts.compose(bench.me, number, message="which tea?")
        assert "Jo likes tea" in view.to_wire()["messages"][0]["content"]
        other = await bench.core.contexts.compose(bench.other, number, message="which tea?")
        assert "Jo likes tea" not in str(other.to_wire()["messages"])


async def test_an_agent_searches_its_memories(database: str) -> None:
    """Only memories of its skill, and of this caller or of no end user, are returned."""
    model = Played(asks("core_recall", query="tea or coffee"), "found")
    async with opened(database, models={"default": model}) as bench:
        number = await deployed_skill(bench, toolset=enabled(*TOOLS))
        elsewhere = await deployed_skill(bench)
        for skill, text, user in (
            (number, "mine: tea", "me"), (number, "theirs: tea", "other"), (number, "all: coffee", None),
            (elsewhere, "elsewhere: tea", "me"),
        ):  # fmt: skip
            about: Any = {"user_id": user} if user else {}
            await bench.core.memories.create(bench.me, skill, memory=text, **about)
        await bench.ended(await bench.core.runs.chat(bench.me, number, message="hm"))
        (result,) = model.tool_results()
        assert [text for text in ("mine:", "all:", "theirs:", "elsewhere:") if text in result["content"]] == [
            "mine:", "all:",
        ]  # fmt: skip


async def test_the_same_call_writes_once() -> None:
    """A call that is repeated with its key after a crash finds what it wrote."""
    memories = InMemoryMemories()
    remember, recall = memory_tools(memories, FakeClock())
    call = ToolCall("run:agent:1.2", 1, "org", "run", "me", skill_id=3, message_id="m1")
    assert remember.idempotent
    assert await remember.run({"memory": "tea"}, call) == await remember.run({"memory": "tea"}, call)
    (found,) = (await recall.run({"query": "tea"}, call))["memories"]
    assert (found["memory"], found["metadata"]) == ("tea", {"runId": "run", "messageId": "m1"})
    assert len(await memories.list("org", 3, limit=9)) == 1


async def test_a_memory_of_the_end_user() -> None:
    """With an end user, memories are kept for and found of that user, not of the one who started the run."""
    memories = InMemoryMemories()
    remember, recall = memory_tools(memories, FakeClock())
    call = ToolCall("run:agent:1.2", 1, "org", "run", "me", skill_id=3, end_user_id="client-7")
    await remember.run({"memory": "tea"}, call)
    assert [memory.user_id for memory in await memories.list("org", 3, limit=9)] == ["client-7"]
    assert len((await recall.run({"query": "tea"}, call))["memories"]) == 1
    own = msgspec.structs.replace(call, end_user_id="")
    assert (await recall.run({"query": "tea"}, own))["memories"] == []


async def test_memory_tools_must_be_enabled() -> None:
    """A tool that is not enabled is not offered; an action has no skill and no memories."""
    model = Played(asks("core_remember", memory="tea"), "no")
    async with opened("sqlite://", models={"default": model}) as bench:
        number = await deployed_skill(bench, toolset=enabled("core.recall"))
        await bench.ended(await bench.core.runs.chat(bench.me, number, message="hm"))
        assert "there is no tool `core_remember`" in model.tool_results()[0]["content"]
        run = await bench.ran(one(act("core.remember", memory="tea")))
        assert why(run) == ("only an agent with a skill has memories", "tool")
