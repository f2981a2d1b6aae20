"""The routes of authorizations of connections: their start, the links of interrupts, and the way back."""

import base64
import hashlib
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Final

from starlette.responses import RedirectResponse, Response

from wfcore.adapters.http.core.request_parsing import Query
from wfcore.adapters.http.core.responses import json_response
from wfcore.adapters.http.core.route import Call, Route
from wfcore.api.connections import AuthorizeConnectionDto
from wfcore.api.resources import Body
from wfcore.domain.kernel.errors import Conflict
from wfcore.domain.kernel.json_type import JSON
from wfcore.runtime.common.authorization import scopes_of
from wfcore.runtime.runs.connects import Connects
from wfcore.runtime.tools.authorizations import CALLBACK, CONNECT, InvalidLink
from wfcore.runtime.tools.connections import Connections

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
            {"type": "string"}, HTTPStatus.SEE_OTHER, query=(_TICKET,), media_type="text/html",
            page_statuses=(HTTPStatus.BAD_REQUEST, HTTPStatus.CONFLICT),
        )  # fmt: skip
        yield Route(
            "connections.callback", "GET", CALLBACK, self.callback, "End the authorization of a connection", None,
            {"type": "string"}, query=(_STATE, _CODE, _ERROR, _ISSUER), any_query=True, media_type="text/html",
            page_statuses=(HTTPStatus.BAD_REQUEST,),
        )  # fmt: skip

    async def authorize(self, call: Call) -> Response:
        url = await self._connections.authorize(call.me, call.path["connectionId"], address=call.address)
        return json_response({"url": url})

    async def connect(self, call: Call) -> Response:
        try:
            url = await self._connects.follow(call.query["ticket"])
        except InvalidLink:
            return _page(HTTPStatus.BAD_REQUEST)
        except Conflict:
            return _page(HTTPStatus.CONFLICT)
        return RedirectResponse(url, HTTPStatus.SEE_OTHER, {"Referrer-Policy": "no-referrer"})

    async def callback(self, call: Call) -> Response:
        state, code, error, issuer = (call.query[one.name] for one in (_STATE, _CODE, _ERROR, _ISSUER))
        try:
            finished = await self._connects.finish(state, code, error, issuer)
        except InvalidLink:
            return _page(HTTPStatus.BAD_REQUEST)
        return _page(HTTPStatus.OK if finished.reason is None else HTTPStatus.BAD_REQUEST)
