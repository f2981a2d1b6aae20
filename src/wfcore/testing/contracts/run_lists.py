"""The lists and repairs parts of the journal contract: filters, counts, rows of retries and forks, deletion.

`JournalContract` is the whole.
"""

from datetime import UTC, datetime
from uuid import UUID

import pytest
from msgspec import structs

from wfcore.domain.kernel.errors import NotFound
from wfcore.domain.run.state import RunStatus
from wfcore.ports.journal import (
    HOUR,
    Append,
    ExecutionRef,
    Journal,
    JournalConflict,
    NewExecution,
    NewRun,
    RunChange,
    RunExists,
    RunFilter,
    thread_of_run,
)
from wfcore.ports.repositories.audit import AuditRow
from wfcore.testing.contracts.journal_values import (
    NOW,
    ORG,
    OTHER_ORG,
    READERS,
    begin,
    find,
    interrupt,
    names,
    reader,
    steps,
)

OLD, NEW = str(UUID(int=7)), str(UUID(int=8))
AUDIT = AuditRow(datetime(2026, 1, 1, tzinfo=UTC), "ann", "run.delete", "run", "r-1", {})


ODD = str.maketrans("", "", "135")
"""Leaves out the runs of the second workflow, which the readers cannot use."""


class RunListContract:
    """The filters of `Journal.list_runs`, and `Journal.count_runs`."""

    async def test_runs_are_filtered(self, journal: Journal) -> None:
        """By status and by resource; kind and number must both be equal."""
        await begin(journal, "r-1", status=RunStatus.done)
        await begin(journal, "r-2", resource_id=2)
        assert await names(journal, status=RunStatus.done) == {"r-1"}
        assert await names(journal, status=RunStatus.running) == {"r-2"}
        assert await names(journal, kind="workflow", resource_id=2) == {"r-2"}
        assert await names(journal, kind="skill", resource_id=2) == set()
        assert await names(journal, kind="skill") == set()

    async def test_runs_are_filtered_by_how_they_began(self, journal: Journal) -> None:
        """By thread, user, origin, variation and time; a turn that a deadline began belongs to no user."""
        new = NewExecution(ORG, "skill", 3, str(UUID(int=7)), "ann", "t-2", True, "mcp")
        run = NewRun("r-1", "ann", b"f", RunStatus.running, NOW, None, None, "mcp", "mcp")
        ref = (await journal.begin(new, Append(0, steps(1), new_run=run))).ref
        turn = NewRun("r-2", "ann", b"f", RunStatus.running, NOW + 5, "r-1", None, "system", "other")
        await journal.append(ref, Append(1, steps(1, 1), new_run=turn))
        await begin(journal, "r-3", at=NOW + HOUR)
        first, later = await find(journal, "r-1"), await find(journal, "r-2")
        assert (first.started_by, first.origin) == ("mcp", "mcp")
        assert (first.variation_id, first.is_draft) == (new.variation_id, True)
        assert (later.started_by, later.root_user_id, later.root_started_by) == ("system", "ann", "mcp")
        for filters, expected in (
            ({"thread_id": "t-2"}, {"r-1", "r-2"}),
            ({"started_by": "ann"}, {"r-1", "r-3"}),
            ({"root_started_by": "mcp"}, {"r-1", "r-2"}),
            ({"root_started_by": "person", "status": RunStatus.running, "kind": "workflow"}, {"r-3"}),
            ({"origin": "mcp"}, {"r-1"}),
            ({"origin": "api"}, {"r-3"}),
            ({"variation_id": new.variation_id}, {"r-1", "r-2"}),
            ({"variation_id": new.variation_id, "origin": "other", "kind": "skill"}, {"r-2"}),
            ({"since": NOW + 5}, {"r-2", "r-3"}),
            ({"until": NOW + 5}, {"r-1"}),
            ({"since": NOW + 1, "until": NOW + HOUR, "thread_id": "t-2"}, {"r-2"}),
        ):
            assert await names(journal, **filters) == expected, filters

    async def test_the_runs_of_a_period(self, journal: Journal) -> None:
        """In the order in which they began, also when the clocks of processes differ."""
        for number, at in enumerate((10, 30, 20, 50, 40, 60)):
            await begin(journal, f"r-{number}", at=NOW + at, resource_id=1 + number % 2)
        for since, until, expected in (
            (20, 50, "421"), (0, 41, "4210"), (30, 99, "5431"), (11, 12, ""), (99, 100, ""), (0, 10, ""), (40, 41, "4"),
        ):  # fmt: skip
            for where, found in (({}, expected), ({"kind": "workflow", "resource_id": 1}, expected.translate(ODD))):
                period = RunFilter(since=NOW + since, until=NOW + until, **where)  # type: ignore[arg-type]
                for principal in (None, reader("bob", READERS)):
                    rows = await journal.list_runs(ORG, limit=9, where=period, principal=principal)
                    ids = "".join(row.id[2:] for row in rows)
                    assert ids == (found if principal is None else expected.translate(ODD)), (since, until)

    async def test_a_thread_that_derives_from_a_run_is_found(self, journal: Journal) -> None:
        """With the other executions in that thread, and not with those of other runs or organizations."""
        first, other = str(UUID(int=5)), str(UUID(int=6))
        thread = thread_of_run(first)
        for org, run_id, thread_id in (
            (ORG, first, thread),
            (ORG, "r-2", thread),
            (ORG, other, thread_of_run(other)),
            (OTHER_ORG, first, thread_of_run("r-3")),
        ):
            new = NewExecution(org, "workflow", 1, "v-1", "ann", thread_id)
            run = NewRun(run_id, "ann", b"f", RunStatus.running, NOW)
            ref = (await journal.begin(new, Append(0, steps(1), new_run=run))).ref
            assert (await journal.execution(ref)).thread_id == thread_id
            found = await journal.find_turn(org, run_id)
            assert found is not None
            assert (found[0].thread_id, found[1].thread_id) == (thread_id, thread_id)
        assert await names(journal, thread_id=thread) == {first, "r-2"}
        assert await names(journal, thread_id=thread_of_run(other)) == {other}
        assert await names(journal, thread_id=thread.upper()) == set()
        assert {run.thread_id for run in await journal.list_runs(ORG, limit=9)} == {thread, thread_of_run(other)}

    async def test_runs_are_counted(self, journal: Journal) -> None:
        """By status, target and hour: those that the principal sees and that began in the period."""
        hour = NOW - NOW % HOUR
        for number, at in enumerate((hour, hour + HOUR - 1, hour + HOUR, hour + 9 * HOUR)):
            await begin(journal, f"r-{number}", at=at)
        await begin(journal, "r-9", at=hour, resource_id=2)
        counts = await journal.count_runs(ORG, since=hour, until=hour + 9 * HOUR, principal=reader("bob", READERS))
        assert sorted((one.status, one.kind, one.resource_id, one.hour, one.count) for one in counts) == [
            (RunStatus.running, "workflow", 1, hour, 2), (RunStatus.running, "workflow", 1, hour + HOUR, 1),
        ]  # fmt: skip
        for principal in (reader("bob"), reader("bob", READERS, org=OTHER_ORG)):
            assert await journal.count_runs(ORG, since=0, until=2 * hour, principal=principal) == []

    async def test_a_principal_sees_runs_that_it_can_use(self, journal: Journal) -> None:
        """Those of resources that it can use, and its own without a resource; none of another organization."""
        await begin(journal, "r-1", resource_id=1)
        await begin(journal, "r-2", resource_id=2)
        await begin(journal, "r-3", resource_id=None)
        assert await names(journal, principal=reader("ann")) == {"r-3"}
        assert await names(journal, principal=reader("bob", READERS)) == {"r-1"}
        assert await names(journal, principal=reader("bob")) == set()
        assert await names(journal, principal=reader("ann", READERS, org=OTHER_ORG)) == set()


class RepairContract:
    """What retries and forks leave in the rows of runs, and `Journal.delete`."""

    async def test_a_retried_run_names_the_new_turn(self, journal: Journal) -> None:
        """A later change keeps the name."""
        ref = await begin(journal, status=RunStatus.error)
        turn = NewRun("r-2", "ann", b"f", RunStatus.running, NOW, "r-1")
        await journal.append(
            ref, Append(1, steps(1, 1), turn, (RunChange("r-1", RunStatus.error, NOW, retried_by="r-2"),))
        )
        assert ((await find(journal, "r-1")).retried_by, (await find(journal, "r-2")).retried_by) == ("r-2", None)
        await journal.append(ref, Append(2, (), changes=(RunChange("r-1", RunStatus.error, NOW),)))
        assert (await find(journal, "r-1")).retried_by == "r-2"

    async def test_a_turn_has_a_variation_of_its_own(self, journal: Journal) -> None:
        """Its record and the filter show it, and the turns before show that of the execution."""
        new = NewExecution(ORG, "skill", 3, OLD, "ann", "t-2")
        ref = (await journal.begin(new, Append(0, steps(1), NewRun("r-1", "ann", b"f", RunStatus.error, NOW)))).ref
        turn = NewRun("r-2", "ann", b"f", RunStatus.running, NOW, "r-1", variation_id=NEW, is_draft=True)
        await journal.append(ref, Append(1, steps(1, 1), turn))
        rows = [await find(journal, name) for name in ("r-1", "r-2")]
        assert [(row.variation_id, row.is_draft) for row in rows] == [(OLD, False), (NEW, True)]
        assert (await names(journal, variation_id=OLD), await names(journal, variation_id=NEW)) == ({"r-1"}, {"r-2"})
        assert turn.row(await journal.execution(ref), rows[1].key) == rows[1]

    async def test_a_turn_that_moves_has_another_variation(self, journal: Journal) -> None:
        """Its record and the filter show it from then on, deployed; its status and its end stay."""
        new = NewExecution(ORG, "workflow", 1, OLD, "ann", "t-2", is_draft=True)
        ref = (
            await journal.begin(new, Append(0, steps(1), NewRun("r-1", "ann", b"f", RunStatus.interrupted, NOW)))
        ).ref
        before = await find(journal, "r-1")
        change = RunChange("r-1", RunStatus.interrupted, NOW + 1, variation_id=NEW)
        await journal.append(ref, Append(1, steps(1, 1), changes=(change,)))
        moved = await find(journal, "r-1")
        assert (before.variation_id, before.is_draft) == (OLD, True)
        assert moved == structs.replace(before, variation_id=NEW, is_draft=False, updated_at=NOW + 1)
        assert (await names(journal, variation_id=OLD), await names(journal, variation_id=NEW)) == (set(), {"r-1"})
        await journal.append(ref, Append(2, (), changes=(RunChange("r-1", RunStatus.cancelled, NOW + 2),)))
        assert (await find(journal, "r-1")).variation_id == NEW

    async def test_a_fork_names_its_source(self, journal: Journal) -> None:
        """In the record of its first run."""
        new = NewExecution(ORG, "skill", 3, OLD, "ann", "t-2")
        run = NewRun("r-1", "ann", b"f", RunStatus.running, NOW, forked_from="r-0")
        ref = (await journal.begin(new, Append(0, steps(3), run))).ref
        assert (await find(journal, "r-1")).forked_from == "r-0"
        assert (await journal.execution(ref)).length == 3

    async def test_a_deleted_execution_is_gone(self, journal: Journal) -> None:
        """With its entries, runs and interrupts; others stay."""
        ref = await begin(journal, status=RunStatus.done, interrupts=(interrupt("i-1"),))
        other = await begin(journal, "r-2", interrupts=(interrupt("i-2"),))
        await journal.delete(ref, 1, [AUDIT])
        assert await journal.find_run(ORG, "r-1") is None
        assert await journal.find_turn(ORG, "r-1") is None
        assert (await journal.read(ref), await journal.lengths([ref, other])) == ([], {other: 1})
        assert await names(journal) == {"r-2"}
        assert [one.interrupt.id for one in await journal.open_interrupts(ORG, limit=9)] == ["i-2"]
        with pytest.raises(NotFound):
            await journal.execution(ref)
        with pytest.raises(JournalConflict):
            await journal.append(ref, Append(1, steps(1, 1)))

    async def test_its_run_ids_stay_taken(self, journal: Journal) -> None:
        """In its organization only, for starts and for turns; numbers of executions are not used again."""
        ref = await begin(journal, status=RunStatus.done)
        await journal.delete(ref, 1)
        assert (await journal.is_deleted(ORG, "r-1"), await journal.is_deleted(ORG, "r-2")) == (True, False)
        assert not await journal.is_deleted(OTHER_ORG, "r-1")
        with pytest.raises(RunExists):
            await begin(journal)
        later = await begin(journal, "r-2")
        assert later.id > ref.id
        with pytest.raises(RunExists):
            await journal.append(later, Append(1, steps(1, 1), NewRun("r-1", "ann", b"f", RunStatus.running, NOW)))
        await begin(journal, org=OTHER_ORG)

    async def test_a_deletion_compares_length_and_claim(self, journal: Journal) -> None:
        """A run that has gone on meanwhile, or that a worker holds, is not deleted; nor is another organization's."""
        ref = await begin(journal)
        with pytest.raises(JournalConflict):
            await journal.delete(ref, 2)
        held = await begin(journal, "r-2", updates_claim=True, claimed_by=await journal.register("host", 1))
        with pytest.raises(JournalConflict):
            await journal.delete(held, 1)
        with pytest.raises(JournalConflict):
            await journal.delete(type(ref)(OTHER_ORG, ref.id), 1)
        assert await names(journal) == {"r-1", "r-2"}


class SnapshotContract:
    """`Append.snapshot` and `Journal.snapshot`. A journal that keeps none fulfils it too."""

    async def test_a_snapshot_is_the_last_one_written(self, journal: Journal) -> None:
        """Or there is none; entries that follow leave it as it is, and an empty one removes it."""
        ref, other = await begin(journal), await begin(journal, "r-2")
        assert await journal.snapshot(ref) is None
        await journal.append(ref, Append(1, steps(2, 1), updates_claim=True, snapshot=b"\x00one\xff"))
        assert await journal.snapshot(ref) in (None, (3, b"\x00one\xff"))
        await journal.append(ref, Append(3, steps(1, 3)))
        assert await journal.snapshot(ref) in (None, (3, b"\x00one\xff"))
        await journal.append(ref, Append(4, steps(1, 4), snapshot=b"two"))
        assert await journal.snapshot(ref) in (None, (5, b"two"))
        assert await journal.snapshot(ExecutionRef(OTHER_ORG, ref.id)) is None
        assert await journal.snapshot(other) is None
        await journal.append(ref, Append(5, steps(1, 5), snapshot=b""))
        assert await journal.snapshot(ref) is None

    async def test_a_snapshot_is_written_with_its_entries(self, journal: Journal) -> None:
        """Not by an append that conflicts; and it is deleted with them."""
        ref = await begin(journal)
        await journal.append(ref, Append(1, steps(1, 1), snapshot=b"one"))
        with pytest.raises(JournalConflict):
            await journal.append(ref, Append(1, steps(1, 7), snapshot=b"two"))
        assert await journal.snapshot(ref) in (None, (2, b"one"))
        await journal.delete(ref, 2)
        assert await journal.snapshot(ref) is None
