# Written by tests/typing/write_sync_types.py

from typing import Unpack

from wfcore.api.connections import CreateConnection, CreateConnectionFields, PatchConnection, PatchConnectionFields
from wfcore.domain.agents.connections import Connection
from wfcore.domain.resources.access import Principal
from wfcore.runtime.common.bodies import Tree
from wfcore.runtime.tools.catalog import CatalogPage, ToolView
from wfcore.sync_types.common import SyncRecordServiceBase

class SyncToolCatalog:
    """The tools of this installation (built-in ones and the embedding program's) and of an organization's servers."""

    def page(self, me: Principal, *, limit: int = 25, after: str = "") -> list[ToolView]:
        """By id, ascending."""

    def listed(self, me: Principal, *, limit: int = 25, after: str = "") -> CatalogPage:
        """The same page with the queried servers and their problems. Takes at most SERVER_TIMEOUT seconds."""

class SyncConnections(SyncRecordServiceBase[Connection]):
    """The connections of the caller's organization."""

    def create(
        self,
        me: Principal,
        body: CreateConnection | Tree | None = None,
        *,
        key: str | None = None,
        **fields: Unpack[CreateConnectionFields],
    ) -> Connection:
        """Create a connection. `key` is an Idempotency-Key: the same key and body return the same response."""

    def patch(
        self,
        me: Principal,
        id: str,
        body: PatchConnection | Tree | None = None,
        *,
        if_match: str | None = None,
        **fields: Unpack[PatchConnectionFields],
    ) -> Connection:
        """Change the given fields, also within `config`: an absent field is kept, null removes it (RFC 7396)."""

    def delete(self, me: Principal, id: str, *, if_match: str | None = None) -> Connection:
        """Delete the connection permanently, and revoke its tokens. Returns it as it was."""

    def authorize(self, me: Principal, id: str, *, address: str | None = None) -> str:
        """The URL that the caller opens to authorize the connection: once, within ten minutes."""
