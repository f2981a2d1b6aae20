"""What an authorization server granted for a connection: its tokens, sealed, and the status that users see."""

from typing import Final

import attrs

from wfcore.domain.agents.connections import Connection, ConnectionKind, ConnectionStatus
from wfcore.domain.kernel.json_type import JSON

REFUSED: Final = "the service refused the credentials"
UNREADABLE: Final = "the secrets cannot be read with the key of this installation: send them again"


@attrs.frozen
class ConnectionGrant:
    """The authorization of one connection by a user, or for the whole organization (`user_id` "").

    `sealed` holds the tokens, "" when there are none or they are of no more use. `expires_at` is when the access token
    has to be replaced, None for one without an end. `can_refresh`: there is a refresh token. `leased_until`: until then
    one process has the right to replace the tokens. Times are epoch milliseconds.
    """

    connection_id: str
    user_id: str
    sealed: str = attrs.field(default="", repr=False)
    expires_at: int | None = None
    can_refresh: bool = False
    status: ConnectionStatus = ConnectionStatus.CONNECTED
    reason: str | None = None
    leased_until: int = 0

    @property
    def id(self) -> str:
        return grant_id(self.connection_id, self.user_id)

    def to_wire(self) -> dict[str, JSON]:
        return {"connectionId": self.connection_id, "userId": self.user_id or None, "status": self.status.value}

    def is_fresh(self, now: int) -> bool:
        """Whether the access token can be used now."""
        return bool(self.sealed) and (self.expires_at is None or now < self.expires_at)


def grant_id(connection_id: str, user_id: str) -> str:
    """The id of a grant. The grants of a connection are adjacent by id."""
    return f"{connection_id}:{user_id}"


def shown(connection: Connection, grant: ConnectionGrant | None, now: int, *, readable: bool = True) -> Connection:
    """The connection with the status that one user sees. `readable`: this installation has the key of its secrets."""
    if not readable:
        return attrs.evolve(connection, status=ConnectionStatus.ERROR, status_reason=UNREADABLE)
    if connection.status is ConnectionStatus.DISABLED:
        return connection
    if not (connection.uses_oauth or grant):
        return _without_oauth(connection)
    status, reason = _status(connection, grant, now)
    return attrs.evolve(connection, status=status, status_reason=reason)


def _without_oauth(connection: Connection) -> Connection:
    """An MCP server that refuses calls without credentials can require an authorization."""
    refuses = connection.kind is ConnectionKind.MCP and connection.status is ConnectionStatus.ERROR
    if refuses and not connection.sealed:
        return attrs.evolve(connection, status=ConnectionStatus.NEEDS_AUTHORIZATION)
    return connection


def _status(connection: Connection, grant: ConnectionGrant | None, now: int) -> tuple[ConnectionStatus, str | None]:
    if grant is None:
        waits = not connection.is_of_client
        return ConnectionStatus.NEEDS_AUTHORIZATION if waits else ConnectionStatus.CONNECTED, None
    renewable = grant.can_refresh or connection.is_of_client
    if grant.status is ConnectionStatus.CONNECTED and not grant.is_fresh(now) and not renewable:
        return ConnectionStatus.EXPIRED, "the access token has expired, and there is no refresh token"
    return grant.status, grant.reason
