"""A process is killed at any boundary of a run, and another one finishes what it left.

`make crash` kills at every point of every scene; here it is one point in fifteen or so, of every boundary.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from scenes import Scene
from stores import Store
from stories import BOUNDARIES, SCENES, Undisturbed, Verdict
from zygote import Zygote

pytestmark = pytest.mark.xdist_group("crash")

Zygotes = tuple[Zygote, Zygote]
Play = Callable[..., Undisturbed]
TellAll = Callable[[Undisturbed, list[str]], list[Verdict]]


@pytest.fixture
def play(zygotes: Zygotes, store: Store, tmp_path: Path) -> Play:
    def play(name: str, **more: Any) -> Undisturbed:
        place = tmp_path / f"{name} {len(list(tmp_path.iterdir()))}"
        place.mkdir()
        return Undisturbed(name, place, store, zygotes[0], **more)

    return play


@pytest.fixture
def tell_all(zygotes: Zygotes, tmp_path: Path) -> TellAll:
    """Let every one of these kills happen, two at a time, and see that nothing is wrong afterwards."""
    numbers = count()

    def tell(whole: Undisturbed, zygote: Zygote, kill: str) -> Verdict:
        place = tmp_path / f"story {next(numbers)}"
        place.mkdir()
        return whole.tell(place, zygote, kill)

    def tell_all(whole: Undisturbed, kills: list[str]) -> list[Verdict]:
        def half(side: int) -> Iterator[Verdict]:
            return (tell(whole, zygotes[side], kill) for kill in kills[side::2])

        with ThreadPoolExecutor(2) as pool:
            told = [verdict for verdicts in pool.map(lambda side: list(half(side)), (0, 1)) for verdict in verdicts]
        assert [problem for verdict in told for problem in verdict.problems] == []
        return told

    return tell_all


def some(whole: Undisturbed, turn: int) -> list[str]:
    """One point of every third boundary of a scene: of three scenes in a row, one of each."""
    chosen = []
    for boundary in BOUNDARIES[turn % 3 :: 3]:
        there = [point for point in whole.points if point.rpartition("/")[0] == boundary]
        chosen.append(there[7 * (turn + 1) % (1 + len(there) * 2 // 3)])  # the last ones depend on the time it takes
    return chosen


@pytest.mark.parametrize("name", SCENES)
def test_at_any_boundary(name: str, play: Play, tell_all: TellAll) -> None:
    """Wherever a process dies: no completed step is repeated, nothing that was acknowledged is lost or changed, no run
    is stranded, and the run comes to what it comes to undisturbed. What must not happen twice never does."""
    whole = play(name)
    told = tell_all(whole, some(whole, SCENES.index(name)))
    assert sum(verdict.reached for verdict in told) >= len(told) - 1, "only a heartbeat may come too late to die in"


def test_undisturbed(play: Play) -> None:
    """Without a kill the run is done, each of its six effects happened once, and every boundary was passed."""
    whole = play("demo")
    assert whole.events[-1]["output"]["seen"].startswith("four words were said [")
    assert sorted(whole.scene.performed().values()) == [1] * 6
    assert whole.scene.completed().keys() == whole.scene.performed().keys()
    assert {point.rpartition("/")[0] for point in whole.points} == set(BOUNDARIES)


@pytest.mark.parametrize(("moment", "times"), [("before", 1), ("amid", 2), ("after", 2)])
def test_in_an_effect(play: Play, tell_all: TellAll, moment: str, times: int) -> None:
    """Killed in a step: before its effect it happens once, after its effect and before the result is durable twice."""
    (told,) = tell_all(play("demo"), [f"effect/{moment}/1"])
    assert told.effects["turn-1:fetch:1"] == times
    assert sum(told.effects.values()) == 5 + times


@pytest.mark.parametrize(("point", "charged", "followed"), [
    ("effect/before/1", 0, "unknown"), ("effect/amid/1", 1, "unknown"), ("effect/amid/2", 1, "paid"),
])  # fmt: skip
def test_what_is_called_once(play: Play, tell_all: TellAll, point: str, charged: int, followed: str) -> None:
    """Killed in it, before its effect or after: nobody knows, so it is not called again, and the error edge is taken.
    Behind it, its result is durable, and nothing is unknown."""
    (told,) = tell_all(play("once"), [point])
    assert told.effects["turn-1:charge:1"] == charged
    assert [key.split(":")[1] for key in told.effects if "charge" not in key] == [followed]


def test_normal_durability(play: Play, tell_all: TellAll) -> None:
    """With `synchronous=NORMAL` a kill, which is no power cut, loses nothing either."""
    whole = play("demo", synchronous="NORMAL")
    told = tell_all(whole, [point for point in whole.points if point.startswith("append/told/")][::3])
    assert all(verdict.reached for verdict in told)


def test_one_write_a_life(play: Play, zygotes: Zygotes, tmp_path: Path) -> None:
    """A run ends well even if each process that drives it dies after a single write of entries."""
    whole = play("demo")
    writes = sum(point.startswith("append/told/") for point in whole.points)
    place = tmp_path / "short lives"
    place.mkdir()
    told = whole.tell(place, zygotes[0], *["append/told/1"] * (writes - 3))
    assert told.reached
    assert told.problems == []


def test_what_is_repeated_is_seen(play: Play) -> None:
    """The harness is no friend: an effect that happens once more after its result was written is reported."""
    whole = play("demo")
    assert whole.scene.repeated() == []
    with (whole.scene.place / "log").open("a") as log:
        log.write('["turn-1:fetch:1", 1, 9999999999999]\n')
    assert whole.scene.repeated() == ["turn-1:fetch:1"]


def test_what_is_lost_is_seen(play: Play, zygotes: Zygotes, tmp_path: Path) -> None:
    """The same of a run that was acknowledged and is not there, of an event that has changed, and of another end."""
    whole = play("demo")
    whole.events[-1]["output"] = "something else"
    place = tmp_path / "lost"
    place.mkdir()
    (place / "life-1.acks").write_text('{"kind": "accepted", "runId": "x"}\n{"runId": "x", "seq": 1}\n')
    told = whole.tell(place, zygotes[0], "effect/before/1")
    assert [what.split(" ")[0] for what in told.lost] == ["run", "event"]
    assert [what.split(" ")[0] for what in told.differs] == ["it"]


def test_a_scene_starts_from_the_seed(store: Store, tmp_path: Path) -> None:
    """Every story has a database of its own, in which nothing has run."""
    scene = Scene(tmp_path, store)
    assert scene.runs() == {}
    scene.drop()
    assert list(tmp_path.iterdir()) == []
