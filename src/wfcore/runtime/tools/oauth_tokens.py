"""The tokens of connections: granted, replaced before they expire, and revoked.

Only one process at a time replaces the tokens of a grant: a server that rotates refresh tokens takes the second use of
one as theft, and revokes them all. The process that wrote the end of its lease into the row has that right.
"""

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final, TypeVar

import attrs

from wfcore.domain.agents.connection_grants import REFUSED, ConnectionGrant, grant_id
from wfcore.domain.agents.connections import Connection, ConnectionStatus, grant_fingerprint
from wfcore.domain.agents.oauth_client import (
    GrantedTokens,
    OAuthClient,
    OAuthRefused,
    client_request,
    code_request,
    refresh_request,
    revocation_request,
)
from wfcore.domain.json.codec import dumps
from wfcore.domain.json.parsing import parse_json
from wfcore.domain.kernel.errors import Conflict
from wfcore.domain.kernel.json_readers import as_object, as_text
from wfcore.ports.outbound import Undelivered
from wfcore.ports.providers import ConnectionRequired, ToolFailed
from wfcore.ports.sealing import Unsealable, place_of_tokens
from wfcore.ports.storage import UnitOfWork
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.tools.oauth_servers import OAuthServers

log = logging.getLogger("wfcore.connections")

LEASE: Final = 60_000
"""Milliseconds in which a process replaces tokens: longer than a request to the server can take."""
POLL: Final = 0.1
"""Seconds between two looks at tokens that another process replaces."""
WAIT: Final = 45_000
"""Milliseconds for which a call waits for that."""
SECONDS_TO_REVOKE: Final = 10.0
PAGE: Final = 100

T = TypeVar("T")


class ConnectionChanged(Exception):
    """The connection is not the one any more that the user has authorized."""


class OAuthTokens:
    """The tokens of the connections of all organizations."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._servers = OAuthServers(ports)
        self._tasks: set[asyncio.Task[Any]] = set()

    async def fresh(self, org: str, row: Connection, owner: str, *, instead_of: str = "") -> str:
        """An access token that can be used now, never the one `instead_of` that the service refused.

        ConnectionRequired when somebody has to authorize the connection; another ToolFailed when the authorization
        server cannot be reached now.
        """
        clock = self._ports.clock
        end = clock.monotonic() + WAIT
        while clock.monotonic() < end:
            async with self._ports.storage.reading(org) as work:
                grant = await work.connection_grants.get(grant_id(row.id, owner))
            token = self._usable(org, grant)
            if token not in ("", instead_of):
                return token
            claimed = await self._claim(org, row, owner, grant)
            if claimed is not None:
                return await self._to_its_end(self._renew(org, row, claimed))
            await clock.sleep(POLL)
        raise ToolFailed("the tokens of the connection are being replaced: try again later")

    async def accept(self, org: str, row: Connection, owner: str, code: str, redirect_uri: str, verifier: str) -> None:
        """Exchange an authorization code for tokens, and store them.

        OAuthRefused or Undelivered as of OAuthServers. ConnectionChanged, and nothing is stored, when the owner, the
        client or a receiver has changed, or the connection was deleted, while the server responded.
        """
        client = self._servers.client_of(org, row)
        if client is None:
            raise OAuthRefused("the connection has changed since the authorization began")
        tokens = await self._servers.tokens(org, row, client, code_request(client, code, redirect_uri, verifier))
        grant = self._granted(org, ConnectionGrant(row.id, owner), tokens)
        async with self._ports.storage.transaction(org) as work:
            now = await work.connections.get(row.id)
            if now is None or grant_fingerprint(now) != grant_fingerprint(row):
                raise ConnectionChanged
            await _save(work, grant)

    async def refused(self, org: str, row: Connection, owner: str, reason: str) -> None:
        """Record that an authorization did not succeed, unless an earlier one still holds."""
        grant = ConnectionGrant(row.id, owner, status=ConnectionStatus.NEEDS_AUTHORIZATION, reason=reason)
        async with self._ports.storage.transaction(org) as work:
            old = await work.connection_grants.get(grant.id)
            if (old is None or not old.sealed) and await work.connections.get(row.id):
                await _save(work, grant)

    async def record(self, org: str, row: Connection, owner: str, token: str, *, works: bool) -> None:
        """Record whether the service accepted this token, unless another one replaces or has replaced it.

        A change of the grant while its tokens are replaced would lose the new ones.
        """
        status, reason = (ConnectionStatus.CONNECTED, None) if works else (ConnectionStatus.ERROR, REFUSED)
        async with self._ports.storage.transaction(org) as work:
            grant = await work.connection_grants.get(grant_id(row.id, owner))
            if grant is None or not grant.sealed or grant.leased_until > self._ports.clock.now():
                return
            if self._opened(org, grant).access == token and (grant.status, grant.reason) != (status, reason):
                await work.connection_grants.save(attrs.evolve(grant, status=status, reason=reason))

    async def revoke(self, org: str, row: Connection, grants: list[ConnectionGrant]) -> None:
        """Revoke the tokens of these grants, as far as the server has an endpoint for that and responds in time."""
        with suppress(Conflict):
            client = self._servers.client_of(org, row)
            if client is not None and client.revocation_url:
                with suppress(TimeoutError):
                    async with asyncio.timeout(SECONDS_TO_REVOKE):
                        await asyncio.gather(*(self._revoke(org, client, grant) for grant in grants))

    # Parts

    async def _to_its_end(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the work to its end although its caller is cancelled: tokens that were issued must be stored."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return await asyncio.shield(task)

    def _done(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()

    def _usable(self, org: str, grant: ConnectionGrant | None) -> str:
        """The access token if it can be used now, otherwise ""."""
        if grant is None or not grant.is_fresh(self._ports.clock.now()):
            return ""
        return self._opened(org, grant).access

    def _opened(self, org: str, grant: ConnectionGrant) -> GrantedTokens:
        """The tokens of a grant. ConnectionRequired when this installation does not have their key."""
        try:
            text = self._ports.sealer.open(grant.sealed, *place_of_tokens(org, grant.connection_id, grant.user_id))
        except Unsealable:
            raise ConnectionRequired("the tokens of the connection cannot be read") from None
        found = as_object(parse_json(text.encode()))
        return GrantedTokens(as_text(found["access"]), as_text(found["refresh"]))

    async def _claim(
        self, org: str, row: Connection, owner: str, seen: ConnectionGrant | None
    ) -> ConnectionGrant | None:
        """The grant with a lease of this process; None when it has changed, or another process has the lease.

        ConnectionRequired for a grant that only a user can renew.
        """
        if not row.is_of_client and (seen is None or not (seen.sealed and seen.can_refresh)):
            if seen is not None and seen.sealed and not seen.is_fresh(self._ports.clock.now()):
                raise ConnectionRequired("the access token has expired: authorize the connection again")
            refused = seen is not None and seen.sealed
            raise ConnectionRequired(REFUSED if refused else "the connection needs an authorization")
        now = self._ports.clock.now()
        async with self._ports.storage.transaction(org) as work:
            grant = await work.connection_grants.get(grant_id(row.id, owner))
            if grant != seen or (grant is not None and is_leased(grant, now)):
                return None
            claimed = attrs.evolve(grant or ConnectionGrant(row.id, owner), leased_until=now + LEASE)
            await _save(work, claimed)
            return claimed

    async def _renew(self, org: str, row: Connection, claimed: ConnectionGrant) -> str:
        """Replace the tokens, and end the lease."""
        after = attrs.evolve(claimed, leased_until=0)
        try:
            tokens = await self._requested(org, row, claimed)
            after = self._granted(org, claimed, tokens)
        except Undelivered as error:
            raise ToolFailed(f"the authorization server cannot be reached: {error}") from None
        except OAuthRefused as error:
            after = _lost(after, error)
            raise ConnectionRequired(str(error)) from None
        except Conflict:
            raise ConnectionRequired("the secrets of the connection cannot be read") from None
        finally:
            async with self._ports.storage.transaction(org) as work:
                if await work.connection_grants.get(claimed.id) == claimed:
                    await work.connection_grants.save(after)
        return tokens.access

    async def _requested(self, org: str, row: Connection, claimed: ConnectionGrant) -> GrantedTokens:
        client = self._servers.client_of(org, row)
        if client is None:
            raise OAuthRefused("the connection has changed: authorize it again", "invalid_grant")
        if row.is_of_client:
            return await self._servers.tokens(org, row, client, client_request(client))
        old = self._opened(org, claimed).refresh
        tokens = await self._servers.tokens(org, row, client, refresh_request(client, old))
        return attrs.evolve(tokens, refresh=tokens.refresh or old)

    def _granted(self, org: str, grant: ConnectionGrant, tokens: GrantedTokens) -> ConnectionGrant:
        text = dumps({"access": tokens.access, "refresh": tokens.refresh})
        return ConnectionGrant(
            grant.connection_id,
            grant.user_id,
            self._ports.sealer.seal(text, *place_of_tokens(org, grant.connection_id, grant.user_id)),
            tokens.expires_at(self._ports.clock.now()),
            bool(tokens.refresh),
        )

    async def _revoke(self, org: str, client: OAuthClient, grant: ConnectionGrant) -> None:
        try:
            tokens = self._opened(org, grant) if grant.sealed else GrantedTokens("")
            for token, hint in ((tokens.refresh, "refresh_token"), (tokens.access, "access_token")):
                if token:
                    await self._servers.revoke(client, revocation_request(client, token, hint))
        except (Undelivered, ConnectionRequired) as error:
            log.warning("the tokens of a connection could not be revoked", extra={"why": str(error)})


def is_leased(grant: ConnectionGrant, now: int) -> bool:
    """Whether a process replaces the tokens, and nobody else may change the grant.

    A later end than this is of a process whose clock was ahead: nobody would renew the tokens until then.
    """
    return now < grant.leased_until <= now + 2 * LEASE


async def grants_of(work: UnitOfWork, connection_id: str) -> list[ConnectionGrant]:
    """All grants of a connection."""
    found, after = list[ConnectionGrant](), f"{connection_id}:"
    first = await work.connection_grants.get(after)
    while page := await work.connection_grants.page(limit=PAGE, after=after):
        own = [grant for grant in page if grant.connection_id == connection_id]
        found, after = found + own, page[-1].id
        if len(own) < len(page):
            break
    return [first, *found] if first else found


async def remove_grants(work: UnitOfWork, connection_id: str) -> list[ConnectionGrant]:
    """Delete all grants of a connection. Returns them."""
    found = await grants_of(work, connection_id)
    for grant in found:
        await work.connection_grants.remove(grant.id)
    return found


async def _save(work: UnitOfWork, grant: ConnectionGrant) -> None:
    """Add the grant, or replace it."""
    await work.connection_grants.remove(grant.id)
    await work.connection_grants.add(grant)


def _lost(grant: ConnectionGrant, error: OAuthRefused) -> ConnectionGrant:
    """The grant after the server refused to replace its tokens: refused for ever, or to this client for now."""
    if error.code == "invalid_grant":
        return attrs.evolve(grant, sealed="", can_refresh=False, status=ConnectionStatus.EXPIRED, reason=str(error))
    return attrs.evolve(grant, status=ConnectionStatus.ERROR, reason=str(error))
