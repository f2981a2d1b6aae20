"""Several sources of a copy as one."""

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

from wfcore.adapters.sql.schema.tables import metadata, organizations, workers
from wfcore.adapters.sql.transfer.databases import Row
from wfcore.adapters.sql.transfer.merged import MergedSource

SUBSCRIPTIONS = metadata.tables["wfcore_subscriptions"]


class Source:
    """Rows in memory, by table."""

    def __init__(self, found: dict[sa.Table, list[Row]], last: int) -> None:
        self._found = found
        self._last = last
        self.is_locked = False

    def lock(self) -> None:
        self.is_locked = True

    def count(self, table: sa.Table) -> int:
        return len(self._found[table])

    def rows(self, table: sa.Table) -> Iterator[Row]:
        return iter(self._found[table])

    def last_number(self, table: sa.Table, column: sa.Column[Any]) -> int:
        return self._last


def test_rows_are_merged_by_primary_key() -> None:
    """Texts by their bytes. Subscriptions of handlers are on every shard, workers are those of the first."""
    handler, umlaut = (0, "run.finished", "", "h", None), (1, "run.finished", "\u00e4", "", None)
    one = Source({organizations: [(1,), (4,)], workers: [(7,)], SUBSCRIPTIONS: [handler, umlaut]}, 4)
    other = Source({organizations: [(2,), (3,)], workers: [(7,)], SUBSCRIPTIONS: [handler]}, 9)
    both = MergedSource([one, other])
    expected = {organizations: [(1,), (2,), (3,), (4,)], workers: [(7,)], SUBSCRIPTIONS: [handler, umlaut]}
    for table, rows in expected.items():
        assert (list(both.rows(table)), both.count(table)) == (rows, len(rows))
    assert both.last_number(organizations, organizations.c.key) == 9
    both.lock()
    assert one.is_locked
    assert other.is_locked
