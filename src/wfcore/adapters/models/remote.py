"""A remote model: deadlines, retries and failures, the same for every provider's SDK.

The SDKs come from one generator and share their structure: `APIError` with `APIStatusError` below it, streams of
events. Their own retries are off: they wait as long as a server demands, without a limit.
"""

import asyncio
import math
import ssl
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import cache
from types import ModuleType, TracebackType
from typing import Any, Final, Self

import httpx2

from wfcore.adapters.models.completions import Completion, unreadable
from wfcore.domain.agents.secret_masks import SHORTEST_PART, SecretMask
from wfcore.domain.json.parsing import parse_json
from wfcore.domain.kernel.errors import Malformed
from wfcore.domain.run.effects import INCOMPLETE
from wfcore.ports.providers import Delta, ModelError, ModelRequest

NO_KEY: Final = "none"
"""Sent where no key is configured: the SDKs require one."""
LONGEST_REASON: Final = 300
"""Characters of a provider's own message in an error."""
LONGEST_ERROR: Final = 8_192
"""Bytes of a body without events that are read as an error."""
LONGEST_EVENT: Final = 262_144
"""Bytes of one event on the wire, and of the body of an error: SDKs buffer a whole event."""
LONGEST_WAIT: Final = 60.0
"""Seconds that a call waits between two attempts. If the server demands more, the call fails: the run can retry later.
"""

TRANSIENT: Final = frozenset({408, 409, 425, 429})
"""Statuses below 500 after which a retry can succeed."""
PERMANENT: Final = frozenset(
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
"""Types of errors within a stream after which a retry cannot succeed."""


class RemoteModel(ABC):
    """The base class of providers. They set `_client` to the SDK's and implement `_body`, `_send` and `_completion`.

    Seconds: `timeout` bounds the time without data, `deadline` the whole call, retries and waits included. A call that
    fails before its response begins is tried again `max_retries` times, after the time in `Retry-After`.
    """

    _client: Any

    def __init__(self, sdk: ModuleType, model: str, *, timeout: float, deadline: float, max_retries: int) -> None:
        for name, seconds in (("timeout", timeout), ("deadline", deadline)):
            if not 0 < seconds < math.inf:
                raise ValueError(f"`{name}` must be a positive, finite number of seconds, not {seconds}")
        if max_retries < 0:
            raise ValueError(f"`max_retries` must be at least 0, not {max_retries}")
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
        """The body of the request. Raises ModelError for content that the wire does not support."""

    @abstractmethod
    async def _send(self, body: dict[str, Any], headers: Mapping[str, str]) -> Any:
        """The stream of events, once the response begins."""

    @abstractmethod
    def _completion(self, *, tools: bool) -> Completion:
        """A new completion. `tools`: whether the request has tools."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        until = asyncio.get_running_loop().time() + self._deadline
        completion = self._completion(tools=bool(request.tools))
        async with await self._opened(request, until) as events:
            source, has_events = aiter(events), False
            try:
                while (event := await self._next(source, until)) is not None:
                    has_events = True
                    for delta in completion.read_event(event):
                        yield delta
                if not has_events:
                    self._check_body(events.response)
                last = completion.finish()
            except ModelError:
                if completion.usage is not None:
                    yield completion.usage
                raise
            for delta in last:
                yield delta

    async def _opened(self, request: ModelRequest, until: float) -> Any:
        body = self._body(request)
        headers = {"Idempotency-Key": request.key} if request.key else {}
        attempts = 0
        while True:
            try:
                async with asyncio.timeout_at(until):
                    return await self._send(body, headers)
            except TimeoutError:
                raise self._timed_out() from None
            except (self._sdk.APIError, httpx2.HTTPError) as error:
                failed, wait = self._failed(error), _wait(error, attempts)
            except (TypeError, ValueError, RecursionError) as error:
                raise ModelError(f"the request cannot be encoded: {type(error).__name__}", retryable=False) from None
            attempts += 1
            in_time = wait <= LONGEST_WAIT and asyncio.get_running_loop().time() + wait < until
            if not (failed.retryable and attempts <= self._max_retries and in_time):
                raise failed
            await asyncio.sleep(wait)

    def _check_body(self, response: Any) -> None:
        """Raises ModelError for a body without events that says why, such as an error with status 200, or is of another
        type.
        """
        kind = response.headers.get("content-type", "").partition(";")[0].strip()
        try:
            body = parse_json(response.stream.begin)
        except Malformed:
            body = None
        if body is None and kind in ("", "text/event-stream"):
            return
        error, message = _sent_details(body, f"it sent `{kind[:40]}` instead of a stream of events")
        failed = self._failure(0, error, message)
        raise ModelError(failed.message, retryable=failed.retryable, reason=INCOMPLETE)

    async def _next(self, events: AsyncIterator[Any], until: float) -> Any:
        """The next event; None at the end."""
        try:
            async with asyncio.timeout_at(until):
                return await anext(events)
        except StopAsyncIteration:
            return None
        except TimeoutError:
            raise self._timed_out() from None
        except (self._sdk.APIError, httpx2.HTTPError) as error:
            failed = self._failed(error)
            raise ModelError(failed.message, retryable=failed.retryable, reason=INCOMPLETE) from None
        except Exception:  # noqa: BLE001  (the SDKs do not validate: malformed bytes can raise any error)
            raise unreadable() from None

    def _timed_out(self) -> ModelError:
        return ModelError(f"no complete response of the model within {self._deadline:g} seconds", reason="timeout")

    def _failed(self, error: Exception) -> ModelError:
        return self._failure(getattr(error, "status_code", None) or 0, *_error_details(error))

    def _failure(self, status: int, kind: str, message: str) -> ModelError:
        """The failure with this status, 0 for none, and the type and message of the provider."""
        message = SecretMask.of([self._client.api_key], SHORTEST_PART).text(message[:LONGEST_REASON])
        if status < 300:
            return ModelError(f"the model's provider failed: {message}", retryable=kind not in PERMANENT)
        retryable = (status in TRANSIENT or status >= 500) and kind != "insufficient_quota"
        return ModelError(f"the model's provider responded with status {status}: {message}", retryable=retryable)


def _error_details(error: Exception) -> tuple[str, str]:
    """Type and message of an error, those of the provider if it sent them."""
    own = getattr(error, "message", None) or str(error) or type(error).__name__
    return _sent_details(getattr(error, "body", None), str(own))


def _sent_details(body: Any, own: str) -> tuple[str, str]:
    """Type and message of the error in a body; `own` if it has no message."""
    sent = body.get("error", body) if isinstance(body, dict) else {}
    kind, message = (sent.get("type"), sent.get("message")) if isinstance(sent, dict) else (None, sent)
    return str(kind), message if isinstance(message, str) and message else own


def _wait(error: Exception, attempts: int) -> float:
    """Seconds until the next attempt: the `Retry-After` of the response (RFC 9110), else 0.5, 1, 2, ... to 8."""
    response = getattr(error, "response", None)
    headers = {} if response is None else response.headers
    header = headers.get("retry-after", "")
    try:
        wait = float(header)
    except ValueError:
        wait = _until(header, headers.get("date"))
    return wait if wait >= 0 else min(0.5 * 2.0**attempts, 8.0)


def _until(date: str, sent: str | None) -> float:
    """Seconds from the `Date` of a response, if it has one, until an HTTP date; NaN for an invalid one."""
    try:
        now = time.time() if sent is None else _seconds(sent)
        return max(_seconds(date) - now, 0.0)
    except (ValueError, OverflowError):
        return math.nan


def _seconds(date: str) -> float:
    """An HTTP date in seconds since 1970. Its oldest format names no zone: it is in UTC (RFC 9110, 5.6.7)."""
    found = parsedate_to_datetime(date)
    return found.replace(tzinfo=found.tzinfo or UTC).timestamp()


# The bytes of a response


def http_client(sdk: ModuleType, timeout: float) -> Any:
    """A client of the SDK, with bounded events. It does not follow redirects: they would send the key elsewhere."""
    return sdk.DefaultAsyncHttpxClient(
        timeout=timeout,
        headers={"accept-encoding": "identity"},
        event_hooks={"response": [_bound_events]},
        follow_redirects=False,
        verify=_certificates(),
    )


@cache
def _certificates() -> ssl.SSLContext:
    """The trusted certificate authorities, cached: reading them takes longer than the rest of a client."""
    return httpx2.create_ssl_context()


async def _bound_events(response: httpx2.Response) -> None:
    if response.headers.get("content-encoding", "identity") != "identity":
        raise httpx2.DecodingError("the response is compressed, which was not requested")
    if isinstance(response.stream, httpx2.AsyncByteStream):
        response.stream = _Bounded(response.stream, b"\n\n" if response.is_success else None)


class _Bounded(httpx2.AsyncByteStream):
    """A stream with at most LONGEST_EVENT bytes after each separator; with no separator, at most so many in all.

    `begin` is what it began with, LONGEST_ERROR bytes at most.
    """

    def __init__(self, stream: httpx2.AsyncByteStream, separator: bytes | None) -> None:
        self.begin = b""
        self._stream = stream
        self._separator = separator

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size, tail = 0, b""
        async for chunk in self._stream:
            size += len(chunk)
            self.begin += chunk[: LONGEST_ERROR - len(self.begin)]
            if self._separator is not None:
                seen = (tail + chunk).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
                if (end := seen.rfind(self._separator)) >= 0:
                    size = len(seen) - end - len(self._separator)
                tail = (tail + chunk)[-3:]
            if size > LONGEST_EVENT:
                raise httpx2.ReadError(f"one event has more than {LONGEST_EVENT} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
