"""Messages from team chats: each message with a valid signature starts one run and records a pending posting.

The signature is the only authentication. The run starts with the current access of the member who deployed the
workflow, like a run of a webhook. `postings` delivers the responses.
"""

from collections.abc import Iterable

import attrs

from wfcore.domain.channels.interfaces import InterfaceKind, chat_input
from wfcore.domain.channels.team_chats import TeamMessage, body_of, read_team_message, reply_address, run_id_of
from wfcore.domain.json.codec import fingerprint
from wfcore.domain.kernel.errors import Conflict, Forbidden, Invalid, NotFound, Unavailable
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal
from wfcore.domain.resources.lifecycle import Operation, move
from wfcore.ports.repositories.postings import Posting
from wfcore.runtime.agents.context_sources import input_schema_of
from wfcore.runtime.channels.endpoints import Endpoint, active_variation, find_endpoint
from wfcore.runtime.common.authorization import conflict
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.common.run_views import RunView
from wfcore.runtime.organization.directory import deployer_of
from wfcore.runtime.resources.interfaces import open_secret
from wfcore.runtime.runs.runs import Runs
from wfcore.runtime.triggers.webhook_deliveries import ReadBody, as_deployer, read_signed


@attrs.frozen
class _ReceivedMessage:
    """A message with a valid signature: its endpoint, its id and its content."""

    endpoint: Endpoint
    id: str
    message: TeamMessage

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

    async def receive(self, id: str, headers: Iterable[tuple[str, str]], body: ReadBody) -> RunView:
        """Start the run of a message to the interface with this id, or return the run that the same message started.

        `body` reads the signed bytes; it is called only when the headers are plausible. Errors: NotFound for an unknown
        id and for a deleted workflow; `BadSignature`; Malformed, Invalid for a body that is not a `TeamMessage`, and
        for a workflow whose input a chat cannot provide; Conflict with `info.reason` `key_reused` (the same
        `webhook-id` with another message), `not_deployed` or `lost_access`.
        """
        endpoint = await find_endpoint(self._ports, InterfaceKind.TEAMCHAT, id)
        secret = open_secret(self._ports.sealer, endpoint.org, endpoint.row)
        if secret is None:
            raise Unavailable("the interface's secret cannot be read")
        message_id, message = await read_signed(secret, headers, body, self._ports.clock.now())
        return await self._run(_ReceivedMessage(endpoint, message_id, read_team_message(message)))

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
        return deployer, body_of(
            workflow.id, endpoint.row, received.message, chat_input(schema, received.message["text"])
        )

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
