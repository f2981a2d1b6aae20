"""The copy of a database into an empty one, SQLite or PostgreSQL, which is verified row by row before it commits."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import zip_longest
from types import MappingProxyType
from typing import Final

import attrs
import sqlalchemy as sa

from wfcore.adapters.sql import migrations
from wfcore.adapters.sql.sqlite.database import create_private
from wfcore.adapters.sql.transfer.databases import (
    BATCH,
    TABLES,
    Address,
    CopyDatabase,
    CopySource,
    Row,
    numbered,
    opened,
    revision_of,
)
from wfcore.adapters.sql.transfer.merged import MergedSource
from wfcore.domain.kernel.errors import Conflict, Unavailable

OnProgress = Callable[[int, int], None]
"""Called with how many rows were copied or verified, and how many there are in all, each counted twice."""


@attrs.frozen
class Copied:
    """The outcome of a copy: the rows of each table that has some."""

    rows: dict[str, int]

    @property
    def total(self) -> int:
        return sum(self.rows.values())


def copy(
    source: Address,
    target: Address,
    *,
    shards: Mapping[str, Address] = MappingProxyType({}),
    online: bool = False,
    on_progress: OnProgress = lambda _done, _of: None,
) -> Copied:
    """Copy all rows of wfcore into a database that has none of them; its schema is created if it is missing.

    The rows of further `shards` of the source, by name, are copied too; each is read in one state. All of it is one
    transaction of the target. Other writers of the source wait meanwhile; with `online` they go on, and the copy has
    one state of the source. Parked runs continue on the copy.

    Raises Conflict when the target has rows of wfcore, when the source has other shards, and, without `online`, when
    another process has its SQLite file open, which would drive the runs of the copy too. Raises Unavailable when the
    source has not the schema of this release, when a database does not respond, and when a row of the copy differs.
    """
    if source.file is not None and not source.file.exists():
        raise Unavailable(f"database `{source.file}` does not exist")
    if source == target:
        raise Conflict("source and target are the same database")
    with ExitStack() as stack:
        parts = [_opened_source(stack, each, online=online) for each in (source, *shards.values())]
        for name in parts[0].shards():
            if name not in shards:
                raise Conflict(f"the source has organizations on shard `{name}`, which is not in `[shards]`")
        read: CopySource = MergedSource(parts) if shards else parts[0]
        if not online:
            read.lock()
        with _new_target(target) as written:
            return _copied(read, written, on_progress)


def check_empty(target: Address) -> None:
    """Raises as `copy` does for a target that cannot be used. Changes nothing."""
    if target.file is None or target.file.exists():
        with opened(target, begin="DEFERRED") as found:
            _has_schema(found, target)


def _opened_source(stack: ExitStack, source: Address, *, online: bool) -> CopyDatabase:
    read = stack.enter_context(opened(source, begin="DEFERRED" if online else "EXCLUSIVE"))
    fault = migrations.fault(revision_of(read, source))
    if fault is not None:
        raise Unavailable(f"the source cannot be copied: {fault}")
    return read


@contextmanager
def _new_target(target: Address) -> Iterator[CopyDatabase]:
    """The target, without rows. A file that this creates is deleted when the copy fails."""
    file = target.file
    is_new = file is not None and not file.exists()
    if file is not None and is_new:
        create_private(file)
    try:
        with opened(target) as written:
            _prepare(written, target, is_new=is_new)
            yield written
    except BaseException:
        if file is not None and is_new:
            file.unlink(missing_ok=True)
        raise


def _prepare(written: CopyDatabase, target: Address, *, is_new: bool) -> None:
    """Create the schema, or check that it has no rows. A new file needs no steps."""
    if is_new:
        for statement in migrations.new_file():
            written.connection.exec_driver_sql(statement)
    elif not _has_schema(written, target):
        migrations.upgrade(written.connection, schema=target.schema)


def _has_schema(written: CopyDatabase, target: Address) -> bool:
    """Whether there is a schema, without rows: False without a schema. Raises when the target cannot be used."""
    found = revision_of(written, target)
    if found is None:
        return False
    fault = migrations.fault(found)
    if fault is not None:
        raise Unavailable(f"the target cannot be used: {fault}")
    if written.has_placements():
        raise Conflict("the target has placements of organizations: use a new database")
    for table in TABLES:
        if written.count(table):
            raise Conflict(f"the target has rows in `{table.name}`: use a database without rows of wfcore")
    return True


def _copied(read: CopySource, written: CopyDatabase, on_progress: OnProgress) -> Copied:
    counts = {table.name: read.count(table) for table in TABLES}
    progress = _Progress(2 * sum(counts.values()), on_progress)
    for table in TABLES:
        written.insert(table, progress.counted(read.rows(table)))
        column = numbered(table)
        if column is not None:
            written.set_last_number(table, column, read.last_number(table, column))
    for table in TABLES:
        _verify(table, progress.counted(read.rows(table)), written.rows(table))
    written.analyze()
    progress.end()
    return Copied({name: count for name, count in counts.items() if count})


_MISSING: Final = None


def _verify(table: sa.Table, rows: Iterator[Row], copies: Iterator[Row]) -> None:
    """Raises Unavailable unless both have the same rows."""
    for number, (row, made) in enumerate(zip_longest(rows, copies, fillvalue=_MISSING), 1):
        if row != made:
            raise Unavailable(f"row {number} of the copy of `{table.name}` differs: nothing was copied")


class _Progress:
    """Counts rows, and reports every `BATCH` of them."""

    def __init__(self, total: int, on_progress: OnProgress) -> None:
        self._total = total
        self._done = 0
        self._on_progress = on_progress

    def counted(self, rows: Iterator[Row]) -> Iterator[Row]:
        for row in rows:
            yield row
            self._done += 1
            if self._done % BATCH == 0:
                self._on_progress(self._done, self._total)

    def end(self) -> None:
        self._on_progress(self._total, self._total)
