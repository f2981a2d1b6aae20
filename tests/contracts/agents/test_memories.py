"""The contract of memory backends for each adapter, and properties of a database only."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa
from sql_texts import statement

from wfcore.adapters.inmemory.memories import InMemoryMemories
from wfcore.adapters.sql.repositories.memories import SqlMemories
from wfcore.adapters.sql.sqlite.database import Database
from wfcore.adapters.sql.storage import SqlStorage
from wfcore.ports.providers import MemoryBackend
from wfcore.testing.contracts.memories import ORG, OTHER_ORG, WordsContract, memory
from wfcore.testing.contracts.storage.values import new_organization


class TestInMemoryMemories(WordsContract):
    async def open_memories(self, place: Path) -> MemoryBackend:
        return InMemoryMemories()


@asynccontextmanager
async def database(path: Path) -> AsyncIterator[Database]:
    opened = Database(f"sqlite:///{path}", synchronous="NORMAL")
    await opened.open()
    try:
        yield opened
    finally:
        await opened.close()


@pytest.fixture(scope="module")
def two_organizations(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the schema and the organizations of the contract, made once."""
    path = tmp_path_factory.mktemp("memories") / "empty.db"

    async def make() -> None:
        async with database(path) as opened:
            storage = SqlStorage(opened)
            await storage.upgrade()
            for org in (ORG, OTHER_ORG):
                await storage.add_organization(new_organization(org))

    asyncio.run(make())
    return path


class TestSqlMemories(WordsContract):
    @pytest.fixture
    async def memories(self, tmp_path: Path, two_organizations: Path, anyio_backend: str) -> AsyncIterator[SqlMemories]:
        shutil.copy(two_organizations, tmp_path / "a.db")
        async with database(tmp_path / "a.db") as self.database:
            yield SqlMemories(self.database)

    async def test_memories_outlive_the_store(self, memories: SqlMemories, tmp_path: Path) -> None:
        """Memories, their order and their words are read when the file is opened again."""
        for number in (2, 1):
            await memories.add(ORG, 1, memory(number))
        async with database(tmp_path / "a.db") as again:
            for found in (
                await SqlMemories(again).list(ORG, 1, limit=9),
                await SqlMemories(again).search(ORG, 1, "tea", limit=9),
            ):
                assert found == [memory(2), memory(1)]

    async def test_words_do_not_cross_skills(self, memories: SqlMemories) -> None:
        """The separation of skills in the index cannot be matched by a query or forged by a text."""
        await memories.add(ORG, 1, memory(1, "plain"))
        await memories.add(ORG, 2, memory(2, "o1s1"))
        assert await memories.search(ORG, 1, "o1s1", limit=9) == []
        assert await memories.search(ORG, 2, "o1s1", limit=9) == [memory(2, "o1s1")]

    async def test_nothing_is_left_of_a_deleted_memory(self, memories: SqlMemories) -> None:
        """Only the row that keeps the position remains, without text, metadata, hash, user and words."""
        await memories.add(ORG, 1, memory(1, "secret", metadata={"secret": 1}, user_id="secret"))
        await memories.delete(ORG, 1, "m-1")
        async with self.database.reading() as connection:
            [row] = (await connection.execute(sa.text("SELECT * FROM wfcore_memories"))).all()
            words = (await connection.execute(sa.text("SELECT * FROM wfcore_memory_words"))).all()
        assert "secret" not in str(row)
        assert memory(1, "secret").hash not in str(row)
        assert words == []

    async def test_row_and_words_change_in_one_transaction(self, memories: SqlMemories) -> None:
        """When the words cannot be written, the row is not written either."""
        await memories.add(ORG, 1, memory(1))
        async with self.database.writing() as connection:
            await connection.run(statement("ALTER TABLE wfcore_memory_words RENAME TO elsewhere"))
        for write in (
            lambda: memories.add(ORG, 1, memory(2)),
            lambda: memories.replace(ORG, 1, memory(1, "new")),
            lambda: memories.delete(ORG, 1, "m-1"),
        ):
            with pytest.raises(Exception, match="memory_words"):
                await write()
        assert await memories.list(ORG, 1, limit=9) == [memory(1)]

    @pytest.mark.parametrize("user", [None, "u1"])
    async def test_a_page_scans_no_table(self, memories: SqlMemories, user: str | None) -> None:
        """A page scans an index of the skill, or of the skill's user, unsorted."""
        plans = list[str]()

        def explain(_connection: object, cursor: object, statement: str, parameters: object, *_: object) -> None:
            if statement.startswith("SELECT wfcore_memories"):
                cursor.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)  # type: ignore[attr-defined]
                plans.extend(row[3] for row in cursor.fetchall())  # type: ignore[attr-defined]

        reader = self.database._reader
        sa.event.listen(reader, "before_cursor_execute", explain)
        await memories.list(ORG, 1, limit=9, after="m-1", user_id=user)
        index = "memories_of_user" if user else "memories_list"
        assert any(index in step and "key>?" in step for step in plans), plans
        assert not any("SCAN" in step or "TEMP B-TREE" in step for step in plans), plans
