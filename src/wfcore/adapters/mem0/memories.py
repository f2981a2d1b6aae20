"""Long-term memories in mem0's local store.

Organization and skill are mem0's `agent_id`. What mem0 would make itself (id, hash, times) or change (metadata, order)
stands in its metadata as it was given: there are no two truths of a memory, and its text is mem0's.
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
"""Similarity with the query (cosine) from which a memory is found at all."""

_ALL: Final = 1_000_000_000
_DELETED: Final = {"owner": "", "record": ""}
"""What is left of a deleted memory, beside its key and its place."""

Row = Mapping[str, Any]
T = TypeVar("T")


@attrs.define
class _Mark:
    """Where a memory is: mem0's own id for it, and whose it is; empty when it was deleted."""

    row: str
    owner: str


class Mem0Memories:
    """Implements the port `MemoryBackend`, open inside `async with`.

    A memory is kept as it was given, never rewritten by a model. `place` is a directory, for one process at a time.
    `embed` makes of a text a vector of `dimensions` numbers; it is called in a worker thread, one text at a time.
    A search gives those whose similarity with the query is at least `threshold`, 0 to 1: an embedder that knows
    meanings finds what shares no word with it.

    Opening raises ImportError without the extra `mem0`, ValueError when the vectors in `place` have another length,
    RuntimeError when it is open already or the program imported mem0 with its telemetry on. When `embed` raises, a
    call raises Unavailable and has changed nothing. A deleted memory leaves an empty one that marks its place.
    """

    def __init__(self, place: str | Path, *, embed: Embed, dimensions: int, threshold: float = THRESHOLD) -> None:
        if dimensions < 1:
            raise ValueError("`dimensions` must be at least 1")
        if not 0 <= threshold <= 1:
            raise ValueError("`threshold` must be 0 to 1")
        self._place, self._embed = Path(place), embed
        self._dimensions, self._threshold = dimensions, threshold
        # One thread does all the work: what it has read does not change before it writes.
        self._thread = ThreadPoolExecutor(1, "mem0")
        self._library: Any = None
        self._marks: dict[str, dict[str, _Mark]] = {}
        """By scope and id, in order of creation: mem0 finds quickly by its own ids alone, and keeps no order."""
        self._places = count()

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
            marks = self._marks.setdefault(scope, {})
            if memory.id in marks:
                return
            payload = {**_payload(memory), "key": memory.id, "place": next(self._places)}
            added = self._library.add(memory.memory, agent_id=scope, metadata=payload, infer=False)
            marks[memory.id] = _Mark(added["results"][0]["id"], payload["owner"])

        await self._work(add)

    async def get(self, org: str, skill_id: int, memory_id: str) -> Memory | None:
        def get() -> Memory | None:
            mark = self._kept(_scope(org, skill_id), memory_id)
            return None if mark is None else self._read(mark)

        return await self._work(get)

    async def replace(self, org: str, skill_id: int, memory: Memory, *, old: Memory | None = None) -> bool:
        def replace() -> bool:
            mark = self._kept(_scope(org, skill_id), memory.id)
            if mark is None or (old is not None and self._read(mark) != old):
                return False
            self._write(mark, memory.memory, _payload(memory))
            return True

        return await self._work(replace)

    async def delete(self, org: str, skill_id: int, memory_id: str) -> bool:
        def delete() -> bool:
            mark = self._kept(_scope(org, skill_id), memory_id)
            if mark is not None:
                self._write(mark, "", _DELETED)
            return mark is not None

        return await self._work(delete)

    async def list(
        self, org: str, skill_id: int, *, limit: int, after: str | None = None, user_id: str | None = None
    ) -> Sequence[Memory]:
        def page() -> Sequence[Memory]:
            marks = self._marks.get(_scope(org, skill_id), {})
            ids = iter(marks)
            if after is not None and after not in ids:  # which takes all up to it
                return []
            kept = (mark for mark in map(marks.__getitem__, ids) if mark.owner)
            of_user = (mark for mark in kept if user_id is None or mark.owner == _owner(user_id))
            return [self._read(mark) for mark in islice(of_user, limit)]

        return await self._work(page)

    async def search(
        self, org: str, skill_id: int, query: str, *, limit: int, user_id: str | None = None, shared: bool = False
    ) -> Sequence[Memory]:
        """`MemoryBackend.search`, by the embedder's measure in the place of words."""
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
        self._library = opened(self._place, self._embed, self._dimensions)
        rows = self._library.get_all(filters={"agent_id": "*"}, top_k=_ALL, show_expired=True)["results"]
        for row in sorted(rows, key=_place):
            marks = self._marks.setdefault(row["agent_id"], {})
            marks[row["metadata"]["key"]] = _Mark(row["id"], row["metadata"]["owner"])
        self._places = count(1 + max(map(_place, rows), default=-1))

    def _close(self) -> None:
        if self._library is not None:
            close(self._library)

    def _kept(self, scope: str, memory_id: str) -> _Mark | None:
        mark = self._marks.get(scope, {}).get(memory_id)
        return mark if mark is not None and mark.owner else None

    def _read(self, mark: _Mark) -> Memory:
        return _memory(self._library.get(mark.row))

    def _write(self, mark: _Mark, text: str, payload: Mapping[str, str]) -> None:
        self._library.update(mark.row, text=text, metadata=payload)
        mark.owner = payload["owner"]


# mem0 takes the text `*` of a filter for everything, and cuts white space off some: no id is a filter as it stands.


def _scope(org: str, skill_id: int) -> str:
    return f"{org}/{skill_id}"


def _owner(user_id: str | None) -> str:
    return "nobody" if user_id is None else f"user:{user_id}"


def _place(row: Row) -> int:
    place: int = row["metadata"]["place"]
    return place


def _payload(memory: Memory) -> dict[str, Any]:
    """A memory as mem0's metadata, all but its text."""
    record = attrs.asdict(memory, recurse=False, filter=attrs.filters.exclude("memory"))
    return {"owner": _owner(memory.user_id), "record": json.dumps(record, default=dict, ensure_ascii=False)}


def _memory(row: Row) -> Memory:
    return Memory(**json.loads(row["metadata"]["record"]), memory=row["memory"])
