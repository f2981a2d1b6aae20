"""Messages that come to webhooks: each genuine one starts one run, however often it is sent.

Nothing is asked of a message's sender but its signature. The run is started as the member who deployed the workflow,
as that member is now, like one of a schedule.
"""

import hmac
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from wfcore.domain.json.parsing import parse_json
from wfcore.domain.kernel.errors import Forbidden, NotFound, Unavailable
from wfcore.domain.kernel.ids import hash_secret
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal
from wfcore.domain.resources.lifecycle import Operation, Status, move
from wfcore.domain.resources.resource import Kind, Resource
from wfcore.domain.triggers.webhooks import BadSignature, Webhook, input_of, read_message, run_id_of
from wfcore.runtime.common.authorization import conflict
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.common.run_views import RunView
from wfcore.runtime.organization.directory import deployer_of
from wfcore.runtime.resources.webhooks import opened
from wfcore.runtime.runs.bodies import mark_of
from wfcore.runtime.runs.runs import Runs

ReadBody = Callable[[], Awaitable[bytes]]


class Deliveries:
    """What senders reach."""

    def __init__(self, ports: Ports, runs: Runs) -> None:
        self._ports = ports
        self._runs = runs

    async def receive(self, id: str, headers: Iterable[tuple[str, str]], body: ReadBody) -> RunView:
        """The run of a message to the webhook of this id: started, or the one that it started when it came before.

        `body` gives the very bytes that were signed; it is asked for only when the headers may be genuine. Errors:
        NotFound for an unknown id and for a deleted workflow; `BadSignature`; Malformed, Invalid for a body that is no
        input of the workflow; Conflict with `info.reason` `key_reused` (the same `webhook-id` with another body),
        `not_deployed`, `not_a_webhook` (the active trigger is of another kind) or `lost_access`.
        """
        sent = list(headers)
        org, workflow, webhook = await self._addressed(id)
        message_id, said = await read_signed(webhook.secret, sent, body, self._ports.clock.now())
        return await self._run(org, workflow, webhook, message_id, input_of(said, sent))

    async def _addressed(self, id: str) -> tuple[str, Resource, Webhook]:
        found = await self._ports.storage.find_webhook(hash_secret(id))
        if found is None:
            raise NotFound
        workflow = await self._ports.storage.find_resource(found.org, Kind.WORKFLOW, found.row.workflow_id)
        if workflow is None or workflow.status is Status.DELETED:
            raise NotFound
        webhook = opened(self._ports, found.org, found.row)
        if webhook is None:
            raise Unavailable("the webhook's secret cannot be read")
        if not hmac.compare_digest(webhook.id.encode(), id.encode()):
            raise NotFound
        return found.org, workflow, webhook

    async def _run(
        self, org: str, workflow: Resource, webhook: Webhook, message_id: str, given: Mapping[str, JSON]
    ) -> RunView:
        run_id, mark = run_id_of(webhook, workflow.id, message_id), mark_of(["webhook", workflow.id, given["body"]])
        row = await self._ports.journal.find_run(org, run_id)
        if row is not None:
            if row.fingerprint != mark:
                raise conflict("this webhook-id came with another body", "key_reused")
            return RunView(row)
        move(workflow.status, Operation.RUN)
        async with self._ports.storage.reading(org) as work:
            variation = await work.workflows.variation(workflow.id, workflow.active_variation_id or "")
            trigger = variation and variation.content["trigger"]
            if variation is None or not trigger or trigger["trigger_type"] != "webhook":
                raise conflict("the active trigger of this workflow is no webhook", "not_a_webhook")
            deployer = await deployer_of(work, org, variation)
        more = {"webhookId": message_id}
        with standing_in(deployer) as me:
            return await self._runs.start_for(me, workflow.id, run_id, given, more, mark=mark)


async def read_signed(secret: str, headers: Iterable[tuple[str, str]], body: ReadBody, now: int) -> tuple[str, JSON]:
    """The id of a message that was signed with this secret just now, and what it says. `BadSignature`, Malformed."""
    message = read_message(headers, now)
    raw = await body()
    if not message.is_genuine(secret, raw):
        raise BadSignature
    return message.id, parse_json(raw)


@contextmanager
def standing_in(deployer: Principal | None) -> Iterator[Principal]:
    """Act as the deployer. Where that is nobody any more, or finds nothing to run: Conflict `lost_access`."""
    lost = conflict("who deployed this workflow may no longer use it", "lost_access")
    if deployer is None:
        raise lost
    try:
        yield deployer
    except (NotFound, Forbidden):
        raise lost from None
