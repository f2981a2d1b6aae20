"""The OpenAPI 3.1 document, generated from the route table and the shapes of the wire."""

import re
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from types import UnionType
from typing import Any, Final, get_args

from wfcore.adapters.http.core.ag_ui import PROFILE, AgUiEvent
from wfcore.adapters.http.core.request_parsing import OPAQUE_ID, Query
from wfcore.adapters.http.core.route import IDEMPOTENCY_KEY, IF_MATCH, IF_NONE_MATCH, LAST_EVENT_ID, Route
from wfcore.adapters.http.openapi.examples import PARAMETERS, REQUESTS, RESPONSES
from wfcore.api.resources import ErrorEnvelope, schema_components
from wfcore.api.runs import RefusedEvent
from wfcore.domain.json.codec import component_name, schema_ref
from wfcore.domain.kernel.json_readers import as_object
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.events import EVENTS

_PARAMETER = re.compile(r"\{([A-Za-z]+)\}", re.ASCII)

_HEADERS: Final[Mapping[str, tuple[str, JSON]]] = {
    IDEMPOTENCY_KEY: ("The same key and body give the same response", OPAQUE_ID),
    IF_MATCH: ("The `ETag` of the version that was read; another version is a conflict", {"type": "string"}),
    "webhook-id": ("The id of the message, the same for every attempt", OPAQUE_ID),
    "webhook-timestamp": ("When the message was sent, in seconds since the epoch", {"type": "integer"}),
    "webhook-signature": (
        "`v1,` and the HMAC-SHA256 of `id.timestamp.body` in base64; several are separated by blanks",
        {"type": "string"},
    ),
    "x-slack-request-timestamp": ("When the request was sent, in seconds since the epoch", {"type": "integer"}),
    "x-slack-signature": ("`v0=` and the HMAC-SHA256 of `v0:timestamp:body` in hexadecimal", {"type": "string"}),
    IF_NONE_MATCH: ("The `ETag` that the client has; the response is then 304 without a body", {"type": "string"}),
    LAST_EVENT_ID: ("The stream continues after this event", {"type": "integer", "minimum": 0}),
}
_ERRORS: Final[Mapping[int, str]] = {
    400: "Malformed request",
    401: "Missing, invalid or expired credential",
    403: "The token lacks a scope, or the caller a permission",
    404: "Does not exist, or the caller has no access",
    405: "Method not allowed",
    406: "`Accept` does not allow the media type of the response",
    408: "The body did not arrive in time",
    409: "Conflicts with the current state",
    413: "The body is too large",
    422: "A value breaks a rule",
    429: "Too many requests in a minute; `Retry-After` is the wait in seconds",
    500: "Unexpected server error",
    503: "A required service is not available; `Retry-After` is the wait in seconds if waiting helps",
}
_STREAM = "text/event-stream"
_ALWAYS = (405, 500)
_WITH_PRINCIPAL = (400, 401, 403, 404, 409, 429, 503)
_METRICS = (401, 404)
_CHAT_PAGE = (404, 503)
_WITH_BODY = (408, 413, 422)


TAGS: Final[Mapping[str, str]] = {
    "workflows": "Graphs with drafts, deployed variations, access, schedules and interfaces",
    "agents": "The earlier name of workflows",
    "skills": "Agents with instructions, tools and subordinates",
    "memories": "What the agents of a skill remember",
    "context": "The context of a run, composed without a call of a model",
    "conversations": "Threads of messages",
    "runs": "Runs of workflows, skills and the assistant, their events and interrupts",
    "uploads": "Content of attachments",
    "interfaces": "What interface rows serve: chat pages, protocol servers, team chats, webhooks",
    "members": "Members of the organization",
    "groups": "Groups of members",
    "tokens": "Personal access tokens",
    "audit": "The audit trail",
    "tools": "The tool catalog",
    "models": "The models of this installation",
    "nodeTypes": "What a graph can consist of",
    "guardrails": "Checks of the texts of agents",
    "expressions": "Evaluation of expressions and templates",
    "contextItems": "Texts for all agents of the organization",
    "connections": "Access to external services",
    "changes": "What changes in the organization, live",
    "usage": "Usage of models",
    "suggestions": "Suggested prompts",
    "server": "Health, metadata and documentation of this server",
}
_AREAS: Final[Mapping[str, str]] = {
    "schedules": "workflows",
    "actions": "runs",
    "chat": "runs",
    "interrupts": "runs",
    "mcp": "interfaces",
    "chatapp": "interfaces",
    "teamchat": "interfaces",
    "webhooks": "interfaces",
    "contexts": "context",
}


def document(routes: Iterable[Route]) -> dict[str, JSON]:
    """The OpenAPI document of these routes."""
    paths: dict[str, Any] = {}
    shapes, used = list[type](), set[str]()
    for route in routes:
        used.add(_tag(route))
        named = route.body, *_raw_shapes(route), route.response, *_alternatives(route.events)
        shapes += [shape for shape in named if isinstance(shape, type)]
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "wfcore", "version": "1.0.0", "description": "Workflows, scopes and runs."},
        "tags": [{"name": name, "description": text} for name, text in TAGS.items() if name in used],
        "paths": paths,
        "components": {
            "schemas": _with_examples(
                {**schema_components(*shapes, *EVENTS.values(), RefusedEvent), "Event": _event_union()}
            ),
            "responses": {str(status): _error(status) for status in _ERRORS},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _tag(route: Route) -> str:
    """The area of a route: the first part of its name, or `server`."""
    area = route.name.partition(".")[0]
    return _AREAS.get(area, area if area in TAGS else "server")


def _description(route: Route) -> str:
    """What its use case says, else the summary; the scopes that it needs."""
    text = getattr(route.scopes, "description", "")
    needed = f"Needs the token scopes {', '.join(f'`{scope}`' for scope in route.scopes)}." if route.scopes else ""
    return "\n\n".join(part for part in (text or f"{route.summary}.", needed) if part)


def _with_examples(schemas: Mapping[str, JSON]) -> dict[str, JSON]:
    examples = {**REQUESTS, **RESPONSES}
    return {
        name: {**as_object(schema), "examples": [examples[name]]} if name in examples else schema
        for name, schema in schemas.items()
    }


def _operation(route: Route) -> dict[str, JSON]:
    operation: dict[str, JSON] = {
        "operationId": route.name,
        "summary": route.summary,
        "description": _description(route),
        "tags": [_tag(route)],
        "parameters": [
            *_path_parameters(route),
            *map(_query, route.query),
            *map(_header, route.headers),
            *([_header(IF_NONE_MATCH)] if _is_conditional(route) else []),
            *({**_header(name), "required": True} for name in route.signature_headers),
        ],
        "responses": _responses(route),
        "security": [] if route.scopes is None else [{"token": list(route.scopes)}],
    }
    if shapes := _raw_shapes(route) or (() if route.body is None else (route.body,)):
        content = {"application/json": {"schema": _any_of(shapes)}}
        operation["requestBody"] = {"required": route.body_required or route.body is None, "content": content}
    if route.signature_headers and route.raw_body_shape is None:
        content = {"application/json": {"schema": {"type": ["object", "array"]}}}
        operation["requestBody"] = {"required": True, "content": content}
    if route.request_media_types:
        schema = {"type": "string", "format": "binary"}
        operation["requestBody"] = {
            "required": True,
            "content": {name: {"schema": schema} for name in route.request_media_types},
        }
    if route.successor is not None:
        operation["deprecated"] = True
    return operation


def _raw_shapes(route: Route) -> tuple[type, ...]:
    """The shapes of a JSON body whose bytes the handler reads."""
    return () if route.raw_body_shape is None else _alternatives(route.raw_body_shape)


def _alternatives(shape: type | UnionType) -> tuple[type, ...]:
    """The shapes of a union, or the one shape."""
    return (shape,) if isinstance(shape, type) else get_args(shape)


def _any_of(shapes: Sequence[type]) -> JSON:
    """The schema of what has one of these shapes."""
    refs: list[JSON] = [schema_ref(shape) for shape in shapes]
    return refs[0] if len(refs) == 1 else {"anyOf": refs}


def _is_conditional(route: Route) -> bool:
    return route.has_etag and route.method == "GET"


def _path_parameters(route: Route) -> list[JSON]:
    number: Mapping[str, JSON] = {"type": "integer", "minimum": route.min_id}
    found: list[JSON] = []
    for name in _PARAMETER.findall(route.path):
        schema = number if name == "id" else OPAQUE_ID
        example = {"example": PARAMETERS[name]} if name in PARAMETERS else {}
        found.append({"name": name, "in": "path", "required": True, "schema": schema, **example})
    return found


def _query(query: Query) -> dict[str, JSON]:
    deprecated: dict[str, JSON] = {"deprecated": True} if query.deprecated else {}
    return {"name": query.name, "in": "query", "description": query.description, "schema": query.schema, **deprecated}


def _header(name: str) -> dict[str, JSON]:
    description, schema = _HEADERS[name]
    return {"name": name, "in": "header", "description": description, "schema": schema}


def _responses(route: Route) -> dict[str, JSON]:
    schema = schema_ref(route.response) if isinstance(route.response, type) else route.response
    content: dict[str, JSON] = {route.media_type: {"schema": schema}}
    responses: dict[str, JSON] = {
        str(status): _response(status, {} if status == 204 else content)
        for status in (route.status, *route.other_statuses)
    }
    if route.streams:
        responses["200"] = _response(200, content | _frames(route))
    for status in (*route.empty_statuses, *((304,) if _is_conditional(route) else ())):
        responses[str(status)] = _response(status, {})
    for status in _error_statuses(route):
        responses[str(status)] = {"$ref": f"#/components/responses/{status}"}
    for status in route.page_statuses:
        error = _error(status)
        responses[str(status)] = {**error, "content": {**as_object(error["content"]), **content}}
    if route.has_error_events:
        for status in _error_statuses(route):
            if status < HTTPStatus.INTERNAL_SERVER_ERROR and status != HTTPStatus.METHOD_NOT_ALLOWED:
                refused = _error(status)
                responses[str(status)] = {
                    **refused,
                    "content": {**as_object(refused["content"]), **_frames(route, RefusedEvent)},
                }
    if route.error_shape is not None:
        responses |= {str(status): _error_of_shape(status, route.error_shape) for status in (400, 404)}
    return responses


def _frames(route: Route, *shapes: type) -> dict[str, JSON]:
    """The content of an event stream, by default of the route's events; runs have it also as AG-UI events."""
    streams = {_STREAM: _stream(shapes or _alternatives(route.events))}
    if route.has_run_events:
        streams[f"{_STREAM}; profile={PROFILE}"] = _stream((AgUiEvent,))
    return streams


def _stream(shapes: Sequence[type]) -> JSON:
    """The media type of a stream: `contentSchema` is the JSON in the data of each frame."""
    named = " or ".join(f"`{component_name(shape)}`" for shape in shapes)
    return {
        "schema": {
            "type": "string",
            "description": f"Server-Sent Events; the data of each is JSON: {named}",
            "contentMediaType": "application/json",
            "contentSchema": _any_of(shapes),
        }
    }


def _event_union() -> dict[str, JSON]:
    """The schema of an event of a run: that of its kind."""
    refs: dict[str, JSON] = {kind.value: schema_ref(shape)["$ref"] for kind, shape in EVENTS.items()}
    return {
        "description": "One event of a run. `kind` decides which fields it has.",
        "oneOf": [{"$ref": ref} for ref in refs.values()],
        "discriminator": {"propertyName": "kind", "mapping": refs},
    }


def _error_statuses(route: Route) -> list[int]:
    if route.signature_headers:
        return sorted({*_ALWAYS, *_WITH_PRINCIPAL, *_WITH_BODY} - {429, *(() if route.raw_body_shape else (403,))})
    if route.scopes is None:
        more = {
            "readyz": (503,), "metrics": _METRICS, "chatapp.page": _CHAT_PAGE, "protectedResource.mcp": (404,),
            "connections.connect": (503,), "connections.callback": (503,),
        }  # fmt: skip
        return sorted({400, *_ALWAYS, *more.get(route.name, ())})
    read: tuple[int, ...] = _WITH_BODY if route.body or route.raw_body_shape or route.request_media_types else ()
    if (
        route.name.endswith(".diff") or route.name == "evaluations.results"
    ):  # its query names variations, which must exist
        read = (422,)
    return sorted({*_ALWAYS, *_WITH_PRINCIPAL, *read, *((406,) if route.raw_body_shape else ())})


def _response(status: int, content: JSON) -> dict[str, JSON]:
    return {"description": HTTPStatus(status).phrase, "content": content}


def _error_of_shape(status: int, shape: type) -> JSON:
    """An error with the envelope, or of this shape."""
    schema = {"anyOf": [schema_ref(ErrorEnvelope), schema_ref(shape)]}
    return {"description": _ERRORS[status], "content": {"application/json": {"schema": schema}}}


def _error(status: int) -> dict[str, JSON]:
    content = {"application/json": {"schema": schema_ref(ErrorEnvelope)}}
    return {**_response(status, content), "description": _ERRORS[status]}
