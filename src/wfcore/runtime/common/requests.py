"""Parsing of wire values that all use cases share: idempotency keys, threads, page tokens."""

import base64
import hashlib
import hmac

import msgspec

from wfcore.domain.kernel.errors import Issue, Malformed, refuse
from wfcore.domain.kernel.ids import is_run_id
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal


def key_issues(key: str | None) -> list[Issue]:
    """The errors of this Idempotency-Key."""
    if key is None or is_run_id(key):
        return []
    rule = "pattern" if key in (".", "..") else "header"
    return [Issue("Idempotency-Key", "must be 1 to 255 visible ASCII characters, neither `.` nor `..`", rule)]


def thread_of(me: Principal, thread_id: str | None, session_id: str | None) -> str | None:
    """The thread of a body: its `fileThreadId`, otherwise one derived from user and `sessionId`; None without both."""
    if thread_id:
        return thread_id
    if session_id:
        text = f"{me.org_uuid}\n{me.user_id}\n{session_id}"
        return "thread_" + hashlib.sha256(text.encode()).hexdigest()[:32]
    return None


class PageTokens:
    """Opaque tokens for positions in one list: signed, and bound to organization, list and filter.

    `Malformed` for a token that was altered, or belongs to another list, filter or organization. Tokens that one of the
    `former` secrets has signed are valid.
    """

    def __init__(self, secret: bytes, *former: bytes) -> None:
        self._secrets = secret, *former

    def seal(self, position: JSON, *bound_to: JSON) -> str:
        payload = msgspec.json.encode(position)
        return self._encode(self._signatures(payload, bound_to)[0] + payload)

    def open(self, token: str, *bound_to: JSON) -> JSON:
        try:
            raw = base64.urlsafe_b64decode(token.encode("ascii") + b"=" * (-len(token) % 4))
        except ValueError:
            raw = b""
        signature, payload = raw[:16], raw[16:]
        genuine = [hmac.compare_digest(signature, one) for one in self._signatures(payload, bound_to)]
        if True not in genuine or self._encode(raw) != token:
            raise bad_query("pageToken", "is not a page token of this list")
        position: JSON = msgspec.json.decode(payload)
        return position

    @staticmethod
    def _encode(raw: bytes) -> str:
        """The canonical encoding; other encodings of the same bytes are refused."""
        return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()

    def _signatures(self, payload: bytes, bound_to: tuple[JSON, ...]) -> list[bytes]:
        """The signature with each secret."""
        text = msgspec.json.encode(bound_to) + b"\n" + payload
        return [hmac.digest(secret, text, hashlib.sha256)[:16] for secret in self._secrets]


def bad_query(name: str, message: str) -> Malformed:
    """An invalid query parameter (400)."""
    try:
        refuse([Issue(name, message, "query")])
    except Malformed as error:
        return error
    raise AssertionError("a query issue is malformed")
