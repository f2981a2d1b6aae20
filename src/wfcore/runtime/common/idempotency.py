"""Creates with an Idempotency-Key: the same key and body return the first response again."""

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from wfcore.domain.json.codec import fingerprint
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal
from wfcore.ports.storage import IdempotencyRecord, UnitOfWork
from wfcore.runtime.common.authorization import conflict

T = TypeVar("T")


async def stored_response(
    work: UnitOfWork,
    me: Principal,
    kind: str,
    key: str | None,
    request: JSON,
    response: type[T],
    *,
    former: Sequence[JSON] = (),
) -> T | None:
    """The stored response for this principal and key; None for a new key. Conflict when the request was different.

    `former` are other values that the same request was stored with, under an earlier secret key.
    """
    kept = None if key is None else await work.idempotency.find(kind, me.user_id, key)
    if kept is None:
        return None
    if kept.fingerprint not in map(fingerprint, (request, *former)):
        raise conflict("this Idempotency-Key was used with another body", "key_reused")
    return msgspec.convert(kept.response, response)


async def is_used(work: UnitOfWork, me: Principal, kind: str, key: str | None) -> bool:
    """Whether there is a stored response for this principal and key."""
    return key is not None and await work.idempotency.find(kind, me.user_id, key) is not None


async def store_response(
    work: UnitOfWork, me: Principal, kind: str, key: str | None, request: JSON, response: object
) -> None:
    """Store the response with its key, in the transaction that creates the object."""
    if key is not None:
        await work.idempotency.add(
            kind, me.user_id, key, IdempotencyRecord(fingerprint(request), msgspec.to_builtins(response))
        )
