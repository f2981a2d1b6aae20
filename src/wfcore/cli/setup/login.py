"""`wfcore login` and `logout`: the servers that other commands work on."""

import getpass
import sys
from typing import Annotated, Final

from cyclopts import CycloptsError, Parameter

from wfcore.cli.client import CommandTarget, Refused, connected
from wfcore.cli.common import DATABASE, UnusedDatabase, print_message
from wfcore.cli.credentials import address_of, read_credentials, write_credentials
from wfcore.cli.setup.device import device_token

UNAUTHORIZED: Final = 401


async def login(
    server: Annotated[str, Parameter(help="The address of the server, such as https://flows.example.org.")],
    /,
    *,
    token: str | None = None,
    client_id: str | None = None,
    scope: str | None = None,
    database: UnusedDatabase = DATABASE,
) -> None:
    """Sign in to a server: later commands without --server and --org use it. The token is in a file for you alone.

    Reads the token from the terminal, or a line of stdin. With --client-id, you sign in in a browser instead.

    Parameters
    ----------
    token
        A personal access token.
    client_id
        The client that the issuer of the server knows for this command: it shows a code for its sign-in page.
    scope
        What to request of the issuer; by default its own choice.
    """
    address = address_of(server)
    if client_id is not None:
        token = await device_token(address, client_id, scope)
    elif token is None:
        token = _read_token(address)
    await _verify(address, token)
    file = write_credentials(read_credentials().added(address, token))
    print_message(f"signed in to {address}; the token is in {file}")


async def logout(server: str | None = None, /, *, database: UnusedDatabase = DATABASE) -> None:
    """Remove the token of a server from this computer. It stays valid: `wfcore token revoke` ends it.

    Parameters
    ----------
    server
        The address; the server of the last login when left out.
    """
    known = read_credentials()
    address = known.current if server is None else address_of(server)
    if address is None or address not in known.tokens:
        raise CycloptsError(msg="there is no token of this server: `wfcore login` stores one")
    write_credentials(known.without(address))
    print_message(f"signed out of {address}")


def _read_token(address: str) -> str:
    text = getpass.getpass(f"token for {address}: ", sys.stderr) if sys.stdin.isatty() else sys.stdin.readline()
    if not text.strip():
        raise CycloptsError(msg="no token was given: create one with `wfcore token create`, or in the studio")
    return text.strip()


async def _verify(address: str, token: str) -> None:
    """Raises Refused when the server does not accept the token; one that lacks a scope is accepted."""
    async with connected(CommandTarget(server=address, token=token)) as api:
        try:
            await api.get("/api/v1/workflows", pageSize=1)
        except Refused as error:
            if error.refused_with == UNAUTHORIZED:
                raise
