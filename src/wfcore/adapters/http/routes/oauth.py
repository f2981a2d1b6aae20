"""OAuth: the metadata by which a client finds the authorization server of this resource (RFC 9728), and the
authorization of connections to other services: its start, the links of interrupts, and the way back."""

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from http import HTTPStatus
from typing import Final, NotRequired, TypedDict

from starlette.responses import RedirectResponse, Response

from wfcore.adapters.http.core.request_parsing import Query, accepts
from wfcore.adapters.http.core.responses import json_response
from wfcore.adapters.http.core.route import Call, Route
from wfcore.adapters.http.mcp.routes import PATH
from wfcore.api.connections import AuthorizeConnectionDto
from wfcore.api.resources import Body
from wfcore.domain.kernel.errors import Conflict, Malformed, NotFound, WfcoreError
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import TOKEN_SCOPES
from wfcore.ports.identity import TokenVerifier
from wfcore.runtime.common.authorization import scopes_of
from wfcore.runtime.runs.connects import Connects
from wfcore.runtime.tools.authorizations import CALLBACK, CONNECT, InvalidLink
from wfcore.runtime.tools.connections import Connections

METADATA_PATH = "/.well-known/oauth-protected-resource"
MAX_ID_LENGTH = 255


class ProtectedResource(TypedDict):
    """The metadata of RFC 9728, 2; without `authorization_servers` where only personal access tokens are accepted."""

    resource: str
    authorization_servers: NotRequired[list[str]]
    scopes_supported: list[str]
    bearer_methods_supported: list[str]


class OAuthRoutes:
    """Metadata of this server, and of the protocol server of an interface, whether it exists or not.

    The routes need no credential: clients without one read here where to get one.
    """

    def __init__(self, oauth: TokenVerifier | None) -> None:
        self._oauth = oauth

    def table(self) -> list[Route]:
        summary = "Read which authorization server issues tokens for this server"
        of_one, kind = "Read which one issues tokens for a protocol server", ProtectedResource
        return [
            Route("protectedResource", "GET", METADATA_PATH, self._describe, summary, None, kind),
            Route("protectedResource.mcp", "GET", METADATA_PATH + PATH, self._describe_mcp, of_one, None, kind),
        ]

    async def _describe(self, call: Call) -> Response:
        return self._metadata(call.origin + call.url(""), TOKEN_SCOPES)

    async def _describe_mcp(self, call: Call) -> Response:
        (server, _, _), one = PATH.rpartition("/"), call.path["interfaceId"]
        if len(one) > MAX_ID_LENGTH:
            raise NotFound
        return self._metadata(call.origin + call.url(server, one), ("workflows:invoke",))

    def _metadata(self, url: str, scopes: Iterable[str]) -> Response:
        oauth = self._oauth
        resource = oauth.audience if oauth and oauth.audience.startswith(("https://", "http://")) else url
        metadata: dict[str, JSON] = {
            "resource": resource, "scopes_supported": list(scopes), "bearer_methods_supported": ["header"],
        }  # fmt: skip
        if oauth is not None:
            metadata["authorization_servers"] = [oauth.issuer]
        return json_response(metadata)


# Connections

LONGEST: Final = 8_192
_TEXT: Final[Mapping[str, JSON]] = {"type": "string", "maxLength": LONGEST}


def _bounded(text: str) -> str:
    if len(text) > LONGEST:
        raise ValueError(f"must have at most {LONGEST} characters")
    return text


_TICKET = Query("ticket", _bounded, _TEXT, "The ticket of a link", "")
_STATE = Query("state", _bounded, _TEXT, "The `state` of the authorization request", "")
_CODE = Query("code", _bounded, _TEXT, "The authorization code")
_ERROR = Query("error", _bounded, _TEXT, "Why the authorization server did not grant access")
_ISSUER = Query("iss", _bounded, _TEXT, "The issuer of the response (RFC 9207)")

_SCRIPT: Final = "window.close()"
_DIGEST: Final = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
_HEADERS: Final = {
    "Content-Security-Policy": (
        f"default-src 'none'; script-src 'sha256-{_DIGEST}'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
}
_NOT_AUTHORIZED: Final = "the connection could not be authorized: its `statusReason` has the reason"
_TEXTS: Final[Mapping[int, str]] = {
    HTTPStatus.OK: "The connection is ready. You can close this window.",
    HTTPStatus.BAD_REQUEST: "The connection could not be authorized. Close this window and try again.",
    HTTPStatus.CONFLICT: "The authorization server of the connection cannot be used now. Try again later.",
}


def _page(status: HTTPStatus) -> Response:
    """A page with a fixed text. After a success it closes itself."""
    script = f"<script>{_SCRIPT}</script>" if status is HTTPStatus.OK else ""
    head = '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Connection</title></head>'
    return Response(f"{head}<body><p>{_TEXTS[status]}</p>{script}</body></html>\n", status, _HEADERS, "text/html")


def _refusal(call: Call, error: WfcoreError) -> Response:
    """The page for a browser; raises the error for a client that does not accept a page."""
    if not accepts(call.headers, "text/html"):
        raise error
    return _page(HTTPStatus(error.http))


class AuthorizationRoutes:
    """Authorizes connections. Browsers open the links and come back without a credential: what they carry is sealed."""

    def __init__(self, connections: Connections, connects: Connects) -> None:
        self._connections = connections
        self._connects = connects

    def table(self) -> Iterator[Route]:
        authorize = self._connections.authorize
        yield Route(
            "connections.authorize", "POST", "/api/v1/connections/{connectionId}/authorize", self.authorize,
            "Begin the authorization of a connection", scopes_of(authorize), AuthorizeConnectionDto, body=Body,
        )  # fmt: skip
        yield Route(
            "connections.connect", "GET", CONNECT, self.connect, "Follow the link of a connect interrupt", None,
            {"type": "string"}, HTTPStatus.SEE_OTHER, query=(_TICKET,), media_type="text/html", single_use=True,
            page_statuses=(HTTPStatus.BAD_REQUEST, HTTPStatus.CONFLICT),
        )  # fmt: skip
        yield Route(
            "connections.callback", "GET", CALLBACK, self.callback, "End the authorization of a connection", None,
            {"type": "string"}, query=(_STATE, _CODE, _ERROR, _ISSUER), any_query=True, media_type="text/html",
            page_statuses=(HTTPStatus.BAD_REQUEST,), single_use=True,
        )  # fmt: skip

    async def authorize(self, call: Call) -> Response:
        url = await self._connections.authorize(call.me, call.path["connectionId"], address=call.address)
        return json_response({"url": url})

    async def connect(self, call: Call) -> Response:
        try:
            url = await self._connects.follow(call.query["ticket"])
        except (InvalidLink, Conflict) as error:
            return _refusal(call, error)
        return RedirectResponse(url, HTTPStatus.SEE_OTHER, {"Referrer-Policy": "no-referrer"})

    async def callback(self, call: Call) -> Response:
        state, code, error, issuer = (call.query[one.name] for one in (_STATE, _CODE, _ERROR, _ISSUER))
        try:
            finished = await self._connects.finish(state, code, error, issuer)
        except InvalidLink as invalid:
            return _refusal(call, invalid)
        if finished.reason is not None:  # for members alone, as the `statusReason` of the connection
            return _refusal(call, Malformed(_NOT_AUTHORIZED, {"reason": "not_authorized"}))
        return _page(HTTPStatus.OK)
