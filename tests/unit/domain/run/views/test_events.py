"""Events: where they happened, and what they are on the wire."""

from wfcore.domain.run.events import Event, EventKind, place_to_wire


def test_three_kinds_end_a_stream() -> None:
    """They come last: `done`, `error` and `cancelled`."""
    ends = [kind for kind in EventKind if Event(kind, "r", 1, 0, {}).terminal]
    assert ends == [EventKind.done, EventKind.error, EventKind.cancelled]


def test_an_event_on_the_wire() -> None:
    """The moment is a time of RFC 3339 with milliseconds; the fields of the kind stand beside it."""
    event = Event(EventKind.node_started, "r", 3, 1_800_000_000_123, {"nodeId": "a", "visit": 1})
    assert event.to_wire() == {
        "kind": "node_started", "runId": "r", "seq": 3, "at": "2027-01-15T08:00:00.123Z", "nodeId": "a", "visit": 1,
    }  # fmt: skip


def test_the_place_of_a_child() -> None:
    """`items` is there only where a node on the path has a `forEach`; the root has no place."""
    assert place_to_wire((), ()) == {}
    assert place_to_wire(("a", "b"), (None, None)) == {"path": ["a", "b"]}
    assert place_to_wire(("a", "b"), (None, 2)) == {"path": ["a", "b"], "items": [None, 2]}
    assert place_to_wire(("a",), (0,)) == {"path": ["a"], "items": [0]}


def test_what_an_event_is_about() -> None:
    """Each property reads the field of its kind, and is empty for other kinds."""
    bare = Event(EventKind.run_started, "r", 1, 0, {})
    assert (bare.node_id, bare.text, bare.output, bare.error, bare.interrupt_id) == (None, "", None, None, None)
    data = {"nodeId": "a", "content": "hello", "output": 1, "error": {"code": "X"}, "interruptId": "i"}
    full = Event(EventKind.node_finished, "r", 1, 0, data)
    assert (full.node_id, full.text, full.output, full.error, full.interrupt_id) == (
        "a",
        "hello",
        1,
        {"code": "X"},
        "i",
    )
    assert Event(EventKind.message_delta, "r", 1, 0, {"delta": "he"}).text == "he"
