"""The contract of journals, as a suite to inherit.

An adapter's author writes one method:

    class TestMyJournal(JournalContract):
        @asynccontextmanager
        async def open_journal(self, place: Path) -> AsyncIterator[Journal]:
            yield MyJournal(place / "data")

The organizations `ORG` and `OTHER_ORG` exist in it. The members of the group `READERS` can use workflow 1
of `ORG`; no user can use another resource. `place` is an empty directory. A journal whose content outlives the process
inherits `JournalCrashContract` too, with the same method. Needs the extra `testing`.
"""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from wfcore.domain.kernel.errors import NotFound, Unavailable
from wfcore.domain.kernel.json_readers import as_object
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.entries import Started, TimePassed
from wfcore.domain.run.state import RunStatus
from wfcore.ports.journal import (
    Append,
    ExecutionRef,
    Journal,
    JournalConflict,
    NewExecution,
    NewRun,
    RunChange,
    RunExists,
    RunRow,
    run_info,
)
from wfcore.testing.contracts.claims import SlotsContract
from wfcore.testing.contracts.inbox import InboxContract
from wfcore.testing.contracts.interrupted.calls import CancelAt
from wfcore.testing.contracts.interrupted.journals import InterruptedJournal
from wfcore.testing.contracts.journal_values import (
    ANN,
    EVERY_ENTRY,
    GIVEN,
    NOW,
    ORG,
    OTHER_ORG,
    begin,
    due,
    find,
    interrupt,
    outcomes,
    steps,
)
from wfcore.testing.contracts.run_lists import RepairContract, RunListContract, SnapshotContract
from wfcore.testing.contracts.run_records import RecordsContract


class JournalContract(
    SlotsContract,
    InboxContract,
    RecordsContract,
    RepairContract,
    RunListContract,
    SnapshotContract,
    InterruptedJournal,
):
    """Inherit, name the class `Test...`, and write `open_journal`."""

    # "Closed at the end of the block"

    async def test_a_closed_journal_is_unavailable(self, tmp_path: Path) -> None:
        """So that nobody waits any more for what is never written: every read and write raises Unavailable."""
        async with self.open_journal(tmp_path) as journal:
            ref, worker = await begin(journal), await journal.register("here", 1)
        found = await outcomes(
            begin(journal, "r-2"),
            journal.append(ref, Append(1, steps(1))),
            journal.append(ref, Append(1, (), updates_claim=True, wake_at=NOW)),
            journal.delete(ref, 1),
            journal.read(ref),
            journal.snapshot(ref),
            journal.execution(ref),
            journal.progress(ref),
            journal.find_run(ORG, "r-1"),
            journal.list_runs(ORG, limit=1),
            journal.open_interrupts(ORG, limit=1),
            journal.is_deleted(ORG, "r-1"),
            journal.lengths([ref]),
            journal.register("there", 2),
            journal.heartbeat(worker),
            journal.holders(),
            journal.held_by(worker),
            journal.release(worker),
            journal.claim_due(worker, NOW, 1),
            journal.claim(ref, worker, NOW),
            journal.next_wake(),
            journal.due_since(NOW),
        )
        assert set(found) == {Unavailable}

    # "Write after exactly `append.expected` entries, else `JournalConflict`"

    async def test_appended_entries_are_read(self, journal: Journal) -> None:
        """Entries of every type are read equal and in order, all of them or those after a position."""
        ref = await begin(journal, entries=EVERY_ENTRY[:1])
        await journal.append(ref, Append(1, EVERY_ENTRY[1:3]))
        await journal.append(ref, Append(3, EVERY_ENTRY[3:]))
        assert await journal.read(ref) == list(EVERY_ENTRY)
        assert await journal.read(ref, 4) == list(EVERY_ENTRY[4:])
        assert await journal.read(ref, len(EVERY_ENTRY)) == []
        assert (await journal.execution(ref)).length == len(EVERY_ENTRY)

    @pytest.mark.parametrize("expected", [0, 1, 3, 4, 100])
    @pytest.mark.parametrize("count", [0, 1, 3])
    async def test_behind_or_ahead_conflicts(self, journal: Journal, expected: int, count: int) -> None:
        """An append with a wrong expected length conflicts and writes nothing, with or without entries."""
        ref = await begin(journal, entries=steps(2))
        change = RunChange("r-1", RunStatus.done, NOW + 1)
        for changes in ((), (change,)):
            with pytest.raises(JournalConflict):
                await journal.append(
                    ref, Append(expected, steps(count, 7), changes=changes, updates_claim=True, wake_at=0)
                )
            if count:
                with pytest.raises(JournalConflict):
                    await journal.append(ref, Append(expected, steps(count, 7)))
        assert await journal.read(ref) == list(steps(2))
        assert await journal.next_wake() is None
        assert (await find(journal, "r-1")).status == RunStatus.running

    async def test_an_append_without_entries_only_changes_rows(self, journal: Journal) -> None:
        """With the right length and no entries, the rows change and the journal does not."""
        ref = await begin(journal, entries=steps(2))
        await journal.append(ref, Append(2, (), updates_claim=True, wake_at=NOW + 9))
        assert await journal.next_wake() == NOW + 9
        assert await journal.read(ref) == list(steps(2))

    async def test_of_racing_writers_one_wins(self, journal: Journal) -> None:
        """Of many writers that read the same length exactly one succeeds; the others conflict."""
        ref = await begin(journal)
        kinds = await outcomes(*(journal.append(ref, Append(1, steps(2, 10 * n))) for n in range(20)))
        assert sorted(kind.__name__ for kind in kinds) == ["JournalConflict"] * 19 + ["NoneType"]
        assert len(await journal.read(ref)) == 3

    async def test_one_conflict_fails_nobody_else(self, journal: Journal) -> None:
        """Of many simultaneous appends to many executions only those that conflict fail."""
        refs = [await begin(journal, f"r-{n}") for n in range(10)]
        wrong = {3, 7}
        kinds = await outcomes(
            *(journal.append(ref, Append(5 if n in wrong else 1, steps(2))) for n, ref in enumerate(refs))
        )
        assert {n for n, kind in enumerate(kinds) if kind is JournalConflict} == wrong
        lengths = await journal.lengths(refs)
        assert [lengths[ref] for ref in refs] == [1 if n in wrong else 3 for n in range(10)]

    async def test_simultaneous_appends_keep_their_order(self, journal: Journal) -> None:
        """Writes of every kind to one execution take effect in the order of the calls."""
        ref = await begin(journal, claimed_by=1)
        kinds = await outcomes(
            journal.append(ref, Append(1, steps(1, 1), holder=1)),
            journal.append(ref, Append(2, steps(1, 2), holder=1, updates_claim=True, wake_at=5)),
            journal.append(ref, Append(3, steps(1, 3), holder=1)),
            journal.append(ref, Append(3, steps(1, 4))),
        )
        assert kinds == [type(None), type(None), JournalConflict, type(None)]
        assert await journal.read(ref) == [*steps(3), *steps(1, 4)]

    async def test_numbering_never_interleaves(self, journal: Journal) -> None:
        """The entries of one append are adjacent, however many writers there are."""
        ref = await begin(journal)

        async def writer(number: int) -> None:
            for _ in range(4):
                while True:
                    length = (await journal.lengths([ref]))[ref]
                    with suppress(JournalConflict):
                        await journal.append(ref, Append(length, [TimePassed(number)] * 3))
                        break

        await asyncio.gather(*map(writer, range(5)))
        numbers = [getattr(entry, "at", None) for entry in (await journal.read(ref))[1:]]
        assert len(numbers) == 60
        assert all(len(set(numbers[start : start + 3])) == 1 for start in range(0, 60, 3))

    async def test_ten_thousand_entries(self, journal: Journal) -> None:
        """A long journal is written and read completely."""
        ref = await begin(journal)
        await journal.append(ref, Append(1, steps(9_999, 1)))
        assert await journal.read(ref) == list(steps(10_000))
        assert await journal.lengths([ref]) == {ref: 10_000}

    async def test_one_impossible_change_fails_nobody_else(self, journal: Journal) -> None:
        """A change of an unknown run fails for its own caller and writes nothing; the others succeed."""
        one, two = await begin(journal, "r-1"), await begin(journal, "r-2")
        change = RunChange("r-9", RunStatus.done, NOW)
        kinds = await outcomes(
            journal.append(one, Append(1, steps(1), changes=[change])),
            journal.append(two, Append(1, steps(1))),
        )
        assert kinds == [NotFound, type(None)]
        assert await journal.lengths([one, two]) == {one: 1, two: 2}

    # "every method either did all it says, durably, or raised and did nothing"

    async def test_a_taken_run_id_leaves_nothing(self, journal: Journal) -> None:
        """`RunExists`, on begin and on append, for a stale writer too: no entry, row or claim is written."""
        await begin(journal, "r-1")
        with pytest.raises(RunExists):
            await begin(journal, "r-1", interrupts=[interrupt("i-1")], wake_at=5)
        ref = await begin(journal, "r-2")
        for expected in (1, 7):
            run = NewRun("r-1", "ann", b"f", RunStatus.running, NOW)
            with pytest.raises(RunExists):
                await journal.append(ref, Append(expected, steps(1), new_run=run, updates_claim=True, wake_at=5))
        assert await journal.lengths([ref]) == {ref: 1}
        assert len(await journal.list_runs(ORG, limit=9)) == 2
        assert await journal.next_wake() is None
        assert await journal.open_interrupts(ORG, limit=9) == []

    async def test_of_begins_with_one_run_id_one_wins(self, journal: Journal) -> None:
        """Many starts with the same run id create one execution."""
        kinds = await outcomes(*(begin(journal, "same") for _ in range(10)))
        assert sorted(kind.__name__ for kind in kinds) == ["ExecutionRef"] + ["RunExists"] * 9

    async def test_an_unknown_organization_is_not_found(self, journal: Journal) -> None:
        """In an unknown organization no execution can begin, and reads find nothing."""
        nowhere = "00000000-0000-4000-8000-000000000009"
        with pytest.raises(NotFound):
            await begin(journal, org=nowhere)
        assert await journal.find_run(nowhere, "r-1") is None
        assert await journal.list_runs(nowhere, limit=9) == []

    @pytest.mark.parametrize("kind", ["begin", "append", "append with rows", "claim"])
    async def test_cancelled_at_every_wait(self, journal: Journal, kind: str) -> None:
        """A caller that is cancelled at any await has written all or nothing, and the journal still works."""
        for step in range(1, 20):
            run_id, other = f"r-{step}", f"x-{step}"
            ref = await due(journal, run_id, NOW)
            work = CancelAt(self._work(journal, kind, ref, run_id, other), step)
            (outcome,) = await asyncio.gather(asyncio.ensure_future(work), return_exceptions=True)
            assert outcome is None or isinstance(outcome, asyncio.CancelledError)
            await journal.append(await begin(journal, f"y-{step}"), Append(1, steps(1)))
            length, row = (await journal.lengths([ref]))[ref], await find(journal, run_id)
            assert length in (1, 4)
            assert kind != "append with rows" or (length == 4) == (row.status == RunStatus.done)
            if made := await journal.find_run(ORG, other):
                assert await journal.lengths([made.execution]) == {made.execution: 3}
            await journal.release(7)
            if not work.reached:
                return
        pytest.fail("there is no end to the waiting")

    def _work(
        self, journal: Journal, kind: str, ref: ExecutionRef, run_id: str, other: str
    ) -> Coroutine[Any, Any, object]:
        match kind:
            case "begin":
                return begin(journal, other, entries=steps(3))
            case "append":
                return journal.append(ref, Append(1, steps(3, 1)))
            case "append with rows":
                done = RunChange(run_id, RunStatus.done, NOW)
                return journal.append(ref, Append(1, steps(3, 1), changes=[done]))
            case _:
                return journal.claim_due(7, NOW, 100)

    # Runs

    async def test_a_run_is_found_as_it_was_written(self, journal: Journal) -> None:
        """The row of a run has the values of its begin and of later changes; None keeps result and successor."""
        ref = await begin(journal, status=RunStatus.queued)
        made = await find(journal, "r-1")
        assert (made.execution, made.user_id, made.fingerprint, made.status) == (
            ref,
            "ann",
            b"f-r-1",
            "queued",
        )
        assert (made.created_at, made.updated_at, made.finished_at) == (NOW, NOW, None)
        assert (made.kind, made.resource_id, made.thread_id) == ("workflow", 1, "t-1")
        for change in (
            RunChange("r-1", RunStatus.interrupted, NOW + 1, GIVEN),
            RunChange("r-1", RunStatus.interrupted, NOW + 2, resumed_by="r-2"),
        ):
            await journal.append(ref, Append(1, (), changes=[change]))
        row = await find(journal, "r-1")
        assert (row.status, row.result, row.resumed_by) == (RunStatus.interrupted, GIVEN, "r-2")
        assert (row.created_at, row.updated_at, row.finished_at) == (NOW, NOW + 2, NOW + 1)
        await journal.append(ref, Append(1, (), changes=[RunChange("r-1", RunStatus.cancelled, NOW + 3)]))
        assert (await find(journal, "r-1")).finished_at == NOW + 3

    async def test_a_result_that_is_read_belongs_to_its_reader(self, journal: Journal) -> None:
        """Who changes it changes neither the stored one nor that of another reader."""
        ref = await begin(journal)
        result: dict[str, JSON] = {"output": {"n": 1}}
        await journal.append(ref, Append(1, (), changes=[RunChange("r-1", RunStatus.done, NOW, result)]))
        (listed,) = await journal.list_runs(ORG, limit=1)
        for row in (await find(journal, "r-1"), listed):
            output = as_object(row.result)["output"]
            assert isinstance(output, dict)
            output.clear()
        assert (await find(journal, "r-1")).result == {"output": {"n": 1}}

    async def test_a_resume_is_one_transaction(self, journal: Journal) -> None:
        """A new turn, its predecessor's link and its entries appear together; the root stays the same."""
        ref = await begin(journal)
        turn = NewRun("r-2", "bob", b"f-2", RunStatus.running, NOW + 5, parent_run_id="r-1")
        link = RunChange("r-1", RunStatus.interrupted, NOW + 5, resumed_by="r-2")
        await journal.append(ref, Append(1, steps(1, 1), new_run=turn, changes=[link]))
        row = await find(journal, "r-2")
        assert (row.execution, row.parent_run_id, row.user_id) == (ref, "r-1", "bob")
        assert (await find(journal, "r-1")).resumed_by == "r-2"
        execution = await journal.execution(ref)
        assert (execution.root_run_id, execution.user_id, execution.variation_id) == ("r-1", "ann", "v-1")

    async def test_runs_are_paged_newest_first(self, journal: Journal) -> None:
        """The pages together have every run once, the latest begun first, whatever the clocks showed."""
        for n in range(10):
            await begin(journal, f"r-{n}", at=NOW - n)
        seen: list[RunRow] = []
        while page := await journal.list_runs(ORG, limit=4, before=seen[-1].key if seen else None):
            seen += page
        assert [row.id for row in seen] == [f"r-{n}" for n in reversed(range(10))]
        assert sorted({row.key for row in seen}, reverse=True) == [row.key for row in seen]

    async def test_a_run_is_found_with_its_execution(self, journal: Journal) -> None:
        """`find_turn` returns the results of `find_run` and `execution`; None where `find_run` returns None."""
        ref = await begin(journal, "r-1", claimed_by=7)
        await journal.append(ref, Append(1, steps(1, 1), new_run=NewRun("r-2", "bob", b"f", RunStatus.running, NOW)))
        for run_id in ("r-1", "r-2"):
            found = await journal.find_run(ORG, run_id), await journal.execution(ref)
            assert await journal.find_turn(ORG, run_id) == found
        assert await journal.find_turn(OTHER_ORG, "r-1") is await journal.find_turn(ORG, "r-3") is None

    async def test_a_run_that_begins_and_ends_at_once(self, journal: Journal) -> None:
        """Its row equals `NewRun.row`: with its result, and finished at its begin."""
        new = NewExecution(ORG, "workflow", 1, "v-1", "ann", "t-1", is_draft=True)
        run = NewRun("r-1", "ann", b"f", RunStatus.done, NOW, result={"output": GIVEN})
        ref = (await journal.begin(new, Append(0, steps(1), new_run=run))).ref
        row = await find(journal, "r-1")
        assert row == run.row(await journal.execution(ref), row.key)
        assert (row.result, row.finished_at) == ({"output": GIVEN}, NOW)

    async def test_the_first_entry_can_repeat_its_rows(self, journal: Journal) -> None:
        """It is read as written, with or without the `run_info` of the execution and the name of its run."""
        about = run_info("workflow", 1, "t-1")
        more: dict[str, JSON] = {"message": "go"}
        infos: list[dict[str, JSON]] = [about, {**about, **more}, {**more, **about}, {"threadId": "t-1"}, more]
        infos.append({"target": 1, "threadId": "t-1"})
        for number, info in enumerate(infos):
            for said, at in (("", NOW), ("another", NOW), ("", NOW + 1)):
                run_id = f"r-{number}-{said}-{at}"
                entry = Started(at, said or run_id, ANN, GIVEN, info)
                ref = await begin(journal, run_id, entries=(entry,))
                (read,) = await journal.read(ref)
                assert isinstance(read, Started)
                assert (read, list(read.info)) == (entry, list(info))

    # Interrupts

    async def test_interrupts_are_replaced_as_a_whole(self, journal: Journal) -> None:
        """Exactly the given interrupts are open; one that stays keeps its position; None changes nothing."""
        ref = await begin(journal, interrupts=[interrupt("b"), interrupt("a")])
        first = await journal.open_interrupts(ORG, limit=9)
        assert [row.interrupt for row in first] == [interrupt("b"), interrupt("a")]
        assert first[0].execution == await journal.execution(ref)
        answered = structs.replace(interrupt("a"), answers=())
        await journal.append(ref, Append(1, (), interrupts=[interrupt("c"), answered]))
        await journal.append(ref, Append(1, steps(1, 1)))
        rows = await journal.open_interrupts(ORG, limit=9)
        assert [(row.interrupt, row.run_id) for row in rows] == [(answered, "r-1"), (interrupt("c"), "r-1")]
        assert rows[0].key == first[1].key
        await journal.append(ref, Append(2, (), interrupts=[]))
        assert await journal.open_interrupts(ORG, limit=9) == []

    async def test_interrupts_follow_the_latest_run(self, journal: Journal) -> None:
        """Interrupts that remain open in a new turn are listed under that turn."""
        ref = await begin(journal, interrupts=[interrupt("a")])
        turn = NewRun("r-2", "ann", b"f", RunStatus.running, NOW)
        await journal.append(ref, Append(1, steps(1, 1), new_run=turn))
        (row,) = await journal.open_interrupts(ORG, limit=9)
        assert (row.run_id, row.execution.length) == ("r-2", 2)

    async def test_interrupts_are_listed_in_order(self, journal: Journal) -> None:
        """In the order of opening, over all pages, for all executions or some."""
        refs = [await begin(journal, f"r-{n}", interrupts=[interrupt("i")]) for n in range(5)]
        seen: list[ExecutionRef] = []
        after = 0
        while page := await journal.open_interrupts(ORG, limit=2, after=after):
            seen += [row.execution.ref for row in page]
            after = page[-1].key
        assert seen == refs
        some = await journal.open_interrupts(ORG, limit=9, of=[refs[3], refs[1], refs[3]])
        assert [row.execution.ref for row in some] == [refs[1], refs[3]]
        assert await journal.open_interrupts(ORG, limit=9, of=[]) == []

    async def test_organizations_see_nothing_of_each_other(self, journal: Journal) -> None:
        """Run ids, journals, lists and appends of one organization do not exist for another."""
        ref = await begin(journal, interrupts=[interrupt("i")])
        await begin(journal, "r-1", org=OTHER_ORG, entries=steps(5))
        foreign = ExecutionRef(OTHER_ORG, ref.id)
        assert await journal.read(foreign) == []
        assert await journal.lengths([foreign, ref]) == {ref: 1}
        assert await journal.open_interrupts(OTHER_ORG, limit=9) == []
        assert await journal.open_interrupts(OTHER_ORG, limit=9, of=[ref]) == []
        assert [row.execution.org for row in await journal.list_runs(OTHER_ORG, limit=9)] == [OTHER_ORG]
        with pytest.raises(NotFound):
            await journal.execution(foreign)
        for append in (Append(1, steps(1)), Append(1, (), updates_claim=True, wake_at=0)):
            with pytest.raises(JournalConflict):
                await journal.append(foreign, append)
        assert await journal.lengths([ref]) == {ref: 1}

    @pytest.mark.parametrize("value", [object(), "sqlite://"])
    async def test_only_connections_have_transactions(self, journal: Journal, value: object) -> None:
        """TypeError, or ValueError of a store that has no connections."""
        with pytest.raises((TypeError, ValueError), match="`connection`"):
            await journal.within(value)
