"""The erasure of a member (interface, `POST /api/v1/members/{userId}/erase`).

What the member alone has is deleted: the executions that the member started, with forks of them, conversations,
memories, private resources unless they are transferred, tokens and credentials. In what others have, a pseudonym takes
the place of user id, name and address, and of texts that the member gave with decisions. Then the files of the store
are rewritten. Every step can be repeated, so that an erasure that was interrupted is requested again.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final, Literal, Unpack

import attrs

from wfcore.api.organization import EraseMember, EraseMemberFields
from wfcore.domain.json.values import UNSET
from wfcore.domain.kernel.errors import Issue, NotFound, Unavailable, refuse
from wfcore.domain.kernel.json_readers import as_object
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.people.erasure import Substitution, of_member, of_texts
from wfcore.domain.people.people import Member
from wfcore.domain.resources.access import AccessConfig, Principal, Role
from wfcore.domain.resources.lifecycle import Status
from wfcore.domain.resources.ownership import is_owner
from wfcore.domain.resources.resource import Kind, Resource, changed
from wfcore.domain.run.entries import Entry
from wfcore.domain.run.erasure import texts_of, with_texts
from wfcore.domain.run.machine.machine import Machine
from wfcore.domain.run.state import BrokenInvariant, IllegalEntry
from wfcore.ports.journal import Execution, ExecutionRef
from wfcore.ports.storage import UnitOfWork
from wfcore.runtime.common.audit import audit, audit_change
from wfcore.runtime.common.authorization import administer, check_not_limited, needs
from wfcore.runtime.common.bodies import Tree, parsed
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.data.retention import KEY
from wfcore.runtime.execution.plans import Plans
from wfcore.runtime.organization.delegations import end_delegations
from wfcore.runtime.organization.directory import check_departure, principal_of
from wfcore.runtime.organization.members import check_owners, withdraw_offers

log = logging.getLogger("wfcore.erasure")

PAGE: Final = 100

PATIENCE: Final = 120
"""How often the erasure looks whether workers have released journals, `PAUSE` seconds apart."""

PAUSE: Final = 0.5

PROMPT: Final = 10.0
"""Seconds that `start` waits for the end."""


@attrs.frozen
class ErasureView:
    """An erasure. It is over when the member does not exist any more."""

    id: str
    status: Literal["running", "done"]

    def to_wire(self) -> dict[str, JSON]:
        return {"id": self.id, "status": self.status}


class _CheckedError(Exception):
    """Rolls back the transaction in which the erasure was tried."""


@attrs.frozen
class _Erasure:
    """What is erased: the member, and who gets the member's resources."""

    me: Principal
    member: Member
    heir: Principal | None
    pseudonym: str

    @property
    def org(self) -> str:
        return self.me.org_uuid

    @property
    def principal(self) -> Principal:
        return principal_of(self.org, self.member)

    @property
    def change(self) -> Substitution:
        return of_member(self.member, self.pseudonym)


class Erasures:
    """Erases members: admins any member of their organization, each member itself."""

    def __init__(self, ports: Ports, plans: Plans) -> None:
        self._ports = ports
        self._plans = plans
        self._running: dict[tuple[str, str], tuple[ErasureView, asyncio.Task[None]]] = {}

    @needs("members:write")
    async def erase(
        self,
        me: Principal,
        user_id: str,
        body: EraseMember | Tree | None = None,
        **fields: Unpack[EraseMemberFields],
    ) -> ErasureView:
        """Erase the member, to the end.

        Errors: NotFound; Forbidden; Invalid for an unknown `transfer_to`; Conflict with `info.reason` `last_owner` or,
        with the resources that no member could manage, `unmanaged`.
        """
        erasure = await self._checked(me, user_id, parsed(EraseMember, body, fields))
        await self._erase(erasure)
        return ErasureView(erasure.pseudonym, "done")

    @needs("members:write")
    async def start(
        self,
        me: Principal,
        user_id: str,
        body: EraseMember | Tree | None = None,
        **fields: Unpack[EraseMemberFields],
    ) -> ErasureView:
        """As `erase`, which goes on in this process when it takes longer. A second request joins the first one."""
        key = me.org_uuid, user_id
        erasure = await self._checked(me, user_id, parsed(EraseMember, body, fields))
        if key not in self._running:
            task = asyncio.create_task(self._erase(erasure))
            self._running[key] = ErasureView(erasure.pseudonym, "running"), task
            task.add_done_callback(lambda _: self._running.pop(key, None))
        view, task = self._running[key]
        await asyncio.wait([task], timeout=PROMPT)
        if not task.done():
            task.add_done_callback(_log_failure)
            return view
        task.result()
        return attrs.evolve(view, status="done")

    async def stop(self) -> None:
        """Cancel what goes on. It is requested again to be completed."""
        tasks = [task for _, task in self._running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # Parts

    async def _checked(self, me: Principal, user_id: str, body: EraseMember) -> _Erasure:
        """The erasure, if it is allowed now: all of its changes to rights are tried, and rolled back."""
        check_not_limited(me)
        if me.user_id != user_id:
            administer(me)
        try:
            async with self._ports.storage.transaction(me.org_uuid) as work:
                member = await work.directory.member(user_id)
                if member is None:
                    raise NotFound
                if me.user_id != user_id:
                    check_owners(me, member.role, Role.MEMBER)
                heir = await _heir(work, me.org_uuid, user_id, body)
                erasure = _Erasure(me, member, heir, f"erased-{self._ports.ids.uuid()[-12:]}")
                await self._settle_resources(work, erasure)
                await work.directory.remove_member(user_id)
                await check_departure(work, me.org_uuid, member, None)
                raise _CheckedError  # noqa: TRY301  (it rolls back what was tried)
        except _CheckedError:
            return erasure

    async def _settle_resources(self, work: UnitOfWork, erasure: _Erasure) -> list[Resource]:
        """Give what the member owns to the heir. Without one, returns the private resources, which are deleted."""
        now, gone = self._ports.now(), list[Resource]()
        for kind in Kind:
            for resource in await _owned(work, kind, erasure.principal):
                if erasure.heir is not None:
                    new = changed(resource, now, access=_given(resource, erasure.heir), pending_transfer=None)
                    await work.resources(kind).save(resource, new)
                    await audit_change(work, erasure.me, now, resource, new)
                elif resource.access.visibility == "private":
                    new = changed(resource, now, status=Status.DELETED, deleted_at=now, is_enabled=False)
                    await work.resources(kind).save(resource, new)
                    gone.append(resource)
        return gone

    async def _erase(self, erasure: _Erasure) -> None:
        org, user_id, maintenance = erasure.org, erasure.member.user_id, self._ports.storage.maintenance
        referenced = await self._referenced(org)
        async with self._ports.storage.transaction(org) as work:
            gone = await self._settle_resources(work, erasure)
            await work.directory.revoke_tokens(user_id, self._ports.now())
        for resource in gone:
            await maintenance.remove_resource(org, resource.kind, resource.id)
        await self._erase_executions(erasure)
        await self._erase_memories(erasure)
        await self._rewrite(erasure)
        async with self._ports.storage.transaction(org) as work:
            await self._remove_member(work, erasure)
        await self._rewrite(erasure)
        for key in referenced - await self._referenced(org):
            await self._ports.blobs.delete(org, key)
        await maintenance.scrub()

    async def _remove_member(self, work: UnitOfWork, erasure: _Erasure) -> None:
        """Raises Conflict when the organization has changed so that the member cannot be removed any more."""
        user_id, now = erasure.member.user_id, self._ports.now()
        me = attrs.evolve(erasure.me, user_id=erasure.pseudonym) if erasure.me.user_id == user_id else erasure.me
        await work.directory.remove_member(user_id)
        await check_departure(work, erasure.org, erasure.member, None)
        await withdraw_offers(work, me, now, user_id)
        await end_delegations(work, user_id)
        await audit(work, me, now, "member", "erase", erasure.pseudonym)

    async def _erase_executions(self, erasure: _Erasure) -> None:
        org, maintenance = erasure.org, self._ports.storage.maintenance
        for one in await maintenance.executions_of(org, erasure.member.user_id):
            if one.is_own or not await self._rewrite_decisions(erasure, one.id):
                await maintenance.remove_execution(org, one.id)

    async def _rewrite_decisions(self, erasure: _Erasure, id: int) -> bool:
        """Replace the texts that the member gave in an execution of another user. False when it cannot be kept: with
        other texts it would have gone another way.
        """
        maintenance = self._ports.storage.maintenance
        for _ in range(PATIENCE):
            execution = await self._ports.journal.execution(ExecutionRef(erasure.org, id))
            entries = await self._ports.journal.read(execution.ref)
            change = of_texts(texts_of(entries, erasure.member.user_id), erasure.pseudonym)
            if not change.within:
                return True
            if not await self._goes_alike(execution, entries, [with_texts(one, change.value) for one in entries]):
                return False
            if await maintenance.rewrite_execution(erasure.org, id, change, len(entries)):
                return True
            await self._ports.clock.sleep(PAUSE)
        raise Unavailable("a run of another user does not rest: request the erasure again")

    async def _goes_alike(self, execution: Execution, entries: Sequence[Entry], other: Sequence[Entry]) -> bool:
        """Whether both journals lead to the same status, waits and calls."""
        try:
            return await self._outcome(execution, entries) == await self._outcome(execution, other)
        except (IllegalEntry, BrokenInvariant, NotFound):
            return False

    async def _outcome(self, execution: Execution, entries: Sequence[Entry]) -> object:
        machine = Machine(await self._plans.of(execution, entries))
        await self._plans.load(execution.ref.org, entries, machine)
        for entry in entries:
            machine.apply(entry)
        return machine.status, machine.seq, sorted(machine.interrupts), sorted(machine.pending)

    async def _erase_memories(self, erasure: _Erasure) -> None:
        """Delete the member's memories, and replace the texts in those of others."""
        org, memories, change = erasure.org, self._ports.memories, erasure.change
        for skill in await self._ports.storage.maintenance.numbers(org, Kind.SKILL):
            after: str | None = None
            while found := await memories.list(org, skill, limit=PAGE, after=after):
                for one in found:
                    after = one.id
                    new = attrs.evolve(
                        one, memory=change.text(one.memory), metadata=as_object(change.value(one.metadata))
                    )
                    if one.user_id == erasure.member.user_id:
                        await memories.delete(org, skill, one.id)
                    elif new != one:
                        await memories.replace(org, skill, new)

    async def _rewrite(self, erasure: _Erasure) -> None:
        """Delete the member's rows and replace the texts in all others, when workers have released their journals."""
        maintenance = self._ports.storage.maintenance
        await maintenance.forget_user(erasure.org, erasure.member.user_id)
        for _ in range(PATIENCE):
            if not await maintenance.rewrite(erasure.org, erasure.change):
                return
            await self._ports.clock.sleep(PAUSE)
        raise Unavailable("a run does not rest: request the erasure again")

    async def _referenced(self, org: str) -> set[str]:
        """The keys of attachments in all rows."""
        return {
            key
            async for texts in self._ports.storage.maintenance.texts(org)
            for text in texts
            for key in KEY.findall(text)
        }


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("an erasure failed: request it again", exc_info=error)


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
