"""The audit of one organization, in a table."""

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

import attrs

from wfcore.adapters.sql.repositories.row_values import from_ms, to_json, to_ms
from wfcore.adapters.sql.schema.deferred import sa
from wfcore.adapters.sql.schema.named_tables import audit
from wfcore.adapters.sql.schema.statement import Statement
from wfcore.adapters.sql.store import CommitTransaction, Transaction
from wfcore.ports.repositories.audit import AuditFilter, AuditRow, Origin

ADD_ROW: Final = Statement(
    lambda d: (
        f"""
INSERT INTO {d[audit]} (org, at, user_id, action, kind, resource_id, details, request_id, remote_address)
{d.inserted(", ".join(d[number] for number in range(1, 10)))}"""
    ),
    types="bigint bigint text text text text text text text",
)

_BEGINNING, _END = -(2**63), 2**63 - 1
"""The times, in milliseconds, before and after all others."""


@attrs.frozen
class SqlAudit:
    """Implements the port `AuditRepository` within one transaction. `org` is the organization's key."""

    connection: Transaction
    org: int

    async def add(self, row: AuditRow) -> None:
        await self.connection.execute(audit.insert(), audit_row(self.org, row))

    async def page(
        self, wanted: AuditFilter, *, limit: int, before: tuple[datetime, int] | None = None
    ) -> list[AuditRow]:
        found = self.page_statement(wanted, limit=limit, before=before)
        return [_to_row(row) for row in await self.connection.execute(found)]

    def page_statement(
        self, wanted: AuditFilter, *, limit: int, before: tuple[datetime, int] | None
    ) -> "sa.Select[Any]":
        """One backward scan of an index by time: that of the user or of the action if one is given."""
        found = sa.select(audit).where(audit.c.org == self.org)
        if wanted.user_id is not None:
            found = found.where(audit.c.user_id == wanted.user_id)
        if wanted.action is not None:
            found = found.where(audit.c.action == wanted.action)
        first = _BEGINNING if wanted.since is None else to_ms(wanted.since)
        last = _END if wanted.until is None else to_ms(wanted.until) - 1
        if before is not None:
            at, key = to_ms(before[0]), before[1]
            last = min(at, last)
            found = found.where((audit.c.at != at) | (audit.c.key < key))
        # With two comparisons, or those of rows, SQLite 3.53 takes the index of all rows of the organization.
        found = found.where(audit.c.at.between(first, last))
        return found.order_by(audit.c.at.desc(), audit.c.key.desc()).limit(limit)


def audit_row(org: int | None, row: AuditRow) -> dict[str, Any]:
    """The columns in the order of `ADD_ROW`."""
    return {
        "org": org,
        "at": to_ms(row.at),
        "user_id": row.user_id,
        "action": row.action,
        "kind": row.kind,
        "resource_id": row.resource_id,
        "details": to_json(row.details),
        "request_id": row.origin.request_id,
        "remote_address": row.origin.remote_address,
    }


def add_rows(transaction: CommitTransaction, org: int | None, rows: Iterable[AuditRow]) -> None:
    """Add rows as `SqlAudit.add`, within the journal's transaction."""
    transaction.executemany(ADD_ROW, [tuple(audit_row(org, one).values()) for one in rows])


def _to_row(row: "sa.Row[Any]") -> AuditRow:
    return AuditRow(
        from_ms(row.at),
        row.user_id,
        row.action,
        row.kind,
        row.resource_id,
        json.loads(row.details),
        Origin(row.request_id, row.remote_address),
        row.key,
    )
