"""The events of a run as AG-UI events: whatever happens, what begins also ends, and nothing is lost."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers

from wfcore.adapters.http.core.ag_ui import AgUiEvents, AgUiFrames, wants_ag_ui
from wfcore.domain.run.events import Event, EventKind

Json = dict[str, Any]

PLACES = st.builds(
    lambda node, path, item: {"nodeId": node} | ({"path": [path], "items": [item]} if path else {}),
    st.sampled_from("ab"), st.sampled_from(["", "team"]), st.none() | st.integers(0, 1),
)  # fmt: skip
IDS, TEXTS = st.sampled_from(["1", "2"]), st.sampled_from(["", "x", "xy"])
ERROR = {"code": "BAD_REQUEST", "message": "no", "info": {}}


def happening(kind: EventKind, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[EventKind, Json]]:
    return st.tuples(st.just(kind), st.builds(lambda place, more: place | more, PLACES, st.fixed_dictionaries(fields)))


HAPPENINGS = st.lists(
    st.one_of(
        happening(EventKind.node_started),
        happening(EventKind.node_finished, output=st.none()),
        happening(EventKind.node_failed, error=st.just(ERROR)),
        happening(EventKind.node_retrying, error=st.just(ERROR)),
        happening(EventKind.node_skipped),
        happening(EventKind.message_delta, messageId=IDS, delta=TEXTS),
        happening(EventKind.message, messageId=IDS, content=TEXTS),
        happening(EventKind.message_replaced, messageId=IDS, content=TEXTS),
        happening(EventKind.tool_call, toolCallId=IDS, name=st.just("t"), arguments=st.just({"a": 1})),
        happening(EventKind.tool_result, toolCallId=IDS, output=TEXTS),
        happening(EventKind.usage, usage=st.just({"model": "m", "inputTokens": 2, "outputTokens": 1})),
        happening(EventKind.interrupt, interruptId=IDS, type=st.just("approval")),
    ),
    max_size=30,
)
WAITING = st.lists(
    st.fixed_dictionaries({"interruptId": IDS, "type": st.sampled_from(["approval", "connect"])}), max_size=2
)
ENDS = st.one_of(
    st.tuples(st.just(EventKind.done), st.fixed_dictionaries({"status": st.just("done"), "output": TEXTS})),
    st.tuples(
        st.just(EventKind.done),
        st.fixed_dictionaries({"status": st.just("interrupted"), "output": st.none(), "interrupts": WAITING}),
    ),
    st.tuples(st.just(EventKind.error), st.just({"error": ERROR})),
    st.tuples(st.just(EventKind.cancelled), st.just({})),
)


def turn_of(happenings: list[tuple[EventKind, Json]], end: tuple[EventKind, Json]) -> list[Event]:
    every = [(EventKind.run_started, {"target": {}}), *happenings, end]
    return [Event(kind, "r", seq, 1_000 + seq, data) for seq, (kind, data) in enumerate(every, 1)]


def check_order(events: list[Json]) -> None:
    """The rules of the official client: one run, and each step, message and call is ended once it has begun."""
    open_parts = set[tuple[str, str]]()
    assert events[0]["type"] == "RUN_STARTED"
    for event in events[1:-1]:
        kind = event["type"]
        assert kind not in ("RUN_STARTED", "RUN_FINISHED", "RUN_ERROR")
        what, _, stage = kind.rpartition("_")
        part = (what, next((event[name] for name in ("stepName", "messageId", "toolCallId") if name in event), ""))
        if stage in ("START", "STARTED"):
            assert part not in open_parts
            open_parts.add(part)
        elif stage in ("CONTENT", "ARGS"):
            assert part in open_parts
        elif stage in ("END", "FINISHED"):
            open_parts.remove(part)
    assert events[-1]["type"] in ("RUN_FINISHED", "RUN_ERROR")
    assert open_parts == set()


class TestEvents:
    """The laws of the translation."""

    @given(HAPPENINGS, ENDS)
    def test_what_begins_also_ends(self, happenings: list[tuple[EventKind, Json]], end: tuple[EventKind, Json]) -> None:
        """For events in any order, the client sees one run with balanced steps, messages and calls."""
        events, translate = turn_of(happenings, end), AgUiEvents("t")
        made = [one for event in events for one in translate.of(event)]
        check_order(made)
        assert {one["timestamp"] for one in made} <= {event.at for event in events}
        calls = [one["toolCallId"] for one in made if one["type"] == "TOOL_CALL_START"]
        assert len(calls) == len(set(calls))

    @given(HAPPENINGS, ENDS, st.integers(0, 12))
    def test_a_stream_can_be_continued(
        self, happenings: list[tuple[EventKind, Json]], end: tuple[EventKind, Json], after: int
    ) -> None:
        """The frames after any event are the same as in the whole stream."""
        events = turn_of(happenings, end)
        whole, rest = AgUiFrames("t"), AgUiFrames("t", after)
        first = [whole(event) for event in events]
        assert b"".join(map(rest, events)) == b"".join(first[after:])

    def test_the_whole_text_of_a_message_arrives(self) -> None:
        """Parts, and the rest that only the whole message has; one that differs is another event."""
        translate = AgUiEvents("t")
        place, texts = {"nodeId": "a", "messageId": "m"}, list[Json]()
        for kind, data in (
            (EventKind.message_delta, {"delta": "on"}),
            (EventKind.message, {"content": "one"}),
        ):
            texts += translate.of(Event(kind, "r", 1, 0, place | data))
        assert [one["delta"] for one in texts if "delta" in one] == ["on", "e"]
        translate.of(Event(EventKind.message_delta, "r", 2, 0, place | {"messageId": "n", "delta": "on"}))
        other = translate.of(Event(EventKind.message, "r", 3, 0, place | {"messageId": "n", "content": "two"}))
        assert [one.get("name", one["type"]) for one in other] == ["TEXT_MESSAGE_END", "message_replaced"]
        assert other[-1]["value"]["content"] == "two"

    def test_children_are_named(self) -> None:
        """A subordinate's message has its name; a step of a child says where it is."""
        translate = AgUiEvents("t")
        inner = {"path": ["each"], "items": [2], "nodeId": "ask"}
        (step,) = translate.of(Event(EventKind.node_started, "r", 1, 0, inner))
        assert step["stepName"] == "each[2]/ask"
        started, _ = translate.of(Event(EventKind.message_delta, "r", 2, 0, inner | {"messageId": "m", "delta": "x"}))
        assert started["name"] == "each"

    def test_the_ids_of_calls_are_unique(self) -> None:
        """A model numbers the calls of each round from 1: results and interrupts follow the latest call of a node."""
        translate = AgUiEvents("t")
        call = {"nodeId": "a", "toolCallId": "c", "name": "t", "arguments": {}}
        result = {"nodeId": "a", "toolCallId": "c", "error": ERROR}
        for name in ("c", "c-2"):
            assert translate.of(Event(EventKind.tool_call, "r", 1, 0, call))[0]["toolCallId"] == name
            (answer,) = translate.of(Event(EventKind.tool_result, "r", 2, 0, result))
            assert (answer["toolCallId"], json.loads(answer["content"])) == (name, {"error": ERROR})
        waiting = {
            "interruptId": "i",
            "type": "approval",
            "nodeId": "a",
            "toolCallId": "c",
            "formSchema": {"type": "object"},
        }
        data = {"status": "interrupted", "output": None, "interrupts": [waiting]}
        ended = translate.of(Event(EventKind.done, "r", 3, 0, data))[-1]
        (interrupt,) = ended["outcome"]["interrupts"]
        assert (interrupt["toolCallId"], interrupt["reason"]) == ("c-2", "tool_call")
        assert interrupt["responseSchema"]["properties"]["data"] == {"type": "object"}


class TestProfile:
    """Which `Accept` asks for AG-UI."""

    @pytest.mark.parametrize(
        ("accept", "wanted"),
        [
            ("text/event-stream; profile=ag-ui", True),
            ('application/json;q=0.1, Text/Event-Stream; q=1; profile="ag-ui"', True),
            ("text/event-stream", False),
            ("text/event-stream; profile=other", False),
            ("application/json; profile=ag-ui", False),
        ],
    )
    def test_the_parameter_decides(self, accept: str, wanted: bool) -> None:
        """The parameter `profile` of an event stream, in any case, with or without quotes."""
        assert wants_ag_ui(Headers({"Accept": accept})) is wanted
