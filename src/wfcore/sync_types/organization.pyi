# Written by tests/typing/write_sync_types.py

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Unpack

from wfcore.api.organization import (
    CreateDelegation,
    CreateDelegationFields,
    CreateGroup,
    CreateMember,
    CreateMemberFields,
    CreatePolicy,
    CreatePolicyFields,
    GroupFields,
    PatchDelegation,
    PatchDelegationFields,
    PatchGroup,
    PatchMember,
    PatchMemberFields,
    PatchPolicy,
    PatchPolicyFields,
)
from wfcore.api.resources import CreateToken, CreateTokenFields
from wfcore.domain.people.delegations import Delegation
from wfcore.domain.people.people import Group, Member, Organization
from wfcore.domain.resources.access import Principal
from wfcore.domain.rules.policies import Policy
from wfcore.ports.repositories.usage import GroupBy
from wfcore.runtime.common.bodies import Tree
from wfcore.runtime.organization.members import GroupView, MemberView
from wfcore.runtime.organization.tokens import TokenView
from wfcore.runtime.organization.usage import UsageReport
from wfcore.sync_types.common import SyncRecordServiceBase

class SyncDirectory:
    """Operations of the operator, from the command line or the embedding program. They take no principal."""

    def create_organization(self, name: str, *, id: str | None = None) -> Organization:
        """A new organization. `id` is its UUID; Conflict when it is taken."""

    def ensure_organization(self, name: str, *, id: str) -> Organization:
        """The organization with this UUID: a new one, or the existing one, which gets this name. Safe to repeat."""

    def limit_runs(self, org: str, max_concurrent_runs: int | None, *, workflow: int | None = None) -> None:
        """Limit how many runs of the organization workers drive at the same time, in all processes together."""

    def run_limits(self, org: str) -> Mapping[int, int]:
        """The limits of `limit_runs` for workflows, by id."""

    def ensure_group(self, org: str, name: str, *, id: str) -> Group:
        """The group with this UUID: a new one, or the existing one, which gets this name. Safe to repeat."""

    def add_member(
        self,
        org: str,
        user_id: str,
        email: str | None = None,
        *,
        name: str | None = None,
        role: str | None = None,
        groups: Collection[str] | None = None,
    ) -> Member:
        """Add a member, or change the given fields of the member with this user id. A given e-mail counts as verified."""

    def create_group(self, org: str, name: str) -> Group:
        """A new group, empty."""

    def create_token(
        self, org: str, user_id: str, *, scopes: Collection[str], name: str = "token", expires_in: int | None = None
    ) -> str:
        """A personal access token for a member. Only this call returns it; the store keeps a hash of its secret."""

    def authenticate(self, text: str) -> Principal:
        """The principal of a personal access token or of an embed token (`Tokens.embed`)."""

class SyncMembers:
    """The members of the caller's organization, by user id."""

    def create(
        self,
        me: Principal,
        body: CreateMember | Tree | None = None,
        *,
        key: str | None = None,
        **fields: Unpack[CreateMemberFields],
    ) -> MemberView:
        """Add a member, whose e-mail counts as verified. Conflict when user id or e-mail is taken."""

    def get(self, me: Principal, user_id: str) -> MemberView:
        """One member. NotFound for an unknown user id."""

    def page(
        self, me: Principal, *, limit: int = 25, after: str = "", group: str | None = None, query: str | None = None
    ) -> list[MemberView]:
        """By user id; with `group`, the members of the group with this id. All members are in the implicit group."""

    def patch(
        self,
        me: Principal,
        user_id: str,
        body: PatchMember | Tree | None = None,
        *,
        if_match: str | None = None,
        **fields: Unpack[PatchMemberFields],
    ) -> MemberView:
        """Change the given fields. Conflict `last_owner`, `unmanaged` with the resources that lose all managers, or
        `stale` for an outdated ETag `if_match`."""

    def delete(self, me: Principal, user_id: str, *, if_match: str | None = None) -> MemberView:
        """Remove the member, revoke its tokens, end its delegations and withdraw the ownership transfers
        from and to it."""

class SyncGroups:
    """The groups of the caller's organization, without the implicit group of all members."""

    def create(
        self,
        me: Principal,
        body: CreateGroup | Tree | None = None,
        *,
        key: str | None = None,
        **fields: Unpack[GroupFields],
    ) -> GroupView:
        """Create an empty group. Names need not be unique."""

    def get(self, me: Principal, id: str) -> GroupView:
        """One group. NotFound for an unknown id, and for the implicit group."""

    def page(self, me: Principal, *, limit: int = 25, after: str = "") -> list[GroupView]:
        """By id, ids greater than `after`."""

    def patch(
        self,
        me: Principal,
        id: str,
        body: PatchGroup | Tree | None = None,
        *,
        if_match: str | None = None,
        **fields: Unpack[GroupFields],
    ) -> GroupView:
        """Rename the group. Forbidden for members; an outdated ETag `if_match` is a Conflict."""

    def delete(self, me: Principal, id: str, *, if_match: str | None = None) -> GroupView:
        """Delete the group. Conflict `unmanaged`, with the resources that lose all managers."""

class SyncTokens:
    """The caller's own tokens; admins and owners can also read and revoke those of other members."""

    def create(
        self,
        me: Principal,
        body: CreateToken | Tree | None = None,
        *,
        key: str | None = None,
        **fields: Unpack[CreateTokenFields],
    ) -> TokenView:
        """Create a token of the caller, which ends no later than the caller's credential."""

    def embed(
        self, me: Principal, scopes: Collection[str], ttl: int = 600, workflows: Collection[int] | None = None
    ) -> str:
        """A bearer token for a page of the embedding product, valid for `ttl` seconds, at most an hour."""

    def page(
        self, me: Principal, *, limit: int = 25, after: tuple[datetime, str] | None = None, user: str | None = None
    ) -> list[TokenView]:
        """Oldest first: the caller's tokens or, for an admin or owner, those of `user`."""

    def get(self, me: Principal, id: str) -> TokenView:
        """One token, without its secret. NotFound also for a token that the caller may not see."""

    def revoke(self, me: Principal, id: str, *, if_match: str | None = None) -> TokenView:
        """Revoke the token, with immediate effect in every process. A second call changes nothing."""

class SyncPolicies(SyncRecordServiceBase[Policy]):
    """The policies of the caller's organization."""

    def create(
        self,
        me: Principal,
        body: CreatePolicy | Tree | None = None,
        *,
        key: str | None = None,
        **fields: Unpack[CreatePolicyFields],
    ) -> Policy:
        """Create a policy. `key` is an Idempotency-Key: the same key and body return the same response."""

    def patch(
        self,
        me: Principal,
        id: str,
        body: PatchPolicy | Tree | None = None,
        *,
        if_match: str | None = None,
        **fields: Unpack[PatchPolicyFields],
    ) -> Policy:
        """Change the given fields. Forbidden for members; an outdated ETag `if_match` is a Conflict."""

    def delete(self, me: Principal, id: str, *, if_match: str | None = None) -> Policy:
        """Delete the policy. Forbidden for members; an outdated ETag `if_match` is a Conflict."""

class SyncUsage:
    """Reads the usage of models."""

    def report(
        self,
        me: Principal,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        group_by: GroupBy = "model",
    ) -> UsageReport:
        """The calls from `since` to before `until`: by default the last 30 days until now, at most 366 days."""

class SyncDelegations(SyncRecordServiceBase[Delegation]):
    """The delegations of the caller's organization that the caller may see."""

    def page(self, me: Principal, *, limit: int = 25, after: str = "") -> list[Delegation]:
        """Those from and to the caller, or all for admins. By id, which is the order of creation, after `after`."""

    def get(self, me: Principal, id: str) -> Delegation:
        """One delegation. NotFound also for one that the caller may not see."""

    def create(
        self,
        me: Principal,
        body: CreateDelegation | Tree | None = None,
        *,
        key: str | None = None,
        **fields: Unpack[CreateDelegationFields],
    ) -> Delegation:
        """Let `to` decide for `from_user`, by default the caller; for somebody else only admins can."""

    def patch(
        self,
        me: Principal,
        id: str,
        body: PatchDelegation | Tree | None = None,
        *,
        if_match: str | None = None,
        **fields: Unpack[PatchDelegationFields],
    ) -> Delegation:
        """Change the given fields. An outdated ETag `if_match` is a Conflict."""

    def delete(self, me: Principal, id: str, *, if_match: str | None = None) -> Delegation:
        """End the delegation. An outdated ETag `if_match` is a Conflict."""
