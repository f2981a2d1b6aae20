"""The audit in an append-only list."""

from collections.abc import Iterable
from datetime import datetime

import attrs
from msgspec import structs

from wfcore.ports.repositories.audit import AuditFilter, AuditRow


@attrs.define
class AuditLog:
    """The rows of one organization, in the order in which they were committed."""

    rows: list[AuditRow] = attrs.Factory(list)
    last: int = 0

    def extend(self, rows: Iterable[AuditRow]) -> None:
        for row in rows:
            self.last += 1
            self.rows.append(structs.replace(row, key=self.last))

    def remove(self, row: AuditRow) -> None:
        self.rows = [one for one in self.rows if one.key != row.key]


@attrs.define
class MemoryAudit:
    """Implements the port `AuditRepository` within one transaction: a snapshot of the log, and the rows to append."""

    log: AuditLog
    rows: list[AuditRow] = attrs.field(init=False)
    added: list[AuditRow] = attrs.field(init=False, factory=list)

    @rows.default
    def _snapshot(self) -> list[AuditRow]:
        return list(self.log.rows)

    async def add(self, row: AuditRow) -> None:
        self.rows.append(structs.replace(row, key=self.log.last + len(self.added) + 1))
        self.added.append(row)

    def commit(self) -> None:
        self.log.extend(self.added)

    async def page(
        self, wanted: AuditFilter, *, limit: int, before: tuple[datetime, int] | None = None
    ) -> list[AuditRow]:
        found = [row for row in self.rows if _is_wanted(row, wanted)]
        newest_first = sorted(found, key=_place, reverse=True)
        return [row for row in newest_first if before is None or _place(row) < before][:limit]


def _place(row: AuditRow) -> tuple[datetime, int]:
    return row.at, row.key


def _is_wanted(row: AuditRow, wanted: AuditFilter) -> bool:
    return (
        wanted.user_id in (None, row.user_id)
        and wanted.action in (None, row.action)
        and (wanted.since is None or wanted.since <= row.at)
        and (wanted.until is None or row.at < wanted.until)
    )
