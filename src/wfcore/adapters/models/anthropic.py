"""Models that speak Anthropic's Messages wire format, streamed. Needs the extra `anthropic`."""

import os
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any, Final, TypedDict

from wfcore.adapters.models.completions import (
    Completion,
    call_arguments,
    call_id,
    call_name,
    calls_of,
    content_of,
    images_of,
    token_count,
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

    `model` is the name on the wire. Without `base_url` requests go to Anthropic, and `api_key` can come from the
    environment (`ANTHROPIC_API_KEY`); with one, only the given key is sent there. Seconds, retries, the key of the
    call and closing are as for `OpenAIModel`. The wire requires a bound of the output, thinking included:
    `max_output_tokens`. A response that needs more is cut off and ends with `length`.

    Of the settings `reasoningEffort` is sent as `output_config.effort`, and `none` turns thinking off, which some
    models refuse; the wire has no `minimal`, which is refused here. `contextWindow` bounds the composed context. An
    output schema is sent as `output_config.format`; the provider refuses unsupported ones. Thinking is not part of the
    response, and is not sent back to the model.

    System messages are joined by an empty line and sent as one; adjacent messages of one role become one message; empty
    messages are left out.

    Raises ImportError without the extra; ValueError for invalid seconds, retries or tokens, and without a key where one
    is required.
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
            raise ValueError(f"`max_output_tokens` must be at least 1, not {max_output_tokens}")
        self._max_output_tokens = max_output_tokens
        http = http_client(self._sdk, timeout)
        self._client = self._sdk.AsyncAnthropic(
            api_key=key, base_url=base_url, timeout=timeout, max_retries=0, http_client=http
        )

    async def _send(self, body: dict[str, Any], headers: Mapping[str, str]) -> Any:
        return await self._client.messages.create(**body, extra_headers=headers)

    def _completion(self, *, tools: bool) -> Completion:
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
        raise ModelError(f"the provider `anthropic` does not support `reasoningEffort` `{effort}`", retryable=False)
    if request.output_schema is not None:
        config["format"] = {"type": "json_schema", "schema": dict(request.output_schema)}
    return {**wire, "output_config": config} if config else wire


class _WireMessage(TypedDict):
    role: str
    content: list[JSON]


def _messages(request: ModelRequest) -> list[_WireMessage]:
    """The messages (interface: Conversation) in the format of the wire."""
    wire: list[_WireMessage] = []
    for message in request.messages:
        kind = message.get("type")
        if kind == "system":
            continue
        if not isinstance(kind, str) or kind not in BLOCKS:
            raise ModelError(f"unknown message type `{kind}`: use system, {', '.join(BLOCKS)}", retryable=False)
        role, blocks = "assistant" if kind == "ai" else "user", BLOCKS[kind](message)
        if blocks and wire and wire[-1]["role"] == role:
            wire[-1]["content"] += blocks
        elif blocks:
            wire.append({"role": role, "content": blocks})
    return wire


def _text(message: Mapping[str, JSON]) -> list[JSON]:
    """The text as blocks; the wire refuses a text of white space only."""
    text = content_of(message)
    return [{"type": "text", "text": text}] if text.strip() else []


def _human(message: Mapping[str, JSON]) -> list[JSON]:
    images: list[JSON] = [
        {"type": "image", "source": {"type": "base64", "media_type": mime_type, "data": data}}
        for mime_type, data in images_of(message)
    ]
    return [*images, *_text(message)]


def _ai(message: Mapping[str, JSON]) -> list[JSON]:
    calls: list[JSON] = [
        {"type": "tool_use", "id": call_id(call["id"]), "name": call_name(call), "input": dict(call_arguments(call))}
        for call in calls_of(message)
    ]
    return [*_text(message), *calls]


def _result(message: Mapping[str, JSON]) -> list[JSON]:
    call = call_id(message.get("toolCallId", ""))
    return [{"type": "tool_result", "tool_use_id": call, "content": content_of(message)}]


BLOCKS: Final = {"human": _human, "ai": _ai, "tool": _result}
"""The content blocks of a message of each type."""


def _tools(request: ModelRequest) -> dict[str, JSON]:
    """The tools of the request. Without tools, those of earlier calls with `tool_choice` none: the wire refuses a call
    of a tool that is not declared.
    """
    if request.tools:
        return {"tools": [_tool(tool) for tool in request.tools]}
    called = {call_name(call): None for message in request.messages for call in calls_of(message)}
    if not called:
        return {}
    return {"tools": [_tool(ToolDefinition(name)) for name in called], "tool_choice": {"type": "none"}}


def _tool(tool: ToolDefinition) -> dict[str, JSON]:
    described = {"description": tool.description} if tool.description else {}
    return {"name": tool.name, **described, "input_schema": dict(tool.parameters)}


# From the wire


class Messages(Completion):
    """A completion from events, which open, fill and close blocks. With an open block at the end it is incomplete."""

    def __init__(self, *, tools: bool) -> None:
        super().__init__(tools=tools)
        self._blocks: dict[int, int | None] = {}
        self._counted: dict[str, int] = {}
        self._stop: Any = None

    def read_event(self, event: Any) -> Iterator[Delta]:
        match getattr(event, "type", None):
            case "message_start":
                self._count(getattr(event, "message", None))
            case "content_block_start":
                yield from self._open_block(getattr(event, "index", None), getattr(event, "content_block", None))
            case "content_block_delta":
                yield from self._fill_block(getattr(event, "index", None), getattr(event, "delta", None))
            case "content_block_stop":
                self._blocks.pop(self._index_of(getattr(event, "index", None)))
            case "message_delta":
                self._count(event)
                self._stop = getattr(getattr(event, "delta", None), "stop_reason", None)
            case "message_stop":
                if not self._blocks:
                    self.set_ending(self._stop, ENDINGS)

    def _open_block(self, index: Any, block: Any) -> Iterator[Delta]:
        if not isinstance(index, int) or index in self._blocks or self._reason is not None:
            raise unreadable()
        kind = getattr(block, "type", None)
        self._blocks[index] = self.calls_begun if kind == "tool_use" else None
        if kind == "tool_use":
            yield from self.begin_call(getattr(block, "id", None), getattr(block, "name", None))
            if args := getattr(block, "input", None):
                yield from self.add_arguments(self.calls_begun - 1, dumps(args))
        elif kind == "text":
            yield from self.add_text(getattr(block, "text", None))
        elif kind not in ("thinking", "redacted_thinking"):
            raise ModelError(f"the model's response has an unknown block type `{str(kind)[:40]}`", retryable=False)

    def _fill_block(self, index: Any, delta: Any) -> Iterator[Delta]:
        call = self._blocks[self._index_of(index)]
        kind = getattr(delta, "type", None)
        if kind == "text_delta":
            yield from self.add_text(getattr(delta, "text", None))
        elif kind == "input_json_delta":
            if call is None:
                raise unreadable()
            yield from self.add_arguments(call, getattr(delta, "partial_json", None))

    def _index_of(self, index: Any) -> int:
        if not isinstance(index, int) or index not in self._blocks:
            raise unreadable()
        return index

    def _count(self, message: Any) -> None:
        """Update the usage: each number replaces the one before. Input includes reads from and writes to the cache."""
        usage = getattr(message, "usage", None)
        for name in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens"):
            if (number := token_count(getattr(usage, name, None))) is not None:
                self._counted[name] = number
        if self._counted:
            output = self._counted.get("output_tokens", 0)
            self.usage = TokenUsage(sum(self._counted.values()) - output, output)
