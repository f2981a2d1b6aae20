"""The authorization of a connection by a user: the way to the authorization server and back (RFC 6749, 4.1).

What the server needs to know when the browser comes back is sealed into the `state`, bound to the connection as it is
and to the user who began it, and accepted once. Nothing is stored before that. The same holds for the links of
interrupts.
"""

from collections.abc import Mapping
from typing import Final, Literal

import attrs

from wfcore.domain.agents.connections import Connection, grant_fingerprint
from wfcore.domain.agents.oauth_client import OAuthRefused, authorization_url
from wfcore.domain.json.codec import dumps
from wfcore.domain.json.parsing import parse_json
from wfcore.domain.kernel.errors import Invalid, Issue, Malformed, NotFound
from wfcore.domain.kernel.json_readers import as_integer, as_object, as_text, as_texts, optional_text
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import TOKEN_SCOPES, Principal, Role
from wfcore.ports.outbound import Undelivered
from wfcore.ports.sealing import Unsealable
from wfcore.ports.storage import Duplicate, IdempotencyRecord, UnitOfWork
from wfcore.runtime.common.audit import audit
from wfcore.runtime.common.authorization import conflict
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.tools.oauth_servers import OAuthServers
from wfcore.runtime.tools.oauth_tokens import ConnectionChanged, OAuthTokens

LIFE: Final = 600_000
"""Milliseconds in which a link and a `state` are accepted."""
NONCE_LENGTH: Final = 32
CALLBACK: Final = "/api/v1/connections/callback"
CONNECT: Final = "/api/v1/connections/connect"
PLACE: Final = "connection authorization"

INVALID: Final = "this link is not valid, was used before, has expired, or its connection has changed"

Step = Literal["link", "state"]

PARAMETERS: Final[Mapping[Step, str]] = {"link": "ticket", "state": "state"}
"""The query parameter that carries what a step has sealed."""


class InvalidLink(Malformed):
    """The link or the `state` of an authorization is not valid any more: used, expired, or of a changed connection."""

    def __init__(self, step: Step) -> None:
        issue = Issue(PARAMETERS[step], INVALID, "query")
        super().__init__(INVALID, {"reason": "invalid_state", "errors": [issue.to_wire()]})


@attrs.frozen
class Interrupted:
    """The open interrupt that an authorization ends."""

    run_id: str
    interrupt_id: str


@attrs.frozen
class Asker:
    """The user who authorizes a connection: who that was when the link was made."""

    org: str
    user_id: str
    email: str | None
    groups: frozenset[str]
    role: Role

    @classmethod
    def of(cls, me: Principal) -> "Asker":
        return cls(me.org_uuid, me.user_id, me.verified_email, me.groups, me.role)

    def principal(self) -> Principal:
        return Principal(self.org, self.user_id, self.email, self.groups, frozenset(TOKEN_SCOPES), self.role)


@attrs.frozen
class Pending:
    """An authorization under way. `address` is that of this server, without a trailing slash.

    `terms` is the `grant_fingerprint` of the connection that the asker saw.
    """

    step: Step
    asker: Asker
    connection_id: str
    terms: str
    address: str
    nonce: str
    expires_at: int
    interrupted: Interrupted | None = None

    def to_json(self) -> dict[str, JSON]:
        asker, at = self.asker, self.interrupted
        return {
            "step": self.step, "org": asker.org, "user": asker.user_id, "email": asker.email,
            "groups": sorted(asker.groups), "role": asker.role.value, "connection": self.connection_id,
            "terms": self.terms, "address": self.address, "nonce": self.nonce, "end": self.expires_at,
            "run": None if at is None else at.run_id, "interrupt": None if at is None else at.interrupt_id,
        }  # fmt: skip

    @classmethod
    def of_json(cls, found: Mapping[str, JSON]) -> "Pending":
        asker = Asker(
            as_text(found["org"]), as_text(found["user"]), optional_text(found["email"]),
            frozenset(as_texts(found["groups"])), Role(as_text(found["role"])),
        )  # fmt: skip
        run, name = optional_text(found["run"]), optional_text(found["interrupt"])
        step: Step = "link" if found["step"] == "link" else "state"
        return cls(
            step, asker, as_text(found["connection"]), as_text(found.get("terms", "")), as_text(found["address"]),
            as_text(found["nonce"]), as_integer(found["end"]), Interrupted(run, name) if run and name else None,
        )  # fmt: skip


@attrs.frozen
class FinishedAuthorization:
    """An authorization that has ended. `reason` says why it did not succeed, None when it did."""

    pending: Pending
    row: Connection
    reason: str | None = None


class Authorizations:
    """Makes the URLs of authorizations, and ends them."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._servers = OAuthServers(ports)
        self._tokens = OAuthTokens(ports)

    async def url(self, asker: Asker, row: Connection, address: str, interrupted: Interrupted | None = None) -> str:
        """The URL at the authorization server that the user opens.

        Conflict `not_oauth` for a connection that nobody authorizes, `authorization_server` when its server cannot be
        used.
        """
        if not row.can_authorize:
            raise conflict("users do not authorize this connection: its credentials are in its `config`", "not_oauth")
        redirect_uri = address + CALLBACK
        try:
            client = await self._servers.prepared(asker.org, row, redirect_uri)
        except (OAuthRefused, Undelivered) as error:
            raise conflict(f"the authorization server cannot be used: {error}", "authorization_server") from None
        pending = self._pending("state", asker, row, address, interrupted)
        return authorization_url(client, redirect_uri, self._sealed(pending), self._verifier(pending))

    def link(self, asker: Asker, row: Connection, address: str, interrupted: Interrupted) -> str:
        """A link to this server that leads to the authorization server once, within LIFE."""
        pending = self._pending("link", asker, row, address, interrupted)
        return f"{address}{CONNECT}?{PARAMETERS['link']}={self._sealed(pending)}"

    async def follow(self, ticket: str) -> str:
        """The URL to which the browser that opened a link is sent. InvalidLink; Conflict as for `url`."""
        pending = self._opened("link", ticket)
        row = await self._used(pending)
        return await self.url(pending.asker, row, pending.address, pending.interrupted)

    async def finish(
        self, state: str, code: str | None, error: str | None, issuer: str | None
    ) -> FinishedAuthorization:
        """End the authorization with this `state`: exchange the code, and store the tokens. InvalidLink."""
        pending = self._opened("state", state)
        row, org = await self._used(pending), pending.asker.org
        owner = row.owner(pending.asker.user_id)
        reason = await self._problem(pending, row, code, error, issuer)
        if reason is not None:
            await self._tokens.refused(org, row, owner, reason)
            return FinishedAuthorization(pending, row, reason)
        async with self._ports.storage.transaction(org) as work:
            details = {"name": row.name, "provider": row.provider, "ownership": row.ownership.value}
            await audit(work, pending.asker.principal(), self._ports.now(), "connection", "authorize", row.id, details)
        return FinishedAuthorization(pending, row)

    # Parts

    async def _problem(
        self, pending: Pending, row: Connection, code: str | None, error: str | None, issuer: str | None
    ) -> str | None:
        """Why the authorization did not succeed; None after its tokens were stored."""
        client, asker = self._servers.client_of(pending.asker.org, row), pending.asker
        if error is not None or code is None:
            return "the authorization server did not grant access"
        if client is not None and not client.is_answered_by(issuer):
            return "the response came from another authorization server"
        try:
            owner, redirect_uri = row.owner(asker.user_id), pending.address + CALLBACK
            await self._tokens.accept(asker.org, row, owner, code, redirect_uri, self._verifier(pending))
        except ConnectionChanged:
            raise InvalidLink(pending.step) from None
        except (OAuthRefused, Undelivered) as failed:
            return str(failed)
        return None

    def _pending(
        self, step: Step, asker: Asker, row: Connection, address: str, interrupted: Interrupted | None
    ) -> Pending:
        nonce, end = self._ports.ids.token(NONCE_LENGTH), self._ports.clock.now() + LIFE
        return Pending(step, asker, row.id, grant_fingerprint(row), address.rstrip("/"), nonce, end, interrupted)

    def _sealed(self, pending: Pending) -> str:
        return self._ports.sealer.seal(dumps(pending.to_json()), PLACE).rstrip("=")

    def _opened(self, step: Step, text: str) -> Pending:
        try:
            padded = text + "=" * (-len(text.rpartition(".")[2]) % 4)
            pending = Pending.of_json(as_object(parse_json(self._ports.sealer.open(padded, PLACE).encode())))
        except Unsealable:
            raise InvalidLink(step) from None
        if pending.step != step or self._ports.clock.now() >= pending.expires_at:
            raise InvalidLink(step)
        return pending

    def _verifier(self, pending: Pending) -> str:
        """The PKCE verifier, which only this installation can derive (RFC 7636, 4.1)."""
        return self._ports.sealer.fingerprint(f"{PLACE} {pending.nonce}".encode())

    async def _used(self, pending: Pending) -> Connection:
        """The connection, whose authorization takes this step now and never again. InvalidLink."""
        asker = pending.asker
        try:
            async with self._ports.storage.transaction(asker.org) as work:
                record = IdempotencyRecord(pending.connection_id, {"end": pending.expires_at})
                await work.idempotency.add(PLACE, asker.user_id, pending.nonce, record)
                row = await work.connections.get(pending.connection_id)
                if row is None or not row.can_authorize or await _has_left(work, asker):
                    raise InvalidLink(pending.step)
                if grant_fingerprint(row) != pending.terms:
                    raise InvalidLink(pending.step)
                return row
        except (Duplicate, NotFound):
            raise InvalidLink(pending.step) from None


async def _has_left(work: UnitOfWork, asker: Asker) -> bool:
    """Whether the asker is not a member any more. In an organization without members nobody is."""
    return await work.directory.member(asker.user_id) is None and bool(await work.directory.members(limit=1))


def address_of_links(address: str | None, public_url: str | None) -> str:
    """The address of this server for redirects: that of the caller, or else the configured one. Invalid without any."""
    found = address or public_url
    if not found:
        raise Invalid("the address of this server is not known: set `public_url`", {"reason": "no_public_url"})
    return found.rstrip("/")
