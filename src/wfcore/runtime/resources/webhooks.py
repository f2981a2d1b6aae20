"""The webhook of a workflow: where messages are sent, and the secret that signs them (Standard Webhooks 1.0.0)."""

from wfcore.domain.resources.access import Principal
from wfcore.domain.resources.lifecycle import Operation, move
from wfcore.domain.triggers.webhooks import Webhook, parse_webhook, secret_of
from wfcore.ports.repositories.webhooks import WebhookRow
from wfcore.ports.sealing import Unsealable, place_of_webhook
from wfcore.ports.storage import UnitOfWork
from wfcore.runtime.common.audit import audit
from wfcore.runtime.common.authorization import conflict, needs
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.resources.base import ResourceBase

ID_LENGTH = 43
"""Random characters of a webhook's id and of its key: 256 bits each."""


class WebhookUseCases(ResourceBase):
    """Both require manage of the workflow and the scope to write, because the secret can start runs."""

    @needs("*:write")
    async def webhook(self, me: Principal, id: int) -> Webhook:
        """The workflow's webhook, created by the first call.

        Conflict `secret_unreadable` when the key that sealed it is missing: rotate it then.
        """
        async with self._ports.storage.reading(me.org_uuid) as work:
            await self._managed(work, me, id)
            row = await work.webhooks.get(id)
        if row is None:
            return await self._renew(me, id, again=False)
        return self._opened(me, row)

    @needs("*:write")
    async def rotate_webhook(self, me: Principal, id: int, *, if_match: str | None = None) -> Webhook:
        """Replace the secret; messages signed with the old one are refused. The url stays.

        `if_match` is an ETag of the workflow; an outdated one is a Conflict.
        """
        return await self._renew(me, id, again=True, if_match=if_match)

    async def _renew(self, me: Principal, id: int, *, again: bool, if_match: str | None = None) -> Webhook:
        """Create the webhook; with `again`, replace the secret of an existing one."""
        async with self._ports.storage.transaction(me.org_uuid) as work:
            workflow = await self._managed(work, me, id, if_match)
            move(workflow.status, Operation.EDIT)
            row = await work.webhooks.get(id)
            if row is not None and not again:
                return self._opened(me, row)
            kept = None if row is None else open_webhook(self._ports, me.org_uuid, row)
            made = self._ports.storage.public_id(me.org_uuid, self._ports.ids.token(ID_LENGTH))
            new_id = kept.id if kept else made
            webhook = Webhook(new_id, secret_of(self._ports.ids.token(ID_LENGTH)))
            await self._keep(work, me, id, webhook)
            if again:
                await self._touch(work, me, workflow)
            verb = "create_webhook" if row is None else "rotate_webhook"
            await audit(work, me, self._ports.now(), self.kind, verb, str(id))
        return webhook

    async def _keep(self, work: UnitOfWork, me: Principal, id: int, webhook: Webhook) -> None:
        sealed = self._ports.sealer.seal(webhook.text, *place_of_webhook(me.org_uuid, id))
        await work.webhooks.put(WebhookRow(id, webhook.digest, sealed))

    def _opened(self, me: Principal, row: WebhookRow) -> Webhook:
        webhook = open_webhook(self._ports, me.org_uuid, row)
        if webhook is None:
            message = "the webhook's secret cannot be read with the key of this installation: rotate it"
            raise conflict(message, "secret_unreadable")
        return webhook


def open_webhook(ports: Ports, org: str, row: WebhookRow) -> Webhook | None:
    """The webhook of a row in clear text; None when this installation has no key for it."""
    try:
        return parse_webhook(ports.sealer.open(row.sealed, *place_of_webhook(org, row.workflow_id)))
    except Unsealable:
        return None
