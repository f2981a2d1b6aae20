"""The webhooks of one organization's workflows, in a dict."""

import attrs

from wfcore.ports.repositories.webhooks import WebhookRow


@attrs.frozen
class MemoryWebhooks:
    """Implements the port `WebhookRepository`."""

    rows: dict[int, WebhookRow]

    async def get(self, workflow_id: int) -> WebhookRow | None:
        return self.rows.get(workflow_id)

    async def put(self, row: WebhookRow) -> None:
        self.rows[row.workflow_id] = row
