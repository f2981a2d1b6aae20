"""Models that speak the Chat Completions wire format, streamed, at any address. Needs the extra `openai`."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from wfcore.domain.codec import dumps
from wfcore.domain.errors import JSON
from wfcore.ports.providers import Delta, Finished, ModelError, ModelRequest, TextDelta, Usage

if TYPE_CHECKING:
    from openai import APIError

LONGEST_REASON: Final = 300
"""Characters of a provider's own words in an error."""

ROLES: Final = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}
ENDINGS: Final = {"stop": "stop", "length": "length", "content_filter": "refusal"}
"""`finish_reason` on the wire to the reason of `Finished`."""

UNREADABLE: Final = "the model's answer cannot be read: it is no Chat Completions stream"

TRANSIENT: Final = frozenset({408, 409, 425, 429})
"""Statuses below 500 after which trying again may help."""


class OpenAIModel:
    """`wfcore.ports.providers.ModelProvider` over the official SDK.

    `model` is the name on the wire. Without `base_url` it is OpenAI's own, and `api_key` may come from the
    environment (`OPENAI_API_KEY`); with one, no key but the given is ever sent there. `timeout` is in seconds, of
    silence and not of the whole answer. A call that fails before its answer begins is tried again `max_retries`
    times by the SDK, which waits as long as `Retry-After` asks.

    Of the settings `reasoningEffort` is sent; `contextWindow` has no place on the wire: it bounds what is composed.
    The key of the call is sent as `Idempotency-Key`. One instance belongs to one event loop; `close` it at the end,
    or use it in `async with`.

    ImportError without the extra; ValueError without a key where one is needed.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = 60.0,
        max_retries: int = 2,
    ) -> None:
        self._sdk = _sdk()
        self._model = model
        key = api_key if base_url is None else api_key or "none"
        try:
            self._client = self._sdk.AsyncOpenAI(
                api_key=key, base_url=base_url, timeout=timeout, max_retries=max_retries
            )
        except self._sdk.OpenAIError:
            raise ValueError(f"model `{model}` needs an `api_key`, or OPENAI_API_KEY in the environment") from None

    def __repr__(self) -> str:
        return f"OpenAIModel({self._model!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections that are kept open for the next call."""
        await self._client.close()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        body = _body(self._model, request)
        headers = {"Idempotency-Key": request.key} if request.key else {}
        try:
            chunks = await self._client.chat.completions.create(**body, extra_headers=headers)
            async with chunks, aclosing(_deltas(chunks)) as deltas:
                async for delta in deltas:
                    yield delta
        except self._sdk.APIError as error:
            raise self._failed(error) from None
        except ValueError:
            raise ModelError(UNREADABLE) from None

    def _failed(self, error: "APIError") -> ModelError:
        status = getattr(error, "status_code", None)
        words = error.message.replace(self._client.api_key, "***")[:LONGEST_REASON]
        if status is None:
            retryable = error.type != "invalid_request_error"
            return ModelError(f"the model's provider failed: {words}", retryable=retryable)
        retryable = status in TRANSIENT or status >= 500
        return ModelError(f"the model's provider answered {status}: {words}", retryable=retryable)


def _sdk() -> ModuleType:
    try:
        import openai
    except ImportError:
        raise ImportError("models of the provider `openai` need an extra: pip install 'wfcore[openai]'") from None
    return openai


# To the wire


def _body(model: str, request: ModelRequest) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": model,
        "messages": [_message(message) for message in request.messages],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if effort := request.settings.get("reasoningEffort"):
        body["reasoning_effort"] = effort
    if request.output_schema is not None:
        wanted = {"name": "output", "schema": dict(request.output_schema)}
        body["response_format"] = {"type": "json_schema", "json_schema": wanted}
    return body


def _message(message: Mapping[str, JSON]) -> dict[str, JSON]:
    """A message of the interface (Conversation) as one of the wire."""
    kind = message.get("type")
    if kind not in ROLES:
        raise ModelError(f"there is no message of type `{kind}`", retryable=False)
    wire = {"role": ROLES[kind], "content": message.get("content", "")}
    if kind == "tool":
        wire["tool_call_id"] = message.get("toolCallId", "")
    elif kind == "ai" and message.get("toolCalls"):
        wire["tool_calls"] = [_tool_call(call) for call in message["toolCalls"]]
    return wire


def _tool_call(call: Mapping[str, JSON]) -> dict[str, JSON]:
    function = {"name": call["name"], "arguments": dumps(call.get("args", {}))}
    return {"id": call["id"], "type": "function", "function": function}


# From the wire. The SDK validates nothing: what is read here is checked here.


async def _deltas(chunks: AsyncIterator[Any]) -> AsyncGenerator[Delta, None]:
    """The answer in parts; `ModelError` for one that is not whole, or no text. Text is given on as it comes."""
    usage: Usage | None = None
    reason: str | None = None
    async for chunk in chunks:
        usage = _usage(chunk) or usage
        for choice in _choices(chunk):
            text, refused = _text(choice)
            if text:
                yield TextDelta(text)
            ending = _ending(getattr(choice, "finish_reason", None))
            reason = "refusal" if refused or reason == "refusal" else ending or reason
    if reason is None:
        raise ModelError("the model broke off before its answer was whole")
    if usage is not None:
        yield usage
    yield Finished(reason)


def _choices(chunk: Any) -> list[Any]:
    """The first choice, if the chunk has one: chunks with usage alone have none."""
    choices = getattr(chunk, "choices", None)
    if choices is not None and not isinstance(choices, list):
        raise ModelError(UNREADABLE)
    return (choices or [])[:1]


def _text(choice: Any) -> tuple[str, bool]:
    """What the model goes on to say, and whether it is a refusal: that is no answer."""
    delta = getattr(choice, "delta", None)
    if getattr(delta, "tool_calls", None) or getattr(delta, "function_call", None):
        raise ModelError("the model asked for a tool, and has none", retryable=False)
    text = getattr(delta, "content", None) or ""
    if not isinstance(text, str):
        raise ModelError(UNREADABLE)
    return text, bool(getattr(delta, "refusal", None))


def _ending(finish_reason: Any) -> str | None:
    if finish_reason is None:
        return None
    ending = ENDINGS.get(str(finish_reason))
    if ending is None:
        raise ModelError(f"the model ended with `{str(finish_reason)[:40]}`", retryable=False)
    return ending


def _usage(chunk: Any) -> Usage | None:
    told = getattr(chunk, "usage", None)
    asked, answered = getattr(told, "prompt_tokens", None), getattr(told, "completion_tokens", None)
    return Usage(asked, answered) if isinstance(asked, int) and isinstance(answered, int) else None
