"""The contract of storages, as a suite to inherit.

An adapter's author writes one method:

    class TestMyStorage(StorageContract):
        async def open_storage(self, place: Path) -> Storage:
            return MyStorage(place / "data")

`open_storage` returns an upgraded storage; `place` is an empty directory. A storage whose content outlives the process
inherits `StorageCrashContract` too, with the same method. Needs the extra `testing`.
"""

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import attrs
import pytest

from wfcore.domain.kernel.errors import NotFound, Unavailable
from wfcore.domain.resources.resource import Kind
from wfcore.ports.storage import Duplicate, Stale, Storage
from wfcore.testing.contracts.interrupted.calls import CancelAt
from wfcore.testing.contracts.storage.audit import AuditContract
from wfcore.testing.contracts.storage.directory import DirectoryContract
from wfcore.testing.contracts.storage.interfaces import InterfacesContract
from wfcore.testing.contracts.storage.interrupted import InterruptedStorage
from wfcore.testing.contracts.storage.organization_records import OrgRowsContract
from wfcore.testing.contracts.storage.resources import ResourcesContract
from wfcore.testing.contracts.storage.schedules import SchedulesContract
from wfcore.testing.contracts.storage.values import (
    ORG,
    OTHER_ORG,
    at,
    changed,
    new_organization,
    new_resource,
    new_token,
    principal,
    what_is_written,
    write_everything,
)
from wfcore.testing.contracts.storage.webhooks import WebhooksContract
from wfcore.testing.on_asyncio import OnAsyncio

EVERYBODY = principal()


class StorageContract(
    ResourcesContract,
    DirectoryContract,
    AuditContract,
    InterfacesContract,
    SchedulesContract,
    WebhooksContract,
    OrgRowsContract,
    InterruptedStorage,
    OnAsyncio,
):
    """Inherit, name the class `Test...`, and write `open_storage`."""

    @abstractmethod
    async def open_storage(self, place: Path) -> Storage:
        """An upgraded storage in an empty directory."""

    @pytest.fixture
    async def store(self, tmp_path: Path, anyio_backend: str) -> AsyncIterator[Storage]:
        store = await self.open_storage(tmp_path)
        await store.add_organization(new_organization(ORG))
        await store.add_organization(new_organization(OTHER_ORG))
        yield store
        await store.close()

    # Storage

    async def test_an_organization_is_found_by_its_uuid_and_listed_by_uuid(self, store: Storage) -> None:
        """Organizations are listed by UUID, ascending, after a given one."""
        assert await store.organization(ORG) == new_organization(ORG)
        assert await store.organization("nobody") is None
        assert [o.uuid for o in await store.organizations(limit=9)] == sorted([ORG, OTHER_ORG])
        assert [o.uuid for o in await store.organizations(limit=9, after=ORG)] == [OTHER_ORG]
        assert [o.uuid for o in await store.organizations(limit=1)] == [ORG]

    async def test_only_a_connection_has_a_transaction(self, store: Storage) -> None:
        """`within` refuses any other value, and changes nothing."""
        for value in (object(), None, "sqlite://"):
            with pytest.raises((TypeError, ValueError), match="connection"):
                await store.within(value)

    async def test_an_organization_is_added_once(self, store: Storage) -> None:
        """`Duplicate` if the UUID exists; the first organization remains."""
        with pytest.raises(Duplicate):
            await store.add_organization(attrs.evolve(new_organization(ORG), name="other"))
        assert await store.organization(ORG) == new_organization(ORG)

    async def test_an_unknown_organization_has_no_unit_of_work(self, store: Storage) -> None:
        """`NotFound` for an unknown organization, for reads and writes."""
        for unit_of_work in (store.transaction, store.reading):
            with pytest.raises(NotFound):
                async with unit_of_work("nobody"):
                    pass

    async def test_upgrading_again_changes_nothing(self, store: Storage) -> None:
        """A second `upgrade` changes nothing; `check` then reports no problem."""
        async with store.transaction(ORG) as work:
            await work.workflows.add(new_resource(1))
        await store.upgrade()
        assert await store.check() is None
        assert await store.schema_differences() == []
        async with store.reading(ORG) as work:
            assert await work.workflows.get(1) == new_resource(1)

    async def test_a_store_that_takes_writes_is_left_as_it_was(self, store: Storage) -> None:
        """`check_writes`: None, repeatedly and concurrently; nothing is left that a reader could see."""
        before = await store.organizations(limit=9)
        for _ in range(2):
            assert await store.check_writes() is None
            assert await store.organizations(limit=9) == before

    async def test_a_closed_store_says_so(self, store: Storage) -> None:
        """After `close` every call raises `Unavailable`; `check` and `check_writes` report it as text."""
        await store.close()
        await store.close()
        assert await store.check()
        assert await store.check_writes()
        for unit_of_work in (store.transaction, store.reading):
            with pytest.raises(Unavailable):
                async with unit_of_work(ORG):
                    pass
        with pytest.raises(Unavailable):
            await store.organization(ORG)

    async def test_an_exception_leaves_nothing(self, store: Storage) -> None:
        """A transaction that ends with an exception writes nothing."""
        with pytest.raises(KeyError):
            async with store.transaction(ORG) as work:
                await write_everything(work)
                raise KeyError
        async with store.reading(ORG) as work:
            assert await what_is_written(work) == [False] * 6

    async def test_a_duplicate_leaves_the_transaction_usable(self, store: Storage) -> None:
        """`Duplicate` writes nothing, and the rest of the transaction is committed."""
        async with store.transaction(ORG) as work:
            await work.workflows.add(new_resource(1))
            for taken in (new_resource(1, slug="free"), new_resource(2, slug="r1")):
                with pytest.raises(Duplicate):
                    await work.workflows.add(taken)
            await work.workflows.add(new_resource(3))
        async with store.reading(ORG) as work:
            assert [r.id for r in await work.workflows.page(EVERYBODY, limit=9)] == [1, 3]
            assert await work.workflows.slugs_taken(["free"]) == set()

    async def test_reading_leaves_nothing(self, store: Storage) -> None:
        """A read-only unit of work refuses or discards writes."""
        with suppress(Exception):
            async with store.reading(ORG) as work:
                await write_everything(work)
        async with store.reading(ORG) as work:
            assert await what_is_written(work) == [False] * 6

    async def test_a_reader_does_not_wait_for_a_writer(self, store: Storage) -> None:
        """Readers never wait for writers, and see one snapshot from their first read to their last."""
        async with store.transaction(ORG) as writer:
            await writer.workflows.add(new_resource(1))
            async with store.reading(ORG) as early:
                assert await early.workflows.get(1) is None
        async with store.reading(ORG) as reader:
            before = await reader.workflows.page(EVERYBODY, limit=9)
            async with store.transaction(ORG) as writer:
                await writer.workflows.add(new_resource(2))
            assert await reader.workflows.page(EVERYBODY, limit=9) == before

    async def test_writers_come_one_after_the_other(self, store: Storage) -> None:
        """Of writers that read, wait and write, none overwrites another one."""

        async def rename() -> None:
            async with store.transaction(ORG) as work:
                old = await work.workflows.get(1)
                assert old
                await asyncio.sleep(0)
                await work.workflows.save(old, changed(old, name=f"{old.name}x"))

        async with store.transaction(ORG) as work:
            await work.workflows.add(new_resource(1))
        async with asyncio.TaskGroup() as group:
            for _ in range(8):
                group.create_task(rename())
        async with store.reading(ORG) as work:
            found = await work.workflows.get(1)
            assert found
            assert (found.name, found.revision) == ("R1" + 8 * "x", 9)

    async def test_cancelled_at_any_wait_it_is_whole_or_nothing(self, store: Storage) -> None:
        """A cancel at any await writes all or nothing, and the storage still works. A transaction that returned
        without an exception is written."""
        step, reached = 0, True
        while reached:
            step += 1
            org = f"org-{step}"
            await store.add_organization(new_organization(org))

            async def work_of(org: str = org) -> None:
                async with store.transaction(org) as work:
                    await write_everything(work)

            cancelled = CancelAt(work_of(), step)
            (outcome,) = await asyncio.gather(asyncio.ensure_future(cancelled), return_exceptions=True)
            reached = cancelled.reached
            async with store.reading(org) as work:
                written = await what_is_written(work)
            assert written in ([True] * 6, [False] * 6)
            assert all(written) or isinstance(outcome, asyncio.CancelledError)
        assert all(written)

    # Tenants

    async def test_organizations_see_nothing_of_each_other(self, store: Storage) -> None:
        """A repository belongs to one organization: reads for another one find nothing, and the same keys can be
        written there."""
        async with store.transaction(ORG) as work:
            await write_everything(work)
        async with store.transaction(OTHER_ORG) as work:
            assert await what_is_written(work) == [False] * 6
            assert await work.workflows.page(EVERYBODY, limit=9) == []
            assert await work.workflows.variations(1, limit=9) == []
            assert await work.directory.members(limit=9) == []
            assert await work.directory.groups() == []
            with pytest.raises(Stale):
                await work.workflows.save(new_resource(1), changed(new_resource(1)))
            await work.directory.revoke_token("p", at(9))
            await write_everything(work)
        async with store.reading(ORG) as work:
            assert await work.directory.token("p") == new_token("p")

    async def test_workflows_and_skills_count_apart(self, store: Storage) -> None:
        """Ids and slugs of workflows and of skills are separate."""
        async with store.transaction(ORG) as work:
            assert [await work.workflows.next_id(), await work.workflows.next_id()] == [1, 2]
            assert await work.skills.next_id() == 1
            await work.workflows.add(new_resource(1))
            assert await work.skills.slugs_taken(["r1"]) == set()
            await work.skills.add(new_resource(1, Kind.SKILL))
            assert await work.resources(Kind.SKILL).get(1) == new_resource(1, Kind.SKILL)
