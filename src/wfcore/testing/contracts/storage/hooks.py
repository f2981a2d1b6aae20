"""The contract of subscriptions and deliveries in a storage and its journal, as a suite to inherit.

    class TestMyHooks(HooksContract):
        @asynccontextmanager
        async def open_stores(self, place: Path) -> AsyncIterator[tuple[Storage, Journal]]:
            ...

`open_stores` returns both, empty, with the same transactions; `place` is an empty directory. Needs the extra `testing`.
"""

from abc import abstractmethod
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import attrs
import pytest
from msgspec import structs

from wfcore.domain.channels.hooks import Hook
from wfcore.domain.projections.notices import Notice
from wfcore.domain.run.state import RunStatus
from wfcore.ports.journal import Append, Journal, JournalConflict, NewExecution, NewRun, RunExists
from wfcore.ports.repositories.hooks import Attempt, Delivery, DueDelivery
from wfcore.ports.storage import Duplicate, Stale, Storage
from wfcore.testing.contracts.storage.values import ORG, OTHER_ORG, new_organization

Stores = tuple[Storage, Journal]

HOOK, OTHER_HOOK = "h-1", "h-2"
DONE = Notice("run.finished", 5, "workflow", 7, "ann", "r-1", "", "done")
OPENED = Notice("interrupt.opened", 6, "skill", None, "ann", "r-1", "i-1", None, "approve")


async def subscribe(store: Storage, hook: str, *events: str, workflow: int | None = None, org: str = ORG) -> None:
    async with store.transaction(org) as work:
        await work.deliveries.subscribe(hook, events, workflow)


async def add(store: Storage, *notices: Notice, org: str = ORG) -> None:
    async with store.transaction(org) as work:
        await work.deliveries.add(notices)


async def of(store: Storage, hook: str, org: str = ORG) -> list[Delivery]:
    """The deliveries of a hook, newest first."""
    async with store.reading(org) as work:
        return await work.deliveries.page(hook, limit=99)


async def events(store: Storage, hook: str, org: str = ORG) -> list[str]:
    return [row.notice.event for row in await of(store, hook, org)]


class HooksContract:
    """Inherit, name the class `Test...`, and write `open_stores`."""

    pytestmark = pytest.mark.anyio

    @abstractmethod
    def open_stores(self, place: Path) -> AbstractAsyncContextManager[Stores]: ...

    @pytest.fixture
    async def stores(self, anyio_backend: str, tmp_path: Path) -> AsyncIterator[Stores]:
        async with self.open_stores(tmp_path) as stores:
            for org in (ORG, OTHER_ORG):
                await stores[0].add_organization(new_organization(org))
            yield stores

    async def test_a_hook_is_read_as_written(self, stores: Stores) -> None:
        """Every field that is stored; `save` replaces, and organizations are separate."""
        store, _ = stores
        first = Hook(HOOK, "https://a.example/x", ("run.failed", "run.finished"), 7, True, "ann", "s-1")
        second = attrs.evolve(first, workflow_id=None, is_enabled=False, former="s-0", former_until=2**40, user_id="bo")
        async with store.transaction(ORG) as work:
            await work.hooks.add(first)
            with pytest.raises(Duplicate):
                await work.hooks.add(first)
            assert await work.hooks.get(HOOK) == first
            await work.hooks.save(second)
        async with store.transaction(OTHER_ORG) as work:
            assert await work.hooks.page(limit=9) == []
            with pytest.raises(Stale):
                await work.hooks.save(first)
        async with store.reading(ORG) as work:
            assert await work.hooks.page(limit=9) == [second]

    async def test_each_subscriber_gets_a_delivery(self, stores: Stores) -> None:
        """Of the events that it subscribes to, of its workflow, in its organization; pending and due at once."""
        store, _ = stores
        await subscribe(store, HOOK, "run.finished", "interrupt.opened")
        await subscribe(store, OTHER_HOOK, "run.finished", workflow=8)
        await subscribe(store, HOOK, "run.finished", org=OTHER_ORG)
        await add(store, DONE, OPENED, structs.replace(DONE, event="run.failed"))
        assert await events(store, HOOK) == ["interrupt.opened", "run.finished"]
        assert await of(store, OTHER_HOOK) == await of(store, HOOK, OTHER_ORG) == []
        await add(store, structs.replace(DONE, resource_id=8), structs.replace(DONE, kind="skill", resource_id=8))
        assert [row.notice.kind for row in await of(store, OTHER_HOOK)] == ["workflow"]
        opened, done = (await of(store, HOOK))[-2:]
        assert (opened.notice, done.notice) == (OPENED, DONE)
        assert done == Delivery(done.id, HOOK, "", DONE, "pending", 0, 0, (), None)

    async def test_a_subscription_is_replaced_and_removed(self, stores: Stores) -> None:
        """`subscribe` replaces all subscriptions of the hook; without events it has none. Deliveries stay."""
        store, _ = stores
        await subscribe(store, HOOK, "run.finished", "run.failed", workflow=8)
        await subscribe(store, HOOK, "run.finished")
        await add(store, DONE, structs.replace(DONE, event="run.failed"))
        await subscribe(store, HOOK)
        await add(store, DONE)
        assert await events(store, HOOK) == ["run.finished"]

    async def test_a_delivery_is_changed_and_removed(self, stores: Stores) -> None:
        """`put` replaces what changes; `remove` deletes; another organization has no access; unknown ids are None."""
        store, _ = stores
        await subscribe(store, HOOK, "run.finished")
        await add(store, DONE)
        (row,) = await of(store, HOOK)
        attempts = (Attempt(9, 503, None, 12), Attempt(10, None, "no route", 0))
        changed = attrs.evolve(row, state="failed", next_at=None, tries=3, attempts=attempts, body='{"a": 1}')
        async with store.transaction(OTHER_ORG) as work:
            assert await work.deliveries.get(row.id) is None
            await work.deliveries.put(changed)
            await work.deliveries.remove(row.id)
        async with store.transaction(ORG) as work:
            assert await work.deliveries.get(row.id) == row
            await work.deliveries.put(changed)
            assert await work.deliveries.get(row.id) == changed
            for unknown in ("", "x", "999999", f"0{row.id}", "\u0661", "9" * 30):
                assert await work.deliveries.get(unknown) is None
        assert await of(store, HOOK) == [changed]
        async with store.transaction(ORG) as work:
            await work.deliveries.remove(row.id)
        assert await of(store, HOOK) == []

    async def test_deliveries_are_paged_and_cleared(self, stores: Stores) -> None:
        """Newest first; `clear` with a time keeps what is pending or later, and other hooks."""
        store, _ = stores
        for hook in (HOOK, OTHER_HOOK):
            await subscribe(store, hook, "run.finished")
        await add(store, *(structs.replace(DONE, at=at) for at in (1, 2, 3)))
        first, second, third = reversed(await of(store, HOOK))
        async with store.transaction(ORG) as work:
            assert await work.deliveries.page(HOOK, limit=2) == [third, second]
            assert await work.deliveries.page(HOOK, limit=2, before=second.id) == [first]
            for row in (second, third):
                await work.deliveries.put(attrs.evolve(row, state="delivered", next_at=None))
            await work.deliveries.clear(HOOK, before=3)
        assert [row.id for row in await of(store, HOOK)] == [third.id, first.id]
        async with store.transaction(ORG) as work:
            await work.deliveries.clear(HOOK)
        assert [len(await of(store, hook)) for hook in (HOOK, OTHER_HOOK)] == [0, 3]

    async def test_due_deliveries_are_shared_out(self, stores: Stores) -> None:
        """The longest due first, and in their order; with `limit` or more, one of each organization before the second
        of any. A new one is due whatever the clock of its process showed.
        """
        store, _ = stores
        for org in (ORG, OTHER_ORG):
            await subscribe(store, HOOK, "run.finished", org=org)
        await add(store, *(structs.replace(DONE, at=at) for at in (20, 3, 2, 1, 0)))
        await add(store, *(structs.replace(DONE, at=7) for _ in range(2)), org=OTHER_ORG)
        rows = list(reversed(await of(store, HOOK)))
        async with store.transaction(ORG) as work:
            for row, next_at in zip(rows[1:], (9, 10, 8, None), strict=True):
                await work.deliveries.put(attrs.evolve(row, next_at=next_at))
        first, last, _, middle, _ = (DueDelivery(ORG, row.id) for row in rows)
        others = [DueDelivery(OTHER_ORG, row.id) for row in reversed(await of(store, HOOK, OTHER_ORG))]
        due = await store.due_deliveries(9, limit=9)
        assert [one for one in due if one.org == ORG] == [first, middle, last]
        assert [one for one in due if one.org == OTHER_ORG] == others
        shared = await store.due_deliveries(9, limit=3)
        assert sorted(one.org for one in shared[:2]) == [ORG, OTHER_ORG]
        assert set(shared) in ({first, others[0], middle}, {first, *others})

    async def test_new_deliveries_do_not_hold_up_repeated_ones(self, stores: Stores) -> None:
        """With `limit` or more due, new ones and repeated ones of an organization come in turn, each in order."""
        store, _ = stores
        await subscribe(store, HOOK, "run.finished")
        await add(store, *(structs.replace(DONE, at=at) for at in range(9)))
        rows = list(reversed(await of(store, HOOK)))
        async with store.transaction(ORG) as work:
            for row, next_at in zip(rows[:3], (5, 4, 10), strict=True):
                await work.deliveries.put(attrs.evolve(row, next_at=next_at))
        ids = [row.id for row in rows]
        due = [one.id for one in await store.due_deliveries(9, limit=5)]
        assert [key for key in due if key in ids[3:]] == ids[3:6]
        assert [key for key in due if key in ids[:3]] == [ids[1], ids[0]]
        assert len(due) == 5

    async def test_handlers_get_the_events_of_all_organizations(self, stores: Stores) -> None:
        """From `register_handler` on, by name, apart from hooks; without events it ends, and its deliveries go."""
        store, _ = stores
        await add(store, DONE)
        await store.register_handler("mail", ["run.failed"])
        await store.register_handler("mail", ["run.finished"])
        await add(store, DONE, structs.replace(DONE, event="run.failed"))
        await add(store, DONE, org=OTHER_ORG)
        found = await store.due_deliveries(9, handler="mail", limit=9)
        assert sorted(one.org for one in found) == [ORG, OTHER_ORG]
        assert await store.due_deliveries(9, limit=9) == await store.due_deliveries(9, handler="x", limit=9) == []
        async with store.reading(found[0].org) as work:
            row = await work.deliveries.get(found[0].id)
        assert row is not None
        assert (row.hook, row.handler, row.notice.event) == ("", "mail", "run.finished")
        await store.register_handler("mail", [])
        await add(store, DONE)
        assert await store.due_deliveries(9, handler="mail", limit=9) == []

    async def test_a_handler_that_the_notice_names(self, stores: Stores) -> None:
        """It gets the event before it is registered, and once when it is; the notice is read without the names."""
        store, _ = stores
        named = structs.replace(DONE, handlers=("mail", "log"))
        await store.register_handler("log", ["run.finished"])
        await add(store, named)
        for name in ("mail", "log"):
            (due,) = await store.due_deliveries(9, handler=name, limit=9)
            async with store.reading(ORG) as work:
                row = await work.deliveries.get(due.id)
            assert row is not None
            assert row.notice == DONE

    async def test_a_transaction_that_fails_adds_nothing(self, stores: Stores) -> None:
        """Neither subscriptions nor deliveries."""
        store, _ = stores
        with pytest.raises(LookupError):
            async with store.transaction(ORG) as work:
                await work.deliveries.subscribe(HOOK, ["run.finished"])
                await work.deliveries.add([DONE])
                raise LookupError
        await add(store, DONE)
        assert await of(store, HOOK) == []

    async def test_the_journal_adds_deliveries_with_the_entries(self, stores: Stores) -> None:
        """In `begin` and `append`, in their transaction: a refused append adds none."""
        store, journal = stores
        await subscribe(store, HOOK, "run.finished", "interrupt.opened")
        new, run = (
            NewExecution(ORG, "workflow", 7, "v-1", "ann", "t-1"),
            NewRun("r-1", "ann", b"f", RunStatus.running, 1),
        )
        ref = (await journal.begin(new, Append(0, (), run, notices=(OPENED,)))).ref
        with pytest.raises(RunExists):
            await journal.begin(new, Append(0, (), run, notices=(OPENED,)))
        await journal.append(ref, Append(0, (), notices=(DONE,)))
        with pytest.raises(JournalConflict):
            await journal.append(ref, Append(9, (), notices=(DONE,)))
        assert await events(store, HOOK) == ["run.finished", "interrupt.opened"]

    async def test_an_append_during_a_transaction(self, stores: Stores) -> None:
        """A delivery that the journal adds while another transaction of the organization is open is not lost."""
        store, journal = stores
        await subscribe(store, HOOK, "run.finished")
        new, run = NewExecution(ORG, "workflow", 7, "v-1", "ann", "t-1"), NewRun("r-1", "ann", b"f", RunStatus.done, 1)
        async with store.reading(ORG) as work:
            assert await work.deliveries.page(HOOK, limit=9) == []
            await journal.begin(new, Append(0, (), run, notices=(DONE,)))
        assert await events(store, HOOK) == ["run.finished"]
