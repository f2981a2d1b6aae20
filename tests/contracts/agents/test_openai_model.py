"""Properties of the Chat Completions wire format only."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from wire_stub import DONE, WireStub, event, frame, pieces, refuses, says, usage
from wires import CHAT, KEY

from wfcore.adapters.models.remote import RemoteModel
from wfcore.ports.providers import (
    Finished,
    ModelRequest,
    TextDelta,
    TokenUsage,
    ToolCallDelta,
    ToolDefinition,
    collect_calls,
)
from wfcore.testing.contracts.models import CONVERSATION, PIXEL, WITH_TOOLS, deltas, failure

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def on_the_wire(*parts: bytes) -> AsyncIterator[tuple[RemoteModel, WireStub]]:
    async with CHAT.serve(pieces(*parts)) as served:
        yield served


def called(*calls: tuple[int | None, str | None, str | None, str]) -> list[bytes]:
    """Fragments of tool calls: index, id, name and arguments."""
    return [
        frame(tool_calls=[{"index": index, "id": call, "function": {"name": name, "arguments": arguments}}])
        for index, call, name, arguments in calls
    ]


# To the wire


async def test_a_request_on_the_wire() -> None:
    """Messages, settings and schema have the wire's names; the key of the call is sent, and nothing else."""
    async with CHAT.serve(says("yes")) as (model, stub):
        await deltas(model, CONVERSATION)
        await deltas(model, ModelRequest([], model="default"))
    full, bare = stub.calls
    assert full.path == "/v1/chat/completions"
    assert full.headers["idempotency-key"] == "key-2"
    assert full.headers["authorization"] == f"Bearer {KEY}"
    assert full.body == {
        "model": "gpt-test",
        "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "what is the time in Bonn?"},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "time", "arguments": '{"city":"Bonn"}'}}
                ],
            },
            {"role": "tool", "content": "12:00", "tool_call_id": "c1"},
            {"role": "assistant", "content": "12:00"},
            {"role": "user", "content": "as JSON"},
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
        "reasoning_effort": "low",
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "output", "schema": CONVERSATION.output_schema},
        },
    }
    assert bare.body.keys() == {"model", "messages", "stream", "stream_options"}
    assert bare.body["model"] == "gpt-test"


async def test_tools_and_images_on_the_wire() -> None:
    """Tools are functions, images data URLs; arguments that are not an object are wrapped."""
    async with CHAT.serve(says("yes")) as (model, stub):
        await deltas(model, WITH_TOOLS)
        await deltas(model, ModelRequest([{**WITH_TOOLS.messages[0], "content": ""}]))
    shown = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    full, bare = (call.body for call in stub.calls)
    assert full["messages"][0]["content"] == [{"type": "text", "text": "what is this?"}, shown]
    assert bare["messages"][0]["content"] == [shown]
    sent = [call["function"]["arguments"] for call in full["messages"][2]["tool_calls"]]
    assert sent == ['{"city":"Bonn"}', "{}", '{"malformed":"{\\"city\\": "}']
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    assert [tool["function"] for tool in full["tools"]] == [
        {"name": "time", "description": "The time in a city.", "parameters": schema},
        {"name": "bare", "parameters": {"type": "object", "properties": {}}},
    ]


async def test_schemas_are_sent_as_they_are() -> None:
    """Complete parameters of a tool are sent unchanged, and its definition is not modified."""
    anything = ToolDefinition("any", parameters={"anyOf": [{"type": "object"}]})
    bare = ToolDefinition("bare")
    async with CHAT.serve(says("yes")) as (model, stub):
        await deltas(model, ModelRequest([], tools=[anything, bare]))
    assert stub.calls[0].body["tools"][0]["function"]["parameters"] == {"anyOf": [{"type": "object"}]}
    assert bare == ToolDefinition("bare")


# From the wire


async def test_usage_is_reported_once_before_the_end() -> None:
    """The last usage counts, in a chunk with text, with the end or by itself."""
    early = {"choices": [{"delta": {"content": "a"}}], "usage": {"prompt_tokens": 1, "completion_tokens": 0}}
    async with on_the_wire(event(early), frame(finish="stop"), usage(5, 2), DONE) as (model, _):
        assert await deltas(model) == [TextDelta("a"), TokenUsage(5, 2), Finished()]


async def test_usage_of_a_failure_is_reported() -> None:
    """An incomplete response has costs too: its known usage comes before the error."""
    async with on_the_wire(usage(5, 2), frame("hal")) as (model, _):
        _, before = await failure(model)
    assert before == [TextDelta("hal"), TokenUsage(5, 2)]


@pytest.mark.parametrize(
    ("last", "reason"),
    [
        ([frame(finish="stop")], "stop"),
        ([frame(finish="length")], "length"),
        ([frame(finish="content_filter")], "refusal"),
        ([frame(refusal="I "), frame(refusal="can't"), frame(finish="stop")], "refusal"),
        ([frame(finish="stop"), event({"choices": []})], "stop"),
        ([frame("", finish=""), frame(finish="stop")], "stop"),
        ([frame(finish="length"), frame(finish="stop")], "length"),
        ([frame(finish="length"), frame(finish="content_filter")], "refusal"),
        ([frame(finish="content_filter"), frame(finish="length")], "refusal"),
    ],
)
async def test_endings(last: list[bytes], reason: str) -> None:
    """The reason of the end is one of the port's, and a refusal is not part of the text."""
    async with on_the_wire(frame("well"), *last, DONE) as (model, _):
        assert await deltas(model) == [TextDelta("well"), Finished(reason)]


async def test_a_second_choice_is_not_part_of_the_response() -> None:
    """Only one is requested. Servers can send it in several entries of one event, or none of it."""

    def choice(index: int | None, **delta: Any) -> dict[str, Any]:
        return {"index": index, "delta": delta, "finish_reason": None}

    call = {"index": 0, "id": "a", "function": {"name": "time", "arguments": "{}"}}
    sent = (
        event({"choices": [choice(1, content="other")]}),
        event({"choices": [choice(0, content="we"), choice(1, content="other"), choice(0, tool_calls=[call])]}),
        event({"choices": [choice(None, content="ll")]}),
    )
    async with on_the_wire(*sent, frame(finish="tool_calls"), DONE) as (model, _):
        parts = await deltas(model, WITH_TOOLS)
    assert [part.text for part in parts if isinstance(part, TextDelta)] == ["we", "ll"]
    assert collect_calls(parts) == [{"id": "a", "name": "time", "args": {}}]


TWO = [{"id": "a", "name": "time", "args": {"n": 1}}, {"id": "b", "name": "bare", "args": {}}]


@pytest.mark.parametrize(
    "fragments",
    [
        called((0, "a", "time", '{"n"'), (1, "b", "bare", ""), (0, None, None, ": 1}"), (1, None, None, "{}")),
        called((0, "a", "time", '{"n"'), (0, "a", "time", ": 1}"), (1, "b", "bare", "{}")),
        called((0, "a", "time", '{"n": 1}'), (0, "b", "bare", "{}")),
        called((None, "a", "time", '{"n"'), (None, None, None, ": 1}"), (None, "b", "bare", "{}")),
        called((7, "a", "time", '{"n": 1}'), (3, "b", "bare", "")),
    ],
    ids=["in turns", "named again", "one index", "no index", "odd indexes"],
)
async def test_a_new_id_is_a_new_call(fragments: list[bytes]) -> None:
    """For any use of the index, a new id begins a new call with its own fragments."""
    async with on_the_wire(*fragments, frame(finish="tool_calls"), DONE) as (model, _):
        parts = await deltas(model, WITH_TOOLS)
    assert collect_calls(parts) == TWO
    named = [part for part in parts if isinstance(part, ToolCallDelta) and part.id]
    assert [(part.index, part.id, part.name) for part in named] == [(0, "a", "time"), (1, "b", "bare")]


@pytest.mark.parametrize(
    "fragments",
    [
        called((0, None, "time", '{"n"'), (0, None, None, ": 1}"), (1, "", "bare", "{}")),
        called((0, "", "time", '{"n"'), (0, "", "time", ": 1}"), (1, "", "bare", "")),
        called((None, "", "time", '{"n"'), (None, None, None, ": 1}"), (None, None, "bare", "{}")),
    ],
    ids=["by index", "named again", "by name"],
)
async def test_calls_without_ids_get_ids(fragments: list[bytes]) -> None:
    """Some servers send none; a result needs one."""
    async with on_the_wire(*fragments, frame(finish="tool_calls"), DONE) as (model, _):
        calls = collect_calls(await deltas(model, WITH_TOOLS))
    assert [{**call, "id": None} for call in calls] == [{**call, "id": None} for call in TWO]
    assert len({call["id"] for call in calls}) == len(calls)


async def test_calls_can_end_with_stop() -> None:
    """Servers can end calls with `stop`; an end for calls without calls is an error."""
    one = called((0, "a", "time", "{}"))
    async with on_the_wire(*one, frame(finish="stop")) as (model, _):
        assert (await deltas(model, WITH_TOOLS))[-1] == Finished("tool_calls")
    async with on_the_wire(frame("so"), frame(finish="tool_calls")) as (model, _):
        error, _ = await failure(model, WITH_TOOLS)
    assert error.retryable


async def test_two_calls_of_one_id() -> None:
    """Their results cannot be distinguished: it is an error."""
    async with on_the_wire(*called((0, "a", "time", "{}"), (1, "a", "bare", "{}"))) as (model, _):
        error, _ = await failure(model, WITH_TOOLS)
    assert error.retryable
    assert "`a`" in error.message


async def test_an_exhausted_quota_is_not_retried() -> None:
    """An empty account is the only 429 that a retry cannot resolve."""
    async with CHAT.serve(refuses(429, "buy some", kind="insufficient_quota"), max_retries=2) as (model, stub):
        error, _ = await failure(model)
    assert not error.retryable
    assert len(stub.calls) == 1
