"""The events of a stream as Markdown: the fields of each kind, and an example that has its shape."""

import inspect
import json
from collections.abc import Mapping
from typing import Any, NotRequired, Required, get_args, get_origin, get_type_hints

import msgspec

from sphinx_parts.http_api import document, value_of
from sphinx_parts.signatures import short
from wfcore.domain.run.events import EVENTS, EventKind

AT = "2026-01-02T03:04:05.678Z"
ERROR = {
    "code": "VALIDATION",
    "status": "INVALID_ARGUMENT",
    "message": "the card was declined",
    "requestId": "",
    "info": {"reason": "tool"},
}
WAIT = {"interruptId": "ask", "type": "approval", "nodeId": "ask", "message": "Refund order 7?"}
EXAMPLES: Mapping[EventKind, Mapping[str, Any]] = {
    EventKind.run_started: {"target": {"type": "workflow", "id": 1}},
    EventKind.node_started: {"nodeId": "pay", "visit": 1},
    EventKind.node_finished: {"nodeId": "pay", "output": {"refunded": 7}},
    EventKind.node_failed: {"nodeId": "pay", "error": ERROR},
    EventKind.node_retrying: {"nodeId": "pay", "attempt": 1, "error": ERROR, "retryAt": "2026-01-02T03:04:07.678Z"},
    EventKind.node_skipped: {"nodeId": "refuse"},
    EventKind.message_delta: {"nodeId": "answer", "messageId": "answer-1", "delta": "It was "},
    EventKind.message: {"nodeId": "answer", "messageId": "answer-1", "content": "It was sent on Monday."},
    EventKind.message_replaced: {"nodeId": "answer", "messageId": "answer-1", "content": "[removed]"},
    EventKind.tool_call: {
        "nodeId": "answer", "toolCallId": "call-1", "toolId": "orders.get", "name": "orders_get",
        "arguments": {"id": 7},
    },
    EventKind.tool_progress: {
        "nodeId": "fetch", "toolId": "import_orders", "progress": 300, "total": 1200, "message": "page 3",
    },
    EventKind.tool_result: {"nodeId": "answer", "toolCallId": "call-1", "output": {"sent": "Monday"}},
    EventKind.interrupt: {**WAIT, "expiresAt": None, "requiredApprovals": 1, "approvals": 0},
    EventKind.interrupt_reminded: {**WAIT, "remindedAt": AT},
    EventKind.usage: {"nodeId": "answer", "usage": {"inputTokens": 420, "outputTokens": 17}},
    EventKind.debug: {"nodeId": "answer", "about": "timing", "effect": "model", "attempt": 1, "ms": 812},
    EventKind.done: {"status": "interrupted", "output": None, "interrupts": [WAIT]},
    EventKind.error: {"error": ERROR},
    EventKind.cancelled: {},
}  # fmt: skip
"""The own fields of an event of a kind; that of another kind comes from its schema."""


def example(kind: EventKind, seq: int = 1) -> dict[str, Any]:
    """An event of this kind. Raises msgspec.ValidationError when it does not have the shape of its kind."""
    own = EXAMPLES[kind] if kind in EXAMPLES else value_of(document()["components"]["schemas"][EVENTS[kind].__name__])
    found = {**own, "kind": str(kind), "runId": "order-4711", "seq": seq, "at": AT}
    msgspec.convert(found, EVENTS[kind])
    return found


def markdown() -> str:
    """Every kind."""
    return "\n".join(_event(kind, number) for number, kind in enumerate(EVENTS, 1))


def _event(kind: EventKind, number: int) -> str:
    shape = EVENTS[kind]
    hints = get_type_hints(shape, include_extras=True)
    own = [name for name in hints if name not in {"kind", "runId", "seq", "at"}]
    rows = [f"| `{name}` | `{_shown(hints[name])}` | {_presence(shape, name)} |" for name in own]
    table = ["| Field | Type | |", "|---|---|---|", *rows, ""] if rows else []
    text = inspect.cleandoc(shape.__doc__ or "") if shape.__doc__ else ""
    frame = f"id: {number}\ndata: {json.dumps(example(kind, number))}"
    return "\n".join([f"## {kind}", "", text, "", *table, "```text", frame, "```", ""])


def _shown(hint: Any) -> str:
    inner = get_args(hint)[0] if get_origin(hint) in (NotRequired, Required) else hint
    return short(inner).replace("|", "\\|")


def _presence(shape: Any, name: str) -> str:
    return "" if name in shape.__required_keys__ else "optional"
