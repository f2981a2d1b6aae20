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
from wfcore.domain.run.machine.states.deciders import Delegator, check_answer, may_decide
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
    if machine.ended:
        raise conflict(f"run `{row.id}` has ended as `{machine.status}`", "not_interrupted")
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
    for interrupt_id, _, _ in wanted:
        if interrupt_id is None:
            raise conflict(f"run `{row.id}` does not wait for a decision", "not_interrupted")
        if interrupt_id not in waiting and interrupt_id in machine.interrupt_history:
            raise conflict(f"interrupt `{interrupt_id}` is not open", "already_resumed")
    refuse([
        Issue(f"decisions[{index}].interruptId" if body.decisions is not UNSET else "interruptId",
              f"there is no interrupt `{str(interrupt_id)[:80]}`", "reference")
        for index, (interrupt_id, _, _) in enumerate(wanted)
        if interrupt_id not in waiting
    ])  # fmt: skip
    return tuple(e.Decision(str(interrupt_id), decision, form) for interrupt_id, decision, form in wanted)


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
        return [item for one in found if (item := self._decidable(one, seen)) is not None]

    async def all(self) -> AsyncIterator[InboxItem]:
        """All of them, newest first."""
        for keys in batches(self.keys):
            await loop_slice().take()
            for item in await self.items(keys):
                yield item

    async def of_ids(self, ids: Collection[str]) -> dict[str, InboxItem]:
        """Those of these ids, by id."""
        found, wanted = dict[str, InboxItem](), frozenset(ids)
        if wanted:
            async for item in self.all():
                if item.interrupt_id in wanted:
                    found[item.interrupt_id] = item
                    if len(found) == len(wanted):
                        break
        return found

    def _decidable(self, found: OpenInterrupt, seen: Iterable[tuple[Principal, AbstractSet[int]]]) -> InboxItem | None:
        """The item by own right, or else for the first who can; None if the caller cannot decide it now."""
        expires = found.interrupt.expires_at
        if expires is not None and expires <= self.ports.clock.now():
            return None
        starter = e.Actor(found.execution.user_id)
        for who, keys in seen:
            own = who is self.me
            if found.key in keys:
                delegators = () if own else (Delegator(who, can_use=True),)
                try:
                    return InboxItem(found, may_decide(self.me, found.interrupt, starter, own, delegators))
                except (Forbidden, NotFound):
                    continue
        return None


async def waiting_for(ports: Ports, me: Principal, workflow: int | None = None) -> Decidable:
    """What waits for the caller, in one workflow or in all that the credential reaches."""
    now, reach = ports.clock.now(), within(me.workflows, None if workflow is None else [workflow])
    wanted = [(me, InboxFilter(reach, frozenset((me.user_id,)), now))]
    for delegation, giver in await delegations_to(ports.storage, me, ports.now()):
        people = frozenset((me.user_id, giver.user_id))
        wanted.append((giver, InboxFilter(within(reach, delegation.workflow_ids), people, now)))
    seen = [(who, await ports.journal.inbox(who, limit=MOST_OPEN, where=where)) for who, where in wanted]
    keys = seen[0][1] if len(seen) == 1 else sorted({key for _, found in seen for key in found}, reverse=True)
    return Decidable(ports, me, seen, keys[:MOST_OPEN])


def within(some: Collection[int] | None, others: Collection[int] | None) -> frozenset[int] | None:
    """The workflows that are in both; None has all."""
    if some is None:
        return None if others is None else frozenset(others)
    return frozenset(some) if others is None else frozenset(some).intersection(others)


def batches(keys: Sequence[int]) -> Iterator[Sequence[int]]:
    return (keys[first : first + BATCH] for first in range(0, len(keys), BATCH))
