"""The pending deliveries of one organization's interfaces to team chats, in a table."""

import json
from typing import Any, Final

import attrs

from wfcore.adapters.sql.repositories.row_values import to_json
from wfcore.adapters.sql.schema.deferred import sa
from wfcore.adapters.sql.schema.named_tables import organizations, postings, runs
from wfcore.adapters.sql.schema.statement import Dialect, Statement
from wfcore.adapters.sql.store import Transaction
from wfcore.domain.run.state import RunStatus
from wfcore.ports.repositories.postings import Posting

DUE: Final = Statement(
    lambda d: (
        f"""
SELECT o.uuid, p.id FROM {d[postings]} p
JOIN {d[organizations]} o ON o.key = p.org JOIN {d[runs]} r ON r.org = p.org AND r.id = p.run_id
WHERE p.next_at <= {d[1]} AND r.status NOT IN ('queued', 'running')
  AND (r.resumed_by IS NOT NULL OR p.told IS NULL OR p.told <> r.status)
ORDER BY p.next_at LIMIT {d[2]}"""
    )
)
"""The pending deliveries of all organizations at a time, by an index; each takes one look-up of a run by its key."""


def _due_of_one(d: Dialect) -> str:
    return f"""
SELECT {d.selected("q", "id")} FROM {d[postings]} q WHERE q.org = w.org AND q.next_at <= {d[1]} AND (
    SELECT r.status NOT IN ('queued', 'running') AND (r.resumed_by IS NOT NULL OR q.told IS NULL OR q.told <> r.status)
    FROM {d[runs]} r WHERE r.org = q.org AND r.id = q.run_id
) ORDER BY q.next_at LIMIT {d[2]}"""


DUE_OF_EACH: Final = Statement(
    lambda d: (
        f"""
WITH RECURSIVE waiting (org) AS (
    SELECT min(org) FROM {d[postings]} WHERE next_at IS NOT NULL
    UNION ALL
    SELECT (SELECT min(org) FROM {d[postings]} WHERE org > w.org AND next_at IS NOT NULL)
    FROM waiting w WHERE w.org IS NOT NULL
)
SELECT o.uuid, x.id FROM {d.for_each("waiting w", _due_of_one(d), d[postings], "x.org = w.org AND x.id")}
{d.join()} {d[organizations]} o ON o.key = w.org ORDER BY x.next_at"""
    )
)
"""The same with the limit for each organization."""


@attrs.frozen
class SqlPostings:
    """Implements the port `PostingRepository` within one transaction. `org` is the organization's key."""

    connection: Transaction
    org: int

    async def get(self, id: str) -> Posting | None:
        row = (await self.connection.execute(sa.select(postings).where(*self._of(id)))).first()
        return _posting(row) if row else None

    async def put(self, posting: Posting) -> None:
        await self.remove(posting.id)
        row = attrs.asdict(posting, recurse=False) | {"org": self.org, "place": to_json(posting.place)}
        row["told"], row["mark"] = row.pop("reported"), row.pop("fingerprint")
        await self.connection.execute(postings.insert().values(row))

    async def remove(self, id: str) -> None:
        await self.connection.execute(postings.delete().where(*self._of(id)))

    def _of(self, id: str) -> "tuple[sa.ColumnElement[bool], ...]":
        return postings.c.org == self.org, postings.c.id == id


def _posting(row: "sa.Row[Any]") -> Posting:
    place, reported = json.loads(row.place), RunStatus(row.told) if row.told else None
    return Posting(row.id, row.interface_id, row.mark, place, row.run_id, row.next_at, reported, row.tries)
