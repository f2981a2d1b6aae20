"""The contract of the limits of concurrent runs: of an organization and of its workflows, over all processes.

Subclass `RunLimitsContract` and write `open_stores`: a storage, and its journal as each of several processes has it.
"""

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from wfcore.domain.resources.resource import Kind
from wfcore.domain.run.state import RunStatus
from wfcore.ports.journal import Append, ExecutionRef, Journal, NewExecution, NewRun, RunChange
from wfcore.ports.storage import Storage
from wfcore.testing.contracts.journal_values import NOW, ORG, OTHER_ORG, begin, due, find, steps
from wfcore.testing.contracts.storage.values import new_organization, new_resource
from wfcore.testing.on_asyncio import OnAsyncio

Stores = tuple[Storage, Sequence[Journal]]
PARKED = Append(1, (), updates_claim=True)


async def limit(storage: Storage, most: int | None, workflow: int | None = None) -> None:
    async with storage.transaction(ORG) as work:
        await work.directory.limit_runs(most, workflow)


async def add_workflows(storage: Storage, most: int) -> None:
    """Two workflows of an organization without a limit; the first one has this limit."""
    async with storage.transaction(ORG) as work:
        for number in (1, 2):
            await work.workflows.add(new_resource(number))
        await work.skills.add(new_resource(1, Kind.SKILL))
        await work.directory.limit_runs(None)
        await work.directory.limit_runs(most, workflow=1)


class RunLimitsContract(OnAsyncio):
    """Inherit, name the class `Test...`, and write `open_stores`."""

    @abstractmethod
    def open_stores(self, place: Path) -> AbstractAsyncContextManager[Stores]:
        """An upgraded storage without organizations, and at least one journal. `place` is an empty directory."""

    @pytest.fixture
    async def stores(self, tmp_path: Path, anyio_backend: str) -> AsyncIterator[Stores]:
        async with self.open_stores(tmp_path) as stores:
            for org in (ORG, OTHER_ORG):
                await stores[0].add_organization(new_organization(org))
            await limit(stores[0], 2)
            yield stores

    async def test_an_organization_shows_its_limit(self, stores: Stores) -> None:
        """It has none at first, and no other organization gets it."""
        storage, _ = stores
        shown = [(await storage.organization(org)) for org in (ORG, OTHER_ORG)]
        assert [one and one.max_concurrent_runs for one in shown] == [2, None]
        await limit(storage, None)
        assert all(one.max_concurrent_runs is None for one in await storage.organizations(limit=9))

    async def test_a_begin_makes_no_claim(self, stores: Stores) -> None:
        """Its run is queued until it is claimed; without a limit, the claim is made at once."""
        journal = stores[1][0]
        ref = await begin(journal, claimed_by=7, wakes=True)
        found = await journal.execution(ref)
        assert (found.claimed_by, found.epoch, (await find(journal, "r-1")).status) == (None, 0, RunStatus.queued)
        other = await journal.execution(await begin(journal, org=OTHER_ORG, claimed_by=7, wakes=True))
        assert (other.claimed_by, other.epoch) == (7, 1)
        assert await journal.claim_due(7, NOW, 9) == [ref]
        assert (await find(journal, "r-1")).status == RunStatus.running

    async def test_an_append_makes_no_claim(self, stores: Stores) -> None:
        """It returns no epoch, and its new run is queued; what it writes besides stays."""
        journal = stores[1][0]
        ref = await begin(journal, status=RunStatus.interrupted)
        turn = NewRun("r-2", "ann", b"f", RunStatus.running, NOW, parent_run_id="r-1")
        old = RunChange("r-1", RunStatus.interrupted, NOW, resumed_by="r-2")
        append = Append(1, steps(1, 1), turn, (old,), updates_claim=True, wake_at=0, claimed_by=7)
        assert await journal.append(ref, append) is None
        assert ((await journal.execution(ref)).claimed_by, (await find(journal, "r-2")).status) == (None, "queued")
        assert await journal.append(ref, Append(2, (), updates_claim=True, wake_at=0, claimed_by=7)) is None
        assert await journal.claim_due(7, NOW, 9) == [ref]
        assert (await find(journal, "r-2")).status == RunStatus.running

    async def test_no_claim_beyond_the_limit(self, stores: Stores) -> None:
        """What waits is not due, in the order of being due; each release lets one more be claimed."""
        journal = stores[1][0]
        refs = [await due(journal, f"r-{n}", NOW + n) for n in range(5)]
        assert not journal.may_be_limited(OTHER_ORG)
        assert await journal.claim_due(1, NOW + 9, 9) == refs[:2]
        assert journal.may_be_limited(ORG)
        assert await journal.next_wake() is await journal.due_since(NOW + 9) is None
        assert await journal.claim_due(2, NOW + 9, 9) == []
        for number in range(2, 5):
            await journal.append(refs[number - 1], PARKED)
            assert (await journal.next_wake(), await journal.due_since(NOW + 9)) == (NOW + number, NOW + number)
            assert await journal.claim_due(number, NOW + 9, 9) == [refs[number]]
        assert await journal.claim_due(9, NOW + 9, 9) == []

    async def test_one_is_not_claimed_beyond_the_limit(self, stores: Stores) -> None:
        """The same for a claim of one execution, which must be due and free too."""
        journal = stores[1][0]
        refs = [await due(journal, f"r-{n}", NOW) for n in range(3)]
        late = await due(journal, "late", NOW + 9)
        assert not await journal.claim(late, 1, NOW)
        claims = [await journal.claim(ref, 1, NOW) for ref in (refs[0], refs[0], *refs)]
        assert [claimed and claimed.execution.ref for claimed in claims] == [refs[0], None, None, refs[1], None]
        assert (await find(journal, "r-1")).status == RunStatus.running
        await journal.append(refs[0], PARKED)
        assert await journal.claim(refs[2], 2, NOW)

    async def test_a_dead_worker_gives_its_claims_back(self, stores: Stores) -> None:
        """Its claims do not count any more, and what it held is claimed first: it is due at once."""
        journal = stores[1][0]
        dead = await journal.register("host", 1)
        refs = [await due(journal, f"r-{n}", NOW) for n in range(4)]
        assert await journal.claim_due(dead, NOW, 9) == refs[:2]
        assert await journal.claim_due(9, NOW, 9) == []
        await journal.release(dead)
        assert await journal.next_wake() == 0
        assert await journal.claim_due(9, NOW, 9) == refs[:2]

    async def test_others_do_not_wait_for_a_limit(self, stores: Stores) -> None:
        """A long queue of a full organization takes no share of the claims of others."""
        journal = stores[1][0]
        flood = [await due(journal, f"r-{n}", 0) for n in range(9)]
        light = [await begin(journal, f"r-{n}", org=OTHER_ORG, wake_at=NOW) for n in range(4)]
        assert {*await journal.claim_due(1, NOW, 3)} <= {*flood[:2], *light}
        claimed = [ref for _ in range(3) for ref in await journal.claim_due(1, NOW, 3)]
        assert {*light} <= {*claimed, *await journal.held_by(1)}
        assert [ref.org for ref in await journal.held_by(1)].count(ORG) == 2
        assert await journal.next_wake() is None

    async def test_a_limit_can_be_changed(self, stores: Stores) -> None:
        """A lower one stops no execution; a higher one, or none, lets more be claimed at once."""
        storage, (journal, *_) = stores
        refs = [await due(journal, f"r-{n}", NOW) for n in range(6)]
        assert await journal.claim_due(1, NOW, 9) == refs[:2]
        await limit(storage, 1)
        await journal.append(refs[0], PARKED)
        assert await journal.claim_due(1, NOW, 9) == []
        await limit(storage, 3)
        assert await journal.claim_due(1, NOW, 9) == refs[2:4]
        await limit(storage, None)
        assert await journal.claim_due(1, NOW, 9) == refs[4:]

    async def test_workflows_show_their_limits(self, stores: Stores) -> None:
        """By id, in their own organization; `None` removes one."""
        storage, _ = stores
        await add_workflows(storage, 3)
        await limit(storage, 1, workflow=2)
        await limit(storage, None, workflow=1)
        found = []
        for org in (ORG, OTHER_ORG):
            async with storage.transaction(org) as work:
                found.append(await work.directory.run_limits())
        assert found == [{2: 1}, {}]

    async def test_no_claim_beyond_the_limit_of_a_workflow(self, stores: Stores) -> None:
        """What waits is not due; other workflows, skills and organizations are, however long its queue is."""
        storage, (journal, *_) = stores
        await add_workflows(storage, 2)
        refs = [await due(journal, f"r-{n}", 0) for n in range(12)]
        assert await journal.claim_due(1, NOW, 1) + await journal.claim_due(1, NOW, 9) == refs[:2]
        assert journal.may_be_limited(ORG)
        assert await journal.next_wake() is await journal.due_since(NOW) is None
        assert not await journal.claim(refs[5], 1, NOW)
        skill = NewExecution(ORG, "skill", 1, "v-1", "ann", "t-1")
        run = NewRun("skill", "ann", b"f", RunStatus.queued, NOW)
        others = [
            await due(journal, "late", NOW, 2),
            (await journal.begin(skill, Append(0, steps(1), new_run=run, wake_at=NOW))).ref,
            await begin(journal, "other", org=OTHER_ORG, wake_at=NOW),
        ]
        assert await journal.next_wake() == NOW
        claimed = [ref for _ in range(4) for ref in await journal.claim_due(2, NOW, 1)]
        assert sorted(ref.id for ref in claimed) == sorted(ref.id for ref in others)
        await journal.append(refs[1], PARKED)
        assert await journal.claim(refs[5], 1, NOW)
        assert await journal.claim_due(2, NOW, 9) == []

    async def test_a_begin_of_a_limited_workflow_makes_no_claim(self, stores: Stores) -> None:
        """Nor does an append; those of another workflow of the organization do."""
        storage, (journal, *_) = stores
        await add_workflows(storage, 1)
        ref = await begin(journal, claimed_by=7, wakes=True)
        assert ((await journal.execution(ref)).claimed_by, (await find(journal, "r-1")).status) == (None, "queued")
        assert await journal.append(ref, Append(1, (), updates_claim=True, wake_at=0, claimed_by=7)) is None
        other = await journal.execution(await begin(journal, "r-2", resource_id=2, claimed_by=7, wakes=True))
        assert (other.claimed_by, other.epoch) == (7, 1)
        assert await journal.claim_due(7, NOW, 9) == [ref]

    async def test_both_limits_hold(self, stores: Stores) -> None:
        """An organization never has more claims than its own limit, whichever workflows they are of."""
        storage, (journal, *_) = stores
        await add_workflows(storage, 1)
        await limit(storage, 2)
        first = [await due(journal, f"a-{n}", n) for n in range(3)]
        second = [await due(journal, f"b-{n}", 5 + n, 2) for n in range(3)]
        assert await journal.claim_due(1, NOW, 9) == [first[0], second[0]]
        await journal.append(second[0], PARKED)
        assert await journal.claim_due(1, NOW, 9) == [second[1]]
        await journal.append(first[0], PARKED)
        assert await journal.claim_due(1, NOW, 9) == [first[1]]
        await journal.release(1)
        await limit(storage, None, workflow=1)
        assert await journal.claim_due(1, NOW, 9) == [first[1], second[1]]

    async def test_processes_keep_the_limit_of_a_workflow_together(self, stores: Stores) -> None:
        """The same for a workflow, beside runs of another one without a limit."""
        storage, journals = stores
        await add_workflows(storage, 2)
        left = {await due(journals[0], f"a-{n}", NOW) for n in range(8)}
        free = {await due(journals[0], f"b-{n}", NOW, 2) for n in range(8)}
        for _ in range(200):
            claims = (journals[worker % len(journals)].claim_due(worker, NOW, 4) for worker in range(1, 7))
            found = [ref for part in await asyncio.gather(*claims) for ref in part]
            assert len(found) == len({*found})
            assert len(left & {*found}) <= 2
            for ref in found:
                await journals[0].append(ref, PARKED)
            left, free = left - {*found}, free - {*found}
            if not left | free:
                return
        raise AssertionError(f"never claimed: {left | free}")

    async def test_processes_keep_the_limit_together(self, stores: Stores) -> None:
        """However many claim at the same time, at most the limit is held, and everything is claimed in the end."""
        journals = stores[1]
        left = {await due(journals[0], f"r-{n}", NOW) for n in range(12)}

        async def claimed(worker: int) -> list[ExecutionRef]:
            journal = journals[worker % len(journals)]
            if worker % 3:
                return await journal.claim_due(worker, NOW, 4)
            return [ref for ref in sorted(left, key=lambda ref: ref.id)[:4] if await journal.claim(ref, worker, NOW)]

        for _ in range(200):
            found = [ref for part in await asyncio.gather(*map(claimed, range(1, 7))) for ref in part]
            assert len(found) == len({*found}) <= 2
            for ref in found:
                await journals[0].append(ref, PARKED)
            left -= {*found}
            if not left:
                return
        raise AssertionError(f"never claimed: {left}")
