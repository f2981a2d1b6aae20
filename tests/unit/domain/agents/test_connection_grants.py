"""The status of a connection as its users see it."""

from typing import Any

import attrs
import pytest

from wfcore.domain.agents.connection_grants import REFUSED, UNREADABLE, ConnectionGrant, grant_id, shown
from wfcore.domain.agents.connections import Connection, ConnectionKind, ConnectionStatus, Ownership

OAUTH = Connection("c", "n", "p", ConnectionKind.OAUTH2, {"clientId": "x"}, {})
CLIENT = attrs.evolve(OAUTH, config={"grant": "client_credentials"})
SERVER = Connection("c", "n", "p", ConnectionKind.MCP, {"url": "https://x.org"}, {})
BAD = attrs.evolve(SERVER, status=ConnectionStatus.ERROR, status_reason=REFUSED)
ENDED = "the access token has expired, and there is no refresh token"
GRANT = ConnectionGrant("c", "", "1.k.z", 10)


@pytest.mark.parametrize(
    ("connection", "grant", "wanted"),
    [
        (OAUTH, None, ("needs_authorization", None)), (CLIENT, None, ("connected", None)),
        (OAUTH, GRANT, ("connected", None)), (OAUTH, attrs.evolve(GRANT, expires_at=None), ("connected", None)),
        (OAUTH, attrs.evolve(GRANT, expires_at=5), ("expired", ENDED)),
        (OAUTH, attrs.evolve(GRANT, expires_at=5, can_refresh=True), ("connected", None)),
        (CLIENT, attrs.evolve(GRANT, expires_at=5), ("connected", None)),
        (OAUTH, attrs.evolve(GRANT, status=ConnectionStatus.ERROR, reason="why"), ("error", "why")),
        (attrs.evolve(OAUTH, status=ConnectionStatus.DISABLED), GRANT, ("disabled", None)),
        (SERVER, None, ("active", None)), (SERVER, GRANT, ("connected", None)),
        (attrs.evolve(SERVER, client="1.k.c"), None, ("needs_authorization", None)),
        (attrs.evolve(SERVER, config={"clientId": "x"}), None, ("needs_authorization", None)),
        (attrs.evolve(SERVER, ownership=Ownership.USER), None, ("needs_authorization", None)),
        (BAD, None, ("needs_authorization", REFUSED)),
        (attrs.evolve(BAD, sealed={"headers.X": ""}), None, ("error", REFUSED)),
    ],
)  # fmt: skip
def test_the_status_is_that_of_the_authorization(connection: Connection, grant: Any, wanted: Any) -> None:
    """Without OAuth it is the stored one; a server without credentials that refuses needs an authorization."""
    found = shown(connection, grant, 7)
    assert (found.status, found.status_reason) == wanted
    unread = shown(connection, grant, 7, readable=False)
    assert (unread.status, unread.status_reason) == ("error", UNREADABLE)


def test_whose_grant_it_is() -> None:
    """One for each user, or one for the organization; the grants of a connection are adjacent by id."""
    assert [one.owner("ada") for one in (OAUTH, attrs.evolve(OAUTH, ownership=Ownership.USER))] == ["", "ada"]
    assert (GRANT.id, grant_id("c", "ada")) == ("c:", "c:ada")
    assert GRANT.to_wire() == {"connectionId": "c", "userId": None, "status": "connected"}
    assert "1.k.z" not in repr(GRANT)
