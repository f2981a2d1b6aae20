"""What a client sees of a run: a frame per event, in `seq` order from 1 without gaps (interface, Events)."""

from collections.abc import Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from wfcore.domain.json.codec import iso_ms
from wfcore.domain.kernel.json_type import JSON


class EventKind(StrEnum):
    run_started = "run_started"
    node_started = "node_started"
    node_finished = "node_finished"
    node_failed = "node_failed"
    node_retrying = "node_retrying"
    node_skipped = "node_skipped"
    message_delta = "message_delta"
    message = "message"
    message_replaced = "message_replaced"
    tool_call = "tool_call"
    tool_result = "tool_result"
    interrupt = "interrupt"
    usage = "usage"
    done = "done"
    error = "error"
    cancelled = "cancelled"


TERMINAL = frozenset({EventKind.done, EventKind.error, EventKind.cancelled})


def place_to_wire(path: Sequence[str], items: Sequence[int | None]) -> dict[str, JSON]:
    """Where in its children an execution is: `path`, the nodes that lead there, and `items` beside it when one of them
    has a `forEach`: for each node the position of its item, or null.
    """
    if all(item is None for item in items):
        return {"path": list(path)} if path else {}
    return {"path": list(path), "items": list(items)}


class Event(Struct, frozen=True):
    """One event. `at` is in epoch milliseconds; `data` holds the fields of its kind, in wire names."""

    kind: EventKind
    run_id: str
    seq: int
    at: int
    data: Mapping[str, JSON]

    @property
    def terminal(self) -> bool:
        return self.kind in TERMINAL

    def to_wire(self) -> dict[str, JSON]:
        return {
            "kind": str(self.kind),
            "runId": self.run_id,
            "seq": self.seq,
            "at": iso_ms(self.at),
            **self.data,
        }
