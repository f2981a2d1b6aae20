"""Approvals as forms of an MCP client: what it shows, and the decision in its answer (MCP, Elicitation).

Such a form is flat: a decision, and beside it the fields of the approval's own form under the prefix `data.`.
"""

from collections.abc import Mapping
from typing import Final

from wfcore.domain.json.codec import dumps
from wfcore.domain.kernel.json_readers import as_text, optional_object, optional_text
from wfcore.domain.kernel.json_type import JSON

PREFIX: Final = "data."

_KEPT: Final = (
    "type", "title", "description", "default", "enum", "minLength", "maxLength", "minimum", "maximum", "format",
)  # fmt: skip
_TYPES: Final = ("string", "number", "integer", "boolean")
_DECISION: Final[Mapping[str, JSON]] = {
    "type": "string",
    "title": "Decision",
    "enum": ["approve", "deny"],
    "enumNames": ["Approve", "Deny"],
}


def form_of(interrupt: Mapping[str, JSON]) -> dict[str, JSON] | None:
    """The schema of the form for an open interrupt; None when no flat form can answer it."""
    if interrupt["type"] != "approval":
        return None
    fields: dict[str, JSON] = {"decision": dict(_DECISION)}
    form = optional_object(interrupt.get("formSchema")) or {}
    for name, field in (optional_object(form.get("properties")) or {}).items():
        if not isinstance(field, dict) or field.get("type") not in _TYPES:
            return None
        fields[PREFIX + name] = {"title": name, **{key: field[key] for key in _KEPT if key in field}}
    required = form.get("required")
    if isinstance(required, list) and not {f"{PREFIX}{name}" for name in required} <= fields.keys():
        return None
    return {"type": "object", "properties": fields, "required": ["decision"]}


def question_of(interrupt: Mapping[str, JSON], problem: str = "") -> str:
    """The text above the form: the message, the exact call of a tool, and what was wrong with the last answer."""
    tool = optional_text(interrupt.get("toolName")) or optional_text(interrupt.get("toolId"))
    parts = [
        problem,
        optional_text(interrupt.get("message")) or "Approve?",
        *([f"Tool: {tool}", f"Arguments: {dumps(interrupt.get('arguments'))}"] if tool else []),
    ]
    return "\n".join(part for part in parts if part)


def decision_of(action: str, content: Mapping[str, JSON] | None) -> dict[str, JSON] | None:
    """The decision of an answer: `decline` denies; None for `cancel`, and for content without a decision."""
    if action == "decline":
        return {"decision": "deny"}
    given = content or {}
    if action != "accept" or given.get("decision") not in ("approve", "deny"):
        return None
    own = given.get("data")
    data = dict(own) if isinstance(own, dict) else {}
    data |= {name.removeprefix(PREFIX): value for name, value in given.items() if name.startswith(PREFIX)}
    kept = {name: value for name, value in data.items() if value is not None}
    return {"decision": as_text(given["decision"]), **({"data": kept} if kept else {})}
