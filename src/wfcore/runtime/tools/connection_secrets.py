"""The sealed fields of connections: sealed for their organization, connection and field, and opened for calls only."""

from collections.abc import Mapping

from wfcore.domain.agents.connections import Connection, joined
from wfcore.domain.kernel.json_type import JSON
from wfcore.ports.sealing import Sealer, Unsealable, place_in_connection
from wfcore.runtime.common.authorization import conflict


def open_config(sealer: Sealer, org: str, connection: Connection) -> dict[str, JSON]:
    """The whole configuration with secrets in clear text: for calls of the service, never for a response.

    Conflict `secret_unreadable` when the key that sealed a secret is missing, or the sealed text was altered.
    """
    return joined(connection.config, opened(sealer, org, connection.id, connection.sealed))


def sealed(sealer: Sealer, org: str, id: str, secret: Mapping[str, str]) -> dict[str, str]:
    """These secrets of a connection, by field, sealed."""
    return {name: sealer.seal(text, *place_in_connection(org, id, name)) for name, text in secret.items()}


def opened(sealer: Sealer, org: str, id: str, sealed: Mapping[str, str]) -> dict[str, str]:
    """The inverse of `sealed`. Conflict as of `open_config`."""
    try:
        return {name: sealer.open(text, *place_in_connection(org, id, name)) for name, text in sealed.items()}
    except Unsealable:
        message = "a secret of this connection cannot be read with the key of this installation: send it again"
        raise conflict(message, "secret_unreadable", connectionId=id) from None
