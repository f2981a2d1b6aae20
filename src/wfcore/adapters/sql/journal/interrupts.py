"""Writing the interrupts of an execution: the open ones, those that ended, and the index of who can see them."""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from wfcore.adapters.sql.journal import interrupt_statements as inbox
from wfcore.adapters.sql.journal.conversion import first_interrupt_text, interrupt_text, to_interrupt
from wfcore.adapters.sql.store import CommitTransaction
from wfcore.domain.run.state import Interrupt
from wfcore.ports.journal import Append, NewExecution
from wfcore.ports.repositories.inbox import approvers_of, closed_interrupts, is_target


class _Stored(Struct, frozen=True):
    """The row of an open interrupt."""

    key: int
    resource: int | None
    interrupt: Interrupt

    @property
    def has_approvers(self) -> bool:
        """Whether it has approvers besides those who can use the resource, or users who cannot decide it."""
        return self.resource is None or self.interrupt.escalated_to != ((), ()) or self.has_barred

    @property
    def has_barred(self) -> bool:
        return bool(self.interrupt.barred(""))


def write(
    transaction: CommitTransaction, number: int, org: int | None, append: Append, new: NewExecution | None = None
) -> None:
    """Replace the open interrupts, if the append has them. One that was open before keeps its key.

    `new` is the execution, if it had none before.
    """
    if append.interrupts is None:
        return
    run = append.new_run
    rows = transaction.execute(inbox.INTERRUPTS_OF, (number,)).fetchall() if new is None else []
    before = {
        (one := to_interrupt(body, *first_run)).id: _Stored(key, resource, one)
        for key, body, resource, *first_run in rows
    }
    found = [(one, before.pop(one.id, None)) for one in append.interrupts]
    changed = [(one, old) for one, old in found if old is None or one != old.interrupt]
    if not changed:
        target: tuple[Any, ...] = ()
    elif new is None:
        (target,) = transaction.execute(inbox.TARGET, (number,)).fetchall()
    else:
        target = new.kind, new.resource_id, new.user_id
    for one, old in changed:
        subjects = _subjects(one, target)
        is_of_users = not one.named and target[1] is not None
        if old is None:
            text = interrupt_text(one) if new is None or run is None else first_interrupt_text(one, run)
            row = org, number, text, is_of_users, one.expires_at, inbox.hash_of(one.id)
            key = transaction.insert(inbox.ADD_INTERRUPT, row)
        else:
            key = old.key
            new_row = key, number, interrupt_text(one), is_of_users, one.expires_at
            transaction.executemany(inbox.CHANGE_INTERRUPT, [new_row])
            if not set(subjects).issuperset(_subjects(old.interrupt, target)):
                transaction.executemany(inbox.DROP_APPROVERS, [(key,)])
        _add_approvers(transaction, org, key, subjects, closed=0)
    if before:
        _close(transaction, org, append, before)


def _close(transaction: CommitTransaction, org: int | None, append: Append, before: dict[str, "_Stored"]) -> None:
    """Keep those that were decided or have expired, and drop those that were withdrawn."""
    opened = {name: stored.interrupt for name, stored in before.items()}
    for one in closed_interrupts(opened, (), append.entries):
        stored = before[one.interrupt.id]
        transaction.executemany(inbox.ADD_CLOSED, [(stored.key, interrupt_text(one.interrupt), one.decision, one.at)])
        if stored.has_approvers:
            transaction.executemany(inbox.CLOSE_APPROVERS, [(stored.key,)])
        if stored.has_barred:
            transaction.executemany(inbox.DROP_BARRED, [(stored.key,)])
        _add_approvers(transaction, org, stored.key, one.deciders, closed=1)
        del opened[one.interrupt.id]
    if dropped := [(before[name].key,) for name in opened if before[name].has_approvers]:
        transaction.executemany(inbox.DROP_APPROVERS, dropped)
    transaction.executemany(inbox.DROP_INTERRUPT, [(stored.key,) for stored in before.values()])


def _subjects(interrupt: Interrupt, target: tuple[Any, ...]) -> list[str]:
    """The approvers with rows of their own; those who can use the resource are found by it, if no approver is named.

    Users who cannot decide it although they see it have rows too, so that it is left out for them.
    """
    listed = [subject for subject in approvers_of(interrupt, *target) if not is_target(subject)]
    return [*listed, *map(inbox.barred_subject, interrupt.barred(target[2]))]


def _add_approvers(
    transaction: CommitTransaction, org: int | None, key: int, subjects: Iterable[str], *, closed: int
) -> None:
    rows = [(org, subject, closed, key) for subject in subjects]
    if rows:
        transaction.executemany(inbox.ADD_APPROVER, rows)
