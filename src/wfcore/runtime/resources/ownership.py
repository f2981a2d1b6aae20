"""Ownership transfers of workflows and skills, and explanations of their access."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Unpack

import attrs

from wfcore.api.management import TransferBody, TransferFields
from wfcore.domain.json.values import UNSET
from wfcore.domain.kernel.errors import Issue, NotFound, refuse
from wfcore.domain.kernel.ids import iso, normalize_email
from wfcore.domain.kernel.json_readers import as_list, as_object
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.people.people import Member
from wfcore.domain.resources import ownership
from wfcore.domain.resources.access import (
    Access,
    AccessConfig,
    Grant,
    Principal,
    apply_access,
    default_access,
    derive,
    grants,
    revokes_self,
)
from wfcore.domain.resources.access_checks import check_access
from wfcore.domain.resources.ownership import PARTY, Party, TransferStep
from wfcore.domain.resources.resource import Change, Resource
from wfcore.ports.storage import UnitOfWork
from wfcore.runtime.agents.guardrails import guardrail_issues
from wfcore.runtime.common.authorization import needs
from wfcore.runtime.common.bodies import Tree, parsed
from wfcore.runtime.organization.directory import as_of_now, is_former_member, principal_of
from wfcore.runtime.resources.base import ResourceBase, ResourceView


@attrs.frozen
class AccessExplanation:
    """Every grant of a resource; with a member, its access and the grants that it follows from."""

    grants: tuple[Grant, ...]
    user_id: str | None = None
    access: Access | None = None

    def to_wire(self) -> dict[str, JSON]:
        lines = [grant.to_wire() for grant in self.grants]
        if self.access is None:
            return {"grants": lines}
        return {
            "userId": self.user_id,
            "canUse": self.access.can_use,
            "canManage": self.access.can_manage,
            "manageDenial": self.access.manage_denial,
            "grants": lines,
        }


_GRANTS = {Party.OWNER: "own", Party.PENDING_OWNER: "inherit"}

Move = Callable[[UnitOfWork, Resource], Awaitable[Change]]


class OwnershipUseCases(ResourceBase):
    """An ownership transfer takes effect when it is accepted (interface, PendingOwnershipTransfer)."""

    @needs("*:write")
    async def transfer_ownership(
        self,
        me: Principal,
        id: int,
        body: TransferBody | Tree | None = None,
        *,
        if_match: str | None = None,
        **fields: Unpack[TransferFields],
    ) -> ResourceView:
        """The owner offers the ownership to a member, by `userId` or `email`. Conflict while a transfer is pending."""
        offer = parsed(TransferBody, body, fields, _choice_issues)

        async def move(work: UnitOfWork, resource: Resource) -> Change:
            path, name = ("userId", offer.user_id) if offer.email is UNSET else ("email", offer.email)
            target = principal_of(me.org_uuid, await _member(work, path, str(name)))
            return ownership.request(resource, target, by=me.user_id, path=path, now=self._ports.now())

        return await self._transfer(me, id, TransferStep.ASK, move, if_match)

    @needs("*:write")
    async def cancel_transfer(self, me: Principal, id: int, *, if_match: str | None = None) -> ResourceView:
        """The owner withdraws the transfer."""
        return await self._withdraw(me, id, TransferStep.CANCEL, if_match)

    @needs("*:write")
    async def decline_transfer(self, me: Principal, id: int, *, if_match: str | None = None) -> ResourceView:
        """The pending owner declines the transfer."""
        return await self._withdraw(me, id, TransferStep.DECLINE, if_match)

    @needs("*:write")
    async def accept_transfer(self, me: Principal, id: int, *, if_match: str | None = None) -> ResourceView:
        """The pending owner accepts the transfer and becomes the owner."""

        async def move(work: UnitOfWork, resource: Resource) -> Change:
            return ownership.accept(resource, me, await _owner_email(work, resource), now=self._ports.now())

        return await self._transfer(me, id, TransferStep.ACCEPT, move, if_match)

    @needs("*:read")
    async def explain_access(self, me: Principal, id: int, user_id: str | None = None) -> AccessExplanation:
        """All grants of the resource, or the access of this member and its grants. NotFound for an unknown member."""
        async with self._ports.storage.reading(me.org_uuid) as work:
            resource = await self._managed(work, me, id)
            if user_id is None:
                return AccessExplanation(tuple(grants(resource.access)))
            member = await work.directory.member(user_id)
        if member is None:
            raise NotFound
        access = derive(principal_of(me.org_uuid, member), resource.access)
        return AccessExplanation(access.rules, user_id, access)

    # Parts

    async def _access(
        self, work: UnitOfWork, me: Principal, data: Mapping[str, JSON], current: AccessConfig | None
    ) -> AccessConfig:
        """The access configuration that results from the body `data` and `current`. Raises Invalid."""
        if "accessConfig" not in data:
            return current or default_access(me.org_uuid, me)
        wanted = as_object(data["accessConfig"])
        refuse(await self._access_issues(work, me, wanted, current))
        owner = current.owner_user_id if current else None
        gone = owner is not None and await is_former_member(work, owner)
        access = apply_access(wanted, current, me, iso(self._ports.now()), owner_gone=gone)
        refuse(_self_revoking_issues(await as_of_now(work, me), access))
        return access

    async def _access_issues(
        self, work: UnitOfWork, me: Principal, wanted: Mapping[str, JSON], current: AccessConfig | None
    ) -> list[Issue]:
        groups = {group.id for group in await work.directory.groups()} | {me.org_uuid}
        groups |= current.group_permissions.keys() if current else set()  # a deleted group can be written back
        found = check_access(wanted, current=current, groups=groups, writer=me)
        return found or guardrail_issues(self._ports.guardrails, self.kind, as_list(wanted.get("guardrails") or ()))

    async def _withdraw(self, me: Principal, id: int, step: TransferStep, if_match: str | None) -> ResourceView:
        async def move(_: UnitOfWork, resource: Resource) -> Change:
            return ownership.withdraw(resource, step, now=self._ports.now())

        return await self._transfer(me, id, step, move, if_match)

    async def _transfer(
        self, me: Principal, id: int, step: TransferStep, move: Move, if_match: str | None
    ) -> ResourceView:
        """Do one step of a transfer. A pending owner without access gets a response without content."""
        async with self._ports.storage.transaction(me.org_uuid) as work:
            found = await self._authorized(work, me, id, _GRANTS[PARTY[step]], if_match)
            change = await move(work, found.resource)
            await self._save(work, me, found.resource, change)
            access = derive(me, change.resource.access)
            active, _ = await self._variations(work, change.resource) if access.visible else (None, None)
        return ResourceView(change.resource, access, active, with_variation=access.visible)


def _self_revoking_issues(me: Principal, access: AccessConfig) -> list[Issue]:
    """Refuse an update after which the caller could no longer manage the resource (interface, Errors)."""
    if not revokes_self(me, access):
        return []
    return [Issue("accessConfig", "after this you could no longer manage it", "self_revoking")]


def _choice_issues(data: Tree) -> list[Issue]:
    if "userId" in data and "email" in data:
        return [Issue("email", "cannot be combined with `userId`", "exclusive")]
    return [] if "userId" in data or "email" in data else [Issue("userId", "is required, or `email`", "required")]


async def _member(work: UnitOfWork, path: str, name: str) -> Member:
    """The member with this user id or verified e-mail. Invalid when there is none."""
    if path == "userId":
        member = await work.directory.member(name)
    else:
        member = await work.directory.member_by_email(normalize_email(name) or "")
    if member is None or (path == "email" and not member.email_verified):
        refuse([Issue(path, f"`{name[:80]}` is not a member of the organization", "member")])
    assert member is not None  # noqa: S101  (refused)
    return member


async def _owner_email(work: UnitOfWork, resource: Resource) -> str | None:
    """The owner's e-mail address: the one in the access configuration, otherwise the member's."""
    config = resource.access
    if config.owner_email is not None or config.owner_user_id is None:
        return config.owner_email
    member = await work.directory.member(config.owner_user_id)
    return principal_of(resource.org_uuid, member).verified_email if member else None
