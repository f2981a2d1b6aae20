"""Reading messages of the Model Context Protocol, and the JSON-RPC errors that refuse them.

Two kinds of protocol versions are supported: those with a handshake, up to 2025-11-25, and 2026-07-28, where each
request is self-contained. Needs the extra `mcp`.
"""

from collections.abc import Mapping
from http import HTTPStatus
from itertools import takewhile
from typing import Final

from mcp.server.connection import Connection
from mcp.shared.inbound import (
    ERROR_CODE_HTTP_STATUS,
    MCP_PROTOCOL_VERSION_HEADER,
    InboundLadderRejection,
    classify_inbound_request,
    find_duplicated_routing_header,
    unsupported_protocol_version_rejection,
)
from mcp.shared.jsonrpc_dispatcher import cancelled_request_id_from_params
from mcp.types import (
    DEFAULT_NEGOTIATED_VERSION,
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import ValidationError
from starlette.datastructures import Headers

from wfcore.domain.json.codec import dumps
from wfcore.domain.json.parsing import parse_json, wire_path
from wfcore.domain.kernel.errors import Issue, Malformed, refuse
from wfcore.domain.kernel.json_type import JSON
from wfcore.ports.tool_servers import CALL_KEY
from wfcore.runtime.channels.workflow_tools import Reply

SESSION: Final = "Mcp-Session-Id"
"""The header that a client copies from the response to `initialize`. The server does not store it."""
FORMS: Final = "forms-"
"""The beginning of the session id of a client that can show forms (MCP, Elicitation)."""
_QUESTION: Final = "wfcore-ask "
"""The beginning of the ids of questions to clients."""


class RequestRefused(Exception):
    """A message that is refused with a JSON-RPC error: `reply` is the body, `status` the HTTP status."""

    def __init__(self, code: int, message: str, data: JSON = None, *, id: RequestId | None = None) -> None:
        super().__init__(message)
        self.reply = failure(id, ErrorData(code=code, message=message, data=data))
        self.status = ERROR_CODE_HTTP_STATUS.get(code, HTTPStatus.BAD_REQUEST)


def failure(id: RequestId | None, error: ErrorData) -> dict[str, JSON]:
    """The error reply to request `id`; None for an unknown request (JSON-RPC 2.0, 5)."""
    return {"jsonrpc": "2.0", "id": id, "error": error.model_dump(mode="json", exclude_none=True)}


_FAULTS: Final[Mapping[str, str]] = {
    "missing": "is required",
    "string_type": "must be a string",
    "list_type": "must be an array",
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "must be an object"),
}
"""What pydantic's types of errors mean to a client."""


def invalid_params(error: ValidationError) -> ErrorData:
    """What is wrong with the `params` of a request, each fault with its path."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    try:
        refuse(dict.fromkeys(_issue(one["type"], one["loc"]) for one in found))
    except Malformed as refused:
        return ErrorData(code=INVALID_PARAMS, message=refused.message, data=refused.info)
    raise AssertionError("a validation error has a fault")


def _issue(kind: str, steps: tuple[str | int, ...]) -> Issue:
    """A path ends before the name of a type, of which the value could be one: the client does not know these.

    The SDK checks some requests as a whole, and of others the `params` alone.
    """
    known = tuple(takewhile(lambda step: not str(step)[:1].isupper(), steps))
    path = wire_path(known if known[:1] == ("params",) else ("params", *known))
    message = _FAULTS.get(kind, "is not valid") if known == steps else "is not valid"
    return Issue(path, message, "required" if message == _FAULTS["missing"] else "type")


Incoming = JSONRPCRequest | JSONRPCNotification | JSONRPCResponse | JSONRPCError


def read_message(raw: bytes, headers: Headers) -> Incoming:
    """Parse a single message. Raises RequestRefused for anything else: not JSON, a batch, a response to no question."""
    try:
        tree = parse_json(raw)
    except Malformed as error:
        raise RequestRefused(PARSE_ERROR, error.message) from None
    try:
        message: Incoming = _shape_of(tree).model_validate(tree)
    except ValidationError:
        raise RequestRefused(INVALID_REQUEST, _ONE_MESSAGE) from None
    if isinstance(message, JSONRPCResponse | JSONRPCError) and question_of_id(message.id) is None:
        raise RequestRefused(INVALID_REQUEST, _ONE_MESSAGE)
    if (name := find_duplicated_routing_header(headers.items())) is not None:
        raise RequestRefused(HEADER_MISMATCH, f"the header `{name}` must not be repeated")
    return message


_ONE_MESSAGE: Final = "the body must be a single JSON-RPC request, notification, or response to a request of the server"


def _shape_of(tree: JSON) -> type[JSONRPCRequest | JSONRPCNotification | JSONRPCResponse | JSONRPCError]:
    if not isinstance(tree, dict) or "id" not in tree:
        return JSONRPCNotification
    if "method" in tree:
        return JSONRPCRequest
    return JSONRPCError if "error" in tree else JSONRPCResponse if "result" in tree else JSONRPCRequest


# Questions to the client


def offers_forms(message: JSONRPCRequest) -> bool:
    """Whether this `initialize` is of a client that can show forms."""
    capabilities = (message.params or {}).get("capabilities")
    return isinstance(capabilities, dict) and isinstance(capabilities.get("elicitation"), dict)


def has_forms(session: str | None) -> bool:
    """Whether the client of this session can show forms."""
    return session is not None and session.startswith(FORMS)


def question_id(run_id: str, interrupt_id: str) -> str:
    """The id of a question, from which any process knows what the answer decides."""
    return _QUESTION + dumps([run_id, interrupt_id])


def question_of_id(id: RequestId | None) -> tuple[str, str] | None:
    """The run and the interrupt of the question with this id; None for any other id."""
    if not isinstance(id, str) or not id.startswith(_QUESTION):
        return None
    try:
        found = parse_json(id.removeprefix(_QUESTION).encode())
    except Malformed:
        return None
    match found:
        case [str() as run_id, str() as interrupt_id]:
            return run_id, interrupt_id
    return None


def reply_of(message: JSONRPCResponse | JSONRPCError) -> Reply:
    """The answer in a response; an error or an unknown answer is a cancel.

    Not read with the SDK's type, in which the fields of a form have no objects: the `data` of a decision is one.
    """
    found = message.result if isinstance(message, JSONRPCResponse) else {}
    action, content = found.get("action"), found.get("content")
    if action not in ("accept", "decline"):
        return Reply("cancel")
    return Reply(action, content if isinstance(content, dict) else None)


def has_handshake(headers: Headers) -> bool:
    """Whether the protocol version has a handshake; a message without a version has."""
    return headers.get(MCP_PROTOCOL_VERSION_HEADER) in (None, *HANDSHAKE_PROTOCOL_VERSIONS)


def check_version(headers: Headers) -> None:
    """Raise RequestRefused for a notification of an unsupported version."""
    version = headers.get(MCP_PROTOCOL_VERSION_HEADER, "")
    if not has_handshake(headers) and (error := unsupported_protocol_version_rejection(version)) is not None:
        raise RequestRefused(error.code, error.message, error.data)


def connection_of(request: JSONRPCRequest, headers: Headers) -> Connection:
    """The protocol version and client of a request. Raises RequestRefused when headers and body disagree."""
    if has_handshake(headers):
        version = headers.get(MCP_PROTOCOL_VERSION_HEADER, DEFAULT_NEGOTIATED_VERSION)
        return Connection.from_envelope(version, None, None)
    route = classify_inbound_request({"method": request.method, "params": request.params}, headers=headers)
    if isinstance(route, InboundLadderRejection):
        raise RequestRefused(route.code, route.message, route.data, id=request.id)
    return Connection.from_envelope(route.protocol_version, route.client_info, route.client_capabilities)


def call_key(request: JSONRPCRequest, session: str | None) -> str | None:
    """The key under which a repeated call is found: the client's own, else its request id within its session.

    None without either. Raises RequestRefused for an invalid key, since its client relies on it.
    """
    meta = (request.params or {}).get("_meta")
    if not isinstance(meta, dict) or CALL_KEY not in meta:
        return None if session is None else _session_key(session, request.id)
    key = meta[CALL_KEY]
    if not isinstance(key, str) or not key:
        raise RequestRefused(INVALID_PARAMS, f"`{CALL_KEY}` must be a non-empty string", id=request.id)
    return f"key {key}"


def cancelled_key(notification: JSONRPCNotification, session: str | None) -> str | None:
    """The key of the call that a notification cancels; None where it cancels none, or has no session."""
    if notification.method != "notifications/cancelled" or session is None:
        return None
    request_id = cancelled_request_id_from_params(notification.params)
    return None if request_id is None else _session_key(session, request_id)


def _session_key(session: str, request_id: RequestId) -> str:
    """The ids `1` and `"1"` are different (JSON-RPC 2.0, 4)."""
    return f"session {dumps([session, request_id])}"
