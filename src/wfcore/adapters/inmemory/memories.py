"""Long-term memories in dicts."""

from collections import Counter
from collections.abc import Sequence
from copy import deepcopy
from itertools import count

import attrs

from wfcore.domain.agents.memories import weights_of, words_of
from wfcore.ports.providers import Memory

Scope = tuple[str, int]


class InMemoryMemories:
    """Implements the port `MemoryBackend`; the content is lost with the process.

    A search ranks memories by the weights of the distinct words of the query that they contain (`weights_of`), in any
    form; among equals the older one comes first.
    """

    def __init__(self) -> None:
        self._memories: dict[Scope, dict[str, Memory]] = {}
        self._positions: dict[tuple[Scope, str], int] = {}
        self._next_position = count()

    async def add(self, org: str, skill_id: int, memory: Memory) -> None:
        scope = (org, skill_id)
        if (scope, memory.id) in self._positions:
            return
        self._memories.setdefault(scope, {})[memory.id] = _copy(memory)
        self._positions[scope, memory.id] = next(self._next_position)

    async def get(self, org: str, skill_id: int, memory_id: str) -> Memory | None:
        found = self._of(org, skill_id).get(memory_id)
        return found and _copy(found)

    async def replace(self, org: str, skill_id: int, memory: Memory, *, old: Memory | None = None) -> bool:
        own = self._of(org, skill_id)
        if memory.id not in own or old not in (None, own[memory.id]):
            return False
        own[memory.id] = _copy(memory)
        return True

    async def delete(self, org: str, skill_id: int, memory_id: str, *, old: Memory | None = None) -> bool:
        own = self._of(org, skill_id)
        if memory_id not in own or old not in (None, own[memory_id]):
            return False
        del own[memory_id]
        return True

    async def list(
        self, org: str, skill_id: int, *, limit: int, after: str | None = None, user_id: str | None = None
    ) -> Sequence[Memory]:
        """`MemoryBackend.list`. The position of a deleted memory is own, so that page tokens remain valid."""
        scope = (org, skill_id)
        position = -1 if after is None else self._positions.get((scope, after))
        if position is None:
            return []
        found = [memory for memory in self._of_user(scope, user_id) if self._positions[scope, memory.id] > position]
        return [_copy(memory) for memory in found[:limit]]

    async def search(
        self, org: str, skill_id: int, query: str, *, limit: int, user_id: str | None = None, shared: bool = False
    ) -> Sequence[Memory]:
        wanted = words_of(query)
        common = {memory.id: wanted & words_of(memory.memory) for memory in self._of(org, skill_id).values()}
        weights = weights_of(Counter(word for words in common.values() for word in words))
        among = self._of_user((org, skill_id), user_id, shared)
        counted = [(sum(weights[word] for word in common[memory.id]), memory) for memory in among]
        found = sorted((hit for hit in counted if hit[0]), key=lambda hit: -hit[0])
        return [_copy(memory) for _, memory in found[:limit]]

    def _of(self, org: str, skill_id: int) -> dict[str, Memory]:
        return self._memories.get((org, skill_id), {})

    def _of_user(self, scope: Scope, user_id: str | None, shared: bool = False) -> Sequence[Memory]:
        users = {user_id, None} if shared else {user_id}
        return [memory for memory in self._of(*scope).values() if user_id is None or memory.user_id in users]


def _copy(memory: Memory) -> Memory:
    """A copy that does not share its metadata: the caller can change its own dict."""
    return attrs.evolve(memory, metadata=deepcopy(dict(memory.metadata)))
