"""The entries of the route table: `Route`, and the `Call` that a handler receives."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from types import UnionType
from typing import Any
from urllib.parse import quote

import attrs
from starlette.datastructures import Headers
from starlette.responses import Response

from wfcore.adapters.http.core.request_parsing import Query, page_size
from wfcore.adapters.http.core.responses import json_response
from wfcore.api.changes import ChangeDto
from wfcore.api.runs import EventDto
from wfcore.domain.kernel.ids import parse_id
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal
from wfcore.runtime.common.requests import PageTokens

PAGE_SIZE = Query("pageSize", page_size, {"type": "integer", "minimum": 1, "default": 25},
                  "Items of a page; more than 100 is read as 100", 25)  # fmt: skip
PAGE_TOKEN = Query("pageToken", str, {"type": "string"}, "`nextPageToken` of the previous page")
PAGING = (PAGE_SIZE, PAGE_TOKEN)

IDEMPOTENCY_KEY = "Idempotency-Key"
IF_MATCH = "If-Match"
IF_NONE_MATCH = "If-None-Match"
LAST_EVENT_ID = "Last-Event-ID"


@attrs.frozen
class Call:
    """One request, parsed and checked: a handler takes the arguments of a use case from it."""

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
    """Reads the bytes of a body that the application does not parse, within the limit of the route."""

    @property
    def me(self) -> Principal:
        """The principal of the request. Open routes must not use it: they have none."""
        assert self.caller is not None  # noqa: S101  (authenticated before)
        return self.caller

    @property
    def id(self) -> int:
        """The resource's number. Anything but a number becomes 0, which never exists, so both get the same 404."""
        return parse_id(self.path["id"]) or 0

    @property
    def run_id(self) -> str:
        return self.path["runId"]

    def position(self, *bound_to: JSON) -> Any:
        """The position where the page starts, as `page` sealed it into the token; None for the first page."""
        token = self.query["pageToken"]
        return None if token is None else self.tokens.open(token, self.me.org_uuid, *bound_to)

    def page(
        self, field: str, items: Sequence[Any], following: JSON, *bound_to: JSON, more: Mapping[str, JSON] | None = None
    ) -> Response:
        """A page of a list under `field`, with the fields of `more`. `following` is the position of the next page."""
        token = None if following is None else self.tokens.seal(following, self.me.org_uuid, *bound_to)
        return json_response({field: [item.to_wire() for item in items], "nextPageToken": token, **(more or {})})

    @property
    def address(self) -> str:
        """The URL of this application as browsers reach it, without a trailing slash."""
        return self.origin + self.url("")

    def url(self, path: str, *segments: str | int) -> str:
        """The path of a resource as clients reach it."""
        return quote(self.root) + path + "".join(f"/{quote(str(segment), safe='')}" for segment in segments)


Handler = Callable[[Call], Awaitable[Response]]


@attrs.frozen
class Route:
    """One route. The router, the OpenAPI document and the docs are generated from the table of routes.

    `scopes` are the token scopes of its use case, None for a route without authentication. `response` is the shape or
    the schema of the response; with `streams` it can be an event stream instead. `successor` is the base path that
    replaces this route's `base` (interface, Versioning).
    """

    name: str
    method: str
    path: str
    handle: Handler
    summary: str
    scopes: tuple[str, ...] | None
    response: type | Mapping[str, JSON]
    status: int = HTTPStatus.OK
    body: type | None = None
    body_required: bool = False
    query: tuple[Query, ...] = ()
    any_query: bool = False
    """Whether the route ignores unknown parameters: the script of a page reads them, or another server adds them."""
    single_use: bool = False
    """Whether a GET uses up what its query carries: a HEAD is then answered without a call of the handler."""
    page_statuses: tuple[int, ...] = ()
    """The error statuses whose body is a page of `media_type`, too."""
    headers: tuple[str, ...] = ()
    streams: bool = False
    events: type | UnionType = EventDto
    """The shape, or shapes, of the data of an event, of a route that streams."""
    signature_headers: tuple[str, ...] = ()
    """The headers of a signed message, which needs no credential: the handler reads the bytes of the body."""
    raw_body_shape: type | UnionType | None = None
    """The shape, or shapes, of a JSON body when the handler reads its bytes."""
    request_media_types: tuple[str, ...] = ()
    """The media types of a body that is not JSON: the handler reads its bytes."""
    max_body_bytes: int | None = None
    """How many bytes the handler can read; None is the limit of the server."""
    other_statuses: tuple[int, ...] = ()
    """Further success statuses, with the same body."""
    empty_statuses: tuple[int, ...] = ()
    """Further success statuses, without a body."""
    error_shape: type | None = None
    """The shape of errors that do not use the envelope."""
    media_type: str = "application/json"
    etag: bool = False
    """Whether its response has an entity tag although it is not one resource."""
    base: str = ""
    successor: str | None = None
    min_id: int = 1
    """The minimum `id` of its path: 0 where 0 means all resources."""
    error_info: Mapping[str, str] = attrs.field(factory=dict)
    """Path numbers that errors repeat: from the name in `info` to the path parameter."""

    @property
    def has_error_events(self) -> bool:
        """Whether a refusal can be an `error` event: its streams have events of wfcore, and not of another protocol."""
        return self.streams and self.events in (EventDto, ChangeDto)

    @property
    def has_run_events(self) -> bool:
        """Whether it streams the events of a run, which have AG-UI's form where `Accept` names that."""
        return self.streams and self.events is EventDto

    @property
    def has_etag(self) -> bool:
        """Whether its response is the representation of one resource, which has an entity tag."""
        if self.method not in ("GET", "PATCH") or self.scopes is None:
            return False
        is_json = self.media_type == "application/json" and not self.streams
        return is_json and (self.etag or self.path.endswith("}"))
