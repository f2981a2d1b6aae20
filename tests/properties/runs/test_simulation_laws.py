"""What a simulation returns is what runs do: every path is a run that can happen, and every run takes one of them."""

from collections.abc import Hashable
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from worlds import GIVEN, World, structured, tangled, worlds

from wfcore.domain.run.entries import Entry, Paused
from wfcore.domain.run.events import EventKind
from wfcore.domain.run.machine.machine import Machine
from wfcore.domain.run.replay import fold
from wfcore.domain.run.simulation import Path, simulate
from wfcore.testing.graphs import deployable_graphs

SOME = settings(max_examples=25)
INPUTS = st.none() | st.just(GIVEN)


class Timely(World):
    """A world in which the clock is never put back, and nobody pauses."""

    def apply(self, entry: Entry) -> None:
        self.at = max(self.at, entry.at)
        super().apply(replace(entry, at=self.at))

    def options(self) -> list[Entry]:
        return [entry for entry in super().options() if not isinstance(entry, Paused)]


def timely(world: World) -> Timely:
    return Timely(world.structure, world.fates, world.order)


def end_of(path: Path) -> Hashable:
    if path.end == "error":
        return path.failed, path.steps[-1][1]
    return frozenset(path.ways.items()), path.output


def way_of_error(error: Any) -> str:
    """The way in which a node failed: a simulation does not tell a failing tool from a failing workflow."""
    reason = error["info"].get("cause", error["info"]["reason"])
    return "failed" if reason == "tool" else str(reason)


def end_of_run(world: World) -> Hashable:
    """The same of a real run, from its events."""
    machine = world.machine
    if machine.error is not None:
        return machine.error["info"]["nodeId"], way_of_error(machine.error)
    ways: dict[str, str] = {}
    for event in world.events:
        name: Any = event.data.get("nodeId")
        if event.kind == EventKind.node_finished and name != "n0":
            ways[name] = way_of(machine, name, event.data["output"])
        elif event.kind == EventKind.node_failed:
            ways[name] = way_of_error(event.data["error"])
    return frozenset(ways.items()), tuple(machine.plan.nodes[index].id for index in sorted(machine.root.ends))


def way_of(machine: Machine, name: str, output: Any) -> str:
    kind = next(node.kind for node in machine.plan.nodes if node.id == name)
    if kind == "condition":
        return str(output["handle"])
    if kind == "humanApproval":
        return {"approve": "approved", "deny": "denied"}.get(output["decision"], "expired")
    return "done"


@SOME
@given(worlds(structured() | tangled()), INPUTS)
def test_every_run_takes_a_path_of_the_simulation(world: World, known: Any) -> None:
    """On graphs of any shape, with any outcomes in any order, input known or not: the end of a real run, the way in
    which each of its nodes ended and whose output is the run's are those of a path of the simulation.
    """
    found = simulate(world.structure, known, most_paths=20)
    assume(found.complete)
    world = timely(world)
    machine = world.run()
    assume(machine.error is None or "bound" not in machine.error["info"])
    assert end_of_run(world) in {end_of(path) for path in found.paths}
    assert not {machine.plan.nodes[i].id for i, visits in enumerate(machine.root.visits) if visits} & {
        *found.never_reached
    }


@SOME
@given(st.tuples(deployable_graphs(), st.none()) | st.tuples(structured() | tangled(), INPUTS))
def test_every_path_is_a_legal_journal_that_folds_to_its_end(workflow: tuple[Any, Any]) -> None:
    """Whatever may be deployed: each journal is legal, comes to the end of its path, and no end is returned twice."""
    found = simulate(*workflow, most_paths=15)
    for path in found.paths:
        machine = fold(found.plan, path.journal)
        assert machine.status == {"endless": "running"}.get(path.end, path.end)
        assert machine.ended or machine.pending
        assert len(path.journal) == len(path.steps) + 1
        shown = {found.plan.nodes[index].id for index in machine.root.ends}
        assert path.end != "done" or {*path.output} <= shown
    ended = [end_of(path) for path in found.paths if path.end != "endless"]
    assert len(set(ended)) == len(ended)
    assert found.paths or not found.complete
