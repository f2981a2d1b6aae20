"""Snapshots: the state of a parked execution as bytes, so that a resume need not fold its entries again.

A snapshot is a cache, and the journal counts: one of another layout, or one that cannot be read, is as good as none.
Its layout is that of the classes of a state, as these declare their fields. What other values determine is not stored
(`DERIVED`). Plans are named, and are given again to who reads it.
"""

from collections import deque
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, get_args, get_origin, get_type_hints
from zlib import crc32

import msgspec
from msgspec import Struct, structs

from wfcore.domain.expressions.expression import EvaluationBudget
from wfcore.domain.run.entries import Pinned
from wfcore.domain.run.flow import GraphFlow
from wfcore.domain.run.machine.states.state import Frame, Plans, RunState
from wfcore.domain.run.machine.states.turns import ENDED, OPEN
from wfcore.domain.run.plan import Plan
from wfcore.domain.run.state import IllegalEntry

FORMAT: Final = 1
"""To be raised when a field has another meaning than before. Other names or types of fields are detected."""

INTERVAL: Final = 32
"""Entries since the last snapshot from which on a parked execution gets one. To fold fewer takes about as long."""

MOST: Final = 1_000_000
"""Bytes of a snapshot: a larger one would hold the event loop for too long, and the entries are read in parts."""

NONE: Final = b""
"""In place of a snapshot: the last one is void, because the execution has ended."""

DERIVED: Final[Mapping[type, frozenset[str]]] = {
    RunState: frozenset(("broken", "plans", "records", "sink", "snapshot", "steps")),
    Frame: frozenset(("outer", "plan")),
    GraphFlow: frozenset(("plan",)),
}
"""The fields that are not stored: plans and frames around, and what is empty while an execution is parked."""


UNREADABLE: Final = (ValueError, LookupError, AssertionError, IllegalEntry)
"""What a snapshot raises that is not of this execution after these entries: the entries are folded instead."""


class StoredRun(Struct, frozen=True, array_like=True):
    """A snapshot whose state is still to be read. `plans` names the plans that this takes, beside the first one."""

    layout: int
    plans: tuple[Pinned, ...]
    state: msgspec.Raw

    def run(self, first: Plan, plans: Plans) -> RunState:
        """The state; `first` is the plan of the execution before any change. Raises one of `UNREADABLE`."""
        shape = msgspec.msgpack.decode(self.state, type=_shape(RunState), dec_hook=_read)
        run: RunState = _built(RunState, shape)
        run.plans, run.sink, run.records, run.broken = plans, None, [], []
        run.steps, run.snapshot = EvaluationBudget(), run.length
        _connect(run, run.root, None, first if run.pinned is None else plans[run.pinned])
        return run


def snapshot_of(run: RunState) -> bytes | None:
    """The snapshot to be written with the entries that lead to this state; None leaves the last one as it is."""
    if run.phase in ENDED:
        return NONE if run.length > INTERVAL and run.run_id != run.id else None
    if run.phase in OPEN or run.length - run.snapshot < INTERVAL:
        return None
    run.snapshot = run.length
    return written(run)


def written(run: RunState) -> bytes | None:
    """The state as bytes; None when they are too many, or have no place for a value, such as an integer of 65 bits."""
    if run.broken or run.records:
        return None
    try:
        body = msgspec.msgpack.encode((layout(), tuple(run.plans), run), enc_hook=_stored)
    except (OverflowError, TypeError, ValueError):
        return None
    return body if len(body) <= MOST else None


def read(snapshot: bytes) -> StoredRun | None:
    """A snapshot of this layout; None for any other bytes."""
    try:
        found = msgspec.msgpack.decode(snapshot, type=StoredRun)
    except ValueError:
        return None
    return found if found.layout == layout() else None


def _connect(run: RunState, frame: Frame, outer: Frame | None, plan: Plan) -> None:
    """Give the frame and those inside it what was not stored."""
    if len(plan.nodes) != len(frame.nodes):
        raise ValueError("the snapshot is of another plan")
    frame.outer, frame.plan, frame.flow.plan = outer, plan, plan
    if frame.scope:
        frame.scope |= {"nodes": frame.outputs, "run": run.info}
    for child in frame.children.values():
        _connect(run, child, frame, _plan_of(run, child))
    for left in frame.left.values():
        for child in left.children.values():
            _connect(run, child, None, _plan_of(run, child))


def _plan_of(run: RunState, child: Frame) -> Plan:
    assert child.entry is not None  # noqa: S101  (a child has one)
    return run.plans[child.entry.kind, child.entry.resource_id, child.entry.variation_id]


# The layout: a value of these classes is an array of its stored fields, every other one is as msgspec has it


@cache
def _fields(kind: type) -> Mapping[str, Any]:
    """The stored fields of a class, with their types."""
    hints = get_type_hints(kind)
    return {name: hints[name] for name in hints if name not in DERIVED[kind]}


@cache
def _shape(kind: type) -> type[Struct]:
    """A struct of the stored fields, which msgspec reads and writes."""
    return msgspec.defstruct(f"Stored{kind.__name__}", [*_fields(kind).items()], array_like=True)


def _stored(value: Any) -> Any:
    if isinstance(value, deque):
        return list(value)
    kind: type = type(value)
    if kind not in DERIVED:
        raise TypeError(f"a snapshot has no `{kind.__name__}`")
    shape = _shape(kind)(*[getattr(value, name) for name in _fields(kind)])
    if isinstance(value, Frame):
        scope = {name: given for name, given in value.scope.items() if name == "input"}
        shape = structs.replace(shape, scope=scope)
    return shape


def _read(kind: Any, stored: Any) -> Any:
    if get_origin(kind) is deque:
        return deque(stored)
    return _built(kind, msgspec.convert(stored, _shape(kind), dec_hook=_read))


def _built(kind: type, shape: Struct) -> Any:
    value: Any = object.__new__(kind)
    for name in _fields(kind):
        setattr(value, name, getattr(shape, name))
    return value


@cache
def layout() -> int:
    """A number of the layout: of all classes in it, with the names and types of their fields."""
    found: dict[str, str] = {}
    kinds: list[Any] = [RunState]
    while kinds:
        kind = kinds.pop()
        kinds += get_args(kind)
        is_struct = isinstance(kind, type) and issubclass(kind, Struct)
        if (is_struct or kind in DERIVED) and kind.__qualname__ not in found:
            fields = get_type_hints(kind) if is_struct else _fields(kind)
            found[kind.__qualname__] = repr(fields)
            kinds += fields.values()
    return crc32(repr((FORMAT, sorted(found.items()))).encode())
