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
from wfcore.domain.agents.connections import (
    Connection,
    ConnectionKind,
    ConnectionStatus,
    config_issues,
    expand_null_headers,
    joined,
    kept_secret_issues,
    merged,
    split,
)
from wfcore.domain.json.codec import canonical, check
from wfcore.domain.json.values import UNSET, given, to_json
from wfcore.domain.kernel.errors import Issue, refuse
from wfcore.domain.kernel.json_readers import optional_text
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal
from wfcore.ports.sealing import Sealer, Unsealable
from wfcore.ports.storage import RecordRepository, UnitOfWork
from wfcore.runtime.common.authorization import conflict, needs
from wfcore.runtime.common.bodies import Tree, parsed
from wfcore.runtime.common.organization_records import RecordServiceBase
from wfcore.runtime.common.preconditions import check_match


def open_config(sealer: Sealer, org: str, connection: Connection) -> dict[str, JSON]:
    """The whole configuration with secrets in clear text: for calls of the service, never for a response.

    Conflict `secret_unreadable` when the key that sealed a secret is missing, or the sealed text was altered.
    """
    return joined(connection.config, _opened(sealer, org, connection.id, connection.sealed))


class Connections(RecordServiceBase[Connection]):
    """The connections of the caller's organization."""

    area: ClassVar = "connections"
    kind: ClassVar = "connection"

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
        sealed = _sealed(sealer, me.org_uuid, new_id, _present(secret))
        made = Connection(new_id, new.name, new.provider, kind, plain, sealed, status)
        # a plain hash would let secrets be guessed
        request = None if key is None else sealer.fingerprint(canonical(to_json(new)))
        return await self._create(me, made, key=key, request=request, redact=_without_secrets)

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
            check_match(if_match, self._view(old).to_wire())
            return await self._save(work, me, self._changed(me.org_uuid, old, changes), to_json(changes))

    # Parts

    def _rows(self, work: UnitOfWork) -> RecordRepository[Connection]:
        return work.connections

    def _details(self, row: Connection) -> dict[str, JSON]:
        return {"name": row.name, "provider": row.provider, "kind": row.kind.value, "status": row.status.value}

    def _view(self, row: Connection) -> Connection:
        readable = all(map(self._ports.sealer.has_key_for, row.sealed.values()))
        return row if readable else attrs.evolve(row, status=ConnectionStatus.UNREADABLE)

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
        )
        whole = joined(new.config, new.sealed)
        refuse([*config_issues(whole), *kept_secret_issues(old, new, anew)])
        sealer = self._ports.sealer
        return attrs.evolve(new, sealed=_sealed(sealer, org, old.id, _opened(sealer, org, old.id, kept) | anew))


def _split(config: Mapping[str, JSON]) -> tuple[dict[str, JSON], dict[str, str | None]]:
    """The visible and the secret fields of a configuration of valid shape; null removes a secret."""
    plain, secret = split(config)
    return plain, {name: optional_text(text) for name, text in secret.items()}


def _present(secret: Mapping[str, str | None]) -> dict[str, str]:
    return {name: text for name, text in secret.items() if text is not None}


def _new_config_issues(tree: Tree) -> list[Issue]:
    """The errors of the configuration of a new connection of a known kind."""
    shape, config = CONFIGS.get(str(tree.get("kind"))), tree.get("config")
    return _config_issues(shape, config) if shape and isinstance(config, dict) else []


def _status(old: Connection, changes: PatchConnection) -> ConnectionStatus:
    """The given status, otherwise the old one; a refused connection with a new configuration is active again."""
    is_refused = old.status is ConnectionStatus.REFUSED and changes.config is not UNSET
    return ConnectionStatus(given(changes.status) or ("active" if is_refused else old.status))


def _config_issues(shape: type, config: Mapping[str, JSON]) -> list[Issue]:
    return check(shape, config, "config") or config_issues(config)


def _without_secrets(connection: Connection) -> Connection:
    return attrs.evolve(connection, sealed=dict.fromkeys(connection.sealed, ""))


def _sealed(sealer: Sealer, org: str, id: str, secret: Mapping[str, str]) -> dict[str, str]:
    return {name: sealer.seal(text, org, id, name) for name, text in secret.items()}


def _opened(sealer: Sealer, org: str, id: str, sealed: Mapping[str, str]) -> dict[str, str]:
    try:
        return {name: sealer.open(text, org, id, name) for name, text in sealed.items()}
    except Unsealable:
        message = "a secret of this connection cannot be read with the key of this installation: send it again"
        raise conflict(message, "secret_unreadable", connectionId=id) from None
