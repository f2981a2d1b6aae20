"""Models that speak Anthropic's Messages wire format, streamed. Needs the extra `anthropic`."""

import os
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any, Final

from wfcore.adapters.models.completions import (
    Completion,
    content_of,
    images_of,
    said_arguments,
    said_id,
    said_name,
    tokens,
    unreadable,
)
from wfcore.domain.json.codec import dumps
from wfcore.domain.kernel.json_type import JSON
from wfcore.extras import needs_extra
from wfcore.ports.providers import Delta, ModelError, ModelRequest, TokenUsage, ToolDefinition

with needs_extra("anthropic", "a model of the provider `anthropic`"):
    from wfcore.adapters.models.remote import NO_KEY, RemoteModel, http_client

ENDINGS: Final = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}
"""`stop_reason` on the wire to the reason of `Finished`."""

EFFORTS: Final = frozenset({"low", "medium", "high", "xhigh", "max"})


class AnthropicModel(RemoteModel):
    """`wfcore.ports.providers.ModelProvider` over the official SDK.

    `model` is the name on the wire. Without `base_url` it is Anthropic's own, and `api_key` may come from the
    environment (`ANTHROPIC_API_KEY`); with one, no key but the given is ever sent there. Seconds, tries, the key of
    the call and closing are as for `OpenAIModel`. The wire wants a bound of the answer, thinking included:
    `max_output_tokens`. An answer that needs more is not whole and ends for `length`.

    Of the settings `reasoningEffort` is sent as `output_config.effort`, and `none` turns thinking off, which some
    models refuse; the wire has no `minimal`, which is refused here. `contextWindow` bounds what is composed. An output
    schema is sent as `output_config.format`; the provider refuses one beyond what it supports. What the model thinks
    is no part of its answer, and is not told to it again.

    System messages are sent as one, joined by an empty line; neighbours of one role become one message; what is empty
    is left out.

    ImportError without the extra; ValueError for seconds, tries or tokens that are none, and without a key where one
    is needed.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = 60.0,
        deadline: float = 600.0,
        max_retries: int = 2,
        max_output_tokens: int = 32_000,
    ) -> None:
        super().__init__(_sdk(), model, timeout=timeout, deadline=deadline, max_retries=max_retries)
        key = api_key or (NO_KEY if base_url is not None else os.environ.get("ANTHROPIC_API_KEY"))
        if not key:
            raise ValueError(f"model `{model}` needs an `api_key`, or ANTHROPIC_API_KEY in the environment")
        if max_output_tokens < 1:
            raise ValueError(f"`max_output_tokens` of {max_output_tokens} is below 1")
        self._max_output_tokens = max_output_tokens
        http = http_client(self._sdk, timeout)
        self._client = self._sdk.AsyncAnthropic(
            api_key=key, base_url=base_url, timeout=timeout, max_retries=0, http_client=http
        )

    async def _send(self, body: dict[str, Any], headers: Mapping[str, str]) -> Any:
        return await self._client.messages.create(**body, extra_headers=headers)

    def _answer(self, *, tools: bool) -> Completion:
        return Messages(tools=tools)

    def _body(self, request: ModelRequest) -> dict[str, Any]:
        system = [
            text for message in request.messages if message.get("type") == "system" if (text := content_of(message))
        ]
        body: dict[str, Any] = {
            "model": self._model,
            "max_tokens": self._max_output_tokens,
            "messages": _messages(request),
            "stream": True,
        }
        if system:
            body["system"] = "\n\n".join(system)
        return body | _tools(request) | _settings(request)


def _sdk() -> ModuleType:
    with needs_extra("anthropic", "a model of the provider `anthropic`"):
        import anthropic

    return anthropic


# To the wire


def _settings(request: ModelRequest) -> dict[str, JSON]:
    wire: dict[str, JSON] = {}
    config: dict[str, JSON] = {}
    effort = request.settings.get("reasoningEffort")
    if effort in EFFORTS:
        config["effort"] = effort
    elif effort == "none":
        wire["thinking"] = {"type": "disabled"}
    elif effort is not None:
        raise ModelError(f"a model of the provider `anthropic` has no `reasoningEffort` of `{effort}`", retryable=False)
    if request.output_schema is not None:
        config["format"] = {"type": "json_schema", "schema": dict(request.output_schema)}
    return {**wire, "output_config": config} if config else wire


def _messages(request: ModelRequest) -> list[dict[str, JSON]]:
    """The messages of the interface (Conversation) as those of the wire."""
    wire: list[dict[str, JSON]] = []
    for message in request.messages:
        kind = message.get("type")
        if kind == "system":
            continue
        if kind not in BLOCKS:
            raise ModelError(f"there is no message of type `{kind}`", retryable=False)
        role, blocks = "assistant" if kind == "ai" else "user", BLOCKS[kind](message)
        if blocks and wire and wire[-1]["role"] == role:
            wire[-1]["content"] += blocks
        elif blocks:
            wire.append({"role": role, "content": blocks})
    return wire


def _text(message: Mapping[str, JSON]) -> list[dict[str, JSON]]:
    """The wire refuses a text of nothing but white space."""
    text = content_of(message)
    return [{"type": "text", "text": text}] if text.strip() else []


def _human(message: Mapping[str, JSON]) -> list[dict[str, JSON]]:
    images = [
        {"type": "image", "source": {"type": "base64", "media_type": mime_type, "data": data}}
        for mime_type, data in images_of(message)
    ]
    return [*images, *_text(message)]


def _ai(message: Mapping[str, JSON]) -> list[dict[str, JSON]]:
    calls = [
        {"type": "tool_use", "id": said_id(call["id"]), "name": said_name(call), "input": dict(said_arguments(call))}
        for call in message.get("toolCalls") or ()
    ]
    return [*_text(message), *calls]


def _result(message: Mapping[str, JSON]) -> list[dict[str, JSON]]:
    call = said_id(message.get("toolCallId", ""))
    return [{"type": "tool_result", "tool_use_id": call, "content": content_of(message)}]


BLOCKS: Final = {"human": _human, "ai": _ai, "tool": _result}
"""What a message of each type is made of on the wire."""


def _tools(request: ModelRequest) -> dict[str, JSON]:
    """The tools; without any, those that were called before, not to be called again: the wire knows no call of a tool
    that it is not told of."""
    if request.tools:
        return {"tools": [_tool(tool) for tool in request.tools]}
    called = {said_name(call): None for message in request.messages for call in message.get("toolCalls") or ()}
    if not called:
        return {}
    return {"tools": [_tool(ToolDefinition(name)) for name in called], "tool_choice": {"type": "none"}}


def _tool(tool: ToolDefinition) -> dict[str, JSON]:
    described = {"description": tool.description} if tool.description else {}
    return {"name": tool.name, **described, "input_schema": dict(tool.parameters)}


# From the wire


class Messages(Completion):
    """Events of a message: blocks are opened, filled and closed. One that is open at the end is half an answer."""

    def __init__(self, *, tools: bool) -> None:
        super().__init__(tools=tools)
        self._blocks: dict[int, int | None] = {}
        self._counted: dict[str, int] = {}
        self._stop: Any = None

    def take(self, event: Any) -> Iterator[Delta]:
        match getattr(event, "type", None):
            case "message_start":
                self._count(getattr(event, "message", None))
            case "content_block_start":
                yield from self._opens(getattr(event, "index", None), getattr(event, "content_block", None))
            case "content_block_delta":
                yield from self._fills(getattr(event, "index", None), getattr(event, "delta", None))
            case "content_block_stop":
                self._blocks.pop(self._known(getattr(event, "index", None)))
            case "message_delta":
                self._count(event)
                self._stop = getattr(getattr(event, "delta", None), "stop_reason", None)
            case "message_stop":
                if not self._blocks:
                    self.ends(self._stop, ENDINGS)

    def _opens(self, index: Any, block: Any) -> Iterator[Delta]:
        if not isinstance(index, int) or index in self._blocks:
            raise unreadable()
        kind = getattr(block, "type", None)
        self._blocks[index] = self.begun if kind == "tool_use" else None
        if kind == "tool_use":
            yield from self.begin(getattr(block, "id", None), getattr(block, "name", None))
            if args := getattr(block, "input", None):
                yield from self.go_on(self.begun - 1, dumps(args))
        elif kind == "text":
            yield from self.say(getattr(block, "text", None))
        elif kind not in ("thinking", "redacted_thinking"):
            raise ModelError(f"the model answered with a block of type `{str(kind)[:40]}`", retryable=False)

    def _fills(self, index: Any, delta: Any) -> Iterator[Delta]:
        call = self._blocks[self._known(index)]
        kind = getattr(delta, "type", None)
        if kind == "text_delta":
            yield from self.say(getattr(delta, "text", None))
        elif kind == "input_json_delta":
            if call is None:
                raise unreadable()
            yield from self.go_on(call, getattr(delta, "partial_json", None))

    def _known(self, index: Any) -> int:
        if not isinstance(index, int) or index not in self._blocks:
            raise unreadable()
        return index

    def _count(self, message: Any) -> None:
        """Tokens so far: each number replaces the one before; what is read from a cache and written to it was asked."""
        told = getattr(message, "usage", None)
        for name in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens"):
            if (number := tokens(getattr(told, name, None))) is not None:
                self._counted[name] = number
        if self._counted:
            answered = self._counted.get("output_tokens", 0)
            self.usage = TokenUsage(sum(self._counted.values()) - answered, answered)
