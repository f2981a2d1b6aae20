"""Requests of pages of listed origins that send a bearer token (WHATWG Fetch, CORS protocol).

No response has `Access-Control-Allow-Credentials`: a page of another origin cannot use the cookies of the user.
"""

from collections.abc import Collection, Mapping
from typing import Final

from starlette.datastructures import Headers

REQUEST_HEADERS: Final = (
    "Authorization", "Content-Type", "Idempotency-Key", "If-Match", "If-None-Match", "Last-Event-ID", "X-Request-Id",
)  # fmt: skip
"""Headers of requests that such a page can send."""

RESPONSE_HEADERS: Final = ("Date", "ETag", "Location", "Retry-After", "X-Request-Id")
"""Headers of responses that such a page can read."""

_PREFLIGHT: Final = {
    "Access-Control-Allow-Methods": "GET, POST, PUT, PATCH, DELETE",
    "Access-Control-Allow-Headers": ", ".join(REQUEST_HEADERS),
    "Access-Control-Max-Age": "600",
}


def cors_headers(method: str, headers: Headers, origins: Collection[str]) -> Mapping[str, str]:
    """The headers that let a page of one of `origins` read the response; without origins none.

    `Vary` is there for every origin: a cache must not give one page the response for another.
    """
    if not origins:
        return {}
    origin = headers.get("Origin", "")
    if origin.lower() not in origins:
        return {"Vary": "Origin"}
    found = {"Vary": "Origin", "Access-Control-Allow-Origin": origin}
    if is_preflight(method, headers):
        return {**found, **_PREFLIGHT}
    return {**found, "Access-Control-Expose-Headers": ", ".join(RESPONSE_HEADERS)}


def is_preflight(method: str, headers: Headers) -> bool:
    """Whether this is the preflight request of a browser for a page."""
    return method == "OPTIONS" and "Origin" in headers and "Access-Control-Request-Method" in headers
