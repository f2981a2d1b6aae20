"""One session drives one execution, in one process at a time.

An append that conflicts means that somebody else wrote (a decision, a cancel, another worker after a lost claim): the
session drops its machine, folds the journal again and goes on.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial

from wfcore.domain.kernel.errors import Unavailable
from wfcore.domain.run import entries as e
from wfcore.domain.run.effects import Effect
from wfcore.domain.run.events import Event
from wfcore.domain.run.machine.machine import Machine
from wfcore.domain.run.state import IllegalEntry, RunStatus
from wfcore.ports.journal import Append, Execution, JournalConflict, RunChange
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.execution.append import left_open, new_run, settled
from wfcore.runtime.execution.in_flight import EffectsInFlight
from wfcore.runtime.execution.outcomes import address_of
from wfcore.runtime.execution.performer import ClaimLost
from wfcore.runtime.execution.plans import Plans, opens
from wfcore.runtime.execution.telemetry import Performs

log = logging.getLogger("wfcore.drive")

SOON, LATE = 0.25, 10.0
"""Seconds after which a store that was away is tried again: first, and at most."""


class TimeSlice:
    """Gives way to others. Perhaps neither tool nor journal ever waits: a session that goes on alone from one
    millisecond to the next would keep the loop to itself. Where sessions take turns anyway, none has to.
    """

    def __init__(self) -> None:
        self._since = 0
        self._session: object = None

    def is_due(self, session: object, now: int) -> bool:
        """Whether no other session went on since an earlier millisecond."""
        if self._session is not session:
            self._since, self._session = now, session
        return self._since != now

    async def take(self, session: object, now: int) -> None:
        if self.is_due(session, now):
            self._since = now
            await asyncio.sleep(0)


class Session:
    """One execution under way in this process."""

    def __init__(
        self, ports: Ports, plans: Plans, performer: Performs, breath: TimeSlice, execution: Execution, machine: Machine
    ) -> None:
        self._ports = ports
        self._journal = ports.journal
        self._events = ports.events
        self._plans = plans
        self.performer = performer
        self._execution = execution
        self._ref = execution.ref
        self._holder = execution.claimed_by
        self.machine = machine
        self._flights = EffectsInFlight(self._fly, ports.tools)
        self._outcomes: list[e.Entry] = []
        self._news = asyncio.Event()
        self._signalled = False
        self._dirty = False
        self._free = False
        self._timer: tuple[int, Callable[[], object]] | None = None
        self._alone: asyncio.Task[None] | None = None
        self._broken_off = False
        self._breath = breath
        self._looking: asyncio.Task[None] | None = None
        self._asked: list[object] = list(machine.interrupts.values())

    def signal(self) -> None:
        """Somebody else may have written: look at the journal as soon as possible."""
        self._signalled = True
        self._news.set()
        if self._alone is not None and self._looking is None:
            self._looking = asyncio.get_running_loop().create_task(self._look())

    async def drive(self) -> None:
        """Go on until the turn has ended, or only time has to pass and the claim was given back."""
        while True:
            now = self._ports.clock.now()
            await self._breath.take(self, now)
            if self._signalled or self._dirty:
                await self._catch_up()
            machine = self.machine
            due = machine.next_due()
            is_due = due is not None and due <= now
            if machine.ended or not (machine.turn_open or is_due):
                if await self._release():
                    return
                continue
            if is_due:
                await self._let_time_pass(now)
                continue
            if announced := self._flights.announcements(machine.pending, now):
                self._outcomes += announced
                await self._take_outcomes()
                continue
            if (alone := self._only_effect(now)) is not None:
                await self._run_alone(alone, due)
                continue
            for effect in self._flights.startable(machine.pending, now):
                self._flights.launch(effect)
            if not self._flights.tasks and not self._outcomes and await self._give_back(now):
                return
            await self._wait(now)
            await self._take_outcomes()

    async def abandon(self) -> None:
        """Stop everything that is in flight; it happens again when the execution is taken up, under the same keys.

        Except what must not happen twice: nobody knows then how it ended, and that is what it ended with.
        """
        self._set_timer(None)
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        await self._flights.abandon()

    # Effects

    def _only_effect(self, now: int) -> Effect | None:
        """An effect beside which there is nothing to wait for: it needs no task of its own."""
        machine = self.machine
        if len(machine.pending) != 1 or machine.interrupts or machine.timers or self._flights.tasks:
            return None
        (effect,) = machine.pending.values()
        return effect if effect.not_before <= now else None

    async def _run_alone(self, effect: Effect, due: int | None) -> None:
        """The effect, and after it each that follows from the one before, as long as nothing else has to be seen to."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  (coroutines run in tasks)
        self._set_timer(due)
        following: Effect | None = effect
        while following is not None:
            effect, self._alone, self._broken_off = following, task, False
            try:
                outcome = await self.performer.perform(self._execution, effect, self._stream)
            except asyncio.CancelledError:
                if not self._broken_off or task.uncancel() > 0:
                    raise
                return
            finally:
                self._alone = None
                self._flights.ended(effect)
            if self._broken_off:
                task.uncancel()
            await self._record((outcome,))
            following = self._following(outcome.at, due)

    def _following(self, now: int, due: int | None) -> Effect | None:
        """The only effect, if it can begin at once: with no news, no deadline passed and nothing to announce."""
        if self._signalled or self._dirty or not self.machine.turn_open or self._breath.is_due(self, now):
            return None
        # INVARIANT: a deadline that rang while nothing could be broken off has left no timer behind.
        if due is not None and (due <= now or self._timer is None):
            return None
        effect = self._only_effect(now)
        return effect if effect is not None and self._flights.may_begin(effect) else None

    def _break_off(self) -> None:
        """Cancel the effect that runs alone, not the session."""
        if self._alone is not None and not self._broken_off:
            self._broken_off = True
            self._alone.cancel()

    async def _look(self) -> None:
        """While an effect runs alone: break it off only if the run has ended meanwhile."""
        try:
            entries = await self._journal.read(self._ref, self.machine.length)
            if any(isinstance(entry, e.Cancelled) for entry in entries):
                self._break_off()
        finally:
            self._looking = None

    async def _fly(self, effect: Effect) -> None:
        outcome = await self.performer.perform(self._execution, effect, self._stream)
        self._outcomes.append(outcome)
        self._news.set()

    async def _stream(self, said: e.Said) -> None:
        """Text of a model on its way: written at once when the effect runs alone, else with what comes along."""
        self._flights.heard(said)
        if self._alone is not None:
            await self._record([said])
        else:
            self._outcomes.append(said)
            self._news.set()

    async def _take_outcomes(self) -> None:
        outcomes, self._outcomes = self._outcomes, []
        for outcome in outcomes:
            if isinstance(outcome, e.Failed) and self._ends_run(outcome):
                # a run ends in error only after its effects in flight have been stopped
                await self._flights.stop_others((address_of(outcome), outcome.attempt))
        if outcomes:
            await self._record(outcomes)

    def _ends_run(self, failure: e.Failed) -> bool:
        effect = self.machine.pending.get(address_of(failure))
        return effect is not None and effect.attempt == failure.attempt and self.machine.ends_run(failure)

    # Time

    async def _let_time_pass(self, now: int) -> None:
        if self.machine.turn_open:
            await self._record([e.TimePassed(now)])
        else:
            await self._system_turn(now)

    async def _system_turn(self, now: int) -> None:
        """A deadline passed while the run was parked: the system makes the next turn."""
        machine, parent = self.machine, self.machine.run_id
        expected = machine.length
        turn = e.Resumed(now, self._ports.ids.uuid())
        left = left_open(machine)
        self._collect_events()
        machine.apply(turn)
        old = RunChange(parent, RunStatus.interrupted, now, left, turn.run_id)
        run = new_run(machine, machine.starter.user_id, b"", parent)
        if machine.turn_open:
            waiting = tuple(machine.interrupts.values())
            append = Append(expected, (turn,), run, (old,), waiting, holder=self._holder,
                            records=machine.take_records())  # fmt: skip
        else:
            append = settled(machine, expected, (turn,), begun=run, changes=(old,), holder=self._holder)
        await self._commit(append)

    def _next_moment(self, now: int) -> int | None:
        moments = [effect.not_before for effect in self.machine.pending.values() if effect.not_before > now]
        due = self.machine.next_due()
        return min([*moments, *([] if due is None else [due])], default=None)

    async def _give_back(self, now: int) -> bool:
        """Nothing can happen but time: hold on for a short while, give the claim back for a longer one."""
        moment = self._next_moment(now)
        hold = self._ports.settings.hold_for * 1000
        if moment is not None and moment - now <= hold:
            return False
        return await self._let_go(moment)

    async def _wait(self, now: int) -> None:
        """Until something is in: an outcome, a signal, or a moment that was waited for."""
        if self._dirty:
            return
        self._set_timer(self._next_moment(now))
        await self._news.wait()
        self._news.clear()

    def _set_timer(self, moment: int | None) -> None:
        """Have news at this moment. The timer stays as long as the moment does, such as the run's own deadline."""
        if self._timer is not None:
            if self._timer[0] == moment:
                return
            self._timer[1]()
            self._timer = None
        if moment is not None:
            left = (moment - self._ports.clock.now()) / 1000
            self._timer = moment, self._ports.clock.call_later(left, partial(self._ring, moment))

    def _ring(self, moment: int) -> None:
        self._timer = None
        if moment > self._ports.clock.now():  # no alarm is exact, and too early is no moment
            self._set_timer(moment)
            return
        self._news.set()
        self._break_off()

    # Writing down

    async def _record(self, outcomes: Sequence[e.Entry]) -> None:
        """Let these have happened, then make it durable, then show it. A conflict starts over on the newer journal.

        Announcements of what follows go along: they cost no write of their own.
        """
        while True:
            if opens(outcomes):
                await self._plans.load(self._ref.org, outcomes, self.machine)
            machine = self.machine
            expected = machine.length
            self._collect_events()
            entries = self._applied(outcomes)
            if self._flights.tasks:
                self._flights.forget_finished(machine.pending)
            if entries and machine.turn_open and (more := self._flights.announcements(machine.pending, machine.at)):
                entries += self._applied(more)
            if not entries or await self._commit(self._append_of(expected, entries)):
                return
            await self._catch_up()

    def _applied(self, entries: Sequence[e.Entry]) -> list[e.Entry]:
        """Those that could happen. Not what comes too late: the node was given up, or the run has ended."""
        applied, apply = [], self.machine.apply
        for entry in entries:
            try:
                apply(entry)
            except IllegalEntry:
                continue
            applied.append(entry)
        return applied

    def _append_of(self, expected: int, entries: Sequence[e.Entry]) -> Append:
        machine = self.machine
        if not machine.turn_open:
            return settled(machine, expected, entries, holder=self._holder, asked=bool(self._asked))
        records = machine.take_records() if machine.records else ()
        if machine.interrupts or self._asked:
            waiting = list(machine.interrupts.values())
            changed = tuple(waiting) if waiting != self._asked else None
            return Append(expected, entries, interrupts=changed, holder=self._holder, records=records)
        return Append(expected, entries, holder=self._holder, records=records)

    async def _commit(self, append: Append) -> bool:
        """False when somebody else wrote first: what the machine holds beyond the journal is void."""
        try:
            await self._written(append)
        except JournalConflict:
            self._dirty = True
            return False
        self._free = append.updates_claim
        if self._asked or self.machine.interrupts:
            self._asked = list(self.machine.interrupts.values())
        if self.machine.sink:
            self._events.publish(self._ref, self.machine.take_events())
        elif self.machine.sink is None and self._events.has_subscribers(self._ref):
            await self._tell_again()
        return True

    async def _written(self, append: Append) -> None:
        """What has happened is written as soon as the store is back, unless it was before an answer was lost."""
        wait = SOON
        while True:
            try:
                return await self._journal.append(self._ref, append)
            except JournalConflict:
                if wait == SOON or not await self._is_there(append):
                    raise
                return None
            except Unavailable as error:
                if append.new_run or not append.entries:
                    raise
                log.warning("what has happened cannot be written yet", extra={"why": str(error), "seconds": wait})
            await self._ports.clock.sleep(wait)
            wait = min(2 * wait, LATE)

    async def _is_there(self, append: Append) -> bool:
        """Whether the journal goes on with these very entries."""
        found = await self._journal.read(self._ref, append.expected)
        return found[: len(append.entries)] == list(append.entries)

    def _collect_events(self) -> None:
        machine = self.machine
        if not self._events.has_subscribers(self._ref):
            machine.sink = None
        elif machine.sink is None:
            machine.sink = []

    async def _tell_again(self) -> None:
        """Somebody began to listen while this was being written, too early to read it and too late to hear it."""
        events: list[Event] = []
        await self._plans.machine(self._execution, events)
        self._events.publish(self._ref, events)

    async def _catch_up(self) -> None:
        """Take in what others wrote; stop when this worker no longer holds the execution."""
        if self._dirty:
            self.machine = await self._plans.machine(self._execution)
        else:
            self.machine.sink = None
            await self._plans.catch_up(self._execution, self.machine)
        self._dirty = self._signalled = False
        self._asked = list(self.machine.interrupts.values())
        self._flights.forget_finished(self.machine.pending)
        if (await self._journal.execution(self._ref)).claimed_by != self._holder:
            raise ClaimLost

    async def _release(self) -> bool:
        """Give the claim back, unless the append that ended the turn did so."""
        return self._free or await self._let_go(self.machine.next_due())

    async def _let_go(self, wake_at: int | None) -> bool:
        """Write nothing but that nobody holds the execution until then."""
        return await self._commit(
            Append(self.machine.length, (), updates_claim=True, wake_at=wake_at, holder=self._holder)
        )
