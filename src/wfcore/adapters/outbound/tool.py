"""The built-in tool `core.http`: an HTTP request, and its response as a value."""

import codecs
import re
from base64 import b64encode
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from wfcore.adapters.outbound.guard import LONGEST_URL, AddressGuard, AddressRefused
from wfcore.domain.agents.connections import RESERVED_HEADERS, goes_to
from wfcore.domain.json.codec import dumps
from wfcore.domain.json.parsing import parse_json
from wfcore.domain.kernel.errors import Malformed
from wfcore.domain.kernel.json_readers import as_object, as_text, optional_text, optional_texts
from wfcore.domain.kernel.json_type import JSON
from wfcore.extras import MissingExtra, needs_extra
from wfcore.ports.providers import ConnectionRequired, Tool, ToolCall, ToolConnection, ToolFailed

if TYPE_CHECKING:
    from wfcore.adapters.outbound.client import HttpResponse

ID: Final = "core.http"
METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
DESCRIPTION: Final = (
    "Calls a URL. An object or list in `body` is sent as JSON, a string as it is. Gives status, headers and body: "
    "JSON as a value, text as a string, anything else as base64."
)
PARAMETERS: Final[Mapping[str, JSON]] = {
    "type": "object",
    "properties": {
        "method": {"enum": list(METHODS), "default": "GET"},
        "url": {"type": "string", "maxLength": LONGEST_URL},
        "headers": {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 100},
        "body": {},
        "connection": {
            "type": "string",
            "minLength": 1,
            "maxLength": 255,
            "description": "The id of a connection whose credentials are added, if the host is one of its `hosts`",
        },
    },
    "required": ["url"],
    "additionalProperties": False,
}

RESULT: Final[Mapping[str, JSON]] = {
    "type": "object",
    "properties": {"status": {"type": "integer"}, "headers": {"type": "object"}, "body": {}},
    "required": ["status", "headers", "body"],
}

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}", re.ASCII)
_HEADER_VALUE = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]{0,16384}")
_VISIBLE = "".join(map(chr, range(0x21, 0x7F))).replace("%", "")

LONGEST_TYPE: Final = 1_000
"""The characters of a content type that are read: the library takes quadratic time for the parameters."""

TEXT: Final = frozenset({"graphql", "javascript", "sql", "toml", "x-ndjson", "x-www-form-urlencoded", "xml", "yaml"})
"""Subtypes of `application` whose content is text."""

CHARSETS: Final = frozenset(
    {
        "ascii", "big5", "cp1250", "cp1251", "cp1252", "euc_jp", "euc_kr", "gb18030", "gb2312", "gbk", "iso8859-1",
        "iso8859-15", "iso8859-2", "koi8-r", "koi8-u", "shift_jis", "utf-16", "utf-16-be", "utf-16-le", "utf-8",
    }
)  # fmt: skip
"""Supported charsets, by Python's names. Some other codecs of Python are not charsets, or can be very slow."""


def http_tool(guard: AddressGuard) -> Tool:
    """The tool `core.http`, which reaches the addresses that the guard lets through."""

    async def run(params: Mapping[str, JSON], call: ToolCall) -> JSON:
        headers, content = _request(params, call)
        try:
            with needs_extra("http", "the tool `core.http`"):
                from wfcore.adapters.outbound.client import Client, RequestFailed
        except MissingExtra as error:
            raise ToolFailed(str(error), retryable=False) from None
        try:
            method, url = as_text(params.get("method", "GET")), as_text(params["url"])
            added = {} if call.connection is None else _credentials(call.connection, url)
            response = await Client(guard).send(method, url, {**headers, **added}, content)
        except AddressRefused as error:
            raise ToolFailed(str(error), retryable=False) from None
        except RequestFailed as error:
            raise ToolFailed(str(error)) from None
        if added and response.status == HTTPStatus.UNAUTHORIZED and not response.has_moved:
            raise ConnectionRequired
        return {"status": response.status, "headers": dict(response.headers), "body": body_of(response)}

    return Tool(
        ID, run, "HTTP", DESCRIPTION, PARAMETERS, blocking=False, is_async=True, idempotent=True, output_schema=RESULT,
        connection_parameter="connection",
    )  # fmt: skip


# The request


def _request(params: Mapping[str, JSON], call: ToolCall) -> tuple[dict[str, str], bytes | None]:
    """Headers and content. The caller's `content-type` and `idempotency-key` replace the defaults."""
    kind, content = _content(params.get("body"))
    given = {name: as_text(value) for name, value in as_object(params.get("headers", {})).items()}
    return {"idempotency-key": sent_key(call), **kind, **checked_headers(given)}, content


def sent_key(call: ToolCall) -> str:
    """The key of the effect as the value of a header."""
    return quote(call.key, safe=_VISIBLE)


def _credentials(connection: ToolConnection, url: str) -> dict[str, str]:
    """The header with the credentials of a connection, for one of its hosts only. ToolFailed for another one."""
    config = connection.config
    if not goes_to(optional_texts(config.get("hosts")) or (), url):
        raise ToolFailed("the host of `url` is not one of the `hosts` of the connection", retryable=False)
    if (token := optional_text(config.get("accessToken"))) is not None:
        return {"authorization": f"Bearer {token}"}
    key, name = as_text(config["apiKey"]), optional_text(config.get("header"))
    return {"authorization": f"Bearer {key}"} if name is None else {name.lower(): key}


def _content(body: JSON) -> tuple[dict[str, str], bytes | None]:
    if body is None:
        return {}, None
    if isinstance(body, str):
        return {"content-type": "text/plain; charset=utf-8"}, body.encode()
    return {"content-type": "application/json"}, dumps(body).encode()


def checked_headers(given: Mapping[str, str]) -> dict[str, str]:
    """The headers by names in lower case. Errors do not show values, which can be credentials."""
    headers: dict[str, str] = {}
    for name, value in given.items():
        key = name.lower()
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise ToolFailed(f"the name or the value of the header `{name[:100]}` is not valid", retryable=False)
        if key in RESERVED_HEADERS or key in headers:
            why = "is given twice" if key in headers else "cannot be set by a workflow"
            raise ToolFailed(f"the header `{name}` {why}", retryable=False)
        headers[key] = value.strip(" \t")
    return headers


# The response


def body_of(response: "HttpResponse") -> JSON:
    """JSON as its value (as text if invalid), text as a string, other content as base64, no content as null."""
    if not response.body:
        return None
    if "content-encoding" in response.headers:
        return _binary(response.body)
    if "content-type" not in response.headers:
        return _guessed(response.body)
    from email.message import Message

    parsed = Message()
    parsed["content-type"] = response.headers["content-type"][:LONGEST_TYPE]
    main, _, sub = parsed.get_content_type().partition("/")
    if sub == "json" or sub.endswith("+json"):
        return _json(response.body)
    charset = parsed.get_content_charset()
    if main == "text" or charset or sub in TEXT or sub.endswith(("+xml", "+yaml")):
        return response.body.decode(_codec(charset or "utf-8"), "replace")
    return _binary(response.body)


def _json(body: bytes) -> JSON:
    text = body.removeprefix(codecs.BOM_UTF8)
    try:
        return parse_json(text)
    except Malformed:
        return text.decode("utf-8", "replace")


def _guessed(body: bytes) -> JSON:
    try:
        return body.decode()
    except UnicodeDecodeError:
        return _binary(body)


def _binary(body: bytes) -> JSON:
    return {"base64": b64encode(body).decode()}


def _codec(charset: str) -> str:
    try:
        name = codecs.lookup(charset).name
    except (LookupError, ValueError):
        return "utf-8"
    return name if name in CHARSETS else "utf-8"
