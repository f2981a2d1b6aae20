"""Tools that call the operations of an OpenAPI document, through the guard and with the organization's connection."""

import re
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode, urljoin

import attrs

from wfcore.adapters.outbound.guard import AddressGuard, AddressRefused
from wfcore.adapters.outbound.openapi_document import KEY_HEADER, OpenApiDocument, OpenApiOperation, OpenApiParameter
from wfcore.adapters.outbound.tool import body_of, checked_headers, sent_key
from wfcore.domain.json.codec import dumps, text_of
from wfcore.domain.json.parsing import parse_json
from wfcore.domain.kernel.json_readers import as_object
from wfcore.domain.kernel.json_type import JSON
from wfcore.extras import MissingExtra, needs_extra
from wfcore.ports.providers import ConnectionRequired, Tool, ToolCall, ToolFailed
from wfcore.workflow_files import parse_yaml

RETRYABLE: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses after which another attempt can succeed."""
SHOWN: Final = 300
"""The most characters of a refusal that the error shows."""
SECONDS: Final = 30.0
"""Seconds to read a document from a URL."""


def from_openapi(
    source: str | Path,
    only: Sequence[str] | None = None,
    *,
    prefix: str | None = None,
    server: str | None = None,
    provider: str | None = None,
    idempotent: Iterable[str] = (),
) -> list[Tool]:
    """The operations of an OpenAPI document (3.0 or 3.1, JSON or YAML) as tools `prefix.operationId`.

    `source` is a URL or a file; a URL is the program's own and is read at once, without the guard. The calls of the
    tools go through the guard (`Settings.http_allow`). `only` has the operations by `operationId` or as
    `GET /orders/{id}`, in the order of the tools. `prefix` is by default the title of the document, `server` its first
    server. With `provider`, calls use the organization's connection with that provider, by the security scheme of
    the document. Each call sends the key of its effect as `Idempotency-Key`; a POST or PATCH is repeated after a crash
    only if its operation declares that header, or is in `idempotent`.

    Raises OSError when the source cannot be read, ValueError for what is not valid or not supported in it.
    """
    text, base = _read(str(source))
    document = OpenApiDocument(parse_json(text) if text.lstrip()[:1] == b"{" else parse_yaml(text))
    url = server or document.server
    address = urljoin(base, url) if url else ""
    if not address.startswith(("http://", "https://")):
        raise ValueError("the document has no absolute server URL: use `server=`")
    start = _slug(document.title) if prefix is None else prefix
    repeatable = frozenset(idempotent)
    return [
        Tool(
            f"{start}.{each.id}" if start else each.id,
            OperationCall(each, address.rstrip("/"), provider is not None),
            each.id.replace("_", " "),
            each.summary,
            each.arguments,
            blocking=False,
            is_async=True,
            idempotent=each.idempotent or each.id in repeatable,
            provider=provider,
            output_schema=each.result,
        )
        for each in document.operations(only)
    ]


def guarded(tool: Any, guard: AddressGuard) -> Any:
    """The tool with this guard, if it is one of `from_openapi`; anything else as it is."""
    if isinstance(tool, Tool) and isinstance(tool.run, OperationCall):
        return attrs.evolve(tool, run=attrs.evolve(tool.run, guard=guard))
    return tool


def _read(source: str) -> tuple[bytes, str]:
    """The document, and the URL to which its servers are relative."""
    if not source.startswith(("http://", "https://")):
        return Path(source).read_bytes(), ""
    with needs_extra("http", "an OpenAPI document at a URL"):
        import httpx2

    try:
        response = httpx2.get(source, timeout=SECONDS, follow_redirects=True)
        response.raise_for_status()
    except httpx2.HTTPError as error:
        raise OSError(f"`{source}` cannot be read: {error}") from error
    return response.content, source


def _slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower(), flags=re.ASCII).strip("-")[:40]


@attrs.frozen
class OperationCall:
    """A call of one operation: the `run` of its tool. The default guard lets only public addresses through."""

    operation: OpenApiOperation
    server: str
    connects: bool
    guard: AddressGuard = attrs.field(factory=AddressGuard)

    async def __call__(self, params: Mapping[str, JSON], call: ToolCall) -> JSON:
        try:
            with needs_extra("http", "a tool of an OpenAPI document"):
                from wfcore.adapters.outbound.client import Client, RequestFailed
        except MissingExtra as error:
            raise ToolFailed(str(error), retryable=False) from None
        method, url, headers, content = self._request(params, call)
        try:
            response = await Client(self.guard).send(method, url, headers, content)
        except AddressRefused as error:
            raise ToolFailed(str(error), retryable=False) from None
        except RequestFailed as error:
            raise ToolFailed(str(error)) from None
        if 200 <= response.status < 300:
            return body_of(response)
        if response.status == 401 and self.connects:
            raise ConnectionRequired
        shown = dumps(body_of(response))[:SHOWN]
        problem = f"{method} {self.operation.path}: status {response.status}: {shown}"
        raise ToolFailed(problem, retryable=response.status in RETRYABLE)

    def _request(self, params: Mapping[str, JSON], call: ToolCall) -> tuple[str, str, dict[str, str], bytes | None]:
        path, query, given = self.operation.path, list[tuple[str, str]](), dict[str, str]()
        for each in self.operation.parameters:
            if each.key in params and params[each.key] is not None:
                value = params[each.key]
                if each.place == "path":
                    path = path.replace(f"{{{each.name}}}", _path_text(each, value))
                elif each.place == "query":
                    query += _pairs(each, value)
                else:
                    given[each.name] = _joined(value)
        headers = {KEY_HEADER: sent_key(call), "accept": "application/json", **checked_headers(given)}
        content = None
        if self.operation.body is not None and "body" in params:
            content, headers["content-type"] = dumps(params["body"]).encode(), "application/json"
        if call.connection is not None:
            more, extra = _credentials(call.connection.config, self.operation.security or {})
            headers, query = {**headers, **more}, query + extra
        search = f"?{urlencode(query, quote_via=quote)}" if query else ""
        return self.operation.method.upper(), self.server + path + search, headers, content


def _path_text(parameter: OpenApiParameter, value: JSON) -> str:
    """The value in a path. Raises ToolFailed for an empty one or dots: they would lead to another operation."""
    text = _joined(value)
    if text in ("", ".", ".."):
        raise ToolFailed(f"`params.{parameter.key}`: `{text}` cannot stand in a path", retryable=False)
    return quote(text, safe=",") if isinstance(value, (list, dict)) else quote(text, safe="")


def _pairs(parameter: OpenApiParameter, value: JSON) -> list[tuple[str, str]]:
    """The value in a query (OpenAPI, Style Values)."""
    name = parameter.name
    if isinstance(value, dict):
        if parameter.style == "deepObject":
            return [(f"{name}[{key}]", text_of(each)) for key, each in value.items()]
        if parameter.explode:
            return [(key, text_of(each)) for key, each in value.items()]
    if isinstance(value, list) and parameter.explode:
        return [(name, text_of(each)) for each in value]
    separator = {"spaceDelimited": " ", "pipeDelimited": "|"}.get(parameter.style, ",")
    return [(name, _joined(value, separator))]


def _joined(value: JSON, separator: str = ",") -> str:
    if isinstance(value, list):
        return separator.join(map(text_of, value))
    if isinstance(value, dict):
        return separator.join(f"{key}{separator}{text_of(each)}" for key, each in value.items())
    return text_of(value)


def _credentials(
    config: Mapping[str, JSON], scheme: Mapping[str, JSON]
) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Headers and query parameters of a connection: its own `headers`, and its key by the scheme of the operation."""
    given = {name.lower(): str(value) for name, value in as_object(config.get("headers") or {}).items()}
    key = config.get("apiKey")
    if key is None:
        return given, []
    header, kind = config.get("header"), scheme.get("type")
    if header:
        return {**given, str(header).lower(): str(key)}, []
    if kind == "apiKey" and scheme.get("in") == "query":
        return given, [(str(scheme["name"]), str(key))]
    if kind == "apiKey" and scheme.get("in") == "header":
        return {**given, str(scheme["name"]).lower(): str(key)}, []
    if kind == "http" and str(scheme.get("scheme", "")).lower() == "basic":
        return {**given, "authorization": f"Basic {b64encode(str(key).encode()).decode()}"}, []
    return {**given, "authorization": f"Bearer {key}"}, []
