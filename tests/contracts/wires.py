"""The wire formats of models, each with a stub server, so that one test covers all."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import attrs
from waiting import HANG
from wire_messages import LAST, closes, fills, message_event, message_frames, opens, starts
from wire_stub import DONE, Answer, WireStub, chat_frames, event, frame, pieces

from wfcore.adapters.models.anthropic import AnthropicModel
from wfcore.adapters.models.openai import OpenAIModel
from wfcore.adapters.models.remote import RemoteModel
from wfcore.ports.providers import ModelError
from wfcore.testing.contracts.models import Reply

KEY = "sk-canary-0123456789"


@attrs.frozen
class Wire:
    """A format. `half` begins an answer with the text "hal"; `more` goes on with these characters; `ends` are its last
    events, which must not come to a half answer."""

    model: Callable[..., RemoteModel]
    address: Callable[[str], str]
    variable: str
    frames: Callable[..., list[bytes]]
    half: list[bytes]
    more: Callable[[str], bytes]
    calls: Callable[[str, str], bytes]
    error: Callable[[str, str], bytes]
    odd: list[bytes]
    last: bytes

    def __str__(self) -> str:
        return self.model.__name__

    def says(self, reply: str | Mapping[str, Any], stop: str | None = None) -> Answer:
        return pieces(*self.frames({"content": reply} if isinstance(reply, str) else reply, stop))

    def answers(self, replies: Sequence[Reply]) -> list[Answer]:
        """What the server says for these replies: a failure comes half way through an answer."""
        kinds = {True: "server_error", False: "invalid_request_error"}
        return [
            pieces(*self.half, self.error(kinds[reply.retryable], reply.message))
            if isinstance(reply, ModelError)
            else self.says(reply)
            for reply in replies
        ]

    @asynccontextmanager
    async def serve(self, *answers: Answer, **options: Any) -> AsyncIterator[tuple[RemoteModel, WireStub]]:
        async with WireStub(answers) as stub:
            given: dict[str, Any] = {
                "base_url": self.address(stub.base_url),
                "api_key": KEY,
                "timeout": HANG,
                "max_retries": 0,
            }
            async with self.model("gpt-test", **{**given, **options}) as model:
                yield model, stub


def _chat_call(number: str, arguments: str) -> bytes:
    return frame(tool_calls=[{"index": 0, "id": number, "function": {"name": "time", "arguments": arguments}}])


def _message_call(number: str, arguments: str) -> bytes:
    index = int(number)
    begun = opens(index, "tool_use", id=number, name="time", input={})
    return begun + fills(index, "input_json_delta", partial_json=arguments) + closes(index)


def _message_error(kind: str, words: str) -> bytes:
    return message_event("error", error={"type": kind, "message": words})


CHAT = Wire(
    OpenAIModel,
    str,
    "OPENAI_API_KEY",
    chat_frames,
    [frame("hal")],
    frame,
    _chat_call,
    lambda kind, words: event({"error": {"message": words, "type": kind}}),
    [
        event({"choices": {"a": 1}}),
        event({"choices": [{"delta": {"content": {"a": 1}}}]}),
        frame("half a character: *, and on").replace(b"*", rb"\ud83d"),
        event({"choices": [{"delta": {"tool_calls": {"index": 0}}}]}),
        event({"choices": [{"delta": {"tool_calls": [{"index": "0", "id": "c", "function": {"name": "f"}}]}}]}),
        event({"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "c", "function": {"arguments": "{}"}}]}}]}),
        event({"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "c", "function": {"name": 5}}]}}]}),
    ],
    DONE,
)

MESSAGES = Wire(
    AnthropicModel,
    lambda address: address.removesuffix("/v1"),
    "ANTHROPIC_API_KEY",
    message_frames,
    [starts(), opens(0), fills(0, text="hal")],
    lambda text: fills(0, text=text),
    _message_call,
    _message_error,
    [
        fills(0, text={"a": 1}),
        fills(0, text="half a character: *, and on").replace(b"*", rb"\ud83d"),
        fills(7, text="of no block"),
        fills("0", text="of no block"),  # type: ignore[arg-type]
        fills(0, "input_json_delta", partial_json="{}"),
        opens(0),
        closes(1),
        opens(1, "tool_use", id="c", input={}),
        opens(1, "tool_use", id="c", name=5, input={}),
    ],
    LAST,
)

WIRES = [CHAT, MESSAGES]
