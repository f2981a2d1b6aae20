"""JSON responses, the error envelope, and the headers that belong to each error."""

import logging
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import Response

from wfcore.domain.json.codec import dumps
from wfcore.domain.kernel.errors import Malformed, RateLimited, Unauthenticated, Unavailable, WfcoreError
from wfcore.domain.kernel.json_readers import as_texts
from wfcore.domain.kernel.json_type import JSON
from wfcore.extras import MissingExtra
from wfcore.runtime.common.preconditions import tag_of_bytes

logger = logging.getLogger(__name__)

_SAFE_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,128}", re.ASCII)
RETRY_AFTER: Final = "1"
"""Seconds until a request is worth repeating after a 503 (RFC 9110, 15.6.4): most restarts of a store take longer."""


class MethodNotAllowed(Malformed):
    """The path exists, but not with this method (RFC 9110, 15.5.6)."""

    http = 405

    def __init__(self, method: str, allowed: list[str]) -> None:
        super().__init__(f"method `{method[:20]}` is not allowed: use {', '.join(allowed)}", {"allow": allowed})


class RenewedResponse(Response):
    """A response with parts that every read renews and that its `ETag` does not cover: a 304 would withhold them."""


def json_response(
    value: JSON, status: int = 200, headers: Mapping[str, str] | None = None, kind: type[Response] = Response
) -> Response:
    """A JSON response, UTF-8."""
    return kind(dumps(value).encode(), status, headers, "application/json")


def tagged(response: Response) -> Response:
    """The response with an `ETag`: its own, or the hash of its body."""
    if response.status_code == 200:
        response.headers.setdefault("ETag", tag_of_bytes(bytes(response.body)))
    return response


def unless_known(response: Response, headers: Headers) -> Response:
    """The response to a read, or 304 without a body for a tag of `If-None-Match` (RFC 9110, 13.1.2)."""
    known = {tag.strip().removeprefix("W/") for value in headers.getlist("If-None-Match") for tag in value.split(",")}
    etag = response.headers.get("ETag")
    if response.status_code != 200 or etag is None or not {"*", etag} & known:
        return response
    if isinstance(response, RenewedResponse):
        return response
    return Response(status_code=304, headers={"ETag": etag})


def safe_request_id(given: str | None) -> str | None:
    """The client's own request id, if it is safe to log."""
    return given if given is not None and _SAFE_ID.fullmatch(given) else None


def for_client(error: WfcoreError, request_id: str) -> WfcoreError:
    """The error as the client may see it: the message of another program, such as a database, is only for the log."""
    if error.http < HTTPStatus.INTERNAL_SERVER_ERROR:
        return error
    logger.error("request failed: %s", error, extra={"request_id": request_id})
    if error.__cause__ is None or isinstance(error, MissingExtra):
        return error
    return type(error)("a required service is not available")


def error_response(error: WfcoreError, request_id: str, *, challenge: str = "Bearer") -> Response:
    """The error envelope (interface, Errors), with the headers that RFC 9110 and RFC 6750 require for its status."""
    return json_response({"error": error.to_wire(request_id)}, error.http, error_headers(error, challenge))


def error_headers(error: WfcoreError, challenge: str) -> dict[str, str]:
    """The headers that RFC 9110 and RFC 6750 require for the status of the error."""
    if isinstance(error, Unauthenticated):
        return {"WWW-Authenticate": error.challenge or challenge}
    if "missing" in error.info and error.http == 403:
        scope = " ".join(as_texts(error.info["missing"]))
        return {"WWW-Authenticate": f'Bearer error="insufficient_scope", scope="{scope}"'}
    if isinstance(error, MethodNotAllowed):
        return {"Allow": ", ".join(as_texts(error.info["allow"]))}
    if error.http == 408:
        return {"Connection": "close"}
    if isinstance(error, Unavailable) and error.is_temporary:
        return {"Retry-After": RETRY_AFTER}
    if isinstance(error, RateLimited):
        return {"Retry-After": str(error.info.get("retryAfterSeconds", 1))}
    return {}
