"""Connect interrupts: the links that lead to an authorization, and how they end when it succeeds."""

import logging
from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from wfcore.domain.agents.connections import Connection, Ownership
from wfcore.domain.kernel.errors import Unavailable, WfcoreError
from wfcore.domain.resources.access import Principal, missing_scopes
from wfcore.domain.run.state import Interrupt
from wfcore.ports.storage import UnitOfWork
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.common.run_views import InboxItem, RunView, latest_turn
from wfcore.runtime.organization.directory import principal_of
from wfcore.runtime.runs.decisions import waiting_for
from wfcore.runtime.runs.runs import Runs
from wfcore.runtime.tools.authorizations import Asker, Authorizations, FinishedAuthorization, Interrupted

log = logging.getLogger("wfcore.connections")

CONNECT: Final = "connect"


@attrs.frozen
class Waiting:
    """An open interrupt, its run, and the user who started that."""

    run_id: str
    starter: str
    interrupt: Interrupt


class Connects:
    """Leads users from interrupts to authorizations and back."""

    def __init__(self, ports: Ports, runs: Runs) -> None:
        self._ports = ports
        self._runs = runs
        self._authorizations = Authorizations(ports)

    async def links_of_runs(self, me: Principal, views: Iterable[RunView], address: str) -> Mapping[str, str]:
        """The links of the open interrupts of these runs, by interrupt."""
        waiting = [Waiting(view.id, view.row.root_user_id, one) for view in views for one in view.interrupts]
        return await self.links(me, waiting, address)

    async def links_of_items(self, me: Principal, items: Iterable[InboxItem], address: str) -> Mapping[str, str]:
        """The links of these items of the caller's inbox, by interrupt."""
        found = [item.found for item in items if item.found.decision is None]
        waiting = [Waiting(one.run_id, one.execution.user_id, one.interrupt) for one in found]
        return await self.links(me, waiting, address)

    async def links(self, me: Principal, waiting: Iterable[Waiting], address: str) -> Mapping[str, str]:
        """A new link for each interrupt whose connection this user can authorize; `address` is that of this server.

        A connection of each user: only its own runs. One of the organization: with the scope `connections:write`.
        """
        named = [one for one in waiting if one.interrupt.type == CONNECT and _connection_id(one.interrupt)]
        if not named:
            return {}
        links = dict[str, str]()
        async with self._ports.storage.reading(me.org_uuid) as work:
            for one in named:
                row = await work.connections.get(_connection_id(one.interrupt))
                if row is not None and _may_authorize(me, row, one.starter):
                    at = Interrupted(one.run_id, one.interrupt.id)
                    try:
                        links[one.interrupt.id] = self._authorizations.link(Asker.of(me), row, address, at)
                    except Unavailable:  # without a secret key nobody can authorize a connection
                        return {}
        return links

    async def follow(self, ticket: str) -> str:
        """The address to which the browser that opened a link is sent. InvalidLink, Conflict."""
        return await self._authorizations.follow(ticket)

    async def finish(
        self, state: str, code: str | None, error: str | None, issuer: str | None
    ) -> FinishedAuthorization:
        """End an authorization, and the interrupts of the asker that waited for it. InvalidLink."""
        finished = await self._authorizations.finish(state, code, error, issuer)
        if finished.reason is None:
            try:
                await self._connected(finished)
            except WfcoreError as problem:
                log.warning("the interrupts of a connection did not end", extra={"why": str(problem)})
        return finished

    # Parts

    async def _connected(self, finished: FinishedAuthorization) -> None:
        asker, bound = finished.pending.asker, finished.pending.interrupted
        async with self._ports.storage.reading(asker.org) as work:
            me = await _principal(work, asker)
        ends = {} if bound is None else {bound.interrupt_id: bound.run_id}
        async for item in (await waiting_for(self._ports, me)).all():
            if _waits_for(item, finished.row, me):
                ends[item.found.interrupt.id] = item.found.run_id
        for interrupt_id, run_id in ends.items():
            await self._end(me, run_id, interrupt_id)

    async def _end(self, me: Principal, run_id: str, interrupt_id: str) -> None:
        """Resume the run, unless somebody has decided the interrupt meanwhile."""
        row = await latest_turn(self._ports.journal, me.org_uuid, run_id)
        try:
            body = {"decision": "connected", "interruptId": interrupt_id}
            await self._runs.resume(me, run_id if row is None else row.id, body)
        except WfcoreError as problem:
            log.info("an interrupt was not ended by its authorization", extra={"why": str(problem)})


async def _principal(work: UnitOfWork, asker: Asker) -> Principal:
    """Who the asker is now; in an organization without members, who that was when the link was made."""
    member = await work.directory.member(asker.user_id)
    return asker.principal() if member is None else principal_of(asker.org, member)


def _may_authorize(me: Principal, row: Connection, starter: str) -> bool:
    if not row.can_authorize:
        return False
    if row.ownership is Ownership.USER:
        return me.user_id == starter
    return not missing_scopes(me.scopes, ("connections:write",))


def _waits_for(item: InboxItem, row: Connection, me: Principal) -> bool:
    interrupt = item.found.interrupt
    if interrupt.type != CONNECT or (row.ownership is Ownership.USER and item.found.execution.user_id != me.user_id):
        return False
    named = _connection_id(interrupt)
    return named == row.id if named else (interrupt.call or {}).get("provider") == row.provider


def _connection_id(interrupt: Interrupt) -> str:
    named = (interrupt.call or {}).get("connectionId")
    return named if isinstance(named, str) else ""
