"""Two processes serve the schedules of one file: a slot starts one run, also when who started it dies at once."""

import signal
from typing import Any

import pytest
from scenes import SLOT, Scene
from zygote import Zygote

SCHEDULES = 12

pytestmark = pytest.mark.xdist_group("crash")


@pytest.fixture
def due(scene: Scene, zygotes: tuple[Zygote, Zygote]) -> Scene:
    """A file on which every schedule is due."""
    slot = int(SLOT.timestamp() * 1000)
    assert zygotes[0].run(scene.spec("schedule", "setup", schedules=SCHEDULES, slot=slot)) == 0, scene.said("setup")
    return scene


def serving(scene: Scene, name: str, **more: Any) -> dict[str, Any]:
    return scene.spec("fire", name, runs=SCHEDULES, catch_up=400 * 86_400, **more)


def unserved(scene: Scene) -> set[int]:
    """The workflows whose timers still stand on the slot."""
    wanted = f"SELECT workflow_id FROM schedules WHERE next_at <= {int(SLOT.timestamp() * 1000)}"
    return {number for (number,) in scene.rows(wanted)}


def assert_each_fired_once(scene: Scene) -> None:
    numbers = [number for (number,) in scene.rows("SELECT workflow_id FROM schedules")]
    wanted = [(f"schedule-{number}-{SLOT:%Y%m%d}T0000Z", "done") for number in numbers]
    assert len(wanted) == SCHEDULES
    assert sorted(scene.rows("SELECT id, status FROM runs")) == sorted(wanted)
    assert unserved(scene) == set()
    assert scene.rows("SELECT DISTINCT missed, paused FROM schedules") == [("[]", None)]


def test_both_serve_the_same_slots(due: Scene, zygotes: tuple[Zygote, Zygote]) -> None:
    """Together they start each run once, perform each of its effects once, and move each timer on."""
    names = ("one", "two")
    pids = [zygote.start(serving(due, name)) for zygote, name in zip(zygotes, names, strict=True)]
    ends = [zygote.wait(pid) for zygote, pid in zip(zygotes, pids, strict=True)]
    assert ends == [0, 0], [due.said(name) for name in names]
    assert_each_fired_once(due)
    assert list(due.performed().values()) == [1] * SCHEDULES * 4


@pytest.mark.parametrize("when", ["before", "amid", "after"])
def test_a_death_before_the_timer_is_moved(due: Scene, zygotes: tuple[Zygote, Zygote], when: str) -> None:
    """Killed around the write of a slot's run: the next process starts what was not, and nothing a second time."""
    doomed = zygotes[0].start(serving(due, "one", kill=f"commit/{when}/3"))
    assert zygotes[0].wait(doomed) == -signal.SIGKILL
    begun = {number for (number,) in due.rows("SELECT resource_id FROM executions")}
    assert bool(begun & unserved(due)) == (when == "after") or when == "amid"
    assert zygotes[1].run(serving(due, "two")) == 0, due.said("two")
    assert_each_fired_once(due)
