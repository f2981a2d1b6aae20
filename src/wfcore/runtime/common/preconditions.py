"""Preconditions of writes: the entity tag of a representation, and `If-Match` (RFC 9110, 8.8.3 and 13.1.1)."""

import hashlib

from wfcore.domain.json.codec import dumps
from wfcore.domain.kernel.errors import Conflict
from wfcore.domain.kernel.json_type import JSON
from wfcore.runtime.common.authorization import conflict


def etag_of(representation: JSON) -> str:
    """A strong entity tag: the hash of the JSON of the response."""
    return tag_of_bytes(dumps(representation).encode())


def tag_of_bytes(body: bytes) -> str:
    """The tag of a response with this body."""
    return f'"{hashlib.sha256(body).hexdigest()[:32]}"'


def check_match(if_match: str | None, representation: JSON) -> None:
    """Raise Conflict `stale`, with the current `etag`, unless the tag is in `if_match`; None accepts every state.

    Call it in the transaction of the write, with the representation that a read would return.
    """
    if if_match is None or if_match.strip() == "*":
        return
    current = etag_of(representation)
    if current not in tags_of(if_match):
        raise stale(current)


def tags_of(if_match: str) -> set[str]:
    """The entity tags of the header."""
    return {tag.strip() for tag in if_match.split(",")}


def stale(etag: str) -> Conflict:
    """The error for a write whose `if_match` does not have the current `etag`."""
    return conflict("this has changed since it was read", "stale", etag=etag)
