"""Laws of composed contexts, over hostile texts, threads and names."""

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
INPUTS = st.builds(
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
def test_no_fact_can_close_its_block(facts: list[Fact]) -> None:
    """The blocks with the mark of the notice are exactly the facts, whatever their texts."""
    blocks = data_blocks(facts)
    assert len(blocks) == (len(facts) + 1 if facts else 0)
    if not facts:
        return
    mark = re.findall("<([0-9a-f]{24}) ", blocks[0])[0]
    text = "\n".join(blocks)
    found = re.findall(rf"<{mark} (\w+) ([^\n]*)>\n(.*?)\n</{mark}>", "\n".join(blocks[1:]), re.DOTALL)
    assert text.count(mark) == 2 * len(blocks)
    assert [(source, json.loads(about), content) for source, about, content in found] == [
        (fact.source, {"id": fact.id} | ({"title": fact.title} if fact.title else {}), fact.content) for fact in facts
    ]


@given(st.text(), st.text())
def test_the_estimate_grows_with_the_text(a: str, b: str) -> None:
    """A longer text never has a lower estimate, and the parts have at least the estimate of the whole."""
    assert max(tokens(a), tokens(b)) <= tokens(a + b) <= tokens(a) + tokens(b)


@settings(max_examples=50)
@given(INPUTS)
def test_the_request_is_the_composed_context(given_: CompositionInput) -> None:
    """After a round trip through JSON, the request is the same, and the estimate covers it."""
    context = compose(given_)
    kept = json.loads(json.dumps(context))
    sent = request_of(context, (), ())
    assert request_of(kept, (), ()) == sent
    assert digest_of(kept) == context["digest"]
    texts = [message["content"] for message in sent]
    assert texts == ([context["system"]] if context["system"] else []) + (
        [] if given_.message is None else [given_.message]
    )
    assert context["tokenEstimate"] >= sum(tokens(text) + MESSAGE_TOKENS for text in texts)
    assert [tool["toolId"] for tool in context["tools"]] == [offer.tool_id for offer in given_.offers]


@given(OFFERS, st.randoms())
def test_names_are_unique_and_valid(offers: list[OfferedTool], shuffle: Any) -> None:
    """Every tool has its own name that every provider accepts, in any order of the tools."""
    names = wire_names(offers)
    assert len({*names.values()}) == len(names) == len(offers)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name, re.ASCII) for name in names.values())
    shuffle.shuffle(offers)
    assert wire_names(offers) == names


@given(HEADS, st.integers(0, 200), st.integers(0, 50), st.booleans())
def test_turns_are_whole_and_fit(messages: list[tuple[str, int]], limit: int, more: int, whole: bool) -> None:
    """The range fits, ends with the newest message and begins with a turn; it grows with the limit."""
    heads = [MessageHead(seq, kind, size) for seq, (kind, size) in enumerate(messages, 1)][::-1]
    kept, wider = (newest_turns(ThreadHistory("t", heads, whole), size) for size in (limit, limit + more))
    if kept is None:
        newest = [head.type for head in heads].index("human") + 1 if any(h.type == "human" for h in heads) else None
        assert newest is None or sum(head.tokens for head in heads[:newest]) > limit
        return
    assert wider is not None
    assert wider.after <= kept.after < kept.up_to == len(messages)
    chosen = messages[kept.after :]
    assert sum(size for _, size in chosen) == kept.tokens <= limit
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
def test_every_call_has_one_result(stored: list[Json]) -> None:
    """After each ai message are the results of its calls in order, and there are no others; pairing is idempotent."""
    sent = paired(stored)
    index = 0
    while index < len(sent):
        assert sent[index]["type"] != "tool"
        calls = [call["id"] for call in sent[index].get("toolCalls", ())]
        assert [result.get("toolCallId") for result in sent[index + 1 : index + 1 + len(calls)]] == calls
        index += 1 + len(calls)
    assert [m["type"] for m in sent if m["type"] != "tool"] == [m["type"] for m in stored if m["type"] != "tool"]
    assert paired(sent) == sent
