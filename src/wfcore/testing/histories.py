"""Journals made by hand: a workflow driven through its outcomes, without a world and without a clock.

    graph = sketch("s -> fetch", "fetch -> review", review={"type": "humanApproval"})
    history = History(graph, {"order": 7})
    history.succeed("fetch", {"total": 3}).decide("review", "approve")
    assert history.machine.status == "done"
    journal = [encode_entry(entry) for entry in history.entries]

Nodes are named by their ids, those of children by all ids from the root on, as in `call/fetch`; what may be opened is
given as `children`, by id. The clock stands still but for `pass_time`; every new turn is named `run-2`,
`run-3`, ...
"""

import re
from collections.abc import Mapping
from typing import Any, Self

from wfcore.domain.kernel.json_readers import as_text, as_texts
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.effects import Effect, OpenChild
from wfcore.domain.run.entries import (
    Actor,
    Cancelled,
    Decision,
    Entry,
    Failed,
    Forked,
    Limits,
    Moved,
    Opened,
    Paused,
    Progressed,
    Resumed,
    Retried,
    Said,
    Sent,
    Started,
    Succeeded,
    TimePassed,
)
from wfcore.domain.run.events import Event
from wfcore.domain.run.machine.machine import Machine
from wfcore.domain.run.plan import Plan, compile_plan
from wfcore.domain.run.recording import node_path
from wfcore.domain.run.records import Record
from wfcore.domain.run.state import Interrupt

ANN = Actor("ann", "ann@example.org")
BEGIN = 1_800_000_000_000
"""When a history begins, in epoch milliseconds."""


def sketch(*edges: str, **data: Mapping[str, Any]) -> dict[str, JSON]:
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
        structure: Mapping[str, JSON] | Plan,
        given: JSON = None,
        *,
        by: Actor = ANN,
        limits: Limits | None = None,
        info: dict[str, JSON] | None = None,
        children: Mapping[int, Mapping[str, JSON] | Plan] | None = None,
    ) -> None:
        plans = {
            (kind, number, "v"): child if isinstance(child, Plan) else compile_plan(child)
            for number, child in (children or {}).items()
            for kind in ("workflow", "skill")
        }
        root = structure if isinstance(structure, Plan) else compile_plan(structure)
        self.started_plan = root
        self.machine = Machine(root, [], plans)
        self.records: list[Record] = []
        self.entries: list[Entry] = []
        self.events: list[Event] = []
        self.at = BEGIN
        self._turn = 1
        self.apply(Started(BEGIN, "run-1", by, given, info or {}, limits or Limits()))

    def apply(self, entry: Entry) -> Self:
        """Append an entry of any kind."""
        self.machine.apply(entry)
        self.entries.append(entry)
        self.events += self.machine.take_events()
        self.records += self.machine.take_records()
        return self

    def pending(self, node: str) -> list[Effect]:
        """The pending effects of a node, by step."""
        found = [effect for effect in self.machine.pending.values() if self._name(effect) == node]
        return sorted(found, key=lambda effect: effect.address)

    def effect(self, node: str, step: int | None = None) -> Effect:
        """The pending effect of a node: that of a step, of a `forEach` that of an item, from 0; else the first."""
        return next(effect for effect in self.pending(node) if step in (None, effect.address[-1]))

    def waiting(self, node: str) -> Interrupt:
        """The open interrupt of a node, the oldest if there are several."""
        return next(i for i in self.machine.interrupts.values() if "/".join((*i.path, i.node_id)) == node)

    def succeed(
        self, node: str, output: JSON = None, step: int | None = None, usage: dict[str, JSON] | None = None
    ) -> Self:
        """The effect of a node had this result."""
        effect = self.effect(node, step)
        return self.apply(Succeeded(self.at, *place(effect), output, usage, effect.address[:-3]))

    def open(self, node: str, given: JSON = None, message: str | None = None, step: int | None = None) -> Self:
        """The child that a node requests was opened."""
        effect = self.effect(node, step)
        assert isinstance(effect, OpenChild)
        what = effect.kind, effect.resource_id, "v"
        return self.apply(Opened(self.at, *place(effect), *what, given, message, effect.address[:-3]))

    def send(self, node: str, step: int | None = None) -> Self:
        """The tool that a node calls is about to be called."""
        effect = self.effect(node, step)
        return self.apply(Sent(self.at, *place(effect), effect.address[:-3]))

    def fail(
        self,
        node: str,
        message: str = "broken",
        step: int | None = None,
        *,
        reason: str = "failed",
        retryable: bool = True,
        info: dict[str, JSON] | None = None,
    ) -> Self:
        """One attempt of the effect of a node failed."""
        effect = self.effect(node, step)
        within = effect.address[:-3]
        return self.apply(Failed(self.at, *place(effect), message, reason, retryable, within, info))

    def say(self, node: str, text: str) -> Self:
        """The model that a node called streamed some text."""
        effect = self.effect(node)
        return self.apply(Said(self.at, *place(effect), text, effect.address[:-3]))

    def progress(self, node: str, progress: float, *, total: float | None = None, step: int | None = None) -> Self:
        """The tool that a node called reported how far its call is."""
        effect = self.effect(node, step)
        return self.apply(Progressed(self.at, *place(effect), progress, total, "", effect.address[:-3]))

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
        """Somebody paused the run."""
        return self.apply(Paused(self.at, by))

    def retry(
        self,
        structure: Mapping[str, JSON] | None = None,
        *,
        by: Actor = ANN,
        again: tuple[str, ...] = (),
        outputs: dict[str, JSON] | None = None,
        skip: tuple[str, ...] = (),
    ) -> Self:
        """Somebody retried the run, on another graph if one is given."""
        pinned = self._pinned(structure)
        entry = Retried(self.at, f"run-{self._turn + 1}", by, pinned, pinned is not None, again, outputs or {}, skip)
        self.apply(entry)
        self._turn += 1
        return self

    def move(self, structure: Mapping[str, JSON], by: Actor = ANN) -> Self:
        """Somebody moved the run, which is parked, to another graph."""
        pinned = self._pinned(structure)
        assert pinned is not None
        return self.apply(Moved(self.at, by, pinned))

    def fork(
        self, *before: str, structure: Mapping[str, JSON] | None = None, given: tuple[JSON, ...] = (), by: Actor = ANN
    ) -> "History":
        """Somebody forked the run before these nodes: the history of the new execution."""
        twin = History(self.machine.plan, given=None, by=by)
        twin.machine = Machine(self.started_plan, [], self.machine.plans)
        twin.entries, twin.events, twin.records, twin.at = [], [], [], self.at
        for entry in self.entries:
            twin.apply(entry)
        pinned = twin._pinned(structure)
        twin.events = []
        return twin.apply(Forked(self.at, "fork-1", by, "fork-key", before, pinned, input=given))

    def _pinned(self, structure: Mapping[str, JSON] | None) -> tuple[str, int, str] | None:
        if structure is None:
            return None
        key = "workflow", 0, f"v{len(self.machine.plans)}"
        self.machine.plans = {**self.machine.plans, key: compile_plan(structure)}
        return key

    def cancel(self, by: Actor = ANN) -> Self:
        """Somebody cancelled the run."""
        return self.apply(Cancelled(self.at, by))

    def kinds(self, node: str | None = None) -> list[str]:
        """The kinds of the events so far, in order; of one node where it is named."""
        return [str(event.kind) for event in self.events if node in (None, _node_of(event))]

    def _name(self, effect: Effect) -> str:
        return node_path(self.machine, effect.address)


def place(effect: Effect) -> tuple[int, int, int, int]:
    """Node, visit, step and attempt, as entries name them beside `within`."""
    node, visit, step = effect.address[-3:]
    return node, visit, step, effect.attempt


def _node_of(event: Event) -> str | None:
    node = event.data.get("nodeId")
    return None if node is None else "/".join((*as_texts(event.data.get("path", ())), as_text(node)))
