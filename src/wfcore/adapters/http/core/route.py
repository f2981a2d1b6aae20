"""The entries of the route table: what a route is, and what its handler is given."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import attrs
from starlette.datastructures import Headers
from starlette.responses import Response

from wfcore.adapters.http.core.request_parsing import Query, page_size
from wfcore.adapters.http.core.responses import json_answer
from wfcore.domain.kernel.ids import parse_id
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal
from wfcore.domain.triggers.webhooks import MAX_BYTES
from wfcore.runtime.common.requests import PageTokens

PAGE_SIZE = Query("pageSize", page_size, {"type": "integer", "minimum": 1, "default": 25},
                  "Rows of a page; more than 100 is taken as 100", 25)  # fmt: skip
PAGE_TOKEN = Query("pageToken", str, {"type": "string"}, "`nextPageToken` of the page before")
PAGING = (PAGE_SIZE, PAGE_TOKEN)

IDEMPOTENCY_KEY = "Idempotency-Key"
IF_MATCH = "If-Match"
LAST_EVENT_ID = "Last-Event-ID"


@attrs.frozen
class Call:
    """One request, checked: what a handler makes a use case's arguments of."""

    caller: Principal | None
    headers: Headers
    path: Mapping[str, str]
    query: Mapping[str, Any]
    body: Mapping[str, JSON]
    root: str
    """The path prefix under which the application is mounted."""
    tokens: PageTokens
    request_id: str
    origin: str
    """Scheme and host as the client wrote them."""
    raw: Callable[[], Awaitable[bytes]]
    """Reads the bytes of the body, as many as the route takes, where it has no shape for it."""

    @property
    def me(self) -> Principal:
        """Who calls. The open routes have nobody."""
        assert self.caller is not None  # noqa: S101  (authentication came first)
        return self.caller

    @property
    def id(self) -> int:
        """The resource's number. What is no number is 0, which never existed: both get the same answer."""
        return parse_id(self.path["id"]) or 0

    @property
    def run_id(self) -> str:
        return self.path["runId"]

    def position(self, *bound_to: JSON) -> Any:
        """Where the page starts: what `page` sealed into its token; None for the first."""
        token = self.query["pageToken"]
        return None if token is None else self.tokens.open(token, self.me.org_uuid, *bound_to)

    def page(
        self, rows: str, found: Sequence[Any], following: JSON, *bound_to: JSON, more: Mapping[str, JSON] | None = None
    ) -> Response:
        """A page of a list, with `more` beside it. `following` is the position of the next one, None on the last."""
        token = None if following is None else self.tokens.seal(following, self.me.org_uuid, *bound_to)
        return json_answer({rows: [row.to_wire() for row in found], "nextPageToken": token, **(more or {})})

    def url(self, path: str, *segments: str | int) -> str:
        """The path of a resource as clients reach it."""
        return quote(self.root) + path + "".join(f"/{quote(str(segment), safe='')}" for segment in segments)


Handler = Callable[[Call], Awaitable[Response]]


@attrs.frozen
class Route:
    """One route: from this table come the router, the OpenAPI document and the docs.

    `scopes` are the token scopes of its use case, None where no principal is asked for. `answer` is the shape or the
    schema of the response; with `streams` it may be an event stream instead. `successor` is the base path that
    replaces this route's `base` (interface, Versioning).
    """

    name: str
    method: str
    path: str
    handle: Handler
    summary: str
    scopes: tuple[str, ...] | None
    answer: type | Mapping[str, JSON]
    status: int = HTTPStatus.OK
    body: type | None = None
    body_required: bool = False
    query: tuple[Query, ...] = ()
    headers: tuple[str, ...] = ()
    streams: bool = False
    signed: tuple[str, ...] = ()
    """The headers that sign a message, which takes no credential: its handler reads the bytes itself."""
    reads: type | None = None
    """The shape of a JSON body whose handler reads the bytes itself."""
    takes: tuple[str, ...] = ()
    """The media types of a body that is no JSON: its handler reads the bytes itself."""
    most_bytes: int = MAX_BYTES
    """How many bytes a handler may read."""
    also: tuple[int, ...] = ()
    """Further statuses of success, with the same answer."""
    bare: tuple[int, ...] = ()
    """Further statuses of success, without any."""
    faults: type | None = None
    """The shape of errors that are none of the envelope."""
    media_type: str = "application/json"
    base: str = ""
    successor: str | None = None
    least_id: int = 1
    """The least `id` of its path: 0 where that stands for all."""
    error_info: Mapping[str, str] = attrs.field(factory=dict)
    """Numbers of the path that errors repeat: the name in `info`, the path's parameter."""
