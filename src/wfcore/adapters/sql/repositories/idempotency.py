"""The idempotency records of one organization, in a table."""

import json

import attrs

from wfcore.adapters.sql.repositories.row_values import to_json
from wfcore.adapters.sql.schema.deferred import dialect, sa
from wfcore.adapters.sql.schema.named_tables import kept as records
from wfcore.adapters.sql.store import Transaction
from wfcore.ports.storage import Duplicate, IdempotencyRecord


@attrs.frozen
class SqlIdempotency:
    """Implements the port `IdempotencyRepository` within one transaction. `org` is the organization's key."""

    connection: Transaction
    org: int

    async def find(self, kind: str, user_id: str, key: str) -> IdempotencyRecord | None:
        wanted = {"org": self.org, "kind": kind, "user_id": user_id, "key": key}
        found = sa.select(records.c.fingerprint, records.c.answer).filter_by(**wanted)
        row = (await self.connection.execute(found)).first()
        return IdempotencyRecord(row.fingerprint, json.loads(row.answer)) if row else None

    async def add(self, kind: str, user_id: str, key: str, record: IdempotencyRecord) -> None:
        row = {"org": self.org, "kind": kind, "user_id": user_id, "key": key}
        row |= {"fingerprint": record.fingerprint, "answer": to_json(record.response)}
        if not (await self.connection.execute(dialect.insert_new(records).values(row))).rowcount:
            raise Duplicate("kept")
