"""Limits of concurrent runs and of calls with a key hold over processes that are killed; counted outside of wfcore."""

import os
import signal

import pytest
from fork_server import ForkServer
from process_roles import most_at_once, note_kill
from scenarios import Scenario
from test_two_processes import statuses, until

LIMIT = 3
RUNS = 30
PROCESSES = 3

pytestmark = pytest.mark.xdist_group("crash")


def are_started(scenario: Scenario) -> bool:
    """Whether all runs were accepted. Those in the database do not say it: a copy of it can have a commit that is not
    finished yet, and that a kill takes back.
    """
    return sum(len(scenario.acknowledged(name)) for name in ("one", "two", "three")) == RUNS


@pytest.mark.parametrize("workflow", [None, 2], ids=["organization", "workflow"])
def test_the_limit_holds(scenario: Scenario, fork_servers: tuple[ForkServer, ForkServer], workflow: int | None) -> None:
    """Three processes start and drive runs, and one is killed amid its work: its share comes back, all runs end."""
    fork_server, other = fork_servers
    assert other.run(scenario.spec("limit", "limit", most=LIMIT, workflow=workflow)) == 0, scenario.said("limit")
    more = {"starts": RUNS // PROCESSES, "seconds": 0.02, "calls": str(scenario.place), "beat": 0.1}
    victim = fork_server.start(scenario.spec("crowd", "one", name="one", runs=RUNS + 1, **more))  # never ends by itself
    rest = [other.start(scenario.spec("crowd", name, name=name, runs=RUNS, **more)) for name in ("two", "three")]
    until(lambda: are_started(scenario) and len(scenario.performed()) > RUNS)
    note_kill(scenario.place, "one")
    os.kill(victim, signal.SIGKILL)
    assert fork_server.wait(victim) == -signal.SIGKILL
    assert [other.wait(pid) for pid in rest] == [0, 0], [scenario.said(name) for name in ("two", "three")]
    assert statuses(scenario) == {"done": RUNS}
    assert len(scenario.performed()) == RUNS * 4
    assert 1 < most_at_once(scenario.place) <= LIMIT


def test_the_limit_of_a_key_holds(scenario: Scenario, fork_servers: tuple[ForkServer, ForkServer]) -> None:
    """The same for the calls of a key, of which there are never more than two: two of three processes are killed."""
    fork_server, other = fork_servers
    more = {"starts": RUNS // 3, "seconds": 0.01, "calls": str(scenario.place), "beat": 0.1, "graph": "keyed"}
    names = ("one", "two")
    victims = [fork_server.start(scenario.spec("crowd", one, name=one, runs=RUNS + 1, **more)) for one in names]
    last = other.start(scenario.spec("crowd", "three", name="three", runs=RUNS, **more))
    until(lambda: are_started(scenario) and len(scenario.performed()) > RUNS)
    for name, victim in zip(names, victims, strict=True):
        note_kill(scenario.place, name)
        os.kill(victim, signal.SIGKILL)
        assert fork_server.wait(victim) == -signal.SIGKILL
    assert other.wait(last) == 0, scenario.said("three")
    assert statuses(scenario) == {"done": RUNS}
    assert len(scenario.performed()) == RUNS * 4
    assert 1 < most_at_once(scenario.place) <= 2
