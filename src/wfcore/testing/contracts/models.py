"""The contract of model providers, as a suite to inherit.

An adapter's author writes one method:

    class TestMyModel(ModelsContract):
        @asynccontextmanager
        async def open_model(self, answers: Sequence[Reply]) -> AsyncIterator[ModelProvider]:
            async with stand_in(answers) as address:
                yield MyModel(address)

Needs the extra `testing`.
"""

import asyncio
from abc import abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing

import pytest

from wfcore.domain.kernel.json_type import JSON
from wfcore.ports.providers import (
    Delta,
    Finished,
    ModelError,
    ModelProvider,
    ModelRequest,
    TextDelta,
    TokenUsage,
    ToolCallDelta,
    ToolDefinition,
    collect_calls,
)
from wfcore.testing.contracts.interrupted.calls import CancelAt
from wfcore.testing.on_asyncio import OnAsyncio, limited

Reply = str | ModelError | Mapping[str, JSON]
"""A scripted reply: a text, an error, or a message with `content` and `toolCalls`."""

TIME = ToolDefinition("time", "The time in a city.", {"type": "object", "properties": {"city": {"type": "string"}}})
BARE = ToolDefinition("bare")
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYPhfDwAChAGAoPIfKgAAAABJRU5ErkJggg=="
"""A PNG of one pixel, in base64."""
QUESTION = ModelRequest([{"type": "human", "content": "what now?"}], key="key-1")
CONVERSATION = ModelRequest(
    [
        {"type": "system", "content": "be brief"},
        {"type": "human", "content": "what is the time in Bonn?"},
        {"type": "ai", "content": "", "toolCalls": [{"id": "c1", "name": "time", "args": {"city": "Bonn"}}]},
        {"type": "tool", "content": "12:00", "toolCallId": "c1"},
        {"type": "ai", "content": "12:00", "id": "m-4"},
        {"type": "human", "content": "as JSON"},
    ],
    settings={"reasoningEffort": "low", "contextWindow": 8000},
    output_schema={"type": "object", "properties": {"time": {"type": "string"}}, "required": ["time"]},
    key="key-2",
)
WITH_TOOLS = ModelRequest(
    [
        {"type": "human", "content": "what is this?", "images": [{"mimeType": "image/png", "data": PIXEL}]},
        {"type": "human", "content": "and what is the time there?"},
        {
            "type": "ai",
            "content": "I look.",
            "toolCalls": [
                {"id": "c1", "name": "time", "args": {"city": "Bonn"}},
                {"id": "c2", "name": "bare", "args": {}},
                {"id": "c3", "name": "time", "args": '{"city": '},
            ],
        },
        {"type": "tool", "content": "12:00", "toolCallId": "c1"},
        {"type": "tool", "content": "", "toolCallId": "c2"},
        {"type": "tool", "content": "the arguments are not an object", "toolCallId": "c3"},
    ],
    tools=[TIME, BARE],
    key="key-3",
)


def opened(model: ModelProvider, request: ModelRequest = QUESTION) -> AsyncGenerator[Delta, None]:
    """The stream of a call, which the caller must close."""
    return model.stream(request)


async def deltas(model: ModelProvider, request: ModelRequest = QUESTION) -> list[Delta]:
    """All deltas of a completion."""
    async with aclosing(opened(model, request)) as stream:
        return [delta async for delta in stream]


async def failure(model: ModelProvider, request: ModelRequest = QUESTION) -> tuple[ModelError, list[Delta]]:
    """The error of a failing call, and the deltas before it."""
    parts: list[Delta] = []
    try:
        async with aclosing(opened(model, request)) as stream:
            async for part in stream:
                parts.append(part)  # noqa: PERF401  (what came before the failure counts)
    except ModelError as error:
        return error, parts
    raise AssertionError("the call did not fail")


def text_of(parts: Sequence[Delta]) -> str:
    return "".join(part.text for part in parts if isinstance(part, TextDelta))


class ModelsContract(OnAsyncio):
    """Inherit, name the class `Test...`, and write `open_model`."""

    @abstractmethod
    def open_model(self, answers: Sequence[Reply]) -> AbstractAsyncContextManager[ModelProvider]:
        """A model with these replies, one per call. An error fails the call, with the same `retryable`."""

    # "The stream ends with exactly one `Finished`, or raises `ModelError`"

    @pytest.mark.parametrize("answer", ["", "yes", "two words", " a\n\nb\u2028c\r\n ", "Grüße 😀 ٣", "long " * 500])
    async def test_a_completion_is_whole(self, answer: str) -> None:
        """The deltas are exactly the text; then the usage, at most once; then the end."""
        async with self.open_model([answer]) as model:
            parts = await deltas(model)
        assert text_of(parts) == answer
        assert all(part.text for part in parts if isinstance(part, TextDelta))
        assert parts[-1] == Finished("stop")
        rest = [part for part in parts[:-1] if not isinstance(part, TextDelta)]
        assert len(rest) <= 1
        assert all(isinstance(part, TokenUsage) and min(part.input_tokens, part.output_tokens) >= 0 for part in rest)

    async def test_every_kind_of_message_is_accepted(self) -> None:
        """A conversation with all types of messages, settings and an output schema has a completion."""
        async with self.open_model(['{"time":"12:00"}']) as model:
            assert text_of(await deltas(model, CONVERSATION)) == '{"time":"12:00"}'

    # Tool calls

    @pytest.mark.parametrize("content", ["", "I look."])
    @pytest.mark.parametrize(
        "args",
        [
            [{}],
            [{"city": "Bonn"}],
            [{"city": "Bonn"}, {"city": "Köln 😀\u2028"}, {}],
            [{"a": [1, -2.5, None, True, {"b": {"c": '"\\'}}]}],
            [{"long": "long " * 400}, {"city": "Bonn"}],
        ],
        ids=["none", "one", "three", "deep", "long"],
    )
    async def test_tool_calls_are_whole(self, args: Sequence[JSON], content: str) -> None:
        """The fragments form the calls, in order, after the text; the completion ends with the calls as its reason."""
        calls = [{"id": f"call-{number}", "name": "time", "args": each} for number, each in enumerate(args)]
        async with self.open_model([{"content": content, "toolCalls": calls}]) as model:
            parts = await deltas(model, WITH_TOOLS)
        assert collect_calls(parts) == calls
        assert text_of(parts) == content
        assert parts[-1] == Finished("tool_calls")

    async def test_a_call_is_named_by_its_first_fragment(self) -> None:
        """Id and name are complete in the first fragment of a call, and in no other; calls count from 0."""
        calls = [{"id": f"call-{name}", "name": name, "args": {"city": "Bonn on Rhine"}} for name in ("time", "bare")]
        async with self.open_model([{"content": "", "toolCalls": calls}]) as model:
            parts = [part for part in await deltas(model, WITH_TOOLS) if isinstance(part, ToolCallDelta)]
        named = [(part.index, part.id, part.name) for part in parts if part.id or part.name]
        assert named == [(0, "call-time", "time"), (1, "call-bare", "bare")]
        assert all(parts[[part.index for part in parts].index(index)].id for index in (0, 1))

    @pytest.mark.parametrize("text", ['{"city": "Bo', "[1, 2]", "Bonn", '{"a": 1} {"a": 2}', '{"a": 1, "a": 2}', "NaN"])
    async def test_arguments_that_are_not_an_object(self, text: str) -> None:
        """They are returned as received; the completion and the other calls are not affected."""
        wrong: dict[str, JSON] = {"id": "c1", "name": "time", "args": text}
        right: dict[str, JSON] = {"id": "c2", "name": "time", "args": {}}
        async with self.open_model([{"content": "", "toolCalls": [wrong, right]}]) as model:
            parts = await deltas(model, WITH_TOOLS)
        assert collect_calls(parts) == [wrong, right]
        assert parts[-1] == Finished("tool_calls")

    async def test_further_rounds(self) -> None:
        """After the results of its calls the model can call again, or end."""
        call: dict[str, JSON] = {"id": "c9", "name": "bare", "args": {}}
        async with self.open_model([{"content": "", "toolCalls": [call]}, "12:00"]) as model:
            assert collect_calls(await deltas(model, WITH_TOOLS)) == [call]
            assert text_of(await deltas(model, WITH_TOOLS)) == "12:00"

    @pytest.mark.parametrize("retryable", [True, False])
    async def test_a_failure_has_no_end(self, retryable: bool) -> None:
        """A failed call raises with a correct `retryable`, has no `Finished`, and does not affect the next call."""
        async with self.open_model([ModelError("broken", retryable=retryable), "fine"]) as model:
            error, parts = await failure(model)
            assert error.retryable is retryable
            assert not [part for part in parts if isinstance(part, Finished)]
            assert text_of(await deltas(model)) == "fine"

    # "Closing it ends the call"

    async def test_a_stream_can_be_closed_early(self) -> None:
        """A close before or after the first delta affects neither the process nor the next call."""
        async with self.open_model(["one two three", "four five"]) as model:
            async with aclosing(opened(model)) as stream:
                assert isinstance(await anext(stream), TextDelta)
            assert [part async for part in stream] == []
            await opened(model).aclose()
            assert text_of(await deltas(model)) == "four five"

    async def test_simultaneous_calls_do_not_mix(self) -> None:
        """Each of many simultaneous calls has one whole completion."""
        answers = [f"answer {number} to you" for number in range(8)]
        async with self.open_model(answers) as model:
            found = await asyncio.gather(*(deltas(model) for _ in answers))
        assert sorted(text_of(parts) for parts in found) == answers
        assert all(parts.count(Finished()) == 1 for parts in found)

    @pytest.mark.parametrize("step", [1, 2, 3])
    async def test_a_cancelled_call(self, step: int) -> None:
        """A call that is cancelled at any await ends, and the next one has a whole completion."""
        answers = ["one two three", "four five"]
        async with self.open_model(answers) as model:
            work = CancelAt(deltas(model), step)
            async with limited():
                await asyncio.gather(asyncio.ensure_future(work), return_exceptions=True)
                parts = await deltas(model)
        assert text_of(parts) in answers
        assert parts[-1] == Finished()

    async def test_calls_are_closed_beside_others(self) -> None:
        """Calls that are closed after their first delta take nothing from those beside them."""
        async with self.open_model([f"answer {number} to you" for number in range(6)]) as model:

            async def closed() -> None:
                async with aclosing(opened(model)) as stream:
                    await anext(stream)

            _, whole, _, other = await asyncio.gather(closed(), deltas(model), closed(), deltas(model))
        assert (whole[-1], other[-1]) == (Finished(), Finished())
        assert text_of(whole) != text_of(other)
