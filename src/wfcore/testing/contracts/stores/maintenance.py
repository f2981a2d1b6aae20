"""The contract of the rows of an organization as a whole (`wfcore.ports.maintenance`).

Subclass `MaintenanceContract` and write `open_stores`: a storage and its journal.
"""

from abc import abstractmethod
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import attrs
import pytest
from msgspec import structs

from wfcore.domain.json.codec import from_ms
from wfcore.domain.kernel.errors import NotFound
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.people.erasure import Erasure, Substitution
from wfcore.domain.projections.notices import Notice
from wfcore.domain.resources.access import AccessConfig, GroupGrant
from wfcore.domain.resources.lifecycle import Status
from wfcore.domain.resources.resource import Kind
from wfcore.domain.run.entries import Opened, Succeeded
from wfcore.domain.run.state import RunStatus
from wfcore.ports.changes import FeedChange
from wfcore.ports.journal import Append, ExecutionRef, Journal, JournalConflict, NewExecution, NewRun, RunChange
from wfcore.ports.maintenance import EXPIRING, NOTHING, Expiring, Rewriting, Sizes
from wfcore.ports.repositories.audit import AuditFilter, AuditRow
from wfcore.ports.repositories.postings import Posting
from wfcore.ports.storage import IdempotencyRecord, Storage
from wfcore.testing.contracts.journal_values import NOW, READERS, interrupt, steps
from wfcore.testing.contracts.run_records import human, rows_of
from wfcore.testing.contracts.storage.interfaces import new_interface
from wfcore.testing.contracts.storage.values import (
    ORG,
    OTHER_ORG,
    new_member,
    new_organization,
    new_resource,
    new_token,
    new_variation,
)
from wfcore.testing.on_asyncio import OnAsyncio

LATER = NOW + 1_000
Stores = tuple[Storage, Journal]


async def ran(
    journal: Journal,
    run_id: str,
    status: RunStatus = RunStatus.done,
    *,
    at: int = NOW,
    workflow: int = 1,
    org: str = ORG,
    message: str | None = None,
) -> ExecutionRef:
    """An execution whose only turn is in this status since `at`."""
    new = NewExecution(org, "workflow", workflow, "v1", "ann", f"t-{run_id}")
    run = NewRun(run_id, "ann", b"f", RunStatus.running, at)
    ref = (await journal.begin(new, Append(0, steps(1), new_run=run))).ref
    rows = rows_of([] if message is None else [human(message, at)], "workflow", workflow)
    change = RunChange(run_id, status, at, result={"output": "x"})
    await journal.append(ref, Append(1, steps(1, 1), changes=[change], **rows))
    return ref


class MaintenanceContract(OnAsyncio):
    """Inherit, name the class `Test...`, and write `open_stores`."""

    @abstractmethod
    def open_stores(self, place: Path) -> AbstractAsyncContextManager[Stores]:
        """An upgraded storage without organizations, and its journal. `place` is an empty directory."""

    @pytest.fixture
    async def stores(self, tmp_path: Path, anyio_backend: str) -> AsyncIterator[Stores]:
        async with self.open_stores(tmp_path) as stores:
            for org in (ORG, OTHER_ORG):
                await stores[0].add_organization(new_organization(org))
            yield stores

    async def _pruned(self, storage: Storage, kind: Expiring, before: int = LATER, org: str = ORG) -> int:
        """How many are deleted, one by one; as many as `count` said."""
        expected = await storage.maintenance.count(org, kind, before)
        done = 0
        while count := (await storage.maintenance.prune(org, kind, before, limit=1)).count:
            assert count == 1
            done += count
        assert (done, await storage.maintenance.count(org, kind, before)) == (expected, 0)
        return done

    @pytest.mark.anyio
    async def test_ended_executions_are_deleted(self, stores: Stores) -> None:
        """Those that ended before the time: not later ones, parked or running ones, or other organizations'."""
        storage, journal = stores
        for status in RunStatus:
            await ran(journal, status.value, status)
        await ran(journal, "late", at=LATER)
        await ran(journal, "other", org=OTHER_ORG)
        async with storage.transaction(ORG) as work:
            for name in ("done", "late"):
                await work.postings.put(Posting(name, "i", "f", {}, name, None))
        assert await self._pruned(storage, "runs") == 3
        kept = {row.id for row in await journal.list_runs(ORG, limit=99)}
        assert kept == {"queued", "running", "interrupted", "late"}
        assert await journal.find_run(OTHER_ORG, "other")
        async with storage.reading(ORG) as work:
            assert (await work.postings.get("done"), bool(await work.postings.get("late"))) == (None, True)

    @pytest.mark.anyio
    async def test_an_id_is_free_after_retention(self, stores: Stores) -> None:
        """The id of a pruned run can be used again, as can that of a deleted one after its time; its entries are new.
        A number of an execution is not used again."""
        storage, journal = stores
        first = await ran(journal, "a")
        deleted = await ran(journal, "b")
        await journal.delete(deleted, 2)
        assert await journal.is_deleted(ORG, "b")
        assert await self._pruned(storage, "runs", NOW) == 0
        assert await journal.is_deleted(ORG, "b")
        assert await self._pruned(storage, "runs") == 2
        assert not await journal.is_deleted(ORG, "b")
        assert await journal.read(first) == []
        again = [await ran(journal, name, at=LATER) for name in ("a", "b")]
        assert {ref.id for ref in again}.isdisjoint({first.id, deleted.id})
        assert len(await journal.read(again[0])) == 2

    @pytest.mark.anyio
    async def test_old_deliveries_are_deleted(self, stores: Stores) -> None:
        """Those of old events that are not pending."""
        storage, _ = stores
        await storage.register_handler("h", ["run.finished"])
        async with storage.transaction(ORG) as work:
            for at in (NOW, NOW + 1, LATER):
                await work.deliveries.add([Notice("run.finished", at, "workflow", 1, "ann", run_id=f"r-{at}")])
        due = await storage.due_deliveries(LATER, handler="h", limit=9)
        async with storage.transaction(ORG) as work:
            for one in (due[0], due[2]):
                delivery = await work.deliveries.get(one.id)
                assert delivery is not None
                await work.deliveries.put(attrs.evolve(delivery, state="delivered", next_at=None))
        assert await self._pruned(storage, "runs") == 1
        async with storage.reading(ORG) as work:
            assert [bool(await work.deliveries.get(one.id)) for one in due] == [False, True, True]

    @pytest.mark.anyio
    async def test_a_continued_execution_stays(self, stores: Stores) -> None:
        """An execution whose first turn ended long ago, and whose last one is under way or ended later."""
        storage, journal = stores
        ref = await ran(journal, "a", RunStatus.error)
        again = NewRun("b", "ann", b"f", RunStatus.running, NOW + 1, parent_run_id="a")
        retried = RunChange("a", RunStatus.error, NOW, retried_by="b")
        await journal.append(ref, Append(2, steps(1, 2), new_run=again, changes=[retried]))
        assert await self._pruned(storage, "runs") == 0
        await journal.append(ref, Append(3, steps(1, 3), changes=[RunChange("b", RunStatus.done, LATER)]))
        assert await self._pruned(storage, "runs") == 0
        assert await self._pruned(storage, "runs", LATER + 1) == 1

    @pytest.mark.anyio
    async def test_old_conversations_are_deleted(self, stores: Stores) -> None:
        """By their latest message; runs stay."""
        storage, journal = stores
        await ran(journal, "old", message="hello")
        await ran(journal, "new", message="hello", at=LATER)
        await ran(journal, "other", message="hello", org=OTHER_ORG)
        assert await self._pruned(storage, "conversations") == 1
        assert await journal.conversations.own(ORG, "t-old", "ann") is None
        assert await journal.conversations.own(ORG, "t-new", "ann")
        assert await journal.conversations.own(OTHER_ORG, "t-other", "ann")
        assert await journal.find_run(ORG, "old")

    @pytest.mark.anyio
    async def test_a_conversation_of_an_unended_execution_stays(self, stores: Stores) -> None:
        """Until its last turn has ended, by which it is continued; an execution of another thread keeps nothing."""
        storage, journal = stores
        ref = await ran(journal, "a", RunStatus.interrupted, message="hello")
        await ran(journal, "b", message="hello")
        assert await self._pruned(storage, "conversations") == 1
        assert await journal.conversations.own(ORG, "t-a", "ann")
        turn = NewRun("c", "ann", b"f", RunStatus.running, NOW, parent_run_id="a")
        await journal.append(ref, Append(2, steps(1, 2), new_run=turn))
        assert await self._pruned(storage, "conversations") == 0
        await journal.append(ref, Append(3, steps(1, 3), changes=[RunChange("c", RunStatus.done, NOW)]))
        assert await self._pruned(storage, "conversations") == 1

    @pytest.mark.anyio
    async def test_old_rows_of_the_audit_are_deleted(self, stores: Stores) -> None:
        """A row that is written afterwards has a key of its own."""
        storage, _ = stores
        for org, at in ((ORG, NOW), (ORG, LATER), (OTHER_ORG, NOW)):
            async with storage.transaction(org) as work:
                await work.audit.add(AuditRow(from_ms(at), "ann", "a.b", "a", str(at)))
        assert await self._pruned(storage, "audit") == 1
        async with storage.transaction(ORG) as work:
            await work.audit.add(AuditRow(from_ms(LATER), "ann", "a.b", "a", "third"))
        async with storage.reading(ORG) as work:
            rows = await work.audit.page(AuditFilter(), limit=9)
        assert [row.resource_id for row in rows] == ["third", str(LATER)]
        assert len({row.key for row in rows}) == 2

    @pytest.mark.anyio
    async def test_deleted_resources_are_purged(self, stores: Stores) -> None:
        """With variations, interfaces and ended executions. Slugs are free, numbers are not used again."""
        storage, journal = stores
        async with storage.transaction(ORG) as work:
            for number, at in ((1, NOW), (2, LATER), (3, None)):
                assert await work.workflows.next_id() == number
                made = new_resource(number)
                status = Status.DRAFT if at is None else Status.DELETED
                deleted_at = None if at is None else from_ms(at)
                await work.workflows.add(attrs.evolve(made, status=status, deleted_at=deleted_at))
                await work.workflows.add_variation(number, new_variation(f"v{number}"))
            await work.interfaces.add(new_interface("of-workflow"))
            await work.interfaces.add(attrs.evolve(new_interface("of-skill"), target=Kind.SKILL))
        await ran(journal, "of-1", workflow=1, at=LATER)
        assert await self._pruned(storage, "deleted") == 1
        assert await storage.find_interface("of-workflow") is None
        assert await storage.find_interface("of-skill") is not None
        assert await journal.find_run(ORG, "of-1") is None
        async with storage.transaction(ORG) as work:
            assert await work.workflows.get(1) is None
            assert await work.workflows.variation(1, "v1") is None
            assert [bool(await work.workflows.get(number)) for number in (2, 3)] == [True, True]
            assert await work.workflows.slugs_taken([new_resource(1).slug]) == set()
            assert await work.workflows.next_id() == 4

    @pytest.mark.anyio
    async def test_resources_in_use_stay(self, stores: Stores) -> None:
        """While an execution of theirs can continue, or one of another workflow has called them."""
        storage, journal = stores
        gone = Status.DELETED, from_ms(NOW)
        async with storage.transaction(ORG) as work:
            for number in (1, 2):
                await work.workflows.next_id()
                await work.workflows.add(attrs.evolve(new_resource(number), status=gone[0], deleted_at=gone[1]))
                await work.workflows.add_variation(number, new_variation(f"variation-{number}"))
        parked = await ran(journal, "parked", RunStatus.interrupted, workflow=1)
        for name, caller, called in (("itself", 1, 1), ("caller", 3, 2)):
            ref, text = await ran(journal, name, RunStatus.done, workflow=caller), f"variation-{called}"
            await journal.append(ref, Append(2, [Opened(NOW, 1, 1, 1, 1, "workflow", called, text, {})]))
        assert await self._pruned(storage, "deleted") == 0
        await journal.append(parked, Append(2, steps(1, 2), changes=[RunChange("parked", RunStatus.cancelled, NOW)]))
        assert await self._pruned(storage, "deleted") == 1
        assert await storage.maintenance.count(ORG, "deleted", LATER, {"runs": LATER}) == 1
        assert await self._pruned(storage, "runs") == 1
        assert await self._pruned(storage, "deleted") == 1

    @pytest.mark.anyio
    async def test_every_text_is_read(self, stores: Stores) -> None:
        """Of entries, results, messages, content and the audit, without what is old; none of another organization."""
        storage, journal = stores
        await ran(journal, "run-1", message="a planted message")
        await ran(journal, "run-2", message="a foreign message", org=OTHER_ORG)
        async with storage.transaction(ORG) as work:
            await work.audit.add(AuditRow(from_ms(NOW), "ann", "a.b", "a", "planted id", {"x": ["planted detail"]}))
            await work.workflows.next_id()
            await work.workflows.add(attrs.evolve(new_resource(1), name="a planted name"))
        planted = ("run-1", "planted message", "planted id", "planted detail", "planted name")
        for without, shown in ((NOTHING, planted), (dict.fromkeys(EXPIRING[:3], LATER), planted[-1:])):
            read = storage.maintenance.texts(ORG, without)
            found = "\n".join([text async for texts in read for text in texts])
            assert ([text for text in planted if text in found], "foreign" in found) == ([*shown], False)

    @pytest.mark.anyio
    async def test_an_organization_is_deleted(self, stores: Stores) -> None:
        """With all of its rows, also of runs that are under way; another one keeps its own."""
        storage, journal = stores
        for org in (ORG, OTHER_ORG):
            await ran(journal, f"run-{org}", RunStatus.interrupted, org=org, message="hello")
            async with storage.transaction(org) as work:
                await work.audit.add(AuditRow(from_ms(NOW), "ann", "a.b", "a", "x"))
                await work.workflows.next_id()
                await work.workflows.add(attrs.evolve(new_resource(1), org_uuid=org))
                await work.workflows.add_variation(1, new_variation("v1"))
        assert await storage.maintenance.remove_organization(ORG)
        assert not await storage.maintenance.remove_organization(ORG)
        assert await storage.organization(ORG) is None
        assert await journal.find_run(ORG, f"run-{ORG}") is None
        assert await storage.find_resource(ORG, Kind.WORKFLOW, 1) is None
        assert await journal.find_run(OTHER_ORG, f"run-{OTHER_ORG}")
        assert await storage.find_resource(OTHER_ORG, Kind.WORKFLOW, 1)
        assert await journal.conversations.own(OTHER_ORG, f"t-run-{OTHER_ORG}", "ann")
        for kind in EXPIRING:
            with pytest.raises(NotFound):
                await storage.maintenance.count(ORG, kind, LATER)

    @pytest.mark.anyio
    async def test_rows_are_counted(self, stores: Stores) -> None:
        """Of a user, of an organization, and of all."""
        storage, journal = stores
        ref = await ran(journal, "a", RunStatus.interrupted, message="hello")
        turn = NewRun("b", "bob", b"f", RunStatus.running, NOW, parent_run_id="a")
        await journal.append(ref, Append(2, steps(1, 2), new_run=turn))
        await ran(journal, "c", org=OTHER_ORG)
        async with storage.transaction(ORG) as work:
            for user in ("ann", "bob", "bob"):
                await work.audit.add(AuditRow(from_ms(NOW), user, "a.b", "a", "x"))
        sizes = storage.maintenance.sizes
        assert await sizes(ORG, "ann") == Sizes(1, 1, 1, 1)
        assert await sizes(ORG, "bob") == Sizes(0, 1, 0, 2)
        assert await sizes(ORG) == Sizes(1, 2, 1, 3)
        assert await sizes() == Sizes(2, 3, 1, 3)
        read: list[None] = []
        assert [one async for one in journal.damaged(lambda: read.append(None))] == []
        assert len(read) == 2
        await journal.append(ref, Append(3, steps(1, 3), changes=[RunChange("b", RunStatus.done, NOW)]))
        await journal.delete(ref, 4)
        assert await sizes(ORG) == Sizes(0, 0, 1, 3)

    # The erasure of a person

    @pytest.mark.anyio
    async def test_erasures_of_all_organizations(self, stores: Stores) -> None:
        """The texts of one are neither read nor replaced, so that it can be continued."""
        storage, _ = stores
        row = Erasure("erased-1", "ann", new_member("ann"))
        for org in (ORG, OTHER_ORG):
            async with storage.transaction(org) as work:
                await work.erasures.add(row)
        assert sorted(await storage.maintenance.erasures()) == sorted([(ORG, row.id), (OTHER_ORG, row.id)])
        change = Substitution({"ann": "gone"}, {"ann@x.org": "gone"})
        assert await storage.maintenance.rewrite(ORG, change) == Rewriting()
        async with storage.reading(ORG) as work:
            assert await work.erasures.get(row.id) == row
        assert not [text async for texts in storage.maintenance.texts(ORG) for text in texts if row.id in text]
        await storage.maintenance.remove_organization(ORG)
        assert await storage.maintenance.erasures() == [(OTHER_ORG, row.id)]

    @pytest.mark.anyio
    async def test_executions_of_a_user(self, stores: Stores) -> None:
        """Those that the user started, forks of them and of these, and those with a turn of the user."""
        storage, journal = stores
        own = await ran(journal, "own")
        new = NewExecution(ORG, "workflow", 1, "v1", "bob", "t")
        forks = []
        for run_id, origin in (("fork", "own"), ("fork-2", "fork"), ("other", None)):
            first = NewRun(run_id, "bob", b"f", RunStatus.running, NOW, forked_from=origin)
            forks.append((await journal.begin(new, Append(0, steps(1), new_run=first))).ref)
        turn = NewRun("resumed", "ann", b"f", RunStatus.running, NOW, parent_run_id="part")
        first = structs.replace(turn, id="part", user_id="bob")
        part = (await journal.begin(new, Append(0, steps(1), new_run=first))).ref
        await journal.append(part, Append(1, steps(1, 1), new_run=turn))
        found = await storage.maintenance.executions_of(ORG, "ann")
        assert {one.id: one.is_own for one in found} == {
            own.id: True, forks[0].id: True, forks[1].id: True, part.id: False
        }  # fmt: skip
        assert await storage.maintenance.executions_of(OTHER_ORG, "ann") == []

    @pytest.mark.anyio
    async def test_an_execution_is_removed(self, stores: Stores) -> None:
        """Whatever its state, and although a worker holds it; not that of another organization."""
        storage, journal = stores
        ref = await ran(journal, "a", RunStatus.running)
        worker = await journal.register("h", 1)
        await journal.append(ref, Append(2, steps(1, 2), updates_claim=True, claimed_by=worker, snapshot=b"one"))
        await storage.maintenance.remove_execution(OTHER_ORG, ref.id)
        assert await journal.find_run(ORG, "a")
        for _ in range(2):
            await storage.maintenance.remove_execution(ORG, ref.id)
        assert await journal.find_run(ORG, "a") is None
        assert await journal.read(ref) == []
        assert await journal.snapshot(ref) is None
        with pytest.raises(JournalConflict):
            await journal.append(ref, Append(3, steps(1, 3), holder=worker))

    @pytest.mark.anyio
    async def test_deletions_are_returned(self, stores: Stores) -> None:
        """The runs and the open interrupts of an execution with the subjects that see them; of the runs of a removed
        resource also those who could use it, of itself those who could manage it."""
        storage, journal = stores
        await ran(journal, "old")
        ref = await ran(journal, "first", RunStatus.interrupted)
        turn = NewRun("second", "bob", b"f", RunStatus.interrupted, NOW, parent_run_id="first")
        await journal.append(ref, Append(2, steps(1, 2), new_run=turn, interrupts=[interrupt("ask")]))
        users, approvers = ("r:workflow/1",), ("e:a@x.org", f"g:{READERS}")
        pruned = await storage.maintenance.prune(ORG, "runs", LATER, limit=9)
        assert [*pruned.changes] == [FeedChange("run", "old", "deleted", "workflow", 1, users)]
        assert [*await storage.maintenance.remove_execution(ORG, ref.id)] == [
            FeedChange("run", "first", "deleted", "workflow", 1, users),
            FeedChange("run", "second", "deleted", "workflow", 1, users),
            FeedChange("interrupt", "ask", "deleted", "workflow", 1, approvers),
        ]
        assert not await storage.maintenance.remove_execution(ORG, ref.id)
        await ran(journal, "last", RunStatus.interrupted)
        granted = {READERS: GroupGrant(True, False), ORG: GroupGrant(False, True)}
        async with storage.transaction(ORG) as work:
            await work.workflows.next_id()
            access = AccessConfig("shared", granted, (), None, None)
            await work.workflows.add(attrs.evolve(new_resource(1), access=access))
        assert [*await storage.maintenance.remove_resource(ORG, Kind.WORKFLOW, 1)] == [
            FeedChange("run", "last", "deleted", "workflow", 1, (*users, f"g:{READERS}")),
            FeedChange("workflow", 1, "deleted", subjects=(f"g:{ORG}",)),
        ]
        assert not await storage.maintenance.remove_resource(ORG, Kind.WORKFLOW, 1)

    @pytest.mark.anyio
    async def test_a_resource_is_removed(self, stores: Stores) -> None:
        """With its executions, whatever their state."""
        storage, journal = stores
        async with storage.transaction(ORG) as work:
            for kind in Kind:
                await work.resources(kind).next_id()
                await work.resources(kind).add(new_resource(1, kind))
                await work.resources(kind).add_variation(1, new_variation(f"v-{kind}"))
        await ran(journal, "a", RunStatus.interrupted)
        assert await storage.maintenance.numbers(ORG, Kind.SKILL) == [1]
        for kind in Kind:
            await storage.maintenance.remove_resource(ORG, kind, 1)
            await storage.maintenance.remove_resource(ORG, kind, 1)
            assert await storage.find_resource(ORG, kind, 1) is None
            assert await storage.maintenance.numbers(ORG, kind) == []
        assert await journal.find_run(ORG, "a") is None

    @pytest.mark.anyio
    async def test_rows_of_a_user_are_forgotten(self, stores: Stores) -> None:
        """Conversations, stored responses and tokens; those of others stay."""
        storage, journal = stores
        for name in ("a", "B"):
            await ran(journal, name, message="hello")
        await ran(journal, "b", message="hello", org=OTHER_ORG)
        async with storage.transaction(ORG) as work:
            for user in ("ann", "bob"):
                await work.directory.add_member(new_member(user))
                await work.directory.add_token(attrs.evolve(new_token(f"prefix{user}"), user_id=user))
                await work.idempotency.add("group", user, "k", IdempotencyRecord("f", {"id": user}))
        found, none = [await storage.maintenance.conversations(ORG, user, limit=9) for user in ("ann", "bob")]
        pages = [await storage.maintenance.conversations(ORG, None, limit=1, after=one) for one in (None, *found)]
        assert (*pages, [one.thread_id for one in found]) == (found[:1], found[1:], none, ["t-B", "t-a"])
        await storage.maintenance.forget_user(ORG, "ann")
        assert await storage.maintenance.conversations(ORG, None, limit=9) == []
        assert len(await storage.maintenance.conversations(OTHER_ORG, None, limit=9)) == 1
        async with storage.reading(ORG) as work:
            kept = [await work.idempotency.find("group", user, "k") for user in ("ann", "bob")]
            tokens = [await work.directory.token(f"prefix{user}") for user in ("ann", "bob")]
        assert [bool(one) for one in kept] == [False, True]
        assert [bool(one) for one in tokens] == [False, True]

    @pytest.mark.anyio
    async def test_texts_are_replaced(self, stores: Stores) -> None:
        """In every row and entry of the organization, so that its journals stay intact; not in another one's."""
        storage, journal = stores
        change = Substitution({"ann": "gone"}, {"planted text": "gone"})
        refs = [await ran(journal, f"run-{org}", org=org, message="a Planted text") for org in (ORG, OTHER_ORG)]
        said = Succeeded(NOW, 1, 1, 1, 1, {"planted text": ["ann", "the planted text", "annex", 1, None, True]})
        for ref in refs:
            await journal.append(ref, Append(2, [said], snapshot=b"planted text"))
        async with storage.transaction(ORG) as work:
            details = {"by": "ann", "why": "planted text \u00fc"}
            await work.audit.add(AuditRow(from_ms(NOW), "ann", "a.b", "a", "x", details))
            await work.workflows.next_id()
            await work.workflows.add(attrs.evolve(new_resource(1), name="planted text"))
        read: list[None] = []
        assert await storage.maintenance.rewrite(ORG, change, lambda: read.append(None)) == Rewriting()
        assert len(read) == 1
        entries = await journal.read(refs[0])
        assert entries[2] == with_output(said, {"gone": ["gone", "the gone", "annex", 1, None, True]})
        assert (await journal.read(refs[1]))[2] == said
        assert await journal.snapshot(refs[0]) is None
        assert await journal.snapshot(refs[1]) in (None, (3, b"planted text"))
        assert [one async for one in journal.damaged()] == []
        row = await journal.find_run(ORG, f"run-{ORG}")
        assert row is not None
        assert (row.user_id, row.root_user_id, (await journal.execution(refs[0])).user_id) == ("gone",) * 3
        async with storage.reading(ORG) as work:
            (audited,) = await work.audit.page(AuditFilter(), limit=9)
            found = await work.workflows.get(1)
        assert (audited.user_id, audited.details) == ("gone", {"by": "gone", "why": "gone \u00fc"})
        assert found and (found.name, found.revision) == ("gone", 2)
        batches = [texts async for texts in storage.maintenance.texts(ORG)]
        assert "planted" not in str(batches).lower()
        await journal.append(refs[0], Append(3, steps(1, 3)))
        assert len(await journal.read(refs[0])) == 4

    @pytest.mark.anyio
    async def test_a_held_journal_is_not_rewritten(self, stores: Stores) -> None:
        """Only while a worker holds it, and only if it would change; one of another length is refused."""
        storage, journal = stores
        change = Substitution({}, {"planted text": "gone"})
        ref = await ran(journal, "a", RunStatus.running)
        worker = await journal.register("h", 1)
        said = Succeeded(NOW, 1, 1, 1, 1, "planted text")
        await journal.append(ref, Append(2, [said], updates_claim=True, claimed_by=worker))
        assert await storage.maintenance.rewrite(ORG, change) == Rewriting(held=1)
        assert await storage.maintenance.rewrite(ORG, Substitution({}, {"other text": "gone"})) == Rewriting()
        assert not await storage.maintenance.rewrite_execution(ORG, ref.id, change, 3)
        assert (await journal.read(ref))[2] == said
        await journal.release(worker)
        assert not await storage.maintenance.rewrite_execution(ORG, ref.id, change, 2)
        assert await storage.maintenance.rewrite_execution(ORG, ref.id, change, 3)
        assert (await journal.read(ref))[2] == with_output(said, "gone")
        assert [one async for one in journal.damaged()] == []
        await storage.maintenance.scrub()
        assert (await journal.read(ref))[2] == with_output(said, "gone")


def with_output(entry: Succeeded, output: JSON) -> Succeeded:
    """The entry with another output."""
    return structs.replace(entry, output=output)
