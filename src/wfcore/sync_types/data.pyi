# Written by tests/typing/write_sync_types.py

from collections.abc import Generator, Mapping
from typing import Unpack

from wfcore.api.organization import EraseMember, EraseMemberFields
from wfcore.domain.resources.access import Principal
from wfcore.runtime.common.bodies import Tree
from wfcore.runtime.common.installation import Retention
from wfcore.runtime.data.erasure import ErasureView
from wfcore.runtime.data.exports import OnProgress
from wfcore.runtime.data.retention import OnDeleted
from wfcore.runtime.data.stored_secrets import OnEncrypted, Reencrypted

class SyncDataRetention:
    """Deletes what is too old. It acts for the operator, who has no principal."""

    def prune(
        self, retention: Retention | None = None, *, dry_run: bool = False, on_progress: OnDeleted = ...
    ) -> Mapping[str, int]:
        """Delete what is too old, or with `dry_run` only count it. Returns how many of each kind that has a limit."""

    def delete_organization(self, org: str) -> bool:
        """Delete an organization with all of its rows and attachments; False when there is none."""

class SyncStoredSecrets:
    """Encrypts stored secrets anew. It acts for the operator, who has no principal."""

    def reencrypt(self, *, dry_run: bool = False, on_progress: OnEncrypted = ...) -> Reencrypted:
        """Encrypt every stored secret with the current key, or with `dry_run` only count them; in every organization."""

class SyncErasures:
    """Erases members: admins any member of their organization, each member itself."""

    def erase(
        self,
        me: Principal,
        user_id: str,
        body: EraseMember | Tree | None = None,
        *,
        if_match: str | None = None,
        **fields: Unpack[EraseMemberFields],
    ) -> ErasureView:
        """Erase the member, to the end. One whose erasure was requested before is erased as was requested then."""

    def start(
        self,
        me: Principal,
        user_id: str,
        body: EraseMember | Tree | None = None,
        *,
        if_match: str | None = None,
        **fields: Unpack[EraseMemberFields],
    ) -> ErasureView:
        """As `erase`, which goes on in this process when it takes longer. A second request joins the first one."""

class SyncExports:
    """Exports of members, by admins and by the member, and of organizations, by the operator."""

    def member(self, me: Principal, user_id: str, on_progress: OnProgress = ...) -> Generator[bytes]:
        """The archive with the data of a member, in chunks. NotFound; Forbidden for another member than an admin."""

    def organization(self, org: str, on_progress: OnProgress = ...) -> Generator[bytes]:
        """The archive with the data of an organization, for the operator. NotFound for an unknown one."""
