"""A run whose processes are killed, and the comparison afterwards: is anything repeated, lost, stranded or different?

An experiment has one process for each kill, and a last one that is not killed. The events of the last one are compared
with the events that the others acknowledged, with the recorded effects, and with a run without kills.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
from fork_server import ForkServer
from graphs import NUMBERS
from process_roles import Spec
from scenarios import KILLED, ONCE, SLOT, Events, Scenario
from stores import Store

SCENARIO_OPTIONS: dict[str, Spec] = {
    "schedule": {"catch_up": 400 * 86_400, "run": f"schedule-{len(NUMBERS) + 1}-{SLOT:%Y%m%d}T0000Z"},
    "lease": {"scenario": "actions", "beat": 0.01, "seconds": 0.03},
    **{name: {"beat": 0.1} for name in ("retry", "deadline", "wait")},
}
"""Further options of the processes of a scenario."""

ALTERNATIVE_OUTPUTS = {"once": [{"seen": "unknown"}]}
"""Other valid outputs after a kill: the outcome of a step that must not be repeated is unknown."""

SCENARIOS = (*(name for name in NUMBERS if name != "crowd"), "schedule", "lease")
FAULTS = ("repeated", "lost", "stranded", "differs")

BOUNDARIES = tuple(
    f"{kind}/{moment}"
    for kind, moments in {
        "read": ["before"],
        "write": ["before", "amid", "after"],
        "commit": ["before", "amid", "after"],
        "append": ["acknowledged"],
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
    """The result of one experiment. `reached`: every process was killed at its point."""

    scenario: str
    kills: Kills
    reached: bool
    repeated: Sequence[str] = ()
    lost: Sequence[str] = ()
    stranded: Sequence[str] = ()
    differs: Sequence[str] = ()
    effects: Counter[str] = attrs.field(factory=Counter)

    @property
    def problems(self) -> list[str]:
        where = f"{self.scenario} {' '.join(self.kills)}"
        return [f"{where}: {name}: {what}" for name in FAULTS for what in getattr(self, name)]


class Baseline:
    """A run of a scenario without kills, except for `kills`, with which each of its experiments begins."""

    def __init__(
        self, name: str, place: Path, store: Store, fork_server: ForkServer, *, kills: Kills = (), **more: Any
    ) -> None:
        self.name = name
        self.label = "recovery" if kills else name
        self.kills = kills
        self._store = store
        self._more: Spec = {"scenario": name, **SCENARIO_OPTIONS.get(name, {}), **more}
        self.scenario = self._prepared(place, fork_server)
        self._kill_each(self.scenario, fork_server, kills)
        assert fork_server.run(self._spec(self.scenario, "last")) == 0, self.scenario.said("last")
        self.events = self.scenario.acknowledged("last")
        self.points = self.scenario.points("last")

    def experiment(self, place: Path, fork_server: ForkServer, *kills: str) -> Verdict:
        """The result of the same run when its processes are killed at these points, one after the other."""
        scenario = self._prepared(place, fork_server)
        kills = (*self.kills, *kills)
        if not self._kill_each(scenario, fork_server, kills):
            scenario.drop()
            return Verdict(self.label, kills, reached=False)
        acknowledged_events = [
            event for role in _names(kills) for event in scenario.acknowledged(role) if "runId" in event
        ]
        lost = [f"run {run}" for run in {event["runId"] for event in acknowledged_events} - scenario.runs().keys()]
        status = fork_server.run(self._spec(scenario, "last"))
        final = scenario.acknowledged("last")
        stranded = [run for run, status in scenario.runs().items() if status in UNDER_WAY]
        if status:
            stranded.append(f"the last process ended with {status}: {scenario.said('last')[-2_000:]}")
        lost += _changed(acknowledged_events, final)
        differs = () if status else self._differs(scenario, final, len(kills))
        repeated = scenario.repeated()
        scenario.drop()
        return Verdict(self.label, kills, True, repeated, lost, stranded, differs, scenario.performed())

    def _prepared(self, place: Path, fork_server: ForkServer) -> Scenario:
        scenario = Scenario(place, self._store)
        if self.name == "schedule":
            slot = int(SLOT.timestamp() * 1000)
            assert fork_server.run(scenario.spec("schedule", "before", schedules=1, slot=slot)) == 0, scenario.said(
                "before"
            )
        return scenario

    def _kill_each(self, scenario: Scenario, fork_server: ForkServer, kills: Kills) -> bool:
        """Whether every process but the last was killed at its point."""
        return all(
            fork_server.run(self._spec(scenario, role, kill=kill)) == KILLED
            for role, kill in zip(_names(kills), kills, strict=True)
        )

    def _spec(self, scenario: Scenario, who: str, **more: Any) -> Spec:
        return scenario.spec("play", who, **self._more, **more)

    def _differs(self, scenario: Scenario, final: Events, kills: int) -> list[str]:
        found = [f"run {run} has gaps" for run, seqs in _numbers(final).items() if seqs != [*range(1, len(seqs) + 1)]]
        performed, whole = scenario.performed(), self.scenario.performed()
        found += [f"{key} happened {times} times" for key, times in performed.items() if times > self._most(key, kills)]
        end = final[-1].get("output") if final else None
        if end in ALTERNATIVE_OUTPUTS.get(self.name, []):
            return found
        if end != self.events[-1].get("output"):
            found.append(f"the output is {end}")
        if _shape(final) != _shape(self.events):
            extra, missing = _shape(final) - _shape(self.events), _shape(self.events) - _shape(final)
            found.append(f"the events have {extra} and lack {missing}")
        return found + [f"{key} never happened" for key in whole.keys() - performed.keys()]

    def _most(self, key: str, kills: int) -> int:
        """How often an effect can happen: once for every process that was killed during it, and once more."""
        if ONCE in key:
            return 1
        return self.scenario.performed()[key] + kills


def _names(kills: Kills) -> list[str]:
    return [f"process-{number}" for number in range(1, len(kills) + 1)]


def _changed(acknowledged_events: Events, final: Events) -> list[str]:
    """Acknowledged events that differ from those of the last process at the same position."""
    known = {(event["runId"], event["seq"]): event for event in final if "seq" in event}
    return [
        f"event {event}"
        for event in acknowledged_events
        if "seq" in event and known.get((event["runId"], event["seq"])) != event
    ]


def _numbers(events: Events) -> dict[str, list[int]]:
    numbers: dict[str, list[int]] = {}
    for event in events:
        if "seq" in event:
            numbers.setdefault(event["runId"], []).append(event["seq"])
    return numbers


def _shape(events: Events) -> Counter[tuple[object, ...]]:
    """The events of a run without times, the order of parallel steps, the pieces of texts, and attempts."""
    kept = [event for event in events if event["kind"] not in ("message_delta", "node_retrying")]
    return Counter((event["kind"], event.get("nodeId"), str(event.get("content"))) for event in kept)
