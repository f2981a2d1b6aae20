"""The laws of composed contexts, over hostile texts, threads and names."""

import json
import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from wfcore.domain.agents.context import CompositionInput, compose, digest_of
from wfcore.domain.agents.context_messages import MessageHead, ThreadHistory, newest_turns, paired, request_of
from wfcore.domain.agents.context_text import MESSAGE_TOKENS, Fact, boundary, data_blocks, tokens
from wfcore.domain.agents.context_tools import OfferedTool, wire_names

Json = dict[str, Any]

TAGS = ("<", "</", ">", "\n", "memory", "contextItem", '{"id":"m0"}', "system", "\u2028", "\x1e", boundary(["x"]))
HOSTILE = st.lists(st.sampled_from(TAGS) | st.text(max_size=5), max_size=8).map("".join)
IDS = st.text("abc-0", min_size=1, max_size=4)
FACTS = st.lists(
    st.builds(Fact, st.sampled_from(["contextItem", "memory"]), IDS, HOSTILE, HOSTILE, st.just("why")), max_size=5
)
NAMES = st.text("ab._:ü/-", min_size=1, max_size=70)
OFFERS = st.lists(
    st.builds(OfferedTool, NAMES, NAMES, HOSTILE, st.just({"type": "object"}), requires_approval=st.booleans()),
    max_size=6, unique_by=lambda offer: offer.tool_id,
)  # fmt: skip
TYPES = st.sampled_from(["human", "ai", "tool", "system"])
HEADS = st.lists(st.tuples(TYPES, st.integers(1, 40)), max_size=20)
INGREDIENTS = st.builds(
    CompositionInput,
    model=st.just("default"),
    instructions=st.lists(HOSTILE, max_size=2),
    node_instructions=HOSTILE,
    message=st.none() | HOSTILE,
    items=FACTS,
    named=st.booleans(),
    memories=FACTS,
    offers=OFFERS,
)


@given(FACTS)
def test_no_fact_can_end_its_block(facts: list[Fact]) -> None:
    """Who knows the mark of the first sentence finds exactly the facts that were put in, whatever they say."""
    told = data_blocks(facts)
    assert len(told) == (len(facts) + 1 if facts else 0)
    if not facts:
        return
    mark = re.findall("<([0-9a-f]{24}) ", told[0])[0]
    text = "\n".join(told)
    found = re.findall(rf"<{mark} (\w+) ([^\n]*)>\n(.*?)\n</{mark}>", "\n".join(told[1:]), re.DOTALL)
    assert text.count(mark) == 2 * len(told)
    assert [(source, json.loads(about), content) for source, about, content in found] == [
        (fact.source, {"id": fact.id} | ({"title": fact.title} if fact.title else {}), fact.content) for fact in facts
    ]


@given(st.text(), st.text())
def test_the_estimate_grows_with_the_text(a: str, b: str) -> None:
    """More text is never fewer tokens, and the parts never have fewer than the whole."""
    assert max(tokens(a), tokens(b)) <= tokens(a + b) <= tokens(a) + tokens(b)


@settings(max_examples=50)
@given(INGREDIENTS)
def test_what_is_sent_is_what_was_composed(ingredients: CompositionInput) -> None:
    """Through the journal and back, the messages are the same to the byte, and the estimate covers them."""
    context = compose(ingredients)
    kept = json.loads(json.dumps(context))
    sent = request_of(context, (), ())
    assert request_of(kept, (), ()) == sent
    assert digest_of(kept) == context["digest"]
    texts = [message["content"] for message in sent]
    assert texts == ([context["system"]] if context["system"] else []) + (
        [] if ingredients.message is None else [ingredients.message]
    )
    assert context["tokenEstimate"] >= sum(tokens(text) + MESSAGE_TOKENS for text in texts)
    assert [tool["toolId"] for tool in context["tools"]] == [offer.tool_id for offer in ingredients.offers]


@given(OFFERS, st.randoms())
def test_names_are_injective_and_plain(offers: list[OfferedTool], shuffle: Any) -> None:
    """Every tool has a name of its own that every provider takes, in whatever order they come."""
    names = wire_names(offers)
    assert len({*names.values()}) == len(names) == len(offers)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name, re.ASCII) for name in names.values())
    shuffle.shuffle(offers)
    assert wire_names(offers) == names


@given(HEADS, st.integers(0, 200), st.integers(0, 50), st.booleans())
def test_turns_are_whole_and_fit(rows: list[tuple[str, int]], room: int, more: int, whole: bool) -> None:
    """What goes along fits, ends with the newest, begins with no tool message, and more room is never less of it."""
    heads = [MessageHead(seq, kind, size) for seq, (kind, size) in enumerate(rows, 1)][::-1]
    kept, wider = (newest_turns(ThreadHistory("t", heads, whole), size) for size in (room, room + more))
    if kept is None:
        newest = [head.type for head in heads].index("human") + 1 if any(h.type == "human" for h in heads) else None
        assert newest is None or sum(head.tokens for head in heads[:newest]) > room
        return
    assert wider is not None
    assert wider.after <= kept.after < kept.up_to == len(rows)
    chosen = rows[kept.after :]
    assert sum(size for _, size in chosen) == kept.tokens <= room
    assert chosen[0][0] == "human" or (whole and kept.after == 0 and chosen[0][0] != "tool")


CALLS = st.lists(st.sampled_from("abc"), max_size=3, unique=True)
MESSAGES = st.lists(
    st.one_of(
        st.just({"type": "human", "content": "h"}),
        CALLS.map(lambda ids: {"type": "ai", "content": "x", "toolCalls": [{"id": one} for one in ids]}),
        st.sampled_from("abc").map(lambda one: {"type": "tool", "content": "r", "toolCallId": one}),
    ),
    max_size=12,
)


@given(MESSAGES)
def test_every_call_is_answered_once(stored: list[Json]) -> None:
    """Behind each ai message stand the answers to its calls in their order, nowhere else is one; none is lost twice."""
    sent = paired(stored)
    place = 0
    while place < len(sent):
        assert sent[place]["type"] != "tool"
        calls = [call["id"] for call in sent[place].get("toolCalls", ())]
        assert [answer.get("toolCallId") for answer in sent[place + 1 : place + 1 + len(calls)]] == calls
        place += 1 + len(calls)
    assert [m["type"] for m in sent if m["type"] != "tool"] == [m["type"] for m in stored if m["type"] != "tool"]
    assert paired(sent) == sent
