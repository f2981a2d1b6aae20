"""Two processes work on one file."""

import os
import signal
import time
from collections import Counter
from collections.abc import Callable

import pytest
from fork_server import ForkServer
from scenarios import Scenario
from waiting import PATIENCE

RUNS = 50
pytestmark = pytest.mark.xdist_group("crash")


def until(happened: Callable[[], bool]) -> None:
    """Wait until `happened` is true."""
    ends = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < ends, "the condition did not become true"
        time.sleep(0.01)  # another process does it, on the real clock, which a test cannot advance


def statuses(scenario: Scenario) -> Counter[str]:
    return Counter(scenario.runs().values())


def shares(scenario: Scenario) -> Counter[str]:
    """How many steps of each process's runs have happened."""
    return Counter(key.partition("-")[0] for key in scenario.performed())


def test_two_processes_share_the_work(scenario: Scenario, fork_servers: tuple[ForkServer, ForkServer]) -> None:
    """Of fifty runs that two processes start and drive, every effect happens exactly once."""
    names = ("one", "two")
    more = {"starts": RUNS // 2, "runs": RUNS, "seconds": 0.005}
    pids = [
        z.start(scenario.spec("crowd", name, name=name, **more)) for z, name in zip(fork_servers, names, strict=True)
    ]
    ends = [fork_server.wait(pid) for fork_server, pid in zip(fork_servers, pids, strict=True)]
    assert ends == [0, 0], [scenario.said(name) for name in names]
    assert statuses(scenario) == {"done": RUNS}
    assert set(scenario.performed().values()) == {1}
    assert len(scenario.performed()) == RUNS * 4


def test_a_process_takes_over(scenario: Scenario, fork_servers: tuple[ForkServer, ForkServer]) -> None:
    """When one process is killed during its runs, the other one sees that it does not exist, takes them over and ends
    them. Only the step in flight of each run of the killed process can happen a second time.
    """
    fork_server, other = fork_servers
    more = {"starts": RUNS // 2, "runs": RUNS, "seconds": 0.01, "stuck": 1e9}  # silence alone would never be enough
    successor = other.start(scenario.spec("crowd", "two", name="two", **more))
    until(lambda: shares(scenario)["two"] == RUNS // 2 * 4)
    victim = fork_server.start(scenario.spec("crowd", "one", name="one", starts=RUNS // 2, runs=RUNS, seconds=2))
    until(lambda: shares(scenario)["one"] >= 30)  # two rounds of steps are left, of 2 seconds each
    os.kill(victim, signal.SIGKILL)
    assert fork_server.wait(victim) == -signal.SIGKILL
    left = scenario.performed()
    assert statuses(scenario)["running"] > 0, "it was killed amid its work"
    until(lambda: scenario.performed() != left)
    assert other.wait(successor) == 0, scenario.said("two")
    assert statuses(scenario) == {"done": RUNS}
    times = scenario.performed()
    assert len(times) == RUNS * 4
    assert max(times.values()) <= 2
    again = [key for key, number in times.items() if number == 2]
    assert all(key.startswith("one") for key in again)
    assert len({key.split(":")[0] for key in again}) == len(again) <= RUNS // 2
