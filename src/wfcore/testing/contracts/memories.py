"""The contract of memory backends, as a suite to inherit.

An adapter's author writes one method:

    class TestMyMemories(MemoriesContract):
        async def open_memories(self, place: Path) -> MemoryBackend:
            return MyMemories(place / "data")

`place` is an empty directory. Needs the extra `testing`.
"""

from abc import abstractmethod
from collections import Counter
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

import attrs
import pytest

from wfcore.domain.agents.memories import weights_of, words_of
from wfcore.ports.providers import Memory, MemoryBackend
from wfcore.testing.contracts.interrupted.calls import PortCall, check_at_once, check_cancelled, each_of
from wfcore.testing.on_asyncio import OnAsyncio

ORG = "11111111-1111-4111-8111-111111111111"
OTHER_ORG = "22222222-2222-4222-8222-222222222222"
SCOPES = ((ORG, 1), (ORG, 2), (OTHER_ORG, 1))
"""Two skills of one organization, and one with the same number in another."""


def memory(number: int, text: str = "likes tea", **fields: Any) -> Memory:
    """The memory `m-<number>`, created at that millisecond."""
    metadata: dict[str, Any] = fields.pop("metadata", {})
    return Memory(f"m-{number}", text, sha256(text.encode()).hexdigest(), metadata, number, number, **fields)


OLD, NEW = memory(1, "old"), memory(1, "new")


def _skill(scope: str) -> int:
    """A skill of its own for each scope."""
    return crc32(scope.encode()) + 10


async def _add(memories: MemoryBackend, scope: str) -> None:
    await memories.add(ORG, _skill(scope), OLD)


async def _replace(memories: MemoryBackend, scope: str) -> None:
    await memories.replace(ORG, _skill(scope), NEW, old=OLD)


async def _delete(memories: MemoryBackend, scope: str) -> None:
    await memories.delete(ORG, _skill(scope), OLD.id)


async def _listed(memories: MemoryBackend, scope: str) -> object:
    found = await memories.search(ORG, _skill(scope), "old new", limit=9)
    return await memories.list(ORG, _skill(scope), limit=9), found


CALLS = (
    PortCall("add", _add, _listed),
    PortCall("replace", _replace, _listed, _add),
    PortCall("delete", _delete, _listed, _add),
)


class MemoriesContract(OnAsyncio):
    """Inherit, name the class `Test...`, and write `open_memories`."""

    @abstractmethod
    async def open_memories(self, place: Path) -> MemoryBackend:
        """An empty backend."""

    @pytest.fixture
    async def memories(self, tmp_path: Path, anyio_backend: str) -> MemoryBackend:
        return await self.open_memories(tmp_path)

    # "Metadata is kept verbatim; `hash` follows the text"

    async def test_an_added_memory_is_returned(self, memories: MemoryBackend) -> None:
        """Every field is returned unchanged, metadata verbatim: keys in order, null, empty and nested values."""
        metadata: dict[str, Any] = {"z": None, "a": [1, 2.5, {"": "ü\u2028"}], "empty": {}, "true": True}
        given = memory(1, "trinkt Tee", metadata=metadata, user_id="u1")
        await memories.add(ORG, 1, given)
        found = await memories.get(ORG, 1, "m-1")
        assert found == given
        assert list(found.metadata) == list(metadata)

    async def test_an_id_is_added_once(self, memories: MemoryBackend) -> None:
        """An existing memory keeps its content and position; a deleted one stays deleted after a late add."""
        for number in (1, 2):
            await memories.add(ORG, 1, memory(number))
        await memories.add(ORG, 1, memory(1, "likes coffee"))
        assert await memories.list(ORG, 1, limit=9) == [memory(1), memory(2)]
        await memories.delete(ORG, 1, "m-1")
        await memories.add(ORG, 1, memory(1, "likes coffee"))
        assert await memories.get(ORG, 1, "m-1") is None
        assert await memories.list(ORG, 1, limit=9) == [memory(2)]
        assert await memories.search(ORG, 1, "likes coffee tea", limit=9) == [memory(2)]

    async def test_stored_values_are_copies(self, memories: MemoryBackend) -> None:
        """A change of an added or returned dict does not change the stored one."""
        metadata: dict[str, Any] = {"tags": ["a"]}
        await memories.add(ORG, 1, memory(1, metadata=metadata))
        metadata["tags"].append("b")
        for _ in range(2):
            got = await memories.get(ORG, 1, "m-1")
            for found in (got, *await memories.list(ORG, 1, limit=1), *await memories.search(ORG, 1, "tea", limit=1)):
                assert found is not None
                assert found.metadata == {"tags": ["a"]}
                mutable: Any = found.metadata
                mutable["tags"].append("c")

    async def test_a_replacement_keeps_the_position(self, memories: MemoryBackend) -> None:
        """The new text, hash and metadata are at the old position in the list; other memories are unchanged."""
        for number in (1, 2, 3):
            await memories.add(ORG, 1, memory(number))
        new = attrs.evolve(memory(2, "likes coffee", metadata={"new": 1}), updated_at=9)
        assert await memories.replace(ORG, 1, new)
        assert await memories.get(ORG, 1, "m-2") == new
        assert await memories.list(ORG, 1, limit=9) == [memory(1), new, memory(3)]
        assert await memories.search(ORG, 1, "coffee", limit=9) == [new]

    async def test_of_two_replacements_of_the_same_one_wins(self, memories: MemoryBackend) -> None:
        """With `old` only an unchanged memory is replaced: text, metadata and times are all compared."""
        await memories.add(ORG, 1, memory(1, metadata={"a": 1.5, "b": [None]}))
        read = await memories.get(ORG, 1, "m-1")
        assert read is not None
        for change in ({"memory": "x"}, {"metadata": {"a": 1.5}}, {"updated_at": 9}, {"user_id": "u"}):
            assert not await memories.replace(ORG, 1, memory(1, "lost"), old=attrs.evolve(read, **change))
        assert await memories.replace(ORG, 1, memory(1, "first"), old=read)
        assert not await memories.replace(ORG, 1, memory(1, "second"), old=read)
        assert await memories.get(ORG, 1, "m-1") == memory(1, "first")
        assert [each.memory for each in await memories.search(ORG, 1, "first second", limit=9)] == ["first"]

    async def test_a_deletion_of_what_has_changed(self, memories: MemoryBackend) -> None:
        """With `old`, only the memory that was read is deleted."""
        await memories.add(ORG, 1, memory(1))
        read = await memories.get(ORG, 1, "m-1")
        await memories.replace(ORG, 1, memory(1, "newer"))
        assert not await memories.delete(ORG, 1, "m-1", old=read)
        assert await memories.get(ORG, 1, "m-1") == memory(1, "newer")
        assert await memories.delete(ORG, 1, "m-1", old=memory(1, "newer"))
        assert await memories.get(ORG, 1, "m-1") is None

    async def test_unknown_memories(self, memories: MemoryBackend) -> None:
        """`get` returns None, `replace` and `delete` return False and create nothing; also for a deleted memory."""
        for number in (1, 2):
            for gone in range(number + 1):
                assert await memories.get(ORG, 1, f"m-{gone}") is None
                assert await memories.replace(ORG, 1, memory(gone)) is False
                assert await memories.delete(ORG, 1, f"m-{gone}") is False
            assert await memories.list(ORG, 1, limit=9) == []
            await memories.add(ORG, 1, memory(number))
            assert await memories.delete(ORG, 1, f"m-{number}") is True

    @each_of(CALLS)
    async def test_a_cancelled_write_is_whole_or_nothing(self, memories: MemoryBackend, call: PortCall) -> None:
        """Whichever await is cancelled, the list and the search see the same."""
        await check_cancelled(memories, call)

    @each_of(CALLS)
    async def test_writes_at_once(self, memories: MemoryBackend, call: PortCall) -> None:
        """Several of the same write at once are as one."""
        await check_at_once(memories, call)

    # "A memory of another scope is None or absent"

    async def test_scopes_are_kept_apart(self, memories: MemoryBackend) -> None:
        """No call reads or changes a memory of another skill, or of another organization's skill with that number."""
        for number, scope in enumerate(SCOPES, 1):
            await memories.add(*scope, memory(number))
        for number, scope in enumerate(SCOPES, 1):
            for other in {1, 2, 3} - {number}:
                assert await memories.get(*scope, f"m-{other}") is None
                assert not await memories.replace(*scope, memory(other, "stolen"))
                assert not await memories.delete(*scope, f"m-{other}")
                assert await memories.list(*scope, limit=9, after=f"m-{other}") == []
            assert await memories.list(*scope, limit=9) == [memory(number)]
            assert await memories.search(*scope, "tea", limit=9) == [memory(number)]

    # "At most `limit`, those created after the memory with id `after`"

    @pytest.mark.parametrize("limit", [1, 2, 3, 7, 8])
    async def test_pages_have_each_memory_once(self, memories: MemoryBackend, limit: int) -> None:
        """The pages together have every memory once, in order of creation, whatever the ids."""
        created = [memory(number) for number in (5, 3, 7, 1, 6, 2, 4)]
        for each in created:
            await memories.add(ORG, 1, each)
        found: list[Memory] = []
        while page := await memories.list(ORG, 1, limit=limit, after=found[-1].id if found else None):
            assert len(page) <= limit
            found += page
        assert found == created

    async def test_a_page_can_be_deleted_before_the_next(self, memories: MemoryBackend) -> None:
        """A deleted memory still marks its position; an unknown id marks none."""
        for number in range(1, 5):
            await memories.add(ORG, 1, memory(number))
        for number in (1, 2):
            await memories.delete(ORG, 1, f"m-{number}")
        assert await memories.list(ORG, 1, limit=9, after="m-2") == [memory(3), memory(4)]
        assert await memories.list(ORG, 1, limit=9, after="m-9") == []

    async def test_a_user_filters(self, memories: MemoryBackend) -> None:
        """With a user only memories of that user are listed, found and counted; without one all are."""
        for number in range(1, 7):
            await memories.add(ORG, 1, memory(number, user_id=(None, "u1", "u2")[number % 3]))
        ids = [each.id for each in await memories.list(ORG, 1, limit=2, user_id="u2")]
        assert ids == ["m-2", "m-5"]
        assert [each.id for each in await memories.list(ORG, 1, limit=9, after="m-2", user_id="u2")] == ["m-5"]
        found = await memories.search(ORG, 1, "tea", limit=9, user_id="u1")
        assert {each.id for each in found} == {"m-1", "m-4"}
        assert await memories.list(ORG, 1, limit=9, user_id="u3") == []
        assert len(await memories.list(ORG, 1, limit=9)) == 6

    async def test_shared_adds_memories_without_a_user(self, memories: MemoryBackend) -> None:
        """With a user and `shared` a search finds that user's memories and those of no end user, never another's."""
        for number in range(1, 7):
            await memories.add(ORG, 1, memory(number, user_id=(None, "u1", "u2")[number % 3]))
        found = await memories.search(ORG, 1, "tea", limit=9, user_id="u1", shared=True)
        assert {each.id for each in found} == {"m-1", "m-3", "m-4", "m-6"}
        assert len(await memories.search(ORG, 1, "tea", limit=3, user_id="u1", shared=True)) == 3
        nobodys = await memories.search(ORG, 1, "tea", limit=9, user_id="u3", shared=True)
        assert {each.id for each in nobodys} == {"m-3", "m-6"}

    # "Those that share a word with the query, best first"

    async def test_the_best_come_first(self, memories: MemoryBackend) -> None:
        """More common words come before fewer, in any case; without a common word a memory is not found."""
        texts = ["Green apples", "likes green TEA", "likes tea", "teapots", ""]
        for number, text in enumerate(texts, 1):
            await memories.add(ORG, 1, memory(number, text))
        found = await memories.search(ORG, 1, "who LIKES green tea?", limit=9)
        assert [each.id for each in found] == ["m-2", "m-3", "m-1"]
        assert [each.id for each in await memories.search(ORG, 1, "likes green tea", limit=1)] == ["m-2"]
        said_often = await memories.search(ORG, 1, "tea Tea TEA green apples", limit=9)
        assert {each.id for each in said_often[:2]} == {"m-1", "m-2"}

    @pytest.mark.parametrize("query", ["", "?!", "coffee", '"', "te*", "tea' OR 1=1 --coffee"])
    async def test_a_query_is_words_only(self, memories: MemoryBackend, query: str) -> None:
        """Without a common word nothing is found; no query is an error or has a syntax."""
        await memories.add(ORG, 1, memory(1, "milk"))
        assert await memories.search(ORG, 1, query, limit=9) == []


class WordsContract(MemoriesContract):
    """For a backend that searches by words, as `words_of` of the domain splits them, and not by similarity."""

    async def test_words_of_every_script(self, memories: MemoryBackend) -> None:
        """Letters of every script form words; case and accents do not matter, on either side."""
        texts = ["Grüner Tee", "зелёный чай", "東京 タワー", "snake_case", "Straße", "ΣΟΦΌΣ", "\u212a"]
        for number, text in enumerate(texts, 1):
            await memories.add(ORG, 1, memory(number, text))
        queries = [("GRÜNER", 1), ("gru\u0308ner", 1), ("gruner", 1), ("Чай", 2), ("東京", 3), ("Case", 4)]
        queries += [("STRASSE", 5), ("σοφός", 6), ("K", 7)]
        for query, wanted in queries:
            found = await memories.search(ORG, 1, query, limit=9)
            assert [each.id for each in found] == [f"m-{wanted}"], query
        assert await memories.search(ORG, 1, "½ ²", limit=9) == []

    async def test_forms_of_a_word_are_one_word(self, memories: MemoryBackend) -> None:
        """English words are found in every form, on either side; among equals the older comes first."""
        texts = ["wants refunds", "was refunding a customer", "refunded twice", "funds", "customers complain"]
        for number, text in enumerate(texts, 1):
            await memories.add(ORG, 1, memory(number, text))
        found = [each.id for each in await memories.search(ORG, 1, "Refund?", limit=9)]
        assert found == ["m-1", "m-2", "m-3"]
        found = [each.id for each in await memories.search(ORG, 1, "complaining customer", limit=9)]
        assert found == ["m-5", "m-2"]

    async def test_rare_words_count_more(self, memories: MemoryBackend) -> None:
        """A word that few memories of the skill have outweighs one that many have, and the sum of weights counts."""
        for number in range(1, 9):
            await memories.add(ORG, 1, memory(number, "the customer likes tea"))
        await memories.add(ORG, 1, memory(9, "allergic to nuts"))
        await memories.add(ORG, 1, memory(10, "the customer is allergic"))
        for number in range(11, 14):
            await memories.add(ORG, 2, memory(number, "allergic"))
        found = [each.id for each in await memories.search(ORG, 1, "is the customer allergic to nuts", limit=4)]
        assert found == ["m-9", "m-10", "m-1", "m-2"]
        await memories.delete(ORG, 1, "m-9")
        assert (await memories.search(ORG, 1, "allergic customers", limit=1))[0].id == "m-10"

    async def test_the_order_is_that_of_the_weights(self, memories: MemoryBackend) -> None:
        """For any texts: by the sum of the weights of the common words, then by age; so every store has one order."""
        random = Random(7)  # noqa: S311  (any texts, the same ones every time)
        words = ["order", "refund", "refunds", "shipped", "shipping", "the", "the", "customer", "customers", "東京"]
        texts = [" ".join(random.choices(words, k=random.randint(1, 6))) for _ in range(30)]
        for number, text in enumerate(texts, 1):
            await memories.add(ORG, 1, memory(number, text))
        for query in (" ".join(random.choices(words, k=3)) for _ in range(12)):
            common = [words_of(query) & words_of(text) for text in texts]
            weights = weights_of(Counter(word for found in common for word in found))
            sums = [sum(weights[word] for word in found) for found in common]
            best = sorted((number for number, weight in enumerate(sums) if weight), key=lambda number: -sums[number])
            found = await memories.search(ORG, 1, query, limit=10)
            assert [each.id for each in found] == [f"m-{number + 1}" for number in best[:10]], query

    @pytest.mark.parametrize("text", ["tea tea tea", "tea"])
    async def test_a_word_counts_once(self, memories: MemoryBackend, text: str) -> None:
        """A repeated word counts as one common word; of equal matches the older comes first."""
        await memories.add(ORG, 1, memory(1, text))
        await memories.add(ORG, 1, memory(2, "green tea"))
        await memories.add(ORG, 1, memory(3, "green tea"))
        found = await memories.search(ORG, 1, "green tea tea", limit=9)
        assert [each.id for each in found] == ["m-2", "m-3", "m-1"]

    async def test_the_beginning_of_a_long_word_counts(self, memories: MemoryBackend) -> None:
        """Words that differ only after their 128th character are equal."""
        await memories.add(ORG, 1, memory(1, "x" * 128 + "a"))
        assert await memories.search(ORG, 1, "x" * 128 + "b", limit=9) == [memory(1, "x" * 128 + "a")]
        assert await memories.search(ORG, 1, "x" * 127, limit=9) == []
