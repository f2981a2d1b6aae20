"""Small things that all use cases do with wire values: keyword arguments, page tokens."""

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping

import msgspec

from wfcore.domain.kernel.errors import Issue, Malformed, refuse
from wfcore.domain.kernel.ids import is_run_id
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal

_HUMP = re.compile(r"_([a-z0-9])", re.ASCII)


def wire_body(
    body: Mapping[str, JSON] | None, fields: Mapping[str, JSON], names: Mapping[str, str] | None = None
) -> Mapping[str, JSON]:
    """The body in wire names: the one given, or made of keyword arguments in snake case (never both)."""
    if body is not None:
        if fields:
            raise TypeError("give a body or keyword arguments, not both")
        return body
    known = names or {}
    return {known.get(name) or _HUMP.sub(lambda m: m[1].upper(), name): value for name, value in fields.items()}


def key_issues(key: str | None) -> list[Issue]:
    """Why this Idempotency-Key cannot be one."""
    if key is None or is_run_id(key):
        return []
    rule = "pattern" if key in (".", "..") else "query"
    return [Issue("Idempotency-Key", "must be 1 to 255 visible ASCII characters, neither `.` nor `..`", rule)]


def thread_of(me: Principal, data: Mapping[str, JSON]) -> str | None:
    """The thread that a body names: `fileThreadId`, else the one that the same user's `sessionId` always leads to."""
    if data.get("fileThreadId"):
        return str(data["fileThreadId"])
    if data.get("sessionId"):
        text = "\n".join((me.org_uuid, me.user_id, str(data["sessionId"])))
        return "thread_" + hashlib.sha256(text.encode()).hexdigest()[:32]
    return None


class PageTokens:
    """Opaque tokens that carry a position of one list: signed, and bound to organization, list and filter.

    A token that was altered, or belongs to another list, filter or organization, is `Malformed`.
    """

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def seal(self, position: JSON, *bound_to: JSON) -> str:
        payload = msgspec.json.encode(position)
        return self._spelled(self._mark(payload, bound_to) + payload)

    def open(self, token: str, *bound_to: JSON) -> JSON:
        try:
            raw = base64.urlsafe_b64decode(token.encode("ascii") + b"=" * (-len(token) % 4))
        except ValueError:
            raw = b""
        mark, payload = raw[:16], raw[16:]
        genuine = hmac.compare_digest(mark, self._mark(payload, bound_to))
        if not genuine or self._spelled(raw) != token:
            raise bad_query("pageToken", "this is no page token of this list")
        return msgspec.json.decode(payload)

    @staticmethod
    def _spelled(raw: bytes) -> str:
        """The one spelling of a token: others that decode to the same bytes are refused."""
        return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()

    def _mark(self, payload: bytes, bound_to: tuple[JSON, ...]) -> bytes:
        return hmac.digest(self._secret, msgspec.json.encode(bound_to) + b"\n" + payload, hashlib.sha256)[:16]


def bad_query(name: str, message: str) -> Malformed:
    """An invalid query parameter (400)."""
    try:
        refuse([Issue(name, message, "query")])
    except Malformed as error:
        return error
    raise AssertionError("a query issue is malformed")
