"""The ASGI application: authentication, token scopes, body and use case, in this order, with the error envelope."""

import hashlib
import logging
import secrets
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from wfcore.adapters.http.core.access_log import RequestLog
from wfcore.adapters.http.core.admission import Admission
from wfcore.adapters.http.core.authentication import (
    Authenticate,
    AuthenticateOrSync,
    by_token,
    challenge,
    or_by_embed_token,
    origin_of,
)
from wfcore.adapters.http.core.cors import cors_headers, is_preflight
from wfcore.adapters.http.core.event_response import Stalled
from wfcore.adapters.http.core.origins import Site
from wfcore.adapters.http.core.rate_limits import FailedAuthentications, RateLimits
from wfcore.adapters.http.core.refusals import is_streamed, refused_stream
from wfcore.adapters.http.core.request_headers import TabledRequest
from wfcore.adapters.http.core.request_parsing import BodyLimits, Disconnected, parse_body, read_body, read_query
from wfcore.adapters.http.core.responses import error_response, for_client, safe_request_id, tagged, unless_known
from wfcore.adapters.http.core.route import Call, Route
from wfcore.adapters.http.core.router import Router, segments_of
from wfcore.adapters.http.core.sse import EventStream
from wfcore.adapters.http.core.stream_guard import StreamGuard
from wfcore.adapters.http.openapi.reference import ReferenceRoutes
from wfcore.adapters.http.route_table import Services, route_table
from wfcore.adapters.http.routes.metrics import MetricsPage
from wfcore.adapters.http.routes.oauth import METADATA_PATH
from wfcore.adapters.http.studio.branding import STUDIO, Studio
from wfcore.adapters.http.studio.document import StudioDocument
from wfcore.adapters.http.studio.routes import StudioFileRoutes, StudioRoutes
from wfcore.domain.kernel.errors import NotFound, Unavailable, WfcoreError
from wfcore.domain.kernel.ids import parse_id
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal
from wfcore.ports.faults import log_failure
from wfcore.ports.identity import TokenVerifier
from wfcore.ports.repositories.audit import ORIGIN, Origin
from wfcore.ports.telemetry import Exposition
from wfcore.runtime.common.authorization import check_scopes
from wfcore.runtime.common.requests import PageTokens
from wfcore.runtime.organization.directory import unauthenticated
from wfcore.runtime.runs.open_streams import OpenStreams

logger = logging.getLogger(__name__)

DEPRECATED_SINCE = "@1767225600"
"""2026-01-01T00:00:00Z as RFC 9745 writes it."""

PROBES: Final = frozenset({"/healthz", "/readyz", "/metrics"})
"""Routes that probes call by the address of the machine: with any `Host`."""

_HEADERS: Final = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}


def app(
    core: Services,
    *,
    authenticate: AuthenticateOrSync | None = None,
    oauth: TokenVerifier | None = None,
    mount: str = "",
    secret: bytes | None = None,
    max_request_bytes: int | None = None,
    receive_timeout: float = 30.0,
    metrics: Exposition | None = None,
    metrics_token: str | None = None,
    studio: Studio | None = STUDIO,
    browser_origins: Iterable[str] = (),
    allowed_hosts: Iterable[str] = (),
    public_url: str | None = None,
    failed_authentications_per_minute: int | None = None,
) -> ASGIApp:
    """Both APIs over an open core, to be served alone or mounted in an existing application.

    `authenticate`, sync or async, returns the principal of a request; embed tokens (`core.tokens.embed`) are accepted
    beside it. Without it, personal access tokens are accepted and, with `oauth` (`wfcore.adapters.oauth.AccessTokens`),
    also the access tokens of that issuer. `mount` is the path prefix where no outer application sets `root_path`.
    `secret` seals page tokens: processes that serve the same clients must share it. Without it, it is derived from the
    secret key of the core; on a server without a key, page tokens are valid only in this process. `max_request_bytes`
    is the size limit of a body (default: the core's settings), `receive_timeout` the seconds that it can take to
    arrive. `metrics` are served at `/metrics`; with `metrics_token`, only to requests with that bearer token. `studio`
    has the name and colours of the pages at `/studio/`; None leaves them out.

    A request that changes something and has no `Authorization` header must come from a page of this server or of
    `browser_origins` (such as `https://app.example.org`), else it is a 403. Pages of `browser_origins` can also call
    the API with a bearer token (CORS, without cookies). `allowed_hosts` are the names of this
    server without a port: a request with another `Host` is a 400; by default every name is accepted. `public_url`
    (such as `https://flows.example.org`) is the address in links, by default that of the request. An address with more
    than `failed_authentications_per_minute` gets a 429, by default without a limit.

    Raises ValueError for both `authenticate` and `oauth`, and for an invalid host or origin; TypeError for a text in
    place of a list of hosts or origins.
    """
    if authenticate and oauth:
        raise ValueError("use either `authenticate` or `oauth`, not both")
    return Application(
        core,
        or_by_embed_token(core.directory, authenticate) if authenticate else by_token(core.directory, oauth),
        oauth,
        mount.rstrip("/"),
        PageTokens(*([secret] if secret else _secrets_of(core))),
        BodyLimits(max_request_bytes or core.ports.settings.max_request_bytes, receive_timeout),
        MetricsPage(core.ports, metrics, metrics_token),
        Site(allowed_hosts, browser_origins, public_url),
        FailedAuthentications(failed_authentications_per_minute),
        studio,
    )


def _secrets_of(core: Services) -> list[bytes]:
    """The secrets of page tokens, the same in all processes with the same secret keys; a random one without a key."""
    try:
        return [hashlib.sha256(one.encode()).digest() for one in core.ports.sealer.fingerprints(b"page tokens")]
    except Unavailable:
        return [secrets.token_bytes(32)]


class Application:
    """The application. One instance serves concurrent requests."""

    def __init__(
        self,
        core: Services,
        authenticate: Authenticate,
        oauth: TokenVerifier | None,
        mount: str,
        tokens: PageTokens,
        limits: BodyLimits,
        metrics: MetricsPage,
        site: Site,
        failures: FailedAuthentications,
        studio: Studio | None = None,
    ) -> None:
        self._core = core
        self._authenticate = authenticate
        self._oauth = oauth
        self._mount = mount
        self._tokens = tokens
        self._limits = limits
        self._site = site
        self._failures = failures
        settings = core.ports.settings
        self._rates = RateLimits(
            core.ports.rate_limiter, settings.requests_per_minute, settings.organization_requests_per_minute
        )
        self._admission = Admission(settings.max_waiting_requests)
        self._streams = StreamGuard(OpenStreams(core.ports, core.directory, core.runs))
        document = StudioDocument(studio or STUDIO, oauth)
        own = [*StudioFileRoutes((studio or STUDIO).prefix).table()]
        if studio is not None:
            own += StudioRoutes(document).table()
        routes = route_table(core, oauth, metrics, document)
        self._router = Router([*routes, *ReferenceRoutes().table(), *own])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
        elif scope["type"] == "lifespan":
            await _lifespan(receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        connection = TabledRequest(scope)
        request_id = safe_request_id(connection.headers.get("X-Request-Id")) or self._core.ports.ids.uuid()
        headers = _HEADERS | {"X-Request-Id": request_id}
        headers |= cors_headers(scope["method"], connection.headers, self._site.browser_origins)
        access = RequestLog(self._core.ports.telemetry, connection, request_id)
        with access:
            with access.in_span():
                response = await self._respond(connection, receive, headers, access)
            if response is not None:
                access.response_ready(response.status_code, streams=isinstance(response, EventStream))
                _add_headers(response, headers)
                await _deliver(response, scope, receive, _Outgoing(send, scope["method"]), request_id)

    async def _respond(
        self, connection: HTTPConnection, receive: Receive, headers: dict[str, str], access: RequestLog
    ) -> Response | None:
        """The response, an error response included; None when the client has disconnected."""
        request_id = headers["X-Request-Id"]
        client = connection.client
        token = ORIGIN.set(Origin(request_id, client.host if client else None))
        try:
            return await self._handle(connection, receive, headers, access)
        except Disconnected:
            return None
        except WfcoreError as error:
            return error_response(for_client(error, request_id), request_id, challenge=self._challenge(connection))
        except Exception:
            logger.exception("request failed", extra={"request_id": request_id})
            return error_response(WfcoreError("internal error"), request_id)
        finally:
            ORIGIN.reset(token)

    async def _handle(
        self, connection: HTTPConnection, receive: Receive, headers: dict[str, str], access: RequestLog
    ) -> Response:
        scope = connection.scope
        if is_preflight(scope["method"], connection.headers) and "Access-Control-Allow-Origin" in headers:
            self._site.check_host(connection.headers)
            return Response(status_code=HTTPStatus.NO_CONTENT)
        route, path, segments = self._found(connection, scope["method"])
        access.route = route.path
        if route.path not in PROBES:
            self._site.check_host(connection.headers)
        if route.successor is not None:
            headers |= _deprecation(route, self._root(connection), segments)
        parsed: dict[str, JSON] = {}
        try:
            me = await self._authorize(connection, route, access)
            query = read_query(scope["query_string"], route.query, others=route.any_query)
            parsed = await self._body(connection, receive, route)
            call = self._call(connection, receive, route, me, path, query, parsed, headers["X-Request-Id"])
            if route.single_use and scope["method"] == "HEAD":
                return Response(status_code=HTTPStatus.NO_CONTENT)
            async with nullcontext() if me is None else self._admission.turn(me.org_uuid):
                response = await route.handle(call)
        except WfcoreError as error:
            error.info |= {name: parse_id(path[parameter]) for name, parameter in route.error_info.items()}
            if error.http >= HTTPStatus.INTERNAL_SERVER_ERROR or not is_streamed(route, connection.headers):
                raise
            request = parsed.get("runId") or path.get("runId")
            return refused_stream(error, route, connection.headers, request, request_id=headers["X-Request-Id"],
                                  at=self._core.ports.clock.now(), challenge=self._challenge(connection))  # fmt: skip
        if isinstance(response, EventStream) and me is not None:
            self._streams.guard(me, response)
        if route.has_etag:
            response = tagged(response)
        return unless_known(response, connection.headers) if route.method == "GET" else response

    def _call(
        self,
        connection: HTTPConnection,
        receive: Receive,
        route: Route,
        me: Principal | None,
        path: Mapping[str, str],
        query: Mapping[str, Any],
        body: Mapping[str, JSON],
        request_id: str,
    ) -> Call:
        return Call(
            me,
            connection.headers,
            path,
            query,
            body,
            self._root(connection),
            self._tokens,
            request_id,
            self._site.public_origin or origin_of(connection),
            partial(self._raw, connection, receive, route),
        )

    def _root(self, connection: HTTPConnection) -> str:
        """The path prefix under which this application is reached."""
        return str(connection.scope.get("root_path", "")) + self._mount

    def _found(self, connection: HTTPConnection, method: str) -> tuple[Route, dict[str, str], list[str]]:
        """The route of a request, its path parameters, and the segments of its path below the mount.

        A proxy can have removed the mount from the path: a first segment with the same name is then one of ours.
        """
        segments = segments_of(connection.scope, self._root(connection))
        try:
            return *self._router.find(method, segments), segments
        except NotFound:
            segments = segments_of(connection.scope, str(connection.scope.get("root_path", "")))
            return *self._router.find(method, segments), segments

    def _challenge(self, connection: HTTPConnection) -> str:
        origin = self._site.public_origin or origin_of(connection)
        return challenge(connection, origin + quote(self._root(connection)) + self._metadata(connection))

    def _metadata(self, connection: HTTPConnection) -> str:
        """The path of the metadata of the requested resource, or else of this server (RFC 9728, 3.1)."""
        try:
            _, _, below = self._found(connection, connection.scope["method"])
            self._router.find("GET", [*METADATA_PATH.split("/")[1:], *below])
        except WfcoreError:
            return METADATA_PATH
        return "/".join([METADATA_PATH, *(quote(segment, safe="") for segment in below)])

    async def _authorize(self, connection: HTTPConnection, route: Route, access: RequestLog) -> Principal | None:
        """The principal, who must have the route's token scopes; None on open routes. Counts for the rate limits."""
        if route.scopes is None:
            return None
        with self._failures.counted(connection):
            me = access.caller = await self._authenticate(connection)
            if me is None:
                raise unauthenticated()
        self._site.check_same_site(route.method, connection.headers)
        await self._rates.admit(me)
        check_scopes(me, route.scopes)
        return me

    async def _raw(self, connection: HTTPConnection, receive: Receive, route: Route) -> bytes:
        limits = self._limits if route.max_body_bytes is None else self._limits.at_most(route.max_body_bytes)
        return await read_body(connection.headers, receive, limits)

    async def _body(self, connection: HTTPConnection, receive: Receive, route: Route) -> dict[str, JSON]:
        if route.body is None:
            return {}
        raw = await read_body(connection.headers, receive, self._limits)
        return await parse_body(raw, connection.headers, route.body, required=route.body_required)


def _deprecation(route: Route, root: str, segments: Sequence[str]) -> dict[str, str]:
    """The headers of a call to a deprecated path (RFC 9745; RFC 8288, `successor-version`)."""
    below = segments[route.base.count("/") :]
    target = quote(root) + "/".join([str(route.successor), *(quote(segment, safe="") for segment in below)])
    return {"Deprecation": DEPRECATED_SINCE, "Link": f'<{target}>; rel="successor-version"'}


async def _lifespan(receive: Receive, send: Send) -> None:
    """Acknowledge startup and shutdown: the caller of `app` opens and closes the core."""
    for phase in ("startup", "shutdown"):
        await receive()
        await send({"type": f"lifespan.{phase}.complete"})


def _add_headers(response: Response, headers: Mapping[str, str]) -> None:
    """Add those of the headers that the response does not have itself."""
    own = {name for name, _ in response.raw_headers}
    added = [(name.lower().encode("ascii"), value.encode("latin-1")) for name, value in headers.items()]
    response.raw_headers += [header for header in added if header[0] not in own]


async def _deliver(response: Response, scope: Scope, receive: Receive, send: "_Outgoing", request_id: str) -> None:
    """Send the response. A client that disconnects or stalls is not an error."""
    try:
        await response(scope, receive, send)
        await send.finish()
    except Stalled:
        logger.info("a client stalled and was disconnected", extra={"request_id": request_id})
    except Exception as error:  # noqa: BLE001 - logged: the response has begun
        log_failure(logger, "sending a response failed", error, request_id=request_id)


class _Outgoing:
    """A `send` that drops the body of a response to HEAD."""

    def __init__(self, send: Send, method: str) -> None:
        self._send = send
        self._bodiless = method == "HEAD"
        self._more = False

    async def __call__(self, message: Message) -> None:
        if self._bodiless and message["type"] == "http.response.body":
            message = {**message, "body": b""}
        self._more = message.get("more_body", False)
        await self._send(message)

    async def finish(self) -> None:
        """End a stream that shutdown interrupted, so that its client sees an end and not a broken connection."""
        if self._more:
            await self({"type": "http.response.body", "body": b"", "more_body": False})
