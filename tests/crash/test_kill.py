"""A process is killed at every boundary of a run, and another one finishes what it left.

The workflow has a tool, a condition, an agent, an approval, a loop over a list and a last tool; both turns are cut.
"""

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from lives import DEMO, FIRST, SECOND, lines
from scenes import Scene
from zygote import Zygote

from wfcore.domain.run.entries import Succeeded, decode_entry

KILLED = -9
Events = list[dict[str, Any]]

pytestmark = pytest.mark.xdist_group("crash")


class Story:
    """One run that was cut once, and what is known of it afterwards."""

    def __init__(self, scene: Scene, zygote: Zygote, **kill: Any) -> None:
        self.how = str(kill)
        self.scene = scene
        first = zygote.run(scene.spec("live", "first", **kill))
        assert first == KILLED, (self.how, first, scene.said("first"))
        self.durable = durable_keys(scene.db)
        self.before = performed(scene)
        second = zygote.run(scene.spec("live", "second"))
        assert second == 0, (self.how, scene.said("second"))
        self.after = performed(scene)

    def check(self, undisturbed: Events) -> None:
        told, final = lines(self.scene.place / "first.acks"), lines(self.scene.place / "second.acks")
        assert final[-1] == undisturbed[-1], self.how
        for run in (FIRST, SECOND):
            seen, whole = of_run(told, run), of_run(final, run)
            assert seen == whole[: len(seen)], f"{self.how}: what was seen has changed"
            assert [event["seq"] for event in whole] == list(range(1, len(whole) + 1)), self.how
            assert shape(whole) == shape(of_run(undisturbed, run)), self.how
        again = {key for key, times in self.after.items() if times > 1}
        assert max(self.after.values()) <= 2, f"{self.how}: performed more than twice"
        assert not again & self.durable, f"{self.how}: what was durable was performed again"
        assert len(again) <= 2, f"{self.how}: more steps than were in flight were performed again"
        assert {key: self.after[key] for key in self.durable} == {key: self.before[key] for key in self.durable}


def of_run(events: Events, run: str) -> Events:
    return [event for event in events if event.get("runId") == run]


def shape(events: Events) -> Counter[tuple[object, ...]]:
    """What a run showed but for times, the order of parallel steps, and how an answer was cut into pieces."""
    kept = [event for event in events if event["kind"] != "message_delta"]
    return Counter((event["kind"], event.get("nodeId"), str(event.get("content"))) for event in kept)


def performed(scene: Scene) -> Counter[str]:
    """How often each step's effect happened in the world, by its key."""
    return Counter(key for key, _ in lines(scene.place / "log"))


def durable_keys(db: Path) -> set[str]:
    """The keys of the tool's steps whose result the file holds."""
    with sqlite3.connect(db) as connection:
        texts = [text for (text,) in connection.execute("SELECT entry FROM journal ORDER BY execution, pos")]
    connection.close()
    done = [entry for entry in map(decode_entry, texts) if isinstance(entry, Succeeded)]
    return {key_of(entry) for entry in done if DEMO["nodes"][entry.node]["id"] != "write"}


def key_of(entry: Succeeded) -> str:
    node = DEMO["nodes"][entry.node]
    step = f".{entry.step}" if "forEach" in node["data"] else ""
    return f"{FIRST}:{node['id']}:{entry.visit}{step}"


@pytest.fixture(scope="session")
def undisturbed(zygotes: tuple[Zygote, Zygote], seeded: Path, tmp_path_factory: pytest.TempPathFactory) -> Scene:
    scene = Scene(tmp_path_factory.mktemp("undisturbed"), seeded)
    assert zygotes[0].run(scene.spec("live", "only")) == 0, scene.said("only")
    return scene


@pytest.fixture
def tell_all(
    zygotes: tuple[Zygote, Zygote], seeded: Path, undisturbed: Scene, tmp_path: Path
) -> Callable[[list[dict[str, Any]]], list[Story]]:
    """Let every one of these kills happen, two at a time, and check what is left."""
    numbers = count()

    def tell(zygote: Zygote, kill: dict[str, Any]) -> Story:
        place = tmp_path / str(next(numbers))
        place.mkdir()
        story = Story(Scene(place, seeded), zygote, **kill)
        story.check(lines(undisturbed.place / "only.acks"))
        return story

    def tell_all(kills: list[dict[str, Any]]) -> list[Story]:
        def half(side: int) -> Iterator[Story]:
            return (tell(zygotes[side], kill) for kill in kills[side::2])

        with ThreadPoolExecutor(2) as pool:
            return [story for stories in pool.map(lambda side: list(half(side)), (0, 1)) for story in stories]

    return tell_all


TellAll = Callable[[list[dict[str, Any]]], list[Story]]


def test_undisturbed(undisturbed: Scene) -> None:
    """Without a kill the run is done, each of its five tool steps was performed once, and nothing is left out."""
    end = lines(undisturbed.place / "only.acks")[-1]
    assert end["status"] == "done"
    assert end["output"]["seen"].startswith("four words were said [")
    assert sorted(performed(undisturbed).values()) == [1] * 5
    assert set(performed(undisturbed)) == durable_keys(undisturbed.db)


@pytest.mark.parametrize("when", ["before", "amid", "after", "told"])
def test_at_every_write(when: str, undisturbed: Scene, tell_all: TellAll) -> None:
    """Killed before, within, right after or soon after any write of entries: see `Story.check`."""
    boundaries = lines(undisturbed.place / "only.appends")
    assert len(boundaries) >= 10, "begin, tool, four pieces of text, agent, answer, items, last"
    stories = tell_all([{"kill": (number, when)} for number in boundaries])
    assert min(len(story.durable) for story in stories) == 0
    assert max(len(story.durable) for story in stories) >= 4


@pytest.mark.parametrize("when", ["early", "late"])
def test_in_every_tool_call(when: str, tell_all: TellAll) -> None:
    """Killed in a tool: before its effect it happens once, after its effect and before the result is durable twice."""
    stories = tell_all([{"kill_tool": (number, when)} for number in range(1, 6)])
    again = [sum(times - 1 for times in story.after.values()) for story in stories]
    assert all(repeated >= 1 for repeated in again) if when == "late" else not again[0]


def test_normal_durability(undisturbed: Scene, tell_all: TellAll) -> None:
    """With `synchronous=NORMAL` a kill, which is no power cut, loses nothing either."""
    boundaries = lines(undisturbed.place / "only.appends")
    tell_all([{"kill": (number, "after"), "synchronous": "NORMAL"} for number in boundaries[::3]])


def test_one_write_a_life(scene: Scene, undisturbed: Scene, zygotes: tuple[Zygote, Zygote]) -> None:
    """A run ends well, with every effect once, even if each process that drives it dies after a single write."""
    boundaries = lines(undisturbed.place / "only.appends")
    for life in range(len(boundaries)):
        assert zygotes[0].run(scene.spec("live", f"life-{life}", kill=(1, "after"))) == KILLED, scene.said(
            f"life-{life}"
        )
    assert zygotes[0].run(scene.spec("live", "last")) == 0, scene.said("last")
    assert lines(scene.place / "last.acks")[-1] == lines(undisturbed.place / "only.acks")[-1]
    assert durable_keys(scene.db) == set(performed(scene))
    repeated = [key for key, times in performed(scene).items() if times > 1]
    assert all(":each:" in key for key in repeated), "only two items of the list are ever in flight together"
