"""Composition of what an agent sends to its model (interface, context composition). It does no I/O.

A context is a JSON object. It holds the system text, a range of the conversation (its messages are not copied), the
message to the agent, and the definitions of its tools. For each part it has the source, the reason, and an estimate of
its tokens. `context_messages.request_of` makes the exact request to the model of it. A run composes once for each visit
of an agent node and stores the context in its journal.

The system text has, in this order: the skill's instructions and expected output, the node's instructions, the end user,
the context items, the memories. The last three are data: each is in a block that its content cannot close.

Memories, context items that are not named, and the conversation are cut to fit into the window. All other parts are
taken whole, or the context is refused; only a document may be replaced by its summary (`context_attachments`). Items
that are not named get a quarter of the window, memories an eighth, documents at most a half, the conversation at most a
half of the window and at most what is left. The remaining tokens are for rounds with tools and for the output.
"""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Final

import attrs
import msgspec

from wfcore.domain.agents.context_attachments import Attached, attached
from wfcore.domain.agents.context_messages import Range, ThreadHistory, newest_turns
from wfcore.domain.agents.context_text import MESSAGE_TOKENS, Fact, data_blocks, fitting, tokens
from wfcore.domain.agents.context_tools import MAX_TOOLS, OfferedTool, wire_names
from wfcore.domain.agents.narrowing import WINDOW, Config, guardrails_under
from wfcore.domain.kernel.errors import Issue, refuse
from wfcore.domain.kernel.json_readers import (
    as_list,
    as_number,
    as_objects,
    as_text,
    optional_number,
    optional_object,
    optional_text,
)
from wfcore.domain.kernel.json_type import JSON

MAX_MEMORIES: Final = 8
QUERY: Final = 2_000
"""The most characters of the message that are used to search for memories."""

_BY_DIGEST: Final = frozenset({"description", "parameters"})
_encode: Final = msgspec.json.Encoder(order="sorted").encode

Composed = dict[str, JSON]
"""A composed context."""


@attrs.frozen
class LeftOut:
    """A possible part of a context that is not in it, and why."""

    source: str
    ref: str | None
    why: str

    def to_wire(self) -> dict[str, JSON]:
        return {"source": self.source, "ref": self.ref, "why": self.why}


@attrs.frozen
class Segment:
    """One part of a context. `ref` is the id of its origin, if it has one."""

    source: str
    ref: str | None
    tokens: int
    why: str

    def to_wire(self) -> dict[str, JSON]:
        return {"source": self.source, "ref": self.ref, "tokens": self.tokens, "why": self.why}


@attrs.frozen
class CompositionInput:
    """The input of `compose`. `message` is None if there is no message yet.

    `items` are never cut if they are `named`; the best memories come first. `skill` is the id of the skill, None for
    the assistant. `attachments` have the form of a run's state. `is_model_open`: neither the node nor the skill names
    the model, so that the config of a run can.
    """

    model: str
    skill: str | None = None
    instructions: Sequence[str] = ()
    expected_output: str = ""
    node_instructions: str = ""
    message: str | None = None
    settings: Mapping[str, JSON] = attrs.field(factory=dict)
    items: Sequence[Fact] = ()
    named: bool = False
    memories: Sequence[Fact] = ()
    history: ThreadHistory | None = None
    offers: Sequence[OfferedTool] = ()
    left_out: Sequence[LeftOut] = ()
    output_schema: Mapping[str, JSON] | None = None
    budget: Mapping[str, JSON] = attrs.field(factory=dict)
    attachments: Mapping[str, JSON] | None = None
    guardrails: Sequence[JSON] = ()
    end_user: Fact | None = None
    connections: Sequence[str] = ()
    is_model_open: bool = False


def window_of(settings: Mapping[str, JSON]) -> int:
    """The size of the context window in tokens."""
    return int(as_number(settings.get("contextWindow") or WINDOW))


def windowed(settings: Mapping[str, JSON], window: int | None) -> dict[str, JSON]:
    """The settings with the smaller one of their own context window and this one, as far as there are any."""
    windows = [size for size in (optional_number(settings.get("contextWindow")), window) if size is not None]
    return {**settings, "contextWindow": min(windows)} if windows else dict(settings)


def item_limit(window: int) -> int:
    """The most tokens of context items that are not named."""
    return window // 4


def history_limit(window: int) -> int:
    """The most tokens of the conversation; no more of a thread is read."""
    return window // 2


def document_limit(window: int) -> int:
    """The most tokens of attached documents."""
    return window // 2


def compose(given: CompositionInput) -> Composed:
    """Compose the context. Raises Invalid when a part that cannot be cut does not fit, or for too many tools."""
    window = window_of(given.settings)
    items, omitted_items = (given.items, ()) if given.named else fitting(given.items, item_limit(window))
    memories, omitted_memories = fitting(given.memories[:MAX_MEMORIES], window // 8)
    about = [given.end_user] if given.end_user else []
    texts = _texts(given, [*about, *items, *memories])
    system = "\n".join(text for text, _ in texts)
    tools, tool_segments = _offered_tools(given)
    files = attached(given.attachments, document_limit(window))
    segments = [*(segment for _, segment in texts), *tool_segments, *_message_segments(given, files)]
    taken = sum(segment.tokens for segment in segments)
    refuse([*files.issues, *_too_large(taken, window), *_too_many(given.offers)], as_invalid=True)
    history = _history_range(given.history, min(history_limit(window), window - taken))
    if history:
        segments.append(_conversation(history))
    omitted = _omitted_facts([*omitted_items, *omitted_memories])
    left_out = [*given.left_out, *omitted, *_omitted_history(given.history, history)]
    context: Composed = {
        "model": given.model,
        "settings": dict(given.settings),
        "system": system,
        "messages": history.to_wire() if history else None,
        "human": None if given.message is None else {"content": given.message, **files.human},
        "tools": tools,
        "segments": [segment.to_wire() for segment in segments],
        "leftOut": [one.to_wire() for one in left_out],
        "tokenEstimate": sum(segment.tokens for segment in segments),
        "contextWindow": window,
        "budget": dict(given.budget),
    }
    if given.output_schema is not None:
        context["outputSchema"] = given.output_schema
    if given.guardrails:
        context["guardrails"] = list(given.guardrails)
    if given.connections:
        context["connections"] = list(given.connections)
    if given.is_model_open:
        context["isModelOpen"] = True
    return _with_digest(context)


def narrowed_context(context: Mapping[str, JSON], config: Config) -> Mapping[str, JSON]:
    """The context under a later `config`: fewer tools, more approvals, more guardrails, the model if it is open.

    The window and the texts do not change; the digest is computed again.
    """
    toolset, own = optional_object(config.get("toolset")) or {}, as_list(context.get("guardrails") or [])
    offered = as_objects(context["tools"])
    settings = [(tool, optional_object(toolset.get(as_text(tool["toolId"]))) or {}) for tool in offered]
    tools: list[JSON] = [
        {**tool, "requiresApproval": True} if setting.get("requiresApproval") else tool
        for tool, setting in settings
        if setting.get("enabled", True)
    ]
    guardrails = guardrails_under(own, config)
    model = optional_text(config.get("model")) if context.get("isModelOpen") else None
    if (tools, guardrails) == (context["tools"], own) and model in (None, context.get("model")):
        return context
    changed: Composed = {"tools": tools}
    if guardrails:
        changed["guardrails"] = guardrails
    if model is not None:
        changed["model"] = model
    return _with_digest({**context, **changed})


def digest_of(context: Mapping[str, JSON]) -> str:
    """The digest of a context: SHA-256 of the JSON text of its other fields, with sorted keys.

    The long parts, the system text and the definitions of tools, are replaced by their own digests.
    """
    rest = {key: value for key, value in context.items() if key != "digest"}
    rest["system"] = sha256(as_text(context["system"]).encode()).hexdigest()
    tools = as_objects(context["tools"])
    rest["tools"] = [{key: tool[key] for key in tool if key not in _BY_DIGEST} for tool in tools]
    return "sha256:" + sha256(_encode(rest)).hexdigest()


def _with_digest(context: Composed) -> Composed:
    return {**context, "digest": digest_of(context)}


def _texts(given: CompositionInput, facts: Sequence[Fact]) -> list[tuple[str, Segment]]:
    """The parts of the system text, each with its segment; line breaks separate them."""
    parts: list[tuple[str, str, str | None, str]] = []
    if given.instructions:
        text = "\n".join(given.instructions)
        parts.append((text, "instructions", given.skill, "the instructions of the agent"))
    if given.expected_output:
        text = f"Expected output: {given.expected_output}"
        parts.append((text, "expectedOutput", given.skill, "the expected output of the skill"))
    if given.node_instructions:
        parts.append((given.node_instructions, "node", None, "the instructions of the node"))
    if facts:
        intro, *blocks = data_blocks(facts)
        parts.append((intro, "instructions", None, "marks the parts that are data"))
        parts += [(text, fact.source, fact.id, fact.why) for text, fact in zip(blocks, facts, strict=True)]
    extra = MESSAGE_TOKENS
    found = []
    for text, source, ref, why in parts:
        found.append((text, Segment(source, ref, tokens(text) + 1 + extra, why)))
        extra = 0
    return found


def _offered_tools(given: CompositionInput) -> tuple[list[JSON], list[Segment]]:
    """The offered tools on the wire, and their segments."""
    names = wire_names(given.offers)
    sized = [offer.wire_and_tokens(names[offer.tool_id]) for offer in given.offers]
    segments = [
        Segment("subordinates" if offer.kind == "skill" else "tools", offer.tool_id, size, offer.why)
        for offer, (_, size) in zip(given.offers, sized, strict=True)
    ]
    return [wire for wire, _ in sized], segments


def _message_segments(given: CompositionInput, files: Attached) -> Iterable[Segment]:
    if given.message is not None:
        yield Segment("message", None, tokens(given.message) + MESSAGE_TOKENS, "the message to the agent")
        yield from (Segment(part.source, part.key, part.tokens, part.why) for part in files.parts)


def _history_range(history: ThreadHistory | None, limit: int) -> Range | None:
    return None if history is None else newest_turns(history, limit)


def _conversation(history: Range) -> Segment:
    messages = "1 message" if history.count == 1 else f"{history.count} messages"
    return Segment("conversation", history.thread_id, history.tokens, f"the newest whole turns that fit: {messages}")


def _too_large(taken: int, window: int) -> Iterable[Issue]:
    if taken > window:
        message = f"must be at least about {taken} tokens for the parts that cannot be left out, not {window}"
        yield Issue("modelSettings.contextWindow", message, "contextWindow")


def _too_many(offers: Sequence[OfferedTool]) -> Iterable[Issue]:
    if len(offers) > MAX_TOOLS:
        yield Issue("toolset", f"must enable at most {MAX_TOOLS} tools, not {len(offers)}", "maxItems")


def _omitted_facts(facts: Iterable[Fact]) -> Iterable[LeftOut]:
    return [LeftOut(fact.source, fact.id, "does not fit into the context window") for fact in facts]


def _omitted_history(history: ThreadHistory | None, kept: Range | None) -> Iterable[LeftOut]:
    """One entry if older messages of the conversation are left out."""
    if history is None or (history.whole and len(history.heads) == (kept.count if kept else 0)):
        return []
    return [LeftOut("conversation", history.thread_id, "older messages do not fit into the context window")]
