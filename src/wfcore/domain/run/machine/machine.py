"""The interpreter: entries in, effects and events out. Deterministic, and the only place where a run's
meaning lives.

A `Machine` is changed in place and has one owner. `apply` takes the next entry of the journal; an entry that
cannot happen in this state raises `IllegalEntry` before anything has moved. What has to be done next is read
off the state: `pending` (effects), `interrupts` (waits for a person), `next_due` (timers). Recovery after a
crash is therefore nothing but applying the journal again. Conditions, joins, templates and the tools
`core.transform`, `core.fail` and `core.wait` are decided in here, without an effect and without a write of
their own.

The machine is the root frame, and knows the frames inside it by the addresses that entries name.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, cast

import attrs

from wfcore.domain.expressions.expression import MAX_STEPS, EvaluationBudget
from wfcore.domain.json.codec import iso_ms
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run import entries as e
from wfcore.domain.run.effects import Address, CallModel, CallTool, Effect, OpenChild
from wfcore.domain.run.events import Event, EventKind
from wfcore.domain.run.machine.agents import Agents
from wfcore.domain.run.machine.execution import Frame
from wfcore.domain.run.machine.frames import Child
from wfcore.domain.run.machine.interrupts import ANSWERS, verdict
from wfcore.domain.run.machine.nodes import asks_somebody, is_broken_off
from wfcore.domain.run.plan import Plan
from wfcore.domain.run.records import Record
from wfcore.domain.run.state import RUN_MOVES, IllegalEntry, RunStatus, Vote

Plans = Mapping[tuple[str, int, str], Plan]
"""The plans of children, by kind, id and variation of what was opened."""

NO_PLANS: Plans = {}


class Machine(Agents):
    """One execution in memory. `sink` collects events while it is a list; with None they are only counted. `plans`
    holds those of children: that of an `Opened` has to be there when the entry is applied.
    """

    __slots__ = ("plans",)

    def __init__(self, plan: Plan, sink: list[Event] | None = None, plans: Plans = NO_PLANS) -> None:
        super().__init__(plan)
        self.plans = plans
        self.sink = sink
        self.steps = EvaluationBudget()
        self.visited = self.skipped = 0
        self.asked = {}
        self.info: dict[str, JSON] = {}
        self.status = RunStatus.queued
        self.ended = False
        self.turn_open = False
        self.paused = False
        self.length = self.seq = self.at = self.turn_began = 0
        self.root = self.run_id = ""
        self.limits = e.Limits()
        self.starter = e.Actor("")
        self.output: JSON = None
        self.error: dict[str, JSON] | None = None
        self.usage: dict[str, float] = {}
        self.records: list[Record] = []

    def copy(self) -> "Machine":
        """An independent twin without the events and records."""
        twin = Machine(self.plan, None, self.plans)
        for name in set(Frame.__slots__) - {*Frame.OWN, "children", "sink", "records", "steps"}:
            value = getattr(self, name)
            setattr(twin, name, value.copy() if isinstance(value, dict) else value)
        twin._become(self)
        for child in self._frames():
            child.copy(twin, twin._frame(child.outer.within))
        return twin

    # Frames

    def _frame(self, within: Address) -> Agents:
        """The frame of this name, which has to be there."""
        frame: Agents = self
        for end in range(4, len(within) + 1, 4):
            frame = cast("Child", frame.children[within[: end - 1]])
        return frame

    def _frames(self) -> list[Child]:
        """All children under way, each after the one around it."""
        found = cast("list[Child]", list(self.children.values()))
        for frame in found:
            found += cast("list[Child]", list(frame.children.values()))
        return found

    def _go_on(self, frame: Agents) -> None:
        """Let everything happen that follows from what happened in this frame."""
        frame.run()
        if self.paused or not self.pending:
            self._rest()

    def _rest(self) -> None:
        """Park or finish when nothing can go on by itself."""
        if self.ended or not self._at_rest():
            return
        held = self.flow.ready or self.pending or self.timers or self.batches or self.talks
        if self.interrupts or (self.paused and held):
            self._park()
            self._move("park")
        else:
            self.output = self._collect()
            self._close("finish", EventKind.done, {"status": "done", "output": self.output})

    def _at_rest(self) -> bool:
        """Whether nothing can go on by itself; a paused run does not count what is not due yet."""
        if self.paused:
            return all(effect.not_before > self.at for effect in self.pending.values())
        return not self.pending and all(map(self._bounds_child, self.timers))

    def _bounds_child(self, address: Address) -> bool:
        """Whether this timer is no work but the deadline of a child."""
        return address in self._frame(address[:-3]).children

    # What to do next, read off the state

    def next_due(self) -> int | None:
        """Epoch milliseconds of the next moment at which time alone changes something; None: never."""
        bound = self._out_of_time() if self.turn_open else None
        if self.paused or not (self.timers or self.interrupts):
            return bound
        return min([*self._deadlines(), *([] if bound is None else [bound])], default=None)

    def _deadlines(self) -> list[int]:
        return [*self.timers.values(), *(i.expires_at for i in self.interrupts.values() if i.expires_at)]

    def _out_of_time(self) -> int:
        return self.turn_began + int(self.limits.max_run_seconds * 1000)

    def ends_run(self, entry: e.Failed) -> bool:
        """Whether this failure would end the whole run: siblings in flight are to be stopped before it is
        recorded.
        """
        effect = self.pending.get((*entry.within, entry.node, entry.visit, entry.step))
        if effect is None or asks_somebody(effect, entry.reason, entry.info) or is_broken_off(effect, entry.reason):
            return False
        return self._frame(entry.within).is_fatal(effect, entry.retryable)

    def take_events(self) -> list[Event]:
        """The events since the last call; empty when none are collected."""
        found = self.sink or []
        if self.sink is not None:
            self.sink = []
        return found

    def take_records(self) -> list[Record]:
        """What the entries since the last call leave behind beside the journal."""
        found, self.records = self.records, []
        return found

    # Entries

    def apply(self, entry: e.Entry) -> None:
        """Let this have happened. `IllegalEntry` if it cannot; the machine is then as it was."""
        self.steps.left = MAX_STEPS
        self._HANDLERS[type(entry)](self, entry)
        self.length += 1

    def _started(self, entry: e.Started) -> None:
        if self.length:
            raise IllegalEntry("the execution has begun before")
        self.at = self.turn_began = entry.at
        self.root = self.run_id = entry.run_id
        self.prefix, self.label = f"{entry.key or entry.run_id}:", f"{entry.run_id}:"
        self.starter, self.limits = entry.by, entry.limits
        self.info = {"id": entry.run_id, "userId": entry.by.user_id, "startedAt": iso_ms(entry.at), **entry.info}
        self.scope = {"input": entry.input, "nodes": self.nodes, "run": self.info}
        self._move("start")
        self.turn_open = True
        self.emit(EventKind.run_started, {"target": entry.info.get("target")})
        if entry.refusal:
            self._end_in_error(entry.refusal, {"reason": "refused"})
            return
        self.flow.begin()
        self._go_on(self)

    def _resumed(self, entry: e.Resumed) -> None:
        if "turn" not in RUN_MOVES[self.status]:
            raise IllegalEntry(f"the run has ended as `{self.status}`", "not_interrupted", status=str(self.status))
        for decision in entry.decisions:
            self._check_decision(entry, decision)
        if not entry.decisions:
            self._check_plain_resume(entry)
        self.at = entry.at
        if self.turn_open:
            self._park()
        parent = self.run_id
        if entry.info:
            self.info = {**self.info, **entry.info}
            for frame in (self, *self._frames()):
                frame.scope = {**frame.scope, "run": self.info}
                frame.narrow()
        self._move("turn")
        self.run_id, self.seq, self.turn_began = entry.run_id, 0, entry.at
        self.turn_open, self.paused = True, False
        self.emit(EventKind.run_started, {"target": self.info.get("target"), "parentRunId": parent})
        if entry.info and entry.info.get("message"):
            self.hear(entry.info)
        for decision in entry.decisions:
            self._decided(entry, decision)
        self._go_off()
        for frame in (*reversed(self._frames()), self):
            frame.take_up()
            frame.run()
        self._rest()

    def _check_plain_resume(self, entry: e.Resumed) -> None:
        """Without a decision a run goes on if it was parked by hand, or if the system saw a deadline pass."""
        if self.turn_open:
            raise IllegalEntry("the run is not interrupted", "not_interrupted")
        if self.paused:
            return
        if entry.by is not None:
            raise IllegalEntry("the run waits for a decision", "decision_required")
        if all(due > entry.at for due in self._deadlines()):
            raise IllegalEntry("no deadline has passed", "not_due")

    def _check_decision(self, entry: e.Resumed, decision: e.Decision) -> None:
        waiting = self.interrupts.get(decision.interrupt_id)
        if waiting is None or entry.by is None:
            raise IllegalEntry(f"interrupt `{decision.interrupt_id}` is not open", "already_resumed")
        if decision.decision not in ANSWERS[waiting.type]:
            raise IllegalEntry(f"`{decision.decision}` is no answer to this interrupt", "wrong_decision")
        if waiting.expires_at is not None and entry.at >= waiting.expires_at:
            raise IllegalEntry(f"interrupt `{waiting.id}` has expired", "expired")
        if any(answer.by.user_id == entry.by.user_id for answer in waiting.answers):
            raise IllegalEntry(f"`{entry.by.user_id}` has decided before", "already_decided")
        if [d.interrupt_id for d in entry.decisions].count(waiting.id) > 1:
            raise IllegalEntry(f"interrupt `{waiting.id}` is answered twice", "duplicate")

    def _decided(self, entry: e.Resumed, decision: e.Decision) -> None:
        waiting = self.interrupts.get(decision.interrupt_id)
        if waiting is None:
            return  # an answer before this one ended the run, or started its cycle anew
        assert entry.by is not None  # noqa: S101  (checked with the entry)
        answer = Vote(decision.decision, entry.by, entry.at, decision.data)
        answered = attrs.evolve(waiting, answers=(*waiting.answers, answer))
        frame = self._frame(waiting.within)
        decided = verdict(answered)
        if decided is None:
            frame.note(answered)
        else:
            frame.settle(answered, decided)

    def _succeeded(self, entry: e.Succeeded) -> None:
        effect = self._awaited(entry)
        if type(effect) is OpenChild:
            raise IllegalEntry("a child is opened, and has no other result", "stale")
        self.at = entry.at
        frame = self._frame(entry.within) if entry.within else self
        frame.succeed(effect, entry)
        self._go_on(frame)

    def _failed(self, entry: e.Failed) -> None:
        effect = self._awaited(entry)
        self.at = entry.at
        frame = self._frame(entry.within)
        frame.consume(entry.node, entry.usage)
        frame.fail(effect, entry.message, entry.reason, entry.retryable, entry.info)
        self._go_on(frame)

    def _opened(self, entry: e.Opened) -> None:
        effect = self._awaited(entry)
        if not isinstance(effect, OpenChild) or (effect.kind, effect.resource_id) != (entry.kind, entry.resource_id):
            raise IllegalEntry("nobody waits for this child", "stale")
        plan = self.plans.get((entry.kind, entry.resource_id, entry.variation_id))
        if plan is None:
            raise IllegalEntry("the plan of the child is not at hand", "plan_missing")
        self.at = entry.at
        outer = self._frame(entry.within)
        outer.begin_child(effect)
        child = Child(self, outer, effect, entry, plan)
        child.flow.begin()
        self._go_on(child)

    def _sent(self, entry: e.Sent) -> None:
        effect = self._awaited(entry)
        if not isinstance(effect, CallTool) or effect.sent:
            raise IllegalEntry("no call of a tool is to be sent", "stale")
        self.at = entry.at
        self._frame(entry.within).send(effect)

    def _said(self, entry: e.Said) -> None:
        effect = self._awaited(entry)
        if not isinstance(effect, CallModel):
            raise IllegalEntry("only a model says something", "stale")
        self.at = entry.at
        self._frame(entry.within).say(effect, entry.text)

    def _time_passed(self, entry: e.TimePassed) -> None:
        if not self.turn_open:
            raise IllegalEntry("no turn is open")
        self.at = entry.at
        if entry.at >= self._out_of_time():
            self.break_bound(f"the run went on for longer than {self.limits.max_run_seconds:g} seconds", "duration")
            return
        for frame in self._go_off():
            frame.run()
        self._go_on(self)

    def _go_off(self) -> list[Agents]:
        """Let every timer and deadline that is due by now go off; what one of them voids does not. The frames that
        were touched.
        """
        touched: dict[Address, Agents] = {}
        for address, due in sorted(self.timers.items(), key=lambda timer: (timer[1], timer[0])):
            if due <= self.at and address in self.timers:
                frame = touched[address[:-3]] = self._frame(address[:-3])
                frame.ring(address)
        for waiting in list(self.interrupts.values()):
            if waiting.expires_at and waiting.expires_at <= self.at and waiting.id in self.interrupts:
                frame = touched[waiting.within] = self._frame(waiting.within)
                frame.expire(waiting)
        return list(touched.values())

    def _paused(self, entry: e.Paused) -> None:
        if not self.turn_open or self.paused:
            raise IllegalEntry("no turn is going on", "not_running", status=str(self.status))
        self.at, self.paused = entry.at, True
        self._go_on(self)

    def _cancelled(self, entry: e.Cancelled) -> None:
        if "cancel" not in RUN_MOVES[self.status]:
            raise IllegalEntry(f"the run has ended as `{self.status}`", "ended", status=str(self.status))
        self.at = entry.at
        self._close("cancel", EventKind.cancelled, {})

    def _aborted(self, entry: e.Aborted) -> None:
        if not self.turn_open:
            raise IllegalEntry("no turn is open", "not_running", status=str(self.status))
        self.at = entry.at
        self._end_in_error(entry.message, {"reason": "defect"})

    def _awaited(self, entry: e.Outcome) -> Effect:
        effect = self.pending.get((*entry.within, entry.node, entry.visit, entry.step))
        if effect is None or effect.attempt != entry.attempt or not self.turn_open:
            raise IllegalEntry("nobody waits for this outcome", "stale")
        return effect

    _HANDLERS: ClassVar[Mapping[type, Callable[["Machine", Any], None]]] = {
        e.Started: _started,
        e.Resumed: _resumed,
        e.Succeeded: _succeeded,
        e.Failed: _failed,
        e.Said: _said,
        e.Opened: _opened,
        e.Sent: _sent,
        e.TimePassed: _time_passed,
        e.Paused: _paused,
        e.Cancelled: _cancelled,
        e.Aborted: _aborted,
    }
