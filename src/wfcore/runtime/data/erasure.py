"""The erasure of a member (interface, `POST /api/v1/members/{userId}/erase`): the request, and its progress.

A request is stored until the erasure is over, so that it is continued when a process ends: by the next process with a
worker, or by the next request.
"""

import asyncio
import logging
from typing import Final, Literal, Unpack

import attrs

from wfcore.api.organization import EraseMember, EraseMemberFields
from wfcore.domain.json.values import UNSET
from wfcore.domain.kernel.errors import Issue, NotFound, refuse
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.people.erasure import Erasure
from wfcore.domain.people.people import Member
from wfcore.domain.resources.access import AccessConfig, Principal, Role
from wfcore.domain.resources.lifecycle import Status
from wfcore.domain.resources.ownership import is_owner
from wfcore.domain.resources.resource import Kind, Resource, changed
from wfcore.ports.faults import log_failure
from wfcore.ports.storage import UnitOfWork
from wfcore.runtime.common.audit import audit_change
from wfcore.runtime.common.authorization import administer, check_not_limited, needs
from wfcore.runtime.common.bodies import Tree, parsed
from wfcore.runtime.common.polling import Poller
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.common.preconditions import check_match
from wfcore.runtime.data.erasure_steps import PAGE, ErasureSteps
from wfcore.runtime.execution.plans import Plans
from wfcore.runtime.organization.directory import check_departure, principal_of
from wfcore.runtime.organization.members import MemberView, check_owners

log = logging.getLogger("wfcore.erasure")

PROMPT: Final = 2.0
"""Seconds that `start` waits for the end."""

INTERVAL: Final = 3_600.0
"""Seconds between two times that a process looks for erasures that another one left."""


@attrs.frozen
class ErasureView:
    """An erasure, of which `done` of `total` steps are made. It is over when the member does not exist any more."""

    id: str
    status: Literal["running", "done"]
    done: int
    total: int

    def to_wire(self) -> dict[str, JSON]:
        return {"id": self.id, "status": self.status, "progress": {"done": self.done, "total": self.total}}


class _CheckedError(Exception):
    """Rolls back the transaction in which the erasure was tried."""


@attrs.frozen
class _Running:
    """An erasure that this process carries out."""

    org: str
    user_id: str | None
    steps: ErasureSteps
    task: asyncio.Task[None]

    def view(self) -> ErasureView:
        steps = self.steps
        if not self.task.done():
            return ErasureView(steps.row.id, "running", min(steps.done, steps.total - 1), steps.total)
        self.task.result()
        return ErasureView(steps.row.id, "done", steps.total, steps.total)


class Erasures:
    """Erases members: admins any member of their organization, each member itself."""

    def __init__(self, ports: Ports, plans: Plans) -> None:
        self._ports = ports
        self._plans = plans
        self._running: dict[tuple[str, str], _Running] = {}
        self._poller = Poller(ports.clock, ports.outage, self.resume, "erasures", INTERVAL)

    @needs("members:write")
    async def erase(
        self,
        me: Principal,
        user_id: str,
        body: EraseMember | Tree | None = None,
        *,
        if_match: str | None = None,
        **fields: Unpack[EraseMemberFields],
    ) -> ErasureView:
        """Erase the member, to the end. One whose erasure was requested before is erased as was requested then.

        If workflows in a database name the member, it waits 6 seconds by the core's clock, in which other processes
        read these workflows again.

        Errors: NotFound; Forbidden; Invalid for an unknown `transfer_to`; Conflict with `info.reason` `last_owner`,
        `stale` for an outdated ETag `if_match`, or, with the resources that no member could manage, `unmanaged`.
        """
        running = await self._requested(me, user_id, parsed(EraseMember, body, fields), if_match)
        await asyncio.wait([running.task])
        return running.view()

    @needs("members:write")
    async def start(
        self,
        me: Principal,
        user_id: str,
        body: EraseMember | Tree | None = None,
        *,
        if_match: str | None = None,
        **fields: Unpack[EraseMemberFields],
    ) -> ErasureView:
        """As `erase`, which goes on in this process when it takes longer. A second request joins the first one."""
        running = await self._requested(me, user_id, parsed(EraseMember, body, fields), if_match)
        await asyncio.wait([running.task], timeout=PROMPT)
        return running.view()

    async def resume(self) -> None:
        """Continue what was requested in any organization and is not over."""
        for org, pseudonym in await self._ports.storage.maintenance.erasures():
            async with self._ports.storage.reading(org) as work:
                row = await work.erasures.get(pseudonym)
            if row is not None:
                self._carry_out(org, row)

    def start_resuming(self) -> None:
        """Resume at once, and every hour: another process can end before its erasure is over."""
        self._poller.start()

    async def stop(self) -> None:
        """Cancel what goes on. The next process continues it."""
        await self._poller.stop()
        tasks = [running.task for running in self._running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _requested(self, me: Principal, user_id: str, body: EraseMember, if_match: str | None) -> _Running:
        """The erasure of this member, which is stored now if it was not requested before."""
        check_not_limited(me)
        if me.user_id != user_id:
            administer(me)
        for running in self._running.values():
            if (running.org, running.user_id) == (me.org_uuid, user_id):
                return running
        async with self._ports.storage.reading(me.org_uuid) as work:
            row = await _unfinished(work, user_id)
        if row is None:
            await self._check(me, user_id, body, if_match)
            row = await self._begin(me, user_id, body, if_match)
        return self._carry_out(me.org_uuid, row)

    async def _check(self, me: Principal, user_id: str, body: EraseMember, if_match: str | None) -> None:
        """Refuse what is not allowed now: all changes to rights are tried, and rolled back."""
        try:
            async with self._ports.storage.transaction(me.org_uuid) as work:
                member, _ = await self._settle(work, me, user_id, body, if_match)
                await work.directory.remove_member(user_id)
                await check_departure(work, me.org_uuid, member, None)
                raise _CheckedError  # noqa: TRY301  (it rolls back what was tried)
        except _CheckedError:
            return

    async def _begin(self, me: Principal, user_id: str, body: EraseMember, if_match: str | None) -> Erasure:
        """Store the request, in the transaction that settles what the member owns."""
        pseudonym = f"erased-{self._ports.ids.uuid()[-12:]}"
        referenced = await ErasureSteps.referenced(self._ports, me.org_uuid)
        async with self._ports.storage.transaction(me.org_uuid) as work:
            if (row := await _unfinished(work, user_id)) is not None:
                return row
            member, gone = await self._settle(work, me, user_id, body, if_match)
            row = Erasure(pseudonym, me.user_id, member, resources=gone, attachments=referenced)
            await work.directory.revoke_tokens(user_id, self._ports.now())
            await work.erasures.add(row)
        return row

    async def _settle(
        self, work: UnitOfWork, me: Principal, user_id: str, body: EraseMember, if_match: str | None
    ) -> tuple[Member, tuple[tuple[Kind, int], ...]]:
        """Give what the member owns to the heir. Without one, the private resources are deleted: returns them."""
        member = await work.directory.member(user_id)
        if member is None:
            raise NotFound
        check_match(if_match, MemberView(member).to_wire())
        if me.user_id != user_id:
            check_owners(me, member.role, Role.MEMBER)
        heir = await _heir(work, me.org_uuid, user_id, body)
        now, gone = self._ports.now(), list[tuple[Kind, int]]()
        for kind in Kind:
            for resource in await _owned(work, kind, principal_of(me.org_uuid, member)):
                if heir is not None:
                    new = changed(resource, now, access=_given(resource, heir), pending_transfer=None)
                    await work.resources(kind).save(resource, new)
                    await audit_change(work, me, now, resource, new)
                elif resource.access.visibility == "private":
                    new = changed(resource, now, status=Status.DELETED, deleted_at=now, is_enabled=False)
                    await work.resources(kind).save(resource, new)
                    gone.append((kind, resource.id))
        return member, tuple(gone)

    def _carry_out(self, org: str, row: Erasure) -> _Running:
        key = org, row.id
        if key not in self._running:
            steps = ErasureSteps(self._ports, self._plans, org, row)
            user_id = None if row.member is None else row.member.user_id
            self._running[key] = _Running(org, user_id, steps, asyncio.create_task(steps.make()))
            self._running[key].task.add_done_callback(lambda _: self._running.pop(key, None))
            self._running[key].task.add_done_callback(_log_failure)
        return self._running[key]


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log_failure(log, "an erasure failed and is tried again", error)


async def _unfinished(work: UnitOfWork, user_id: str) -> Erasure | None:
    """The erasure of this member that was requested and is not over."""
    after = ""
    while rows := await work.erasures.page(limit=PAGE, after=after):
        for row in rows:
            if row.member is not None and row.member.user_id == user_id:
                return row
        after = rows[-1].id
    return None


async def _heir(work: UnitOfWork, org: str, user_id: str, body: EraseMember) -> Principal | None:
    if body.transfer_to is UNSET:
        return None
    member = None if body.transfer_to == user_id else await work.directory.member(str(body.transfer_to))
    if member is None:
        refuse([Issue("transferTo", "must be the user id of another member", "reference")], as_invalid=True)
    assert member is not None  # noqa: S101  (refused before)
    return principal_of(org, member)


async def _owned(work: UnitOfWork, kind: Kind, principal: Principal) -> list[Resource]:
    """The resources that the principal owns, deleted ones included."""
    found, repository = list[Resource](), work.resources(kind)
    for status in (None, Status.DELETED.value):
        after = 0
        while rows := await repository.page(principal, limit=PAGE, after=after, status=status):
            found += [row for row in rows if is_owner(principal, row.access)]
            after = rows[-1].id
    return found


def _given(resource: Resource, heir: Principal) -> AccessConfig:
    """The access configuration with another owner."""
    shared = tuple(one for one in resource.access.shared_with if one.user_id != heir.user_id)
    return attrs.evolve(
        resource.access, owner_user_id=heir.user_id, owner_email=heir.verified_email, shared_with=shared
    )
