"""The interpreter: entries in, effects and events out. Deterministic, and the only place where a run's
meaning lives.

A `Machine` is changed in place and has one owner. `apply` takes the next entry of the journal; an entry that
cannot happen in this state raises `IllegalEntry` before anything has moved. What has to be done next is read
off the state: `pending` (effects), `interrupts` (waits for a person), `next_due` (timers). Recovery after a
crash is therefore nothing but applying the journal again. Conditions, joins, templates and the tools
`core.transform`, `core.fail` and `core.wait` are decided in here, without an effect and without a write of
their own.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import attrs

from wfcore.domain.codec import iso_ms
from wfcore.domain.run import entries as e
from wfcore.domain.run.effects import CallModel, Effect
from wfcore.domain.run.events import Event, EventKind
from wfcore.domain.run.interrupts import (
    APPROVALS,
    output_of,
    verdict,
)
from wfcore.domain.run.nodes import Nodes, message_id
from wfcore.domain.run.state import (
    RUN_MOVES,
    Answer,
    IllegalEntry,
    NodeStatus,
)


class Machine(Nodes):
    """One execution in memory. `sink` collects events while it is a list; with None they are only counted."""

    __slots__ = ()

    # What to do next, read off the state

    def next_due(self) -> int | None:
        """Epoch milliseconds of the next moment at which time alone changes something; None: never."""
        bound = [self._out_of_time()] if self.turn_open else []
        if self.paused or not (self.timers or self.interrupts):
            return bound[0] if bound else None
        return min(self._deadlines() + bound, default=None)

    def _deadlines(self) -> list[int]:
        return [*self.timers.values(), *(i.expires_at for i in self.interrupts.values() if i.expires_at)]

    def _out_of_time(self) -> int:
        return self.turn_began + int(self.limits.max_run_seconds * 1000)

    def ends_run(self, entry: e.Failed) -> bool:
        """Whether this failure would end the whole run: siblings in flight are to be stopped before it is
        recorded.
        """
        node = self.plan.nodes[entry.node]
        retried = entry.retryable and entry.attempt < node.retry.max_attempts
        return not retried and not node.catches

    def take_events(self) -> list[Event]:
        """The events since the last call; empty when none are collected."""
        found = self.sink or []
        if self.sink is not None:
            self.sink = []
        return found

    # Entries

    def apply(self, entry: e.Entry) -> None:
        """Let this have happened. `IllegalEntry` if it cannot; the machine is then as it was."""
        self._HANDLERS[type(entry)](self, entry)
        self.length += 1

    def _started(self, entry: e.Started) -> None:
        if self.length:
            raise IllegalEntry("the execution has begun before")
        self.at = self.turn_began = entry.at
        self.root = self.run_id = entry.run_id
        self.starter, self.limits = entry.by, entry.limits
        self.info = {"id": entry.run_id, "userId": entry.by.user_id, "startedAt": iso_ms(entry.at), **entry.info}
        self.scope = {"input": entry.input, "nodes": self.nodes, "run": self.info}
        self._move("start")
        self.turn_open = True
        self._emit(EventKind.run_started, {"target": entry.info.get("target")})
        if entry.refusal:
            self._end_in_error(entry.refusal, {"reason": "refused"})
            return
        self.flow.begin()
        self._go_on()

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
            self.scope = {**self.scope, "run": self.info}
        self._move("turn")
        self.run_id, self.seq, self.turn_began = entry.run_id, 0, entry.at
        self.turn_open, self.paused = True, False
        self._emit(EventKind.run_started, {"target": self.info.get("target"), "parentRunId": parent})
        for decision in entry.decisions:
            self._decided(entry, decision)
        self._go_off()
        self._take_up()
        self._go_on()

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
        if decision.decision not in APPROVALS:
            raise IllegalEntry(f"`{decision.decision}` is no answer to an approval", "wrong_decision")
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
        answer = Answer(decision.decision, entry.by, entry.at, decision.data)
        answered = attrs.evolve(waiting, answers=(*waiting.answers, answer))
        self.interrupts[waiting.id] = answered
        decided = verdict(answered)
        if decided is None:
            return
        del self.interrupts[waiting.id]
        node = self.plan.nodes[waiting.node]
        if waiting.call is None:
            self._finish(node, output_of(answered), handle=decided)
        elif decided == "approved":
            self._turn_node(node.index, "answer")
            self._issue(node)
        else:
            self._fail(node, f"`{node.id}` was denied", "denied", ends_run=False)

    def _succeeded(self, entry: e.Succeeded) -> None:
        effect = self._awaited(entry)
        self.at = entry.at
        node = self.plan.nodes[entry.node]
        if isinstance(effect, CallModel):
            self._answered(node, effect, entry)
        else:
            del self.pending[effect.address]
            if node.plain:
                self._finish(node, entry.output)
            else:
                self._step_done(node, entry.step, entry.output)
        self._go_on()

    def _failed(self, entry: e.Failed) -> None:
        effect = self._awaited(entry)
        self.at = entry.at
        self._attempt_failed(effect, entry.message, entry.reason, entry.retryable)
        self._go_on()

    def _said(self, entry: e.Said) -> None:
        effect = self._awaited(entry)
        if not isinstance(effect, CallModel):
            raise IllegalEntry("only a model says something", "stale")
        self.at = entry.at
        node = self.plan.nodes[entry.node]
        self._emit(
            EventKind.message_delta,
            {"nodeId": node.id, "messageId": message_id(effect), "delta": entry.text},
        )

    def _time_passed(self, entry: e.TimePassed) -> None:
        if not self.turn_open:
            raise IllegalEntry("no turn is open")
        self.at = entry.at
        if entry.at >= self._out_of_time():
            self._break_bound(f"the run went on for longer than {self.limits.max_run_seconds:g} seconds", "duration")
            return
        self._go_off()
        self._go_on()

    def _go_off(self) -> None:
        """Let every timer and deadline that is due by now go off; what one of them voids does not."""
        for address, due in sorted(self.timers.items(), key=lambda timer: (timer[1], timer[0])):
            if due <= self.at and address in self.timers:
                del self.timers[address]
                node, _, step = address
                self._step_done(self.plan.nodes[node], step, self.batches[node].calls[step])
        for waiting in list(self.interrupts.values()):
            if waiting.expires_at and waiting.expires_at <= self.at and waiting.id in self.interrupts:
                del self.interrupts[waiting.id]
                self._expired(waiting)

    def _take_up(self) -> None:
        """Ask for the calls that were held back while the run was paused."""
        for index in list(self.batches):
            if self.statuses[index] is NodeStatus.running and index in self.batches:
                self._issue(self.plan.nodes[index])

    def _paused(self, entry: e.Paused) -> None:
        if not self.turn_open or self.paused:
            raise IllegalEntry("no turn is going on", "not_running", status=str(self.status))
        self.at, self.paused = entry.at, True
        self._go_on()

    def _cancelled(self, entry: e.Cancelled) -> None:
        if "cancel" not in RUN_MOVES[self.status]:
            raise IllegalEntry(f"the run has ended as `{self.status}`", "ended", status=str(self.status))
        self.at = entry.at
        self._close("cancel", EventKind.cancelled, {})

    def _awaited(self, entry: e.Succeeded | e.Failed | e.Said) -> Effect:
        effect = self.pending.get((entry.node, entry.visit, entry.step))
        if effect is None or effect.attempt != entry.attempt or not self.turn_open:
            raise IllegalEntry("nobody waits for this outcome", "stale")
        return effect

    _HANDLERS: ClassVar[Mapping[type, Callable[["Machine", Any], None]]] = {
        e.Started: _started,
        e.Resumed: _resumed,
        e.Succeeded: _succeeded,
        e.Failed: _failed,
        e.Said: _said,
        e.TimePassed: _time_passed,
        e.Paused: _paused,
        e.Cancelled: _cancelled,
    }
