"""Messages from team chats: each message with a valid signature starts one run and records a pending posting.

The signature is the only authentication. The run starts with the current access of the member who deployed the
workflow, like a run of a webhook. `postings` delivers the responses. A decision on an approval is made as the member
with the address that the chat names, with that member's rights, if the `approvals` of the chat are on.
"""

import asyncio
import logging
from collections.abc import Awaitable, Collection, Mapping
from typing import Final

import attrs

from wfcore.domain.channels.interfaces import InterfaceKind, chat_input
from wfcore.domain.channels.slack import (
    Challenge,
    SlackDecision,
    SlackMessage,
    person_of,
    read_request,
    read_signature,
)
from wfcore.domain.channels.team_chat_config import takes_decisions
from wfcore.domain.channels.team_chats import (
    TeamDecision,
    TeamMessage,
    body_of,
    read_team_message,
    reply_address,
    run_id_of,
)
from wfcore.domain.json.codec import fingerprint
from wfcore.domain.kernel.errors import Conflict, Forbidden, Invalid, NotFound, Unavailable, WfcoreError
from wfcore.domain.kernel.ids import normalize_email
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal
from wfcore.domain.resources.lifecycle import Operation, move
from wfcore.domain.triggers.webhooks import BadSignature
from wfcore.ports.providers import ToolFailed
from wfcore.ports.repositories.postings import Posting
from wfcore.runtime.agents.context_sources import input_schema_of
from wfcore.runtime.channels.endpoints import Endpoint, active_variation, find_endpoint
from wfcore.runtime.channels.slack import Slack
from wfcore.runtime.common.arguments import checks_arguments
from wfcore.runtime.common.authorization import conflict
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.common.run_views import RunView, latest_turn
from wfcore.runtime.organization.directory import deployer_of, principal_of
from wfcore.runtime.resources.interfaces import open_secret
from wfcore.runtime.runs.runs import Runs
from wfcore.runtime.triggers.webhook_deliveries import ReadBody, as_deployer, read_signed

log = logging.getLogger("wfcore.team_chats")

LOOKUP_SECONDS: Final = 2.0
"""For how long a run waits for the name of who speaks: Slack sends a request again after three seconds."""


@attrs.frozen
class _ReceivedMessage:
    """A message with a valid signature: its endpoint, its id and its content. `known` is what else is known of who
    speaks.
    """

    endpoint: Endpoint
    id: str
    message: TeamMessage
    known: Mapping[str, str] = attrs.field(factory=dict)

    @property
    def run_id(self) -> str:
        return run_id_of(self.endpoint.row, self.id)

    @property
    def fingerprint(self) -> str:
        return fingerprint([self.endpoint.row.id, {name: str(text) for name, text in self.message.items()}])

    def check_same(self, posting: Posting | None) -> None:
        """Conflict `key_reused` when the posting of this run id is missing or belongs to another message."""
        if posting is None or posting.fingerprint != self.fingerprint:
            raise conflict("this webhook-id was used with another message", "key_reused")


class TeamChats:
    """Receives the messages of team chats."""

    def __init__(self, ports: Ports, runs: Runs) -> None:
        self._ports = ports
        self._runs = runs
        self._slack = Slack(ports)

    @checks_arguments
    async def receive(self, id: str, headers: Collection[tuple[str, str]], body: ReadBody) -> RunView:
        """Start the run of a message to the interface with this id, or return the run that the same message started.
        A decision continues the run of its message.

        `body` reads the signed bytes; it is called only when the headers are plausible. Errors: NotFound for an unknown
        id and for a deleted workflow; `BadSignature`; Malformed, Invalid for a body that is neither a `TeamMessage`
        nor a `TeamDecision`, and for a workflow whose input a chat cannot provide; Conflict with `info.reason`
        `key_reused` (the same `webhook-id` with another message), `not_deployed` or `lost_access`; of a decision those
        of a resume, Conflict `approvals_off`, and Forbidden `unknown_person`.
        """
        endpoint, secret = await self._opened(id, is_slack=False)
        message_id, body_read = await read_signed(secret, headers, body, self._ports.clock.now())
        said = read_team_message(body_read)
        if said["type"] == "decision":
            return await self._decide(endpoint, message_id, said)
        return await self._run(_ReceivedMessage(endpoint, message_id, said))

    async def receive_slack(self, id: str, headers: Mapping[str, str], body: ReadBody) -> dict[str, JSON]:
        """The response to a request of Slack to the interface with this id: `challenge`, or `runId` and `status` of
        the run of a message, or {} for all else.

        Only the person sees why a decision was refused. Errors of messages as for `receive`.
        """
        endpoint, secret = await self._opened(id, is_slack=True)
        signature = read_signature(headers.items(), self._ports.clock.now())
        raw = await body()
        if not signature.is_genuine(secret, raw):
            raise BadSignature
        request = read_request(headers.get("content-type", ""), raw)
        if isinstance(request, SlackMessage):
            known = person_of(await self._looked_up(endpoint, request.message["user"]), request.team)
            view = await self._run(_ReceivedMessage(endpoint, request.id, request.message, known))
            return {"runId": view.id, "status": view.status}
        if isinstance(request, SlackDecision):
            await self._decide_in_slack(endpoint, request)
        return {"challenge": request.text} if isinstance(request, Challenge) else {}

    async def _opened(self, id: str, *, is_slack: bool) -> tuple[Endpoint, str]:
        """The endpoint of this format, and its secret."""
        endpoint = await find_endpoint(self._ports, InterfaceKind.TEAMCHAT, id)
        if endpoint.row.is_slack is not is_slack:
            raise NotFound
        secret = open_secret(self._ports.sealer, endpoint.org, endpoint.row)
        if secret is None:
            raise Unavailable("the interface's secret cannot be read")
        return endpoint, secret

    # Decisions

    async def _decide(self, endpoint: Endpoint, id: str, said: TeamDecision) -> RunView:
        """Decide as the member with this address, if the interrupt is of a run of this chat.

        The same decision sent again gets the turn that it began; another one with this id is a Conflict `key_reused`.
        """
        org, started = endpoint.org, run_id_of(endpoint.row, said["messageId"])
        if not takes_decisions(endpoint.row.config):
            raise conflict("the `approvals` of this team chat are off", "approvals_off")
        async with self._ports.storage.reading(org) as work:
            posting = await work.postings.get(started)
            address = normalize_email(said["email"])
            member = None if address is None else await work.directory.member_by_email(address)
        if posting is None:
            raise NotFound
        if member is None or not member.email_verified:
            raise Forbidden("no member has this verified address", {"reason": "unknown_person"})
        me, key = principal_of(org, member), run_id_of(endpoint.row, f"decision {id}")
        body: dict[str, JSON] = {
            "interruptId": said["interruptId"], "decision": said["decision"], "origin": "teamchat",
            **({"data": said["data"]} if "data" in said else {}),
        }  # fmt: skip
        latest = await latest_turn(self._ports.journal, org, posting.run_id)
        begun = await self._ports.journal.find_run(org, key)  # read last: without it, the latest turn is another
        waited = begun.parent_run_id if begun is not None else latest and latest.id
        return await self._runs.resume(me, waited or posting.run_id, body, key=key)

    async def _decide_in_slack(self, endpoint: Endpoint, press: SlackDecision) -> None:
        """Decide as the member whose confirmed address the workspace has; a refusal is shown to the person."""
        person = person_of(await self._looked_up(endpoint, press.user), press.team)
        said: TeamDecision = {
            "type": "decision", "messageId": press.message_id, "interruptId": press.interrupt_id,
            "decision": "approve" if press.decision == "approve" else "deny", "email": person.get("email", ""),
        }  # fmt: skip
        try:
            await self._decide(endpoint, press.id, said)
        except WfcoreError as error:
            thread = {} if press.thread is None else {"thread_ts": press.thread}
            shown = {"channel": press.channel, "user": press.user, "text": error.message, **thread}
            await self._try(self._slack.post(endpoint.org, endpoint.row.config, "chat.postEphemeral", shown))

    async def _looked_up(self, endpoint: Endpoint, user: str) -> Mapping[str, JSON]:
        """The user of Slack; {} when Slack does not say it in time."""
        return await self._try(self._slack.user(endpoint.org, endpoint.row.config, user)) or {}

    async def _try(self, call: Awaitable[Mapping[str, JSON]]) -> Mapping[str, JSON] | None:
        try:
            async with asyncio.timeout(LOOKUP_SECONDS):
                return await call
        except (ToolFailed, TimeoutError) as error:
            log.warning("Slack did not respond", extra={"why": str(error)})
            return None

    # Messages

    async def _run(self, received: _ReceivedMessage) -> RunView:
        org, run_id = received.endpoint.org, received.run_id
        row = await self._ports.journal.find_run(org, run_id)
        if row is not None:
            async with self._ports.storage.reading(org) as work:
                received.check_same(await work.postings.get(run_id))
            return RunView(row)
        deployer, body = await self._prepare(received)
        with as_deployer(deployer) as me:
            await self._add_posting(received)
            return await self._start(received, me, body)

    async def _prepare(self, received: _ReceivedMessage) -> tuple[Principal | None, dict[str, JSON]]:
        """The deployer, as whom the run starts, and the body of the run."""
        endpoint, workflow = received.endpoint, received.endpoint.target
        move(workflow.status, Operation.RUN)
        async with self._ports.storage.reading(endpoint.org) as work:
            variation = await active_variation(work, workflow)
            deployer = None if variation is None else await deployer_of(work, endpoint.org, variation)
        schema = {} if variation is None else input_schema_of(variation.workflow)
        said: TeamMessage = {**received.message, **received.known}  # type: ignore[typeddict-item]
        return deployer, body_of(workflow.id, endpoint.row, said, chat_input(schema, said["text"]))

    async def _add_posting(self, received: _ReceivedMessage) -> None:
        """Record the pending response before the run starts, so that a crash cannot lose it."""
        run_id, place = received.run_id, reply_address(received.message, received.id)
        async with self._ports.storage.transaction(received.endpoint.org) as work:
            posting = await work.postings.get(run_id)
            if posting is not None:
                received.check_same(posting)
                return
            await work.postings.put(Posting(run_id, received.endpoint.row.id, received.fingerprint, place, run_id, 0))

    async def _start(self, received: _ReceivedMessage, me: Principal, body: dict[str, JSON]) -> RunView:
        """Start the run of the message, or return it when a concurrent request for the same message started it."""
        try:
            return await self._runs.start_from(me, "teamchat", body, key=received.run_id)
        except (Conflict, Invalid, NotFound, Forbidden):
            row = await self._ports.journal.find_run(received.endpoint.org, received.run_id)
            if row is not None:
                return RunView(row)
            await self._remove_posting(received)
            raise

    async def _remove_posting(self, received: _ReceivedMessage) -> None:
        """Delete the posting of a message that was refused."""
        async with self._ports.storage.transaction(received.endpoint.org) as work:
            await work.postings.remove(received.run_id)
