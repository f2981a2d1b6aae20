"""Several databases, the shards of one installation, as a copy reads them: one database with all organizations."""

import heapq
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import sqlalchemy as sa

from wfcore.adapters.sql.schema.tables import metadata, workers
from wfcore.adapters.sql.transfer.databases import CopySource, Row


class MergedSource:
    """Implements `CopySource` over others. What is not of an organization, and in several of them, is read once."""

    def __init__(self, parts: Sequence[CopySource]) -> None:
        self._parts = parts

    def lock(self) -> None:
        for part in self._parts:
            part.lock()

    def count(self, table: sa.Table) -> int:
        if table is _SUBSCRIPTIONS:  # those of handlers are on every shard
            return sum(1 for _ in self.rows(table))
        return sum(part.count(table) for part in self._of(table))

    def rows(self, table: sa.Table) -> Iterator[Row]:
        key, last = _key_of(table), None
        for row in heapq.merge(*(part.rows(table) for part in self._of(table)), key=key):
            if key(row) != last:
                yield row
            last = key(row)

    def last_number(self, table: sa.Table, column: sa.Column[Any]) -> int:
        return max(part.last_number(table, column) for part in self._parts)

    def _of(self, table: sa.Table) -> Sequence[CopySource]:
        return self._parts[:1] if table is workers else self._parts


_SUBSCRIPTIONS = metadata.tables["wfcore_subscriptions"]


def _key_of(table: sa.Table) -> Callable[[Row], tuple[Any, ...]]:
    """The primary key of a row, in the order of the databases: texts by their bytes."""
    places = [list(table.columns).index(column) for column in table.primary_key.columns]

    def key(row: Row) -> tuple[Any, ...]:
        return tuple(row[at].encode() if isinstance(row[at], str) else row[at] for at in places)

    return key
