"""Agents with guardrails: what is published, what is stored, and what is not (interface, AccessConfig and Events)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
from bench import Bench, act, agent, deployed_skill, graph, kinds, one, opened, paths, why
from played import Played, asks, enabled

from wfcore.adapters.models.scripted import ScriptedModel
from wfcore.domain.kernel.errors import Invalid
from wfcore.ports.guardrails import Allowed, Replaced, Verdict
from wfcore.ports.providers import Delta, Finished, ModelRequest, TextDelta

pytestmark = pytest.mark.anyio

SECRET = "sk-live-4711abcdEFGH9876zyxw"
ANSWER = f"Your key is {SECRET} and your mail jo@example.org is known."
GUARDED = ["redact-secrets", "redact-emails"]
CLEAN = "Your key is [secret] and your mail [email] is known."


def access(*guardrails: Any) -> dict[str, Any]:
    return {"visibility": "private", "guardrails": list(guardrails)}


@attrs.frozen
class Shout:
    """Replaces the end of a text that has three words."""

    name: str = "shout"

    def check(self, text: str) -> Verdict:
        return Replaced(text.upper()) if len(text.split()) > 2 else Allowed()


@attrs.frozen
class Waiting:
    """Hides the words of a text until it has the last one."""

    name: str = "waiting"

    def check(self, text: str) -> Verdict:
        return Allowed() if text.endswith("four") else Replaced("." * len(text.split()))


@attrs.frozen
class Signed:
    """Appends an address to every text."""

    name: str = "signed"

    def check(self, text: str) -> Verdict:
        return Replaced(f"{text}, jo@example.org")


@attrs.frozen
class Broken:
    error: type[BaseException] = RuntimeError
    name: str = "broken"

    def check(self, text: str) -> Verdict:
        raise self.error(text)


async def chatted(bench: Bench, *guardrails: Any, **fields: Any) -> Any:
    number = await deployed_skill(bench, access=access(*guardrails))
    return await bench.ended(await bench.core.runs.chat(bench.me, number, message="hello", **fields))


@asynccontextmanager
async def hurrying(bench: Bench) -> AsyncIterator[None]:
    """Advance the clock with every turn of the event loop."""

    async def hurry() -> None:
        while True:
            bench.clock.advance(bench.core.ports.settings.delta_interval)
            await asyncio.sleep(0)

    task = asyncio.create_task(hurry())
    yield
    task.cancel()


class Slow:
    """A model that streams word by word; each word waits until the test has seen the one before."""

    def __init__(self, text: str) -> None:
        self._words = text.split(" ")
        self.go_on = asyncio.Semaphore(0)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        for number, word in enumerate(self._words):
            await self.go_on.acquire()
            yield TextDelta(word if not number else f" {word}")
        yield Finished()


async def test_a_redacted_completion(database: str) -> None:
    """Output, message and conversation have the redacted text; nothing else of the completion is ever shown."""
    async with opened(database, models={"default": ScriptedModel(ANSWER)}) as bench:
        run = await chatted(bench, *GUARDED)
        assert (run.status, run.output) == ("done", CLEAN)
        events = await bench.events(run.id)
        assert [event.data["content"] for event in events if event.kind == "message"] == [CLEAN]
        assert not {"message_delta", "message_replaced"} & set(kinds(events))
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        found = await bench.core.conversations.get(bench.me, 0, run.row.thread_id)
        assert [message["content"] for message in found.to_wire()["messages"]] == ["hello", CLEAN]


async def test_the_secret_is_in_no_file(tmp_path: Path) -> None:
    """No file of the store contains it: entries, events, conversation, in every stream version."""
    async with opened(f"sqlite:///{tmp_path}/a.db", models={"default": ScriptedModel(ANSWER)}) as bench:
        for version in ({}, {"streamProtocolVersion": 2}):
            assert (await chatted(bench, *GUARDED, **version)).output == CLEAN
    written = b"".join(file.read_bytes() for file in tmp_path.iterdir())  # noqa: ASYNC240  (nothing else goes on)
    assert b"[secret]" in written
    assert SECRET.encode() not in written


async def test_version_2_streams_checked_text(database: str) -> None:
    """Each delta is checked while the model streams; at the end the client gets the whole text."""
    model = Slow(ANSWER)
    async with opened(database, models={"default": model}) as bench, hurrying(bench):
        number = await deployed_skill(bench, access=access(*GUARDED))
        model.go_on.release()
        model.go_on.release()
        run = await bench.core.runs.chat(bench.me, number, message="hello", streamProtocolVersion=2)
        first = await bench.seen(run, "message_delta")
        assert first.data["delta"] == "Your "
        for _ in range(20):
            model.go_on.release()
        events = await bench.events(run.id)
        texts = [event for event in events if event.kind in ("message_delta", "message_replaced", "message")]
        *deltas, replaced, message = texts
        assert CLEAN.startswith("".join(event.data["delta"] for event in deltas))
        assert (replaced.kind, replaced.data["content"]) == ("message_replaced", CLEAN)
        assert message.data["content"] == CLEAN
        assert len({event.data["messageId"] for event in texts}) == 1
        assert [event.seq for event in events] == list(range(1, len(events) + 1))


async def test_a_later_verdict_replaces_the_streamed_text(database: str) -> None:
    """A guardrail that changes the beginning ends the deltas; the replacement has the final text."""
    model = Slow("one two three four")
    async with opened(database, models={"default": model}, guardrails=[Shout()]) as bench, hurrying(bench):
        number = await deployed_skill(bench)
        model.go_on.release()
        model.go_on.release()
        run = await bench.core.runs.chat(bench.me, number, message="hello", streamProtocolVersion=2)
        assert (await bench.seen(run, "message_delta")).data["delta"] == "one "
        for _ in range(20):
            model.go_on.release()
        events = await bench.events(run.id)
        deltas = "".join(event.data["delta"] for event in events if event.kind == "message_delta")
        (replaced,) = [event.data["content"] for event in events if event.kind == "message_replaced"]
        assert (deltas.strip(), replaced) in {("one", "ONE TWO THREE FOUR"), ("one two", "ONE TWO THREE FOUR")}


async def test_a_whole_that_passes_replaces_another_beginning(database: str) -> None:
    """The text of the deltas was replaced, and the whole passes unchanged: the client gets it as a replacement too."""
    model = Slow("one two three four")
    async with opened(database, models={"default": model}, guardrails=[Waiting()]) as bench, hurrying(bench):
        number = await deployed_skill(bench)
        model.go_on.release()
        model.go_on.release()
        run = await bench.core.runs.chat(bench.me, number, message="hello", streamProtocolVersion=2)
        assert (await bench.seen(run, "message_delta")).data["delta"] == "."
        for _ in range(20):
            model.go_on.release()
        events = await bench.events(run.id)
        assert kinds(events)[-4:] == ["message_replaced", "message", "node_finished", "done"]
        shown = [event.data["content"] for event in events if event.kind in ("message_replaced", "message")]
        assert shown == ["one two three four"] * 2


async def test_a_blocked_completion_fails_its_node(database: str) -> None:
    """With reason `guardrail`, once, by the error edge; its cost is counted, and its text is nowhere."""
    blocked = {"name": "block-patterns", "patterns": ["(?i)your key"]}
    async with opened(database, models={"default": ScriptedModel(ANSWER)}) as bench:
        run = await chatted(bench, blocked)
        message, reason = why(run)
        assert reason == "guardrail"
        assert message.startswith(
            "the guardrail `block-patterns` blocked the answer: the text matches forbidden pattern 1"
        )
        assert run.to_wire()["usage"]["calls"] == 1
        events = await bench.events(run.id)
        assert "message" not in kinds(events)
        number = await deployed_skill(bench, access=access(blocked))
        node = agent(agent_id=number, message="go", retry={"maxAttempts": 3})
        caught = await bench.ran(graph("s>a a:error>b", a=node, b=act("core.transform", value="caught")))
        assert caught.output == "caught"
        assert "node_retrying" not in kinds(await bench.events(caught.id))


@pytest.mark.parametrize("error", [RuntimeError, BaseException])
async def test_a_guardrail_that_raises_blocks_the_text(error: type[BaseException]) -> None:
    """The error quotes nothing of the text."""
    async with opened("sqlite://", models={"default": ScriptedModel(ANSWER)}, guardrails=[Broken(error)]) as bench:
        assert why(await chatted(bench)) == (
            f"the guardrail `broken` blocked the answer: it failed with {error.__name__}", "guardrail",
        )  # fmt: skip


async def test_every_round_is_checked(database: str) -> None:
    """Text of a completion with tool calls is redacted, or empty when blocked; only a last completion can fail the
    node.
    """
    model = Played({**asks("echo", value=1), "content": ANSWER}, '{"ok": true}')
    async with opened(database, models={"default": model}) as bench:
        schema = {"name": "json-schema", "schema": {"type": "object"}}
        number = await deployed_skill(bench, access=access(*GUARDED, schema), toolset=enabled("echo"))
        run = await bench.ended(await bench.core.runs.chat(bench.me, number, message="go"))
        assert run.output == '{"ok": true}'
        assert "message" in kinds(await bench.events(run.id))
        assert bench.tools.count("echo") == 1
        (said,) = [one for one in model.requests[-1].messages if one["type"] == "ai"]
        assert said["content"] == ""


async def test_a_run_adds_guardrails(database: str) -> None:
    """`config.guardrails` applies to agents with and without a skill; the skill's own cannot be removed."""
    async with opened(database, models={"default": ScriptedModel(ANSWER)}) as bench:
        config = {"guardrails": GUARDED}
        assert (await chatted(bench, "redact-emails", config=config)).output == CLEAN
        plain = await bench.deployed(one(agent(message="go")))
        run = await bench.core.runs.start(bench.me, workflow=plain, input={}, config=config)
        assert (await bench.ended(run)).output == CLEAN
        for narrower, rule in (([], "widening"), (["redact-emails", "block-patterns"], "unsupported")):
            with pytest.raises(Invalid) as refused:
                await chatted(bench, "redact-emails", config={"guardrails": narrower})
            assert {found for _, found in paths(refused)} == {rule}


async def test_installed_guardrails_check_every_agent() -> None:
    """Agents with a skill, without one, and the assistant."""
    async with opened("sqlite://", models={"default": ScriptedModel("one two three")}, guardrails=[Shout()]) as bench:
        assert (await chatted(bench)).output == "ONE TWO THREE"
        assert (await bench.ran(one(agent(message="go")))).output == "ONE TWO THREE"
        assert (await bench.ended(await bench.core.runs.chat(bench.me, message="go"))).output == "ONE TWO THREE"


async def test_the_order_of_guardrails(database: str) -> None:
    """The installation's come first, then the skill's; each gets the text that the previous ones passed."""
    async with opened(database, models={"default": ScriptedModel("Yours")}, guardrails=[Signed()]) as bench:
        assert (await chatted(bench, "redact-emails")).output == "Yours, [email]"
        block = {"name": "block-patterns", "patterns": ["email"]}
        assert (await chatted(bench, block, "redact-emails")).output == "Yours, [email]"
        assert (await chatted(bench, "redact-emails", block)).status == "error"


async def test_valid_references(bench: Bench) -> None:
    """A skill's guardrails are checked when they are written and read back unchanged; a workflow has none."""
    named = ["redact-emails", {"name": "block-patterns", "patterns": ["x"]}]
    view = await bench.core.skills.create(bench.me, name="a", access=access(*named))
    assert view.to_wire()["accessConfig"]["guardrails"] == named
    with pytest.raises(Invalid) as refused:
        await bench.core.skills.patch(bench.me, view.id, access=access("redact-email"))
    assert paths(refused) == {("accessConfig.guardrails[0]", "reference")}
    with pytest.raises(Invalid) as refused:
        await bench.core.workflows.create(bench.me, name="a", access=access(*named))
    assert paths(refused) == {("accessConfig.guardrails", "unsupported")}


async def test_a_missing_guardrail_stops_the_agent(tmp_path: Path) -> None:
    """An installation without a guardrail that a skill names does not call the model."""
    place = f"sqlite:///{tmp_path}/a.db"
    async with opened(place, guardrails=[Shout()]) as bench:
        number = await deployed_skill(bench, access=access("shout"))
    async with opened(place, org=bench.org) as bench:
        run = await bench.ended(await bench.core.runs.chat(bench.me, number, message="go"))
        assert why(run) == ("there is no guardrail `shout`", "guardrail")


async def test_the_stream_version_is_per_turn(database: str) -> None:
    """A resume without version 2 gets no replacement, even if the turn before had version 2."""
    async with opened(database, models={"default": ScriptedModel(ANSWER)}) as bench:
        number = await bench.deployed(
            graph("s>h h:approved>a", h={"type": "humanApproval", "data": {}}, a=agent(message="go"))
        )
        for version, found in ((None, 0), (2, 1)):
            run = await bench.core.runs.start(
                bench.me, workflow=number, input={}, config={"guardrails": GUARDED}, streamProtocolVersion=2
            )
            await bench.events(run.id)
            asked = {} if version is None else {"streamProtocolVersion": version}
            resumed = await bench.core.runs.resume(bench.me, run.id, {"decision": "approve", **asked})
            assert kinds(await bench.events(resumed.id)).count("message_replaced") == found
