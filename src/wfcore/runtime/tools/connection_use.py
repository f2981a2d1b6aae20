"""The use of an organization's connections: select one for a call, and record whether its credentials work."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from typing import Self, TypeVar

import attrs

from wfcore.domain.agents.connection_grants import REFUSED, grant_id, shown
from wfcore.domain.agents.connections import Connection, ConnectionKind, ConnectionStatus, split
from wfcore.domain.agents.secret_masks import SecretMask
from wfcore.domain.kernel.errors import Conflict
from wfcore.domain.kernel.json_readers import optional_object
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal
from wfcore.ports.faults import ClaimLost, InternalFault, StoreUnavailable, is_failure, own_work
from wfcore.ports.journal import Execution
from wfcore.ports.providers import ConnectionRequired, ToolConnection, ToolFailed
from wfcore.runtime.common.loop_slice import beside_loop, size_of
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.tools.connection_secrets import open_config
from wfcore.runtime.tools.oauth_tokens import OAuthTokens

log = logging.getLogger("wfcore.connections")

SHORTEST_MASKED = 4
"""The length from which a secret is masked in results: a shorter one can be part of any text. In the message of an
exception every secret is.
"""

PAGE = 100
CHECK_INTERVAL = 60_000
"""Milliseconds after which `lastCheckedAt` is updated although the status is unchanged."""

RANKS = (
    ConnectionStatus.ACTIVE, ConnectionStatus.CONNECTED, ConnectionStatus.ERROR, ConnectionStatus.NEEDS_AUTHORIZATION,
    ConnectionStatus.EXPIRED, ConnectionStatus.DISABLED,
)  # fmt: skip
"""In order of preference. A refused connection is tried again, because its credentials can be valid by now."""

WORKING = RANKS[:2]

T = TypeVar("T")


class ConnectionMissing(ConnectionRequired):
    """A usable connection is required; `info` identifies it."""

    def __init__(self, info: dict[str, JSON], message: str) -> None:
        super().__init__(message)
        self.info = info


UseOf = Callable[["OpenedConnection"], Awaitable[T]]


class NoConnection(ConnectionMissing):
    """The connection does not exist, and never will: ids are not reused."""


@attrs.frozen
class OpenedConnection:
    """A connection's row, and the decrypted connection that a tool receives.

    `token` is its access token, "" without OAuth, which `owner` authorized.
    """

    row: Connection
    tool_connection: ToolConnection
    token: str = attrs.field(default="", repr=False)
    owner: str = ""

    def secrets(self) -> Iterator[str]:
        yield from (value for value in split(self.tool_connection.config)[1].values() if isinstance(value, str))

    def mask(self, shortest: int = SHORTEST_MASKED) -> SecretMask:
        """Replaces the connection's secrets of at least this length in what its service sent."""
        return SecretMask.of(self.secrets(), shortest)

    async def masked(self, output: JSON) -> JSON:
        """A result without the connection's secrets. A large one is masked in a thread."""
        return await beside_loop(size_of(output), self.mask().value, output)

    def redacted(self, error: BaseException) -> ToolFailed:
        """The failure with the connection's secrets, also encoded and cut ones, replaced by `***` in its message."""
        message = error.message if isinstance(error, ToolFailed) else f"{type(error).__name__}: {error}"
        message = self.mask(1).text(message)
        if isinstance(error, ConnectionRequired):
            return ConnectionMissing({"provider": self.row.provider, "connectionId": self.row.id}, message)
        return ToolFailed(message, retryable=error.retryable if isinstance(error, ToolFailed) else True)


@attrs.frozen
class ConnectionUser:
    """Whose connections a call uses: those of an organization, and of one of its users.

    `chosen` are selections of connections, one after the other: of a provider that has one in a selection, no other
    is used.
    """

    org: str
    user_id: str
    chosen: Sequence[Collection[str]] = ()

    @classmethod
    def of(cls, me: Principal) -> Self:
        return cls(me.org_uuid, me.user_id)

    @classmethod
    def of_run(cls, execution: Execution, chosen: Sequence[Collection[str]] = ()) -> Self:
        """The user who started the run."""
        return cls(execution.ref.org, execution.user_id, chosen)


class ConnectionUse:
    """Opens connections and records the results of their use. Its errors are `ConnectionMissing`."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._tokens = OAuthTokens(ports)

    async def of_provider(self, user: ConnectionUser, provider: str) -> OpenedConnection:
        """The user's connection to this provider: the oldest one that works."""
        row = await self._row(user, provider)
        if row is None:
            raise ConnectionMissing({"provider": provider}, f"there is no connection to `{provider}`")
        return await self._opened(user, row)

    async def of_id(self, user: ConnectionUser, id: str, *kinds: ConnectionKind) -> OpenedConnection:
        """The connection of this id, which is of one of these kinds. `NoConnection` when there is none."""
        async with self._ports.storage.reading(user.org) as work:
            row = await work.connections.get(id)
            names = [name for selection in user.chosen for name in selection]
            others = [other for name in names if (other := await work.connections.get(name)) is not None]
        if row is None or row.kind not in kinds:
            raise NoConnection({"connectionId": id}, f"there is no connection `{id[:80]}`")
        if row not in _selected([row, *(other for other in others if other.provider == row.provider)], user):
            raise ToolFailed(f"the connection `{row.name}` is not selected for this call", retryable=False)
        return await self._opened(user, row)

    async def used(
        self,
        user: ConnectionUser,
        opened: OpenedConnection,
        call: UseOf[T],
        passing: type[Exception] = ClaimLost,
        *,
        is_listing: bool = False,
    ) -> T:
        """The result of `call` with the connection.

        When the service refuses an access token, the token is replaced and `call` is called again, once. A refusal is
        recorded; every failure but one of the type `passing` is raised without the connection's secrets. `is_listing`:
        a success is recorded only for a connection that did not work before.
        """
        try:
            try:
                result = await self._once(user, opened, call)
            except ConnectionRequired:
                if not opened.token:
                    raise
                with own_work(ToolFailed):
                    opened = await self._opened(user, opened.row, instead_of=opened.token)
                result = await self._once(user, opened, call)
        except (StoreUnavailable, ClaimLost, InternalFault, asyncio.CancelledError, GeneratorExit, passing):
            raise
        except BaseException as error:
            if not is_failure(error):
                raise
            raise opened.redacted(error) from None
        await self.record_result(user.org, opened, is_listing=is_listing)
        return result

    async def record_result(
        self, org: str, used: OpenedConnection, error: BaseException | None = None, *, is_listing: bool = False
    ) -> None:
        """Record whether the service accepted the credentials. Other failures do not change the status."""
        if error is not None and not isinstance(error, ConnectionRequired):
            return
        row, now = used.row, self._ports.now()
        checked = row.last_checked_at
        is_recent = checked is not None and (is_listing or (now - checked).total_seconds() * 1000 < CHECK_INTERVAL)
        status, reason = (ConnectionStatus.ACTIVE, None) if error is None else (ConnectionStatus.ERROR, REFUSED)
        if used.token:
            status, reason = ConnectionStatus.ACTIVE, None
        try:
            if used.token and (error is not None or not is_recent):
                await self._tokens.record(org, row, used.owner, used.token, works=error is None)
            if row.status is not status or not is_recent:
                new = attrs.evolve(row, status=status, status_reason=reason, last_checked_at=now)
                await self._keep(org, row, new)
        except Exception as why:  # noqa: BLE001  (the call's own outcome must not be lost)
            log.warning("the use of a connection could not be recorded", extra={"why": str(why)})

    # Parts

    async def _keep(self, org: str, row: Connection, new: Connection) -> None:
        """Save the row, unless it has changed meanwhile: the result then says nothing about the new credentials."""
        async with self._ports.storage.transaction(org) as work:
            if await work.connections.get(row.id) == row:
                await work.connections.save(new)

    async def _once(self, user: ConnectionUser, opened: OpenedConnection, call: UseOf[T]) -> T:
        try:
            return await call(opened)
        except ConnectionRequired as error:
            await self.record_result(user.org, opened, error)
            raise

    async def _opened(self, user: ConnectionUser, row: Connection, *, instead_of: str = "") -> OpenedConnection:
        where: dict[str, JSON] = {"provider": row.provider, "connectionId": row.id}
        if row.status is ConnectionStatus.DISABLED:
            raise ConnectionMissing(where, f"the connection `{row.name}` is disabled")
        try:
            config = open_config(self._ports.sealer, user.org, row)
        except Conflict:
            raise ConnectionMissing(where, f"the secrets of `{row.name}` cannot be read") from None
        token = ""
        if row.uses_oauth:
            try:
                token = await self._tokens.fresh(user.org, row, row.owner(user.user_id), instead_of=instead_of)
            except ConnectionRequired as error:
                raise ConnectionMissing(where, f"`{row.name}`: {error.message}") from None
            config = _with_token(row, config, token)
        connection = ToolConnection(row.id, row.provider, row.kind.value, config)
        return OpenedConnection(row, connection, token, row.owner(user.user_id))

    async def _row(self, user: ConnectionUser, provider: str) -> Connection | None:
        """The oldest of the connections that work, otherwise of those that can work, otherwise any."""
        rows, ranks = list[Connection](), dict[str, int]()
        after = ""
        async with self._ports.storage.reading(user.org) as work:
            while page := await work.connections.page(limit=PAGE, after=after):
                rows += [row for row in page if row.provider == provider]
                after = page[-1].id
            rows = _selected(rows, user)
            for row in rows:
                grant = await work.connection_grants.get(grant_id(row.id, row.owner(user.user_id)))
                seen = shown(row, grant, self._ports.clock.now())
                if seen.status in WORKING:
                    return row
                ranks[row.id] = RANKS.index(seen.status)
        return min(rows, key=lambda row: ranks[row.id], default=None)


def _selected(rows: list[Connection], user: ConnectionUser) -> list[Connection]:
    """Those of the connections of one provider that the selections leave."""
    for selection in user.chosen:
        rows = [row for row in rows if row.id in selection] or rows
    return rows


def _with_token(row: Connection, config: Mapping[str, JSON], token: str) -> dict[str, JSON]:
    """The configuration that a tool receives: the token, and not the secret of the client."""
    kept = {name: value for name, value in config.items() if name != "clientSecret"}
    if row.kind is ConnectionKind.MCP:
        headers = optional_object(kept.get("headers")) or {}
        kept["headers"] = {**headers, "Authorization": f"Bearer {token}"}
    return {**kept, "accessToken": token}
