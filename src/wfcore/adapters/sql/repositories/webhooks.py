"""The webhooks of one organization's workflows, in a table."""

from typing import Any, Final

import attrs

from wfcore.adapters.sql.schema.deferred import sa
from wfcore.adapters.sql.schema.named_tables import organizations, webhooks
from wfcore.adapters.sql.schema.statement import Statement
from wfcore.adapters.sql.store import Transaction
from wfcore.ports.repositories.webhooks import WebhookRow

FIND: Final = Statement(
    lambda d: (
        f"""
SELECT o.uuid, w.workflow_id, w.digest, w.sealed FROM {d[webhooks]} w JOIN {d[organizations]} o ON o.key = w.org
WHERE w.digest = {d[1]}"""
    )
)
"""A webhook of any organization, by an index on its digest."""


@attrs.frozen
class SqlWebhooks:
    """Implements the port `WebhookRepository` within one transaction. `org` is the organization's key."""

    connection: Transaction
    org: int

    async def get(self, workflow_id: int) -> WebhookRow | None:
        row = (await self.connection.execute(sa.select(webhooks).where(*self._of(workflow_id)))).first()
        return _webhook(row) if row else None

    async def page(self, *, limit: int, after: int = 0) -> list[WebhookRow]:
        found = sa.select(webhooks).where(webhooks.c.org == self.org, webhooks.c.workflow_id > after)
        rows = (await self.connection.execute(found.order_by(webhooks.c.workflow_id).limit(limit))).all()
        return [_webhook(row) for row in rows]

    async def put(self, row: WebhookRow) -> None:
        await self.connection.execute(webhooks.delete().where(*self._of(row.workflow_id)))
        await self.connection.execute(webhooks.insert().values(attrs.asdict(row) | {"org": self.org}))

    def _of(self, workflow_id: int) -> "tuple[sa.ColumnElement[bool], ...]":
        return webhooks.c.org == self.org, webhooks.c.workflow_id == workflow_id


def _webhook(row: "sa.Row[Any]") -> WebhookRow:
    return WebhookRow(row.workflow_id, row.digest, row.sealed)
