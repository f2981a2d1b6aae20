"""Messages to webhooks: each message with a valid signature starts one run, however often it is sent.

The signature is the only authentication. The run starts with the current access of the member who deployed the
workflow, like a scheduled run.
"""

import hmac
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager

from wfcore.domain.json.parsing import parse_json
from wfcore.domain.kernel.errors import Forbidden, NotFound, Unavailable
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal
from wfcore.domain.resources.lifecycle import Operation, Status, move
from wfcore.domain.resources.resource import Kind, Resource
from wfcore.domain.triggers.webhooks import BadSignature, Webhook, input_of, read_message, run_id_of
from wfcore.runtime.common.arguments import checks_arguments
from wfcore.runtime.common.authorization import conflict
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.common.run_views import RunView
from wfcore.runtime.organization.directory import deployer_of
from wfcore.runtime.resources.webhooks import open_webhook
from wfcore.runtime.runs.bodies import short_fingerprint
from wfcore.runtime.runs.runs import Runs

ReadBody = Callable[[], Awaitable[bytes]]


class Deliveries:
    """Receives the messages of senders."""

    def __init__(self, ports: Ports, runs: Runs) -> None:
        self._ports = ports
        self._runs = runs

    @checks_arguments
    async def receive(self, id: str, headers: Collection[tuple[str, str]], body: ReadBody) -> RunView:
        """Start the run of a message to the webhook with this id, or return the run that the same message started.

        `body` reads the signed bytes; it is called only when the headers are plausible. Errors: NotFound for an unknown
        id and for a deleted workflow; `BadSignature`; Malformed, Invalid for a body that is not a valid input of the
        workflow; Conflict with `info.reason` `key_reused` (the same `webhook-id` with another body), `not_deployed`,
        `not_a_webhook` (the active trigger is of another kind) or `lost_access`.
        """
        sent = list(headers)
        org, workflow, webhook = await self._find(id)
        message_id, message = await read_signed(webhook.secret, sent, body, self._ports.clock.now())
        return await self._run(org, workflow, webhook, message_id, input_of(message, sent))

    async def _find(self, id: str) -> tuple[str, Resource, Webhook]:
        found = await self._ports.storage.find_webhook(id)
        if found is None:
            raise NotFound
        workflow = await self._ports.storage.find_resource(found.org, Kind.WORKFLOW, found.row.workflow_id)
        if workflow is None or workflow.status is Status.DELETED:
            raise NotFound
        webhook = open_webhook(self._ports, found.org, found.row)
        if webhook is None:
            raise Unavailable("the webhook's secret cannot be read")
        if not hmac.compare_digest(webhook.id.encode(), id.encode()):
            raise NotFound
        return found.org, workflow, webhook

    async def _run(
        self, org: str, workflow: Resource, webhook: Webhook, message_id: str, given: Mapping[str, JSON]
    ) -> RunView:
        run_id, mark = (
            run_id_of(webhook, workflow.id, message_id),
            short_fingerprint(["webhook", workflow.id, given["body"]]),
        )
        row = await self._ports.journal.find_run(org, run_id)
        if row is not None:
            if row.fingerprint != mark:
                raise conflict("this webhook-id was used with another body", "key_reused")
            return RunView(row)
        move(workflow.status, Operation.RUN)
        async with self._ports.storage.reading(org) as work:
            variation = await work.workflows.variation(workflow.id, workflow.active_variation_id or "")
            trigger = (variation and variation.workflow.trigger) or {}
            if variation is None or trigger.get("trigger_type") != "webhook":
                raise conflict("the active trigger of this workflow is not a webhook", "not_a_webhook")
            deployer = await deployer_of(work, org, variation)
        more = {"webhookId": message_id}
        with as_deployer(deployer) as me:
            return await self._runs.start_for(me, workflow.id, run_id, given, more, by="webhook", fingerprint=mark)


async def read_signed(secret: str, headers: Iterable[tuple[str, str]], body: ReadBody, now: int) -> tuple[str, JSON]:
    """The id and the body of a message signed recently with this secret. Raises `BadSignature`, Malformed."""
    message = read_message(headers, now)
    raw = await body()
    if not message.is_genuine(secret, raw):
        raise BadSignature
    message.check_id()
    return message.id, parse_json(raw)


@contextmanager
def as_deployer(deployer: Principal | None) -> Iterator[Principal]:
    """Act as the deployer. Conflict `lost_access` when it is not a member any more or cannot use the workflow."""
    lost = conflict("the deployer of this workflow can no longer use it", "lost_access")
    if deployer is None:
        raise lost
    try:
        yield deployer
    except (NotFound, Forbidden):
        raise lost from None
