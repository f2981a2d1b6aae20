"""The use of an organization's connections: select one for a call, and record whether its credentials work."""

import base64
import logging
import re
from collections.abc import Callable, Iterator
from functools import partial
from urllib.parse import quote, quote_plus

import attrs

from wfcore.domain.agents.connections import Connection, ConnectionKind, ConnectionStatus, split
from wfcore.domain.kernel.errors import Conflict
from wfcore.domain.kernel.json_type import JSON
from wfcore.ports.providers import ConnectionRequired, ToolConnection, ToolFailed
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.tools.connections import open_config

log = logging.getLogger("wfcore.connections")

SHORTEST_MASKED = 4
"""The length from which a secret is masked in results: a shorter one can be part of any text."""

PAGE = 100
CHECK_INTERVAL = 60_000
"""Milliseconds after which `lastCheckedAt` is updated although the status is unchanged."""

USABLE = (ConnectionStatus.ACTIVE, ConnectionStatus.REFUSED)
"""In order of preference. A refused connection is tried again, because its credentials can be valid by now."""


class ConnectionMissing(ConnectionRequired):
    """A usable connection is required; `info` identifies it."""

    def __init__(self, info: dict[str, JSON], message: str) -> None:
        super().__init__(message)
        self.info = info


class NoConnection(ConnectionMissing):
    """The connection does not exist, and never will: ids are not reused."""


@attrs.frozen
class OpenedConnection:
    """A connection's row, and the decrypted connection that a tool receives."""

    row: Connection
    tool_connection: ToolConnection

    def secrets(self) -> Iterator[str]:
        yield from (value for value in split(self.tool_connection.config)[1].values() if isinstance(value, str))

    def masked(self, output: JSON) -> JSON:
        """The result of a tool with `***` in place of the connection's secrets, also of encoded ones."""
        forms = {form for secret in self.secrets() if len(secret) >= SHORTEST_MASKED for form in _forms_of(secret)}
        if not forms:
            return output
        pattern = re.compile("|".join(map(re.escape, sorted(forms, key=len, reverse=True))))
        return _replaced(output, partial(pattern.sub, "***"))

    def redacted(self, error: BaseException) -> ToolFailed:
        """The failure with the connection's secrets removed from its message."""
        message = error.message if isinstance(error, ToolFailed) else f"{type(error).__name__}: {error}"
        for secret in sorted(self.secrets(), key=len, reverse=True):
            message = message.replace(secret, "***") if secret else message
        if isinstance(error, ConnectionRequired):
            return ConnectionMissing({"provider": self.row.provider, "connectionId": self.row.id}, message)
        return ToolFailed(message, retryable=error.retryable if isinstance(error, ToolFailed) else True)


def _forms_of(secret: str) -> Iterator[str]:
    """The secret as it is, in a URL, and in base64 at each position of a longer text."""
    yield from (secret, quote(secret, safe=""), quote(secret), quote_plus(secret))
    raw = secret.encode()
    for skipped in range(3):
        start, end = -(-skipped * 8 // 6), (skipped + len(raw)) * 8 // 6
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            inner = encode(bytes(skipped) + raw).decode()[start:end]
            if len(inner) > 2 * SHORTEST_MASKED:
                yield inner
    yield from (base64.b64encode(raw).decode(), base64.urlsafe_b64encode(raw).decode())


def _replaced(value: JSON, replace: Callable[[str], str]) -> JSON:
    """The JSON value with every string and key replaced."""
    if isinstance(value, str):
        return replace(value)
    if isinstance(value, list):
        return [_replaced(item, replace) for item in value]
    if isinstance(value, dict):
        return {replace(key): _replaced(item, replace) for key, item in value.items()}
    return value


class ConnectionUse:
    """Opens connections and records the results of their use. Its errors are `ConnectionMissing`."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    async def of_provider(self, org: str, provider: str) -> OpenedConnection:
        """The organization's connection to this provider: the oldest active one."""
        row = await self._row(org, provider)
        if row is None:
            raise ConnectionMissing({"provider": provider}, f"there is no connection to `{provider}`")
        return self._opened(org, row)

    async def of_id(self, org: str, id: str, kind: ConnectionKind) -> OpenedConnection:
        async with self._ports.storage.reading(org) as work:
            row = await work.connections.get(id)
        if row is None or row.kind is not kind:
            raise NoConnection({"connectionId": id}, f"there is no connection `{id[:80]}`")
        return self._opened(org, row)

    async def record_result(self, org: str, used: OpenedConnection, error: BaseException | None = None) -> None:
        """Record whether the service accepted the credentials. Other failures do not change the status."""
        if error is not None and not isinstance(error, ConnectionRequired):
            return
        row, now = used.row, self._ports.now()
        status = ConnectionStatus.ACTIVE if error is None else ConnectionStatus.REFUSED
        checked = row.last_checked_at
        if row.status is status and checked and (now - checked).total_seconds() * 1000 < CHECK_INTERVAL:
            return
        try:
            await self._keep(org, row, attrs.evolve(row, status=status, last_checked_at=now))
        except Exception as why:  # noqa: BLE001  (the call's own outcome must not be lost)
            log.warning("the use of a connection could not be recorded", extra={"why": str(why)})

    # Parts

    async def _keep(self, org: str, row: Connection, new: Connection) -> None:
        """Save the row, unless it has changed meanwhile: the result then says nothing about the new credentials."""
        async with self._ports.storage.transaction(org) as work:
            if await work.connections.get(row.id) == row:
                await work.connections.save(new)

    def _opened(self, org: str, row: Connection) -> OpenedConnection:
        where: dict[str, JSON] = {"provider": row.provider, "connectionId": row.id}
        if row.status not in USABLE:
            raise ConnectionMissing(where, f"the connection `{row.name}` is disabled")
        try:
            config = open_config(self._ports.sealer, org, row)
        except Conflict:
            raise ConnectionMissing(where, f"the secrets of `{row.name}` cannot be read") from None
        return OpenedConnection(row, ToolConnection(row.id, row.provider, row.kind.value, config))

    async def _row(self, org: str, provider: str) -> Connection | None:
        """An active connection, otherwise a refused one, otherwise any."""
        found: dict[ConnectionStatus, Connection] = {}
        after = ""
        async with self._ports.storage.reading(org) as work:
            while page := await work.connections.page(limit=PAGE, after=after):
                for row in page:
                    if row.provider == provider:
                        found.setdefault(row.status, row)
                if ConnectionStatus.ACTIVE in found:
                    break
                after = page[-1].id
        return next((found[status] for status in (*USABLE, *found) if status in found), None)
