"""The rows that an append writes in one transaction."""

from collections.abc import Sequence
from typing import Any, Final

from wfcore.adapters.sql.journal import claim_statements as claims
from wfcore.adapters.sql.journal import conversion, interrupts
from wfcore.adapters.sql.journal import statements as sql
from wfcore.adapters.sql.journal.checksums import Text, following
from wfcore.adapters.sql.repositories.audit import add_rows
from wfcore.adapters.sql.repositories.conversations import add_messages
from wfcore.adapters.sql.repositories.hooks import add_notices
from wfcore.adapters.sql.repositories.row_values import to_key
from wfcore.adapters.sql.repositories.usage import add_usage
from wfcore.adapters.sql.repositories.verdicts import put_verdict
from wfcore.adapters.sql.store import CommitTransaction, Rows
from wfcore.domain.kernel.errors import NotFound
from wfcore.domain.run.entries import encode_entry
from wfcore.ports.journal import Append, JournalConflict, NewExecution, NewRun, RunChange, RunExists

AppendRow = tuple[int, int, int | None, int | None, str, int, int]
"""The values of `APPEND`."""

CHECKSUM: Final = 5
"""The position of an entry's checksum in its row."""


def entry_rows(number: int, org: int | None, append: Append, texts: Sequence[Text], before: int) -> Rows:
    """The values of `APPEND` for each entry. `before` is the checksum of the entry before them; 0 before the first."""
    rows = []
    for pos, (text, checksum) in enumerate(texts, append.expected + 1):
        rows.append((number, pos, org, append.holder, text, checksum, before))
        before = checksum
    return rows


def plain_rows(number: int, org: int | None, append: Append, before: int) -> list[AppendRow]:
    """The same for an append of nothing but entries, which are encoded here."""
    rows, holder = list[AppendRow](), append.holder
    for pos, entry in enumerate(append.entries, append.expected + 1):
        text = encode_entry(entry)
        checksum = following(text, before)
        rows.append((number, pos, org, holder, text.decode(), checksum, before))
        before = checksum
    return rows


def begin(
    row: tuple[Any, ...],
    worker: int | None,
    org: int,
    run: NewRun,
    new: NewExecution,
    append: Append,
    texts: Sequence[Text],
    transaction: CommitTransaction,
) -> tuple[int, int | None]:
    """Write an execution, its first run and its first entries. Returns its number, and the worker that holds it."""
    number, holder = add_execution(transaction, row, worker)
    target = conversion.target_of(new.kind, new.resource_id)
    values = run_row(number, org, run if holder == worker else run.queued(), target)
    transaction.change(sql.ADD_RUN, values, run_exists(run))
    transaction.executemany(sql.BEGIN, [(number, pos, *text) for pos, text in enumerate(texts, 1)])
    for change in append.changes:
        change_run(transaction, number, org, change)
    interrupts.write(transaction, number, org, append, new)
    add_projections(transaction, number, org, append)
    return number, holder


def write(
    transaction: CommitTransaction,
    number: int,
    org: int | None,
    append: Append,
    texts: Sequence[Text] = (),
    before: int = 0,
    target: int | None = None,
) -> None:
    """Write the entries and all rows that change with them. An existing run id is reported before a conflict.

    `target` is that of the execution, if it is known.
    """
    run = append.new_run
    if run and not transaction.execute(sql.ADD_RUN, run_row(number, org, run, target)).rowcount:
        raise run_exists(run)
    if (
        not texts
        and not transaction.execute(sql.CHECK_LENGTH, (number, append.expected, org, append.holder)).fetchone()
    ):
        raise JournalConflict("the journal does not have the expected length, or the claim is lost")
    transaction.executemany(sql.APPEND, entry_rows(number, org, append, texts, before))
    for change in append.changes:
        change_run(transaction, number, org, change)
    if append.interrupts is not None:
        interrupts.write(transaction, number, org, append)


def set_claim(transaction: CommitTransaction, number: int, org: int | None, append: Append) -> int | None:
    """Claim the execution, and return the epoch of the claim; or release it.

    A claim of an organization with a limit is not made: the new run is queued.
    """
    if append.claimed_by is None:
        transaction.executemany(sql.RELEASE, [(number, append.wake_at)])
        return None
    ((epoch, holder),) = transaction.execute(sql.CLAIM, (number, append.wake_at, append.claimed_by)).fetchall()
    if holder is not None:
        return int(epoch)
    if append.new_run:
        transaction.execute(sql.QUEUE_RUN, (org, append.new_run.id))
    return None


def add_projections(transaction: CommitTransaction, number: int, org: int | None, append: Append) -> None:
    """Write the messages, the usage, the verdict, the audit and the deliveries of the append."""
    if append.messages:
        add_messages(transaction, number, append.messages)
    if append.usage:
        add_usage(transaction, number, append.usage)
    if append.verdict is not None:
        put_verdict(transaction, number, append.verdict)
    if append.audit:
        add_rows(transaction, org, append.audit)
    if append.notices:
        add_notices(transaction, org, append.notices)


def add_execution(transaction: CommitTransaction, row: tuple[Any, ...], worker: int | None) -> tuple[int, int | None]:
    """Add an execution. Returns its number, and the worker that holds it: none if its organization has a limit."""
    if worker is not None and transaction.may_find(claims.HAS_LIMITS):
        ((number, holder),) = transaction.execute(sql.ADD_WITHIN_LIMIT, (*row, worker)).fetchall()
        return int(number), holder
    return transaction.insert(sql.ADD_EXECUTION, (*row, worker, int(worker is not None))), worker


def put_snapshot(transaction: CommitTransaction, number: int, org: int | None, append: Append, last: Text) -> None:
    """Write the snapshot of an append whose last entry is this, or delete the one before."""
    if not append.snapshot:
        transaction.executemany(sql.DELETE_SNAPSHOT, [(number,)])
        return
    length, checksum = append.expected + len(append.entries), following(append.snapshot, last[1])
    transaction.executemany(sql.PUT_SNAPSHOT, [(number, org, length, checksum, append.snapshot)])


def run_row(number: int, org: int | None, run: NewRun, target: int | None) -> tuple[Any, ...]:
    """The values of `ADD_RUN`."""
    finished = None if run.status.under_way else run.at
    result = None if run.result is None else conversion.to_json(run.result)
    return (org, run.id, number, run.user_id, run.fingerprint, run.status, run.parent_run_id, result, run.at, finished,
            conversion.stored_starter(run.started_by), conversion.stored_origin(run.origin), run.forked_from,
            to_key(run.variation_id), run.is_draft, target)  # fmt: skip


def run_exists(run: NewRun) -> RunExists:
    return RunExists(f"run `{run.id}` already exists")


def change_run(transaction: CommitTransaction, number: int, org: int | None, change: RunChange) -> None:
    result = None if change.result is None else conversion.to_json(change.result)
    row = (
        org,
        change.id,
        number,
        change.status,
        change.at,
        result,
        change.resumed_by,
        change.status.under_way,
        change.retried_by,
    )
    transaction.change(sql.CHANGE_RUN, row, NotFound(f"the execution has no run `{change.id}`"))
    if change.variation_id is not None:
        transaction.executemany(sql.MOVE_RUN, [(org, change.id, number, to_key(change.variation_id), False)])
