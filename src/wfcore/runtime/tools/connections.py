"""Connections to external services (interface, functional areas: connections).

Secrets are write-only: they are sealed for their organization, connection and field before they are stored, and
responses only state that they exist.
"""

from collections.abc import Mapping
from typing import ClassVar

import attrs

from wfcore.api.connections import CONFIGS, PATCH_CONFIGS, CreateConnection, PatchConnection
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
from wfcore.domain.kernel.errors import Issue, refuse
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal
from wfcore.ports.sealing import Sealer, Unsealable
from wfcore.ports.storage import RecordRepository, UnitOfWork
from wfcore.runtime.common.authorization import conflict, needs
from wfcore.runtime.common.organization_records import RecordServiceBase
from wfcore.runtime.common.requests import key_issues, wire_body


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
        self, me: Principal, body: Mapping[str, JSON] | None = None, *, key: str | None = None, **fields: JSON
    ) -> Connection:
        """Create a connection. `key` is an Idempotency-Key: the same key and body return the same response."""
        data = wire_body(body, fields)
        refuse([*key_issues(key), *check(CreateConnection, data)])
        refuse(_config_issues(CONFIGS[data["kind"]], data["config"]))
        sealer, new_id = self._ports.sealer, self._ports.ids.uuid()
        plain, secret = split(data["config"])
        kind, status = ConnectionKind(data["kind"]), ConnectionStatus(data.get("status", "active"))
        sealed = _sealed(sealer, me.org_uuid, new_id, secret)
        made = Connection(new_id, data["name"], data["provider"], kind, plain, sealed, status)
        request = (
            None if key is None else sealer.fingerprint(canonical(data))
        )  # a plain hash would let secrets be guessed
        return await self._create(me, made, key=key, request=request, redact=_without_secrets)

    @needs("*:write")
    async def patch(self, me: Principal, id: str, body: Mapping[str, JSON] | None = None, **fields: JSON) -> Connection:
        """Change the given fields, also within `config`: an absent field is kept, null removes it (RFC 7396).

        Kept secrets are sealed again with the current key; Conflict `secret_unreadable` when one cannot be opened.
        Invalid when kept secrets would be sent to another provider, scheme, host or port.
        """
        data = wire_body(body, fields)
        refuse(check(PatchConnection, data))
        async with self._ports.storage.transaction(me.org_uuid) as work:
            old = await self._found(work, id)
            return await self._save(work, me, self._changed(me.org_uuid, old, data), data)

    # Parts

    def _rows(self, work: UnitOfWork) -> RecordRepository[Connection]:
        return work.connections

    def _details(self, row: Connection) -> dict[str, JSON]:
        return {"name": row.name, "provider": row.provider, "kind": row.kind.value, "status": row.status.value}

    def _view(self, row: Connection) -> Connection:
        readable = all(map(self._ports.sealer.has_key_for, row.sealed.values()))
        return row if readable else attrs.evolve(row, status=ConnectionStatus.UNREADABLE)

    def _changed(self, org: str, old: Connection, data: Mapping[str, JSON]) -> Connection:
        config = data.get("config", {})
        refuse(_config_issues(PATCH_CONFIGS[old.kind], config))
        plain, secret = split(expand_null_headers(config, old.sealed))
        kept = {name: text for name, text in merged(old.sealed, secret).items() if name not in secret}
        given = {name: text for name, text in secret.items() if text is not None}
        new = attrs.evolve(
            old,
            name=data.get("name", old.name),
            provider=data.get("provider", old.provider),
            config=merged(old.config, plain),
            sealed=kept | given,
            status=_status(old, data),
        )
        whole = joined(new.config, new.sealed)
        refuse([*config_issues(whole), *kept_secret_issues(old, new, given)])
        sealer = self._ports.sealer
        return attrs.evolve(new, sealed=_sealed(sealer, org, old.id, _opened(sealer, org, old.id, kept) | given))


def _status(old: Connection, data: Mapping[str, JSON]) -> ConnectionStatus:
    """The given status, otherwise the old one; a refused connection with a new configuration is active again."""
    is_refused = old.status is ConnectionStatus.REFUSED and "config" in data
    return ConnectionStatus(data.get("status", "active" if is_refused else old.status))


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
