"""The copy of a database into an empty one, SQLite or PostgreSQL, which is verified row by row before it commits."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import zip_longest
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
    Row,
    numbered,
    opened,
    revision_of,
)
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
    source: Address, target: Address, *, online: bool = False, on_progress: OnProgress = lambda _done, _of: None
) -> Copied:
    """Copy all rows of wfcore into a database that has none of them; its schema is created if it is missing.

    All of it is one transaction of the target. Other writers of the source wait meanwhile; with `online` they go on,
    and the copy has one state of the source. Parked runs continue on the copy.

    Raises Conflict when the target has rows of wfcore; Unavailable when the source has not the schema of this release,
    when a database does not respond, and when a row of the copy differs.
    """
    if source.file is not None and not source.file.exists():
        raise Unavailable(f"database `{source.file}` does not exist")
    if source == target:
        raise Conflict("source and target are the same database")
    with opened(source, begin="DEFERRED" if online else "IMMEDIATE") as read:
        fault = migrations.fault(revision_of(read, source))
        if fault is not None:
            raise Unavailable(f"the source cannot be copied: {fault}")
        if not online:
            read.lock()
        with _new_target(target) as written:
            return _copied(read, written, on_progress)


@contextmanager
def _new_target(target: Address) -> Iterator[CopyDatabase]:
    """The target, without rows. A file that this creates is deleted when the copy fails."""
    file = target.file
    is_new = file is not None and not file.exists()
    if file is not None and is_new:
        create_private(file)
    try:
        with opened(target) as written:
            _prepare(written, target)
            yield written
    except BaseException:
        if file is not None and is_new:
            file.unlink(missing_ok=True)
        raise


def _prepare(written: CopyDatabase, target: Address) -> None:
    """Create the schema, or check that it has no rows."""
    found = revision_of(written, target)
    if found is None:
        migrations.upgrade(written.connection, schema=target.schema)
        return
    fault = migrations.fault(found)
    if fault is not None:
        raise Unavailable(f"the target cannot be used: {fault}")
    for table in TABLES:
        if written.count(table):
            raise Conflict(f"the target has rows in `{table.name}`: use a database without rows of wfcore")


def _copied(read: CopyDatabase, written: CopyDatabase, on_progress: OnProgress) -> Copied:
    counts = {table.name: read.count(table) for table in TABLES}
    progress = _Progress(2 * sum(counts.values()), on_progress)
    for table in TABLES:
        written.insert(table, progress.counted(read.rows(table)))
        column = numbered(table)
        if column is not None:
            written.set_last_number(table, column, read.last_number(table, column))
    for table in TABLES:
        _verify(table, progress.counted(read.rows(table)), written.rows(table))
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
