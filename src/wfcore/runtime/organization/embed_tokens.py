"""Credentials of pages of an embedding product: signed, not stored, short-lived (interface, Embed tokens).

A token states what its maker had and gave away. Each use reads the maker's rights again and takes what both allow.
"""

import base64
import hmac
from datetime import datetime, timedelta
from typing import Final, Self

import attrs
import msgspec

from wfcore.domain.json.codec import from_ms, to_ms
from wfcore.domain.kernel.errors import Unavailable
from wfcore.domain.people.people import Member
from wfcore.domain.resources.access import Principal, Role, missing_scopes
from wfcore.ports.sealing import Sealer

PREFIX: Final = "emb_"
PURPOSE: Final = b"embed token\n"
"""What is signed begins with it, so that no other signature of the key is one of these."""

RANKS: Final = (Role.MEMBER, Role.ADMIN, Role.OWNER)


class EmbedClaims(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a token states. `expires_at` is in epoch milliseconds; `token` is the maker's own access token, if any.

    Of a member: `groups` are those that the product gave in addition to the member's, `left_out` those that it took
    away, and `email` is None where it is the member's own.
    """

    org: str
    user: str
    role: Role
    scopes: list[str]
    expires_at: int
    workflows: list[int] | None = None
    token: str | None = None
    is_member: bool = False
    email: str | None = None
    email_verified: bool = True
    groups: list[str] = []
    left_out: list[str] = []

    @classmethod
    def of(cls, me: Principal, member: Member | None) -> Self:
        """The claims of all that the principal has. `member` is its row now; None for a user of the product alone."""
        own = frozenset[str]() if member is None else member.groups
        has_own_email = member is None or (me.email, me.email_verified) != (member.email, member.email_verified)
        return cls(
            me.org_uuid,
            me.user_id,
            me.role,
            sorted(me.scopes),
            0,
            None if me.workflows is None else sorted(me.workflows),
            me.token,
            member is not None,
            me.email if has_own_email else None,
            me.email_verified,
            sorted(me.groups - own),
            sorted(own - me.groups),
        )

    def narrowed(self, scopes: list[str], expires_at: datetime, workflows: list[int] | None) -> Self:
        """The same claims with less."""
        return msgspec.structs.replace(self, scopes=scopes, expires_at=to_ms(expires_at), workflows=workflows)

    def principal(self, member: Member | None, known_groups: frozenset[str]) -> Principal | None:
        """The principal now; None when the maker is not a member any more. `known_groups` are those that exist."""
        given = frozenset(self.groups) & known_groups
        email, verified, role, groups = self.email, self.email_verified, self.role, given
        if self.is_member and member is None:
            return None
        if self.is_member and member is not None:
            groups = given | (member.groups - set(self.left_out))
            role = min(self.role, member.role, key=RANKS.index)
            if self.email is None:
                email, verified = member.email, member.email_verified
        return Principal(
            self.org, self.user, email, groups, frozenset(self.scopes), role, verified, from_ms(self.expires_at),
            self.token, None if self.workflows is None else frozenset(self.workflows),
        )  # fmt: skip


def is_embed_token(text: str) -> bool:
    """Whether the text looks like one of these tokens, valid or not."""
    return text.startswith(PREFIX)


def signed(sealer: Sealer, claims: EmbedClaims) -> str:
    """The token with these claims. `Unavailable` without a secret key."""
    payload = msgspec.json.encode(claims)
    text = base64.urlsafe_b64encode(payload).rstrip(b"=").decode()
    return f"{PREFIX}{text}.{sealer.fingerprint(PURPOSE + payload)}"


def claims_of(sealer: Sealer, text: str, now: datetime) -> EmbedClaims | None:
    """The claims of a token; None for a text that is not a valid token now."""
    encoded, _, signature = text.removeprefix(PREFIX).rpartition(".")
    try:
        payload = base64.urlsafe_b64decode(encoded.encode("ascii") + b"=" * (-len(encoded) % 4))
        expected = sealer.fingerprints(PURPOSE + payload)
    except (ValueError, Unavailable):
        return None
    if True not in [hmac.compare_digest(one.encode(), signature.encode(errors="replace")) for one in expected]:
        return None
    try:
        claims = msgspec.json.decode(payload, type=EmbedClaims)
    except msgspec.MsgspecError:
        return None  # of another release
    return claims if now < from_ms(claims.expires_at) else None


def ends_at(me: Principal, now: datetime, seconds: int) -> datetime:
    """When a token of this principal ends: no later than its own credential."""
    end = now + timedelta(seconds=seconds)
    return end if me.expires_at is None else min(end, me.expires_at)


def within(principal: Principal, scopes: frozenset[str]) -> Principal:
    """The principal with the scopes that both its own and these include."""
    both = principal.scopes | scopes
    lacking = {*missing_scopes(principal.scopes, both), *missing_scopes(scopes, both)}
    return attrs.evolve(principal, scopes=both - lacking)
