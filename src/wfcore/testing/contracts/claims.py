"""The parts of the journal contract on claims and on slots of calls. `JournalContract` is the whole."""

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from wfcore.domain.kernel.errors import NotFound
from wfcore.domain.run.effects import CallSlot
from wfcore.domain.run.entries import Actor, Started
from wfcore.domain.run.state import RunStatus
from wfcore.ports.journal import Append, ExecutionRef, Holder, Journal, JournalConflict, run_info
from wfcore.testing.contracts.journal_values import NOW, ORG, OTHER_ORG, begin, due, find, steps
from wfcore.testing.on_asyncio import OnAsyncio


class ClaimsContract(OnAsyncio):
    """Claims, workers and due times. Inherit `JournalContract`, not this class."""

    @abstractmethod
    def open_journal(self, place: Path) -> AbstractAsyncContextManager[Journal]:
        """An empty journal; closed at the end of the block."""

    @pytest.fixture
    async def journal(self, tmp_path: Path, anyio_backend: str) -> AsyncIterator[Journal]:
        async with self.open_journal(tmp_path) as journal:
            yield journal

    async def test_only_the_holder_writes(self, journal: Journal) -> None:
        """With `holder` set, an append by a worker without the claim conflicts."""
        ref = await begin(journal, claimed_by=1)
        for number, moves in ((2, False), (2, True)):
            with pytest.raises(JournalConflict):
                await journal.append(ref, Append(1, steps(1), holder=number, updates_claim=moves))
        await journal.append(ref, Append(1, steps(1, 1), holder=1))
        await journal.release(1)
        with pytest.raises(JournalConflict):
            await journal.append(ref, Append(2, steps(1, 2), holder=1))
        await journal.append(ref, Append(2, steps(1, 2)))
        assert await journal.read(ref) == list(steps(3))

    async def test_the_row_names_the_holder(self, journal: Journal) -> None:
        """The row of an execution has the number of the worker that claimed it, or none."""
        free, held = await begin(journal, "r-1"), await begin(journal, "r-2", claimed_by=9)
        assert (await journal.execution(free)).claimed_by is None
        assert (await journal.execution(held)).claimed_by == 9

    async def test_the_epoch_counts_the_claims(self, journal: Journal) -> None:
        """It grows with every claim, however the claim is made, and never becomes smaller."""
        ref = await begin(journal, wake_at=NOW)
        epochs = [(await journal.execution(ref)).epoch]
        for number in range(1, 3):
            assert await journal.claim_due(1, NOW, 9) == [ref]
            epochs.append((await journal.execution(ref)).epoch)
            await journal.append(ref, Append(number, steps(1, number), holder=1, updates_claim=True, wake_at=NOW))
            epochs.append((await journal.execution(ref)).epoch)
        claimed = await journal.append(ref, Append(3, (), updates_claim=True, claimed_by=2))
        assert claimed == (await journal.execution(ref)).epoch
        assert await journal.append(ref, Append(3, steps(1, 3), holder=2)) is None
        await journal.append(ref, Append(4, (), wakes=True))
        assert await journal.release(2) == 1
        assert [*epochs, (await journal.execution(ref)).epoch] == [0, 1, 1, 2, 2, 3]
        assert (await journal.execution(await begin(journal, "r-2", claimed_by=9))).epoch == 1

    async def test_claims_come_in_the_order_of_being_due(self, journal: Journal) -> None:
        """The longest due first, at most `limit`, none before its due time, and none with a claim."""
        worker = await journal.register("host", 1)
        late, early = await due(journal, "r-1", NOW + 2), await due(journal, "r-2", NOW + 1)
        future = await due(journal, "r-3", NOW + 3)
        await begin(journal, "r-4", wake_at=NOW, claimed_by=9)
        await begin(journal, "r-5")
        assert await journal.next_wake() == NOW + 1
        assert await journal.claim_due(worker, NOW, 9) == []
        assert await journal.claim_due(worker, NOW + 2, 1) == [early]
        assert await journal.claim_due(worker, NOW + 2, 9) == [late]
        assert await journal.claim_due(worker, NOW + 2, 9) == []
        assert await journal.next_wake() == NOW + 3
        assert await journal.claim_due(worker, NOW + 3, 9) == [future]
        assert await journal.next_wake() is None

    async def test_one_execution_is_claimed(self, journal: Journal) -> None:
        """One that is due and free, by exactly one of its claimants; its queued run becomes a running one."""
        ref, late = await due(journal, "r-1", NOW), await due(journal, "r-2", NOW + 9)
        unknown, hidden = ExecutionRef(ref.org, ref.id + 99), ExecutionRef(OTHER_ORG, ref.id)
        refused = [unknown, hidden, late, await begin(journal, "r-3")]
        assert [await journal.claim(one, 1, NOW + 5) for one in refused] == [None] * 4
        claims = await asyncio.gather(*(journal.claim(ref, worker, NOW + 5) for worker in range(1, 9)))
        (worker,) = [worker for worker, claimed in enumerate(claims, 1) if claimed is not None]
        found, row = await journal.execution(ref), await find(journal, "r-1")
        assert (found.claimed_by, found.epoch) == (worker, 1)
        assert (row.status, row.updated_at) == (RunStatus.running, NOW + 5)
        assert await journal.next_wake() == NOW + 9
        assert await journal.claim_due(9, NOW + 5, 9) == []
        await journal.append(ref, Append(1, (), updates_claim=True, wake_at=NOW))
        assert await journal.claim(ref, 9, NOW)

    async def test_a_claim_returns_what_it_claims(self, journal: Journal) -> None:
        """The row of the execution after the claim, and its entries: all of them, or None if they are many."""
        info = {**run_info("workflow", 1, "t-1"), "more": [1]}
        first = Started(NOW, "r-1", Actor("ann"), {"a": 1}, info)
        ref = await begin(journal, "r-1", entries=(first, *steps(2)), status=RunStatus.queued, wake_at=NOW)
        for worker, added in ((1, 3), (2, 200)):
            claimed = await journal.claim(ref, worker, NOW)
            assert claimed is not None
            assert claimed.execution == await journal.execution(ref)
            assert claimed.execution.claimed_by == worker
            entries = await journal.read(ref)
            assert (entries[0], claimed.entries) == (first, entries)
            parked = Append(len(entries), steps(added), updates_claim=True, wake_at=NOW, holder=worker)
            await journal.append(ref, parked)
        claimed = await journal.claim(ref, 3, NOW)
        assert claimed is not None
        assert (claimed.execution.length, claimed.entries in (None, await journal.read(ref))) == (206, True)

    async def test_organizations_share_the_claims(self, journal: Journal) -> None:
        """With more due than `limit`, each organization gets the same share, and unused shares go to the others."""
        flood = [await due(journal, f"r-{n}", NOW) for n in range(12)]
        light = [await begin(journal, f"r-{n}", org=OTHER_ORG, wake_at=NOW + 1) for n in range(3)]
        claims = [await journal.claim_due(1, NOW + 2, 4) for _ in range(4)]
        assert [len(claim) for claim in claims] == [4, 4, 4, 3]
        assert {*claims[0]} == {*flood[:2], *light[:2]}
        assert {*claims[1]} == {*flood[2:5], light[2]}
        assert [*claims[2], *claims[3]] == flood[5:]

    async def test_claims_of_one_alternate(self, journal: Journal) -> None:
        """With a `limit` of one, organizations get their claims in turn; a later due time alone is not claimed."""
        for n in range(3):
            await due(journal, f"r-{n}", 0)
            await begin(journal, f"r-{n}", org=OTHER_ORG, wake_at=NOW)
        await begin(journal, "r-9", org=OTHER_ORG, wake_at=NOW + 5)
        claims = [await journal.claim_due(1, NOW, 1) for _ in range(7)]
        assert claims.pop() == []
        assert len({ref.org for (ref,) in claims[:2]}) == len({ref.org for (ref,) in claims[2:4]}) == 2
        assert await journal.next_wake() == NOW + 5

    async def test_since_when_the_next_one_is_due(self, journal: Journal) -> None:
        """The due time of what the next claim takes; for what is due at once, the time of its latest turn."""
        assert await journal.due_since(NOW) is None
        await due(journal, "r-1", NOW - 5)
        await due(journal, "r-2", NOW + 5)
        assert [await journal.due_since(now) for now in (NOW - 6, NOW)] == [None, NOW - 5]
        await begin(journal, "r-3", status=RunStatus.queued, at=NOW - 2, wakes=True)
        assert await journal.due_since(0) == NOW - 2
        await journal.claim_due(1, NOW, 2)
        assert await journal.due_since(NOW) is None

    async def test_the_progress_of_one(self, journal: Journal) -> None:
        """The status of the latest run, who holds the execution, and when it is due."""
        ref = await begin(journal, status=RunStatus.queued, wake_at=NOW)
        found = await journal.progress(ref)
        assert (found.status, found.claimed_by, found.wake_at) == (RunStatus.queued, None, NOW)
        row = await journal.execution(ref)
        assert (found.kind, found.resource_id) == (row.kind, row.resource_id)
        await journal.claim(ref, 7, NOW)
        found = await journal.progress(ref)
        assert (found.status, found.claimed_by) == (RunStatus.running, 7)
        await journal.append(ref, Append(1, (), updates_claim=True))
        assert (await journal.progress(ref)).wake_at is None
        for absent in (ExecutionRef(ref.org, ref.id + 1), ExecutionRef(OTHER_ORG, ref.id)):
            with pytest.raises(NotFound):
                await journal.progress(absent)

    async def test_a_refused_append_sets_no_due_time(self, journal: Journal) -> None:
        """The due time is written with the entries or not at all, like the claim beside them."""
        ref = await begin(journal)
        for refused in (
            Append(2, steps(1, 2), wakes=True),
            Append(2, (), updates_claim=True, wake_at=NOW),
            Append(1, steps(1, 1), updates_claim=True, claimed_by=7, wake_at=NOW, holder=8),
        ):
            with pytest.raises(JournalConflict):
                await journal.append(ref, refused)
        assert await journal.next_wake() is None
        assert await journal.holders() == []

    async def test_a_wake_keeps_the_claim(self, journal: Journal) -> None:
        """The execution is due at once: for any worker if it is free, after the release if it is claimed."""
        free, held = await begin(journal, "r-1"), await begin(journal, "r-2", claimed_by=9)
        for ref in (free, held):
            await journal.append(ref, Append(1, steps(1, 1), wakes=True))
        assert await journal.next_wake() == 0
        assert await journal.claim_due(1, 0, 9) == [free]
        await journal.append(held, Append(2, steps(1, 2), holder=9))
        await journal.append(held, Append(3, (), holder=9, updates_claim=True, wakes=True))
        assert await journal.claim_due(1, 0, 9) == [held]

    async def test_a_queued_run_runs_once_it_is_claimed(self, journal: Journal) -> None:
        """A claim changes a queued run to running, and does not change a run of another status."""
        await due(journal, "r-1", NOW)
        await begin(journal, "r-2", status=RunStatus.interrupted, wake_at=NOW)
        await journal.claim_due(1, NOW + 5, 9)
        row = await find(journal, "r-1")
        assert (row.status, row.updated_at) == (RunStatus.running, NOW + 5)
        assert (await find(journal, "r-2")).status == RunStatus.interrupted

    async def test_exactly_one_claimant_gets_each(self, journal: Journal) -> None:
        """Of many simultaneous claimants each execution has exactly one."""
        refs = {await due(journal, f"r-{n}", NOW) for n in range(30)}
        workers = [await journal.register("host", n) for n in range(8)]
        claims = await asyncio.gather(*(journal.claim_due(worker, NOW, 4) for worker in workers))
        claimed = [ref for claim in claims for ref in claim]
        assert len(claimed) == 30
        assert set(claimed) == refs

    async def test_what_a_dead_worker_held_is_due_at_once(self, journal: Journal) -> None:
        """A release ends all claims of the worker and no others; later writes of the worker are refused."""
        dead, other = await journal.register("host", 1), await journal.register("host", 2)
        assert dead != other
        ref = await due(journal, "r-1", NOW)
        await journal.claim_due(dead, NOW, 9)
        await begin(journal, "r-2", claimed_by=other, wake_at=NOW)
        assert await journal.release(dead) == 1
        assert await journal.next_wake() == 0
        assert await journal.claim_due(other, 0, 9) == [ref]
        assert await journal.release(dead) == 0
        with pytest.raises(JournalConflict):
            await journal.append(ref, Append(1, steps(1), holder=dead))

    async def test_a_worker_can_list_its_claims(self, journal: Journal) -> None:
        """Its begun and claimed executions of all organizations, by number; none of others, none released."""
        worker, other = [await journal.register("host", number) for number in (1, 2)]
        begun = await begin(journal, "r-1", claimed_by=worker)
        await begin(journal, "r-2", claimed_by=other)
        ref = await due(journal, "r-3", 0)
        assert await journal.held_by(worker) == [begun]
        assert await journal.claim_due(worker, NOW, 9) == [ref]
        assert await journal.held_by(worker) == [begun, ref]
        await journal.release(worker)
        assert await journal.held_by(worker) == []

    async def test_claimed_executions_are_read_together(self, journal: Journal) -> None:
        """With their entries, of organizations of their own, as one by one; those that do not exist are left out."""
        short, long = await begin(journal, "r-1"), await begin(journal, "r-2")
        foreign = await held_by_one(journal, 3, OTHER_ORG)
        await journal.append(long, Append(1, steps(1, 300)))
        missing = ExecutionRef(ORG, short.id + 1_000)
        found = {one.execution.ref: one for one in await journal.with_entries([short, missing, long, foreign])}
        assert {ref: one.execution for ref, one in found.items()} == {
            ref: await journal.execution(ref) for ref in (short, long, foreign)
        }
        for ref, one in found.items():
            assert one.entries in ([*await journal.read(ref)], None), ref
        assert found[short].entries is not None
        assert await journal.with_entries([]) == []

    async def test_holders_have_the_number_of_their_heartbeats(self, journal: Journal) -> None:
        """Exactly the workers with a claim, by number; every heartbeat changes the number."""
        silent, loud, idle = [await journal.register("host", n) for n in (1, 2, 3)]
        for worker in (silent, loud):
            await begin(journal, f"r-{worker}", claimed_by=worker)
        await journal.heartbeat(loud)
        assert await journal.holders() == [Holder(silent, "host", 1, 0), Holder(loud, "host", 2, 1)]
        await journal.heartbeat(loud)
        assert (await journal.holders())[1] == Holder(loud, "host", 2, 2)
        assert await journal.release(idle) == 0
        await journal.release(loud)
        assert await journal.holders() == [Holder(silent, "host", 1, 0)]

    async def test_a_worker_can_have_the_number_of_another_database(self, journal: Journal) -> None:
        """It is a holder with its host, without heartbeats; registered again it stays one."""
        number = 2**40 + 1
        for _ in range(2):
            assert await journal.register("host", 7, number) == number
        await begin(journal, claimed_by=number)
        assert await journal.holders() == [Holder(number, "host", 7, 0)]

    async def test_a_heartbeat_registers_a_worker(self, journal: Journal) -> None:
        """A heartbeat or a claim registers a released worker again; an unknown worker has none."""
        worker = await journal.register("host", 7)
        ref = await due(journal, "r-1", 0)
        await journal.release(worker)
        assert await journal.claim_due(worker, NOW, 9) == [ref]
        assert await journal.holders() == [Holder(worker, "host", 7, 1)]
        await journal.heartbeat(worker)
        assert await journal.holders() == [Holder(worker, "host", 7, 2)]
        await begin(journal, "r-2", claimed_by=99)
        assert (await journal.holders())[-1] == Holder(99, "", 0, 0)

    async def test_a_claim_is_a_heartbeat_whatever_the_clock_shows(self, journal: Journal) -> None:
        """Claims of a worker whose wall clock is set back change the number of its heartbeats too."""
        worker = await journal.register("host", 7)
        for name, now in (("r-1", NOW), ("r-2", NOW - 3_600_000)):
            await due(journal, name, 0)
            await journal.claim_due(worker, now, 9)
        assert await journal.holders() == [Holder(worker, "host", 7, 2)]

    async def test_a_worker_number_is_unique(self, journal: Journal) -> None:
        """A number is not used again, even after the release of its worker."""
        numbers = []
        for pid in range(5):
            numbers.append(await journal.register("host", pid))
            await journal.release(numbers[-1])
        assert len(set(numbers)) == 5


ONE: CallSlot = ("key", 1)


async def held_by_one(journal: Journal, number: int, org: str = ORG) -> ExecutionRef:
    """An execution that worker 1 holds."""
    return await begin(journal, f"r-{number}", org=org, claimed_by=1)


async def take(journal: Journal, ref: ExecutionRef, attempt: str = "a", slot: CallSlot = ONE) -> int:
    return await journal.take_slot(ref, attempt, slot, 1)


class SlotsContract(ClaimsContract):
    """Slots of calls with a key. Inherit `JournalContract`, not this class."""

    async def test_attempts_have_places_in_their_order(self, journal: Journal) -> None:
        """As many as the limit have a slot, for each key of each organization. To take one again changes nothing."""
        refs = [await held_by_one(journal, number) for number in range(4)]
        assert [await take(journal, ref, slot=("key", 2)) for ref in [*refs, *refs]] == [0, 0, 1, 2, 0, 0, 1, 2]
        assert [await take(journal, refs[0], attempt, ("key", 2)) for attempt in "bca"] == [3, 4, 0]
        assert await take(journal, refs[3], "b", ("other", 1)) == 0
        assert await take(journal, await held_by_one(journal, 9, org=OTHER_ORG)) == 0

    async def test_each_attempt_has_its_own_limit(self, journal: Journal) -> None:
        """So the highest limit of a key is never passed."""
        first, second = await held_by_one(journal, 1), await held_by_one(journal, 2)
        limits = [await take(journal, first, "a", ("key", 1)), await take(journal, second, "a", ("key", 2))]
        limits.append(await take(journal, second, "b", ("key", 1)))
        assert limits == [0, 0, 2]

    async def test_an_append_frees_what_it_does_not_keep(self, journal: Journal) -> None:
        """Those that get a slot are due at once, and are reported once."""
        first, second, third = [await held_by_one(journal, number) for number in range(3)]
        assert [await take(journal, first, attempt) for attempt in "ab"] == [0, 1]
        for ref in (second, third):
            assert await take(journal, ref)
            await journal.append(ref, Append(1, (), updates_claim=True, wake_at=NOW + 99, awaits="a"))
        await journal.append(first, Append(1, steps(1, 1), slots="ab"))
        await journal.append(first, Append(2, steps(1, 2), slots="b"))
        assert (await take(journal, first, "b"), (await journal.progress(second)).wake_at) == (0, NOW + 99)
        journal.take_admitted()
        await journal.append(first, Append(3, steps(1, 3), slots=()))
        assert journal.take_admitted() == [second]
        assert not journal.take_admitted()
        assert [(await journal.progress(ref)).wake_at for ref in (second, third)] == [0, NOW + 99]
        assert await journal.claim_due(1, NOW, 9) == [second]
        assert await take(journal, second) == 0

    async def test_one_that_is_held_is_reported(self, journal: Journal) -> None:
        """Its worker keeps it. A release that awaits a slot which is free is due at once."""
        first, second = await held_by_one(journal, 1), await held_by_one(journal, 2)
        assert [await take(journal, ref) for ref in (first, second)] == [0, 1]
        await journal.append(first, Append(1, (), updates_claim=True, slots=()))
        assert journal.take_admitted() == [second]
        assert (await journal.progress(second)).claimed_by == 1
        await journal.append(second, Append(1, (), updates_claim=True, wake_at=NOW + 99, awaits="a"))
        assert (await journal.progress(second)).wake_at == 0
        assert (await journal.progress(first)).wake_at is None
        assert journal.take_admitted() == [second]

    async def test_those_that_get_slots_at_the_same_time_are_reported(self, journal: Journal) -> None:
        """Each that a worker holds, however many appends free slots at once."""
        refs = [await held_by_one(journal, number) for number in range(8)]
        assert [await take(journal, ref, slot=("key", 4)) for ref in refs] == [0, 0, 0, 0, 1, 2, 3, 4]
        await asyncio.gather(*(journal.append(ref, Append(1, steps(1, 1), slots=())) for ref in refs[:3]))
        assert {*refs[4:7]} <= {*journal.take_admitted()}
        assert [await take(journal, ref, slot=("key", 4)) for ref in refs[4:]] == [0, 0, 0, 1]

    async def test_only_the_holder_takes_a_slot(self, journal: Journal) -> None:
        """The place of an execution is that of whichever worker holds it; a slow worker takes none."""
        first, second = await held_by_one(journal, 1), await held_by_one(journal, 2)
        assert await take(journal, first) == 0
        await journal.release(1)
        for ref, holder in ((first, 1), (second, 1), (second, None), (ExecutionRef(OTHER_ORG, first.id), 1)):
            with pytest.raises(JournalConflict):
                await journal.take_slot(ref, "a", ONE, holder)
        assert len(await journal.claim_due(2, NOW, 9)) == 2
        assert [await journal.take_slot(ref, "a", ONE, 2) for ref in (second, first)] == [1, 0]

    async def test_a_refused_append_frees_nothing(self, journal: Journal) -> None:
        """Neither one with a wrong length nor one of another worker."""
        first, second = await held_by_one(journal, 1), await held_by_one(journal, 2)
        assert await take(journal, first) == 0
        for append in (Append(5, steps(1), slots=()), Append(1, steps(1, 1), slots=(), holder=9)):
            with pytest.raises(JournalConflict):
                await journal.append(first, append)
        assert await take(journal, second) == 1

    async def test_takes_at_the_same_time(self, journal: Journal) -> None:
        """Each attempt gets a place of its own: never do two believe that both are the last with a slot."""
        refs = [await held_by_one(journal, number) for number in range(12)]
        places = await asyncio.gather(*(take(journal, ref, slot=("key", 2)) for ref in refs))
        assert sorted(places) == [0, *range(11)]
        again = await asyncio.gather(*(take(journal, ref, slot=("key", 2)) for ref in refs))
        assert again == places
        first = refs[places.index(0)]
        await journal.append(first, Append(1, steps(1, 1), slots=()))
        assert await take(journal, refs[places.index(1)], slot=("key", 2)) == 0

    async def test_a_deleted_execution_has_no_place(self, journal: Journal) -> None:
        """Whatever is left of it."""
        first, second = await held_by_one(journal, 1), await held_by_one(journal, 2)
        assert [await take(journal, ref) for ref in (first, second)] == [0, 1]
        await journal.append(first, Append(1, (), updates_claim=True))
        await journal.delete(first, 1)
        assert await take(journal, second) == 0
