"""Long-term memories in dicts."""

import re
from collections import Counter
from collections.abc import Sequence

from wfcore.ports.providers import Memory

_WORD = re.compile(r"[a-z0-9]+", re.ASCII)


class InMemoryMemories:
    """`wfcore.ports.providers.MemoryBackend`; gone with the process."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int], dict[str, Memory]] = {}

    async def add(self, org: str, skill_id: int, memory: Memory) -> None:
        self._kept.setdefault((org, skill_id), {})[memory.id] = memory

    async def get(self, org: str, skill_id: int, memory_id: str) -> Memory | None:
        return self._of(org, skill_id).get(memory_id)

    async def replace(self, org: str, skill_id: int, memory: Memory) -> bool:
        kept = self._of(org, skill_id)
        if memory.id not in kept:
            return False
        kept[memory.id] = memory
        return True

    async def delete(self, org: str, skill_id: int, memory_id: str) -> bool:
        return self._of(org, skill_id).pop(memory_id, None) is not None

    async def list(
        self, org: str, skill_id: int, *, limit: int, after: str | None = None, user_id: str | None = None
    ) -> Sequence[Memory]:
        kept = list(self._of(org, skill_id).values())
        if after is not None:
            places = [place for place, memory in enumerate(kept) if memory.id == after]
            kept = kept[places[0] + 1 :] if places else []
        return [memory for memory in kept if user_id is None or memory.user_id == user_id][:limit]

    async def search(
        self, org: str, skill_id: int, query: str, *, limit: int, user_id: str | None = None
    ) -> Sequence[Memory]:
        wanted = set(_words(query))
        found = [
            (sum((Counter(_words(memory.memory)) & Counter(wanted)).values()), memory)
            for memory in await self.list(org, skill_id, limit=10**9, user_id=user_id)
        ]
        found.sort(key=lambda hit: -hit[0])
        return [memory for hits, memory in found if hits][:limit]

    def _of(self, org: str, skill_id: int) -> dict[str, Memory]:
        return self._kept.get((org, skill_id), {})


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())
