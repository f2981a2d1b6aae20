"""The storage, its maintenance and the memories over all shards."""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

import attrs

from wfcore.adapters.sharding.public_ids import PublicIds
from wfcore.adapters.sharding.routing import Routed, reads, writes
from wfcore.domain.kernel.sharing import in_turn
from wfcore.domain.people.people import Organization
from wfcore.ports.maintenance import NOTHING, Expiring, Maintenance, Sizes
from wfcore.ports.providers import MemoryBackend
from wfcore.ports.repositories.hooks import DueDelivery
from wfcore.ports.repositories.postings import DuePosting
from wfcore.ports.repositories.schedules import DueTimer
from wfcore.ports.repositories.webhooks import FoundWebhook
from wfcore.ports.storage import FoundInterface, Storage, UnitOfWork

Due = TypeVar("Due", DueTimer, DuePosting, DueDelivery)
Found = TypeVar("Found", FoundWebhook, FoundInterface)


class ShardedMemories(Routed[MemoryBackend]):
    """Implements the port `MemoryBackend`."""

    add = writes("add")
    get = reads("get")
    replace = writes("replace")
    delete = writes("delete")
    list = reads("list")
    search = reads("search")


class ShardedMaintenance(Routed[Maintenance]):
    """Implements the port `Maintenance`."""

    count = reads("count")
    prune = writes("prune")
    remove_organization = writes("remove_organization")
    executions_of = reads("executions_of")
    remove_execution = writes("remove_execution")
    remove_resource = writes("remove_resource")
    forget_user = writes("forget_user")
    numbers = reads("numbers")
    conversations = reads("conversations")
    rewrite = writes("rewrite")
    rewrite_execution = writes("rewrite_execution")

    async def texts(self, org: str, without: Mapping[Expiring, int] = NOTHING) -> AsyncIterator[Sequence[str]]:
        async for batch in (await self._shards.of(org)).texts(org, without):
            yield batch

    async def sizes(self, org: str | None = None, user_id: str | None = None) -> Sizes:
        if org is not None:
            return await (await self._shards.of(org)).sizes(org, user_id)
        found = await self._shards.every(lambda maintenance: maintenance.sizes(None, user_id))
        return Sizes(*map(sum, zip(*map(attrs.astuple, found.values()), strict=True)))

    async def erasures(self) -> Sequence[tuple[str, str]]:
        found = await self._shards.each(lambda maintenance: maintenance.erasures())
        return await self._shards.own(found, lambda erasure: erasure[0])

    async def scrub(self) -> None:
        for maintenance in self._shards.parts.values():
            await maintenance.scrub()


class ShardedStorage(Routed[Storage]):
    """Implements the port `Storage`."""

    find_resource = reads("find_resource")
    resource_names = reads("resource_names")
    member_names = reads("member_names")
    is_delegate = reads("is_delegate")
    credential = reads("credential")
    organization = reads("organization")

    @property
    def maintenance(self) -> ShardedMaintenance:
        return ShardedMaintenance(self._shards.of_part(lambda storage: storage.maintenance))

    @asynccontextmanager
    async def transaction(self, org: str) -> AsyncIterator[UnitOfWork]:
        """Raises Moving in the moment in which a move of the organization ends: its caller begins it again."""
        async with (await self._shards.of(org)).transaction(org) as work:
            yield work

    @asynccontextmanager
    async def reading(self, org: str) -> AsyncIterator[UnitOfWork]:
        async with (await self._shards.of(org)).reading(org) as work:
            yield work

    async def within(self, connection: object) -> Storage:
        """The storage of the shard to which the connection is: other organizations are unknown in it."""
        return await self._shards.joined(lambda storage: storage.within(connection))

    # All organizations

    async def due_timers(self, now: int, *, limit: int) -> list[DueTimer]:
        return await self._due(await self._shards.each(lambda one: one.due_timers(now, limit=limit)), limit)

    async def due_postings(self, now: int, *, limit: int) -> list[DuePosting]:
        return await self._due(await self._shards.each(lambda one: one.due_postings(now, limit=limit)), limit)

    async def due_deliveries(self, now: int, *, handler: str = "", limit: int) -> list[DueDelivery]:
        found = await self._shards.each(lambda one: one.due_deliveries(now, handler=handler, limit=limit))
        return await self._due(found, limit)

    async def _due(self, found: dict[str, Sequence[Due]], limit: int) -> list[Due]:
        rows = await self._shards.own(found, lambda row: row.org)
        return rows if len(rows) < limit else in_turn(rows, lambda row: row.org)[:limit]

    def public_id(self, org: str, id: str) -> str:
        return self._public_ids.named(id, org)

    async def find_webhook(self, id: str) -> FoundWebhook | None:
        return await self._find(id, lambda one: one.find_webhook(id))

    async def find_interface(self, id: str) -> FoundInterface | None:
        return await self._find(id, lambda one: one.find_interface(id))

    @property
    def _public_ids(self) -> PublicIds:
        return PublicIds(self._shards.placements.key)

    async def _find(self, id: str, call: Callable[[Storage], Awaitable[Found | None]]) -> Found | None:
        """On the shard to which the id leads; an id of the time before the shards is looked up on all."""
        locator = self._public_ids.locator(id)
        if locator is None:
            return await self._found(await self._shards.each(call))
        for name in await self._shards.placements.located(locator):
            found = await call(self._shards.named(name))
            if found is not None:
                here = await self._shards.name_of(found.org)
                return found if here == name else await call(self._shards.named(here))
        return None

    async def _found(self, found: Mapping[str, Found | None]) -> Found | None:
        """That of the shard on which its organization is. It can be on a shard that did not respond: Unavailable."""
        rows = {name: [] if row is None else [row] for name, row in found.items()}
        for row in await self._shards.own(rows, lambda row: row.org):
            return row
        self._shards.check_all(found)
        return None

    async def register_handler(self, name: str, events: Collection[str]) -> None:
        for storage in self._shards.parts.values():
            await storage.register_handler(name, events)

    async def add_organization(self, organization: Organization) -> None:
        """On the shard that the placements choose. An id that was placed before keeps its shard."""
        shard = self._shards.named(await self._shards.placements.place(organization.uuid))
        await shard.add_organization(organization)

    async def organizations(self, *, limit: int, after: str = "") -> list[Organization]:
        found = await self._shards.every(lambda one: one.organizations(limit=limit, after=after))
        rows = await self._shards.own(found, lambda row: row.uuid)
        return sorted(rows, key=lambda row: row.uuid)[:limit]

    # The databases themselves

    async def upgrade(self) -> None:
        for storage in self._shards.parts.values():
            await storage.upgrade()

    async def check(self) -> str | None:
        """The problem of the main shard. The organizations of the others are served while another one is away."""
        return await self._shards.main.check()

    async def check_writes(self) -> str | None:
        return await self._shards.main.check_writes()

    async def schema_differences(self) -> list[str]:
        return [
            f"shard `{name}`: {difference}"
            for name, storage in self._shards.parts.items()
            for difference in await storage.schema_differences()
        ]

    async def close(self) -> None:
        await self._shards.placements.close()
        for storage in self._shards.parts.values():
            await storage.close()
