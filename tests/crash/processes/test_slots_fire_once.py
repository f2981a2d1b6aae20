"""Two processes serve the schedules of one file: a slot starts one run, also when its process is killed at once."""

import signal
from typing import Any

import pytest
from fork_server import ForkServer
from scenarios import SLOT, Scenario

SCHEDULES = 12

pytestmark = pytest.mark.xdist_group("crash")


@pytest.fixture
def due(scenario: Scenario, fork_servers: tuple[ForkServer, ForkServer]) -> Scenario:
    """A file on which every schedule is due."""
    slot = int(SLOT.timestamp() * 1000)
    assert fork_servers[0].run(scenario.spec("schedule", "setup", schedules=SCHEDULES, slot=slot)) == 0, scenario.said(
        "setup"
    )
    return scenario


def serving(scenario: Scenario, name: str, **more: Any) -> dict[str, Any]:
    return scenario.spec("fire", name, runs=SCHEDULES, catch_up=400 * 86_400, **more)


def unserved(scenario: Scenario) -> set[int]:
    """The workflows whose timers are still at the slot."""
    wanted = f"SELECT workflow_id FROM wfcore_schedules WHERE next_at <= {int(SLOT.timestamp() * 1000)}"
    return {number for (number,) in scenario.rows(wanted)}


def assert_each_fired_once(scenario: Scenario) -> None:
    numbers = [number for (number,) in scenario.rows("SELECT workflow_id FROM wfcore_schedules")]
    wanted = [(f"schedule-{number}-{SLOT:%Y%m%d}T0000Z", "done") for number in numbers]
    assert len(wanted) == SCHEDULES
    assert sorted(scenario.rows("SELECT id, status FROM wfcore_runs")) == sorted(wanted)
    assert unserved(scenario) == set()
    assert scenario.rows("SELECT DISTINCT missed, paused FROM wfcore_schedules") == [("[]", None)]


def test_two_processes_serve_the_same_slots(due: Scenario, fork_servers: tuple[ForkServer, ForkServer]) -> None:
    """Together they start each run once, perform each of its effects once, and advance each timer."""
    names = ("one", "two")
    pids = [fork_server.start(serving(due, name)) for fork_server, name in zip(fork_servers, names, strict=True)]
    ends = [fork_server.wait(pid) for fork_server, pid in zip(fork_servers, pids, strict=True)]
    assert ends == [0, 0], [due.said(name) for name in names]
    assert_each_fired_once(due)
    assert list(due.performed().values()) == [1] * SCHEDULES * 4


@pytest.mark.parametrize("when", ["before", "amid", "after"])
def test_a_kill_before_the_timer_is_advanced(
    due: Scenario, fork_servers: tuple[ForkServer, ForkServer], when: str
) -> None:
    """After a kill around the write of a slot's run, the next process starts missing runs, and none a second time."""
    victim = fork_servers[0].start(serving(due, "one", kill=f"commit/{when}/2"))
    assert fork_servers[0].wait(victim) == -signal.SIGKILL
    begun = {number for (number,) in due.rows("SELECT resource_id FROM wfcore_executions")}
    assert bool(begun & unserved(due)) == (when == "after") or when == "amid"
    assert fork_servers[1].run(serving(due, "two")) == 0, due.said("two")
    assert_each_fired_once(due)
