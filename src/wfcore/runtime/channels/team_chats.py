"""Messages that come from team chats: each genuine one starts one run, whose answers are owed from then on.

Nothing is asked of a message's sender but its signature. The run is started as the member who deployed the workflow,
as that member is now, like one of a webhook. What is owed is posted by `posting`.
"""

from collections.abc import Iterable

import attrs

from wfcore.domain.channels.interfaces import InterfaceKind, chat_input
from wfcore.domain.channels.team_chats import TeamMessage, body_of, place_of, read_team_message, run_id_of
from wfcore.domain.json.codec import fingerprint
from wfcore.domain.kernel.errors import Conflict, Forbidden, Invalid, NotFound, Unavailable
from wfcore.domain.resources.access import Principal
from wfcore.domain.resources.lifecycle import Operation, move
from wfcore.ports.postings import Posting
from wfcore.runtime.agents.context_sources import input_schema_of
from wfcore.runtime.channels.endpoints import Endpoint, active_variation, find_surface
from wfcore.runtime.common.authorization import conflict
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.common.run_views import RunView
from wfcore.runtime.organization.directory import deployer_of
from wfcore.runtime.resources.interfaces import opened_secret
from wfcore.runtime.runs.runs import Runs
from wfcore.runtime.triggers.webhook_deliveries import ReadBody, read_signed, standing_in


@attrs.frozen
class _Arrived:
    """A genuine message: where it came, under which name, and what it says."""

    surface: Endpoint
    id: str
    said: TeamMessage

    @property
    def run_id(self) -> str:
        return run_id_of(self.surface.row, self.id)

    @property
    def mark(self) -> str:
        return fingerprint([self.surface.row.id, self.said])

    def check_same(self, owed: Posting | None) -> None:
        """Conflict `key_reused` when what is owed under this name is owed to another message, or to none."""
        if owed is None or owed.fingerprint != self.mark:
            raise conflict("this webhook-id came with another message", "key_reused")


class TeamChats:
    """What team chats reach."""

    def __init__(self, ports: Ports, runs: Runs) -> None:
        self._ports = ports
        self._runs = runs

    async def receive(self, id: str, headers: Iterable[tuple[str, str]], body: ReadBody) -> RunView:
        """The run of a message to the interface of this id: started, or the one that it started when it came before.

        `body` gives the very bytes that were signed; it is asked for only when the headers may be genuine. Errors:
        NotFound for an unknown id and for a deleted workflow; `BadSignature`; Malformed, Invalid for a body that is no
        `TeamMessage`, and for a workflow whose input a chat cannot give; Conflict with `info.reason` `key_reused` (the
        same `webhook-id` with another message), `not_deployed` or `lost_access`.
        """
        surface = await find_surface(self._ports, InterfaceKind.TEAMCHAT, id)
        secret = opened_secret(self._ports.sealer, surface.org, surface.row)
        if secret is None:
            raise Unavailable("the interface's secret cannot be read")
        message_id, said = await read_signed(secret, headers, body, self._ports.clock.now())
        return await self._run(_Arrived(surface, message_id, read_team_message(said)))

    async def _run(self, arrived: _Arrived) -> RunView:
        org, run_id = arrived.surface.org, arrived.run_id
        row = await self._ports.journal.find_run(org, run_id)
        if row is not None:
            async with self._ports.storage.reading(org) as work:
                arrived.check_same(await work.postings.get(run_id))
            return RunView(row)
        deployer, body = await self._prepared(arrived)
        with standing_in(deployer) as me:
            await self._owe(arrived)
            return await self._started(arrived, me, body)

    async def _prepared(self, arrived: _Arrived) -> tuple[Principal | None, dict[str, object]]:
        """Whose run it is to be, and its body."""
        surface, workflow = arrived.surface, arrived.surface.workflow
        move(workflow.status, Operation.RUN)
        async with self._ports.storage.reading(surface.org) as work:
            variation = await active_variation(work, workflow)
            deployer = None if variation is None else await deployer_of(work, surface.org, variation)
        schema = {} if variation is None else input_schema_of(variation.content)
        return deployer, body_of(workflow.id, surface.row, arrived.said, chat_input(schema, arrived.said["text"]))

    async def _owe(self, arrived: _Arrived) -> None:
        """Write down that this message is to be answered, before there is anything to answer."""
        run_id, place = arrived.run_id, place_of(arrived.said, arrived.id)
        async with self._ports.storage.transaction(arrived.surface.org) as work:
            owed = await work.postings.get(run_id)
            if owed is not None:
                arrived.check_same(owed)
                return
            now = self._ports.clock.now()
            await work.postings.put(Posting(run_id, arrived.surface.row.id, arrived.mark, place, run_id, now))

    async def _started(self, arrived: _Arrived, me: Principal, body: dict[str, object]) -> RunView:
        """The run of the message, also where it came twice at once and the other one began it."""
        try:
            return await self._runs.start(me, body, key=arrived.run_id)
        except (Conflict, Invalid, NotFound, Forbidden):
            row = await self._ports.journal.find_run(arrived.surface.org, arrived.run_id)
            if row is not None:
                return RunView(row)
            await self._forget(arrived)
            raise

    async def _forget(self, arrived: _Arrived) -> None:
        """To a message that was refused no answer is owed."""
        async with self._ports.storage.transaction(arrived.surface.org) as work:
            await work.postings.remove(arrived.run_id)
