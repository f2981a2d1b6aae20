"""The idempotency records of one organization, in a dict."""

from copy import deepcopy

import attrs

from wfcore.ports.storage import Duplicate, IdempotencyRecord

IdempotencyKey = tuple[str, str, str]
"""The kind of the created object, the caller, the Idempotency-Key."""


@attrs.frozen
class MemoryIdempotency:
    """Implements the port `IdempotencyRepository`."""

    rows: dict[IdempotencyKey, IdempotencyRecord]

    async def find(self, kind: str, user_id: str, key: str) -> IdempotencyRecord | None:
        return deepcopy(self.rows.get((kind, user_id, key)))

    async def add(self, kind: str, user_id: str, key: str, record: IdempotencyRecord) -> None:
        if (kind, user_id, key) in self.rows:
            raise Duplicate("kept")
        self.rows[kind, user_id, key] = deepcopy(record)
