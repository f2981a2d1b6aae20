"""Snapshots: what is read from one goes on as what was folded does, after every prefix of a journal."""

from collections import deque
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct, structs
from nested_worlds import hostile, nested
from rereading import reread
from test_move_laws import mended
from test_repair_laws import repaired_worlds
from worlds import World, structured, tangled, worlds

from wfcore.domain.run.entries import Entry
from wfcore.domain.run.flow import GraphFlow
from wfcore.domain.run.machine.machine import Machine
from wfcore.domain.run.machine.states import snapshots
from wfcore.domain.run.machine.states.state import Frame, RunState
from wfcore.domain.run.plan import Plan

SOME = settings(max_examples=25)

MOST = 40
"""Of longer journals not every prefix is compared, but so many or a few more."""


HIDDEN = {"outer", "plans", "records", "sink", "snapshot", "steps"}


def plain(value: Any) -> Any:
    """A value with all in it, in an order that shows. An array is one, whether Python has a tuple or a list."""
    if isinstance(value, Machine):
        return plain(value.state)
    if isinstance(value, RunState | Frame | GraphFlow):
        return [(name, plain(getattr(value, name))) for name in value.__slots__ if name not in HIDDEN]
    if isinstance(value, Plan):
        return id(value)
    if isinstance(value, Struct):
        return [type(value).__name__, plain(structs.asdict(value))]
    if isinstance(value, Mapping):
        return [(plain(key), plain(item)) for key, item in value.items()]
    if isinstance(value, set):
        return sorted(value)  # its order never shows
    if isinstance(value, list | tuple | deque):
        return [plain(item) for item in value]
    return str(value) if isinstance(value, str) else (type(value), value)  # 1 is not 1.0


def hold(world: World, place: int) -> None:
    """Read a snapshot after each entry, and go on from one of them to the end."""
    first = world.machine.plan
    world.run()
    step = len(world.entries) // MOST + 1
    folded = Machine(first, [], world.machine.plans)
    resumed: Machine | None = None
    for number, entry in enumerate(world.entries):
        folded.apply(entry)
        folded.take_records()
        if resumed is not None:
            shown = folded.take_events()
            assert _applied(resumed, entry) == shown
        begins = number == place % len(world.entries)
        if begins or (number + place) % step == 0 or number == len(world.entries) - 1:
            again = reread(folded, first)
            assert plain(again) == plain(folded)
            assert plain(again.next_steps(folded.at)) == plain(folded.next_steps(folded.at))
            assert resumed is None or plain(resumed) == plain(folded)
            if begins:
                resumed, folded.sink = again, []


def _applied(machine: Machine, entry: Entry) -> Any:
    machine.sink = []
    machine.apply(entry)
    machine.take_records()
    return machine.take_events()


PLACES = st.integers(0, 10**6)


@SOME
@given(worlds(structured() | tangled()), PLACES)
def test_graphs(world: World, place: int) -> None:
    """Of any shape, with people, timers and cycles."""
    hold(world, place)


@SOME
@given(nested() | hostile(), PLACES)
def test_children_and_agents(world: World, place: int) -> None:
    """Conversations too, in the middle of any round."""
    hold(world, place)


@SOME
@given(repaired_worlds(structured() | tangled()), PLACES)
def test_retries(world: World, place: int) -> None:
    """With what visits left behind."""
    hold(world, place)


@SOME
@given(mended(structured() | tangled()), PLACES)
def test_moves_to_another_graph(world: World, place: int) -> None:
    """The snapshot is of the plan to which the run was moved."""
    hold(world, place)


@pytest.mark.parametrize("kind", [RunState, Frame, GraphFlow])
def test_every_field_is_stored_or_derived(kind: Any) -> None:
    """Each has a type, and those that are derived exist."""
    fields = set(snapshots._fields(kind))
    assert fields | snapshots.DERIVED[kind] == set(kind.__slots__)
    assert not fields & snapshots.DERIVED[kind]
