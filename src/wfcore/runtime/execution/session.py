"""One session drives one execution, in one process at a time. `session_states` has the tables of its states.

A conflict of an append means that somebody else has written (a decision, a cancel, another worker after a lost claim):
the session drops its machine, folds the journal again and goes on.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final

from wfcore.domain.kernel.errors import Unavailable
from wfcore.domain.run import entries as e
from wfcore.domain.run.effects import CallTool, Effect
from wfcore.domain.run.events import Event
from wfcore.domain.run.machine.entries.straight import calls_after, go_straight
from wfcore.domain.run.machine.machine import Machine
from wfcore.domain.run.machine.next_steps import NextSteps, only_effect
from wfcore.domain.run.state import move
from wfcore.ports.faults import ClaimLost, StoreUnavailable
from wfcore.ports.journal import Append, Execution, JournalConflict, PlainAppend
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.execution.append import wake_admitted
from wfcore.runtime.execution.appender import Appender
from wfcore.runtime.execution.in_flight import EffectsInFlight
from wfcore.runtime.execution.outcomes import address_of, applied, stamped
from wfcore.runtime.execution.plans import Plans, opens
from wfcore.runtime.execution.session_states import (
    ACTIVITIES,
    ALONE,
    ALONE_NOW,
    CHOOSING,
    CURRENT,
    OUTDATED,
    VIEWS,
    Activity,
    ActivityEvent,
    View,
    ViewEvent,
)
from wfcore.runtime.execution.telemetry import Performs
from wfcore.runtime.execution.time_slice import ExecutionTime, MomentTimer, SharedTimers, TimeSlice
from wfcore.runtime.tools.call_rates import CallRates
from wfcore.runtime.tools.calls import Begin, PlainCall


class Session:
    """One execution under way in this process."""

    def __init__(
        self,
        ports: Ports,
        plans: Plans,
        performer: Performs,
        time_slice: TimeSlice,
        execution: Execution,
        machine: Machine,
        rates: CallRates,
        timers: SharedTimers,
    ) -> None:
        self.performer = performer
        self.machine = machine
        self._ports = ports
        self._events = ports.events
        self._journal = ports.journal
        self._plans = plans
        self._execution = execution
        self._ref = execution.ref
        self._appender = Appender(ports, execution, machine)
        self._in_flight = EffectsInFlight(ports.tools, rates, self._appender.take_slot)
        self._time_slice = time_slice
        self._time = ExecutionTime(ports.clock, machine.at)
        self._timer = MomentTimer(timers, self._time)
        self._activity = Activity.choosing
        self._view = View.current
        self._outcomes: list[e.Entry] = []
        self._has_news = False
        self._waiting: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._lookup: asyncio.Task[None] | None = None

    def signal(self) -> None:
        """Somebody else may have written, or freed slots: read the journal as soon as possible."""
        self._in_flight.try_again()
        self._saw(ViewEvent.signal)
        self._wake()
        if self._activity in ALONE and self._lookup is None:
            self._lookup = asyncio.get_running_loop().create_task(self._look_for_end())

    async def drive(self) -> None:
        """Go on until the turn has ended, or only time has to pass and the claim was released."""
        while self._view is not View.released:
            now = self._time.now()
            await self._time_slice.take(self, now)
            if self._view in OUTDATED:
                await self._catch_up()
            if await self._step(now):
                return

    async def _step(self, now: int) -> bool:
        """Take the next step. True: the claim was released."""
        steps = self.machine.next_steps(now)
        if steps.ended or not (steps.turn_open or steps.is_due(now)):
            return await self._release(steps.due)
        if steps.is_due(now):
            await self._let_time_pass(now)
        elif calls := [call for call, at in self._in_flight.held(steps.effects, now) if at <= now]:
            await self._admit(calls, now)
        elif announced := self._in_flight.announcements(steps.effects, now):
            self._outcomes += announced
            await self._take_outcomes()
        elif not self._in_flight.tasks and (effect := self._only_effect(steps)) is not None:
            await self._run_alone(effect, steps.due)
        else:
            return await self._launch_and_wait(steps, now)
        return False

    def _only_effect(self, steps: NextSteps) -> Effect | None:
        """The only effect, unless it waits for a slot or for the rate of its tool."""
        effect = steps.only_effect
        return None if effect is None or self._in_flight.is_held(effect) else effect

    async def _launch_and_wait(self, steps: NextSteps, now: int) -> bool:
        """Begin what can begin, and wait. True: nothing is under way for long, and the claim was released."""
        for effect in self._in_flight.startable(steps.effects, now):
            self._in_flight.launch(effect, self._perform(effect))
        moments = [at for _, at in self._in_flight.held(steps.effects, now)]
        moment = min([at for at in (steps.next_moment(now), *moments) if at is not None], default=None)
        is_idle = not self._in_flight.tasks and not self._outcomes
        if is_idle and (self._in_flight.awaiting() or self._is_far(moment, now)) and await self._release(moment):
            return True
        await self._wait(moment)
        await self._take_outcomes()
        return False

    async def _admit(self, calls: Sequence[CallTool], now: int) -> None:
        try:
            for call in calls:
                await self._in_flight.admit(self._ref.org, call, now)
        except JournalConflict:
            self._saw(ViewEvent.conflict)

    async def abandon(self) -> None:
        """Stop everything that is in flight. It happens again, under the same keys, when the execution is claimed
        again.

        Except what must not happen twice: its outcome is then unknown, and that is recorded as its outcome.
        """
        self._timer.set(None, self._on_moment)
        self._task = None  # without cycles, all of it is freed at once and no garbage collection has to find it
        if self._lookup is not None:
            self._lookup.cancel()
            await asyncio.gather(self._lookup, return_exceptions=True)
        await self._in_flight.abandon()

    def _saw(self, event: ViewEvent) -> None:
        self._view = move(VIEWS, self._view, event)

    # Effects

    async def _run_alone(self, effect: Effect, due: int | None) -> None:
        """Perform an effect beside which there is nothing to wait for: it needs no task of its own. So does each that
        follows from the one before, as long as nothing else is due.
        """
        task = self._task = asyncio.current_task()
        assert task is not None  # noqa: S101  (coroutines run in tasks)
        self._timer.set(due, self._on_moment)
        following: Effect | None = effect
        while following is not None:
            effect, raised = following, None
            if (call := self._plain_call(effect)) is not None:
                following, raised = await self._run_segment(effect, call, due, task)
                if following is None:
                    return
                effect = following
            if raised is None:
                self._activity = ACTIVITIES[self._activity][ActivityEvent.begin]
            try:
                if raised is None:
                    outcome = await self.performer.perform(self._execution, effect, self._stream, self._time.now)
                else:
                    outcome = self.performer.failed(effect, raised, self._time.now())
            except asyncio.CancelledError:
                if self._activity is not Activity.stopping or task.uncancel() > 0:
                    raise
                return
            finally:
                stopped = self._activity is Activity.stopping
                self._activity = ACTIVITIES[self._activity][ActivityEvent.end]
                if self._in_flight.announced:
                    self._in_flight.ended(effect)
            if stopped:
                task.uncancel()
            straight = self._straight(outcome)
            if straight is not None and await self._commit(straight[0]):
                following = straight[1] if self._may_go_on(outcome.at, due) else None
                continue
            if straight is not None:
                await self._catch_up()
            await self._record((outcome,))
            following = self._following(outcome.at, due)

    def _plain_call(self, effect: Effect) -> PlainCall | None:
        """What calls the tool of this effect, if it needs nothing but its arguments and no announcement, and the next
        call of its segment is known.
        """
        root = self.machine.state.root
        if type(effect) is not CallTool or len(effect.address) != IN_ROOT:
            return None
        if not root.plan.is_next_known[effect.address[0]] or effect.tool not in self._in_flight.harmless:
            return None
        is_plain = effect.timeout is None and not effect.definition and effect.slot is None
        return self.performer.plain_call(effect.tool) if is_plain else None

    async def _run_segment(
        self, effect: Effect, call: PlainCall, due: int | None, task: asyncio.Task[None]
    ) -> tuple[Effect | None, BaseException | None]:
        """Perform the calls of a straight segment but the last, each committed before the next. The machine applies
        their results together, at the end, before others have a turn of the event loop, or, while somebody reads the
        events, at its next turn: nothing is to be decided between them.

        Returns the effect to perform next, None if something else has to be done first; and what its call has raised,
        if it was made.
        """
        self._collect_events()
        state, results, holder = self.machine.state, list[e.Entry](), self._appender.holder
        is_read, loop = state.sink is not None, asyncio.get_running_loop()
        assert isinstance(effect, CallTool)  # noqa: S101  (it has a plain call)
        node, visit, step = effect.address
        attempt, length = effect.attempt, state.length
        ref, now, wall, write = self._ref, self._time.now, self._ports.clock.now, self._journal.append
        checked_output, has_subscribers = call.checked_output, self._events.has_subscribers
        prepared = self.performer.prepared_calls(state.root.plan, self._in_flight.harmless)
        begin: Begin = partial(call.begin, effect.params)
        at, may_go_on, raised = -1, True, None
        for then, visit_then in calls_after(state, effect.address):
            begin_then = prepared[then.index]
            if begin_then is None:  # it is announced with the result before it, or needs more than its arguments
                break
            self._activity = ALONE_NOW
            try:
                output = checked_output(await begin())
            except BaseException as error:  # noqa: BLE001  (`failed` has its outcome)
                raised = error
                break
            if self._activity is not ALONE_NOW:
                task.uncancel()
            self._activity = CHOOSING
            before = at
            if wall() != at:  # as `now`, without a call within a millisecond
                at = now()
            result = e.Succeeded(at, node, visit, step, attempt, output)
            append = PlainAppend(length, (result,), holder=holder)
            try:
                await write(ref, append)
            except (Unavailable, JournalConflict):
                self._apply(results)
                if not await self._commit(append):
                    await self._catch_up()
                    await self._record((result,))
                    return self._following(self.machine.at, due), None
            if is_read and not results:
                loop.call_soon(self._apply, results)
            results.append(result)
            length += 1
            begin, node, visit, step, attempt = begin_then, then.index, visit_then, 0, 1
            if not is_read and has_subscribers(ref):
                await self._publish_again()
                break
            if at != before or self._view is not CURRENT:  # a deadline and a slice only end with a millisecond
                if self._time_slice.is_due(self, at):
                    self._apply(results)
                    await self._time_slice.take(self, at)
                if not (may_go_on := self._is_undisturbed(at, due)):
                    break
        self._apply(results)
        if isinstance(raised, StoreUnavailable):  # the performer waits, and repeats the call
            self._activity, raised = CHOOSING, None
        (pending,) = self.machine.pending.values()
        return (pending if may_go_on else None), raised

    def _apply(self, results: list[e.Entry]) -> None:
        """Apply the results of a segment that were committed since the last time, and show their events."""
        if not results:  # the sink can have events of entries that are being committed
            return
        go_straight(self.machine.state, results)
        results.clear()
        if events := self.machine.take_events():
            self._events.publish(self._ref, events)

    def _straight(self, outcome: e.Entry) -> tuple[Append, Effect] | None:
        """The append of an outcome that only leads to the next call of its straight segment, and that call: the machine
        has applied it. None for any other outcome, which `_record` records.
        """
        machine = self.machine
        expected = machine.state.length
        if type(outcome) is not e.Succeeded or self._view is View.stale or outcome.at < machine.state.at:
            return None
        self._collect_events()
        if not go_straight(machine.state, (outcome,)):
            return None
        entries: list[e.Entry] = [outcome]
        (call,) = machine.pending.values()
        if not self._in_flight.may_begin(call):
            entries += applied(machine, self._in_flight.announcements(machine.pending, outcome.at))
            (call,) = machine.pending.values()
        return PlainAppend(expected, entries, holder=self._appender.holder), call

    def _following(self, now: int, due: int | None) -> Effect | None:
        """The only effect, if it can begin at once: nothing has to be announced before."""
        effect = only_effect(self.machine.state, now) if self._may_go_on(now, due) else None
        return effect if effect is not None and self._in_flight.may_begin(effect) else None

    def _may_go_on(self, now: int, due: int | None) -> bool:
        """Whether an effect can begin at once: with no news, no deadline passed, and within the time slice."""
        return self._is_undisturbed(now, due) and not self._time_slice.is_due(self, now)

    def _is_undisturbed(self, now: int, due: int | None) -> bool:
        """Whether there is no news and no deadline has passed."""
        if self._view is not CURRENT:
            return False
        # INVARIANT: a timer that expired while nothing could be stopped is not set any more.
        return due is None or (due > now and self._timer.is_set)

    def _stop_effect(self) -> None:
        """Cancel the effect that runs alone, not the session."""
        if self._activity is Activity.alone and self._task is not None:
            self._activity = move(ACTIVITIES, self._activity, ActivityEvent.stop)
            self._task.cancel()

    async def _look_for_end(self) -> None:
        """While an effect runs alone: stop it only if the run has ended meanwhile."""
        try:
            entries = await self._journal.read(self._ref, self.machine.length)
            if any(isinstance(entry, e.Cancelled) for entry in entries):
                self._stop_effect()
        finally:
            self._lookup = None

    async def _perform(self, effect: Effect) -> None:
        try:
            outcome = await self.performer.perform(self._execution, effect, self._stream, self._time.now)
        except ClaimLost:
            self.signal()  # the session reads the journal, and ends
        else:
            self._outcomes.append(outcome)
            self._wake()

    async def _stream(self, part: e.Said | e.Progressed) -> None:
        """Record text of a model or progress of a tool: at once when the effect runs alone, else with the next
        outcomes.
        """
        if isinstance(part, e.Said):
            self._in_flight.streamed(part)
        part = stamped(part, self._time.now())
        if self._activity in ALONE:
            await self._record([part])
        else:
            self._outcomes.append(part)
            self._wake()

    async def _take_outcomes(self) -> None:
        outcomes, self._outcomes = self._outcomes, []
        for outcome in outcomes:
            if isinstance(outcome, e.Failed) and self.machine.ends_run(outcome):
                # a run ends in error only after its effects in flight have been stopped
                await self._in_flight.stop_others((address_of(outcome), outcome.attempt))
        if outcomes:
            await self._record(outcomes)

    # Time

    async def _let_time_pass(self, now: int) -> None:
        if self.machine.turn_open:
            await self._record([e.TimePassed(now)])
        else:
            await self._system_turn(now)

    async def _system_turn(self, now: int) -> None:
        """A deadline passed while the run was parked: the system begins the next turn."""
        self._collect_events()
        await self._commit(self._appender.system_turn(self.machine, e.Resumed(now, self._ports.ids.uuid())))

    def _is_far(self, moment: int | None, now: int) -> bool:
        """Whether the claim is released until this moment, instead of being held."""
        return moment is None or moment - now > self._ports.settings.hold_for * 1000

    async def _wait(self, moment: int | None) -> None:
        """Until there is an outcome, a signal, or this moment has come."""
        if self._view is View.stale:
            return
        self._timer.set(moment, self._on_moment)
        self._activity = move(ACTIVITIES, self._activity, ActivityEvent.wait)
        if not self._has_news:
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting
        self._activity = move(ACTIVITIES, self._activity, ActivityEvent.wake)
        self._has_news = False

    def _wake(self) -> None:
        """Something has happened: wait no longer."""
        self._has_news = True
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def _on_moment(self) -> None:
        self._wake()
        self._stop_effect()

    # Appending

    async def _record(self, outcomes: Sequence[e.Entry]) -> None:
        """Let these have happened, then make it durable, then show it. A conflict starts over on the newer journal.

        Announcements of what follows are part of the same append: they cost no write of their own.
        """
        while True:
            if opens(outcomes):
                await self._plans.load(self._ref.org, outcomes, self.machine)
            machine = self.machine
            expected = machine.state.length
            self._collect_events()
            entries = applied(machine, outcomes)
            if self._in_flight.tasks:
                self._in_flight.forget_finished(machine.pending)
            if entries and (more := self._in_flight.announcements(machine.pending, entries[-1].at)):
                entries += applied(machine, more)
            if not entries or await self._commit(self._appender.append_of(machine, expected, entries)):
                return
            await self._catch_up()

    async def _commit(self, append: Append) -> bool:
        """False when somebody else wrote first: what the machine holds beyond the journal is void."""
        try:
            try:
                await self._journal.append(self._ref, append)
            except Unavailable as error:
                await self._appender.write_again(append, error)
        except JournalConflict:
            self._saw(ViewEvent.conflict)
            return False
        if type(append) is not PlainAppend:
            self._written(append)
        sink = self.machine.state.sink
        if sink:
            self._events.publish(self._ref, self.machine.take_events())
        elif sink is None and self._events.has_subscribers(self._ref):
            await self._publish_again()
        return True

    def _written(self, append: Append) -> None:
        """What an append of more than entries means for this session and for others."""
        if append.updates_claim:
            self._saw(ViewEvent.release)
            self._events.settle(self._ref)
        if append.awaits:
            wake_admitted(self._ports)
        elif append.slots is not None and wake_admitted(self._ports, self._ref):
            self._in_flight.try_again()
        if append.interrupts is not None:
            self._appender.know_interrupts(append.interrupts)

    def _collect_events(self) -> None:
        state = self.machine.state
        if not self._events.has_subscribers(self._ref):
            state.sink = None
        elif state.sink is None:
            state.sink = []

    async def _publish_again(self) -> None:
        """Somebody subscribed while this was being written, too early to read it and too late to receive it."""
        events: list[Event] = []
        await self._plans.machine(self._execution, events)
        self._events.publish(self._ref, events)

    async def _catch_up(self) -> None:
        """Apply what others wrote; `ClaimLost` when this worker no longer holds the execution."""
        is_stale = self._view is View.stale
        self._saw(ViewEvent.catch_up)  # before reading: a signal from now on means to read again
        if is_stale:
            self.machine = await self._plans.machine(self._execution)
        else:
            self.machine.sink = None
            await self._plans.catch_up(self._execution, self.machine)
        self._time.reach(self.machine.at)
        self._appender.know_interrupts(self.machine.interrupts.values())
        self._in_flight.forget_finished(self.machine.pending)
        found = await self._journal.execution(self._ref)
        if (found.claimed_by, found.epoch) != (self._appender.holder, self._execution.epoch):
            raise ClaimLost

    async def _release(self, wake_at: int | None) -> bool:
        """Release the claim until then. False when somebody else wrote first."""
        return await self._commit(self._appender.release_of(self.machine, wake_at, self._in_flight.awaiting()))


IN_ROOT: Final = 3
"""The numbers of an address in the root."""
