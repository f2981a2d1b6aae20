"""Writing the interrupts of an execution: the open ones, those that ended, and the index of who can see them."""

from collections.abc import Iterable
from typing import Any

from wfcore.adapters.sql.journal import interrupt_statements as inbox
from wfcore.adapters.sql.journal.conversion import interrupt_text, to_interrupt
from wfcore.adapters.sql.store import CommitTransaction
from wfcore.ports.journal import Append
from wfcore.ports.repositories.inbox import approvers_of, closed_interrupts


def write(
    transaction: CommitTransaction, number: int, org: int | None, append: Append, *, is_new: bool = False
) -> None:
    """Replace the open interrupts, if the append has them. One that was open before keeps its key.

    `is_new`: the execution had none before.
    """
    if append.interrupts is None:
        return
    rows = [] if is_new else transaction.execute(inbox.INTERRUPTS_OF, (number,)).fetchall()
    before = {to_interrupt(body).id: (key, body) for key, body in rows}
    found = [(one, *before.pop(one.id, (None, ""))) for one in append.interrupts]
    changed = [(one, key, text) for one, key, text in found if text != interrupt_text(one)]
    if changed:
        ((*target,),) = transaction.execute(inbox.TARGET, (number,)).fetchall()
    for one, known, text in changed:
        subjects = approvers_of(one, *target)
        if known is None:
            ((key,),) = transaction.execute(inbox.ADD_INTERRUPT, (org, number, interrupt_text(one))).fetchall()
        else:
            key = known
            transaction.execute(inbox.CHANGE_INTERRUPT, (key, interrupt_text(one)))
            if not set(subjects).issuperset(approvers_of(to_interrupt(text), *target)):
                transaction.execute(inbox.DROP_APPROVERS, (key,))
        _add_approvers(transaction, org, key, subjects, closed=0)
    if before:
        _close(transaction, number, org, append, before)


def _close(
    transaction: CommitTransaction, number: int, org: int | None, append: Append, before: dict[str, tuple[int, Any]]
) -> None:
    """Keep those that were decided or have expired, and drop those that were withdrawn."""
    opened = {name: to_interrupt(body) for name, (_, body) in before.items()}
    for one in closed_interrupts(opened, (), append.entries):
        key, _ = before[one.interrupt.id]
        row = (key, org, number, interrupt_text(one.interrupt), one.decision, one.at)
        transaction.execute(inbox.ADD_CLOSED, row)
        transaction.execute(inbox.CLOSE_APPROVERS, (key,))
        _add_approvers(transaction, org, key, one.deciders, closed=1)
        del opened[one.interrupt.id]
    transaction.executemany(inbox.DROP_APPROVERS, [(before[name][0],) for name in opened])
    transaction.executemany(inbox.DROP_INTERRUPT, [(key,) for key, _ in before.values()])


def _add_approvers(
    transaction: CommitTransaction, org: int | None, key: int, subjects: Iterable[str], *, closed: int
) -> None:
    transaction.executemany(inbox.ADD_APPROVER, [(org, subject, closed, key) for subject in subjects])
