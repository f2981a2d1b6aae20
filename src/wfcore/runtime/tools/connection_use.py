"""The connections of an organization at work: which one a call gets, and what its use tells of it."""

import logging
from collections.abc import Iterator

import attrs

from wfcore.domain.agents.connections import Connection, ConnectionKind, ConnectionStatus, split
from wfcore.domain.kernel.errors import Conflict, Unavailable
from wfcore.domain.kernel.json_type import JSON
from wfcore.ports.providers import ConnectionRequired, ToolConnection, ToolFailed
from wfcore.ports.storage import Stale
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.tools.connections import opened_config

log = logging.getLogger("wfcore.connections")

PAGE = 100
CHECKED_AGAIN = 60_000
"""Milliseconds after which `lastCheckedAt` is written anew, though nothing else has changed."""

USABLE = (ConnectionStatus.ACTIVE, ConnectionStatus.REFUSED)
"""Best first. What was refused may be good again: only trying tells."""


class Missing(ConnectionRequired):
    """A connection is required; `info` tells which."""

    def __init__(self, info: dict[str, JSON], message: str) -> None:
        super().__init__(message)
        self.info = info


class NoConnection(Missing):
    """There is no such connection, and never will be: ids are given once."""


@attrs.frozen
class OpenedConnection:
    """A connection as it was read, and as a tool is given it."""

    row: Connection
    handed: ToolConnection

    def secrets(self) -> Iterator[str]:
        yield from (value for value in split(self.handed.config)[1].values() if isinstance(value, str))

    def failed(self, error: BaseException) -> ToolFailed:
        """The failure as it may be told: without the secrets that the tool was given."""
        told = error.message if isinstance(error, ToolFailed) else f"{type(error).__name__}: {error}"
        for secret in sorted(self.secrets(), key=len, reverse=True):
            told = told.replace(secret, "***") if secret else told
        if isinstance(error, ConnectionRequired):
            return Missing({"provider": self.row.provider, "connectionId": self.row.id}, told)
        return ToolFailed(told, retryable=error.retryable if isinstance(error, ToolFailed) else True)


class ConnectionUse:
    """Opens connections, and keeps what came of their use. Its errors are `Missing`."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    async def of_provider(self, org: str, provider: str) -> OpenedConnection:
        """The organization's connection to this service: the oldest that is in use."""
        row = await self._row(org, provider)
        if row is None:
            raise Missing({"provider": provider}, f"there is no connection to `{provider}`")
        return self._opened(org, row)

    async def of_id(self, org: str, id: str, kind: ConnectionKind) -> OpenedConnection:
        async with self._ports.storage.reading(org) as work:
            row = await work.connections.get(id)
        if row is None or row.kind is not kind:
            raise NoConnection({"connectionId": id}, f"there is no connection `{id[:80]}`")
        return self._opened(org, row)

    async def worked(self, org: str, used: OpenedConnection, error: BaseException | None = None) -> None:
        """Keep whether the service took the credentials. Any other failure says nothing about them."""
        if error is not None and not isinstance(error, ConnectionRequired):
            return
        row, now = used.row, self._ports.now()
        status = ConnectionStatus.ACTIVE if error is None else ConnectionStatus.REFUSED
        checked = row.last_checked_at
        if row.status is status and checked and (now - checked).total_seconds() * 1000 < CHECKED_AGAIN:
            return
        try:
            await self._keep(org, row, attrs.evolve(row, status=status, last_checked_at=now))
        except (Unavailable, Stale) as why:  # what the call came to counts more
            log.warning("the use of a connection could not be kept", extra={"why": str(why)})

    # Parts

    async def _keep(self, org: str, row: Connection, new: Connection) -> None:
        """Unless somebody has changed it meanwhile: then nothing is known of it."""
        async with self._ports.storage.transaction(org) as work:
            if await work.connections.get(row.id) == row:
                await work.connections.save(new)

    def _opened(self, org: str, row: Connection) -> OpenedConnection:
        where: dict[str, JSON] = {"provider": row.provider, "connectionId": row.id}
        if row.status not in USABLE:
            raise Missing(where, f"the connection `{row.name}` is disabled")
        try:
            config = opened_config(self._ports.sealer, org, row)
        except Conflict:
            raise Missing(where, f"the secrets of `{row.name}` cannot be read") from None
        return OpenedConnection(row, ToolConnection(row.id, row.provider, row.kind.value, config))

    async def _row(self, org: str, provider: str) -> Connection | None:
        """One in use before one that was refused, before one that is neither."""
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
