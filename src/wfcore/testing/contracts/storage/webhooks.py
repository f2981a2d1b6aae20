"""The part of the storage contract for webhooks."""

from wfcore.domain.kernel.ids import hash_secret
from wfcore.ports.repositories.webhooks import FoundWebhook, WebhookRow
from wfcore.ports.storage import Storage
from wfcore.testing.contracts.storage.values import ORG, OTHER_ORG


class WebhooksContract:
    """Inherit `StorageContract`, not this class."""

    async def test_a_webhook_is_read_as_written(self, store: Storage) -> None:
        """A workflow has one webhook: a second one replaces the first, which is not found any more."""
        first, second = WebhookRow(1, hash_secret("d1"), "s1"), WebhookRow(1, hash_secret("d2"), "s2")
        for row in (first, second):
            async with store.transaction(ORG) as work:
                await work.webhooks.put(row)
                assert await work.webhooks.get(1) == row
                assert await work.webhooks.get(2) is None
        assert await store.find_webhook("d1") is None
        assert await store.find_webhook("d2") == FoundWebhook(ORG, second)

    async def test_webhooks_are_paged_by_workflow(self, store: Storage) -> None:
        """In the order of the numbers, after a given one; those of one organization only."""
        rows = {number: WebhookRow(number, hash_secret(f"d{number}"), f"s{number}") for number in (10, 2, 1)}
        async with store.transaction(OTHER_ORG) as work:
            await work.webhooks.put(WebhookRow(3, hash_secret("d3"), "s3"))
        async with store.transaction(ORG) as work:
            for row in rows.values():
                await work.webhooks.put(row)
        async with store.reading(ORG) as work:
            assert await work.webhooks.page(limit=2) == [rows[1], rows[2]]
            assert await work.webhooks.page(limit=2, after=2) == [rows[10]]
            assert await work.webhooks.page(limit=2, after=10) == []

    async def test_webhooks_of_organizations_are_separate(self, store: Storage) -> None:
        """The same workflow id in two organizations has two webhooks; an id finds its own organization."""
        ids = {org: store.public_id(org, name) for org, name in ((ORG, "d1"), (OTHER_ORG, "d2"))}
        rows = {org: WebhookRow(1, hash_secret(ids[org]), "s1") for org in ids}
        for org, row in rows.items():
            async with store.transaction(org) as work:
                assert await work.webhooks.get(1) is None
                await work.webhooks.put(row)
        for org, row in rows.items():
            assert await store.find_webhook(ids[org]) == FoundWebhook(org, row)
