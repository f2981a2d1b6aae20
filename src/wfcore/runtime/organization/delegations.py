"""Delegations: who decides approvals for whom (interface, `/api/v1/delegations`).

A member sees the delegations from and to this member, admins see all. Whoever delegates, or an admin, changes them.
"""

from datetime import datetime
from typing import ClassVar, Final, Unpack

import attrs

from wfcore.api.organization import (
    CreateDelegation,
    CreateDelegationFields,
    PatchDelegation,
    PatchDelegationFields,
)
from wfcore.domain.json.codec import from_ms, parse_iso
from wfcore.domain.json.values import UNSET, UnsetType, given, to_json
from wfcore.domain.kernel.errors import Forbidden, Issue, NotFound, refuse
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.people.delegations import Delegation, delegation_issues
from wfcore.domain.resources.access import Principal, Role
from wfcore.ports.storage import DelegationRepository, Storage, UnitOfWork
from wfcore.runtime.common.authorization import check_not_limited, needs
from wfcore.runtime.common.bodies import Tree, parsed
from wfcore.runtime.common.organization_records import RecordServiceBase
from wfcore.runtime.common.preconditions import check_match
from wfcore.runtime.organization.directory import is_former_member, known_principal

WRITE: Final = "workflows:invoke"
"""Deciding needs this scope, and so does giving away the right to decide."""


class Delegations(RecordServiceBase[Delegation]):
    """The delegations of the caller's organization that the caller may see."""

    area: ClassVar = "workflows"
    kind: ClassVar = "delegation"

    @needs("*:read")
    async def page(self, me: Principal, *, limit: int = 25, after: str = "") -> list[Delegation]:
        """Those from and to the caller, or all for admins. By id, which is the order of creation, after `after`."""
        check_not_limited(me)
        async with self._ports.storage.reading(me.org_uuid) as work:
            if _is_admin(me):
                return await work.delegations.page(limit=limit, after=after)
            own = await work.delegations.of(me.user_id)
            return [one for one in own if one.id > after][:limit]

    @needs("*:read")
    async def get(self, me: Principal, id: str) -> Delegation:
        """One delegation. NotFound also for one that the caller may not see."""
        async with self._ports.storage.reading(me.org_uuid) as work:
            return await self._visible(work, me, id)

    @needs(WRITE)
    async def create(
        self,
        me: Principal,
        body: CreateDelegation | Tree | None = None,
        *,
        key: str | None = None,
        **fields: Unpack[CreateDelegationFields],
    ) -> Delegation:
        """Let `to` decide for `from_user`, by default the caller; for somebody else only admins can.

        `key` is an Idempotency-Key: the same key and body return the same response.
        """
        check_not_limited(me)
        new = parsed(CreateDelegation, body, fields, delegation_issues, key=key)
        workflows = given(new.workflow_ids)
        made = Delegation(
            self._ports.ids.uuid(), given(new.from_user) or me.user_id, new.to, _instant(new.until),
            None if workflows is None else tuple(workflows),
        )  # fmt: skip
        _check_giver(me, made)
        return await self._create(me, made, key=key, request=to_json(new))

    @needs(WRITE)
    async def patch(
        self,
        me: Principal,
        id: str,
        body: PatchDelegation | Tree | None = None,
        *,
        if_match: str | None = None,
        **fields: Unpack[PatchDelegationFields],
    ) -> Delegation:
        """Change the given fields. An outdated ETag `if_match` is a Conflict."""
        changes = parsed(PatchDelegation, body, fields, delegation_issues)
        async with self._ports.storage.transaction(me.org_uuid) as work:
            old = await self._visible(work, me, id)
            _check_giver(me, old)
            check_match(if_match, old.to_wire())
            new = old if changes.to is UNSET else attrs.evolve(old, to_user=changes.to)
            if changes.until is not UNSET:
                new = attrs.evolve(new, until=_instant(changes.until))
            if changes.workflow_ids is not UNSET:
                chosen = changes.workflow_ids
                new = attrs.evolve(new, workflow_ids=None if chosen is None else tuple(chosen))
            if new == old:
                return old
            await self._check(work, new, frozenset(old.workflow_ids or ()))
            return await self._save(work, me, new, to_json(changes))

    @needs(WRITE)
    async def delete(self, me: Principal, id: str, *, if_match: str | None = None) -> Delegation:
        """End the delegation. An outdated ETag `if_match` is a Conflict."""
        async with self._ports.storage.transaction(me.org_uuid) as work:
            row = await self._visible(work, me, id)
            _check_giver(me, row)
            check_match(if_match, row.to_wire())
            await work.delegations.remove(id)
            await self._audit(work, me, "delete", row)
        return row

    # Parts

    def _rows(self, work: UnitOfWork) -> DelegationRepository:
        return work.delegations

    def _details(self, row: Delegation) -> dict[str, JSON]:
        return {name: value for name, value in row.to_wire().items() if name != "id"}

    async def _visible(self, work: UnitOfWork, me: Principal, id: str) -> Delegation:
        check_not_limited(me)
        row = await self._found(work, id)
        if not (_is_admin(me) or row.concerns(me.user_id)):
            raise NotFound
        return row

    async def _check(self, work: UnitOfWork, row: Delegation, kept: frozenset[int] = frozenset()) -> None:
        """Invalid unless both are members, but not the same one, the end is in the future, and the workflows exist.

        Those of before, `kept`, may have been removed since. Use of them is not needed: nor do named approvers need it.
        """
        people = (("from", row.from_user), ("to", row.to_user))
        issues = [
            Issue(name, f"unknown member `{user[:80]}`: use the user id of a member", "reference")
            for name, user in people
            if await is_former_member(work, user)
        ]
        if row.from_user == row.to_user:
            issues.append(Issue("to", "must be another user than `from`", "reference"))
        if not row.is_current(self._ports.now()):
            issues.append(Issue("until", "must be in the future", "range"))
        issues += [
            Issue(f"workflowIds[{place}]", f"there is no workflow `{number}`", "reference")
            for place, number in enumerate(row.workflow_ids or ())
            if number not in kept and await work.workflows.get(number) is None
        ]
        refuse(issues)


async def delegations_to(storage: Storage, me: Principal, now: datetime) -> list[tuple[Delegation, Principal]]:
    """The current delegations to the caller, with the current principals of the members who delegate."""
    if not await storage.is_delegate(me.org_uuid, me.user_id):
        return []
    async with storage.reading(me.org_uuid) as work:
        found = list[tuple[Delegation, Principal]]()
        for one in await work.delegations.of(me.user_id):
            if one.to_user == me.user_id and one.is_current(now):
                giver = await known_principal(work, me.org_uuid, one.from_user)
                if giver is not None:
                    found.append((one, giver))
        return found


async def end_delegations(work: UnitOfWork, user_id: str) -> None:
    """Delete the delegations from and to a member who leaves."""
    for one in await work.delegations.of(user_id):
        await work.delegations.remove(one.id)


def _check_giver(me: Principal, row: Delegation) -> None:
    """Forbidden for the delegation of somebody else, except to admins."""
    if me.user_id != row.from_user and not _is_admin(me):
        raise Forbidden("only an admin can delegate for somebody else", {"role": me.role.value})


def _is_admin(me: Principal) -> bool:
    return me.role is not Role.MEMBER


def _instant(text: str | UnsetType | None) -> datetime | None:
    return None if text is None or text is UNSET else from_ms(parse_iso(str(text)))
