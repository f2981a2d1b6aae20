"""The maintenance contract for each adapter."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import sqlalchemy as sa
from sql_stores import on_postgres, on_sqlite
from sql_texts import statement

from wfcore.adapters.inmemory.journal.journal import MemoryJournal
from wfcore.adapters.inmemory.maintenance import MemoryMaintenance, texts_in
from wfcore.adapters.inmemory.storage import MemoryStorage
from wfcore.adapters.sql.maintenance import maintenance, pruning
from wfcore.adapters.sql.maintenance.maintenance import BATCH
from wfcore.adapters.sql.postgres.database import PostgresTransaction
from wfcore.adapters.sql.sqlite.threads import OffLoopTransaction
from wfcore.domain.json.codec import from_ms
from wfcore.domain.people.erasure import Substitution
from wfcore.domain.resources.content import WorkflowContent
from wfcore.domain.resources.lifecycle import Status
from wfcore.domain.resources.resource import Kind
from wfcore.ports.maintenance import Rewriting, Sizes
from wfcore.testing.contracts.storage.values import ORG, new_organization, new_resource, new_variation
from wfcore.testing.contracts.stores.maintenance import MaintenanceContract, Stores


class TestMemoryMaintenance(MaintenanceContract):
    @asynccontextmanager
    async def open_stores(self, place: Path) -> AsyncIterator[Stores]:
        storage = MemoryStorage()
        journal = MemoryJournal(add_notices=storage.add_notices, add_audit_rows=storage.add_audit_rows)
        storage.maintenance = MemoryMaintenance(storage, journal)
        yield storage, journal


class TestSqliteMaintenance(MaintenanceContract):
    def open_stores(self, place: Path) -> AbstractAsyncContextManager[Stores]:
        return on_sqlite(place)


@pytest.mark.service
class TestPostgresMaintenance(MaintenanceContract):
    def open_stores(self, place: Path) -> AbstractAsyncContextManager[Stores]:
        return on_postgres()

    @pytest.mark.anyio
    async def test_a_row_that_is_being_saved_gets_no_erased_text_back(self, stores: Stores) -> None:
        """Whoever saves a row has read all of it: the erasure waits, and finds what was saved."""
        storage, _ = stores
        async with storage.transaction(ORG) as work:
            await work.workflows.next_id()
            await work.workflows.add(attrs.evolve(new_resource(1), name="Plans of ann@x.org"))
        async with storage.transaction(ORG) as work:
            before = await work.workflows.get(1)
            assert before is not None
            erasing = asyncio.create_task(storage.maintenance.rewrite(ORG, Substitution({}, {"ann@x.org": "gone"})))
            await asyncio.wait([erasing], timeout=0.5)
            await work.workflows.save(before, attrs.evolve(before, description="Of others too", revision=2))
        await erasing
        async with storage.reading(ORG) as work:
            after = await work.workflows.get(1)
        assert after is not None
        assert (after.name, after.description) == ("Plans of gone", "Of others too")


@pytest.mark.parametrize("open_stores", [on_sqlite, pytest.param(lambda _: on_postgres(), marks=pytest.mark.service)])
@pytest.mark.anyio
async def test_other_content_is_reported(
    open_stores: Callable[[Path], AbstractAsyncContextManager[Stores]], tmp_path: Path
) -> None:
    """Other processes can have plans with it; no plan has who deployed it."""
    async with open_stores(tmp_path) as (storage, _):
        await storage.add_organization(new_organization(ORG))
        async with storage.transaction(ORG) as work:
            await work.workflows.next_id()
            await work.workflows.add(new_resource(1))
            content = WorkflowContent(workflow_structure={"nodes": ["for ann@x.org"]})
            await work.workflows.add_variation(1, new_variation("v1", content=content, deployed_at=from_ms(0)))
        for change, expected in (
            (Substitution({"u1": "gone"}, {}), False),
            (Substitution({}, {"ann@x.org": "gone"}), True),
        ):
            assert await storage.maintenance.rewrite(ORG, change) == Rewriting(has_other_content=expected)
        async with storage.reading(ORG) as work:
            variation = await work.workflows.variation(1, "v1")
    assert variation is not None
    assert (variation.deployed_by, variation.workflow.workflow_structure) == ("gone", {"nodes": ["for gone"]})


MANY = 1_200
FILL = [
    """
INSERT INTO wfcore_executions (id, org, kind, resource_id, is_draft, user_id, thread_id, started_by, epoch)
SELECT g, (SELECT key FROM wfcore_organizations WHERE uuid = ?), 'workflow', 1, 1 = 0, 'ann', 't' || g, 'person', 1""",
    """
INSERT INTO wfcore_runs (org, id, execution, user_id, fingerprint, status, created_at, finished_at, started_by, origin,
    target, is_draft, forked_from)
SELECT (SELECT key FROM wfcore_organizations WHERE uuid = ?), 'r' || g, g, 'ann', '',
    'done', g, g, '', '', 1, 1 = 0, CASE WHEN g = 7 THEN 'r6' END""",
    """
INSERT INTO wfcore_conversations (org, thread_id, user_id, created_at, updated_at)
SELECT (SELECT key FROM wfcore_organizations WHERE uuid = ?), 't' || g, 'ann', g, g""",
]


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.service)])
@pytest.mark.anyio
async def test_much_is_deleted_in_parts(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No statement has more than a batch of parameters, whose number databases limit, and no transaction deletes more:
    of the rows of a person, of a removed resource, of one that was deleted long ago, and of an organization.
    """
    lists, deleted = list[int](), list[int]()

    def spied(execute: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def spy(self: Any, given: Any, parameters: Any = None) -> Any:
            values = given.compile().params.values() if isinstance(given, sa.sql.ClauseElement) else ()
            lists.extend(len(one) for one in values if isinstance(one, list | tuple))
            return await execute(self, given, parameters)

        return spy

    def counted(delete: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def count(connection: Any, org: int, found: Sequence[int]) -> Any:
            deleted.append(len(found))
            return await delete(connection, org, found)

        return count

    for transaction in (OffLoopTransaction, PostgresTransaction):
        monkeypatch.setattr(transaction, "execute", spied(transaction.execute))
    for module in (pruning, maintenance):
        monkeypatch.setattr(module, "delete_executions", counted(module.delete_executions))
    async with on_sqlite(tmp_path) if kind == "sqlite" else on_postgres() as (storage, _):
        await storage.add_organization(new_organization(ORG))

        async def fill() -> None:
            async with storage.database.writing() as connection:
                for text in FILL:
                    rows = f"(WITH RECURSIVE n(g) AS (SELECT 1 UNION ALL SELECT g + 1 FROM n WHERE g < {MANY})"
                    await connection.run(statement(f"{text} FROM {rows} SELECT g FROM n) AS given"), (ORG,))
            async with storage.transaction(ORG) as work:
                await work.workflows.next_id()
                gone = attrs.evolve(new_resource(1), status=Status.DELETED, deleted_at=from_ms(1))
                await work.workflows.add(gone)

        await fill()
        own = storage.maintenance
        assert [one.is_own for one in await own.executions_of(ORG, "ann")] == [True] * MANY
        await own.forget_user(ORG, "ann")
        assert await own.conversations(ORG, "ann", limit=9) == []
        changes = await own.remove_resource(ORG, Kind.WORKFLOW, 1)
        assert len({one.id for one in changes if one.kind == "run"}) == MANY
        await fill()
        pruned = await own.prune(ORG, "deleted", 9, limit=9)
        assert (pruned.count, len({one.id for one in pruned.changes if one.kind == "run"})) == (1, MANY)
        assert await own.sizes(ORG) == Sizes(0, 0, 0, 0)
        await own.forget_user(ORG, "ann")
        await fill()
        assert await own.remove_organization(ORG)
        assert await own.sizes() == Sizes(0, 0, 0, 0)
    assert max(lists) <= BATCH
    assert (sum(deleted), max(deleted)) == (3 * MANY, BATCH)


def test_texts_of_all_kinds_of_values() -> None:
    assert sorted(texts_in({"a": [1, ("b", {"c"}, b"no", None)]})) == ["a", "b", "c"]
