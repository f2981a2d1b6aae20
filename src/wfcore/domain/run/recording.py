"""A recorded run: its journal, and what each entry led to. A replay finds the first difference.

A recording is replayed with this release, and with another structure of its workflow. It is stored as JSON lines, each
an object with one key:

| key | |
|---|---|
| `recording` | the version of the format |
| `execution` | what ran: kind and resource, the case of an evaluation or the action, and the structure of a workflow |
| `child` | a variation that was pinned after the start: kind, resource, variation, structure |
| `entry` | an entry as the journal stores it, with what it led to in `then`, if that was recorded |
| `turn` | how a turn ended: its run id, status, output and error |
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Self

import attrs
import msgspec

from wfcore.domain.json.differences import first_difference
from wfcore.domain.kernel.errors import Malformed
from wfcore.domain.kernel.json_readers import as_object, as_text, as_texts
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.effects import Address, CallModel, CallTool, ComposeContext, Effect, OpenChild
from wfcore.domain.run.entries import TAGS, Entry, Forked, Outcome, Pinned, Resumed, Retried, Started
from wfcore.domain.run.machine.machine import Machine
from wfcore.domain.run.machine.states.interrupts import interrupt_to_wire
from wfcore.domain.run.plan import (
    Plan,
    action_plan,
    assistant_plan,
    compile_plan,
    evaluation_plan,
    skill_plan,
)
from wfcore.domain.run.state import IllegalEntry, Interrupt
from wfcore.domain.run.versions import decode_stored

VERSION: Final = 1

_WORDS: Final = {
    CallTool: "call of a tool",
    CallModel: "call of a model",
    OpenChild: "child",
    ComposeContext: "context",
}
_OWN: Final = frozenset({"address", "attempt", "key", "state", "carried", "frame", "broken_off"})
"""Fields of an effect that say where it belongs and how far it is, and not what it does."""
_IDS: Final = frozenset({"interruptId", "createdAt", "url"})

Mark = Mapping[str, JSON]
"""What an entry led to: `status`, `pending` effects by name, the content of `new` ones, `waits` by name, `due`."""


@attrs.frozen
class ReplayDifference:
    """The first difference of a replay: after how many entries, the last of them in words, and what differs."""

    after: int
    entry: str
    message: str

    def __str__(self) -> str:
        return f"after entry {self.after} ({self.entry}): {self.message}" if self.entry else self.message


@attrs.frozen
class Recording:
    """A recorded run. `execution` has `kind`, `resourceId`, `structure` (of a workflow), `case` and `action`.

    `marks` are what its entries led to when it was recorded, one for each; None for a journal alone. `turns` are
    `{"runId", "status", "output", "error"}` as the store had them.
    """

    execution: Mapping[str, JSON]
    children: Sequence[Mapping[str, JSON]]
    entries: Sequence[str]
    turns: Sequence[Mapping[str, JSON]]
    marks: Sequence[Mark] | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """The recording of a file. Malformed for a text that is not one, or is one of another version."""
        try:
            lines = [as_object(json.loads(line)) for line in text.splitlines() if line]
            version = [line["recording"] for line in lines if "recording" in line]
            if version != [VERSION]:
                raise Malformed(f"a recording of version `{VERSION}` begins with " + '`{"recording": 1}`')
            (execution,) = [as_object(line["execution"]) for line in lines if "execution" in line]
            entries = [line for line in lines if "entry" in line]
            marks = [as_object(line["then"]) for line in entries if "then" in line]
            return cls(
                execution,
                [as_object(line["child"]) for line in lines if "child" in line],
                [as_text(line["entry"]) for line in entries],
                [as_object(line["turn"]) for line in lines if "turn" in line],
                marks if len(marks) == len(entries) else None,
            )
        except (ValueError, TypeError) as error:
            raise Malformed(f"the text is not a recording: {error}") from None

    def lines(self) -> Iterator[str]:
        """The lines of a file, without their ends."""
        yield _line({"recording": VERSION})
        yield _line({"execution": self.execution})
        for child in self.children:
            yield _line({"child": child})
        for index, entry in enumerate(self.entries):
            yield _line({"entry": entry} if self.marks is None else {"entry": entry, "then": self.marks[index]})
        for turn in self.turns:
            yield _line({"turn": turn})

    def marked(self) -> Self:
        """The recording with what its entries lead to in this release. `IllegalEntry` if one cannot be applied."""
        replay = _Replay(self._plan(self._entries()), self._children())
        return attrs.evolve(self, marks=[replay.apply(entry) for entry in self._entries()])

    def difference(self, structure: Mapping[str, JSON] | None = None) -> ReplayDifference | None:
        """The first difference of a replay with this release; with a structure, of a replay of it instead of the
        recorded one. None if there is none. ValueError for a structure for what is not a run of a workflow.
        """
        if structure is None:
            return self._replayed()
        if self.execution["kind"] != "workflow":
            raise ValueError("only a run of a workflow can be replayed with another structure")
        return self._compared(compile_plan(structure))

    def _replayed(self) -> ReplayDifference | None:
        entries = self._entries()
        replay = _Replay(self._plan(entries), self._children())
        for number, entry in enumerate(entries):
            words = _entry_in_words(entry, replay.machine)
            try:
                mark = replay.apply(entry)
            except IllegalEntry as error:
                return _impossible(number, words, error)
            found = None if self.marks is None else _difference(mark, self.marks[number])
            if found is not None:
                return ReplayDifference(number + 1, words, found)
        return _turn_difference(replay.ended_turns(), self.turns)

    def _compared(self, plan: Plan) -> ReplayDifference | None:
        """Replay the journal with both plans, side by side, up to the first difference."""
        entries = self._entries()
        before, now = _Replay(self._plan(entries), self._children()), _Replay(plan, self._children())
        for number, entry in enumerate(entries):
            if isinstance(entry, Retried | Forked) and entry.pinned is not None:
                raise ValueError("a run whose retry or fork chose another variation has no single structure to replace")
            words = _entry_in_words(entry, before.machine)
            moved = _moved(entry, before.machine, now.machine)
            try:
                expected, mark = before.apply(entry), now.apply(moved)
            except IllegalEntry as error:
                return _impossible(number, words, error)
            found = _difference(mark, expected)
            if found is not None:
                return ReplayDifference(number + 1, words, found)
        return _turn_difference(now.ended_turns(), before.ended_turns())

    def _entries(self) -> list[Entry]:
        return [decode_stored(text) for text in self.entries]

    def _plan(self, entries: Iterable[Entry]) -> Plan:
        number = int(str(self.execution["resourceId"] or 0))
        match self.execution["kind"]:
            case "skill" if self.execution.get("case") is not None:
                return evaluation_plan(number, as_object(self.execution["case"]))
            case "skill":
                return skill_plan(number)
            case "assistant":
                return assistant_plan()
            case "action":
                return action_plan(next(as_object(one.info["action"]) for one in entries if isinstance(one, Started)))
        return compile_plan(as_object(self.execution["structure"]))

    def _children(self) -> dict[Pinned, Plan]:
        found: dict[Pinned, Plan] = {}
        for child in self.children:
            kind, number = as_text(child["kind"]), int(str(child["resourceId"]))
            plan = skill_plan(number) if kind == "skill" else compile_plan(as_object(child["structure"]))
            found[kind, number, as_text(child["variationId"])] = plan
        return found


class _Replay:
    """A machine with marks of what each entry leads to, and the ends of its turns."""

    def __init__(self, plan: Plan, plans: Mapping[Pinned, Plan]) -> None:
        self.machine = Machine(plan, None, plans)
        self._known: set[str] = set()
        self._turns: list[dict[str, JSON]] = []

    def apply(self, entry: Entry) -> Mark:
        machine = self.machine
        if isinstance(entry, Forked):  # the turns before it are of the run that was forked
            self._turns = []
        elif isinstance(entry, Resumed | Retried):
            self._turns.append(_turn(machine))
        machine.apply(entry)
        machine.take_records()
        pending = {name_of(machine, effect): effect for effect in machine.pending.values()}
        new = {name: _content(effect) for name, effect in pending.items() if name not in self._known}
        self._known.update(pending)
        waits = {_wait_name(one): _wait(one) for one in machine.interrupts.values()}
        return as_object(_plain({
            "status": machine.status, "pending": sorted(pending), "new": new, "waits": waits,
            "due": machine.next_due(),
        }))  # fmt: skip

    def ended_turns(self) -> list[dict[str, JSON]]:
        """The turns so far, the last one as it is."""
        return [*self._turns, _turn(self.machine)]


def node_path(machine: Machine, address: Address) -> str:
    """The nodes from the root to that of an effect, as `call/fetch`."""
    plan, names, inside = machine.plan, list[str](), machine.root.children
    for end in range(3, len(address), 4):
        names.append(plan.nodes[address[end - 3]].id)
        child = inside[address[:end]]
        plan, inside = child.plan, child.children
    return "/".join([*names, plan.nodes[address[-3]].id])


def name_of(machine: Machine, effect: Effect) -> str:
    """An effect in words that are the same for every structure with its node."""
    _, visit, step = effect.address[-3:]
    path = node_path(machine, effect.address)
    return f"{_WORDS[type(effect)]} of `{path}` (visit {visit}, step {step}, attempt {effect.attempt})"


def _content(effect: Effect) -> JSON:
    fields = msgspec.structs.asdict(effect)
    return _plain({name: value for name, value in fields.items() if name not in _OWN})


def _wait_name(interrupt: Interrupt) -> str:
    path = "/".join((*interrupt.path, interrupt.node_id))
    call = f", call {interrupt.tool_call_id}" if interrupt.tool_call_id else ""
    items = "".join(f", item {item}" for item in interrupt.items if item is not None)
    return f"{interrupt.type} of `{path}` (visit {interrupt.visit}, step {interrupt.step}{items}{call})"


def _wait(interrupt: Interrupt) -> Mapping[str, JSON]:
    wire = {name: value for name, value in interrupt_to_wire(interrupt).items() if name not in _IDS}
    people: dict[str, JSON] = {"emails": list(interrupt.emails), "groups": list(interrupt.groups)}
    return {**wire, "approvers": people, "allowSelfApproval": interrupt.allow_self}


def _turn(machine: Machine) -> dict[str, JSON]:
    turn = {"runId": machine.run_id, "status": machine.status, "output": machine.output, "error": machine.error}
    return dict(as_object(_plain(turn)))


# Differences


def _impossible(number: int, words: str, error: IllegalEntry) -> ReplayDifference:
    return ReplayDifference(number, words, f"this entry cannot follow any more: {error}")


def _difference(now: Mark, before: Mark) -> str | None:
    """What differs between two marks, the most informative first."""
    pending, recorded = as_texts(now["pending"]), as_texts(before["pending"])
    for name in recorded:
        if name not in pending:
            return f"the {name} is not requested any more"
    for name in pending:
        if name not in recorded:
            return f"the {name} is requested in addition"
    for name, content in as_object(now["new"]).items():
        difference = first_difference(content, as_object(before["new"]).get(name))
        if difference is not None:
            return f"the {name}: {difference}"
    return _wait_difference(as_object(now["waits"]), as_object(before["waits"])) or _rest_difference(now, before)


def _wait_difference(now: Mapping[str, JSON], before: Mapping[str, JSON]) -> str | None:
    for name in dict.fromkeys([*before, *now]):
        if name not in now:
            return f"the {name} is not open any more"
        if name not in before:
            return f"the {name} is open in addition"
        difference = first_difference(now[name], before[name])
        if difference is not None:
            return f"the {name}: {difference}"
    return None


def _rest_difference(now: Mark, before: Mark) -> str | None:
    for key in ("status", "due"):
        difference = first_difference(now[key], before[key], key)
        if difference is not None:
            return str(difference)
    return None


def _turn_difference(
    now: Sequence[Mapping[str, JSON]], before: Sequence[Mapping[str, JSON]]
) -> ReplayDifference | None:
    """What differs in the ends of the turns. One that was under way has no end yet."""
    for turn, recorded in zip(now, before, strict=False):
        if recorded["status"] not in ("queued", "running"):
            difference = first_difference(turn, recorded)
            if difference is not None:
                return ReplayDifference(0, "", f"the end of run `{as_text(recorded['runId'])}`: {difference}")
    if len(now) != len(before):
        return ReplayDifference(0, "", f"the journal has {len(now)} turns, recorded {len(before)}")
    return None


# An entry in another structure


def _moved(entry: Entry, before: Machine, now: Machine) -> Entry:
    """The entry with the position that its node has now, and the ids that interrupts have now."""
    if isinstance(entry, Resumed):
        names = {_wait_name(one): one.id for one in now.interrupts.values()}
        recorded = {one.id: names.get(_wait_name(one), one.id) for one in before.interrupts.values()}
        decisions = [
            msgspec.structs.replace(one, interrupt_id=recorded.get(one.interrupt_id, one.interrupt_id))
            for one in entry.decisions
        ]
        behalf = {recorded.get(name, name): user for name, user in entry.on_behalf_of.items()}
        return msgspec.structs.replace(entry, decisions=tuple(decisions), on_behalf_of=behalf)
    if not isinstance(entry, Outcome):
        return entry
    # INVARIANT: both machines have the same effects pending, so the node of an outcome is in both structures.
    name = before.plan.nodes[(*entry.within, entry.node)[0]].id
    place = next(node.index for node in now.plan.nodes if node.id == name)
    if entry.within:
        return msgspec.structs.replace(entry, within=(place, *entry.within[1:]))
    return msgspec.structs.replace(entry, node=place)


def _entry_in_words(entry: Entry, machine: Machine) -> str:
    tag = TAGS[type(entry)]
    if isinstance(entry, Outcome):
        effect = machine.pending.get((*entry.within, entry.node, entry.visit, entry.step))
        if effect is not None:
            return f"`{tag}` of `{node_path(machine, effect.address)}`"
    return f"`{tag}`"


def _plain(value: object) -> JSON:
    plain: JSON = json.loads(msgspec.json.encode(value))
    return plain


def _line(value: Mapping[str, JSON]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
