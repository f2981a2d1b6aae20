"""Entries about turns: a start, a resume with its decisions, time, a pause, a cancel, an abort.

Each has a check, which raises `IllegalEntry` before anything has moved, and a handler, which does not.
"""

from msgspec import structs

from wfcore.domain.json.codec import iso_ms
from wfcore.domain.run import entries as e
from wfcore.domain.run.effects import Address
from wfcore.domain.run.events import EventKind
from wfcore.domain.run.machine.agent.agent_loop import add_message, narrow_loops
from wfcore.domain.run.machine.approvals import end_or_remind
from wfcore.domain.run.machine.entries.outcomes import end_timer, notify_openers, settle
from wfcore.domain.run.machine.entries.progress import go_on, rest, resume_frame, run_frames
from wfcore.domain.run.machine.states.debugging import begin_debug
from wfcore.domain.run.machine.states.interrupts import ANSWERS, InterruptEvent, add_vote, decision_of
from wfcore.domain.run.machine.states.output import emit, error_of
from wfcore.domain.run.machine.states.state import EvaluationState, Frame, Place, RunState, children_of, find_frame
from wfcore.domain.run.machine.states.turns import (
    OPEN,
    STATUS,
    TURNS,
    TurnEvent,
    advance,
    break_bound,
    end,
    end_of_turn,
    fail_run,
    show_parked,
)
from wfcore.domain.run.state import IllegalEntry, IllegalRunMove, Vote, move


def _check(run: RunState, event: TurnEvent, reason: str) -> None:
    try:
        move(TURNS, run.phase, event, reason)
    except IllegalRunMove as error:
        error.info["status"] = str(STATUS[run.phase])
        raise


# Start


def check_started(run: RunState, _: e.Started) -> None:
    move(TURNS, run.phase, TurnEvent.start)


def started(run: RunState, entry: e.Started, _: None) -> None:
    """The first turn begins; with a `refusal` it ends at once."""
    root = run.root
    run.at = entry.at
    run.id = run.run_id = entry.run_id
    root.place = Place(prefix=f"{entry.key or entry.run_id}:", label=f"{entry.run_id}:")
    run.starter, run.limits = entry.by, entry.limits
    run.turn_ends = end_of_turn(run)
    run.info = {"id": entry.run_id, "userId": entry.by.user_id, "startedAt": iso_ms(entry.at), **entry.info}
    run.evaluated = EvaluationState() if "evaluation" in run.info else None
    begin_debug(run)
    root.scope = {"input": entry.input, "nodes": root.outputs, "run": run.info}
    advance(run, TurnEvent.start)
    emit(run, root, EventKind.run_started, {"target": entry.info.get("target")})
    if entry.refusal:
        fail_run(run, error_of(run, entry.refusal, {"reason": "access"}))
        return
    root.flow.begin()
    go_on(run, root)


# Resume


def check_resumed(run: RunState, entry: e.Resumed) -> None:
    _check(run, TurnEvent.decide, "not_interrupted")
    for decision in entry.decisions:
        _check_decision(run, entry, decision)
    if not entry.decisions:
        _check_plain_resume(run, entry)


def _check_plain_resume(run: RunState, entry: e.Resumed) -> None:
    """Without a decision a turn can take over a run that was parked by hand, or one whose deadline has passed."""
    move(TURNS, run.phase, _event_of(entry), "not_interrupted" if run.phase in OPEN else "decision_required")
    if TurnEvent.resume not in TURNS[run.phase] and all(due > entry.at for due in deadlines(run)):
        raise IllegalEntry("no deadline has passed", "not_due")


def deadlines(run: RunState) -> list[int]:
    """The moments at which timers, reminders, escalations and deadlines are due, in epoch milliseconds."""
    root = run.root
    return [*root.timers.values(), *(moment for one in root.interrupts.values() for moment in one.moments)]


def _check_decision(run: RunState, entry: e.Resumed, decision: e.Decision) -> None:
    interrupt = run.root.interrupts.get(decision.interrupt_id)
    if interrupt is None or entry.by is None:
        raise IllegalEntry(f"interrupt `{decision.interrupt_id}` is not open", "already_resumed")
    if decision.decision not in ANSWERS[interrupt.type]:
        allowed = " or ".join(f"`{name}`" for name in ANSWERS[interrupt.type])
        raise IllegalEntry(f"unknown decision `{decision.decision}`: use {allowed}", "wrong_decision")
    if interrupt.expires_at is not None and entry.at >= interrupt.expires_at:
        raise IllegalEntry(f"interrupt `{interrupt.id}` has expired", "expired")
    people = entry.vote_people(interrupt.id)
    if any(not vote.people.isdisjoint(people) for vote in interrupt.answers):
        raise IllegalEntry(f"`{entry.by.user_id}` has decided before", "already_decided")
    if [other.interrupt_id for other in entry.decisions].count(interrupt.id) > 1:
        raise IllegalEntry(f"interrupt `{interrupt.id}` is decided twice", "duplicate")


def resumed(run: RunState, entry: e.Resumed, _: None) -> None:
    """A new turn takes over, from an open one too: info, message and decisions take effect, then what is due."""
    run.at = entry.at
    parent, is_open = run.run_id, run.phase in OPEN
    if is_open:
        show_parked(run)
    _begin_turn(run, entry)
    if entry.info and entry.info.get("message"):
        add_message(run, run.root, entry.info)
    for decision in entry.decisions:
        _decide(run, entry, decision)
    ended = end_due(run)
    run.reminded = () if entry.by is not None or ended else (*run.reminded, parent)
    for frame in (*reversed(children_of(run.root)), run.root):
        resume_frame(run, frame)
        run_frames(run, frame)
    rest(run)


def _event_of(entry: e.Resumed) -> TurnEvent:
    if entry.decisions:
        return TurnEvent.decide
    return TurnEvent.resume if entry.by is not None else TurnEvent.expire


def _begin_turn(run: RunState, entry: e.Resumed) -> None:
    parent = run.run_id
    if entry.info:
        run.info = {**run.info, **entry.info}
        for frame in (run.root, *children_of(run.root)):
            frame.scope = {**frame.scope, "run": run.info}
            narrow_loops(run, frame)
    advance(run, _event_of(entry))
    begin_debug(run)
    run.run_id, run.seq, run.turn_ends = entry.run_id, 0, end_of_turn(run)
    emit(run, run.root, EventKind.run_started, {"target": run.info.get("target"), "parentRunId": parent})


def _decide(run: RunState, entry: e.Resumed, decision: e.Decision) -> None:
    interrupt = run.root.interrupts.get(decision.interrupt_id)
    if interrupt is None:
        return  # a decision before this one ended the run, or started its cycle anew
    assert entry.by is not None  # noqa: S101  (checked with the entry)
    behalf = entry.on_behalf_of.get(interrupt.id, "")
    vote = Vote(decision.decision, entry.by, entry.at, decision.data, behalf)
    voted = structs.replace(interrupt, answers=(*interrupt.answers, vote))
    frame, event = find_frame(run, interrupt.within), decision_of(voted)
    if event is InterruptEvent.vote:
        add_vote(run, frame, voted)
    else:
        settle(run, frame, voted, event)
        notify_openers(run)


# Time


def check_time(run: RunState, _: e.TimePassed) -> None:
    move(TURNS, run.phase, TurnEvent.outcome)


def time_passed(run: RunState, entry: e.TimePassed, _: None) -> None:
    """Every timer and deadline that is due by now takes effect, unless the run has passed its bound."""
    run.at = entry.at
    if entry.at >= run.turn_ends:
        break_bound(run, f"the run went on for longer than {run.limits.max_run_seconds:g} seconds", "duration")
        return
    for frame in end_due(run):
        run_frames(run, frame)
    go_on(run, run.root)


def end_due(run: RunState) -> list[Frame]:
    """Let every timer, reminder and deadline take effect that is due by now, except those that others of them void.
    Returns the frames in which something has ended.
    """
    touched: dict[Address, Frame] = {}
    root = run.root
    for address, due in sorted(root.timers.items(), key=lambda timer: (timer[1], timer[0])):
        if due <= run.at and address in root.timers:
            frame = touched[address[:-3]] = find_frame(run, address[:-3])
            end_timer(run, frame, address)
            notify_openers(run)
    for interrupt in list(root.interrupts.values()):
        if interrupt.id in root.interrupts and min(interrupt.moments, default=run.at + 1) <= run.at:
            frame = find_frame(run, interrupt.within)
            if end_or_remind(run, frame, interrupt):
                touched[interrupt.within] = frame
                notify_openers(run)
    return list(touched.values())


# Ends by hand


def check_paused(run: RunState, _: e.Paused) -> None:
    _check(run, TurnEvent.pause, "not_running")


def paused(run: RunState, entry: e.Paused, _: None) -> None:
    """Nothing new is begun; the turn parks when nothing is under way."""
    run.at = entry.at
    advance(run, TurnEvent.pause)
    go_on(run, run.root)


def check_cancelled(run: RunState, _: e.Cancelled) -> None:
    _check(run, TurnEvent.cancel, "ended")


def cancelled(run: RunState, entry: e.Cancelled, _: None) -> None:
    """The execution ends."""
    run.at = entry.at
    end(run, TurnEvent.cancel, EventKind.cancelled, {})


def check_aborted(run: RunState, _: e.Aborted) -> None:
    _check(run, TurnEvent.fail, "not_running")


def aborted(run: RunState, entry: e.Aborted, _: None) -> None:
    """The execution ends in error, because the program could not drive it."""
    run.at = entry.at
    fail_run(run, error_of(run, entry.message, {"reason": "defect"}))
