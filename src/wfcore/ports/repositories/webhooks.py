"""The webhooks of workflows as they are stored: a row alone does not allow its reader to send a message."""

from typing import Protocol

import attrs


@attrs.frozen
class WebhookRow:
    """The webhook of one workflow: the digest of its id, by which it is found, and the sealed id and secret."""

    workflow_id: int
    digest: str
    sealed: str


@attrs.frozen
class FoundWebhook:
    """A webhook and its organization."""

    org: str
    row: WebhookRow


class WebhookRepository(Protocol):
    """The webhooks of one organization's workflows. The workflow of a row need not exist."""

    async def get(self, workflow_id: int) -> WebhookRow | None: ...

    async def page(self, *, limit: int, after: int = 0) -> list[WebhookRow]:
        """By workflow, ascending, workflows greater than `after`."""
        ...

    async def put(self, row: WebhookRow) -> None:
        """Add the row, or replace that of the same workflow. `Duplicate` when another workflow has its digest."""
        ...
