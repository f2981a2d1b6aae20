"""Models that speak the Chat Completions wire format, streamed, at any address. Needs the extra `openai`."""

from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any, Final

from wfcore.adapters.models.completions import (
    Completion,
    call_arguments,
    call_id,
    call_name,
    calls_of,
    images_of,
    list_or_empty,
    token_count,
    unreadable,
)
from wfcore.domain.json.codec import dumps
from wfcore.domain.kernel.json_type import JSON
from wfcore.extras import needs_extra
from wfcore.ports.providers import Delta, ModelError, ModelRequest, TokenUsage, ToolDefinition

with needs_extra("openai", "a model of the provider `openai`"):
    from wfcore.adapters.models.remote import NO_KEY, RemoteModel, http_client

ROLES: Final = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}
ENDINGS: Final = {"stop": "stop", "length": "length", "content_filter": "refusal", "tool_calls": "tool_calls"}
"""`finish_reason` on the wire to the reason of `Finished`."""


class OpenAIModel(RemoteModel):
    """`wfcore.ports.providers.ModelProvider` over the official SDK.

    `model` is the name on the wire. Without `base_url` requests go to OpenAI, and `api_key` can come from the
    environment (`OPENAI_API_KEY`); with one, only the given key is sent there. Seconds: `timeout` bounds the time
    without data, `deadline` the whole call, retries and waits included. A call that fails before its response begins
    is tried again `max_retries` times, after the time in `Retry-After`, up to a minute.

    Of the settings only `reasoningEffort` is sent; `contextWindow` bounds the composed context instead. The key of the
    call is sent as `Idempotency-Key`. One instance belongs to one event loop; `close` it at the end, or use it in
    `async with`.

    Raises ImportError without the extra; ValueError for invalid seconds or retries, and without a key where one is
    required.
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
    ) -> None:
        super().__init__(_sdk(), model, timeout=timeout, deadline=deadline, max_retries=max_retries)
        key = api_key if base_url is None else api_key or NO_KEY
        http = http_client(self._sdk, timeout)
        try:
            self._client = self._sdk.AsyncOpenAI(
                api_key=key, base_url=base_url, timeout=timeout, max_retries=0, http_client=http
            )
        except self._sdk.OpenAIError:
            raise ValueError(f"model `{model}` needs an `api_key`, or OPENAI_API_KEY in the environment") from None

    async def _send(self, body: dict[str, Any], headers: Mapping[str, str]) -> Any:
        return await self._client.chat.completions.create(**body, extra_headers=headers)

    def _completion(self, *, tools: bool) -> Completion:
        return ChatCompletion(tools=tools)

    def _body(self, request: ModelRequest) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self._model,
            "messages": [_message(message) for message in request.messages],
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if request.tools:
            body["tools"] = [_tool(tool) for tool in request.tools]
        if effort := request.settings.get("reasoningEffort"):
            body["reasoning_effort"] = effort
        if request.output_schema is not None:
            wanted = {"name": "output", "schema": dict(request.output_schema)}
            body["response_format"] = {"type": "json_schema", "json_schema": wanted}
        return body


def _sdk() -> ModuleType:
    with needs_extra("openai", "a model of the provider `openai`"):
        import openai

    return openai


# To the wire


def _message(message: Mapping[str, JSON]) -> dict[str, JSON]:
    """A message (interface: Conversation) in the format of the wire."""
    kind = message.get("type")
    if kind not in ROLES:
        raise ModelError(f"unknown message type `{kind}`: use {', '.join(ROLES)}", retryable=False)
    wire = {"role": ROLES[kind], "content": _content(message)}
    if kind == "tool":
        wire["tool_call_id"] = call_id(message.get("toolCallId", ""))
    elif kind == "ai" and (calls := calls_of(message)):
        wire["tool_calls"] = [_tool_call(call) for call in calls]
    return wire


def _content(message: Mapping[str, JSON]) -> JSON:
    text = message.get("content", "")
    images: list[JSON] = [
        {"type": "image_url", "image_url": {"url": f"data:{mime_type};base64,{data}"}}
        for mime_type, data in images_of(message)
    ]
    if not images:
        return text
    return [{"type": "text", "text": text}, *images] if text else images


def _tool_call(call: Mapping[str, JSON]) -> dict[str, JSON]:
    function = {"name": call_name(call), "arguments": dumps(call_arguments(call))}
    return {"id": call_id(call["id"]), "type": "function", "function": function}


def _tool(tool: ToolDefinition) -> dict[str, JSON]:
    described = {"description": tool.description} if tool.description else {}
    parameters = dict(tool.parameters)
    if parameters.get("type") == "object":
        parameters.setdefault("properties", {})  # OpenAI refuses an object schema without it
    return {"type": "function", "function": {"name": tool.name, **described, "parameters": parameters}}


# From the wire


class ChatCompletion(Completion):
    """A completion from chunks. Servers use the index of tool calls differently: a new id begins a new call, and so
    does a name without an id and an index.
    """

    def __init__(self, *, tools: bool) -> None:
        super().__init__(tools=tools)
        self._open: dict[int | None, tuple[Any, int]] = {}

    def read_event(self, event: Any) -> Iterator[Delta]:
        self.usage = _usage(event) or self.usage
        for choice in list_or_empty(getattr(event, "choices", None)):
            if getattr(choice, "index", None) not in (None, 0):
                continue  # one choice was requested: the text of another would be mixed into it
            delta = getattr(choice, "delta", None)
            yield from self.add_text(getattr(delta, "content", None))
            for fragment in list_or_empty(getattr(delta, "tool_calls", None)):
                yield from self._fragment(fragment)
            self.set_ending("content_filter" if getattr(delta, "refusal", None) else None, ENDINGS)
            self.set_ending(getattr(choice, "finish_reason", None) or None, ENDINGS)  # some servers send ""

    def _fragment(self, fragment: Any) -> Iterator[Delta]:
        index, call = getattr(fragment, "index", None), getattr(fragment, "id", None)
        function = getattr(fragment, "function", None)
        if not (index is None or isinstance(index, int)):
            raise unreadable()
        name = getattr(function, "name", None)
        if index not in self._open or (call and call != self._open[index][0]) or (name and index is None and not call):
            self._open[index] = (call, self.calls_begun)
            yield from self.begin_call(call, name)
        yield from self.add_arguments(self._open[index][1], getattr(function, "arguments", None))


def _usage(event: Any) -> TokenUsage | None:
    usage = getattr(event, "usage", None)
    prompt, completion = (
        token_count(getattr(usage, "prompt_tokens", None)),
        token_count(getattr(usage, "completion_tokens", None)),
    )
    return None if prompt is None or completion is None else TokenUsage(prompt, completion)
