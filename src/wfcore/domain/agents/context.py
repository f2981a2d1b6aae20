"""Composing what an agent sends to its model, from what storage returned (interface, context composition).

A context is a JSON object. It holds the text of the system message, the range of the conversation that goes along (its
messages are never copied), what the agent is told, and the definitions of its tools; and it tells of each part where
it is from, why it is in, and about how many tokens it takes. `context_messages.request_of` makes of it, to the letter,
what the model is sent. A run composes once for each visit of an agent's node and keeps the context in its journal.

The system text has, in this order: the skill's instructions and expected output, the node's instructions, the context
items, the memories. The latter two are data: each stands in a block of its own, which it cannot end.

Of the window everything but memories, context items that nobody named and the conversation is taken whole, or the
context is refused; only a document may be there as its summary (`context_attachments`). Unnamed items get a quarter of
the window, memories an eighth, documents up to half of it, the conversation up to half and no more than is left: the
rest is for the rounds with tools and for the answer.
"""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Final

import attrs
import msgspec

from wfcore.domain.agents.context_attachments import Attached, attached
from wfcore.domain.agents.context_messages import Range, ThreadHistory, newest_turns
from wfcore.domain.agents.context_text import MESSAGE_TOKENS, Fact, tokens, told_as_data, within
from wfcore.domain.agents.context_tools import MAX_TOOLS, OfferedTool, wire_names
from wfcore.domain.agents.narrowing import WINDOW, Config, guardrails_under
from wfcore.domain.kernel.errors import Issue, refuse
from wfcore.domain.kernel.json_type import JSON

MAX_MEMORIES: Final = 8
QUERY: Final = 2_000
"""Characters of the message that memories are looked for by."""

_BY_DIGEST: Final = frozenset({"description", "parameters"})
_encode: Final = msgspec.json.Encoder(order="sorted").encode

Composed = dict[str, JSON]
"""A composed context."""


@attrs.frozen
class LeftOut:
    """What an agent could have been told or offered, and why it is not."""

    source: str
    ref: str | None
    why: str

    def to_wire(self) -> dict[str, JSON]:
        return {"source": self.source, "ref": self.ref, "why": self.why}


@attrs.frozen
class Segment:
    """One part of a context. `ref` is the id of what it was made of, where that has one."""

    source: str
    ref: str | None
    tokens: int
    why: str

    def to_wire(self) -> dict[str, JSON]:
        return {"source": self.source, "ref": self.ref, "tokens": self.tokens, "why": self.why}


@attrs.frozen
class Ingredients:
    """Everything that a context is made of. `message` None: the agent is told nothing yet.

    `items` go in whole when they are `named`; memories come best first. `skill` is the id of the skill, None for the
    assistant. `attachments` are as a run carries them.
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


def window_of(settings: Mapping[str, JSON]) -> int:
    """The context window in tokens."""
    return int(settings.get("contextWindow") or WINDOW)


def item_room(window: int) -> int:
    """Tokens for context items that nobody named."""
    return window // 4


def history_room(window: int) -> int:
    """Tokens for the conversation at most; of a thread no more is ever read."""
    return window // 2


def document_room(window: int) -> int:
    """Tokens for the documents that are attached."""
    return window // 2


def compose(given: Ingredients) -> Composed:
    """The context. `Invalid` when what cannot be left out does not fit, or there are more tools than can be offered."""
    window = window_of(given.settings)
    items, no_room = (given.items, ()) if given.named else within(given.items, item_room(window))
    memories, forgotten = within(given.memories[:MAX_MEMORIES], window // 8)
    texts = _texts(given, [*items, *memories])
    system = "\n".join(text for text, _ in texts)
    tools, calls = _called(given)
    files = attached(given.attachments, document_room(window))
    segments = [*(segment for _, segment in texts), *calls, *_told(given, files)]
    taken = sum(segment.tokens for segment in segments)
    refuse([*files.issues, *_too_large(taken, window), *_too_many(given.offers)], as_invalid=True)
    history = _remembered(given.history, min(history_room(window), window - taken))
    if history:
        segments.append(_conversation(history))
    left_out = [*given.left_out, *_without_room(no_room), *_without_room(forgotten), *_cut(given.history, history)]
    return _sealed(
        {
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
        | ({} if given.output_schema is None else {"outputSchema": given.output_schema})
        | ({"guardrails": list(given.guardrails)} if given.guardrails else {})
    )


def taken_from(context: Mapping[str, JSON], config: Config) -> Mapping[str, JSON]:
    """What a `config` that came later leaves of a context: fewer tools, more approvals, more guardrails.

    The model, the window and what was told stay as they were composed; the digest is that of what is left.
    """
    toolset, own = config.get("toolset") or {}, context.get("guardrails") or []
    told = [(tool, toolset.get(tool["toolId"]) or {}) for tool in context["tools"]]
    tools = [
        {**tool, "requiresApproval": True} if said.get("requiresApproval") else tool
        for tool, said in told
        if said.get("enabled", True)
    ]
    guardrails = guardrails_under(own, config)
    if (tools, guardrails) == (context["tools"], own):
        return context
    return _sealed({**context, "tools": tools} | ({"guardrails": guardrails} if guardrails else {}))


def digest_of(context: Mapping[str, JSON]) -> str:
    """The digest that a context has to carry: SHA-256 of the JSON text of all the rest, keys in order.

    The system text and the definitions of tools stand in it by their own digests, as they are long.
    """
    rest = {key: value for key, value in context.items() if key != "digest"}
    rest["system"] = sha256(context["system"].encode()).hexdigest()
    rest["tools"] = [{key: tool[key] for key in tool if key not in _BY_DIGEST} for tool in context["tools"]]
    return "sha256:" + sha256(_encode(rest)).hexdigest()


def _sealed(context: Composed) -> Composed:
    return {**context, "digest": digest_of(context)}


def _texts(given: Ingredients, facts: Sequence[Fact]) -> list[tuple[str, Segment]]:
    """The parts of the system text, each with its segment; a line break stands between two of them."""
    parts: list[tuple[str, str, str | None, str]] = []
    if given.instructions:
        text = "\n".join(given.instructions)
        parts.append((text, "instructions", given.skill, "the instructions of the agent"))
    if given.expected_output:
        text = f"Expected output: {given.expected_output}"
        parts.append((text, "expectedOutput", given.skill, "what the skill is to give"))
    if given.node_instructions:
        parts.append((given.node_instructions, "node", None, "the instructions of the node"))
    if facts:
        intro, *told = told_as_data(facts)
        parts.append((intro, "instructions", None, "says which part is data"))
        parts += [(text, fact.source, fact.id, fact.why) for text, fact in zip(told, facts, strict=True)]
    extra = MESSAGE_TOKENS
    found = []
    for text, source, ref, why in parts:
        found.append((text, Segment(source, ref, tokens(text) + 1 + extra, why)))
        extra = 0
    return found


def _called(given: Ingredients) -> tuple[list[JSON], list[Segment]]:
    """The tools that are offered, each with its segment."""
    names = wire_names(given.offers)
    told = [offer.told(names[offer.tool_id]) for offer in given.offers]
    segments = [
        Segment("subordinates" if offer.kind == "skill" else "tools", offer.tool_id, size, offer.why)
        for offer, (_, size) in zip(given.offers, told, strict=True)
    ]
    return [wire for wire, _ in told], segments


def _told(given: Ingredients, files: Attached) -> Iterable[Segment]:
    if given.message is not None:
        yield Segment("message", None, tokens(given.message) + MESSAGE_TOKENS, "what the agent is told")
        yield from (Segment(part.source, part.key, part.tokens, part.why) for part in files.parts)


def _remembered(history: ThreadHistory | None, room: int) -> Range | None:
    return None if history is None else newest_turns(history, room)


def _conversation(history: Range) -> Segment:
    messages = "1 message" if history.count == 1 else f"{history.count} messages"
    return Segment("conversation", history.thread_id, history.tokens, f"the newest whole turns that fit: {messages}")


def _too_large(taken: int, window: int) -> Iterable[Issue]:
    if taken > window:
        message = f"what cannot be left out takes about {taken} tokens, more than the window of {window}"
        yield Issue("modelSettings.contextWindow", message, "contextWindow")


def _too_many(offers: Sequence[OfferedTool]) -> Iterable[Issue]:
    if len(offers) > MAX_TOOLS:
        yield Issue("toolset", f"has {len(offers)} tools, more than the {MAX_TOOLS} that can be offered", "maxItems")


def _without_room(facts: Iterable[Fact]) -> Iterable[LeftOut]:
    return [LeftOut(fact.source, fact.id, "no room in the context window") for fact in facts]


def _cut(history: ThreadHistory | None, kept: Range | None) -> Iterable[LeftOut]:
    """That older messages of the conversation are not sent, if there are any."""
    if history is None or (history.whole and len(history.heads) == (kept.count if kept else 0)):
        return []
    return [LeftOut("conversation", history.thread_id, "older messages have no room in the context window")]
