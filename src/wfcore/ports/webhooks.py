"""The webhooks of workflows, as they are kept: nothing in a row lets its reader send a message."""

from typing import Protocol

import attrs


@attrs.frozen
class WebhookRow:
    """The webhook of one workflow: the digest of its id, by which it is found, and id and secret, sealed."""

    workflow_id: int
    digest: str
    sealed: str


@attrs.frozen
class FoundWebhook:
    """Whose webhook it is."""

    org: str
    row: WebhookRow


class WebhookRepository(Protocol):
    """The webhooks of one organization's workflows. A workflow need not be there."""

    async def get(self, workflow_id: int) -> WebhookRow | None: ...

    async def put(self, row: WebhookRow) -> None:
        """Add it, or replace that of the same workflow. `Duplicate` when another workflow has its digest."""
        ...
