"""What hooks and handlers are notified of: interrupts that open and end, and ends of executions."""

from collections.abc import Collection, Iterable, Iterator, Mapping

from msgspec import Struct, field

from wfcore.domain.run.entries import Entry, Resumed
from wfcore.domain.run.state import Interrupt, RunStatus


class Notice(Struct, frozen=True, gc=False):
    """One event. `kind` and `resource_id` are the target, `user_id` started the execution; `at` is in epoch
    milliseconds. `status` is that of the run, or why a schedule was paused.

    `handlers` are names of handlers that receive it even if the store does not know their registration yet.
    """

    event: str
    at: int
    kind: str
    resource_id: int | None
    user_id: str
    run_id: str = ""
    interrupt_id: str = ""
    status: str | None = None
    decision: str | None = None
    handlers: tuple[str, ...] = ()


class Moment(Struct, frozen=True, gc=False):
    """What is common to the notices of one append: the target, who started the execution, and the time."""

    kind: str
    resource_id: int | None
    user_id: str
    at: int
    handlers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The names of handlers by event."""

    def notice(
        self, event: str, run_id: str, status: str, interrupt_id: str = "", decision: str | None = None
    ) -> Notice:
        return Notice(event, self.at, self.kind, self.resource_id, self.user_id, run_id, interrupt_id, status,
                      decision, self.handlers.get(event, ()))  # fmt: skip


def interrupt_notices(
    moment: Moment, run_id: str, status: str, before: Collection[Interrupt], after: Mapping[str, Interrupt],
    entries: Iterable[Entry], interrupted_run_id: str = "",
) -> Iterator[Notice]:  # fmt: skip
    """The notices of interrupts that were open `before` or are open `after` these entries, but not both; and of those
    whose approvers were reminded.

    An interrupt that nobody decided and whose deadline has not passed ended with its run: it was cancelled.
    `interrupted_run_id` is the turn of the interrupts that have ended, if it is not the current one.
    """
    decided = {
        one.interrupt_id: one.decision for entry in entries if isinstance(entry, Resumed) for one in entry.decisions
    }
    for gone in before:
        if gone.id not in after:
            late = gone.expires_at is not None and gone.expires_at <= moment.at
            decision = decided.get(gone.id) or ("expired" if late else "cancelled")
            yield moment.notice("interrupt.resolved", interrupted_run_id or run_id, status, gone.id, decision)
    known = {one.id: one for one in before}
    for name, one in after.items():
        if name not in known:
            yield moment.notice("interrupt.opened", run_id, status, name)
        elif (one.reminded_at, one.escalated_at) != (known[name].reminded_at, known[name].escalated_at):
            yield moment.notice("interrupt.reminded", run_id, status, name)


def end_notices(moment: Moment, run_id: str, status: RunStatus) -> Iterator[Notice]:
    """The notice that the execution has ended with this turn; nothing while it is active or parked."""
    if status is RunStatus.error:
        yield moment.notice("run.failed", run_id, status)
    elif status in (RunStatus.done, RunStatus.cancelled):
        yield moment.notice("run.finished", run_id, status)
