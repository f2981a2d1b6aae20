"""Journals as files: how an execution is written down, and how it is folded again.

A file is JSON lines, each an object with one key that says what the line is:

| key | |
|---|---|
| `execution` | what ran: kind, resource, thread, and the structure of a workflow |
| `child` | a variation that an entry after the first pinned: kind, resource, variation, structure |
| `entry` | the text that the journal stored; `then` is the state it led to |
| `event` | an event, as clients received it, in order |
| `state` | the state after the last entry |
| `run` | the row of a turn |
"""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import msgspec

from wfcore.adapters.sql.journal.conversion import is_compacted, restored, to_entry
from wfcore.domain.run.effects import Effect
from wfcore.domain.run.entries import Entry, Forked, Pinned, Resumed, Retried, Started
from wfcore.domain.run.events import Event
from wfcore.domain.run.machine.machine import Machine
from wfcore.domain.run.machine.states.interrupts import interrupt_to_wire
from wfcore.domain.run.plan import Plan, action_plan, assistant_plan, compile_plan, skill_plan
from wfcore.runtime.execution.append import left_open, result_of
from wfcore.runtime.execution.plans import pinned_by

FOLDER = Path(__file__).with_name("journals")

Json = dict[str, Any]


@attrs.frozen
class Frozen:
    """The content of one file."""

    execution: Json
    children: list[Json]
    entries: list[str]
    thens: list[Json]
    events: list[Json]
    state: Json
    runs: list[Json]

    @classmethod
    def read(cls, path: Path) -> "Frozen":
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        of = {key: [line for line in lines if key in line] for key in ("child", "entry", "event", "run")}
        (execution,) = [line["execution"] for line in lines if "execution" in line]
        (state,) = [line["state"] for line in lines if "state" in line]
        return cls(
            execution,
            [line["child"] for line in of["child"]],
            [line["entry"] for line in of["entry"]],
            [line["then"] for line in of["entry"]],
            [line["event"] for line in of["event"]],
            state,
            [line["run"] for line in of["run"]],
        )

    def lines(self) -> Iterator[Json]:
        yield {"execution": self.execution}
        yield from ({"child": child} for child in self.children)
        yield from ({"entry": text, "then": then} for text, then in zip(self.entries, self.thens, strict=True))
        yield from ({"event": event} for event in self.events)
        yield {"state": self.state}
        yield from ({"run": run} for run in self.runs)

    def decoded(self) -> list[Entry]:
        """The entries as a journal in tables reads them: rows say a part of the first."""
        entries = [to_entry(text) for text in self.entries]
        if is_compacted(entries[0]):
            first = self.runs[0]
            about = [self.execution[key] for key in ("kind", "resourceId", "threadId")]
            entries[0] = restored(entries[0], [first["createdAt"], first["id"], *about])
        return entries


@attrs.frozen
class Folded:
    """What the entries lead to today, in the words of the file."""

    thens: list[Json]
    events: list[Json]
    state: Json
    runs: list[Json]


def fold(frozen: Frozen, between: Callable[[Machine, Plan], Machine] = lambda machine, _: machine) -> Folded:
    """Apply the entries one by one. `IllegalEntry` if one of them cannot follow those before it.

    `between` returns the machine that goes on after an entry; it gets the plan of the first one too.
    """
    entries = frozen.decoded()
    first = plan_of(frozen.execution, entries)
    machine = Machine(first, [], dict(children_of(frozen)))
    thens: list[Json] = []
    runs: list[Json] = []
    events: list[Event] = []
    known: set[str] = set()
    for entry in entries:
        if isinstance(entry, Resumed):
            runs[-1] |= {"resumedBy": entry.run_id, "result": plain(left_open(machine))}
        if isinstance(entry, Retried):
            runs[-1]["retriedBy"] = entry.run_id
        if isinstance(entry, Forked):  # what the entries before it led to is of the source
            runs, events = [], []
            machine.take_events()
        machine.apply(entry)
        if isinstance(entry, Started | Resumed | Retried | Forked):
            runs.append(new_row(runs, entry))
        update_row(runs[-1], machine)
        events += machine.take_events()
        thens.append(brief(machine, known))
        machine = between(machine, first)
    return Folded(*plain((thens, [event.to_wire() for event in events], state_of(machine), runs)))


def plan_of(execution: Json, entries: list[Entry]) -> Plan:
    match execution["kind"]:
        case "skill":
            return skill_plan(execution["resourceId"])
        case "assistant":
            return assistant_plan()
        case "action":
            first = entries[0]
            assert isinstance(first, Started)
            return action_plan(first.info["action"])
    return compile_plan(execution["structure"])


def children_of(frozen: Frozen) -> Iterator[tuple[tuple[str, int, str], Plan]]:
    for child in frozen.children:
        number = child["resourceId"]
        plan = skill_plan(number) if child["kind"] == "skill" else compile_plan(child["structure"])
        yield (child["kind"], number, child["variationId"]), plan


def pinned_in(entries: list[Entry]) -> list[Pinned]:
    """Each variation that was pinned after the start."""
    return list(dict.fromkeys(key for entry in entries if (key := pinned_by(entry)) is not None))


def new_row(runs: list[Json], entry: Started | Resumed | Retried | Forked) -> Json:
    parent = runs[-1]["id"] if runs else None
    return {"id": entry.run_id, "parentRunId": parent, "resumedBy": None, "createdAt": entry.at, "status": None}


def update_row(row: Json, machine: Machine) -> None:
    """A turn has finished when its status first says that it is not under way, and again when that changes."""
    if row["status"] != machine.status:
        row["finishedAt"] = None if machine.status.under_way else machine.at
    row["status"] = str(machine.status)
    row["result"] = None if machine.turn_open else plain(result_of(machine)) or None


def brief(machine: Machine, known: set[str]) -> Json:
    """What there is to do and to wait for, by name; an effect with all its fields when it is pending for the first
    time, after which it is `known`.
    """
    effects = {name_of(effect): effect for effect in machine.pending.values()}
    new = [effect_fields(effect) for name, effect in effects.items() if name not in known]
    known.update(effects)
    return {
        "status": str(machine.status),
        "pending": sorted(effects),
        "new": new,
        "interrupts": sorted(one.id for one in machine.interrupts.values()),
        "due": machine.next_due(),
    }


def state_of(machine: Machine) -> Json:
    """All that a driver reads of the machine."""
    return {
        "status": str(machine.status),
        "runId": machine.run_id,
        "turnOpen": machine.turn_open,
        "entries": machine.length,
        "events": machine.seq,
        "at": machine.at,
        "due": machine.next_due(),
        "output": machine.output,
        "error": machine.error,
        "usage": machine.usage,
        "pending": sorted(map(name_of, machine.pending.values())),
        "interrupts": [interrupt_to_wire(one) for one in machine.interrupts.values()],
    }


def name_of(effect: Effect) -> str:
    return f"{type(effect).__name__} {effect.key} #{effect.attempt}"


def effect_fields(effect: Effect) -> Mapping[str, Any]:
    """The fields of an effect that are not left at their defaults: a release may add one."""
    fields = msgspec.structs.fields(type(effect))
    return {f.name: getattr(effect, f.name) for f in fields if f.required or getattr(effect, f.name) != default_of(f)}


def default_of(field: Any) -> Any:
    return field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default


def plain(value: Any) -> Any:
    """The value as it is read from a file."""
    return json.loads(msgspec.json.encode(value))
