"""Two processes work on one file."""

import os
import signal
import time
from collections import Counter
from collections.abc import Callable

import pytest
from scenes import Scene
from zygote import Zygote

RUNS = 50
pytestmark = pytest.mark.xdist_group("crash")


def until(happened: Callable[[], bool], seconds: float = 20.0) -> float:
    """Wait for something that another process does; how long it took."""
    began = time.monotonic()
    while not happened():
        assert time.monotonic() < began + seconds, "it did not happen"
        time.sleep(0.01)  # another process does it, on the real clock: there is no fake one to move
    return time.monotonic() - began


def statuses(scene: Scene) -> Counter[str]:
    return Counter(scene.runs().values())


def shares(scene: Scene) -> Counter[str]:
    """How many steps of each process's runs have happened."""
    return Counter(key.partition("-")[0] for key in scene.performed())


def test_share_the_work(scene: Scene, zygotes: tuple[Zygote, Zygote]) -> None:
    """Of fifty runs that two processes start and drive, every effect happens exactly once."""
    names = ("one", "two")
    more = {"starts": RUNS // 2, "runs": RUNS, "seconds": 0.005}
    pids = [z.start(scene.spec("crowd", name, name=name, **more)) for z, name in zip(zygotes, names, strict=True)]
    ends = [zygote.wait(pid) for zygote, pid in zip(zygotes, pids, strict=True)]
    assert ends == [0, 0], [scene.said(name) for name in names]
    assert statuses(scene) == {"done": RUNS}
    assert set(scene.performed().values()) == {1}
    assert len(scene.performed()) == RUNS * 4


def test_take_over(scene: Scene, zygotes: tuple[Zygote, Zygote]) -> None:
    """One of them is killed amid its runs: the other one takes them over within about two seconds, and ends them.

    Only what was in flight, one step of each of the dead process's runs, may happen a second time.
    """
    zygote, other = zygotes
    doomed = zygote.start(scene.spec("crowd", "one", name="one", starts=RUNS // 2, runs=RUNS, seconds=0.3))
    heir = other.start(scene.spec("crowd", "two", name="two", starts=RUNS // 2, runs=RUNS, seconds=0.01))
    until(lambda: shares(scene)["one"] >= 30 and shares(scene)["two"] == RUNS // 2 * 4)
    os.kill(doomed, signal.SIGKILL)
    assert zygote.wait(doomed) == -signal.SIGKILL
    left = scene.performed()
    assert statuses(scene)["running"] > 0, "it was killed amid its work"
    taken_over = until(lambda: scene.performed() != left)
    assert other.wait(heir) == 0, scene.said("two")
    assert statuses(scene) == {"done": RUNS}
    times = scene.performed()
    assert len(times) == RUNS * 4
    assert max(times.values()) <= 2
    again = [key for key, number in times.items() if number == 2]
    assert all(key.startswith("one") for key in again)
    assert len({key.split(":")[0] for key in again}) == len(again) <= RUNS // 2
    assert taken_over < 3.0
