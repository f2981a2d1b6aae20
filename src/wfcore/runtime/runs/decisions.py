"""The decisions of a resume: which interrupts they resolve, and whether the caller can decide these."""

from collections.abc import Sequence

from wfcore.api.runs import ResumeRun
from wfcore.domain.json.values import UNSET, given
from wfcore.domain.kernel.errors import Conflict, Forbidden, Issue, NotFound, refuse
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal
from wfcore.domain.run import entries as e
from wfcore.domain.run.machine.machine import Machine
from wfcore.domain.run.machine.states.deciders import Delegator, check_answer, may_decide
from wfcore.domain.run.state import IllegalEntry, IllegalRunMove
from wfcore.ports.journal import RunRow
from wfcore.runtime.common.authorization import conflict


def decisions_of(
    me: Principal,
    row: RunRow,
    machine: Machine,
    can_use: bool,
    body: ResumeRun,
    delegators: Sequence[Delegator] = (),
) -> tuple[tuple[e.Decision, ...], dict[str, str]]:
    """The decisions of a body, after every check whether the caller can make them; () is a resume without a decision.

    With them, by interrupt id, the users for whom the caller decides. Errors: Conflict with a reason, Forbidden,
    Invalid.
    """
    decisions, behalf = _decisions(row, machine, body), dict[str, str]()
    for index, decision in enumerate(decisions):
        interrupt = machine.interrupts[decision.interrupt_id]
        try:
            if giver := may_decide(me, interrupt, machine.starter, can_use, delegators):
                behalf[interrupt.id] = giver
        except NotFound:  # the caller sees the run, so the interrupt need not be hidden
            raise Forbidden("you are not an approver of this interrupt", {"reason": "not_an_approver"}) from None
        check_answer(interrupt, decision, f"decisions[{index}]." if body.decisions is not UNSET else "")
    if not decisions and not can_use:
        raise Forbidden("resuming a run requires use of its target", {"canUse": False})
    return decisions, behalf


def check_latest_turn(row: RunRow, machine: Machine) -> None:
    """Conflict for a run that another run has resumed, except to remind approvers."""
    if row.id not in machine.current_turns:
        raise conflict(f"run `{row.id}` was already resumed", "already_resumed")


def apply(machine: Machine, entry: e.Entry) -> None:
    """Apply the entry of a client's request; an entry that is illegal in this state is a Conflict."""
    try:
        machine.apply(entry)
    except IllegalEntry as error:
        raise Conflict(_why_not(machine, error), error.info) from None


def _why_not(machine: Machine, error: IllegalEntry) -> str:
    if machine.ended:
        return f"the run has ended as `{machine.status}`"
    if isinstance(error, IllegalRunMove):  # names an event of the machine, which is not the request
        return f"this is not possible while the run is `{machine.status}`"
    return str(error)


def _decisions(row: RunRow, machine: Machine, body: ResumeRun) -> tuple[e.Decision, ...]:
    check_latest_turn(row, machine)
    if machine.ended:
        raise conflict(f"run `{row.id}` has ended as `{machine.status}`", "not_interrupted")
    waiting = machine.interrupts
    wanted: list[tuple[str | None, str, JSON]]
    if body.decisions is not UNSET:
        wanted = [(one.interrupt_id, one.decision, given(one.data)) for one in body.decisions]
    elif body.decision is not UNSET:
        chosen = given(body.interrupt_id)
        if chosen is None and len(waiting) > 1:
            raise conflict("several interrupts are open: name one", "ambiguous", interruptIds=list(waiting))
        wanted = [(chosen or next(iter(waiting), None), body.decision, given(body.data))]
    elif waiting and not (machine.paused and not machine.turn_open):
        refuse([Issue("decision", "is required to resume this run", "required_if")])
        return ()
    else:
        wanted = []
    for interrupt_id, _, _ in wanted:
        if interrupt_id is None:
            raise conflict(f"run `{row.id}` does not wait for a decision", "not_interrupted")
        if interrupt_id not in waiting and interrupt_id in machine.interrupt_history:
            raise conflict(f"interrupt `{interrupt_id}` is not open", "already_resumed")
    refuse([
        Issue(f"decisions[{index}].interruptId" if body.decisions is not UNSET else "interruptId",
              f"there is no interrupt `{str(interrupt_id)[:80]}`", "reference")
        for index, (interrupt_id, _, _) in enumerate(wanted)
        if interrupt_id not in waiting
    ])  # fmt: skip
    return tuple(e.Decision(str(interrupt_id), decision, form) for interrupt_id, decision, form in wanted)
