"""Inbound webhooks: who signed a message, and what a run is given of it (Standard Webhooks 1.0.0).

A sender signs `<webhook-id>.<webhook-timestamp>.<body>` with the secret it shares with the receiver. The three parts
are told apart only if none can be read as another: the timestamp is digits, and a body is a JSON object or array, so
that no body begins like a timestamp.
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
"""Seconds that a message's timestamp may be off, either way."""

MAX_BYTES: Final = 2**20
"""Bytes of a body: they are read before it is known who sent them."""

MAX_SIGNATURES: Final = 20
"""Signatures of one message that are looked at: a sender has more than one only while it changes its secret."""

_TIMESTAMP = re.compile(r"[1-9][0-9]{0,15}", re.ASCII)
_KEPT_BACK = re.compile(r"authorization|cookie|signature|token|secret|password|api-?key", re.ASCII)
_OF_THE_CONNECTION: Final = frozenset(
    ("connection", "content-length", "expect", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade")
)


class BadSignature(Unauthenticated):
    """A message that nobody with the secret sent just now. It is never said which part was wrong."""

    challenge = "Webhook-Signature"

    def __init__(self) -> None:
        super().__init__("the webhook's signature is missing, wrong or too old")


@attrs.frozen
class Webhook:
    """The webhook of one workflow. `id` cannot be guessed, and is all that stands in the url. Neither prints."""

    id: str = attrs.field(repr=False)
    secret: str = attrs.field(repr=False)

    @property
    def path(self) -> str:
        """Where messages are sent, below the address of the server."""
        return f"/webhooks/{self.id}"

    @property
    def digest(self) -> str:
        return hash_secret(self.id)

    @property
    def text(self) -> str:
        """What is sealed of it."""
        return f"{self.id} {self.secret}"


def parse_webhook(text: str) -> Webhook:
    """The inverse of `Webhook.text`."""
    name, _, secret = text.partition(" ")
    return Webhook(name, secret)


def secret_of(key: str) -> str:
    """The key as senders are given it: `whsec_` and base64. A key has 24 to 64 bytes."""
    return PREFIX + base64.b64encode(key.encode()).decode()


def sign(secret: str, id: str, timestamp: int, body: bytes) -> str:
    """The signature of a message, as it stands in `webhook-signature`."""
    key = base64.b64decode(secret.removeprefix(PREFIX))
    digest = hmac.digest(key, f"{id}.{timestamp}.".encode() + body, hashlib.sha256)
    return f"v1,{base64.b64encode(digest).decode()}"


@attrs.frozen
class SignedMessage:
    """What the headers of a message say. It is genuine only if `is_genuine` says so of its body."""

    id: str
    timestamp: int
    signatures: tuple[bytes, ...]

    def is_genuine(self, secret: str, body: bytes) -> bool:
        """Whether one of the signatures is that of this very message. Compared in constant time."""
        wanted = _decoded(sign(secret, self.id, self.timestamp, body)) or b""
        return True in [hmac.compare_digest(wanted, one) for one in self.signatures]


def read_message(headers: Iterable[tuple[str, str]], now: int) -> SignedMessage:
    """The message that these headers announce at `now` (epoch milliseconds). `BadSignature` for any others."""
    given: dict[str, str] = {}
    for name, value in headers:
        if name.lower() in given:
            raise BadSignature
        if name.lower().startswith("webhook-"):
            given[name.lower()] = value
    name, timestamp = given.get("webhook-id", ""), given.get("webhook-timestamp", "")
    found = (_decoded(text) for text in given.get("webhook-signature", "").split(" ")[:MAX_SIGNATURES])
    signatures = tuple(one for one in found if one is not None)
    if not (is_run_id(name) and _TIMESTAMP.fullmatch(timestamp) and signatures):
        raise BadSignature
    if abs(int(timestamp) * 1000 - now) > TOLERANCE * 1000:
        raise BadSignature
    return SignedMessage(name, int(timestamp), signatures)


def _decoded(signature: str) -> bytes | None:
    """The bytes of a signature of version 1; None for other versions and what is no signature."""
    version, _, text = signature.partition(",")
    try:
        return base64.b64decode(text, validate=True) if version == "v1" and text else None
    except (binascii.Error, ValueError):
        return None


def passed_on(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The headers that a run is given, by name in lower case; one that is repeated is joined with `, ` (RFC 9110, 5.3).

    Left out are those of the connection, and every one whose name says that it carries a credential or a signature:
    a run's input is shown to whoever can use the workflow.
    """
    given: dict[str, str] = {}
    for name, value in headers:
        key = name.lower()
        if key not in _OF_THE_CONNECTION and not key.startswith("proxy-") and not _KEPT_BACK.search(key):
            given[key] = f"{given[key]}, {value}" if key in given else value
    return given


def input_of(body: JSON, headers: Iterable[tuple[str, str]]) -> Mapping[str, JSON]:
    """The input of the run that a message starts. Malformed for a body that is no JSON object or array."""
    if not isinstance(body, dict | list):
        refuse([Issue("body", "must be a JSON object or array", "type")])
    return {"body": body, "headers": passed_on(headers)}


def run_id_of(webhook: Webhook, workflow_id: int, message_id: str) -> str:
    """The id of the run that a message starts: `webhook-7-` and 32 hexadecimal digits.

    Of the message's id and the webhook's own, so that nobody finds out, by using it, whether a message has come.
    """
    mark = hmac.digest(webhook.id.encode(), message_id.encode(), hashlib.sha256).hex()
    return f"webhook-{workflow_id}-{mark[:32]}"
