"""The contract of memory backends, kept by the one in memory."""

from pathlib import Path

import pytest

from wfcore.adapters.memory.memories import InMemoryMemories
from wfcore.ports.providers import MemoryBackend
from wfcore.testing.memories_contract import ORG, MemoriesContract, memory


class TestInMemoryMemories(MemoriesContract):
    async def open_memories(self, place: Path) -> MemoryBackend:
        return InMemoryMemories()

    async def test_words_are_ascii(self, memories: MemoryBackend) -> None:
        """The Kelvin sign, which lower case turns into a `k`, is no letter of a word."""
        await memories.add(ORG, 1, memory(1, "\u212a"))
        assert await memories.search(ORG, 1, "k", limit=1) == []
        await memories.add(ORG, 1, memory(2, "K"))
        assert await memories.search(ORG, 1, "k", limit=1) == [memory(2, "K")]

    @pytest.mark.parametrize("text", ["tea tea tea", "tea"])
    async def test_a_word_counts_once(self, memories: MemoryBackend, text: str) -> None:
        """To say a word often is no better than to say two words once; of equals the older comes first."""
        await memories.add(ORG, 1, memory(1, text))
        await memories.add(ORG, 1, memory(2, "green tea"))
        await memories.add(ORG, 1, memory(3, "green tea"))
        found = await memories.search(ORG, 1, "green tea tea", limit=9)
        assert [each.id for each in found] == ["m-2", "m-3", "m-1"]
