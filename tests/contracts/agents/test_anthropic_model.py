"""Properties of Anthropic's Messages wire format only."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
from wire_messages import LAST, closes, fills, message_event, opens, starts, stops
from wire_stub import WireStub, pieces
from wires import KEY, MESSAGES

from wfcore.adapters.models.remote import RemoteModel
from wfcore.ports.providers import Finished, ModelError, ModelRequest, TextDelta, TokenUsage, collect_calls
from wfcore.testing.contracts.models import CONVERSATION, PIXEL, WITH_TOOLS, deltas, failure, text_of

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def on_the_wire(*parts: bytes, **options: Any) -> AsyncIterator[tuple[RemoteModel, WireStub]]:
    async with MESSAGES.serve(pieces(*parts), **options) as served:
        yield served


@asynccontextmanager
async def saying_yes(**options: Any) -> AsyncIterator[tuple[RemoteModel, WireStub]]:
    async with MESSAGES.serve(MESSAGES.says("yes"), **options) as served:
        yield served


# To the wire


async def test_a_request_on_the_wire() -> None:
    """Messages, settings and schema have the wire's names; the key of the call is sent, and nothing else."""
    async with saying_yes() as (model, stub):
        await deltas(model, CONVERSATION)
        await deltas(model, ModelRequest([{"type": "human", "content": "hi"}], model="default"))
    full, bare = stub.calls
    assert full.path == "/v1/messages"
    assert full.headers["idempotency-key"] == "key-2"
    assert KEY in full.headers["authorization"]
    assert full.body == {
        "model": "gpt-test",
        "max_tokens": 32_000,
        "system": "be brief",
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "what is the time in Bonn?"}]},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "c1", "name": "time", "input": {"city": "Bonn"}}],
            },
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "12:00"}]},
            {"role": "assistant", "content": [{"type": "text", "text": "12:00"}]},
            {"role": "user", "content": [{"type": "text", "text": "as JSON"}]},
        ],
        "stream": True,
        "tools": [{"name": "time", "input_schema": {"type": "object"}}],
        "tool_choice": {"type": "none"},
        "output_config": {
            "effort": "low",
            "format": {"type": "json_schema", "schema": CONVERSATION.output_schema},
        },
    }
    assert bare.body.keys() == {"model", "max_tokens", "messages", "stream"}


async def test_tools_and_images_on_the_wire() -> None:
    """Adjacent messages of one role are one message: images before the text, all results of a round together."""
    async with saying_yes(max_output_tokens=100) as (model, stub):
        await deltas(model, WITH_TOOLS)
    body = stub.calls[0].body
    question, reply, results = body["messages"]
    assert body["max_tokens"] == 100
    assert [message["role"] for message in (question, reply, results)] == ["user", "assistant", "user"]
    assert question["content"][0]["source"] == {"type": "base64", "media_type": "image/png", "data": PIXEL}
    assert [block.get("text") for block in question["content"][1:]] == ["what is this?", "and what is the time there?"]
    assert [block["type"] for block in reply["content"]] == ["text", "tool_use", "tool_use", "tool_use"]
    assert reply["content"][3]["input"] == {"malformed": '{"city": '}
    assert [block["tool_use_id"] for block in results["content"]] == ["c1", "c2", "c3"]
    assert [tool["name"] for tool in body["tools"]] == ["time", "bare"]
    assert body["tools"][1] == {"name": "bare", "input_schema": {"type": "object"}}
    assert "tool_choice" not in body


async def test_empty_messages_are_left_out() -> None:
    """The wire refuses empty texts; roles that become adjacent are one message, and system messages one text."""
    messages = [
        {"type": "system", "content": "be brief"},
        {"type": "system", "content": ""},
        {"type": "human", "content": "one"},
        {"type": "ai", "content": " \n"},
        {"type": "system", "content": "be kind"},
        {"type": "human", "content": "two"},
    ]
    async with saying_yes() as (model, stub):
        await deltas(model, ModelRequest(messages))
    body = stub.calls[0].body
    assert body["system"] == "be brief\n\nbe kind"
    assert body["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]}
    ]


@pytest.mark.parametrize("effort", ["none", "minimal", "low", "medium", "high", "xhigh", "max"])
async def test_each_effort_has_its_effect_or_is_refused(effort: str) -> None:
    """`none` turns thinking off, supported values are sent, others are refused before the request."""
    async with saying_yes() as (model, stub):
        request = attrs.evolve(WITH_TOOLS, settings={"reasoningEffort": effort})
        if effort == "minimal":
            with pytest.raises(ModelError, match="`minimal`") as refused:
                await deltas(model, request)
            assert not refused.value.retryable
            assert stub.calls == []
            return
        await deltas(model, request)
    body = stub.calls[0].body
    assert body.get("thinking") == ({"type": "disabled"} if effort == "none" else None)
    assert body.get("output_config") == (None if effort == "none" else {"effort": effort})


def test_the_output_bound_is_validated() -> None:
    """A bound below one token is refused when the model is created."""
    with pytest.raises(ValueError, match="`max_output_tokens`"):
        MESSAGES.model("claude-test", api_key=KEY, max_output_tokens=0)


# From the wire


async def test_usage_includes_cached_tokens() -> None:
    """Tokens read from and written to a cache count as input; each number replaces the one before."""
    begun = starts(input_tokens=5, cache_read_input_tokens=10, cache_creation_input_tokens=100, output_tokens=1)
    parts = [begun, opens(0), fills(0, text="a"), closes(0), stops("end_turn", output_tokens=7), LAST]
    async with on_the_wire(*parts) as (model, _):
        assert await deltas(model) == [TextDelta("a"), TokenUsage(115, 7), Finished()]


async def test_usage_of_a_failure_is_reported() -> None:
    """An incomplete response has costs too: its known usage comes before the error."""
    async with on_the_wire(starts(), opens(0), fills(0, text="hal")) as (model, _):
        _, before = await failure(model)
    assert before == [TextDelta("hal"), TokenUsage(7, 1)]


@pytest.mark.parametrize(
    ("stop", "reason"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "refusal"),
    ],
)
async def test_endings(stop: str, reason: str) -> None:
    """The reason of the end is one of the port's."""
    async with on_the_wire(starts(), opens(0), fills(0, text="well"), closes(0), stops(stop), LAST) as (model, _):
        assert (await deltas(model))[-1] == Finished(reason)


async def test_thinking_is_not_part_of_the_response() -> None:
    """Blocks of thinking, citations and unknown events are ignored."""
    thoughts = [
        opens(0, "thinking", thinking="", signature=""),
        fills(0, "thinking_delta", thinking="hmm"),
        fills(0, "signature_delta", signature="c2ln"),
        closes(0),
        opens(1, "redacted_thinking", data="xyz"),
        closes(1),
        message_event("tomorrow", whatever=1),
    ]
    text = [opens(2), fills(2, text="so"), fills(2, "citations_delta", citation={}), closes(2)]
    async with on_the_wire(starts(), *thoughts, *text, stops("end_turn"), LAST) as (model, _):
        assert text_of(await deltas(model)) == "so"


async def test_an_unknown_block_is_an_error() -> None:
    """A part that is neither text nor a call is not dropped silently."""
    part = opens(0, "server_tool_use", id="c", name="web_search", input={})
    async with on_the_wire(starts(), part, closes(0), stops("end_turn"), LAST) as (model, _):
        error, _ = await failure(model)
    assert not error.retryable
    assert "server_tool_use" in error.message


@pytest.mark.parametrize(
    "parts",
    [
        [starts(), opens(0), fills(0, text="hal"), stops("end_turn"), LAST],
        [starts(), opens(0), fills(0, text="hal"), closes(0), stops("end_turn")],
        [starts(), opens(0), fills(0, text="hal"), closes(0), LAST],
        [starts(), opens(0), fills(0, text="hal"), closes(0), stops(None), LAST],
        [starts(), opens(0), fills(0, text="hal"), closes(0), stops("end_turn"), LAST, opens(1), fills(1, text="f")],
    ],
    ids=["open block", "no last event", "no reason", "null reason", "a block after the end"],
)
async def test_an_incomplete_response(parts: list[bytes]) -> None:
    """A response without its last event, its reason, or the end of a block is incomplete."""
    async with on_the_wire(*parts) as (model, _):
        error, before = await failure(model)
    assert error.retryable
    assert text_of(before) == "hal"


async def test_arguments_can_come_at_once() -> None:
    """Arguments at the start of the block are accepted."""
    parts = [opens(0, "tool_use", id="c", name="time", input={"city": "Bonn"}), closes(0), stops("tool_use"), LAST]
    async with on_the_wire(starts(), *parts) as (model, _):
        assert collect_calls(await deltas(model, WITH_TOOLS)) == [{"id": "c", "name": "time", "args": {"city": "Bonn"}}]


@pytest.mark.parametrize(
    ("kind", "retryable"),
    [
        ("overloaded_error", True),
        ("rate_limit_error", True),
        ("api_error", True),
        ("invalid_request_error", False),
        ("authentication_error", False),
        ("billing_error", False),
    ],
)
async def test_errors_within_a_stream(kind: str, retryable: bool) -> None:
    """The error has the provider's message, and says whether a retry can succeed."""
    async with on_the_wire(*MESSAGES.half, MESSAGES.error(kind, "so it is")) as (model, _):
        error, _ = await failure(model)
    assert error.retryable is retryable
    assert error.message.endswith("so it is")
