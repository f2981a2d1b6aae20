"""Laws of answers: of fragments put together, and of formats whose events may be anything."""

import json
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from wfcore.adapters.models.anthropic import Messages
from wfcore.adapters.models.completions import Completion
from wfcore.adapters.models.openai import ChatCompletion
from wfcore.ports.providers import (
    LONGEST_ARGUMENTS,
    LONGEST_NAME,
    MOST_CALLS,
    Delta,
    Finished,
    ModelError,
    TextDelta,
    TokenUsage,
    ToolCallDelta,
    collect_calls,
)

WORDS = st.text("abc_-", min_size=1, max_size=8)
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=6)
PLAIN = st.none() | st.booleans() | st.integers(-9, 9) | TEXTS
OBJECTS = st.dictionaries(TEXTS, st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=3)))
CALLS = st.lists(st.tuples(WORDS, WORDS, OBJECTS), max_size=4, unique_by=lambda call: call[0])


@st.composite
def fragmented(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[Delta]]:
    """Calls, and their fragments: each call's in order, those of different calls in any order."""
    drawn = draw(CALLS)
    calls = [{"id": call, "name": name, "args": args} for call, name, args in drawn]
    waiting = []
    for index, call in enumerate(calls):
        text = json.dumps(call["args"], ensure_ascii=draw(st.booleans()))
        cuts = sorted({0, len(text), *draw(st.lists(st.integers(0, len(text)), max_size=5))})
        parts = [text[start:end] for start, end in pairwise(cuts)]
        waiting.append([ToolCallDelta(index, arguments=part) for part in parts])
    deltas: list[Delta] = [TextDelta("so")]
    for index, call in enumerate(calls):
        deltas.append(ToolCallDelta(index, call["id"], call["name"]))
        for early in draw(st.lists(st.integers(0, index), max_size=4)):
            deltas += [waiting[early].pop(0)] if waiting[early] else []
    while any(waiting):
        deltas.append(draw(st.sampled_from([parts for parts in waiting if parts])).pop(0))
    return calls, [*deltas, TokenUsage(1, 1), Finished("tool_calls")]


@given(fragmented())
@settings(max_examples=150)
def test_calls_are_put_together(made: tuple[list[dict[str, Any]], list[Delta]]) -> None:
    """However the fragments of several calls are mixed, each call is whole again, in the order they began in."""
    calls, deltas = made
    assert collect_calls(deltas) == calls


FRAGMENTS = st.builds(
    ToolCallDelta,
    st.integers(-1, 4),
    st.sampled_from(["", "a", "b", "c", "x" * (LONGEST_NAME + 1), "\x00", "\ud800"]),
    st.sampled_from(["", "time", "\n"]),
    st.sampled_from(["", "{", "}", '{"a": 1}', '"', "NaN", "\ud800", "[" * 1000, '{"a":' * 1000]),
)


@given(st.lists(FRAGMENTS, max_size=8))
@example([ToolCallDelta(0, "a", "time", "x" * LONGEST_ARGUMENTS), ToolCallDelta(0, arguments="y")])
@example([ToolCallDelta(number, f"c{number}", "time") for number in range(MOST_CALLS + 1)])
@example([ToolCallDelta(0, "a", "time", '{"a": "\ud800"}')])
@settings(max_examples=300)
def test_any_fragments_are_calls_or_an_error(deltas: list[ToolCallDelta]) -> None:
    """What a hostile provider sends is a list of distinct calls that can be written down, or a ModelError."""
    try:
        calls = collect_calls(deltas)
    except ModelError:
        return
    assert len({call["id"] for call in calls}) == len(calls) <= MOST_CALLS
    for call in calls:
        assert isinstance(call["args"], dict | str)
        assert call["name"]
        json.dumps(call, ensure_ascii=False).encode()


# Formats

KEYS = st.sampled_from(
    [
        "type",
        "index",
        "delta",
        "message",
        "usage",
        "content_block",
        "choices",
        "text",
        "content",
        "tool_calls",
        "id",
        "name",
        "function",
        "arguments",
        "input",
        "partial_json",
        "stop_reason",
        "finish_reason",
        "refusal",
        "input_tokens",
        "output_tokens",
        "prompt_tokens",
        "completion_tokens",
    ]
)
WORDS_OF_THE_WIRE = [
    "message_start",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "message_delta",
    "message_stop",
    "text",
    "tool_use",
    "text_delta",
    "input_json_delta",
    "end_turn",
    "stop",
    "tool_calls",
    "\ud83d",
]
VALUES = st.sampled_from([*WORDS_OF_THE_WIRE, None, True, -1, 0, 1, 2.5, 10**30, "", {}, []])
EVENTS = st.recursive(
    VALUES,
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=5).map(lambda d: SimpleNamespace(**d))
    ),
    max_leaves=12,
)


@pytest.mark.parametrize("format", [ChatCompletion, Messages])
@pytest.mark.parametrize("tools", [True, False])
@given(st.lists(EVENTS, max_size=6))
@settings(max_examples=150)
def test_any_events_are_an_answer_or_an_error(format: type[Completion], tools: bool, events: list[Any]) -> None:
    """Whatever the SDK makes of odd bytes: the parts of a whole answer, or a ModelError and nothing else."""
    answer = format(tools=tools)
    parts: list[Delta] = []
    try:
        for event in events:
            parts += answer.read_event(event)
        parts += answer.finish()
    except ModelError:
        assert not [part for part in parts if isinstance(part, Finished)]
        return
    assert [isinstance(part, Finished) for part in parts] == [False] * (len(parts) - 1) + [True]
    assert collect_calls(parts) == [] or tools
    json.dumps([getattr(part, "text", "") for part in parts], ensure_ascii=False).encode()


@given(st.text("ab😀🏴", max_size=20), st.data())
@settings(max_examples=150)
def test_halves_of_characters_come_together(text: str, data: st.DataObject) -> None:
    """Text cut between the two escapes of a character, as JSON has them, is the same text; so are arguments."""
    units = text.encode("utf-16-le")
    ends = sorted({0, len(units), *(2 * at for at in data.draw(st.lists(st.integers(0, len(units) // 2))))})
    pieces = [units[start:end].decode("utf-16-le", "surrogatepass") for start, end in pairwise(ends)]
    answer = ChatCompletion(tools=True)
    parts = [*answer.begin_call("c", "time")]
    for piece in pieces:
        parts += [*answer.add_text(piece), *answer.add_arguments(0, piece)]
    answer.set_ending("tool_calls", {"tool_calls": "tool_calls"})
    parts += answer.finish()
    assert "".join(part.text for part in parts if isinstance(part, TextDelta)) == text
    assert "".join(part.arguments for part in parts if isinstance(part, ToolCallDelta)) == text
