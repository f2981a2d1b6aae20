"""The OpenAPI 3.1 document, made of the route table and the shapes."""

import re
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, Final

from wfcore.adapters.http.core.request_parsing import OPAQUE_ID, Query
from wfcore.adapters.http.core.route import IDEMPOTENCY_KEY, IF_MATCH, LAST_EVENT_ID, Route
from wfcore.adapters.http.openapi.examples import ANSWERS, PARAMETERS, REQUESTS
from wfcore.api.resources import ErrorEnvelope, schema_components
from wfcore.domain.json.codec import schema_ref
from wfcore.domain.kernel.json_type import JSON

_PARAMETER = re.compile(r"\{([A-Za-z]+)\}", re.ASCII)

_FRAMES = {"type": "string", "description": "Server-Sent Events; the data of each is an `Event`"}

_HEADERS: Final[Mapping[str, tuple[str, JSON]]] = {
    IDEMPOTENCY_KEY: ("The same key and body give the same answer", OPAQUE_ID),
    IF_MATCH: ("The `ETag` that was read; a stale one is a conflict", {"type": "string"}),
    "webhook-id": ("What the message is called, however often it is sent", OPAQUE_ID),
    "webhook-timestamp": ("When it was sent, in seconds since the epoch", {"type": "integer"}),
    "webhook-signature": (
        "`v1,` and the HMAC-SHA256 of `id.timestamp.body` in base64; several with blanks",
        {"type": "string"},
    ),
    LAST_EVENT_ID: ("The stream goes on after this event", {"type": "integer", "minimum": 0}),
}
_ERRORS: Final[Mapping[int, str]] = {
    400: "Malformed request",
    401: "Missing, invalid or expired credential",
    403: "The token lacks a scope, or the caller a right",
    404: "Does not exist, or the caller has no access",
    405: "Method not allowed",
    406: "`Accept` does not allow what is answered",
    408: "The body did not arrive in time",
    409: "Conflicts with the current state",
    413: "The body is too large",
    422: "A value breaks a rule",
    429: "Too many requests in a minute; `Retry-After` says when one will be let in",
    500: "Unexpected server error",
    503: "A part that is needed does not answer",
}
_ALWAYS = (405, 500)
_WITH_PRINCIPAL = (400, 401, 403, 404, 409, 429)
_METRICS = (401, 404)
_PAGE = (404,)
_WITH_BODY = (408, 413, 422)


def document(routes: Iterable[Route]) -> dict[str, JSON]:
    """The description of these routes."""
    paths: dict[str, Any] = {}
    shapes = list[type]()
    for route in routes:
        shapes += [shape for shape in (route.body, route.reads, route.answer) if isinstance(shape, type)]
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "wfcore", "version": "1.0.0", "description": "Workflows, scopes and runs."},
        "paths": paths,
        "components": {
            "schemas": _with_examples(schema_components(*shapes)),
            "responses": {str(status): _error(status) for status in _ERRORS},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _with_examples(schemas: Mapping[str, JSON]) -> dict[str, JSON]:
    examples = {**REQUESTS, **ANSWERS}
    return {
        name: schema | {"examples": [examples[name]]} if name in examples else schema
        for name, schema in schemas.items()
    }


def _operation(route: Route) -> dict[str, JSON]:
    operation: dict[str, JSON] = {
        "operationId": route.name,
        "summary": route.summary,
        "parameters": [
            *_path_parameters(route),
            *map(_query, route.query),
            *map(_header, route.headers),
            *(_header(name) | {"required": True} for name in route.signed),
        ],
        "responses": _responses(route),
        "security": [] if route.scopes is None else [{"token": list(route.scopes)}],
    }
    if (body := route.body or route.reads) is not None:
        content = {"application/json": {"schema": schema_ref(body)}}
        operation["requestBody"] = {"required": route.body_required or body is route.reads, "content": content}
    if route.signed and route.reads is None:
        content = {"application/json": {"schema": {"type": ["object", "array"]}}}
        operation["requestBody"] = {"required": True, "content": content}
    if route.takes:
        schema = {"type": "string", "format": "binary"}
        operation["requestBody"] = {"required": True, "content": {name: {"schema": schema} for name in route.takes}}
    if route.successor is not None:
        operation["deprecated"] = True
    return operation


def _path_parameters(route: Route) -> list[JSON]:
    number = {"type": "integer", "minimum": route.least_id}
    return [
        {"name": name, "in": "path", "required": True, "schema": number if name == "id" else OPAQUE_ID}
        | ({"example": PARAMETERS[name]} if name in PARAMETERS else {})
        for name in _PARAMETER.findall(route.path)
    ]


def _query(query: Query) -> JSON:
    return {"name": query.name, "in": "query", "description": query.description, "schema": query.schema}


def _header(name: str) -> JSON:
    description, schema = _HEADERS[name]
    return {"name": name, "in": "header", "description": description, "schema": schema}


def _responses(route: Route) -> dict[str, JSON]:
    schema = schema_ref(route.answer) if isinstance(route.answer, type) else route.answer
    content: dict[str, JSON] = {route.media_type: {"schema": schema}}
    responses = {
        str(status): _response(status, {} if status == 204 else content) for status in (route.status, *route.also)
    }
    if route.streams:
        responses["200"] = _response(200, content | {"text/event-stream": {"schema": _FRAMES}})
    for status in route.bare:
        responses[str(status)] = _response(status, {})
    for status in _error_statuses(route):
        responses[str(status)] = {"$ref": f"#/components/responses/{status}"}
    if route.faults is not None:
        responses |= {str(status): _fault(status, route.faults) for status in (400, 404)}
    return responses


def _error_statuses(route: Route) -> list[int]:
    if route.signed:
        return sorted({*_ALWAYS, *_WITH_PRINCIPAL, *_WITH_BODY, 503} - {403, 429})
    if route.scopes is None:
        more = {"readyz": (503,), "metrics": _METRICS, "chatapp.page": _PAGE, "protectedResource.mcp": (404,)}
        return sorted({*_ALWAYS, *more.get(route.name, ())})
    read = _WITH_BODY if route.body or route.reads or route.takes else ()
    return sorted({*_ALWAYS, *_WITH_PRINCIPAL, *read, *((406, 503) if route.reads else ())})


def _response(status: int, content: JSON) -> JSON:
    return {"description": HTTPStatus(status).phrase, "content": content}


def _fault(status: int, shape: type) -> JSON:
    """An error in the envelope, or of this shape."""
    schema = {"anyOf": [schema_ref(ErrorEnvelope), schema_ref(shape)]}
    return {"description": _ERRORS[status], "content": {"application/json": {"schema": schema}}}


def _error(status: int) -> JSON:
    return _response(status, {"application/json": {"schema": schema_ref(ErrorEnvelope)}}) | {
        "description": _ERRORS[status]
    }
