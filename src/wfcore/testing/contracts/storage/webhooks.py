"""What every store of webhooks has to keep: a part of the storage contract."""

from wfcore.ports.storage import Storage
from wfcore.ports.webhooks import FoundWebhook, WebhookRow
from wfcore.testing.contracts.storage.values import ORG, OTHER_ORG


class WebhooksContract:
    """Inherited by `StorageContract`."""

    async def test_a_webhook_is_read_as_it_was_put(self, store: Storage) -> None:
        """A workflow has one: another one takes the place of the first, which is found no more."""
        first, second = WebhookRow(1, "d1", "s1"), WebhookRow(1, "d2", "s2")
        for row in (first, second):
            async with store.transaction(ORG) as work:
                await work.webhooks.put(row)
                assert await work.webhooks.get(1) == row
                assert await work.webhooks.get(2) is None
        assert await store.find_webhook("d1") is None
        assert await store.find_webhook("d2") == FoundWebhook(ORG, second)

    async def test_webhooks_of_organizations_are_apart(self, store: Storage) -> None:
        """The same workflow id in two organizations is two webhooks; by its digest each is found with its own."""
        rows = {ORG: WebhookRow(1, "d1", "s1"), OTHER_ORG: WebhookRow(1, "d2", "s2")}
        for org, row in rows.items():
            async with store.transaction(org) as work:
                assert await work.webhooks.get(1) is None
                await work.webhooks.put(row)
        for org, row in rows.items():
            assert await store.find_webhook(row.digest) == FoundWebhook(org, row)
