"""Connections to external services (interface, functional areas: connections).

Secrets are write-only: they are sealed for their organization, connection and field before they are stored, and
responses only state that they exist.
"""

from collections.abc import Mapping
from typing import ClassVar, Unpack

import attrs

from wfcore.api.connections import (
    CONFIGS,
    PATCH_CONFIGS,
    CreateConnection,
    CreateConnectionFields,
    PatchConnection,
    PatchConnectionFields,
)
from wfcore.domain.agents.connection_grants import grant_id, shown
from wfcore.domain.agents.connections import (
    Connection,
    ConnectionKind,
    ConnectionStatus,
    Ownership,
    config_issues,
    expand_null_headers,
    grant_issues,
    joined,
    keeps_grants,
    kept_secret_issues,
    merged,
    ownership_issues,
    split,
)
from wfcore.domain.json.codec import canonical, check
from wfcore.domain.json.values import UNSET, given, to_json
from wfcore.domain.kernel.errors import Issue, refuse
from wfcore.domain.kernel.json_readers import optional_text
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal
from wfcore.ports.storage import RecordRepository, UnitOfWork
from wfcore.runtime.common.authorization import needs
from wfcore.runtime.common.bodies import Tree, parsed
from wfcore.runtime.common.organization_records import RecordServiceBase
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.common.preconditions import check_match
from wfcore.runtime.tools.authorizations import Asker, Authorizations, address_of_links
from wfcore.runtime.tools.connection_secrets import opened, sealed
from wfcore.runtime.tools.oauth_tokens import OAuthTokens, remove_grants


class Connections(RecordServiceBase[Connection]):
    """The connections of the caller's organization."""

    area: ClassVar = "connections"
    kind: ClassVar = "connection"

    def __init__(self, ports: Ports) -> None:
        super().__init__(ports)
        self._authorizations = Authorizations(ports)
        self._tokens = OAuthTokens(ports)

    @needs("*:write")
    async def create(
        self,
        me: Principal,
        body: CreateConnection | Tree | None = None,
        *,
        key: str | None = None,
        **fields: Unpack[CreateConnectionFields],
    ) -> Connection:
        """Create a connection. `key` is an Idempotency-Key: the same key and body return the same response."""
        new = parsed(CreateConnection, body, fields, _new_config_issues, key=key)
        sealer, new_id = self._ports.sealer, self._ports.ids.uuid()
        plain, secret = _split(new.config)
        kind, status = ConnectionKind(new.kind), ConnectionStatus(given(new.status) or "active")
        made = Connection(
            new_id, new.name, new.provider, kind, plain, sealed(sealer, me.org_uuid, new_id, _present(secret)), status,
            ownership=Ownership(given(new.ownership) or "organization"),
        )  # fmt: skip
        refuse(ownership_issues(made))
        # a plain hash would let secrets be guessed
        request, *former = [None] if key is None else sealer.fingerprints(canonical(to_json(new)))
        return await self._create(me, made, key=key, request=request, former=former, redact=_without_secrets)

    @needs("*:write")
    async def patch(
        self,
        me: Principal,
        id: str,
        body: PatchConnection | Tree | None = None,
        *,
        if_match: str | None = None,
        **fields: Unpack[PatchConnectionFields],
    ) -> Connection:
        """Change the given fields, also within `config`: an absent field is kept, null removes it (RFC 7396).

        Kept secrets are sealed again with the current key; Conflict `secret_unreadable` when one cannot be opened.
        Invalid when kept secrets would be sent to another provider, scheme, host or port. An outdated ETag `if_match`
        is a Conflict.
        """
        changes = parsed(PatchConnection, body, fields)
        async with self._ports.storage.transaction(me.org_uuid) as work:
            old = await self._found(work, id)
            check_match(if_match, (await self._view(work, me, old)).to_wire())
            new = self._changed(me.org_uuid, old, changes)
            if not keeps_grants(old, new):
                await remove_grants(work, id)
            return await self._save(work, me, new, to_json(changes))

    @needs("*:write")
    async def delete(self, me: Principal, id: str, *, if_match: str | None = None) -> Connection:
        """Delete the connection permanently, and revoke its tokens. Returns it as it was.

        An outdated ETag `if_match` is a Conflict. A server that does not respond keeps tokens that it has issued.
        """
        async with self._ports.storage.transaction(me.org_uuid) as work:
            row = await self._found(work, id)
            view = await self._view(work, me, row)
            check_match(if_match, view.to_wire())
            grants = await remove_grants(work, id)
            await work.connections.remove(id)
            await self._audit(work, me, "delete", row)
        await self._tokens.revoke(me.org_uuid, row, grants)
        return view

    @needs("*:write")
    async def authorize(self, me: Principal, id: str, *, address: str | None = None) -> str:
        """The URL that the caller opens to authorize the connection: once, within ten minutes.

        `address` is the base URL of this server, by default the configured `public_url`. Conflict `not_oauth`, and
        `authorization_server` when the server of an MCP connection cannot be used; Invalid without an address.
        """
        base = address_of_links(address, self._ports.settings.public_url)
        async with self._ports.storage.reading(me.org_uuid) as work:
            row = await self._found(work, id)
        return await self._authorizations.url(Asker.of(me), row, base)

    # Parts

    def _rows(self, work: UnitOfWork) -> RecordRepository[Connection]:
        return work.connections

    def _details(self, row: Connection) -> dict[str, JSON]:
        return {"name": row.name, "provider": row.provider, "kind": row.kind.value, "status": row.status.value}

    async def _view(self, work: UnitOfWork, me: Principal, row: Connection) -> Connection:
        """The connection with the status that the caller sees."""
        grant = await work.connection_grants.get(grant_id(row.id, row.owner(me.user_id)))
        texts = [*row.sealed.values(), *([grant.sealed] if grant and grant.sealed else [])]
        readable = all(map(self._ports.sealer.has_key_for, texts))
        return shown(row, grant, self._ports.clock.now(), readable=readable)

    def _changed(self, org: str, old: Connection, changes: PatchConnection) -> Connection:
        config = {} if changes.config is UNSET else changes.config
        refuse(_config_issues(PATCH_CONFIGS[old.kind], config))
        plain, secret = _split(expand_null_headers(config, old.sealed))
        kept = {name: text for name, text in merged(old.sealed, secret).items() if name not in secret}
        anew = _present(secret)
        new = attrs.evolve(
            old,
            name=given(changes.name) or old.name,
            provider=given(changes.provider) or old.provider,
            config=merged(old.config, plain),
            sealed=kept | anew,
            status=_status(old, changes),
            status_reason=None if changes.config is not UNSET else old.status_reason,
            ownership=Ownership(given(changes.ownership) or old.ownership),
        )
        whole = joined(new.config, new.sealed)
        refuse(
            [*config_issues(whole), *grant_issues(whole), *ownership_issues(new), *kept_secret_issues(old, new, anew)]
        )
        sealer = self._ports.sealer
        secrets = sealed(sealer, org, old.id, opened(sealer, org, old.id, kept) | anew)
        return attrs.evolve(new, sealed=secrets, client=old.client if keeps_grants(old, new) else "")


def _split(config: Mapping[str, JSON]) -> tuple[dict[str, JSON], dict[str, str | None]]:
    """The visible and the secret fields of a configuration of valid shape; null removes a secret."""
    plain, secret = split(config)
    return plain, {name: optional_text(text) for name, text in secret.items()}


def _present(secret: Mapping[str, str | None]) -> dict[str, str]:
    return {name: text for name, text in secret.items() if text is not None}


def _new_config_issues(tree: Tree) -> list[Issue]:
    """The errors of the configuration of a new connection of a known kind."""
    shape, config = CONFIGS.get(str(tree.get("kind"))), tree.get("config")
    if shape is None or not isinstance(config, dict):
        return []
    return _config_issues(shape, config) or list(grant_issues(config))


def _status(old: Connection, changes: PatchConnection) -> ConnectionStatus:
    """The given status, otherwise the old one; a refused connection with a new configuration is active again."""
    is_refused = old.status is ConnectionStatus.ERROR and changes.config is not UNSET
    return ConnectionStatus(given(changes.status) or ("active" if is_refused else old.status))


def _config_issues(shape: type, config: Mapping[str, JSON]) -> list[Issue]:
    return check(shape, config, "config") or config_issues(config)


def _without_secrets(connection: Connection) -> Connection:
    return attrs.evolve(connection, sealed=dict.fromkeys(connection.sealed, ""), client="")
