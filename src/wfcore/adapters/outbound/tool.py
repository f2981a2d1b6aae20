"""The built-in tool `core.http`: a request into the world, and its answer as a value."""

import codecs
import re
from base64 import b64encode
from collections.abc import Mapping
from email.message import Message
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from wfcore.adapters.outbound.guard import LONGEST_URL, AddressGuard, AddressRefused
from wfcore.domain.agents.connections import OURS
from wfcore.domain.json.codec import dumps
from wfcore.domain.json.parsing import parse_json
from wfcore.domain.kernel.errors import Malformed
from wfcore.domain.kernel.json_type import JSON
from wfcore.extras import MissingExtra, needs_extra
from wfcore.ports.providers import Tool, ToolCall, ToolFailed

if TYPE_CHECKING:
    from wfcore.adapters.outbound.client import HttpAnswer

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
    },
    "required": ["url"],
    "additionalProperties": False,
}

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}", re.ASCII)
_HEADER_VALUE = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]{0,16384}")
_VISIBLE = "".join(map(chr, range(0x21, 0x7F))).replace("%", "")

TEXT: Final = frozenset({"graphql", "javascript", "sql", "toml", "x-ndjson", "x-www-form-urlencoded", "xml", "yaml"})
"""Subtypes of `application` that people read."""

CHARSETS: Final = frozenset(
    {
        "ascii", "big5", "cp1250", "cp1251", "cp1252", "euc_jp", "euc_kr", "gb18030", "gb2312", "gbk", "iso8859-1",
        "iso8859-15", "iso8859-2", "koi8-r", "koi8-u", "shift_jis", "utf-16", "utf-16-be", "utf-16-le", "utf-8",
    }
)  # fmt: skip
"""By Python's names. Some of its other codecs are no charsets, and some can be made to take very long."""


def http_tool(guard: AddressGuard) -> Tool:
    """`core.http`, reaching what the guard lets through."""

    async def run(params: Mapping[str, JSON], call: ToolCall) -> JSON:
        headers, content = _request(params, call)
        try:
            with needs_extra("http", "the tool `core.http`"):
                from wfcore.adapters.outbound.client import Broken, Client
        except MissingExtra as error:
            raise ToolFailed(str(error), retryable=False) from None
        try:
            answer = await Client(guard).send(params.get("method", "GET"), params["url"], headers, content)
        except AddressRefused as error:
            raise ToolFailed(str(error), retryable=False) from None
        except Broken as error:
            raise ToolFailed(str(error)) from None
        return {"status": answer.status, "headers": dict(answer.headers), "body": _body(answer)}

    return Tool(ID, run, "HTTP", DESCRIPTION, PARAMETERS, blocking=False, is_async=True, idempotent=True)


# The request


def _request(params: Mapping[str, JSON], call: ToolCall) -> tuple[dict[str, str], bytes | None]:
    """Headers and content. What the caller says of the content's type, or of the key, stands."""
    kind, content = _content(params.get("body"))
    headers = {"idempotency-key": quote(call.key, safe=_VISIBLE), **kind, **checked_headers(params.get("headers", {}))}
    return headers, content


def _content(body: JSON) -> tuple[dict[str, str], bytes | None]:
    if body is None:
        return {}, None
    if isinstance(body, str):
        return {"content-type": "text/plain; charset=utf-8"}, body.encode()
    return {"content-type": "application/json"}, dumps(body).encode()


def checked_headers(given: Mapping[str, str]) -> dict[str, str]:
    """By names in lower case. Values are shown in no error: they may be credentials."""
    headers: dict[str, str] = {}
    for name, value in given.items():
        key = name.lower()
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise ToolFailed(f"`{name[:100]}` is no header, or its value none that can be sent", retryable=False)
        if key in OURS or key in headers:
            why = "is given twice" if key in headers else "cannot be set by a workflow"
            raise ToolFailed(f"the header `{name}` {why}", retryable=False)
        headers[key] = value.strip(" \t")
    return headers


# The answer


def _body(answer: "HttpAnswer") -> JSON:
    """JSON as its value (as text, if it is none), text as a string, other content as base64, none as null."""
    if not answer.body:
        return None
    if "content-encoding" in answer.headers:
        return _binary(answer.body)
    if "content-type" not in answer.headers:
        return _guessed(answer.body)
    told = Message()
    told["content-type"] = answer.headers["content-type"]
    main, _, sub = told.get_content_type().partition("/")
    if sub == "json" or sub.endswith("+json"):
        return _json(answer.body)
    charset = told.get_content_charset()
    if main == "text" or charset or sub in TEXT or sub.endswith(("+xml", "+yaml")):
        return answer.body.decode(_codec(charset or "utf-8"), "replace")
    return _binary(answer.body)


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
