"""The records that belong directly to one organization, in a dict for each kind."""

from copy import deepcopy
from typing import Generic

import attrs

from wfcore.domain.people.delegations import Delegation
from wfcore.ports.storage import Duplicate, Row, Stale


@attrs.frozen
class MemoryRecords(Generic[Row]):
    """Implements the port `RecordRepository`."""

    rows: dict[str, Row]

    async def add(self, row: Row) -> None:
        if row.id in self.rows:
            raise Duplicate(row.id)
        self.rows[row.id] = deepcopy(row)

    async def get(self, id: str) -> Row | None:
        return deepcopy(self.rows.get(id))

    async def page(self, *, limit: int, after: str = "") -> list[Row]:
        names = sorted(name for name in self.rows if name > after)
        return [deepcopy(self.rows[name]) for name in names[:limit]]

    async def save(self, row: Row) -> None:
        if row.id not in self.rows:
            raise Stale(row.id)
        self.rows[row.id] = deepcopy(row)

    async def remove(self, id: str) -> None:
        self.rows.pop(id, None)


@attrs.frozen
class MemoryDelegations(MemoryRecords[Delegation]):
    """Implements the port `DelegationRepository`."""

    async def of(self, user_id: str) -> list[Delegation]:
        return [row for _, row in sorted(self.rows.items()) if row.concerns(user_id)]
