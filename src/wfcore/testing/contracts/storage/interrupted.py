"""Every sort of row of a storage, written and removed under adversity."""

from abc import abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec import structs

from wfcore.domain.agents.connection_grants import ConnectionGrant
from wfcore.domain.channels.hooks import Hook
from wfcore.domain.kernel.ids import hash_secret
from wfcore.domain.people.people import Group
from wfcore.domain.projections.notices import Notice
from wfcore.domain.resources.resource import Kind
from wfcore.ports.repositories.audit import AuditFilter, AuditRow
from wfcore.ports.repositories.postings import Posting
from wfcore.ports.repositories.schedules import Timer
from wfcore.ports.repositories.webhooks import WebhookRow
from wfcore.ports.storage import Duplicate, IdempotencyRecord, Storage
from wfcore.testing.contracts.interrupted.calls import (
    COPIES,
    Opened,
    PortCall,
    check_at_once,
    check_cancelled,
    check_killed,
    each_of,
    each_with_a_step,
)
from wfcore.testing.contracts.storage.interfaces import new_interface
from wfcore.testing.contracts.storage.organization_records import (
    new_connection,
    new_delegation,
    new_erasure,
    new_item,
    new_policy,
)
from wfcore.testing.contracts.storage.values import (
    at,
    changed,
    new_member,
    new_organization,
    new_resource,
    new_token,
    new_variation,
)

Work = Callable[[Any], Awaitable[object]]
"""What is done in a unit of work."""

HOOK: Final = Hook("h-1", "https://a.example/x", ("run.failed",), None, True, "ann", "s-1")
NOTICE: Final = Notice("run.failed", 5, "workflow", 7, "ann", "r-1", "", "error")
ROW: Final = AuditRow(at(1), "ann", "workflow.create", "workflow", "1", {})
POSTING: Final = Posting("p", "i-1", "mark", {}, "r-1", 5)
GRANT: Final = ConnectionGrant("c", "ada:1")


def written(
    name: str, write: Work, read: Work, first: Work | None = None, *, once: bool = True, together: object = None
) -> PortCall:
    """A call that writes in a transaction of a new organization. `once`: a second one is a `Duplicate`."""

    async def before(store: Storage, org: str) -> None:
        await store.add_organization(new_organization(org))
        if first is not None:
            async with store.transaction(org) as work:
                await first(work)

    async def do(store: Storage, org: str) -> None:
        async with store.transaction(org) as work:
            await write(work)

    async def seen(store: Storage, org: str) -> object:
        async with store.reading(org) as work:
            return await read(work)

    return PortCall(name, do, seen, before, (Duplicate,) if once else (), together)


def record(name: str, row: Any) -> list[PortCall]:
    """The calls that add and remove a record of an organization."""

    def rows(work: Any) -> Any:
        return getattr(work, name)

    def add(work: Any) -> Awaitable[object]:
        return rows(work).add(row)  # type: ignore[no-any-return]

    def read(work: Any) -> Awaitable[object]:
        return rows(work).get(row.id)  # type: ignore[no-any-return]

    return [
        written(f"{name}: add", add, read),
        written(f"{name}: remove", lambda work: rows(work).remove(row.id), read, add, once=False),
    ]


async def _rename(work: Any) -> None:
    old = await work.workflows.get(1)
    await work.workflows.save(old, changed(old, name=f"{old.name}x"))


async def _name(work: Any) -> object:
    found = await work.workflows.get(1)
    return None if found is None else (found.name, found.revision)


async def _add_variation(work: Any) -> None:
    await work.workflows.add(new_resource(1))
    await work.workflows.add_variation(1, new_variation("v1"))


async def _put_webhook(store: Storage, org: str) -> None:
    async with store.transaction(org) as work:
        await work.webhooks.put(WebhookRow(1, hash_secret(org), "s"))


async def _webhook(store: Storage, org: str) -> object:
    return await store.find_webhook(org) is not None


async def _skill(work: Any) -> object:
    return await work.skills.get(1) is not None


async def _deliveries(work: Any) -> object:
    return len(await work.deliveries.page("h-1", limit=9))


async def _audited(work: Any) -> object:
    return [structs.replace(row, key=0) for row in await work.audit.page(AuditFilter(), limit=9)]


async def _organization(store: Storage, org: str) -> object:
    return await store.organization(org) is not None


CALLS: Final = (
    PortCall("organization", lambda store, org: store.add_organization(new_organization(org)), _organization,
         refused=(Duplicate,)),
    written("workflow: add", lambda work: work.workflows.add(new_resource(1)), _name),
    written("workflow: save", _rename, _name, lambda work: work.workflows.add(new_resource(1)), once=False,
            together=(f"R1{COPIES * 'x'}", 1 + COPIES)),
    written("skill: add", lambda work: work.skills.add(new_resource(1, Kind.SKILL)), _skill),
    written("variation: save", lambda work: work.workflows.save_variation(1, new_variation("v1", deployed_at=at(2))),
            lambda work: work.workflows.variation(1, "v1"),
            _add_variation, once=False),
    written("response: add", lambda work: work.idempotency.add("workflow", "u1", "k", IdempotencyRecord("f", {"a": 1})),
            lambda work: work.idempotency.find("workflow", "u1", "k")),
    written("member: add", lambda work: work.directory.add_member(new_member("u1")),
            lambda work: work.directory.member("u1"), once=False),
    written("group: add", lambda work: work.directory.add_group(Group("g1", "G1")),
            lambda work: work.directory.groups(["g1"])),
    written("token: add", lambda work: work.directory.add_token(new_token("p")),
            lambda work: work.directory.token("p")),
    written("token: revoke", lambda work: work.directory.revoke_token("p", at(9)),
            lambda work: work.directory.token("p"), lambda work: work.directory.add_token(new_token("p")), once=False),
    written("interface: add", lambda work: work.interfaces.add(new_interface("a")),
            lambda work: work.interfaces.get(1, "a")),
    written("interface: clear", lambda work: work.interfaces.clear(1), lambda work: work.interfaces.get(1, "a"),
            lambda work: work.interfaces.add(new_interface("a")), once=False),
    *record("context_items", new_item("a")),
    *record("connections", new_connection("a")),
    *record("delegations", new_delegation("a")),
    *record("policies", new_policy("a")),
    *record("erasures", new_erasure("a")),
    *record("hooks", HOOK),
    *record("connection_grants", GRANT),
    written("delivery: add", lambda work: work.deliveries.add([NOTICE]), _deliveries,
            lambda work: work.deliveries.subscribe("h-1", ["run.failed"]), once=False, together=COPIES),
    written("timer: put", lambda work: work.schedules.put(Timer(1, "v1", 9)), lambda work: work.schedules.get(1),
            once=False),
    written("timer: remove", lambda work: work.schedules.remove(1), lambda work: work.schedules.get(1),
            lambda work: work.schedules.put(Timer(1, "v1", 9)), once=False),
    PortCall("webhook: put", _put_webhook, _webhook, lambda store, org: store.add_organization(new_organization(org))),
    written("posting: put", lambda work: work.postings.put(POSTING), lambda work: work.postings.get("p"), once=False),
    written("posting: remove", lambda work: work.postings.remove("p"), lambda work: work.postings.get("p"),
            lambda work: work.postings.put(POSTING), once=False),
    written("audit: add", lambda work: work.audit.add(ROW), _audited, once=False, together=COPIES * [ROW]),
)  # fmt: skip


class InterruptedStorage:
    """Inherit `StorageContract`, not this class."""

    @each_of(CALLS)
    async def test_a_cancelled_transaction_is_whole_or_nothing(self, store: Storage, call: PortCall) -> None:
        """For every sort of row, whichever await is cancelled."""
        await check_cancelled(store, call)

    @each_of(CALLS)
    async def test_transactions_at_once(self, store: Storage, call: PortCall) -> None:
        """For every sort of row, transactions at the same time have the effects of one after the other."""
        await check_at_once(store, call)


class StorageCrashContract:
    """Inherit it beside `StorageContract` if what is stored outlives the process."""

    @abstractmethod
    async def open_storage(self, place: Path) -> Storage:
        """The storage in this directory: a new one, or what a process has left there."""

    @pytest.fixture(scope="class")
    @classmethod
    def crash_place(cls, tmp_path_factory: pytest.TempPathFactory) -> Path:
        return tmp_path_factory.mktemp("crash")

    @each_with_a_step(CALLS)
    def test_a_killed_process_leaves_all_or_nothing(self, crash_place: Path, call: PortCall, step: int) -> None:
        """For every sort of row; what a transaction wrote that had returned is there."""
        check_killed(self._opened(crash_place), call, step)

    def _opened(self, place: Path) -> Opened:
        @asynccontextmanager
        async def opened() -> AsyncIterator[Storage]:
            store = await self.open_storage(place)
            yield store
            await store.close()

        return opened
