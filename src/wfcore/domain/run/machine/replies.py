"""Replies of models and results of tools, which are untrusted: calls from a reply, messages from results."""

from collections.abc import Mapping

import attrs

from wfcore.domain.json.codec import text_of
from wfcore.domain.json.parsing import parse_json
from wfcore.domain.json.schema import Schema, compile_schema
from wfcore.domain.kernel.errors import Invalid, Malformed
from wfcore.domain.kernel.json_readers import as_objects, as_text
from wfcore.domain.kernel.json_type import JSON

MOST_CALLS = 64
"""Calls of tools that one reply of a model can request; with more of them none is made."""

MOST_ISSUES = 10
"""Issues of a call's arguments that are reported at once."""

LONGEST_RESULT = 50_000
"""Characters of a tool's result that a model receives."""


@attrs.frozen
class ModelReply:
    """What a model said: text, and the calls `{"id", "name", "args"}` that it requests."""

    text: JSON
    calls: tuple[Mapping[str, JSON], ...] = ()


def reply_of(output: JSON, step: int) -> ModelReply:
    """The reply in the output of a model call, which can be any JSON. Ids of calls are made unique; `step` is that of
    the first call.
    """
    if not isinstance(output, dict):
        return ModelReply(text_of(output))
    text, requested = output.get("text"), output.get("toolCalls")
    calls: dict[str, Mapping[str, JSON]] = {}
    for number, call in enumerate(requested if isinstance(requested, list) else (), step):
        known = call if isinstance(call, dict) else {}
        name, ident = known.get("name"), known.get("id")
        if not isinstance(ident, str) or not ident or ident in calls:
            ident = f"call-{number}"
            while ident in calls:
                ident += "-"
        calls[ident] = {"id": ident, "name": name if isinstance(name, str) else "", "args": known.get("args", {})}
    return ModelReply(text if isinstance(text, str) else "", tuple(calls.values()))


def tool_of(
    context: Mapping[str, JSON], call: Mapping[str, JSON], *, checks_always: bool = False
) -> tuple[Mapping[str, JSON], str]:
    """The tool that a call names, of those the context offers, and why the call cannot be made ("" when it can).

    The arguments are checked here if a person has to approve the call or with `checks_always`, else when the call is
    made.
    """
    for tool in as_objects(context.get("tools") or ()):
        if tool["name"] == call["name"]:
            if not isinstance(call["args"], dict):
                return tool, "the arguments are not a JSON object"
            is_checked = checks_always or tool.get("requiresApproval")
            return tool, _misfits(tool, call["args"]) if is_checked else ""
    return {}, f"there is no tool `{as_text(call['name'])[:100]}`"


def _misfits(tool: Mapping[str, JSON], args: JSON) -> str:
    try:
        schema = compile_schema(tool.get("parameters", True))
    except Invalid:
        return ""  # the tool reports by itself what it takes
    return "; ".join(f"`{issue.path}`: {issue.message}" for issue in schema.check(args, "params")[:MOST_ISSUES])


def bounded(text: str) -> str:
    """The text, cut when it is too long for a model."""
    left = len(text) - LONGEST_RESULT
    return text if left <= 0 else f"{text[:LONGEST_RESULT]}\n({left} more characters)"


def fit(text: JSON, schema: Schema) -> tuple[JSON, str]:
    """The object that a model wrote as text, and why it does not fit the schema ("" when it does)."""
    try:
        value = parse_json(text.encode()) if isinstance(text, str) else text
    except Malformed as error:
        return None, error.message
    issues = schema.check(value, "")
    return value, f"{issues[0].path or 'it'}: {issues[0].message}" if issues else ""
