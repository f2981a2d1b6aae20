"""The HTTP client behind the address guard: it checks each connection and each redirect, and bounds size and time.

It ignores proxies of the environment, and keeps neither cookies nor connections. Beside the caller's headers it sends
only `Accept`, `Accept-Encoding`, `User-Agent` and what HTTP/1.1 requires.
"""

import asyncio
import logging
import ssl
import zlib
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Final, Self

import attrs
import httpcore2
import httpx2

from wfcore.adapters.outbound.guard import AddressGuard, AddressRefused, check_url

SECONDS: Final = 300.0
"""Seconds for a whole call, redirects included."""
SECONDS_TO_CONNECT: Final = 10.0
MOST_BYTES: Final = 5 * 2**20
"""Bytes of a body, both compressed and decompressed."""
MOST_HEADER_BYTES: Final = 64 * 2**10
MOST_ADDRESSES: Final = 4
MOST_REDIRECTS: Final = 5
REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
DEFAULTS: Final = {"accept": "*/*", "accept-encoding": "gzip", "user-agent": "wfcore"}
FORWARDED_HEADERS: Final = frozenset({*DEFAULTS, "accept-language", "content-language", "content-type"})
"""The headers that a redirect sends to another origin. Any other header can be a credential."""

NOT_RESOLVED: Final = "the name cannot be resolved"
NOT_CONNECTED: Final = "no connection"
NOT_GZIP: Final = "the body is not valid gzip"
NOT_ONE_MEMBER: Final = "the body is not one complete gzip member"
OWN_TEXTS: Final = frozenset({NOT_RESOLVED, NOT_CONNECTED, NOT_GZIP, NOT_ONE_MEMBER})
"""The messages that this module gives to errors of the libraries."""

HEADERS_TOO_LARGE: Final = 431
"""The status that h11 suggests when it stops to read a head (RFC 6585, 5)."""

MESSAGES: Final[Sequence[tuple[type[httpx2.HTTPError], str]]] = (
    (httpx2.ConnectTimeout, "no connection in time"),
    (httpx2.ConnectError, NOT_CONNECTED),
    (httpx2.RemoteProtocolError, "the response is incomplete or not valid HTTP"),
    (httpx2.LocalProtocolError, "the request is not valid HTTP"),
    (httpx2.NetworkError, "the connection was lost"),
    (httpx2.HTTPError, "no complete response"),
)
"""The message for each kind of error, the first that fits."""

LOGGERS: Final = ("httpcore2.connection", "httpcore2.http11", "httpx2")
"""Loggers of the libraries, whose messages have headers of responses, which can repeat the credentials."""

_logs_muted: Final = ContextVar("_logs_muted", default=False)


class RequestFailed(Exception):
    """There is no connection, or no complete response."""


@attrs.frozen
class HttpResponse:
    """A complete response. Header names are in lower case, repeated headers joined; the body is decompressed."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    has_moved: bool = False
    """Whether it is from another origin than that of the request, which did not receive its credentials."""


class GuardedBackend(httpcore2.AsyncNetworkBackend):
    """Resolves a host once, and connects only to those of its addresses that the guard lets through."""

    def __init__(self, guard: AddressGuard) -> None:
        self._guard = guard
        self._network = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        try:
            addresses = await self._guard.addresses(host, port)
        except OSError:
            raise httpcore2.ConnectError(NOT_RESOLVED) from None
        failed: Exception
        for address in addresses[:MOST_ADDRESSES]:
            try:
                return await self._network.connect_tcp(str(address), port, timeout, local_address, socket_options)
            except httpcore2.ConnectError:
                failed = httpcore2.ConnectError(NOT_CONNECTED)
            except httpcore2.ConnectTimeout as error:
                failed = error
        raise failed


class GuardedTransport(httpx2.AsyncHTTPTransport):
    """The library's transport over guarded connections. No connection is used twice."""

    def __init__(self, guard: AddressGuard) -> None:
        super().__init__(verify=tls())
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=tls(), max_keepalive_connections=0, network_backend=GuardedBackend(guard)
        )


@cache
def tls() -> ssl.SSLContext:
    """Cached: loading the certificate authorities takes tens of milliseconds, so call it in a thread first."""
    return httpcore2.default_ssl_context()


@contextmanager
def muted_logs(names: Iterable[str] = LOGGERS) -> Iterator[None]:
    """Nothing is logged with these names by the block, or by tasks that it begins; others that use the same do log."""
    for name in names:
        logging.getLogger(name).addFilter(_may_log)
    token = _logs_muted.set(True)
    try:
        yield
    finally:
        _logs_muted.reset(token)


def _may_log(record: logging.LogRecord) -> bool:
    return not _logs_muted.get()


@attrs.frozen
class Hop:
    """One request of a chain of redirects. Header names are in lower case."""

    method: str
    url: httpx2.URL
    headers: Mapping[str, str]
    content: bytes | None

    def request(self) -> httpx2.Request:
        headers = [(name.encode(), value.encode()) for name, value in {**DEFAULTS, **self.headers}.items()]
        waits = {"timeout": {"connect": SECONDS_TO_CONNECT}}
        return httpx2.Request(self.method, self.url, headers=headers, content=self.content, extensions=waits)

    def redirected(self, status: int, location: str) -> Self:
        """The request that follows a redirect (RFC 9110, 15.4). Another origin does not receive credentials."""
        url = _parsed(location, self.url)
        if (self.url.scheme, url.scheme) == ("https", "http"):
            raise AddressRefused(f"a redirect leads from https to http: `{url.host}`")
        hop = attrs.evolve(self, url=url)
        if url.origin != self.url.origin:
            hop = attrs.evolve(hop, headers={name: v for name, v in self.headers.items() if name in FORWARDED_HEADERS})
        becomes_get = self.method != "HEAD" if status == 303 else status in (301, 302) and self.method == "POST"
        if becomes_get:
            headers = {name: value for name, value in hop.headers.items() if not name.startswith("content-")}
            hop = attrs.evolve(hop, method="GET", headers=headers, content=None)
        return hop


class Client:
    """Sends requests on behalf of customers. `seconds` bounds a call, `most_bytes` the body of its response."""

    def __init__(self, guard: AddressGuard, *, seconds: float = SECONDS, most_bytes: int = MOST_BYTES) -> None:
        self._guard = guard
        self._seconds = seconds
        self._most_bytes = most_bytes

    async def send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        content: bytes | None = None,
        *,
        follow: bool = True,
    ) -> HttpResponse:
        """The response, of any status. Names in `headers` must be in lower case. `follow` redirects, or return them.

        Raises AddressRefused for a refused address or a response that is too large, RequestFailed when there is no
        complete response.
        """
        hop = Hop(method, _parsed(url), headers, content)
        async with self._sending() as transport:
            return await self._follow(transport, hop, MOST_REDIRECTS if follow else 0)

    async def status(self, method: str, url: str, headers: Mapping[str, str], content: bytes | None = None) -> int:
        """The status of the first response, which can be a redirect; its body is not read. Raises as `send`."""
        hop = Hop(method, _parsed(url), headers, content)
        async with (
            self._sending() as transport,
            aclosing(await transport.handle_async_request(hop.request())) as response,
        ):
            return response.status_code

    @asynccontextmanager
    async def _sending(self) -> AsyncIterator[GuardedTransport]:
        """A transport for one call. Raises RequestFailed for a timeout or an error of the transport."""
        try:
            await asyncio.to_thread(tls)
            with muted_logs():
                async with asyncio.timeout(self._seconds), GuardedTransport(self._guard) as transport:
                    yield transport
        except TimeoutError:
            raise RequestFailed(f"no complete response within {self._seconds:g} seconds") from None
        except httpx2.HTTPError as error:
            raise RequestFailed(_message_of(error)) from None

    async def _follow(self, transport: GuardedTransport, hop: Hop, most: int) -> HttpResponse:
        origin = hop.url.origin
        for _ in range(MOST_REDIRECTS + 1):
            async with aclosing(await transport.handle_async_request(hop.request())) as response:
                _check_headers(response.headers)
                location = response.headers.get("location")
                if response.status_code not in REDIRECTS or not location or not most:
                    return attrs.evolve(await self._complete(response), has_moved=hop.url.origin != origin)
            hop = hop.redirected(response.status_code, location)
        raise AddressRefused(f"more than {MOST_REDIRECTS} redirects")

    async def _complete(self, response: httpx2.Response) -> HttpResponse:
        headers = {name.lower(): value for name, value in response.headers.items()}
        if headers.get("content-encoding", "").lower() not in ("gzip", "x-gzip"):
            return HttpResponse(response.status_code, headers, await _read(response, self._most_bytes))
        body = await _read(response, self._most_bytes, zlib.decompressobj(zlib.MAX_WBITS | 16))
        del headers["content-encoding"]
        headers.pop("content-length", None)
        return HttpResponse(response.status_code, headers, body)


async def _read(response: httpx2.Response, most: int, gunzip: "zlib._Decompress | None" = None) -> bytes:
    """The body, decompressed as it arrives. Decompression stops at the bound, so a small body cannot fill memory."""
    body, received = bytearray(), 0
    async for piece in response.aiter_raw():
        received += len(piece)
        try:
            body += gunzip.decompress(piece, most + 1 - len(body)) if gunzip else piece
        except zlib.error:
            raise httpx2.DecodingError(NOT_GZIP) from None
        if max(received, len(body)) > most:
            raise AddressRefused(f"the response is longer than {most} bytes")
    if gunzip and received and (not gunzip.eof or gunzip.unused_data):
        raise httpx2.DecodingError(NOT_ONE_MEMBER)
    return bytes(body)


def _parsed(text: str, base: httpx2.URL | None = None) -> httpx2.URL:
    """The URL as the library parsed it, which is also what is called. Raises AddressRefused for an invalid one."""
    try:
        if base is None:
            check_url(text)
        url = httpx2.URL(text) if base is None else base.join(text)
    except (httpx2.InvalidURL, ValueError):
        raise AddressRefused(
            "the URL cannot be parsed" if base is None else "a redirect leads to an invalid URL"
        ) from None
    check_url(str(url))
    return url


def _check_headers(headers: httpx2.Headers) -> None:
    if sum(len(name) + len(value) for name, value in headers.raw) > MOST_HEADER_BYTES:
        raise AddressRefused(f"the headers of the response are longer than {MOST_HEADER_BYTES} bytes")


def _message_of(error: httpx2.HTTPError) -> str:
    """What failed, in fixed texts: those of the libraries quote what the server sent, which can be a credential."""
    if (text := str(error)) in OWN_TEXTS:
        return text
    causes = list(_causes(error))
    if any(isinstance(each, ssl.SSLCertVerificationError) for each in causes):
        return "the certificate of the server is not valid for this host"
    if any(isinstance(each, ssl.SSLError) for each in causes):
        return "no TLS connection: the server does not use TLS there, or no supported version"
    if any(getattr(each, "error_status_hint", None) == HEADERS_TOO_LARGE for each in causes):
        return "the headers of the response are too long"
    return next(message for kind, message in MESSAGES if isinstance(error, kind))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error and those that led to it."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
