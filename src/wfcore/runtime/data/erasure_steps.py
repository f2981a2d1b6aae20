"""The steps of an erasure.

What the member alone has is deleted: the executions that the member started, with forks of them, conversations,
memories, private resources unless they are transferred, tokens and credentials. In what others have, a pseudonym takes
the place of user id, name and address, and of texts that the member gave with decisions. Then the files of the store
are rewritten. Every step can be repeated; the row of the erasure says which are not needed any more.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import attrs

from wfcore.domain.kernel.errors import NotFound, Unavailable
from wfcore.domain.kernel.json_readers import as_object
from wfcore.domain.people.erasure import Erasure, Substitution, of_member, of_texts
from wfcore.domain.people.people import Member
from wfcore.domain.resources.resource import Kind
from wfcore.domain.run.entries import Entry
from wfcore.domain.run.erasure import texts_of, with_texts
from wfcore.domain.run.machine.machine import Machine
from wfcore.domain.run.state import BrokenInvariant, IllegalEntry
from wfcore.ports.journal import Execution, ExecutionRef
from wfcore.ports.storage import Stale, UnitOfWork
from wfcore.runtime.common.audit import audit
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.data.retention import KEY
from wfcore.runtime.execution.plans import FRESH, Plans
from wfcore.runtime.organization.delegations import end_delegations
from wfcore.runtime.organization.directory import check_departure, principal_of
from wfcore.runtime.organization.members import withdraw_offers

PAGE: Final = 100

PATIENCE: Final = 120
"""How often the erasure looks whether workers have released journals, `PAUSE` seconds apart."""

PAUSE: Final = 0.5

OUTDATED: Final = FRESH / 1000 + 1
"""Seconds after which no process starts a run with a plan whose variation was rewritten."""


@attrs.define
class ErasureSteps:
    """Carries out one erasure. `done` of `total` executions have been searched; each is searched twice."""

    ports: Ports
    plans: Plans
    org: str
    row: Erasure
    done: int = 0
    total: int = 1

    async def make(self) -> None:
        """Erase the member, unless another process has done so meanwhile.

        Raises Unavailable when runs of others do not rest, Conflict when the organization has changed so that the
        member cannot be removed any more.
        """
        with suppress(Stale):
            await self._make()

    async def _make(self) -> None:
        storage = self.ports.storage
        self.total = 1 + 2 * (await storage.maintenance.sizes(self.org)).executions
        member = self.row.member
        if member is not None:
            await self._erase(member)
            self.row = attrs.evolve(self.row, member=None)
            async with storage.transaction(self.org) as work:
                await work.erasures.save(self.row)
        for key in self.row.attachments - await self.referenced(self.ports, self.org):
            await self.ports.blobs.delete(self.org, key)
        await storage.maintenance.scrub()
        async with storage.transaction(self.org) as work:
            await work.erasures.remove(self.row.id)

    @staticmethod
    async def referenced(ports: Ports, org: str) -> frozenset[str]:
        """The keys of attachments in all rows but those of erasures."""
        texts = ports.storage.maintenance.texts(org)
        return frozenset([key async for batch in texts for text in batch for key in KEY.findall(text)])

    async def _erase(self, member: Member) -> None:
        """Erase the rows of the member. Texts are replaced again after the removal: it can have written some, and so
        can another process that runs a workflow as it was before.
        """
        has_outdated = self.row.is_removed
        if not self.row.is_removed:
            for kind, number in self.row.resources:
                await self.ports.storage.maintenance.remove_resource(self.org, kind, number)
            await self._erase_executions(member)
            await self._erase_memories(member)
            has_outdated = await self._rewrite(member)
            async with self.ports.storage.transaction(self.org) as work:
                await self._remove_member(work, member)
        if has_outdated:
            await self.ports.clock.sleep(OUTDATED)
        await self._rewrite(member)

    async def _remove_member(self, work: UnitOfWork, member: Member) -> None:
        user_id, now, pseudonym = member.user_id, self.ports.now(), self.row.id
        if (await work.erasures.get(pseudonym) or self.row).is_removed:
            return
        by = pseudonym if self.row.by == user_id else self.row.by
        me = attrs.evolve(principal_of(self.org, member), user_id=by)
        await work.directory.remove_member(user_id)
        await check_departure(work, self.org, member, None)
        for name in (user_id, pseudonym):  # the rows that were rewritten have the pseudonym
            await withdraw_offers(work, me, now, name)
            await end_delegations(work, name)
        await audit(work, me, now, "member", "erase", pseudonym)
        self.row = attrs.evolve(self.row, is_removed=True)
        await work.erasures.save(self.row)

    async def _erase_executions(self, member: Member) -> None:
        """The latest first: a fork is found only as long as its origin is there."""
        maintenance = self.ports.storage.maintenance
        for one in reversed(await maintenance.executions_of(self.org, member.user_id)):
            if one.is_own or not await self._rewrite_decisions(member, one.id):
                await maintenance.remove_execution(self.org, one.id)

    async def _rewrite_decisions(self, member: Member, id: int) -> bool:
        """Replace the texts that the member gave in an execution of another user. False when it cannot be kept: with
        other texts it would have gone another way.
        """
        maintenance = self.ports.storage.maintenance
        for _ in range(PATIENCE):
            execution = await self.ports.journal.execution(ExecutionRef(self.org, id))
            entries = await self.ports.journal.read(execution.ref)
            change = of_texts(texts_of(entries, member.user_id), self.row.id)
            if not change.within:
                return True
            if not await self._goes_alike(execution, entries, [with_texts(one, change.value) for one in entries]):
                return False
            if await maintenance.rewrite_execution(self.org, id, change, len(entries)):
                return True
            await self.ports.clock.sleep(PAUSE)
        raise Unavailable("a run of another user does not rest: request the erasure again")

    async def _goes_alike(self, execution: Execution, entries: Sequence[Entry], other: Sequence[Entry]) -> bool:
        """Whether both journals lead to the same status, waits and calls."""
        try:
            return await self._outcome(execution, entries) == await self._outcome(execution, other)
        except (IllegalEntry, BrokenInvariant, NotFound):
            return False

    async def _outcome(self, execution: Execution, entries: Sequence[Entry]) -> object:
        machine = Machine(await self.plans.of(execution, entries))
        await self.plans.load(execution.ref.org, entries, machine)
        for entry in entries:
            machine.apply(entry)
        return machine.status, machine.seq, sorted(machine.interrupts), sorted(machine.pending)

    async def _erase_memories(self, member: Member) -> None:
        """Delete the member's memories, and replace the texts in those of others."""
        memories, change = self.ports.memories, self._change(member)
        for skill in await self.ports.storage.maintenance.numbers(self.org, Kind.SKILL):
            after: str | None = None
            while found := await memories.list(self.org, skill, limit=PAGE, after=after):
                for one in found:
                    after = one.id
                    new = attrs.evolve(
                        one, memory=change.text(one.memory), metadata=as_object(change.value(one.metadata))
                    )
                    if one.user_id == member.user_id:
                        await memories.delete(self.org, skill, one.id)
                    elif new != one:
                        await memories.replace(self.org, skill, new)

    async def _rewrite(self, member: Member) -> bool:
        """Delete the member's rows and replace the texts in all others, when workers have released their journals.

        Whether another process can have a plan with such a text.
        """
        maintenance, before, has_outdated = self.ports.storage.maintenance, self.done, False
        await maintenance.forget_user(self.org, member.user_id)
        for _ in range(PATIENCE):
            self.done = before
            left = await maintenance.rewrite(self.org, self._change(member), self._advance)
            self.plans.forget()
            has_outdated |= left.has_other_content
            if not left.held:
                return has_outdated
            await self.ports.clock.sleep(PAUSE)
        raise Unavailable("a run does not rest: request the erasure again")

    def _advance(self) -> None:
        self.done += 1

    def _change(self, member: Member) -> Substitution:
        return of_member(member, self.row.id)
