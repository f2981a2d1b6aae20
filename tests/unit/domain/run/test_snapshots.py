"""Snapshots of states: what has none, and what is not read. `test_snapshot_laws` compares what is read with a fold."""

from typing import Any

import pytest

from wfcore.domain.run.machine.machine import Machine
from wfcore.domain.run.machine.states import snapshots
from wfcore.testing.histories import History, sketch


def read(body: bytes) -> snapshots.StoredRun:
    found = snapshots.read(body)
    assert found is not None
    return found


def written(machine: Machine) -> bytes:
    body = snapshots.written(machine.state)
    assert body is not None
    return body


def test_what_is_read_goes_on() -> None:
    """An outcome is applied to it as to the machine of which it is."""
    history = History(sketch("s -> a"))
    machine = Machine.of(read(written(history.machine)).run(history.machine.plan, {}))
    history.succeed("a", 7)
    machine.apply(history.entries[-1])
    assert (machine.status, machine.output) == (history.machine.status, history.machine.output) == ("done", 7)


def test_before_the_first_entry() -> None:
    """Nothing can be read by expressions yet."""
    plan = History(sketch("s -> a")).machine.plan
    assert read(written(Machine(plan))).run(plan, {}).root.scope == {}


@pytest.mark.parametrize("value", [2**70, object(), "x" * snapshots.MOST], ids=["65 bits", "no JSON", "large"])
def test_a_value_that_has_no_place(value: Any) -> None:
    """The execution then has no snapshot."""
    machine = History(sketch("s -> a")).machine
    machine.state.root.outputs["s"] = {"output": value}
    assert snapshots.written(machine.state) is None


def test_a_state_within_a_change() -> None:
    """What is only there until an append has been written is not stored, so there is no snapshot until then."""
    state: Any = History(sketch("s -> a")).machine.state
    for name in ("records", "broken"):
        setattr(state, name, [None])
        assert snapshots.written(state) is None
        setattr(state, name, [])
    assert snapshots.written(state)


def test_what_is_not_a_snapshot_of_this_layout() -> None:
    """Other bytes, and another layout."""
    body = written(History(sketch("s -> a")).machine)
    assert snapshots.read(b"") is None
    assert snapshots.read(body[:-1]) is None
    assert snapshots.read(body.replace(body[1:6], b"\xce\x00\x00\x00\x00", 1)) is None


def test_another_plan() -> None:
    """One with other nodes is not that of the snapshot."""
    stored = read(written(History(sketch("s -> a")).machine))
    with pytest.raises(ValueError, match="of another plan"):
        stored.run(History(sketch("s -> a", "a -> b")).machine.plan, {})
