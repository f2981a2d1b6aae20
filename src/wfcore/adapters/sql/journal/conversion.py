"""The conversion of the rows of the journal."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs
import msgspec
from msgspec import structs

from wfcore.adapters.sql.journal.statements import RUN_WIDTH
from wfcore.adapters.sql.repositories.row_values import from_key
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.entries import Entry, Started
from wfcore.domain.run.state import Interrupt, RunStatus
from wfcore.ports.journal import (
    Execution,
    ExecutionRef,
    NewExecution,
    NewRun,
    OpenInterrupt,
    RunRow,
    run_info,
    thread_of_run,
)

Row = Sequence[Any]

UUID_LENGTH: Final = 36
UUID_HYPHENS: Final = [8, 13, 18, 23]
"""The positions of the hyphens in a UUID (RFC 9562, 4)."""

_FIELDS: Final = structs.fields(Interrupt)
_interrupt = msgspec.json.Decoder(list[Any]).decode


def to_json(value: Any) -> str:
    """A value as JSON text; a struct or an attrs value as an object of its fields."""
    return msgspec.json.encode(value).decode()


def interrupt_text(interrupt: Interrupt) -> str:
    """An interrupt as a JSON array of its fields, the id first, without trailing fields that have their default."""
    values = structs.astuple(interrupt)
    length = len(values)
    while values[length - 1] == _FIELDS[length - 1].default:
        length -= 1
    return to_json(values[:length])


def to_interrupt(text: str) -> Interrupt:
    """The inverse of `interrupt_text`."""
    names = (field.name for field in _FIELDS)
    return msgspec.convert(dict(zip(names, _interrupt(text), strict=False)), Interrupt)


def compacted(entries: Sequence[Entry], run: NewRun, new: NewExecution) -> Sequence[Entry]:
    """The first entries, without values that the rows of their run and execution also hold. The run id is then empty.

    These values would take half of the storage of a waiting run.
    """
    shared = run_info(new.kind, new.resource_id, new.thread_id)
    match entries:
        case [Started(at=run.at, run_id=run.id, info=info) as started, *more] if _begins_with(info, shared):
            own = {name: value for name, value in info.items() if name not in shared}
            return [structs.replace(started, at=0, run_id="", info=own), *more]
    return entries


def stored_thread(thread_id: str, run_id: str) -> str | None:
    """The thread as it is stored with the first run of its execution: None for one that derives from the run's id."""
    is_uuid = len(run_id) == UUID_LENGTH and [at for at, one in enumerate(run_id) if one == "-"] == UUID_HYPHENS
    return None if is_uuid and thread_id == thread_of_run(run_id) else thread_id


def is_compacted(entry: Entry) -> bool:
    return type(entry) is Started and not entry.run_id


def restored(entry: Entry, row: Row) -> Entry:
    """The inverse of `compacted` for one entry, with the row of `FIRST_RUN`."""
    assert type(entry) is Started  # noqa: S101  (no other entry is compacted)
    at, run_id, *execution = row
    return structs.replace(entry, at=at, run_id=run_id, info={**run_info(*execution), **entry.info})


def _begins_with(info: Mapping[str, JSON], shared: Mapping[str, JSON]) -> bool:
    return list(info.items())[: len(shared)] == list(shared.items())


def to_execution(org: str, row: Row) -> Execution:
    number, kind, resource_id, variation, *rest, is_draft, started_by, epoch = row
    user_id, thread_id, root, length, claimed_by = rest
    ref, pinned = ExecutionRef(org, number), from_key(variation)
    return Execution(ref, kind, resource_id, pinned, user_id, thread_id, root, length, claimed_by, bool(is_draft),
                     started_by, epoch)  # fmt: skip


def to_run(org: str, row: Row, thread_id: str = "") -> RunRow:
    run_id, execution, user_id, fingerprint, status, parent, resumed_by, result, *rest = row
    *rest, retried_by, forked_from, own_variation, own_is_draft = rest
    *rest, started_by, origin, variation, is_draft, root_user_id, root_started_by = rest
    if own_variation is not None:
        variation, is_draft = own_variation, own_is_draft
    created_at, updated_at, finished_at, kind, resource_id, thread, key = rest
    return RunRow(
        run_id,
        ExecutionRef(org, execution),
        user_id,
        fingerprint,
        RunStatus(status),
        parent,
        resumed_by,
        _from_json(result),
        created_at,
        updated_at,
        finished_at,
        kind,
        resource_id,
        thread_id or thread,
        key,
        started_by,
        origin,
        from_key(variation),
        bool(is_draft),
        root_user_id,
        root_started_by,
        retried_by,
        forked_from,
    )


def to_turn(org: str, row: Row) -> tuple[RunRow, Execution]:
    """A run and its execution; the thread is a column of the execution only."""
    execution = to_execution(org, row[RUN_WIDTH:])
    return to_run(org, row[:RUN_WIDTH], execution.thread_id), execution


def to_open_interrupt(org: str, row: Row) -> OpenInterrupt:
    key, body, run_id, *execution = row
    return OpenInterrupt(to_interrupt(body), run_id, to_execution(org, execution), key)


def to_inbox_item(org: str, row: Row) -> OpenInterrupt:
    *fields, decision, decided_at = row
    return attrs.evolve(to_open_interrupt(org, fields), decision=decision, decided_at=decided_at)


def _from_json(text: str | None) -> JSON:
    return None if text is None else msgspec.json.decode(text)
