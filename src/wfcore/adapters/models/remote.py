"""A model at the other end of a wire: deadlines, tries and failures, the same for every provider's SDK.

The SDKs come from one generator and share their shape: `APIError` with `APIStatusError` below it, streams of events.
Their own retries are off: they wait as long as a server asks, for weeks if it asks that.
"""

import asyncio
import math
import ssl
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from email.utils import parsedate_to_datetime
from functools import cache
from types import ModuleType, TracebackType
from typing import Any, Final, Self

import httpx2

from wfcore.adapters.models.completions import Completion, unreadable
from wfcore.ports.providers import Delta, ModelError, ModelRequest

NO_KEY: Final = "none"
"""Sent where no key is configured: the SDKs want one."""
LONGEST_REASON: Final = 300
"""Characters of a provider's own words in an error."""
LONGEST_EVENT: Final = 262_144
"""Bytes of one event on the wire, and of the body of an error: SDKs keep an event until it ends."""
LONGEST_WAIT: Final = 60.0
"""Seconds that a call waits between two tries. Who asks for more fails: the run's own retries can wait better."""

TRANSIENT: Final = frozenset({408, 409, 425, 429})
"""Statuses below 500 after which trying again may help."""
FOR_GOOD: Final = frozenset(
    {
        "authentication_error",
        "billing_error",
        "insufficient_quota",
        "invalid_request_error",
        "not_found_error",
        "permission_error",
        "request_too_large",
    }
)
"""Types of errors within a stream after which trying again cannot help."""


class RemoteModel(ABC):
    """What the adapters of providers inherit. They make `_client`, the SDK's, and write `_body`, `_send`, `_answer`.

    Seconds: `timeout` is of silence, `deadline` of the whole call, tries and waits included. A call that fails before
    its answer begins is tried again `max_retries` times, after as long as `Retry-After` asks.
    """

    _client: Any

    def __init__(self, sdk: ModuleType, model: str, *, timeout: float, deadline: float, max_retries: int) -> None:
        for name, seconds in (("timeout", timeout), ("deadline", deadline)):
            if not 0 < seconds < math.inf:
                raise ValueError(f"`{name}` of {seconds} is no number of seconds")
        if max_retries < 0:
            raise ValueError(f"`max_retries` of {max_retries} is below 0")
        self._sdk = sdk
        self._model = model
        self._deadline = deadline
        self._max_retries = max_retries

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._model!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections that are kept open for the next call."""
        await self._client.close()

    @abstractmethod
    def _body(self, request: ModelRequest) -> dict[str, Any]:
        """The request on the wire. ModelError for what it cannot say."""

    @abstractmethod
    async def _send(self, body: dict[str, Any], headers: Mapping[str, str]) -> Any:
        """The stream of events, once the provider begins to answer."""

    @abstractmethod
    def _answer(self, *, tools: bool) -> Completion: ...

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        until = asyncio.get_running_loop().time() + self._deadline
        answer = self._answer(tools=bool(request.tools))
        async with await self._opened(request, until) as events:
            source = aiter(events)
            try:
                while (event := await self._next(source, until)) is not None:
                    for delta in answer.take(event):
                        yield delta
                last = answer.finish()
            except ModelError:
                if answer.usage is not None:
                    yield answer.usage
                raise
            for delta in last:
                yield delta

    async def _opened(self, request: ModelRequest, until: float) -> Any:
        body = self._body(request)
        headers = {"Idempotency-Key": request.key} if request.key else {}
        tries = 0
        while True:
            try:
                async with asyncio.timeout_at(until):
                    return await self._send(body, headers)
            except TimeoutError:
                raise self._late() from None
            except (self._sdk.APIError, httpx2.HTTPError) as error:
                failed, wait = self._failed(error), _wait(error, tries)
            except (TypeError, ValueError, RecursionError) as error:
                raise ModelError(f"the model cannot be told this: {type(error).__name__}", retryable=False) from None
            tries += 1
            soon = wait <= LONGEST_WAIT and asyncio.get_running_loop().time() + wait < until
            if not (failed.retryable and tries <= self._max_retries and soon):
                raise failed
            await asyncio.sleep(wait)

    async def _next(self, events: AsyncIterator[Any], until: float) -> Any:
        """The next event; None at the end."""
        try:
            async with asyncio.timeout_at(until):
                return await anext(events)
        except StopAsyncIteration:
            return None
        except TimeoutError:
            raise self._late() from None
        except (self._sdk.APIError, httpx2.HTTPError) as error:
            raise self._failed(error) from None
        except Exception:  # noqa: BLE001  (the SDKs check nothing: what they raise on odd bytes may be anything)
            raise unreadable() from None

    def _late(self) -> ModelError:
        return ModelError(f"no whole answer of the model within {self._deadline:g} seconds", reason="timeout")

    def _failed(self, error: Exception) -> ModelError:
        status = getattr(error, "status_code", None) or 0
        kind, words = _told(error)
        if (key := self._client.api_key) != NO_KEY:
            words = words.replace(key, "***")
        words = words[:LONGEST_REASON]
        if status < 300:
            return ModelError(f"the model's provider failed: {words}", retryable=kind not in FOR_GOOD)
        retryable = (status in TRANSIENT or status >= 500) and kind != "insufficient_quota"
        return ModelError(f"the model's provider answered {status}: {words}", retryable=retryable)


def _told(error: Exception) -> tuple[str, str]:
    """Type and words of an error as the provider tells it, if it does."""
    body = getattr(error, "body", None)
    told = body.get("error", body) if isinstance(body, dict) else {}
    kind, words = (told.get("type"), told.get("message")) if isinstance(told, dict) else (None, told)
    own = getattr(error, "message", None) or str(error) or type(error).__name__
    return str(kind), words if isinstance(words, str) and words else str(own)


def _wait(error: Exception, tries: int) -> float:
    """Seconds until the next try: what the provider asks for (RFC 9110, Retry-After), else 0.5, 1, 2, ... to 8."""
    response = getattr(error, "response", None)
    asked = response.headers.get("retry-after", "") if response is not None else ""
    try:
        wait = float(asked)
    except ValueError:
        wait = _until(asked)
    return wait if wait >= 0 else min(0.5 * 2.0**tries, 8.0)


def _until(date: str) -> float:
    """Seconds until a date of HTTP; NaN when it is none."""
    try:
        return max(parsedate_to_datetime(date).timestamp() - time.time(), 0.0)
    except (ValueError, OverflowError):
        return math.nan


# The bytes of an answer


def http_client(sdk: ModuleType, timeout: float) -> Any:
    """The SDK's kind of client, with bounded events. It follows no redirect: that would take the key elsewhere."""
    return sdk.DefaultAsyncHttpxClient(
        timeout=timeout,
        headers={"accept-encoding": "identity"},
        event_hooks={"response": [_bound]},
        follow_redirects=False,
        verify=_certificates(),
    )


@cache
def _certificates() -> ssl.SSLContext:
    """Whom to trust. Reading it takes longer than all the rest of a client, and is the same for each."""
    return httpx2.create_ssl_context()


async def _bound(response: httpx2.Response) -> None:
    if response.headers.get("content-encoding", "identity") != "identity":
        raise httpx2.DecodingError("the answer is compressed, though that was not asked for")
    if isinstance(response.stream, httpx2.AsyncByteStream):
        response.stream = _Bounded(response.stream, b"\n\n" if response.is_success else None)


class _Bounded(httpx2.AsyncByteStream):
    """Bytes of which none come more than LONGEST_EVENT after the last separator; without one, no more at all."""

    def __init__(self, stream: httpx2.AsyncByteStream, separator: bytes | None) -> None:
        self._stream = stream
        self._separator = separator

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size, tail = 0, b""
        async for chunk in self._stream:
            size += len(chunk)
            if self._separator is not None:
                seen = (tail + chunk).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
                if (end := seen.rfind(self._separator)) >= 0:
                    size = len(seen) - end - len(self._separator)
                tail = (tail + chunk)[-3:]
            if size > LONGEST_EVENT:
                raise httpx2.ReadError(f"more than {LONGEST_EVENT} bytes without an end")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
