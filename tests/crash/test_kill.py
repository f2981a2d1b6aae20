"""A process is killed at any boundary of a run, and another one finishes its work. `make crash` kills at every point
of every scenario; this module at one point in fifteen or so, of every boundary.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from fork_server import ForkServer
from kill_experiments import BOUNDARIES, SCENARIOS, Baseline, Verdict
from scenarios import Scenario
from stores import Store

pytestmark = pytest.mark.xdist_group("crash")

ForkServers = tuple[ForkServer, ForkServer]
Play = Callable[..., Baseline]
RunAll = Callable[[Baseline, list[str]], list[Verdict]]


@pytest.fixture
def play(fork_servers: ForkServers, store: Store, tmp_path: Path) -> Play:
    def play(name: str, **more: Any) -> Baseline:
        place = tmp_path / f"{name} {len(list(tmp_path.iterdir()))}"
        place.mkdir()
        return Baseline(name, place, store, fork_servers[0], **more)

    return play


@pytest.fixture
def run_all(fork_servers: ForkServers, tmp_path: Path) -> RunAll:
    """Run an experiment for each kill, two at a time, and assert that none has problems."""
    numbers = count()

    def experiment(whole: Baseline, fork_server: ForkServer, kill: str) -> Verdict:
        place = tmp_path / f"story {next(numbers)}"
        place.mkdir()
        return whole.experiment(place, fork_server, kill)

    def run_all(whole: Baseline, kills: list[str]) -> list[Verdict]:
        def half(side: int) -> Iterator[Verdict]:
            return (experiment(whole, fork_servers[side], kill) for kill in kills[side::2])

        with ThreadPoolExecutor(2) as pool:
            verdicts = [one for found in pool.map(lambda side: list(half(side)), (0, 1)) for one in found]
        assert [problem for verdict in verdicts for problem in verdict.problems] == []
        return verdicts

    return run_all


def some(whole: Baseline, turn: int) -> list[str]:
    """One point of every third boundary of a scenario, so that three consecutive scenarios cover all boundaries."""
    chosen = []
    for boundary in BOUNDARIES[turn % 3 :: 3]:
        there = early(whole, boundary)
        chosen.append(there[7 * (turn + 1) % len(there)])
    return chosen


def early(whole: Baseline, boundary: str) -> list[str]:
    """The points of a boundary that every run passes: how many follow them depends on the time it takes."""
    there = [point for point in whole.points if point.rpartition("/")[0] == boundary]
    return there[: 1 + len(there) * 2 // 3]


@pytest.mark.parametrize("name", SCENARIOS)
def test_at_any_boundary(name: str, play: Play, run_all: RunAll) -> None:
    """At any kill no completed step is repeated, nothing acknowledged is lost or changed, no run is stranded, and the
    output is that of a run without kills. A step that must not be repeated happens once at most.
    """
    whole = play(name)
    verdicts = run_all(whole, some(whole, SCENARIOS.index(name)))
    assert sum(verdict.reached for verdict in verdicts) >= len(verdicts) - 1, (
        "only a heartbeat can come too late for its kill"
    )


def test_without_kills(play: Play) -> None:
    """The run is done, each of its six effects happened once, and every boundary was passed."""
    whole = play("demo")
    assert whole.events[-1]["output"]["seen"].startswith("four words were said [")
    assert sorted(whole.scenario.performed().values()) == [1] * 6
    assert whole.scenario.completed().keys() == whole.scenario.performed().keys()
    assert {point.rpartition("/")[0] for point in whole.points} == set(BOUNDARIES)


@pytest.mark.parametrize(("moment", "times"), [("before", 1), ("amid", 2), ("after", 2)])
def test_in_an_effect(play: Play, run_all: RunAll, moment: str, times: int) -> None:
    """A kill before the effect of a step does not repeat it; one between effect and durable result does."""
    (verdict,) = run_all(play("demo"), [f"effect/{moment}/1"])
    assert verdict.effects["turn-1:fetch:1"] == times
    assert sum(verdict.effects.values()) == 5 + times


@pytest.mark.parametrize(("point", "charged", "followed"), [
    ("effect/before/1", 0, "unknown"), ("effect/amid/1", 1, "unknown"), ("effect/amid/2", 1, "paid"),
])  # fmt: skip
def test_a_step_that_must_not_be_repeated(play: Play, run_all: RunAll, point: str, charged: int, followed: str) -> None:
    """A kill before or after its effect makes the outcome unknown: it is not called again, and the error edge is
    taken. After its durable result nothing is unknown.
    """
    (verdict,) = run_all(play("once"), [point])
    assert verdict.effects["turn-1:charge:1"] == charged
    assert [key.split(":")[1] for key in verdict.effects if "charge" not in key] == [followed]


def test_normal_durability(play: Play, run_all: RunAll) -> None:
    """With `synchronous=NORMAL` a kill, unlike a power failure, loses nothing either."""
    whole = play("demo", synchronous="NORMAL")
    verdicts = run_all(whole, early(whole, "append/acknowledged")[::2])
    assert all(verdict.reached for verdict in verdicts)


def test_one_write_per_process(play: Play, fork_servers: ForkServers, tmp_path: Path) -> None:
    """A run ends correctly even if each of its processes is killed after a single append."""
    whole = play("demo")
    writes = len(early(whole, "append/acknowledged"))
    place = tmp_path / "short processes"
    place.mkdir()
    verdict = whole.experiment(place, fork_servers[0], *["append/acknowledged/1"] * writes)
    assert verdict.reached
    assert verdict.problems == []


def test_the_harness_detects_repetitions(play: Play) -> None:
    """An effect that happens again after its result was written is reported."""
    whole = play("demo")
    assert whole.scenario.repeated() == []
    with (whole.scenario.place / "log").open("a") as log:
        log.write('["turn-1:fetch:1", 1, 9999999999999]\n')
    assert whole.scenario.repeated() == ["turn-1:fetch:1"]


def test_the_harness_detects_losses(play: Play, fork_servers: ForkServers, tmp_path: Path) -> None:
    """An acknowledged run that is missing, a changed event, and another output are reported."""
    whole = play("demo")
    whole.events[-1]["output"] = "something else"
    place = tmp_path / "lost"
    place.mkdir()
    (place / "process-1.acks").write_text('{"kind": "accepted", "runId": "x"}\n{"runId": "x", "seq": 1}\n')
    verdict = whole.experiment(place, fork_servers[0], "effect/before/1")
    assert [what.split(" ")[0] for what in verdict.lost] == ["run", "event"]
    assert [what.split(" ")[0] for what in verdict.differs] == ["the"]


def test_a_scenario_starts_from_the_seed(store: Store, tmp_path: Path) -> None:
    """Every experiment has its own database, without runs."""
    scenario = Scenario(tmp_path, store)
    assert scenario.runs() == {}
    scenario.drop()
    assert list(tmp_path.iterdir()) == []
