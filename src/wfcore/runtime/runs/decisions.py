"""The decisions of a resume: which interrupts they resolve, and whether the caller can decide these; and what waits for
the decision of a caller.
"""

from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

import attrs

from wfcore.api.runs import ResumeRun
from wfcore.domain.json.values import UNSET, given
from wfcore.domain.kernel.errors import Conflict, Forbidden, Issue, NotFound, refuse
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal
from wfcore.domain.run import entries as e
from wfcore.domain.run.machine.machine import Machine
from wfcore.domain.run.machine.states.deciders import Delegator, check_answer, may_decide, may_see
from wfcore.domain.run.machine.states.state import InterruptState
from wfcore.domain.run.state import IllegalEntry, IllegalRunMove
from wfcore.ports.journal import InboxFilter, OpenInterrupt, RunRow
from wfcore.runtime.common.authorization import conflict
from wfcore.runtime.common.loop_slice import loop_slice
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.common.run_views import InboxItem
from wfcore.runtime.organization.delegations import delegations_to

MOST_OPEN: Final = 10_000
"""The most open interrupts that one caller is shown."""

MOST_CLOSED: Final = 1_000
"""The most decided interrupts that one caller is shown."""

Way = tuple[Principal, bool]
"""The caller, or somebody who has delegated decisions to it, and whether that can use the target."""

BATCH: Final = 100
"""As many interrupts are read at once where all are read."""


def decisions_of(
    me: Principal,
    row: RunRow,
    machine: Machine,
    can_use: bool,
    body: ResumeRun,
    delegators: Sequence[Delegator] = (),
) -> tuple[tuple[e.Decision, ...], dict[str, str]]:
    """The decisions of a body, after every check whether the caller can make them; () is a resume without a decision.

    With them, by interrupt id, the users for whom the caller decides. Errors: Conflict with a reason, Forbidden,
    Invalid.
    """
    decisions, behalf = _decisions(row, machine, body), dict[str, str]()
    for index, decision in enumerate(decisions):
        interrupt = machine.interrupts[decision.interrupt_id]
        try:
            if giver := may_decide(me, interrupt, machine.starter, can_use, delegators):
                behalf[interrupt.id] = giver
        except NotFound:  # the caller sees the run, so the interrupt need not be hidden
            raise Forbidden("you are not an approver of this interrupt", {"reason": "not_an_approver"}) from None
        check_answer(interrupt, decision, f"decisions[{index}]." if body.decisions is not UNSET else "")
    if not decisions and not can_use:
        raise Forbidden("resuming a run requires use of its target", {"canUse": False})
    return decisions, behalf


def check_latest_turn(row: RunRow, machine: Machine) -> None:
    """Conflict for a run that another run has resumed, except to remind approvers."""
    if row.id not in machine.current_turns:
        raise conflict(f"run `{row.id}` was already resumed", "already_resumed")


def apply(machine: Machine, entry: e.Entry) -> None:
    """Apply the entry of a client's request; an entry that is illegal in this state is a Conflict."""
    try:
        machine.apply(entry)
    except IllegalEntry as error:
        raise Conflict(_why_not(machine, error), error.info) from None


def _why_not(machine: Machine, error: IllegalEntry) -> str:
    if machine.ended:
        return f"the run has ended as `{machine.status}`"
    if isinstance(error, IllegalRunMove):  # names an event of the machine, which is not the request
        return f"this is not possible while the run is `{machine.status}`"
    return str(error)


def _decisions(row: RunRow, machine: Machine, body: ResumeRun) -> tuple[e.Decision, ...]:
    check_latest_turn(row, machine)
    waiting = machine.interrupts
    wanted: list[tuple[str | None, str, JSON]]
    if body.decisions is not UNSET:
        wanted = [(one.interrupt_id, one.decision, given(one.data)) for one in body.decisions]
    elif body.decision is not UNSET:
        chosen = given(body.interrupt_id)
        if chosen is None and len(waiting) > 1:
            raise conflict("several interrupts are open: name one", "ambiguous", interruptIds=list(waiting))
        wanted = [(chosen or next(iter(waiting), None), body.decision, given(body.data))]
    elif waiting and not (machine.paused and not machine.turn_open):
        refuse([Issue("decision", "is required to resume this run", "required_if")])
        return ()
    else:
        wanted = []
    _check_open(row, machine, [interrupt_id for interrupt_id, _, _ in wanted])
    refuse([
        Issue(f"decisions[{index}].interruptId" if body.decisions is not UNSET else "interruptId",
              f"there is no interrupt `{str(interrupt_id)[:80]}`", "reference")
        for index, (interrupt_id, _, _) in enumerate(wanted)
        if interrupt_id not in waiting
    ])  # fmt: skip
    return tuple(e.Decision(str(interrupt_id), decision, form) for interrupt_id, decision, form in wanted)


def _check_open(row: RunRow, machine: Machine, wanted: Sequence[str | None]) -> None:
    """Conflict for an interrupt that is closed, and for a run without one.

    Of what was open at the end of the run, the end is the reason.
    """
    for interrupt_id in wanted:
        state = machine.interrupt_history.get(interrupt_id or "")
        if state is None or interrupt_id in machine.interrupts or (machine.ended and state is InterruptState.withdrawn):
            continue
        raise conflict(f"interrupt `{interrupt_id}` is not open: it is {state.value}", "already_resumed")
    if machine.ended:
        raise conflict(f"run `{row.id}` has ended as `{machine.status}`", "not_interrupted")
    if None in wanted:
        raise conflict(f"run `{row.id}` does not wait for a decision", "not_interrupted")


# What waits for a caller


@attrs.frozen
class Decidable:
    """The open interrupts that a caller can decide: their `keys`, newest first, at most `MOST_OPEN`.

    The store finds the keys by its indexes alone, so that they are cheap to count and to order. `may_decide` decides
    about each interrupt that is read. `seen` are the keys that the caller sees, and those that each user sees who has
    delegated decisions to the caller.
    """

    ports: Ports
    me: Principal
    seen: Sequence[tuple[Principal, Sequence[int]]]
    keys: Sequence[int]

    async def items(self, keys: Sequence[int]) -> list[InboxItem]:
        """Those of these keys that the caller can decide now, newest first."""
        found = await self.ports.journal.interrupts_at(self.me.org_uuid, keys)
        seen = [(who, frozenset(keys).intersection(of)) for who, of in self.seen]
        items = (_decidable(self.ports, self.me, one, _ways(one, seen)) for one in found)
        return [item for item in items if item is not None]

    async def all(self) -> AsyncIterator[InboxItem]:
        """All of them, newest first."""
        for keys in batches(self.keys):
            await loop_slice().take()
            for item in await self.items(keys):
                yield item


@attrs.frozen
class ById:
    """An open or closed interrupt that was looked for by its id. `decidable` is there if the caller can decide it now;
    `is_seen` says whether the caller sees it by own right.
    """

    found: OpenInterrupt
    decidable: InboxItem | None
    is_seen: bool


async def waiting_for(ports: Ports, me: Principal, workflow: int | None = None) -> Decidable:
    """What waits for the caller, in one workflow or in all that the credential reaches."""
    now = ports.clock.now()
    wanted = [
        (who, InboxFilter(reach, frozenset((me.user_id, who.user_id)), now))
        for who, reach in await _deciders(ports, me, workflow)
    ]
    seen = [(who, await ports.journal.inbox(who, limit=MOST_OPEN, where=where)) for who, where in wanted]
    keys = seen[0][1] if len(seen) == 1 else sorted({key for _, found in seen for key in found}, reverse=True)
    return Decidable(ports, me, seen, keys[:MOST_OPEN])


async def by_id(ports: Ports, me: Principal, ids: Collection[str]) -> dict[str, ById]:
    """The interrupts of these ids, of executions that the caller, or who has delegated decisions to it, can see."""
    ways, own = dict[str, list[Way]](), dict[str, bool]()
    interrupts = dict[str, OpenInterrupt]()
    for who, reach in await _deciders(ports, me):
        for name, (found, can_use) in (await ports.journal.find_interrupts(who, ids)).items():
            if reach is None or (found.execution.kind == "workflow" and found.execution.resource_id in reach):
                interrupts[name] = found
                ways.setdefault(name, []).append((who, can_use))
                if who is me:
                    own[name] = _sees(me, found, can_use)
    return {
        name: ById(found, _decidable(ports, me, found, ways[name]), own.get(name, False))
        for name, found in interrupts.items()
    }


async def _deciders(
    ports: Ports, me: Principal, workflow: int | None = None
) -> list[tuple[Principal, frozenset[int] | None]]:
    """The caller, then those who have delegated decisions to it: each with the workflows in question, None for all."""
    reach = within(me.workflows, None if workflow is None else [workflow])
    delegations = await delegations_to(ports.storage, me, ports.now())
    return [(me, reach), *((giver, within(reach, one.workflow_ids)) for one, giver in delegations)]


def _ways(found: OpenInterrupt, seen: Iterable[tuple[Principal, AbstractSet[int]]]) -> Iterator[Way]:
    """Those whose inbox has it. Without named approvers it is there because they can use the target."""
    return ((who, True) for who, keys in seen if found.key in keys)


def _sees(me: Principal, found: OpenInterrupt, can_use: bool) -> bool:
    """Whether the caller sees the interrupt by own right, as those of its inbox, or has decided it."""
    has_decided = found.decision is not None and any(vote.by.user_id == me.user_id for vote in found.interrupt.answers)
    return has_decided or may_see(me, found.interrupt, can_use)


def _decidable(ports: Ports, me: Principal, found: OpenInterrupt, ways: Iterable[Way]) -> InboxItem | None:
    """The item by own right, or else for the first who can; None if the caller cannot decide it now."""
    expires = found.interrupt.expires_at
    if found.decision is not None or (expires is not None and expires <= ports.clock.now()):
        return None
    starter = e.Actor(found.execution.user_id)
    for who, can_use in ways:
        own = who is me
        delegators = () if own else (Delegator(who, can_use),)
        try:
            return InboxItem(found, may_decide(me, found.interrupt, starter, own and can_use, delegators))
        except (Forbidden, NotFound):
            continue
    return None


def within(some: Collection[int] | None, others: Collection[int] | None) -> frozenset[int] | None:
    """The workflows that are in both; None has all."""
    if some is None:
        return None if others is None else frozenset(others)
    return frozenset(some) if others is None else frozenset(some).intersection(others)


def batches(keys: Sequence[int]) -> Iterator[Sequence[int]]:
    return (keys[first : first + BATCH] for first in range(0, len(keys), BATCH))
