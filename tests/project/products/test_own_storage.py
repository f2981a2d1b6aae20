"""The example of a storage of one's own passes the contracts of storages and journals."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
from waiting import HANG

import wfcore
from wfcore.domain.kernel.errors import Unavailable
from wfcore.domain.resources.access import AccessConfig, GroupGrant
from wfcore.domain.resources.lifecycle import Status
from wfcore.ports.journal import Journal
from wfcore.ports.storage import Storage
from wfcore.testing import (
    HooksContract,
    JournalContract,
    JournalCrashContract,
    PostingsContract,
    StorageContract,
    StorageCrashContract,
    sketch,
)
from wfcore.testing.contracts.journal_values import ORG, OTHER_ORG, READERS
from wfcore.testing.contracts.storage.values import new_organization, new_resource

EXAMPLE = Path(__file__).parents[3] / "examples" / "own_storage"
sys.path.append(str(EXAMPLE))

from log_storage import LogStorage, open_stores  # noqa: E402

pytestmark = pytest.mark.anyio


class TestLogStorage(StorageContract, StorageCrashContract):
    async def open_storage(self, place: Path) -> Storage:
        return (await open_stores(place / "a.log")).storage


async def furnish(storage: LogStorage) -> None:
    """The organizations and the workflow of the journal's contract."""
    if await storage.organization(ORG) is not None:
        return
    for org in (ORG, OTHER_ORG):
        await storage.add_organization(new_organization(org))
    access = AccessConfig("shared", {READERS: GroupGrant(True, False)}, (), None, None)
    async with storage.transaction(ORG) as work:
        await work.workflows.add(attrs.evolve(new_resource(1), access=access, status=Status.ACTIVE))


class TestLogJournal(JournalContract, JournalCrashContract):
    @asynccontextmanager
    async def open_journal(self, place: Path) -> AsyncIterator[Journal]:
        stores = await open_stores(place / "a.log")
        await furnish(stores.storage)
        yield stores.journal
        await stores.storage.close()


class LogStores:
    @asynccontextmanager
    async def open_stores(self, place: Path) -> AsyncIterator[tuple[Storage, Journal]]:
        stores = await open_stores(place / "a.log")
        yield stores.storage, stores.journal
        await stores.storage.close()


class TestLogHooks(LogStores, HooksContract):
    """Subscriptions and deliveries."""


class TestLogPostings(LogStores, PostingsContract):
    """Responses to team chats."""


def test_it_has_about_200_lines() -> None:
    """As the guide says."""
    assert len((EXAMPLE / "log_storage.py").read_text().splitlines()) <= 240


async def test_a_run_goes_on_after_a_restart(tmp_path: Path) -> None:
    """An approval that one process opened is answered in the next; what was left half written is cut off."""
    path = tmp_path / "product.log"

    @asynccontextmanager
    async def opened() -> AsyncIterator[Any]:
        stores = await open_stores(path)
        ports = wfcore.Overrides(storage=stores.storage, journal=stores.journal)
        async with wfcore.open(ports=ports, secrets=bytes(32), settings=wfcore.Settings(grace=0)) as core:
            yield core

    ask = {"type": "humanApproval", "message": "Pay?"}
    async with opened() as core:
        org = (await core.directory.create_organization("Acme")).uuid
        me = core.principal(org, user="ann")
        flow = await core.workflows.create(me, name="Refunds", structure=sketch("s -> ask", ask=ask))
        await core.workflows.deploy(me, flow.id)
        run = await core.runs.start(me, workflow=flow.id, input={})
        with pytest.raises(Unavailable, match="is open in another process"):
            await open_stores(path)
    with path.open("ab") as file:
        file.write(b"\x09\0\0\0half")
    async with opened() as core:
        turn = await core.runs.resume(me, run.id, decision="approve")
        assert (await core.runs.result(turn, timeout=HANG))["decision"] == "approve"
        await core.ports.storage.maintenance.remove_organization(org)
    async with opened() as core:
        assert await core.ports.storage.organization(org) is None
