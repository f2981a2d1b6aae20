"""Personal access tokens and embed tokens, as the members of an organization make and revoke them."""

from collections.abc import Collection
from datetime import datetime
from typing import Final, Unpack

import attrs

from wfcore.api.resources import CreateToken, CreateTokenFields
from wfcore.domain.json.values import given, to_json
from wfcore.domain.kernel.errors import Issue, NotFound, refuse
from wfcore.domain.kernel.ids import iso
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.people.people import AccessToken
from wfcore.domain.resources.access import TOKEN_SCOPES, Principal, Role, missing_scopes
from wfcore.ports.storage import UnitOfWork
from wfcore.runtime.common.audit import audit
from wfcore.runtime.common.authorization import administer, authorize, conflict, lacks_scopes, needs
from wfcore.runtime.common.bodies import Tree, parsed
from wfcore.runtime.common.idempotency import store_response, stored_response
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.common.preconditions import check_match
from wfcore.runtime.organization.directory import Directory, save_token
from wfcore.runtime.organization.embed_tokens import EmbedClaims, ends_at, signed

LONGEST_EMBED: Final = 3_600
"""Seconds for which an embed token can be valid."""


@attrs.frozen
class TokenView:
    """A personal access token. `text` is the token itself, set only when it is created.

    `position` identifies it for the next page.
    """

    row: AccessToken
    text: str | None = attrs.field(default=None, repr=False)

    @property
    def id(self) -> str:
        return self.row.prefix

    @property
    def position(self) -> tuple[datetime, str]:
        return self.row.position

    def to_wire(self) -> dict[str, JSON]:
        row = self.row
        wire: dict[str, JSON] = {
            "id": row.prefix,
            "name": row.name,
            "userId": row.user_id,
            "scopes": list(row.scopes),
            "createdAt": iso(row.created_at),
            "expiresAt": None if row.expires_at is None else iso(row.expires_at),
            "revokedAt": None if row.revoked_at is None else iso(row.revoked_at),
        }
        return wire if self.text is None else wire | {"token": self.text}


class Tokens:
    """The caller's own tokens; admins and owners can also read and revoke those of other members."""

    def __init__(self, ports: Ports, directory: Directory) -> None:
        self._ports = ports
        self._directory = directory

    @needs("tokens:write")
    async def create(
        self,
        me: Principal,
        body: CreateToken | Tree | None = None,
        *,
        key: str | None = None,
        **fields: Unpack[CreateTokenFields],
    ) -> TokenView:
        """Create a token of the caller, which ends no later than the caller's credential.

        Forbidden for a scope that the credential lacks.

        `key` is an Idempotency-Key. The text of a token is not stored, so the response cannot be repeated: the same
        key and body are a Conflict `shown_once` with the token's id.
        """
        new = parsed(CreateToken, body, fields, key=key)
        request = to_json(new)
        if missing := missing_scopes(me.scopes, new.scopes):
            raise lacks_scopes("a token cannot have what your credential lacks:", missing)
        seconds = given(new.expires_in_seconds)
        row, text = self._directory.new_token(me.org_uuid, me.user_id, new.name, new.scopes, seconds)
        if me.expires_at is not None and (row.expires_at is None or me.expires_at < row.expires_at):
            row = attrs.evolve(row, expires_at=me.expires_at)
        async with self._ports.storage.transaction(me.org_uuid) as work:
            if await work.directory.member(me.user_id) is None:
                raise conflict("only members of the organization can have tokens", "not_a_member")
            if made := await stored_response(work, me, "token", key, request, str):
                raise conflict("a token was created with this key; its text is shown only once", "shown_once", id=made)
            await save_token(work, me, row)
            await store_response(work, me, "token", key, request, row.prefix)
        return TokenView(row, text)

    @needs()
    async def embed(
        self, me: Principal, scopes: Collection[str], ttl: int = 600, workflows: Collection[int] | None = None
    ) -> str:
        """A bearer token for a page of the embedding product, valid for `ttl` seconds, at most an hour.

        It has these scopes of the principal and, with `workflows`, reaches only these workflows and their runs; the
        scopes must then be of workflows. It never has more than the principal has when it is used: it ends with the
        membership, and with the access token of the principal. It is not stored, listed or audited.

        Raises Invalid for unknown scopes and another `ttl`, Forbidden for a scope that the principal lacks, NotFound
        for a workflow that it cannot see, and Unavailable without a secret key.
        """
        wanted = [scope for scope in TOKEN_SCOPES if scope in scopes]
        refuse(_embed_issues(scopes, ttl, workflows if me.workflows is None else me.workflows), as_invalid=True)
        if missing := missing_scopes(me.scopes, wanted):
            raise lacks_scopes("an embed token cannot have what your credential lacks:", missing)
        async with self._ports.storage.reading(me.org_uuid) as work:
            for number in workflows or ():
                authorize(me, await work.workflows.get(number), "see")
            member = await work.directory.member(me.user_id)
        limit = me.workflows if workflows is None else workflows
        end = ends_at(me, self._ports.now(), ttl)
        claims = EmbedClaims.of(me, member).narrowed(wanted, end, None if limit is None else sorted(set(limit)))
        return signed(self._ports.sealer, claims)

    @needs("tokens:write")
    async def page(
        self, me: Principal, *, limit: int = 25, after: tuple[datetime, str] | None = None, user: str | None = None
    ) -> list[TokenView]:
        """Oldest first: the caller's tokens or, for an admin or owner, those of `user`.

        Revoked and expired ones are included. `after` is the `position` of a token.
        """
        user = me.user_id if user is None else user
        if user != me.user_id:
            administer(me)
        async with self._ports.storage.reading(me.org_uuid) as work:
            return [TokenView(row) for row in await work.directory.tokens(user, limit=limit, after=after)]

    @needs("tokens:write")
    async def get(self, me: Principal, id: str) -> TokenView:
        """One token, without its secret. NotFound also for a token that the caller may not see."""
        async with self._ports.storage.reading(me.org_uuid) as work:
            return await self._found(work, me, id)

    @needs("tokens:write")
    async def revoke(self, me: Principal, id: str, *, if_match: str | None = None) -> TokenView:
        """Revoke the token, with immediate effect in every process. A second call changes nothing."""
        async with self._ports.storage.transaction(me.org_uuid) as work:
            found = await self._found(work, me, id)
            check_match(if_match, found.to_wire())
            if found.row.revoked_at is None:
                await work.directory.revoke_token(id, self._ports.now())
                await audit(work, me, self._ports.now(), "token", "revoke", id, {"userId": found.row.user_id})
            return await self._found(work, me, id)

    async def _found(self, work: UnitOfWork, me: Principal, id: str) -> TokenView:
        """NotFound also for another member's token, unless the caller is an admin or owner."""
        row = await work.directory.token(id)
        if row is None or (row.user_id != me.user_id and me.role is Role.MEMBER):
            raise NotFound
        return TokenView(row)


def _embed_issues(scopes: Collection[str], ttl: int, workflows: Collection[int] | None) -> list[Issue]:
    known = [scope for scope in TOKEN_SCOPES if workflows is None or scope.startswith("workflows:")]
    allowed = ", ".join(f"`{scope}`" for scope in known)
    unknown = [scope for scope in scopes if scope not in known]
    issues = [Issue("scopes", f"unknown scope `{scope}`: use {allowed}", "enum") for scope in unknown]
    if not 1 <= ttl <= LONGEST_EMBED:
        issues.append(Issue("ttl", f"must be from 1 to {LONGEST_EMBED} seconds", "range"))
    return issues
