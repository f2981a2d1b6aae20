"""One run that is cut, and what is known of it afterwards: was anything repeated, lost, stranded, or told otherwise?

A story has a life for every kill, and a last one that nobody disturbs. What the last one is told is compared with
what the others were told, with what happened in the world, and with the run that nobody cut.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
from graphs import NUMBERS
from lives import Spec
from scenes import KILLED, SLOT, Events, Scene
from stores import Store
from zygote import Zygote

ONCE = "charge"
"""The step that must not happen twice, whatever becomes of it."""

MORE: dict[str, Spec] = {
    "schedule": {"catch_up": 400 * 86_400, "run": f"schedule-12-{SLOT:%Y%m%d}T0000Z"},
    "lease": {"scene": "actions", "beat": 0.01, "seconds": 0.03},
    **{name: {"beat": 0.1} for name in ("retry", "deadline", "wait")},
}
"""What the lives of a scene are told beside its name."""

OTHERWISE = {"once": [{"seen": "unknown"}]}
"""What else a run may come to when it was cut: nobody knows whether what must not happen twice has happened."""

SCENES = (*(name for name in NUMBERS if name != "crowd"), "schedule", "lease")
FAULTS = ("repeated", "lost", "stranded", "differs")

BOUNDARIES = tuple(
    f"{kind}/{moment}"
    for kind, moments in {
        "read": ["before"],
        "write": ["before", "amid", "after"],
        "commit": ["before", "amid", "after"],
        "append": ["told"],
        "effect": ["before", "amid", "after"],
        "publish": ["before", "after"],
        "lease": ["before", "after"],
    }.items()
    for moment in moments
)

UNDER_WAY = ("queued", "running")

Kills = Sequence[str]


@attrs.frozen
class Verdict:
    """What became of one story: how often, and of what. `reached`: the processes died where they should."""

    scene: str
    kills: Kills
    reached: bool
    repeated: Sequence[str] = ()
    lost: Sequence[str] = ()
    stranded: Sequence[str] = ()
    differs: Sequence[str] = ()
    effects: Counter[str] = attrs.field(factory=Counter)

    @property
    def problems(self) -> list[str]:
        where = f"{self.scene} {' '.join(self.kills)}"
        return [f"{where}: {name}: {what}" for name in FAULTS for what in getattr(self, name)]


class Undisturbed:
    """A scene that nobody cuts, `kills` aside that every story of it begins with."""

    def __init__(self, name: str, place: Path, store: Store, zygote: Zygote, *, kills: Kills = (), **more: Any) -> None:
        self.name = name
        self.label = "recovery" if kills else name
        self.kills = kills
        self._store = store
        self._more: Spec = {"scene": name, **MORE.get(name, {}), **more}
        self.scene = self._set(place, zygote)
        self._cut(self.scene, zygote, kills)
        assert zygote.run(self._spec(self.scene, "last")) == 0, self.scene.said("last")
        self.events = self.scene.acknowledged("last")
        self.points = self.scene.points("last")

    def tell(self, place: Path, zygote: Zygote, *kills: str) -> Verdict:
        """What becomes of the same run when it is cut at these points, one life after the other."""
        scene = self._set(place, zygote)
        kills = (*self.kills, *kills)
        if not self._cut(scene, zygote, kills):
            scene.drop()
            return Verdict(self.label, kills, reached=False)
        told = [event for life in _lives(kills) for event in scene.acknowledged(life) if "runId" in event]
        lost = [f"run {run}" for run in {event["runId"] for event in told} - scene.runs().keys()]
        status = zygote.run(self._spec(scene, "last"))
        final = scene.acknowledged("last")
        stranded = [run for run, status in scene.runs().items() if status in UNDER_WAY]
        if status:
            stranded.append(f"the last process ended with {status}: {scene.said('last')[-2_000:]}")
        lost += _changed(told, final)
        differs = () if status else self._differs(scene, final, len(kills))
        repeated = scene.repeated()
        scene.drop()
        return Verdict(self.label, kills, True, repeated, lost, stranded, differs, scene.performed())

    def _set(self, place: Path, zygote: Zygote) -> Scene:
        scene = Scene(place, self._store)
        if self.name == "schedule":
            slot = int(SLOT.timestamp() * 1000)
            assert zygote.run(scene.spec("schedule", "before", schedules=1, slot=slot)) == 0, scene.said("before")
        return scene

    def _cut(self, scene: Scene, zygote: Zygote, kills: Kills) -> bool:
        """Whether every life but the last ended where it should."""
        return all(
            zygote.run(self._spec(scene, life, kill=kill)) == KILLED
            for life, kill in zip(_lives(kills), kills, strict=True)
        )

    def _spec(self, scene: Scene, who: str, **more: Any) -> Spec:
        return scene.spec("play", who, **self._more, **more)

    def _differs(self, scene: Scene, final: Events, kills: int) -> list[str]:
        found = [f"run {run} has gaps" for run, seqs in _numbers(final).items() if seqs != [*range(1, len(seqs) + 1)]]
        performed, whole = scene.performed(), self.scene.performed()
        found += [f"{key} happened {times} times" for key, times in performed.items() if times > self._most(key, kills)]
        end = final[-1].get("output") if final else None
        if end in OTHERWISE.get(self.name, []):
            return found
        if end != self.events[-1].get("output"):
            found.append(f"it came to {end}")
        if _shape(final) != _shape(self.events):
            found.append(f"it told {_shape(final) - _shape(self.events)} and not {_shape(self.events) - _shape(final)}")
        return found + [f"{key} never happened" for key in whole.keys() - performed.keys()]

    def _most(self, key: str, kills: int) -> int:
        """How often an effect may happen: once for every life that was in it when it ended, and once for good."""
        if ONCE in key:
            return 1
        return self.scene.performed()[key] + kills


def _lives(kills: Kills) -> list[str]:
    return [f"life-{number}" for number in range(1, len(kills) + 1)]


def _changed(told: Events, final: Events) -> list[str]:
    """What was acknowledged, and is not what the last process was told at the same place."""
    known = {(event["runId"], event["seq"]): event for event in final if "seq" in event}
    return [f"event {event}" for event in told if "seq" in event and known.get((event["runId"], event["seq"])) != event]


def _numbers(events: Events) -> dict[str, list[int]]:
    numbers: dict[str, list[int]] = {}
    for event in events:
        if "seq" in event:
            numbers.setdefault(event["runId"], []).append(event["seq"])
    return numbers


def _shape(events: Events) -> Counter[tuple[object, ...]]:
    """What a run showed but for times, the order of parallel steps, how an answer was cut into pieces, and attempts."""
    kept = [event for event in events if event["kind"] not in ("message_delta", "node_retrying")]
    return Counter((event["kind"], event.get("nodeId"), str(event.get("content"))) for event in kept)
