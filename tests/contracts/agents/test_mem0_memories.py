"""The contract of memory backends for mem0's local store, and its isolation."""

import asyncio
import gc
import logging
import sqlite3
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import wfcore
from wfcore.adapters.mem0 import Mem0Memories
from wfcore.adapters.mem0.offline import Embed, opened
from wfcore.domain.kernel.errors import Unavailable
from wfcore.testing.contracts.memories import ORG, MemoriesContract, memory

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.usefixtures("watched"),
    pytest.mark.filterwarnings("ignore:.*<sqlite3.Connection object:pytest.PytestUnraisableExceptionWarning"),
]

needs_mem0 = pytest.mark.skipif(find_spec("mem0") is None, reason="needs the extra `mem0`")

DIMENSIONS = 64
REACHING = {"socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto", "subprocess.Popen"}


class Words:
    """An embedder that knows words and no meaning: each has a dimension of its own, so that the contract holds."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.asked: list[str] = []

    def __call__(self, text: str) -> Sequence[float]:
        self.asked.append(text)
        words = {word for word in text.lower().replace("?", " ").split() if word.isalnum()}
        held = {self.numbers.setdefault(word, len(self.numbers)) for word in words}
        return [float(number in held) for number in range(DIMENSIONS)]


class Fastembed(ModuleType):
    """In the place of the library fastembed, with which mem0 loads a model of words."""

    def __init__(self, found: list[str]) -> None:
        super().__init__("fastembed")

        class Model:
            def __init__(self, *_: Any, **__: Any) -> None:
                found.append("a model of words")

            @staticmethod
            def list_supported_models() -> list[str]:
                return ["model"]

        self.TextEmbedding = self.SparseTextEmbedding = self.ImageEmbedding = Model
        self.LateInteractionTextEmbedding = self.LateInteractionMultimodalEmbedding = Model


class Spacy(ModuleType):
    """In the place of the library spaCy, with which mem0 loads a model of English."""

    def __init__(self, found: list[str]) -> None:
        super().__init__("spacy")
        self.found = found

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__"):
            self.found.append("a model of English")
        raise AttributeError(name)


@pytest.fixture(scope="module")
def reached(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """What was reached for since mem0 was first imported, with all there that tempts it: telemetry is on in the
    environment, and the libraries that would load models are installed."""
    found: list[str] = []
    watching = True

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if watching and event in REACHING:
            found.append(f"{event} {arguments}")

    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        patch.setenv("MEM0_TELEMETRY", "True")
        patch.delenv("MEM0_DIR", raising=False)
        patch.setitem(sys.modules, "fastembed", Fastembed(found))
        patch.setitem(sys.modules, "spacy", Spacy(found))
        sys.addaudithook(watch)
        yield found
    watching = False
    assert list(home.iterdir()) == []


@pytest.fixture
def watched(reached: list[str]) -> Iterator[None]:
    """No test of this file lets the library reach for the network or for a program."""
    reached.clear()
    yield
    if sys.version_info >= (3, 13):
        gc.collect()  # qdrant-client leaves a connection in memory open, of which Python warns
    assert reached == []


def opening(place: Path, embed: Embed | None = None, **more: Any) -> Mem0Memories:
    return Mem0Memories(place, embed=embed or Words(), **{"dimensions": DIMENSIONS} | more)


@needs_mem0
class TestMem0Memories(MemoriesContract):
    """The whole contract, with an embedder of words."""

    @pytest.fixture
    async def memories(self, tmp_path: Path, watched: None, anyio_backend: str) -> AsyncIterator[Mem0Memories]:
        async with opening(tmp_path / "a") as opened:
            yield opened

    async def test_reserved_keys_of_mem0_are_plain_metadata(self, memories: Mem0Memories) -> None:
        """Keys that are special in mem0 are stored verbatim and have no effect."""
        metadata = {"user_id": "x", "agent_id": "y", "data": "z", "hash": None, "expiration_date": "2000-01-01"}
        given = memory(1, metadata=metadata, user_id="u1")
        await memories.add(ORG, 1, given)
        assert await memories.get(ORG, 1, "m-1") == given
        assert await memories.list(ORG, 1, limit=9, user_id="u1") == [given]
        assert await memories.search(ORG, 1, "tea", limit=9, user_id="u1") == [given]

    async def test_ids_are_not_filters(self, memories: Mem0Memories) -> None:
        """Ids that mem0 would match with all, strip or refuse name exactly one user or memory."""
        users = ["*", "u1", " u1", "a b", "", "nobody", None]
        for number, user in enumerate(users):
            await memories.add(ORG, 1, memory(number, user_id=user))
        for number, user in enumerate(users[:-1]):
            assert await memories.list(ORG, 1, limit=9, user_id=user) == [memory(number, user_id=user)]
            assert await memories.search(ORG, 1, "tea", limit=9, user_id=user) == [memory(number, user_id=user)]
        for name in ("*", "m-*", ""):
            assert await memories.get(ORG, 1, name) is None
            assert await memories.list(ORG, 1, limit=9, after=name) == []

    async def test_of_concurrent_replacements_one_wins(self, memories: Mem0Memories) -> None:
        """No other call happens between the read and the write of one."""
        await memories.add(ORG, 1, memory(1))
        new = [memory(1, f"text {number}") for number in range(9)]
        won = await asyncio.gather(*(memories.replace(ORG, 1, each, old=memory(1)) for each in new))
        assert won.count(True) == 1
        assert await memories.get(ORG, 1, "m-1") == new[won.index(True)]

    @pytest.mark.parametrize(
        ("answer", "error"), [(OSError("away"), Unavailable), ([1.0], ValueError), (["x"] * DIMENSIONS, Unavailable)]
    )
    async def test_an_embedder_that_fails_changes_nothing(self, tmp_path: Path, answer: Any, error: type) -> None:
        """Without a vector, or with one of another length, a call raises and changes nothing."""
        words = Words()

        def embed(text: str) -> Sequence[float]:
            if "new" not in text:
                return words(text)
            if isinstance(answer, Exception):
                raise answer
            return list(answer)

        async with opening(tmp_path, embed) as memories:
            await memories.add(ORG, 1, memory(1))
            for work in (
                memories.add(ORG, 1, memory(2, "new")),
                memories.replace(ORG, 1, memory(1, "new")),
                memories.search(ORG, 1, "new", limit=9),
            ):
                with pytest.raises(error):
                    await work
            assert await memories.list(ORG, 1, limit=9) == [memory(1)]

    async def test_deleted_texts_are_removed_from_the_files(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Neither the store nor the log has what was deleted or replaced; white space alone is never embedded."""
        words = Words()
        with caplog.at_level(logging.DEBUG):
            async with opening(tmp_path, words) as memories:
                for number in (1, 2):
                    await memories.add(ORG, 1, memory(number, "secret", metadata={"secret": 1}, user_id="secret"))
                await memories.delete(ORG, 1, "m-1")
                await memories.replace(ORG, 1, memory(2, " "))
                assert await memories.search(ORG, 1, " ", limit=9) == []
        assert "secret" not in caplog.text
        assert words.asked == ["secret", "secret"]
        with closing(sqlite3.connect(tmp_path / "collection" / "memories" / "storage.sqlite")) as store:
            rows = store.execute("SELECT point FROM points").fetchall()
        assert len(rows) == 2
        assert not any(word in row for (row,) in rows for word in (b"secret", memory(1, "secret").hash.encode()))

    async def test_memories_outlive_the_process(self, tmp_path: Path) -> None:
        """Memories and their order are restored when the store is opened again; new ones come after them."""
        async with opening(tmp_path) as memories:
            for number in (3, 1, 2):
                await memories.add(ORG, 1, memory(number))
            await memories.delete(ORG, 1, "m-1")
        async with opening(tmp_path) as memories:
            await memories.add(ORG, 1, memory(0))
            assert await memories.list(ORG, 1, limit=9) == [memory(3), memory(2), memory(0)]
            assert await memories.list(ORG, 1, limit=9, after="m-1") == [memory(2), memory(0)]


@needs_mem0
class TestOpening:
    """Refused openings, and their reasons."""

    @pytest.mark.filterwarnings("ignore:unclosed file")  # the library forgets the lock that it did not get
    async def test_one_at_a_time(self, tmp_path: Path) -> None:
        """An open store cannot be opened; a closed one can."""
        async with opening(tmp_path):
            with pytest.raises(RuntimeError, match="already accessed"):
                opened(tmp_path, Words(), DIMENSIONS)
            gc.collect()
        async with opening(tmp_path) as memories:
            assert await memories.list(ORG, 1, limit=9) == []

    async def test_opening_can_be_cancelled(self, tmp_path: Path) -> None:
        """A cancelled opening leaves the store free."""
        memories = opening(tmp_path)
        task = asyncio.create_task(memories.__aenter__())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        memories._thread.shutdown()
        async with opening(tmp_path):
            pass

    async def test_vectors_of_another_length(self, tmp_path: Path) -> None:
        """Another embedder than that of the stored vectors is detected by its length; the store stays free."""
        async with opening(tmp_path):
            pass
        with pytest.raises(ValueError, match="have 64 numbers, but `dimensions` is 3"):
            await opening(tmp_path, dimensions=3).__aenter__()
        async with opening(tmp_path):
            pass

    @pytest.mark.parametrize(("name", "value"), [("dimensions", 0), ("threshold", 1.5), ("threshold", -1)])
    def test_invalid_numbers(self, tmp_path: Path, name: str, value: float) -> None:
        """They are refused by name, before anything is created."""
        with pytest.raises(ValueError, match=f"`{name}`"):
            opening(tmp_path / "new", **{name: value})  # type: ignore[arg-type]
        assert not (tmp_path / "new").exists()

    async def test_telemetry_that_is_on_already(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """If the program imported mem0 with its telemetry on, opening is refused."""
        async with opening(tmp_path):
            pass
        monkeypatch.setattr("mem0.memory.telemetry.MEM0_TELEMETRY", True)
        with pytest.raises(RuntimeError, match="MEM0_TELEMETRY=False"):
            await opening(tmp_path).__aenter__()


async def test_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the library, opening says which extra to install."""
    monkeypatch.setitem(sys.modules, "mem0", None)
    with pytest.raises(ImportError, match=r"wfcore\[mem0\]"):
        await opening(tmp_path).__aenter__()


@needs_mem0
async def test_found_by_meaning(tmp_path: Path) -> None:
    """Through the use cases: memories near to the query are found, nearest first, without a common word."""
    near = {
        "drinks Assam": [1.0, 0.0],
        "hot beverages": [0.9, 0.1],
        "owns a cat": [0.0, 1.0],
        "what to pour?": [1.0, 0.05],
    }
    async with (
        Mem0Memories(tmp_path, embed=near.__getitem__, dimensions=2, threshold=0.5) as memories,
        wfcore.open("sqlite://", ports=wfcore.Overrides(memories=memories)) as core,
    ):
        org = await core.directory.create_organization("Acme")
        me = core.principal(org.uuid, user="u1", role="owner")
        skill = await core.skills.create(me, name="Waiter")
        made = [await core.memories.create(me, skill.id, memory=text) for text in list(near)[:3]]
        found = await core.memories.search(me, skill.id, query="what to pour?")
        assert [each.id for each in found] == [made[0].id, made[1].id]
        await core.memories.patch(me, skill.id, made[2].id, metadata={"name": "Tom"})
        assert [each.memory.metadata for each in await core.memories.page(me, skill.id)] == [{}, {}, {"name": "Tom"}]
