"""The lists part of the journal contract: filters, visibility and counts of runs. `JournalContract` is the whole."""

from uuid import UUID

from wfcore.domain.run.state import RunStatus
from wfcore.ports.journal import HOUR, Append, Journal, NewExecution, NewRun
from wfcore.testing.contracts.journal_values import NOW, ORG, OTHER_ORG, READERS, begin, find, names, reader, steps


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
        ref = await journal.begin(new, Append(0, steps(1), new_run=run))
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
            ({"origin": "mcp"}, {"r-1"}),
            ({"origin": "api"}, {"r-3"}),
            ({"variation_id": new.variation_id}, {"r-1", "r-2"}),
            ({"variation_id": new.variation_id, "origin": "other", "kind": "skill"}, {"r-2"}),
            ({"since": NOW + 5}, {"r-2", "r-3"}),
            ({"until": NOW + 5}, {"r-1"}),
            ({"since": NOW + 1, "until": NOW + HOUR, "thread_id": "t-2"}, {"r-2"}),
        ):
            assert await names(journal, **filters) == expected, filters

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
