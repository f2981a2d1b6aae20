"""The contract of models for each adapter, and properties that all wire formats share."""

import asyncio
import json
import logging
import re
import sys
import time
import traceback
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from email.utils import formatdate

import pytest
from waiting import HANG
from wire_stub import Answer, Line, WireStub, floods, hangs_up, pieces, refuses, silence
from wires import CHAT, KEY, MESSAGES, WIRES, Wire

from wfcore.adapters.models.completions import LONGEST_TEXT
from wfcore.adapters.models.remote import LONGEST_EVENT
from wfcore.adapters.models.scripted import ScriptedModel
from wfcore.ports.providers import (
    LONGEST_ARGUMENTS,
    MOST_CALLS,
    Finished,
    ModelError,
    ModelProvider,
    ModelRequest,
    TextDelta,
    collect_calls,
)
from wfcore.testing.contracts.models import (
    QUESTION,
    WITH_TOOLS,
    ModelsContract,
    Reply,
    deltas,
    failure,
    opened,
    text_of,
)

pytestmark = pytest.mark.anyio

CALLS = [
    {"id": "c1", "name": "time", "args": {"city": "Köln 😀"}},
    {"id": "c2", "name": "bare", "args": {}},
]
ANSWER = {"content": "Grüße 😀\u2028!", "toolCalls": CALLS}


@pytest.fixture(params=WIRES, ids=str)
def wire(request: pytest.FixtureRequest) -> Wire:
    found: Wire = request.param
    return found


class TestScriptedModel(ModelsContract):
    @asynccontextmanager
    async def open_model(self, answers: Sequence[Reply]) -> AsyncIterator[ModelProvider]:
        yield ScriptedModel(list(answers))


class TestOpenAIModel(ModelsContract):
    @asynccontextmanager
    async def open_model(self, answers: Sequence[Reply]) -> AsyncIterator[ModelProvider]:
        async with CHAT.serve(*CHAT.answers(answers)) as (model, _):
            yield model


class TestAnthropicModel(ModelsContract):
    @asynccontextmanager
    async def open_model(self, answers: Sequence[Reply]) -> AsyncIterator[ModelProvider]:
        async with MESSAGES.serve(*MESSAGES.answers(answers)) as (model, _):
            yield model


async def test_an_unknown_message_is_refused(wire: Wire) -> None:
    """An unknown type of message is refused before anything is sent."""
    async with wire.serve(wire.says("yes")) as (model, stub):
        with pytest.raises(ModelError, match="`robot`") as failed:
            await deltas(model, ModelRequest([{"type": "robot", "content": "beep"}]))
    assert not failed.value.retryable
    assert stub.calls == []


async def test_earlier_malformed_calls_are_normalized(wire: Wire) -> None:
    """Names of unknown tools and ids of another provider are sent in a form that every wire accepts, with their
    results.
    """
    odd = [("functions.get time", "x" * 100), ("ü" * 200, "a b"), ("", "{1}"), ("fine", "call_1")]
    calls = [{"id": call, "name": name, "args": {}} for name, call in odd]
    results = [{"type": "tool", "content": "", "toolCallId": call["id"]} for call in calls]
    async with wire.serve(wire.says("yes")) as (model, stub):
        await deltas(model, ModelRequest([{"type": "ai", "content": "", "toolCalls": calls}, *results]))
    sent = json.dumps(stub.calls[0].body)
    names = re.findall(r'"name": "([^"]*)", "(?:arguments|input)":', sent)
    ids = re.findall(r'"(?:tool_use_|tool_call_)?id": "([^"]*)"', sent)
    assert len(names) == 4
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in names)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,40}", call) for call in ids)
    assert ids[:4] == ids[4:]
    assert len(set(ids)) == 4
    assert (names[3], ids[3]) == ("fine", "call_1")


# Pieces


@pytest.mark.parametrize("cut", [1, 2, 3, 7])
async def test_bytes_can_be_split_anywhere(wire: Wire, cut: int) -> None:
    """Single bytes, within a line or a character, give the same response; comments are ignored."""
    sent = b": waiting\r\n\r\n" + b"".join(wire.frames(ANSWER))
    async with wire.serve(pieces(*(sent[at : at + cut] for at in range(0, len(sent), cut)))) as (model, _):
        parts = await deltas(model, WITH_TOOLS)
    assert text_of(parts) == ANSWER["content"]
    assert collect_calls(parts) == CALLS


async def test_a_surrogate_pair_can_be_split(wire: Wire) -> None:
    """A character in two escapes can come in two events; half of one is an incomplete response."""
    first, second = (wire.more("(*)").replace(b"(*)", half) for half in (rb"\ud83d", rb"\ude00"))
    last = wire.frames({"content": ""})[-3:]
    async with wire.serve(pieces(*wire.half, first, second, *last), pieces(*wire.half, first, *last)) as (model, _):
        assert text_of(await deltas(model)) == "hal😀"
        error, _ = await failure(model)
    assert error.retryable


async def test_text_is_streamed(wire: Wire) -> None:
    """The first words are returned before the last have arrived."""
    async with wire.serve(pieces(*wire.half, ends="hang")) as (model, _), asyncio.timeout(HANG):
        stream = opened(model)
        assert await anext(stream) == TextDelta("hal")
        await stream.aclose()


async def test_a_truncated_response_is_an_error(wire: Wire) -> None:
    """A response without its last events or bytes is an error, or complete all the same."""
    frames = wire.frames(ANSWER)
    prefixes = [pieces(*frames[:kept], ends=ends) for kept in range(len(frames)) for ends in ("end", "break")]
    whole = 0
    async with wire.serve(*prefixes) as (model, _):
        for _ in prefixes:
            try:
                parts = await deltas(model, WITH_TOOLS)
            except ModelError:
                continue
            assert parts[-1] == Finished("tool_calls")
            assert (text_of(parts), collect_calls(parts)) == (ANSWER["content"], CALLS)
            whole += 1
    assert whole <= 2


# Tools


async def test_calls_without_tools_are_an_error(wire: Wire) -> None:
    """A model that calls a tool in a request without tools fails without retry."""
    async with wire.serve(wire.says(ANSWER)) as (model, _):
        error, before = await failure(model)
    assert not error.retryable
    assert text_of(before) == ANSWER["content"]


@pytest.mark.parametrize("stop", ["length", "refusal"])
async def test_truncated_calls_keep_their_reason(wire: Wire, stop: str) -> None:
    """A response that ends for another reason than its calls has that reason."""
    words = {"length": "length", "refusal": "content_filter"} if wire is CHAT else {"length": "max_tokens"}
    async with wire.serve(wire.says(ANSWER, words.get(stop, stop))) as (model, _):
        assert (await deltas(model, WITH_TOOLS))[-1] == Finished(stop)


# Faults


def broken(wire: Wire) -> list[Answer]:
    return [
        pieces(*wire.half, ends="break"),
        pieces(*wire.half),
        pieces(*wire.half, wire.last),
        pieces(*wire.half, b'data: {"choices": [{"del\n\n', wire.last),
        pieces(*wire.half, b"event: content_block_delta\ndata: {\xff}\n\n"),
        pieces(*wire.half, b"event: message_delta\ndata: []\n\n", b"event: message_delta\ndata: null\n\n"),
        pieces(*wire.half, b"event: message_delta\ndata: %s\n\n" % (b"[" * 100_000)),
        pieces(*wire.half, wire.error("server_error", "overloaded")),
        pieces(*wire.half, wire.error("overloaded_error", "")),
        *(pieces(*wire.half, odd, *wire.half) for odd in wire.odd),
    ]


async def test_a_broken_stream_is_an_error(wire: Wire) -> None:
    """Any broken stream raises an error that allows a retry, and is not repeated within the call."""
    answers = broken(wire)
    async with wire.serve(*answers, wire.says("yes"), max_retries=2) as (model, stub):
        for number in range(len(answers)):
            error, before = await failure(model, WITH_TOOLS)
            assert error.retryable
            assert text_of(before).startswith("hal")
            assert not [part for part in before if isinstance(part, Finished)]
            assert len(stub.calls) == number + 1
        assert text_of(await deltas(model)) == "yes"


@pytest.mark.parametrize("stop", ["somehow", "function_call", "pause_turn"])
async def test_an_unknown_ending_is_an_error(wire: Wire, stop: str) -> None:
    """A response with an unknown reason fails without retry."""
    async with wire.serve(wire.says("hm", stop)) as (model, _):
        error, before = await failure(model)
    assert not error.retryable
    assert text_of(before) == "hm"


@pytest.mark.parametrize("status", [307, 400, 401, 403, 404, 422])
async def test_refusals_are_not_retried(wire: Wire, status: int) -> None:
    """A refusal of the provider is not retried, and the key is not sent to a redirect."""
    answer = refuses(status, "wrong model", location="http://127.0.0.1:9/v1")
    async with wire.serve(answer, max_retries=2) as (model, stub):
        error, _ = await failure(model)
    assert not error.retryable
    assert f"{status}" in error.message
    assert "wrong model" in error.message
    assert len(stub.calls) == 1


@pytest.mark.parametrize(("kind", "retryable"), [("invalid_request_error", False), ("overloaded_error", True)])
async def test_an_error_with_status_200_is_reported(wire: Wire, kind: str, retryable: bool) -> None:
    """Some providers answer so before the stream begins. It shows no key, also where the message is cut."""
    for words, shown in ((f"no credit for {KEY}", "no credit for ***"), ("x" * 290 + KEY, "x" * 290 + "***")):
        async with wire.serve(refuses(200, words, kind)) as (model, _):
            error, _ = await failure(model)
        assert error.message == f"the model's provider failed: {shown}"
        assert error.retryable is retryable


async def test_a_page_instead_of_a_stream_is_named(wire: Wire) -> None:
    """As of a wrong `base_url`; events under another type are read."""

    def sent(*parts: bytes) -> Answer:
        async def answer(line: Line) -> None:
            await line.begin(content_type="text/html; charset=utf-8")
            for part in parts:
                await line.send(part)
            await line.end()

        return answer

    async with wire.serve(sent(b"<html>data: none</html>")) as (model, _):
        error, _ = await failure(model)
    assert error.message == "the model's provider failed: it sent `text/html` instead of a stream of events"
    async with wire.serve(sent(*wire.frames({"content": "yes"}))) as (model, _):
        assert text_of(await deltas(model)) == "yes"


@pytest.mark.parametrize("status", [429, 500, 502, 503, 529])
async def test_a_busy_provider_is_retried(wire: Wire, status: int) -> None:
    """After the time in `Retry-After`, under the same key; then a success is a normal response."""
    busy, dated = refuses(status, retry_after="0.01"), refuses(status, retry_after=formatdate(time.time(), usegmt=True))
    async with wire.serve(busy, dated, wire.says("at last"), max_retries=2) as (model, stub):
        assert text_of(await deltas(model)) == "at last"
    assert [call.headers["idempotency-key"] for call in stub.calls] == [QUESTION.key] * 3


async def test_retry_after_is_respected(wire: Wire) -> None:
    """The second request is not sent before the requested time."""
    loop = asyncio.get_running_loop()
    async with wire.serve(refuses(429, retry_after="0.03"), wire.says("yes"), max_retries=1) as (model, _):
        began = loop.time()
        await deltas(model)
        assert loop.time() - began >= 0.03


@pytest.fixture
def far_from_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine in another time zone."""
    monkeypatch.setenv("TZ", "XXX+5")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("form", ["%a, %d %b %Y %H:%M:%S GMT", "%A, %d-%b-%y %H:%M:%S GMT", "%a %b %d %H:%M:%S %Y"])
@pytest.mark.usefixtures("far_from_utc")
async def test_a_provider_with_another_clock_is_retried(wire: Wire, form: str) -> None:
    """A date in `Retry-After` is compared with the `Date` of the response, in each of the formats of HTTP."""
    ahead = time.time() + 3_600
    busy = refuses(429, retry_after=time.strftime(form, time.gmtime(ahead)), date=formatdate(ahead, usegmt=True))
    async with wire.serve(busy, wire.says("yes"), max_retries=1) as (model, _):
        assert text_of(await deltas(model)) == "yes"


@pytest.mark.parametrize("asked", ["3600", "1e400", formatdate(4e9, usegmt=True)])
async def test_long_waits_fail_at_once(wire: Wire, asked: str) -> None:
    """A provider that demands a longer wait than a call allows causes an error at once."""
    async with wire.serve(refuses(429, retry_after=asked), max_retries=2) as (model, stub), asyncio.timeout(HANG):
        error, _ = await failure(model)
    assert error.retryable
    assert len(stub.calls) == 1


@pytest.mark.parametrize("status", [429, 503])
async def test_retries_are_bounded(wire: Wire, status: int) -> None:
    """After `max_retries` more attempts the error is raised."""
    async with wire.serve(refuses(status, retry_after="0.001"), max_retries=2) as (model, stub):
        error, _ = await failure(model)
    assert error.retryable
    assert len(stub.calls) == 3


async def test_silence_is_a_timeout(wire: Wire) -> None:
    """Silence before or within a response ends after `timeout`; so does a closed connection."""
    answers = silence, pieces(*wire.half, ends="hang"), hangs_up
    async with wire.serve(*answers, timeout=0.1) as (model, _), asyncio.timeout(HANG):
        for _ in answers:
            error, _ = await failure(model)
            assert error.retryable


async def test_a_call_has_a_deadline(wire: Wire) -> None:
    """A provider that never ends, or never accepts a connection, causes an error at the deadline."""
    answers = floods(*wire.half, b": wait\n\n"), floods(*wire.half, wire.more("")), silence
    async with wire.serve(*answers, deadline=0.1) as (model, _), asyncio.timeout(HANG):
        for _ in answers:
            error, before = await failure(model)
            assert error.retryable
            assert error.reason == "timeout"
            assert text_of(before) in ("hal", "")


async def test_responses_are_bounded(wire: Wire) -> None:
    """Text, tool calls, their arguments, one event and the body of an error are each bounded."""
    endless = [
        floods(*wire.half, wire.more("x" * (LONGEST_TEXT // 5))),
        floods(*wire.half, b"data: x" + b"x" * 50_000),
        floods(*wire.half, b"data: x\n" * 5_000),
        pieces(*wire.half, *(wire.calls(str(number), "{}") for number in range(1, MOST_CALLS + 2)), ends="hang"),
        pieces(*wire.half, *(wire.calls(str(number), "x" * (LONGEST_ARGUMENTS // 8)) for number in range(1, 10))),
    ]
    async with wire.serve(*endless) as (model, _), asyncio.timeout(HANG):
        for _ in endless:
            error, before = await failure(model, WITH_TOOLS)
            assert error.retryable
            assert error.reason != "timeout"
            assert len(text_of(before)) <= LONGEST_TEXT


async def test_error_bodies_are_bounded(wire: Wire) -> None:
    """The body of an error is bounded like an event; a compressed response is refused."""

    async def endless(line: Line) -> None:
        await line.begin(400, content_type="application/json")
        while True:
            await line.send(b"x\n\n" * (LONGEST_EVENT // 30))

    async def compressed(line: Line) -> None:
        await line.begin(content_encoding="gzip")
        await line.hang()

    async with wire.serve(endless, compressed) as (model, _), asyncio.timeout(HANG):
        for _ in range(2):
            error, _ = await failure(model)
            assert error.retryable


async def test_a_closed_port(wire: Wire) -> None:
    """A closed port is an error that allows a retry."""
    async with WireStub([]) as stub:
        address = stub.base_url
    async with wire.model("gpt-test", base_url=address, api_key=KEY, max_retries=0) as model:
        error, _ = await failure(model)
    assert error.retryable


async def test_cancellation_ends_the_request(wire: Wire) -> None:
    """A closed stream, or a cancelled reader, closes the connection."""
    for leave in ("close", "cancel"):
        async with wire.serve(pieces(*wire.half, ends="hang")) as (model, stub), asyncio.timeout(HANG):
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
async def test_the_key_is_in_no_error(wire: Wire, status: int | None, caplog: pytest.LogCaptureFixture) -> None:
    """Even if the provider repeats the key, at the length limit too, no error, traceback, log or repr shows it."""
    caplog.set_level(logging.INFO)
    for words in (f"key {KEY} is wrong", "x" * 290 + KEY):
        broken_reply = pieces(wire.error("server_error", words)) if status is None else refuses(status, words)
        async with wire.serve(broken_reply) as (model, _):
            error, _ = await failure(model)
            shown = "".join(traceback.format_exception(error)) + repr(error) + repr(model) + error.message
            assert "sk-canary" not in shown + caplog.text
            assert len(error.message) < 400


async def test_a_key_of_the_environment_is_for_the_provider_only(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is sent to the provider's own address only."""
    monkeypatch.setenv(wire.variable, KEY)
    async with wire.serve(wire.says("yes"), api_key=None) as (model, stub):
        await deltas(model)
    assert KEY not in repr(stub.calls)


def test_a_missing_key(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider's own address requires a key when the model is created."""
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match="`api_key`"):
        wire.model("gpt-test")


@pytest.mark.parametrize(
    "wrong", [{"timeout": 0}, {"deadline": -1}, {"deadline": float("nan")}, {"timeout": 1e999}, {"max_retries": -1}]
)
def test_invalid_options(wire: Wire, wrong: dict[str, float]) -> None:
    """Invalid seconds and retries are refused by name when the model is created."""
    with pytest.raises(ValueError, match=f"`{next(iter(wrong))}`"):
        wire.model("gpt-test", api_key=KEY, **wrong)


@pytest.mark.parametrize("extra", ["openai", "anthropic"])
def test_without_the_extra(extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the SDK, the error says what to install."""
    monkeypatch.setitem(sys.modules, extra, None)
    with pytest.raises(ImportError, match=rf"wfcore\[{extra}\]"):
        {"openai": CHAT, "anthropic": MESSAGES}[extra].model("gpt-test", api_key=KEY)
