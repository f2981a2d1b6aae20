"""Request parsing: from query, headers and body to checked values. Handlers never see a raw request.

An error here is Malformed (400) with every issue in `info.errors`, a header's under the header's name. A body with too
many bytes is 413; a body that does not arrive in time is 408. Each value has one spelling and must not be repeated.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl

import attrs
from starlette.datastructures import Headers
from starlette.types import Message, Receive

from wfcore.api.resources import Body
from wfcore.domain.json.codec import from_ms, parse_iso, read
from wfcore.domain.json.parsing import parse_json
from wfcore.domain.kernel.errors import Issue, Malformed, TooLarge, refuse
from wfcore.domain.kernel.ids import parse_id
from wfcore.domain.kernel.json_type import JSON
from wfcore.runtime.common.requests import key_issues

T = TypeVar("T")

LARGE_BODY: Final = 2**18
MAX_PAGE = 100
MAX_PARAMETERS: Final = 100
UNKNOWN: Final = "unknown"
"""The rule of a query parameter that the route does not know, or that comes twice."""

_NUMBER = re.compile(r"0|[1-9][0-9]*", re.ASCII)
_JSON_TYPE = re.compile(r"application/(?:[a-z0-9.!#$&^_-]+\+)?json", re.ASCII)
_COMPRESSIONS: Final = frozenset({"gzip", "x-gzip", "deflate", "compress", "x-compress", "br", "zstd"})
_QUALITY = re.compile(r"0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?", re.ASCII)


class BodyTimeout(Malformed):
    """The body did not arrive in time."""

    http = 408


class NotAcceptable(Malformed):
    """`Accept` does not allow the media type of the response (RFC 9110, 15.5.7)."""

    http = 406


class Disconnected(Exception):
    """The client disconnected before its request was complete: no response can be sent."""


# --- query ---


@attrs.frozen
class Query:
    """A query parameter. `read` returns its value, or raises ValueError whose message says what is allowed."""

    name: str
    read: Callable[[str], Any]
    schema: Mapping[str, JSON]
    description: str
    default: Any = None
    deprecated: bool = False


def read_query(text: bytes, known: Sequence[Query], *, others: bool = False) -> dict[str, Any]:
    """The values of the known parameters by name. `others`: unknown parameters are ignored.

    Raises Malformed with every issue: an invalid value, and, under the rule `unknown`, an unknown or repeated name.
    """
    if not text or (others and not known):
        return {query.name: query.default for query in known}
    try:
        given = parse_qsl(text.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MAX_PARAMETERS)
    except ValueError:
        message = f"must be percent-encoded UTF-8 with at most {MAX_PARAMETERS} parameters"
        raise _malformed([Issue("query", message, "query")]) from None
    queries = {query.name: query for query in known}
    given = [(name, value) for name, value in given if name in queries] if others else given
    issues = _name_issues(Counter(name for name, _ in given), queries)
    values = {name: query.default for name, query in queries.items()}
    for name, value in given:
        if name in queries:
            try:
                values[name] = queries[name].read(value)
            except ValueError as error:
                issues.append(Issue(name, str(error), "query"))
    if issues:
        raise _malformed(issues)
    return values


def _name_issues(counts: Mapping[str, int], known: Collection[str]) -> list[Issue]:
    allowed = f"use {', '.join(f'`{name}`' for name in known)}" if known else "this route takes none"
    unknown = [
        Issue(name[:100], f"unknown query parameter: {allowed}", UNKNOWN) for name in counts if name not in known
    ]
    return unknown + [Issue(name, "must not be repeated", UNKNOWN) for name in known if counts.get(name, 0) > 1]


def _malformed(issues: Sequence[Issue]) -> Malformed:
    """The 400 for these issues of the request line and the headers, whatever their rules."""
    more = f" (and {len(issues) - 1} more)" if len(issues) > 1 else ""
    message = f"`{issues[0].path}`: {issues[0].message}{more}"
    return Malformed(message, {"errors": [issue.to_wire() for issue in issues]})


def whole_number(text: str) -> int:
    """A canonical integer, not negative. More than 18 digits are read as 10**18."""
    if not _NUMBER.fullmatch(text):
        raise ValueError("must be a non-negative integer without leading zeros")
    return int(text) if len(text) <= 18 else 10**18


def page_size(text: str, most: int = MAX_PAGE) -> int:
    """From 1 on; more than `most` is read as `most`."""
    if not (size := whole_number(text)):
        raise ValueError("must be at least 1")
    return min(size, most)


def one_of(*options: str) -> Callable[[str], str]:
    """The reader of a parameter with these allowed values."""

    def choose(text: str) -> str:
        if text not in options:
            raise ValueError(f"must be one of {', '.join(f'`{option}`' for option in options)}")
        return text

    return choose


INSTANT: Final[Mapping[str, JSON]] = {"type": "string", "format": "date-time"}


def instant(text: str) -> datetime:
    """The reader of a time (RFC 3339)."""
    try:
        return from_ms(parse_iso(text))
    except (ValueError, OverflowError):
        raise ValueError("must be an RFC 3339 instant, such as `2026-01-02T03:04:05Z`") from None


def short_text(text: str) -> str:
    if len(text) > 200 or "\0" in text:
        raise ValueError("must have at most 200 characters, none of them NUL")
    return text


def search_of(what: str) -> Query:
    """The search of a list: a text that `what` contains."""
    return Query("q", short_text, {"type": "string", "maxLength": 200}, f"Part of the {what}")


OPAQUE_ID: Final[Mapping[str, JSON]] = {"type": "string", "minLength": 1, "maxLength": 255}


def opaque_id(text: str) -> str:
    if not 1 <= len(text) <= 255 or "\0" in text:
        raise ValueError("must have 1 to 255 characters, none of them NUL")
    return text


def resource_id(text: str) -> int:
    if (number := parse_id(text)) is None:
        raise ValueError("must be an id: a positive integer without leading zeros")
    return number


# --- headers ---


def one_header(headers: Headers, name: str) -> str | None:
    """The header's value, None without it. Raises Malformed when it is repeated."""
    values = headers.getlist(name)
    if len(values) > 1:
        raise _malformed_header(name, "must not be repeated")
    return values[0] if values else None


def idempotency_key(headers: Headers) -> str | None:
    """The `Idempotency-Key` as it was sent: opaque text, quotes included."""
    key = one_header(headers, "Idempotency-Key")
    refuse(key_issues(key))
    return key


def if_match(headers: Headers) -> str | None:
    """The entity tags of `If-Match` (RFC 9110, 13.1.1)."""
    return one_header(headers, "If-Match")


def last_event_id(headers: Headers) -> int:
    """The `seq` after which a stream continues; 0 without a `Last-Event-ID` (WHATWG HTML, Server-sent events)."""
    text = one_header(headers, "Last-Event-ID")
    try:
        return 0 if text is None else whole_number(text)
    except ValueError as error:
        raise _malformed_header("Last-Event-ID", str(error)) from None


def check_json_type(headers: Headers) -> None:
    """Raise Malformed when `Content-Type` is not a JSON media type."""
    check_content_type(headers)
    media_type = headers.get("Content-Type", "application/json").partition(";")[0].strip().lower()
    if not _JSON_TYPE.fullmatch(media_type):
        raise _malformed_header("Content-Type", f"must be `application/json`, not `{media_type[:100]}`")


def check_content_type(headers: Headers) -> None:
    """Raise Malformed for a body without `Content-Type`, unless the request has an `Authorization` header.

    A page of another origin can send such a body, with the user's cookies, without a preflight request (Fetch, CORS).
    """
    if "Content-Type" not in headers and "Authorization" not in headers:
        raise _malformed_header("Content-Type", "is required without an `Authorization` header")


def _malformed_header(name: str, message: str) -> Malformed:
    return _malformed([Issue(name, message, "header")])


def prefers_json(headers: Headers) -> bool:
    """Whether `Accept` ranks JSON above an event stream (RFC 9110, 12.5.1).

    At equal quality a media type that is named precedes one that a wildcard allows; then the stream wins.
    """
    accepted = tuple(headers.getlist("Accept"))
    return _rank("application/json", accepted) > _rank("text/event-stream", accepted)


def accepts(headers: Headers, media_type: str) -> bool:
    """Whether `Accept` allows the media type; without the header, all are allowed (RFC 9110, 12.5.1)."""
    accepted = tuple(headers.getlist("Accept"))
    return not accepted or _rank(media_type, accepted) > (0.0, 0)


@lru_cache(maxsize=64)  # the same few headers come again and again
def _rank(media_type: str, accepted: tuple[str, ...]) -> tuple[float, int]:
    """Quality and precision of the most precise range that covers the type; (0, 0) when none does."""
    found = [(0, 0.0)]
    for text in ",".join(accepted).split(","):
        name, *parameters = (part.strip().lower() for part in text.split(";"))
        quality = next((p[2:].strip() for p in parameters if p.startswith("q=")), "1")
        patterns = ("*/*", media_type.partition("/")[0] + "/*", media_type)
        if name in patterns and _QUALITY.fullmatch(quality):
            found.append((patterns.index(name) + 1, float(quality)))
    precision, quality_found = max(found)
    return (quality_found, precision) if quality_found else (0.0, 0)


# --- body ---


@attrs.frozen
class BodyLimits:
    """The maximum size of a body in bytes, and the seconds it can take to arrive."""

    size: int
    seconds: float

    def at_most(self, size: int) -> "BodyLimits":
        return attrs.evolve(self, size=min(self.size, size))


async def read_body(headers: Headers, receive: Receive, limits: BodyLimits) -> bytes:
    """All bytes of the body, never more than the limit in memory. Raises TooLarge, BodyTimeout or Disconnected.

    Malformed for a compressed body: what it contains has no limit.
    """
    for coding in headers.get("Content-Encoding", "").lower().split(","):
        if coding.strip() in _COMPRESSIONS:
            raise _malformed_header("Content-Encoding", f"`{coding.strip()}` is not supported: send it uncompressed")
    declared = headers.get("Content-Length", "")
    if declared.isdecimal() and (len(declared) > 18 or int(declared) > limits.size):
        raise _too_large(limits)
    try:
        async with asyncio.timeout(limits.seconds):
            return await _receive_all(receive, limits)
    except TimeoutError:
        raise BodyTimeout(f"the body did not arrive within {limits.seconds:g} seconds") from None


async def _receive_all(receive: Receive, limits: BodyLimits) -> bytes:
    parts, size, more = list[bytes](), 0, True
    while more:
        message: Message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > limits.size:
            raise _too_large(limits)
        more = message.get("more_body", False)
    return b"".join(parts)


def _too_large(limits: BodyLimits) -> TooLarge:
    return TooLarge(f"the body has more than {limits.size} bytes", {"maxBytes": limits.size})


async def off_loop(parse: Callable[[bytes], T], raw: bytes) -> T:
    """The parsed body. A large one is parsed in a thread: a hostile one takes a fifth of a second of CPU."""
    return parse(raw) if len(raw) <= LARGE_BODY else await asyncio.to_thread(parse, raw)


async def parse_body(raw: bytes, headers: Headers, shape: type, *, required: bool) -> dict[str, JSON]:
    """Parse the bytes as a JSON object. An empty body is `{}` where the body is not `required`.

    The use case checks the fields of the shape; only a call without fields (`Body`) is checked here.
    """
    if not raw and not required:
        return {}
    check_json_type(headers)
    data = await off_loop(parse_json, raw)
    if shape is Body or not isinstance(data, dict):
        read(shape, data)
    assert isinstance(data, dict)  # noqa: S101  (`read` refused everything else)
    return data
