"""The journal over all shards."""

from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial

from wfcore.adapters.sharding.routing import Routed, Shards, reads, writes
from wfcore.ports.journal import Claimed, ExecutionRef, Holder, Journal
from wfcore.ports.repositories.conversations import ConversationRepository
from wfcore.ports.repositories.usage import UsageRows
from wfcore.ports.repositories.verdicts import VerdictRows


class ShardedConversations(Routed[ConversationRepository]):
    """Implements `ConversationRepository`."""

    own = reads("own")
    visible = reads("visible")
    page = reads("page")
    message_sizes = reads("message_sizes")
    messages = reads("messages")
    remove = writes("remove")


class ShardedUsage(Routed[UsageRows]):
    """Implements `UsageRows`."""

    sums = reads("sums")


class ShardedVerdicts(Routed[VerdictRows]):
    """Implements `VerdictRows`."""

    latest = reads("latest")


class ShardedJournal(Routed[Journal]):
    """Implements the port `Journal`. A worker has one number, which the main shard assigns, on all shards."""

    def __init__(self, shards: Shards[Journal]) -> None:
        super().__init__(shards)
        self.durable = all(journal.durable for journal in shards.parts.values())
        self.conversations = ShardedConversations(shards.of_part(lambda journal: journal.conversations))
        self.usage = ShardedUsage(shards.of_part(lambda journal: journal.usage))
        self.verdicts = ShardedVerdicts(shards.of_part(lambda journal: journal.verdicts))
        self._turn = 0

    begin = writes("begin")
    append = writes("append")
    delete = writes("delete")
    claim = writes("claim")
    take_slot = writes("take_slot")
    is_deleted = reads("is_deleted")
    read = reads("read")
    snapshot = reads("snapshot")
    execution = reads("execution")
    progress = reads("progress")
    find_run = reads("find_run")
    find_turn = reads("find_turn")
    list_runs = reads("list_runs")
    count_runs = reads("count_runs")
    open_interrupts = reads("open_interrupts")
    inbox = reads("inbox")
    interrupts_at = reads("interrupts_at")
    deadlines = reads("deadlines")
    find_interrupts = reads("find_interrupts")

    async def damaged(self, on_read: Callable[[], None] = lambda: None) -> AsyncIterator[str]:
        for journal in self._shards.parts.values():
            async for run_id in journal.damaged(on_read):
                yield run_id

    async def within(self, connection: object) -> Journal:
        """The journal of the shard to which the connection is: other organizations are unknown in it."""
        return await self._shards.joined(lambda journal: journal.within(connection))

    async def lengths(self, executions: Sequence[ExecutionRef]) -> dict[ExecutionRef, int]:
        found = dict[ExecutionRef, int]()
        for journal, refs in await self._by_shard(executions):
            found |= await journal.lengths(refs)
        return {ref: found[ref] for ref in executions if ref in found}

    async def with_entries(self, executions: Sequence[ExecutionRef]) -> list[Claimed]:
        parts = await self._by_shard(executions)
        return [found for journal, refs in parts for found in await journal.with_entries(refs)]

    async def _by_shard(self, executions: Sequence[ExecutionRef]) -> list[tuple[Journal, list[ExecutionRef]]]:
        on_shards: dict[str, list[ExecutionRef]] = {}
        for ref in executions:
            on_shards.setdefault(await self._shards.name_of(ref.org), []).append(ref)
        return [(self._shards.named(shard), refs) for shard, refs in on_shards.items()]

    # Workers and claims

    async def register(self, host: str, pid: int, worker: int | None = None) -> int:
        number = await self._shards.main.register(host, pid, worker)
        await self._shards.each(lambda journal: journal.register(host, pid, number))
        return number

    async def heartbeat(self, worker: int) -> None:
        await self._shards.each(lambda journal: journal.heartbeat(worker))

    async def holders(self) -> list[Holder]:
        """A worker that holds executions on several shards has the sum of its heartbeats."""
        found: dict[int, Holder] = {}
        for holders in (await self._shards.each(lambda journal: journal.holders())).values():
            for each in holders:
                beats = found[each.worker].beats if each.worker in found else 0
                found[each.worker] = Holder(each.worker, each.host, each.pid, each.beats + beats)
        return [found[worker] for worker in sorted(found)]

    async def held_by(self, worker: int) -> list[ExecutionRef]:
        found = await self._shards.own(
            await self._shards.each(lambda journal: journal.held_by(worker)), lambda ref: ref.org
        )
        return sorted(found, key=lambda ref: ref.id)

    async def release(self, worker: int) -> int:
        return sum((await self._shards.each(lambda journal: journal.release(worker))).values())

    async def claim_due(self, worker: int, now: int, limit: int) -> list[ExecutionRef]:
        """Shards with due executions get the same share, and what one does not use is for the others."""
        due = [name for name, at in (await self._next_wakes()).items() if at is not None and at <= now]
        self._turn += 1
        first = self._turn % max(1, len(due))
        hungry, claimed = due[first:] + due[:first], list[ExecutionRef]()
        while hungry and (left := limit - len(claimed)) > 0:
            hungry, share = hungry[:left], max(1, left // len(hungry))
            found = await self._shards.each(partial(_claim, worker=worker, now=now, limit=share), hungry)
            claimed += await self._shards.own(found, lambda ref: ref.org)
            hungry = [name for name in hungry if len(found.get(name, ())) == share]
        return claimed

    def may_be_limited(self, org: str) -> bool:
        return any(journal.may_be_limited(org) for journal in self._shards.parts.values())

    def take_admitted(self) -> list[ExecutionRef]:
        return [ref for journal in self._shards.parts.values() for ref in journal.take_admitted()]

    async def next_wake(self) -> int | None:
        return min((at for at in (await self._next_wakes()).values() if at is not None), default=None)

    async def _next_wakes(self) -> dict[str, int | None]:
        return await self._shards.each(lambda journal: journal.next_wake())

    async def due_since(self, now: int) -> int | None:
        found = await self._shards.each(lambda journal: journal.due_since(now))
        return min((at for at in found.values() if at is not None), default=None)


async def _claim(journal: Journal, *, worker: int, now: int, limit: int) -> list[ExecutionRef]:
    return await journal.claim_due(worker, now, limit)
