"""Long-term memories in mem0's local store.

Organization and skill form mem0's `agent_id`. Values that mem0 would generate (id, hash, times) or change (metadata,
order) are stored unchanged in its metadata; the text of the memory is stored by mem0 only.
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count, islice
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import attrs

from wfcore.adapters.mem0.offline import Embed, close, opened
from wfcore.ports.providers import Memory

THRESHOLD: Final = 0.1
"""The least cosine similarity of a memory with the query for the memory to be found."""

_ALL: Final = 1_000_000_000
_DELETED: Final = {"owner": "", "record": ""}
"""The payload of a deleted memory, beside its key and its position."""

Row = Mapping[str, Any]
T = TypeVar("T")


@attrs.define
class _Slot:
    """The position of a memory: mem0's own id for it, and its owner; the owner of a deleted memory is empty."""

    row: str
    owner: str


class Mem0Memories:
    """Implements the port `MemoryBackend`, open inside `async with`.

    A memory is stored unchanged, never rewritten by a model. `place` is a directory, for one process at a time.
    `embed` turns a text into a vector of `dimensions` numbers; it is called in a worker thread, one text at a time.
    A search returns memories whose similarity with the query is at least `threshold`, 0 to 1: a semantic embedder also
    finds memories that share no word with the query.

    Opening raises ImportError without the extra `mem0`, ValueError when the vectors in `place` have another length,
    RuntimeError when the store is already open or the program imported mem0 with its telemetry on. When `embed` raises,
    a call raises Unavailable and changes nothing. A deleted memory leaves an empty record that keeps its position.
    """

    def __init__(self, place: str | Path, *, embed: Embed, dimensions: int, threshold: float = THRESHOLD) -> None:
        if dimensions < 1:
            raise ValueError("`dimensions` must be at least 1")
        if not 0 <= threshold <= 1:
            raise ValueError("`threshold` must be 0 to 1")
        self._directory, self._embed = Path(place), embed
        self._dimensions, self._threshold = dimensions, threshold
        # One thread does all the work: nothing changes between its read and its write.
        self._thread = ThreadPoolExecutor(1, "mem0")
        self._library: Any = None
        self._slots: dict[str, dict[str, _Slot]] = {}
        """By scope and id, in order of creation: mem0 finds quickly by its own ids only, and does not keep order."""
        self._next_position = count()

    async def __aenter__(self) -> Self:
        try:
            await self._work(self._open)
        except BaseException:
            self._thread.submit(self._close)
            self._thread.shutdown(wait=False)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._work(self._close)
        finally:
            self._thread.shutdown(wait=False)

    async def add(self, org: str, skill_id: int, memory: Memory) -> None:
        def add() -> None:
            scope = _scope(org, skill_id)
            slots = self._slots.setdefault(scope, {})
            if memory.id in slots:
                return
            payload = {**_payload(memory), "key": memory.id, "place": next(self._next_position)}
            added = self._library.add(memory.memory, agent_id=scope, metadata=payload, infer=False)
            slots[memory.id] = _Slot(added["results"][0]["id"], payload["owner"])

        await self._work(add)

    async def get(self, org: str, skill_id: int, memory_id: str) -> Memory | None:
        def get() -> Memory | None:
            slot = self._live_slot(_scope(org, skill_id), memory_id)
            return None if slot is None else self._read(slot)

        return await self._work(get)

    async def replace(self, org: str, skill_id: int, memory: Memory, *, old: Memory | None = None) -> bool:
        def replace() -> bool:
            slot = self._live_slot(_scope(org, skill_id), memory.id)
            if slot is None or (old is not None and self._read(slot) != old):
                return False
            self._write(slot, memory.memory, _payload(memory))
            return True

        return await self._work(replace)

    async def delete(self, org: str, skill_id: int, memory_id: str, *, old: Memory | None = None) -> bool:
        def delete() -> bool:
            slot = self._live_slot(_scope(org, skill_id), memory_id)
            if slot is None or (old is not None and self._read(slot) != old):
                return False
            self._write(slot, "", _DELETED)
            return True

        return await self._work(delete)

    async def list(
        self, org: str, skill_id: int, *, limit: int, after: str | None = None, user_id: str | None = None
    ) -> Sequence[Memory]:
        def page() -> Sequence[Memory]:
            slots = self._slots.get(_scope(org, skill_id), {})
            ids = iter(slots)
            if after is not None and after not in ids:  # `in` consumes the iterator up to `after`
                return []
            kept = (slot for slot in map(slots.__getitem__, ids) if slot.owner)
            of_user = (slot for slot in kept if user_id is None or slot.owner == _owner(user_id))
            return [self._read(slot) for slot in islice(of_user, limit)]

        return await self._work(page)

    async def search(
        self, org: str, skill_id: int, query: str, *, limit: int, user_id: str | None = None, shared: bool = False
    ) -> Sequence[Memory]:
        """`MemoryBackend.search`, by similarity of vectors instead of common words."""
        if not query.strip():
            return []
        owners = [] if user_id is None else [_owner(user_id), *([_owner(None)] if shared else [])]
        wanted = {"agent_id": _scope(org, skill_id), **({"owner": owners} if owners else {})}
        found = await self._work(
            lambda: self._library.search(query, filters=wanted, top_k=limit, threshold=self._threshold)
        )
        return [_memory(row) for row in found["results"]]

    async def _work(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _open(self) -> None:
        self._library = opened(self._directory, self._embed, self._dimensions)
        rows = self._library.get_all(filters={"agent_id": "*"}, top_k=_ALL, show_expired=True)["results"]
        for row in sorted(rows, key=_position):
            slots = self._slots.setdefault(row["agent_id"], {})
            slots[row["metadata"]["key"]] = _Slot(row["id"], row["metadata"]["owner"])
        self._next_position = count(1 + max(map(_position, rows), default=-1))

    def _close(self) -> None:
        if self._library is not None:
            close(self._library)

    def _live_slot(self, scope: str, memory_id: str) -> _Slot | None:
        slot = self._slots.get(scope, {}).get(memory_id)
        return slot if slot is not None and slot.owner else None

    def _read(self, slot: _Slot) -> Memory:
        return _memory(self._library.get(slot.row))

    def _write(self, slot: _Slot, text: str, payload: Mapping[str, str]) -> None:
        self._library.update(slot.row, text=text, metadata=payload)
        slot.owner = payload["owner"]


# In a mem0 filter `*` matches everything, and white space is stripped: an id must be prefixed before it is a filter.


def _scope(org: str, skill_id: int) -> str:
    return f"{org}/{skill_id}"


def _owner(user_id: str | None) -> str:
    return "nobody" if user_id is None else f"user:{user_id}"


def _position(row: Row) -> int:
    place: int = row["metadata"]["place"]
    return place


def _payload(memory: Memory) -> dict[str, Any]:
    """All of a memory except its text, as mem0's metadata."""
    record = attrs.asdict(memory, recurse=False, filter=attrs.filters.exclude("memory"))
    return {"owner": _owner(memory.user_id), "record": json.dumps(record, default=dict, ensure_ascii=False)}


def _memory(row: Row) -> Memory:
    return Memory(**json.loads(row["metadata"]["record"]), memory=row["memory"])
