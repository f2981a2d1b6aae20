"""What a resume answers: which open interrupts, whether they are still open, and who may."""

from collections.abc import Mapping

from wfcore.domain.kernel.errors import Conflict, Forbidden, Issue, NotFound, refuse
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal
from wfcore.domain.run import entries as e
from wfcore.domain.run.machine.interrupts import check_answer, may_decide
from wfcore.domain.run.machine.machine import Machine
from wfcore.domain.run.state import IllegalEntry
from wfcore.ports.journal import RunRow
from wfcore.runtime.common.authorization import conflict


def answers_of(
    me: Principal, row: RunRow, machine: Machine, can_use: bool, data: Mapping[str, JSON]
) -> tuple[e.Decision, ...]:
    """The answers that a body gives, after every check on whether the caller may give them; none is a plain resume.

    Errors: Conflict that says why not, Forbidden, Invalid.
    """
    decisions = _decisions(row, machine, data)
    for index, decision in enumerate(decisions):
        interrupt = machine.interrupts[decision.interrupt_id]
        try:
            may_decide(me, interrupt, machine.starter, can_use)
        except NotFound:  # to who sees the run, an interrupt that is not theirs to answer is no secret
            raise Forbidden("this is not yours to decide", {"reason": "not_an_approver"}) from None
        check_answer(interrupt, decision, f"decisions[{index}]." if "decisions" in data else "")
    if not decisions and not can_use:
        raise Forbidden("resuming takes the use of what runs", {"canUse": False})
    return decisions


def still_the_latest(row: RunRow, machine: Machine) -> None:
    """A Conflict for a run that another one took over."""
    if machine.run_id != row.id:
        raise conflict(f"run `{row.id}` was resumed", "already_resumed")


def apply(machine: Machine, entry: e.Entry) -> None:
    """Apply what a client asked for; what cannot happen in this state is a Conflict."""
    try:
        machine.apply(entry)
    except IllegalEntry as error:
        raise Conflict(str(error), error.info) from None


def _decisions(row: RunRow, machine: Machine, data: Mapping[str, JSON]) -> tuple[e.Decision, ...]:
    still_the_latest(row, machine)
    if machine.ended:
        raise conflict(f"run `{row.id}` has ended as `{machine.status}`", "not_interrupted")
    waiting = machine.interrupts
    if "decisions" in data:
        wanted = [(d["interruptId"], d["decision"], d.get("data")) for d in data["decisions"]]
    elif "decision" in data:
        chosen = data.get("interruptId")
        if chosen is None and len(waiting) > 1:
            raise conflict("several interrupts are open; name one", "ambiguous", interruptIds=list(waiting))
        wanted = [(chosen or next(iter(waiting), None), data["decision"], data.get("data"))]
    elif waiting and not (machine.paused and not machine.turn_open):
        refuse([Issue("decision", "is needed to resume this run", "required_if")])
        return ()
    else:
        wanted = []
    for interrupt_id, _, _ in wanted:
        if interrupt_id is None:
            raise conflict(f"run `{row.id}` waits for no decision", "not_interrupted")
        if interrupt_id not in waiting and interrupt_id in machine.interrupt_history:
            raise conflict(f"interrupt `{interrupt_id}` is not open", "already_resumed")
    refuse([
        Issue(f"decisions[{index}].interruptId" if "decisions" in data else "interruptId",
              f"there is no interrupt `{str(interrupt_id)[:80]}`", "reference")
        for index, (interrupt_id, _, _) in enumerate(wanted)
        if interrupt_id not in waiting
    ])  # fmt: skip
    return tuple(e.Decision(str(interrupt_id), decision, form) for interrupt_id, decision, form in wanted)
