"""A process is killed while it retries a run, or moves waiting ones, and another one finishes its work."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fork_server import ForkServer
from repair_roles import FAILED, WAITING
from scenarios import KILLED, Scenario
from stores import Store

from wfcore.adapters.sql.journal.conversion import to_entry
from wfcore.domain.run.entries import Moved

pytestmark = pytest.mark.xdist_group("crash")

FIRST = {f"{run}:first:1": 1 for run in (FAILED, *WAITING)}
EXPECTED: dict[str, tuple[list[Any], dict[str, int]]] = {
    "retry": ([{"seen": "mended 5"}], {f"{FAILED}:stop:1": 1}),
    "move": ([{"seen": "after new"}] * 2, {f"{run}:{step}:1": 1 for run in WAITING for step in ("new", "end")}),
}
"""The outputs of the repaired runs, and how often each of their effects happens without a kill."""

KILLS = 9
"""Points at which a process of each role is killed, spread over those that it passes."""


class Repairs:
    """Databases with runs to repair, and processes of one role that repair them."""

    def __init__(self, place: Path, store: Store, fork_server: ForkServer, role: str) -> None:
        self._place, self._store, self._fork_server, self._role = place, store, fork_server, role
        self._numbers: Iterator[int] = iter(range(1_000))

    def prepared(self) -> Scenario:
        place = self._place / f"{self._role} {next(self._numbers)}"
        place.mkdir()
        scenario = Scenario(place, self._store)
        assert self._fork_server.run(scenario.spec("prepare_repairs", "prepare")) == 0, scenario.said("prepare")
        return scenario

    def run(self, scenario: Scenario, who: str, **more: Any) -> int:
        (numbers,) = scenario.acknowledged("prepare")
        return self._fork_server.run(scenario.spec(self._role, who, workflow=numbers["waiting"], **more))


@pytest.fixture(params=EXPECTED)
def repairs(
    request: pytest.FixtureRequest, tmp_path: Path, store: Store, fork_servers: tuple[ForkServer, ForkServer]
) -> Repairs:
    return Repairs(tmp_path, store, fork_servers[0], request.param)


def test_at_any_boundary(repairs: Repairs, request: pytest.FixtureRequest) -> None:
    """No completed step is repeated, each run is repaired wholly or not at all, and all end as without a kill."""
    outputs, effects = EXPECTED[request.node.callspec.params["repairs"]]
    whole = repairs.prepared()
    assert repairs.run(whole, "last") == 0, whole.said("last")
    assert [row["output"] for row in whole.acknowledged("last") if "output" in row and "seq" not in row] == outputs
    assert dict(whole.performed()) == {**FIRST, **effects}
    points = [point for point in whole.points("last") if not point.startswith(("lease", "read"))]
    kills, reached = points[:: max(1, len(points) // KILLS)], 0
    for kill in kills:
        scenario = repairs.prepared()
        status = repairs.run(scenario, "killed", kill=kill)
        assert status in (KILLED, 0), (kill, scenario.said("killed"))
        reached += status == KILLED
        assert half_moved(scenario) == [], kill
        assert repairs.run(scenario, "last") == 0, (kill, scenario.said("last"))
        rows = [row["output"] for row in scenario.acknowledged("last") if "output" in row and "seq" not in row]
        assert rows == outputs, kill
        assert scenario.repeated() == [], kill
        performed = scenario.performed()
        assert performed.keys() == {*FIRST, *effects}, kill
        assert [performed[key] for key in FIRST] == [1] * len(FIRST), kill
        scenario.drop()
    assert reached >= len(kills) - 2, "the last points depend on the time that a process takes"


def half_moved(scenario: Scenario) -> list[int]:
    """Executions whose journal and whose record do not agree on whether they have moved."""
    moved = {
        execution
        for execution, text in scenario.rows("SELECT execution, entry FROM wfcore_journal")
        if isinstance(to_entry(text), Moved)
    }
    rows = scenario.rows("SELECT execution FROM wfcore_runs WHERE variation_id IS NOT NULL AND id LIKE 'waiting-%'")
    return sorted(moved ^ {execution for (execution,) in rows})
