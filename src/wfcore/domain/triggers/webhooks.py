"""Inbound webhooks: verification of signed messages, and the run input made of them (Standard Webhooks 1.0.0).

A sender signs `<webhook-id>.<webhook-timestamp>.<body>` with the secret that it shares with the receiver. The three
parts are unambiguous: a timestamp has only digits, and a body is a JSON object or array, so a body cannot begin like
a timestamp.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from wfcore.domain.kernel.errors import Issue, Unauthenticated, refuse
from wfcore.domain.kernel.ids import hash_secret, is_run_id
from wfcore.domain.kernel.json_type import JSON

PREFIX: Final = "whsec_"
TOLERANCE: Final = 300
"""The most seconds between a message's timestamp and now, in the past or in the future."""

MAX_SIGNATURES: Final = 20
"""The most signatures of one message that are checked: a sender has two while it changes its secret."""

_TIMESTAMP = re.compile(r"[1-9][0-9]{0,15}", re.ASCII)
_SENSITIVE = re.compile(r"authorization|cookie|signature|token|secret|password|api-?key", re.ASCII)
_CONNECTION_HEADERS: Final = frozenset(
    ("connection", "content-length", "expect", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade")
)


class BadSignature(Unauthenticated):
    """The message is not signed with the secret, or not recent. The error does not say which part is wrong."""

    challenge = "Webhook-Signature"

    def __init__(self) -> None:
        super().__init__("the webhook's signature is missing, wrong or too old")


@attrs.frozen
class Webhook:
    """The webhook of one workflow. `id` cannot be guessed and is the last part of the URL. `repr` omits both fields."""

    id: str = attrs.field(repr=False)
    secret: str = attrs.field(repr=False)

    @property
    def path(self) -> str:
        """The URL path that messages are sent to, below the root of the server."""
        return f"/webhooks/{self.id}"

    @property
    def digest(self) -> str:
        return hash_secret(self.id)

    @property
    def text(self) -> str:
        """The text of the webhook that is sealed for the store."""
        return f"{self.id} {self.secret}"


def parse_webhook(text: str) -> Webhook:
    """The inverse of `Webhook.text`."""
    name, _, secret = text.partition(" ")
    return Webhook(name, secret)


def secret_of(key: str) -> str:
    """The secret for senders: `whsec_` and the key in base64. A key has 24 to 64 bytes."""
    return PREFIX + base64.b64encode(key.encode()).decode()


def sign(secret: str, id: str, timestamp: int, body: bytes) -> str:
    """The signature of a message, in the form of the header `webhook-signature`."""
    key = base64.b64decode(secret.removeprefix(PREFIX))
    digest = hmac.digest(key, f"{id}.{timestamp}.".encode() + body, hashlib.sha256)
    return f"v1,{base64.b64encode(digest).decode()}"


@attrs.frozen
class SignedMessage:
    """The signed headers of a message. Only `is_genuine` verifies them, with the body."""

    id: str
    timestamp: int
    signatures: tuple[bytes, ...]

    def is_genuine(self, secret: str, body: bytes) -> bool:
        """Whether one of the signatures is that of this message. The comparison takes constant time."""
        wanted = _decoded(sign(secret, self.id, self.timestamp, body)) or b""
        return True in [hmac.compare_digest(wanted, one) for one in self.signatures]

    def check_id(self) -> None:
        """Raise Malformed unless the id can be an idempotency key: after `is_genuine`, this helps senders alone."""
        if not is_run_id(self.id):
            refuse([Issue("webhook-id", "must be 1 to 255 visible ASCII characters, neither `.` nor `..`", "header")])


def read_message(headers: Iterable[tuple[str, str]], now: int) -> SignedMessage:
    """The signed headers of a message that arrives at `now` (epoch milliseconds).

    Raises BadSignature if one is missing, repeated, not valid, or more than `TOLERANCE` seconds from `now`.
    """
    given: dict[str, str] = {}
    for name, value in headers:
        if name.lower() in given:
            raise BadSignature
        if name.lower().startswith("webhook-"):
            given[name.lower()] = value
    name, timestamp = given.get("webhook-id", ""), given.get("webhook-timestamp", "")
    found = (_decoded(text) for text in given.get("webhook-signature", "").split(" ")[:MAX_SIGNATURES])
    signatures = tuple(one for one in found if one is not None)
    if not (name and _TIMESTAMP.fullmatch(timestamp) and signatures):
        raise BadSignature
    if abs(int(timestamp) * 1000 - now) > TOLERANCE * 1000:
        raise BadSignature
    return SignedMessage(name, int(timestamp), signatures)


def _decoded(signature: str) -> bytes | None:
    """The bytes of a signature of version 1; None for any other text."""
    version, _, text = signature.partition(",")
    try:
        return base64.b64decode(text, validate=True) if version == "v1" and text else None
    except (binascii.Error, ValueError):
        return None


def forwarded_headers(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The headers in a run's input, by name in lower case; a repeated header is joined with `, ` (RFC 9110, 5.3).

    Headers of the connection are left out, and headers whose names indicate a credential or a signature, because
    everyone who can use the workflow can read the input of a run.
    """
    given: dict[str, str] = {}
    for name, value in headers:
        key = name.lower()
        if key not in _CONNECTION_HEADERS and not key.startswith("proxy-") and not _SENSITIVE.search(key):
            given[key] = f"{given[key]}, {value}" if key in given else value
    return given


def input_of(body: JSON, headers: Iterable[tuple[str, str]]) -> Mapping[str, JSON]:
    """The input of the run that a message starts. Raises Malformed for a body that is not a JSON object or array."""
    if not isinstance(body, dict | list):
        refuse([Issue("body", "must be a JSON object or array", "type")])
    return {"body": body, "headers": forwarded_headers(headers)}


def run_id_of(webhook: Webhook, workflow_id: int, message_id: str) -> str:
    """The id of the run that a message starts: `webhook-7-` and 32 hexadecimal digits.

    It is a hash of the message's id with the webhook's id as key, so that a caller who guesses a run id cannot find out
    whether a message has arrived.
    """
    digest = hmac.digest(webhook.id.encode(), message_id.encode(), hashlib.sha256).hex()
    return f"webhook-{workflow_id}-{digest[:32]}"
