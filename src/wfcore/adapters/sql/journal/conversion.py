"""The conversion of the rows of the journal."""

from collections.abc import Sequence
from itertools import islice
from typing import Any, Final

import msgspec
from msgspec import structs

from wfcore.adapters.sql.repositories.row_values import from_key
from wfcore.adapters.sql.schema.names import NO_RESOURCE
from wfcore.domain.kernel.ids import is_uuid
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.entries import Actor, Entry, Started, encode_entry, shortened
from wfcore.domain.run.state import Interrupt, RunStatus, interrupt_id
from wfcore.domain.run.versions import decode_stored
from wfcore.ports.journal import (
    HOUR,
    Execution,
    ExecutionRef,
    NewExecution,
    NewRun,
    OpenInterrupt,
    RunCount,
    RunRow,
    StarterKind,
    run_info,
    thread_of_run,
)

Row = Sequence[Any]

MOST_FIRST_RUNS: Final = 1_000
"""Executions whose first run is cached."""

STATUSES: Final = {str(status): status for status in RunStatus}
"""A look-up takes a tenth of the time of `RunStatus(text)`."""

DERIVED: Final = b'["start",1,0,"",null,{},{}]'
"""A compacted entry without a value of its own, which is stored as an empty text."""

OTHER_TARGETS: Final = {"assistant": NO_RESOURCE + 1, "action": NO_RESOURCE + 2}
_KINDS: Final = {target: kind for kind, target in OTHER_TARGETS.items()}


class _Stored(Interrupt, frozen=True, array_like=True):
    """An interrupt as an array of its fields."""


_interrupt = msgspec.json.Decoder(_Stored).decode
_OPENED_AT: Final = [field.name for field in structs.fields(Interrupt)].index("opened_at")


def to_json(value: Any) -> str:
    """A value as JSON text; a struct or an attrs value as an object of its fields."""
    return msgspec.json.encode(value).decode()


to_keys = msgspec.json.Decoder(list[int]).decode
"""The numbers of a JSON array that the database has made."""


def interrupt_text(interrupt: Interrupt) -> str:
    """An interrupt as a JSON array of its fields, the id first, without trailing fields that have their default."""
    return to_json(shortened(interrupt))


def first_interrupt_text(interrupt: Interrupt, run: NewRun) -> str:
    """The same for one that opens with the first run of its execution: without id and time, if they derive from it."""
    if interrupt.opened_at != run.at or interrupt.id != interrupt_id(run.id, interrupt.node_id, interrupt.visit):
        return interrupt_text(interrupt)
    values = shortened(interrupt)
    return to_json([*values[1:_OPENED_AT], *values[_OPENED_AT + 1 :]])


def to_interrupt(text: str, root_run_id: str, began_at: int) -> Interrupt:
    """The inverse of both, with the id and the time of the execution's first run."""
    if text.startswith('["'):
        return Interrupt(*structs.astuple(_interrupt(text)))
    values = msgspec.json.decode(text)
    stored = msgspec.convert(["", *values[: _OPENED_AT - 1], began_at, *values[_OPENED_AT - 1 :]], _Stored)
    return Interrupt(interrupt_id(root_run_id, stored.node_id, stored.visit), *structs.astuple(stored)[1:])


def compacted(entries: Sequence[Entry], run: NewRun, new: NewExecution) -> Sequence[Entry]:
    """The first entries, without values that the rows of their run and execution also hold. The run id is then empty.

    These values would take half of the storage of a waiting run.
    """
    started = entries[0] if entries else None
    if type(started) is not Started or (started.at, started.run_id) != (run.at, run.id):
        return entries
    shared, info = run_info(new.kind, new.resource_id, new.thread_id), started.info
    if list(islice(info.items(), len(shared))) != list(shared.items()):
        return entries
    own = {name: value for name, value in info.items() if name not in shared}
    by = None if started.by == Actor(new.user_id) else started.by
    return [structs.replace(started, at=0, run_id="", by=by, info=own), *entries[1:]]


def stored_entry(entry: Entry) -> bytes:
    """A compacted entry as it is stored: as JSON text, or empty."""
    text = encode_entry(entry)
    return b"" if text == DERIVED else text


def to_entry(text: str) -> Entry:
    """The inverse. ValueError for a tag or version that this release does not know."""
    return decode_stored(text or DERIVED)


def stored_thread(thread_id: str, run_id: str) -> str | None:
    """The thread as it is stored with the first run of its execution: None for one that derives from the run's id."""
    return None if thread_id == thread_of_run(run_id) and is_uuid(run_id) else thread_id


def target_of(kind: str, resource_id: int | None) -> int:
    """The target of a run as one number: workflows are positive, skills negative, others have no resource."""
    if kind == "workflow":
        return resource_id or 0
    return -(resource_id or 0) if kind == "skill" else OTHER_TARGETS[kind]


def target_range(kind: str) -> tuple[int, int]:
    """The least and the greatest target of workflows or of skills."""
    return (0, NO_RESOURCE) if kind == "workflow" else (-NO_RESOURCE, -1)


def of_target(target: int) -> tuple[str, int | None]:
    """The inverse of `target_of`: the kind, and the id of a resource."""
    if target < 0:
        return "skill", -target
    return ("workflow", target) if target < NO_RESOURCE else (_KINDS[target], None)


def to_counts(statuses: str, targets: str, hours: str, counts: str) -> list[RunCount]:
    """The numbers of runs by status, target and hour, of arrays in JSON."""
    names = msgspec.json.decode(statuses, type=list[str])
    rows = zip(names, to_keys(targets), to_keys(hours), to_keys(counts), strict=True)
    return [RunCount(STATUSES[status], *of_target(target), hour * HOUR, count) for status, target, hour, count in rows]


def stored_starter(started_by: StarterKind) -> str:
    """What started a run, as it is stored: "" for a person, as nearly always."""
    return "" if started_by == "person" else started_by


def stored_origin(origin: str) -> str:
    """The origin of a run as it is stored: "" for that of most."""
    return "" if origin == "api" else origin


def is_compacted(entry: Entry) -> bool:
    return type(entry) is Started and not entry.run_id


class FirstRuns:
    """A cache of rows of `FIRST_RUN`, which never change, by execution."""

    def __init__(self) -> None:
        self._rows: dict[int, Sequence[Any]] = {}

    def get(self, execution: int) -> Sequence[Any] | None:
        return self._rows.get(execution)

    def target(self, execution: int) -> int | None:
        """The `target_of` the execution, if it is in the cache."""
        row = self._rows.get(execution)
        return None if row is None else target_of(row[2], row[3])

    def put(self, execution: int, row: Sequence[Any]) -> None:
        if len(self._rows) >= MOST_FIRST_RUNS:
            self._rows.clear()
        self._rows[execution] = row


def restored(entry: Entry, row: Row) -> Entry:
    """The inverse of `compacted` for one entry, with the row of `FIRST_RUN`."""
    assert type(entry) is Started  # noqa: S101  (no other entry is compacted)
    at, run_id, kind, resource_id, thread_id, *user_id = row
    by = entry.by if entry.by != Actor("") else Actor(*user_id)
    info = {**run_info(kind, resource_id, thread_id), **entry.info}
    return structs.replace(entry, at=at, run_id=run_id, by=by, info=info)


def to_execution(org: str, row: Row) -> Execution:
    number, kind, resource_id, variation, *rest, is_draft, started_by, epoch = row
    user_id, thread_id, root, length, claimed_by = rest
    thread_id = thread_id or thread_of_run(root)
    ref, pinned = ExecutionRef(org, number), from_key(variation)
    return Execution(ref, kind, resource_id, pinned, user_id, thread_id, root, length, claimed_by, bool(is_draft),
                     started_by or "person", epoch)  # fmt: skip


def to_run(org: str, row: Row, thread_id: str = "") -> RunRow:
    """The run of a row with `run_columns`. `thread_id` replaces its thread."""
    (run_id, execution, user_id, fingerprint, status, parent, resumed_by, result, created_at, updated_at, finished_at,
     kind, resource_id, thread, key, started_by, origin, variation, is_draft, root_user_id, root_started_by, retried_by,
     forked_from, own_variation, own_is_draft) = row  # fmt: skip
    if own_variation is not None:
        variation, is_draft = own_variation, own_is_draft
    return RunRow(
        run_id,
        ExecutionRef(org, execution),
        user_id,
        fingerprint,
        STATUSES[status],
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
        started_by or "person",
        origin or "api",
        from_key(variation),
        bool(is_draft),
        root_user_id,
        root_started_by or "person",
        retried_by,
        forked_from,
    )


def to_turn(org: str, row: Row) -> tuple[RunRow, Execution]:
    """A run and its execution, of a row of `FIND_TURN`."""
    *columns, root, length, claimed_by, epoch = row
    kind, resource_id, thread_id, _, _, _, variation, is_draft, user_id, started_by = columns[11:21]
    thread_id = thread_id or thread_of_run(root)
    run = to_run(org, columns, thread_id)
    execution = Execution(run.execution, kind, resource_id, from_key(variation), user_id, thread_id, root, length,
                          claimed_by, bool(is_draft), started_by or "person", epoch)  # fmt: skip
    return run, execution


def to_open_interrupt(org: str, row: Row) -> OpenInterrupt:
    key, body, run_id, began_at, *columns = row
    execution = to_execution(org, columns)
    return OpenInterrupt(to_interrupt(body, execution.root_run_id, began_at), run_id, execution, key)


def to_inbox_item(org: str, row: Row) -> OpenInterrupt:
    *fields, decision, decided_at = row
    return structs.replace(to_open_interrupt(org, fields), decision=decision, decided_at=decided_at)


def _from_json(text: str | None) -> JSON:
    return None if text is None else msgspec.json.decode(text)
