"""Creates under an Idempotency-Key: the same key and body give the very answer that was given first."""

from typing import TypeVar

import msgspec

from wfcore.domain.json.codec import fingerprint
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal
from wfcore.ports.storage import IdempotencyRecord, UnitOfWork
from wfcore.runtime.common.authorization import conflict

T = TypeVar("T")


async def kept_answer(
    work: UnitOfWork, me: Principal, kind: str, key: str | None, asked: JSON, answer: type[T]
) -> T | None:
    """What the principal was answered to this key; None when it is new. Conflict when `asked` was something else."""
    kept = None if key is None else await work.idempotency.find(kind, me.user_id, key)
    if kept is None:
        return None
    if kept.fingerprint != fingerprint(asked):
        raise conflict("this Idempotency-Key was used with another body", "key_reused")
    return msgspec.convert(kept.response, answer)


async def keep_answer(work: UnitOfWork, me: Principal, kind: str, key: str | None, asked: JSON, answer: object) -> None:
    """Keep the answer with its key, in the transaction that makes what it tells of."""
    if key is not None:
        await work.idempotency.add(
            kind, me.user_id, key, IdempotencyRecord(fingerprint(asked), msgspec.to_builtins(answer))
        )
