"""The timers of one organization, in a table."""

import json
from typing import Any, Final

import attrs

from wfcore.adapters.sql.repositories.row_values import to_json
from wfcore.adapters.sql.schema.deferred import sa
from wfcore.adapters.sql.schema.named_tables import organizations, schedules
from wfcore.adapters.sql.schema.statement import Dialect, Statement
from wfcore.adapters.sql.store import Transaction
from wfcore.ports.repositories.schedules import Missed, Pause, Successor, Timer

DUE: Final = Statement(
    lambda d: (
        f"""
SELECT o.uuid, s.workflow_id FROM {d[schedules]} s JOIN {d[organizations]} o ON o.key = s.org
WHERE s.next_at <= {d[1]} ORDER BY s.next_at LIMIT {d[2]}"""
    )
)
"""The timers of all organizations that are due at a time, by an index."""


def _due_of_one(d: Dialect) -> str:
    return f"""
SELECT {d.selected("q", "workflow_id")} FROM {d[schedules]} q WHERE q.org = w.org AND q.next_at <= {d[1]}
ORDER BY q.next_at LIMIT {d[2]}"""


DUE_OF_EACH: Final = Statement(
    lambda d: (
        f"""
WITH RECURSIVE waiting (org) AS (
    SELECT min(org) FROM {d[schedules]} WHERE next_at IS NOT NULL
    UNION ALL
    SELECT (SELECT min(org) FROM {d[schedules]} WHERE org > w.org AND next_at IS NOT NULL)
    FROM waiting w WHERE w.org IS NOT NULL
)
SELECT o.uuid, x.workflow_id
FROM {d.for_each("waiting w", _due_of_one(d), d[schedules], "x.org = w.org AND x.workflow_id")}
{d.join()} {d[organizations]} o ON o.key = w.org ORDER BY x.next_at"""
    )
)
"""The same with the limit for each organization."""


@attrs.frozen
class SqlSchedules:
    """Implements the port `ScheduleRepository` within one transaction. `org` is the organization's key."""

    connection: Transaction
    org: int

    async def get(self, workflow_id: int) -> Timer | None:
        row = (await self.connection.execute(sa.select(schedules).where(*self._of(workflow_id)))).first()
        return _timer(row) if row else None

    async def put(self, timer: Timer) -> None:
        await self.remove(timer.workflow_id)
        missed = to_json([[one.at, one.reason] for one in timer.missed])
        paused = to_json(attrs.astuple(timer.paused)) if timer.paused else None
        later = to_json([[one.variation_id, one.at] for one in timer.later]) if timer.later else None
        own = {"org": self.org, "missed": missed, "paused": paused, "later": later}
        row = attrs.asdict(timer, recurse=False) | own
        await self.connection.execute(schedules.insert().values(row))

    async def remove(self, workflow_id: int) -> None:
        await self.connection.execute(schedules.delete().where(*self._of(workflow_id)))

    def _of(self, workflow_id: int) -> "tuple[sa.ColumnElement[bool], ...]":
        return schedules.c.org == self.org, schedules.c.workflow_id == workflow_id


def _timer(row: "sa.Row[Any]") -> Timer:
    missed = tuple(Missed(at, reason) for at, reason in json.loads(row.missed))
    paused = Pause(*json.loads(row.paused)) if row.paused else None
    later = tuple(Successor(*one) for one in json.loads(row.later or "[]"))
    return Timer(row.workflow_id, row.variation_id, row.next_at, paused, row.last_run_id, missed, later)
