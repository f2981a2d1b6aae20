"""From what is pinned to the plan that a run follows, and from a journal to the machine. Only an erasure changes a
variation, so plans are kept by its id. Other processes notice such a change within `FRESH` milliseconds."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import Final

import attrs

from wfcore.domain.graph.structure import structure_of
from wfcore.domain.json.codec import fingerprint
from wfcore.domain.kernel.errors import NotFound
from wfcore.domain.kernel.json_readers import as_object
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.kernel.recent import Recent
from wfcore.domain.resources.content import WorkflowContent
from wfcore.domain.run.entries import Entry, Forked, Moved, Opened, Retried, Started
from wfcore.domain.run.events import Event
from wfcore.domain.run.machine.machine import Machine
from wfcore.domain.run.machine.states import snapshots
from wfcore.domain.run.machine.states.snapshots import INTERVAL
from wfcore.domain.run.plan import Plan, action_plan, assistant_plan, compile_plan, evaluation_plan, skill_plan
from wfcore.ports.journal import Execution, Journal
from wfcore.ports.storage import Storage
from wfcore.ports.system import Clock
from wfcore.runtime.common.loop_slice import beside_loop, size_of

PlanKey = tuple[str, int, str]
"""Kind, resource and variation of a child."""

KEPT: Final = 32 * 2**20
"""Bytes of the plans kept in memory by one process, those used last. A machine holds on to its own."""

FRESH: Final = 5_000
"""Milliseconds after which the variation of a plan is read again: an erasure in another process can have replaced
texts in it."""

PART, CHARACTER, SOURCE_CHARACTER = 200, 2, 100
"""Bytes of a plan for each value in its structure, and for each character of a text and of an expression, measured."""

SOURCES: Final = ("when", "forEach")
"""The keys of a node's data whose values are expressions without braces."""

REPLAYS = 1
"""How many journals are replayed for readers at once."""


def pinned_by(entry: Entry) -> PlanKey | None:
    """The variation that a frame runs from this entry on."""
    if isinstance(entry, Opened):
        return entry.kind, entry.resource_id, entry.variation_id
    return entry.pinned if isinstance(entry, (Retried, Forked, Moved)) else None


def opens(entries: Iterable[Entry]) -> bool:
    """Whether one of them opens a child."""
    return Opened in map(type, entries)


@attrs.define
class _Kept:
    """A plan, the hash of what it was compiled from, and the monotonic time at which it is compared again."""

    plan: Plan
    content_hash: str
    fresh_until: int


class Plans:
    """The plans of one process."""

    def __init__(self, storage: Storage, journal: Journal, clock: Clock) -> None:
        self._storage = storage
        self._journal = journal
        self._clock = clock
        self._kept = Recent[tuple[str, str], _Kept](KEPT)
        self._loading = asyncio.Lock()
        self._replaying = asyncio.Semaphore(REPLAYS)

    def within(self, journal: Journal) -> "Plans":
        """The same plans, for what this journal holds: that of a caller's transaction."""
        other = copy(self)
        vars(other).update(_journal=journal)
        return other

    async def replayed(self, execution: Execution) -> Machine:
        """The machine of an execution for a reader of its events, which are collected from the first on.

        One is made at a time: when many readers join a long run, other work waits for one replay and not for all.
        """
        async with self._replaying:
            machine = await self.machine(execution, [])
            await asyncio.sleep(0)  # a replay in local files does not suspend: others would follow in the same turn
            return machine

    async def machine(
        self, execution: Execution, sink: list[Event] | None = None, entries: Sequence[Entry] | None = None
    ) -> Machine:
        """The machine after all that the journal holds, or these entries if they have been read.

        What its entries recorded has been written with them.
        """
        if entries is None:
            if sink is None and (resumed := await self._from_snapshot(execution)) is not None:
                return resumed
            entries = await self._journal.read(execution.ref)
        machine = Machine(await self.of(execution, entries), sink)
        await self._apply(execution, machine, entries)
        return machine

    async def _from_snapshot(self, execution: Execution) -> Machine | None:
        """The machine of the latest snapshot after the entries since; None without a snapshot that can be read."""
        if execution.length < INTERVAL or execution.kind == "action" or execution.started_by == "evaluation":
            return None  # nobody has taken one, or the plan is in an entry
        found = await self._journal.snapshot(execution.ref)
        stored = None if found is None else snapshots.read(found[1])
        if stored is None:
            return None
        plans = {key: await self.child(execution.ref.org, key) for key in stored.plans}
        try:
            machine = Machine.of(stored.run(await self.of(execution), plans))
            await self.catch_up(execution, machine)
        except snapshots.UNREADABLE:
            return None
        return machine

    async def catch_up(self, execution: Execution, machine: Machine) -> None:
        """Apply what the journal holds beyond what the machine has seen."""
        await self._apply(execution, machine, await self._journal.read(execution.ref, machine.length))

    async def _apply(self, execution: Execution, machine: Machine, entries: Sequence[Entry]) -> None:
        await self.load(execution.ref.org, entries, machine)
        machine.fold(entries)
        machine.take_records()

    async def load(self, org: str, entries: Iterable[Entry], machine: Machine) -> None:
        """Give the machine the plans of the children that these entries open, and of variations they change to."""
        for entry in entries:
            key = pinned_by(entry)
            if key is not None and key not in machine.plans:
                machine.plans = {**machine.plans, key: await self.child(org, key)}

    async def of(self, execution: Execution, entries: Iterable[Entry] | None = None) -> Plan:
        """The plan of an execution; `entries` are those of its journal, if they have been read."""
        number, variation_id = execution.resource_id or 0, execution.variation_id or ""
        match execution.kind:
            case "skill" if execution.started_by == "evaluation":
                evaluation = await self._info(execution, entries, "evaluation")
                return evaluation_plan(number, as_object(evaluation["case"]))
            case "skill":
                return skill_plan(number)
            case "assistant":
                return assistant_plan()
            case "action":
                return action_plan(await self._info(execution, entries, "action"))
        return await self.get(execution.ref.org, number, variation_id)

    async def _info(self, execution: Execution, entries: Iterable[Entry] | None, name: str) -> Mapping[str, JSON]:
        """A field of the variable `run`, from the first entry."""
        read = await self._journal.read(execution.ref) if entries is None else entries
        return next(as_object(entry.info[name]) for entry in read if isinstance(entry, Started))

    async def child(self, org: str, key: PlanKey) -> Plan:
        """The plan of a child's frame."""
        kind, number, variation_id = key
        return skill_plan(number) if kind == "skill" else await self.get(org, number, variation_id)

    async def get(self, org: str, workflow_id: int, variation_id: str) -> Plan:
        """The plan of a variation that may run. However many ask at once, it is read and compiled once."""
        key = (org, variation_id)
        plan = self._fresh(key)
        if plan is not None:
            return plan
        async with self._loading:
            if (plan := self._fresh(key)) is not None:
                return plan
            read_at = self._clock.monotonic()
            async with self._storage.reading(org) as work:
                variation = await work.workflows.variation(workflow_id, variation_id)
            if variation is None:
                raise NotFound
            return await self._compiled(key, variation.workflow, read_at)

    def _fresh(self, key: tuple[str, str]) -> Plan | None:
        kept = self._kept.get(key)
        return kept.plan if kept is not None and self._clock.monotonic() < kept.fresh_until else None

    def forget(self) -> None:
        """Drop the plans: an erasure has replaced texts in variations. A machine keeps its own."""
        self._kept.clear()

    async def keep(self, org: str, variation_id: str, content: WorkflowContent) -> Plan:
        """The plan of the content of a variation, which has just been read or written."""
        key = (org, variation_id)
        return self._fresh(key) or await self._compiled(key, content, self._clock.monotonic())

    async def _compiled(self, key: tuple[str, str], content: WorkflowContent, read_at: int) -> Plan:
        """The plan of this content: the one that is kept, if it has not changed since."""
        structure = structure_of(content)
        size = size_of(structure)
        content_hash = await beside_loop(size, fingerprint, structure)
        kept = self._kept.get(key)
        if kept is None or kept.content_hash != content_hash:
            plan, taken = await beside_loop(size, _plan_and_bytes, structure)
            kept = _Kept(plan, content_hash, read_at)
            self._kept.put(key, kept, taken)
        kept.fresh_until = read_at + FRESH
        return kept.plan


def _plan_and_bytes(structure: Mapping[str, JSON]) -> tuple[Plan, int]:
    return compile_plan(structure), bytes_of(structure)


def bytes_of(structure: JSON, key: str = "") -> int:
    """What the plan of a structure takes in memory, roughly. `key`: that of the value, if it is within an object."""
    if isinstance(structure, str):
        is_source = "{{" in structure or key in SOURCES
        return PART + len(structure) * (SOURCE_CHARACTER if is_source else CHARACTER)
    if isinstance(structure, Mapping):
        return PART + sum(CHARACTER * len(name) + bytes_of(value, name) for name, value in structure.items())
    return PART + (sum(map(bytes_of, structure)) if isinstance(structure, list) else 0)
