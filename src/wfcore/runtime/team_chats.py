"""Messages that come from team chats: each genuine one starts one run, whose answers are owed from then on.

Nothing is asked of a message's sender but its signature. The run is started as the member who deployed the workflow,
as that member is now, like one of a webhook. What is owed is posted by `posting`.
"""

from collections.abc import Awaitable, Callable, Iterable

import attrs

from wfcore.domain.access import Principal
from wfcore.domain.codec import fingerprint
from wfcore.domain.errors import Conflict, Forbidden, Invalid, NotFound, Unavailable
from wfcore.domain.interfaces import InterfaceKind, chat_input
from wfcore.domain.json_gate import parse_json
from wfcore.domain.lifecycle import Operation, move
from wfcore.domain.team_chats import TeamMessage, body_of, place_of, read_team_message, run_id_of
from wfcore.domain.webhooks import BadSignature, read_message
from wfcore.ports.postings import Posting
from wfcore.runtime.context import Ports, conflict
from wfcore.runtime.context_sources import input_schema_of
from wfcore.runtime.deliveries import NO_ACCESS, ReadBody
from wfcore.runtime.interfaces import opened_secret
from wfcore.runtime.organization import deployer_of
from wfcore.runtime.runs import Runs
from wfcore.runtime.surfaces import Surface, find_surface
from wfcore.runtime.views import RunView


@attrs.frozen
class _Arrived:
    """A genuine message: where it came, under which name, and what it says."""

    surface: Surface
    id: str
    said: TeamMessage

    @property
    def run_id(self) -> str:
        return run_id_of(self.surface.row, self.id)


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
        message = read_message(headers, self._ports.clock.now())
        raw = await body()
        if not message.is_genuine(secret, raw):
            raise BadSignature
        return await self._run(_Arrived(surface, message.id, read_team_message(parse_json(raw))))

    async def _run(self, arrived: _Arrived) -> RunView:
        org, run_id = arrived.surface.org, arrived.run_id
        mark = fingerprint([arrived.surface.row.id, arrived.said])
        async with self._ports.storage.reading(org) as work:
            known = await work.postings.get(run_id)
        if known is not None and known.mark != mark:
            raise conflict("this webhook-id came with another message", "key_reused")
        row = await self._ports.journal.find_run(org, run_id)
        if row is not None:
            return RunView(row)
        deployer, body = await self._prepared(arrived)
        await self._owe(arrived, mark)
        return await self._refusing(arrived, lambda: self._start(deployer, body, run_id))

    async def _prepared(self, arrived: _Arrived) -> tuple[Principal, dict[str, object]]:
        """Whose run it is to be, and its body."""
        surface, workflow = arrived.surface, arrived.surface.workflow
        move(workflow.status, Operation.RUN)
        async with self._ports.storage.reading(surface.org) as work:
            variation = await work.workflows.variation(workflow.id, workflow.active_variation_id or "")
            deployer = None if variation is None else await deployer_of(work, surface.org, variation)
        if variation is None or deployer is None:
            raise conflict(NO_ACCESS, "lost_access")
        given = chat_input(input_schema_of(variation.content), arrived.said["text"])
        return deployer, body_of(workflow.id, surface.row, arrived.said, given)

    async def _owe(self, arrived: _Arrived, mark: str) -> None:
        """Write down that this message is to be answered, before there is anything to answer."""
        run_id, place = arrived.run_id, place_of(arrived.said, arrived.id)
        async with self._ports.storage.transaction(arrived.surface.org) as work:
            if await work.postings.get(run_id) is None:
                now = self._ports.clock.now()
                await work.postings.put(Posting(run_id, arrived.surface.row.id, mark, place, run_id, now))

    async def _start(self, deployer: Principal, body: dict[str, object], run_id: str) -> RunView:
        try:
            return await self._runs.start(deployer, body, key=run_id)
        except (NotFound, Forbidden):
            raise conflict(NO_ACCESS, "lost_access") from None

    async def _refusing(self, arrived: _Arrived, start: Callable[[], Awaitable[RunView]]) -> RunView:
        """What `start` gives; to a message that was refused no answer is owed."""
        try:
            return await start()
        except (Conflict, Invalid):
            async with self._ports.storage.transaction(arrived.surface.org) as work:
                await work.postings.remove(arrived.run_id)
            raise
