"""The contract of models, kept by each adapter; and what only the wire can show."""

import asyncio
import sys
import traceback
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from wire_stub import (
    DONE,
    Answer,
    WireStub,
    event,
    frame,
    hangs_up,
    pieces,
    refuses,
    says,
    silence,
    usage,
)

from wfcore.adapters.models.openai import OpenAIModel
from wfcore.adapters.models.scripted import ScriptedModel
from wfcore.ports.providers import Finished, ModelError, ModelProvider, ModelRequest, TextDelta, Usage
from wfcore.testing.models_contract import CONVERSATION, QUESTION, ModelsContract, deltas, failure, opened, text_of

pytestmark = pytest.mark.anyio

KEY = "sk-canary-0123456789"
BREAKS = pieces(frame("hal"), ends="break")
REFUSES = pieces(frame("hal"), event({"error": {"message": "too long", "type": "invalid_request_error"}}))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def on_the_wire(*answers: Answer, **options: Any) -> AsyncIterator[tuple[OpenAIModel, WireStub]]:
    async with WireStub(answers) as stub:
        given: dict[str, Any] = {"base_url": stub.base_url, "api_key": KEY, "timeout": 5, "max_retries": 0}
        async with OpenAIModel("gpt-test", **{**given, **options}) as model:
            yield model, stub


class TestScriptedModel(ModelsContract):
    @asynccontextmanager
    async def open_model(self, answers: Sequence[str | ModelError]) -> AsyncIterator[ModelProvider]:
        yield ScriptedModel(list(answers))


class TestOpenAIModel(ModelsContract):
    @asynccontextmanager
    async def open_model(self, answers: Sequence[str | ModelError]) -> AsyncIterator[ModelProvider]:
        wire = [says(each) if isinstance(each, str) else BREAKS if each.retryable else REFUSES for each in answers]
        async with on_the_wire(*wire) as (model, _):
            yield model


# To the wire


async def test_a_request_on_the_wire() -> None:
    """Messages, settings and schema in the wire's names; the key of the call, and nothing that was not asked for."""
    async with on_the_wire(says("yes")) as (model, stub):
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


async def test_an_unknown_message_is_refused() -> None:
    """A type of message that the interface has not is told before anything is sent."""
    async with on_the_wire(says("yes")) as (model, stub):
        with pytest.raises(ModelError, match="`robot`") as failed:
            await deltas(model, ModelRequest([{"type": "robot", "content": "beep"}]))
    assert not failed.value.retryable
    assert stub.calls == []


# From the wire


async def test_usage_is_told_once_before_the_end() -> None:
    """The usage that came last counts, whether with a chunk of text, of the end or alone."""
    early = {"choices": [{"delta": {"content": "a"}}], "usage": {"prompt_tokens": 1, "completion_tokens": 0}}
    async with on_the_wire(pieces(event(early), frame(finish="stop"), usage(5, 2), DONE)) as (model, _):
        assert await deltas(model) == [TextDelta("a"), Usage(5, 2), Finished()]


@pytest.mark.parametrize("cut", [1, 2, 3, 7])
async def test_pieces_may_be_cut_anywhere(cut: int) -> None:
    """Frames cut within a line or within a character of several bytes give the same text; comments are no text."""
    wire = b": waiting\r\n\r\n" + frame("Grüße 😀") + frame(" an dich") + frame(finish="stop") + DONE
    parts = [wire[start : start + cut] for start in range(0, len(wire), cut)]
    async with on_the_wire(pieces(*parts)) as (model, _):
        assert text_of(await deltas(model)) == "Grüße 😀 an dich"


async def test_text_comes_while_the_answer_goes_on() -> None:
    """The first words are given on before the last are there."""
    async with on_the_wire(pieces(frame("first"), ends="hang")) as (model, _), asyncio.timeout(2):
        stream = opened(model)
        assert await anext(stream) == TextDelta("first")
        await stream.aclose()


@pytest.mark.parametrize(
    ("last", "reason"),
    [
        ([frame(finish="stop")], "stop"),
        ([frame(finish="length")], "length"),
        ([frame(finish="content_filter")], "refusal"),
        ([frame(refusal="I "), frame(refusal="can't"), frame(finish="stop")], "refusal"),
        ([frame(finish="stop"), event({"choices": []})], "stop"),
    ],
)
async def test_endings(last: list[bytes], reason: str) -> None:
    """Why an answer ended is told in the port's words, and a refusal is none of its text."""
    async with on_the_wire(pieces(frame("well"), *last, DONE)) as (model, _):
        assert await deltas(model) == [TextDelta("well"), Finished(reason)]


TOOL = {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}


@pytest.mark.parametrize(
    "parts",
    [
        [frame(finish="tool_calls")],
        [frame(finish="function_call")],
        [frame(finish="somehow")],
        [frame(tool_calls=[TOOL]), frame(finish="stop")],
    ],
)
async def test_what_is_no_text_is_no_answer(parts: list[bytes]) -> None:
    """Calls of tools, and endings that nobody knows, fail for good."""
    async with on_the_wire(pieces(frame("hm"), *parts, DONE)) as (model, _):
        error, before = await failure(model)
    assert not error.retryable
    assert before == [TextDelta("hm")]


# Faults


@pytest.mark.parametrize(
    "answer",
    [
        pieces(frame("hal"), ends="break"),
        pieces(frame("hal")),
        pieces(frame("hal"), DONE),
        pieces(frame("hal"), b'data: {"choices": [{"del\n\n', ends="hang"),
        pieces(frame("hal"), b"data: {\xff}\n\n"),
        pieces(frame("hal"), event({"choices": {"a": 1}})),
        pieces(frame("hal"), event({"choices": [5]}), event([]), event(None)),
        pieces(frame("hal"), event({"choices": [{"delta": {"content": {"a": 1}}}]})),
        pieces(frame("hal"), event({"error": {"message": "overloaded", "type": "server_error"}})),
        pieces(frame("hal"), event({"error": "overloaded"})),
    ],
    ids=["cut", "no end", "done only", "half JSON", "no UTF-8", "choices", "odd", "content", "error", "error text"],
)
async def test_a_broken_stream_is_never_an_answer(answer: Answer) -> None:
    """However a stream breaks, it raises what may be tried again, and is not begun anew within the call."""
    async with on_the_wire(answer, says("yes"), max_retries=2) as (model, stub):
        error, before = await failure(model)
        assert error.retryable
        assert before == [TextDelta("hal")]
        assert len(stub.calls) == 1
        assert text_of(await deltas(model)) == "yes"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_refusals_are_for_good(status: int) -> None:
    """What the provider refuses is not tried again, by nobody."""
    async with on_the_wire(refuses(status, "wrong model"), max_retries=2) as (model, stub):
        error, _ = await failure(model)
    assert not error.retryable
    assert f"{status}" in error.message
    assert "wrong model" in error.message
    assert len(stub.calls) == 1


@pytest.mark.parametrize("status", [429, 500, 502, 503, 529])
async def test_a_busy_provider_is_asked_again(status: int) -> None:
    """After as long as `Retry-After` says, under the same key; a success then is an answer like any other."""
    busy = refuses(status, retry_after="0.01")
    async with on_the_wire(busy, busy, says("at last"), max_retries=2) as (model, stub):
        assert text_of(await deltas(model)) == "at last"
    assert [call.headers["idempotency-key"] for call in stub.calls] == [QUESTION.key] * 3


async def test_retry_after_is_waited_for() -> None:
    """The second request comes no sooner than the provider asked."""
    loop = asyncio.get_running_loop()
    async with on_the_wire(refuses(429, retry_after="0.03"), says("yes"), max_retries=1) as (model, _):
        began = loop.time()
        await deltas(model)
        assert loop.time() - began >= 0.03


@pytest.mark.parametrize("status", [429, 503])
async def test_tries_are_bounded(status: int) -> None:
    """After `max_retries` more tries the error is told, for the run to try again later."""
    async with on_the_wire(refuses(status, retry_after="0.001"), max_retries=2) as (model, stub):
        error, _ = await failure(model)
    assert error.retryable
    assert len(stub.calls) == 3


@pytest.mark.parametrize(
    "answer", [silence, pieces(frame("hal"), ends="hang"), hangs_up], ids=["silence", "silence midway", "hangs up"]
)
async def test_a_provider_that_says_nothing(answer: Answer) -> None:
    """Silence, before or within an answer, ends after `timeout`; so does a call that is hung up."""
    async with on_the_wire(answer, timeout=0.1) as (model, _), asyncio.timeout(3):
        error, _ = await failure(model)
    assert error.retryable


async def test_nobody_there() -> None:
    """An address where nobody listens is a failure that may be tried again."""
    async with WireStub([]) as stub:
        address = stub.base_url
    async with OpenAIModel("gpt-test", base_url=address, api_key=KEY, max_retries=0) as model:
        error, _ = await failure(model)
    assert error.retryable


async def test_to_leave_ends_the_request() -> None:
    """A stream that is closed, or whose reader is cancelled, hangs up: nobody pays for what nobody reads."""
    for leave in ("close", "cancel"):
        async with on_the_wire(pieces(frame("one"), ends="hang")) as (model, stub), asyncio.timeout(3):
            stream = opened(model)
            await anext(stream)
            if leave == "cancel":
                waiting = asyncio.ensure_future(anext(stream))
                await asyncio.sleep(0)
                waiting.cancel()
                await asyncio.wait([waiting])
                assert waiting.cancelled()
            await stream.aclose()
            await stub.gone.wait()


# Secrets and set-up


@pytest.mark.parametrize("status", [None, 401, 400, 503])
async def test_the_key_is_in_no_error(status: int | None) -> None:
    """Even if the provider repeats the key, at the length limit too, no error, traceback or repr shows it."""
    for words in (f"key {KEY} is wrong", "x" * 290 + KEY):
        told = pieces(event({"error": {"message": words}})) if status is None else refuses(status, words)
        async with on_the_wire(told) as (model, _):
            error, _ = await failure(model)
            shown = "".join(traceback.format_exception(error)) + repr(error) + repr(model) + error.message
            assert "sk-canary" not in shown
            assert len(error.message) < 400


async def test_a_key_of_the_environment_stays_at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """The key of the environment is for OpenAI's own address, and is sent to no other one."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    async with on_the_wire(says("yes"), api_key=None) as (model, stub):
        await deltas(model)
    assert KEY not in repr(stub.calls)


def test_no_key_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenAI's own address needs a key, told when the model is made."""
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match="`api_key`"):
        OpenAIModel("gpt-test")


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the SDK is not installed, the error says what to install."""
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(ImportError, match=r"wfcore\[openai\]"):
        OpenAIModel("gpt-test", api_key=KEY)
