"""Journals made by hand: a workflow driven through its outcomes, without a world and without a clock.

    graph = sketch("s -> fetch", "fetch -> review", review={"type": "humanApproval"})
    history = History(graph, {"order": 7})
    history.succeed("fetch", {"total": 3}).decide("review", "approve")
    assert history.machine.status == "done"
    journal = [encode_entry(entry) for entry in history.entries]

Nodes are named by their ids. The clock stands still but for `pass_time`; every new turn is named `run-2`,
`run-3`, ...
"""

import re
from collections.abc import Mapping
from typing import Self

from wfcore.domain.errors import JSON
from wfcore.domain.run.effects import Effect
from wfcore.domain.run.entries import (
    Actor,
    Cancelled,
    Decision,
    Entry,
    Failed,
    Limits,
    Paused,
    Resumed,
    Said,
    Started,
    Succeeded,
    TimePassed,
)
from wfcore.domain.run.events import Event
from wfcore.domain.run.machine import Machine
from wfcore.domain.run.plan import compile_plan
from wfcore.domain.run.state import Interrupt

ANN = Actor("ann", "ann@example.org")
BEGIN = 1_800_000_000_000
"""When a history begins, in epoch milliseconds."""


def sketch(*edges: str, **data: Mapping[str, JSON]) -> dict[str, JSON]:
    """A `workflowStructure` in few words: edges as `a -> b` or, by a handle, `a -error-> b`; node data by
    node id.

    The first node named is the start. The others are actions that call the tool `tool`, unless their data
    says otherwise, by `type` for the type of the node.
    """
    ends = [_EDGE.fullmatch(edge) for edge in edges]
    found = [end.groups() for end in ends if end]
    if len(found) != len(edges):
        raise ValueError("an edge is written `a -> b` or `a -handle-> b`")
    names = dict.fromkeys(name for source, _, target in found for name in (source, target))
    nodes = [_sketched(name, position, data.get(name, {})) for position, name in enumerate(names)]
    return {
        "nodes": nodes,
        "edges": [
            {"id": f"edge {count}", "source": source, "target": target} | ({"sourceHandle": handle} if handle else {})
            for count, (source, handle, target) in enumerate(found, 1)
        ],
    }


_EDGE = re.compile(r"(\S+) -(\S*?)-?> (\S+)", re.ASCII)


def _sketched(name: str, position: int, data: Mapping[str, JSON]) -> dict[str, JSON]:
    kind = data.get("type", "action" if position else "start")
    rest = {key: value for key, value in data.items() if key != "type"}
    return {"id": name, "type": kind, "data": {"toolId": "tool", **rest} if kind == "action" else rest}


class History:
    """One execution: `entries` is its journal so far, `events` what its streams showed, `machine` where it
    stands.

    Every method lets one thing happen and gives the history back; `IllegalEntry` if it cannot happen now.
    """

    def __init__(
        self,
        structure: Mapping[str, JSON],
        given: JSON = None,
        *,
        by: Actor = ANN,
        limits: Limits | None = None,
        info: dict[str, JSON] | None = None,
    ) -> None:
        self.machine = Machine(compile_plan(structure), [])
        self.entries: list[Entry] = []
        self.events: list[Event] = []
        self.at = BEGIN
        self._turn = 1
        self._position = {node.id: node.index for node in self.machine.plan.nodes}
        self.apply(Started(BEGIN, "run-1", by, given, info or {}, limits or Limits()))

    def apply(self, entry: Entry) -> Self:
        """Append an entry of any kind."""
        self.machine.apply(entry)
        self.entries.append(entry)
        self.events += self.machine.take_events()
        return self

    def effect(self, node: str, step: int = 0) -> Effect:
        """The pending effect of a node; of a `forEach` the one for the item `step`, from 0."""
        position = self._position[node]
        return self.machine.pending[position, self.machine.visits[position], step]

    def waiting(self, node: str) -> Interrupt:
        """The open interrupt of a node."""
        return next(i for i in self.machine.interrupts.values() if i.node_id == node)

    def succeed(self, node: str, output: JSON = None, step: int = 0, usage: dict[str, JSON] | None = None) -> Self:
        """The effect of a node had this result."""
        effect = self.effect(node, step)
        return self.apply(Succeeded(self.at, *effect.address, effect.attempt, output, usage))

    def fail(
        self,
        node: str,
        message: str = "broken",
        step: int = 0,
        *,
        reason: str = "failed",
        retryable: bool = True,
    ) -> Self:
        """One attempt of the effect of a node failed."""
        effect = self.effect(node, step)
        return self.apply(Failed(self.at, *effect.address, effect.attempt, message, reason, retryable))

    def say(self, node: str, text: str) -> Self:
        """The model that a node called streamed some text."""
        effect = self.effect(node)
        return self.apply(Said(self.at, *effect.address, effect.attempt, text))

    def decide(self, node: str, decision: str = "approve", by: Actor = ANN, data: JSON = None) -> Self:
        """Somebody answered the open interrupt of a node, in a new turn."""
        return self.resume(Decision(self.waiting(node).id, decision, data), by=by)

    def resume(self, *decisions: Decision, by: Actor | None = ANN) -> Self:
        """A new turn took over, with all these answers or with none; `by=None` when the system made it."""
        entry = Resumed(self.at, f"run-{self._turn + 1}", by, decisions)
        self.apply(entry)
        self._turn += 1
        return self

    def pass_time(self, seconds: float) -> Self:
        """The clock moved on. A parked run is resumed by the system, as a deadline would do it."""
        self.at += int(seconds * 1000)
        return self.apply(TimePassed(self.at)) if self.machine.turn_open else self.resume(by=None)

    def pause(self, by: Actor = ANN) -> Self:
        """Somebody asked the run to park."""
        return self.apply(Paused(self.at, by))

    def cancel(self, by: Actor = ANN) -> Self:
        """Somebody cancelled the run."""
        return self.apply(Cancelled(self.at, by))

    def kinds(self, node: str | None = None) -> list[str]:
        """The kinds of the events so far, in order; of one node where it is named."""
        return [str(event.kind) for event in self.events if node in (None, event.data.get("nodeId"))]
