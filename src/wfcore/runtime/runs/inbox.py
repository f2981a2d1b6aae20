"""The inbox of a caller: what waits for its decision, what was decided, and decisions over several runs."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Literal

import attrs

from wfcore.api.inbox import DecideInterrupts
from wfcore.domain.json.codec import iso_ms
from wfcore.domain.json.values import given
from wfcore.domain.kernel.errors import Conflict, NotFound, WfcoreError
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal
from wfcore.domain.resources.resource import Kind
from wfcore.domain.run.state import StarterKind, Vote
from wfcore.ports.journal import InboxFilter, OpenInterrupt
from wfcore.runtime.common.authorization import needs
from wfcore.runtime.common.bodies import Tree, parsed
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.common.run_views import InboxItem, latest_turn, starter_to_wire
from wfcore.runtime.runs.decisions import MOST_CLOSED, by_id, waiting_for, within
from wfcore.runtime.runs.runs import Runs

Order = Literal["newest", "deadline"]
Place = Callable[[int], tuple[int, int]]
"""The place of a key in an order."""

NEVER: Final = 2**62
"""The deadline of an interrupt without one, in an order by deadline."""


@attrs.frozen
class ListedItem:
    """An interrupt of the inbox with the name of its workflow and the people of it. `names` are those of users.

    `can_decide`: whether the caller can decide it now. `link` is where it can authorize the connection that a connect
    interrupt needs.
    """

    item: InboxItem
    workflow_name: str | None
    names: Mapping[str, str | None]
    can_decide: bool = False
    link: str | None = None

    def to_wire(self) -> dict[str, JSON]:
        found, execution = self.item.found, self.item.found.execution
        return {
            **self.item.to_wire(),
            **({} if self.link is None else {"connectUrl": self.link}),
            "workflowName": self.workflow_name,
            "requestedBy": self._person(execution.user_id, execution.started_by),
            "decidedBy": [self._vote(vote) for vote in found.interrupt.answers],
            "status": "open" if found.decision is None else "decided",
            "decision": found.decision,
            "decidedAt": None if found.decided_at is None else iso_ms(found.decided_at),
            "canDecide": self.can_decide,
        }

    def _person(self, user_id: str, kind: StarterKind) -> dict[str, JSON]:
        return {**starter_to_wire(user_id, kind), "name": self.names.get(user_id)}

    def _vote(self, vote: Vote) -> dict[str, JSON]:
        return {
            "userId": vote.by.user_id, "email": vote.by.email, "name": self.names.get(vote.by.user_id),
            "decision": vote.decision, "at": iso_ms(vote.at), "onBehalfOf": vote.on_behalf_of or None,
        }  # fmt: skip


@attrs.frozen
class InboxPage:
    """A page of the inbox. `following` is the position of the next page; `total` counts all pages."""

    items: Sequence[ListedItem]
    following: JSON
    total: int


@attrs.frozen
class DecisionOutcome:
    """What became of one decision: the new turn, or why there is none."""

    interrupt_id: str
    run_id: str | None = None
    status: str | None = None
    error: WfcoreError | None = None

    def to_wire(self, request_id: str = "") -> dict[str, JSON]:
        return {
            "interruptId": self.interrupt_id, "runId": self.run_id, "status": self.status,
            "error": None if self.error is None else self.error.to_wire(request_id),
        }  # fmt: skip


class Inbox:
    """Reads and decides interrupts of many runs."""

    area = "workflows"

    def __init__(self, ports: Ports, runs: Runs) -> None:
        self._ports = ports
        self._runs = runs

    @needs("workflows:read")
    async def page(
        self,
        me: Principal,
        *,
        decided: bool = False,
        workflow: int | None = None,
        order: Order = "newest",
        limit: int = 25,
        after: Sequence[int] | None = None,
    ) -> InboxPage:
        """What waits for a decision of the caller, or what was decided or expired among what the caller can see.

        `order` `deadline`: the next deadline first, those without one last. `after` is the `following` of a page.
        """
        waiting = None if decided else await waiting_for(self._ports, me, workflow)
        keys = await self._closed(me, workflow) if waiting is None else waiting.keys
        ordered, place = await self._in_order(me, keys, order, decided=decided)
        first = 0 if after is None else bisect_right(ordered, tuple(after), key=place)
        chosen = ordered[first : first + limit]
        following = list(place(chosen[-1])) if len(ordered) > first + limit else None
        found = await waiting.items(chosen) if waiting else await self._closed_items(me, chosen)
        items = sorted(found, key=lambda item: place(item.found.key))
        return InboxPage(await self._listed(me, items, can_decide=not decided), following, len(ordered))

    @needs("workflows:read")
    async def item(self, me: Principal, interrupt_id: str) -> ListedItem:
        """The interrupt that the caller can decide, or else can see or has decided. NotFound for any other."""
        one = (await by_id(self._ports, me, [interrupt_id])).get(interrupt_id)
        if one is None or not (one.decidable or one.is_seen):
            raise NotFound
        (item,) = await self._listed(me, [one.decidable or InboxItem(one.found)], can_decide=one.decidable is not None)
        return item

    @needs("workflows:read")
    async def count(self, me: Principal) -> int:
        """How many interrupts wait for a decision of the caller."""
        return len((await waiting_for(self._ports, me)).keys)

    @needs("workflows:invoke")
    async def decide(
        self, me: Principal, body: DecideInterrupts | Tree | None = None, **fields: object
    ) -> list[DecisionOutcome]:
        """Decide up to 100 interrupts of any runs, one after the other. Each has its own outcome, in the given order.

        Errors: Invalid, Malformed for the body.
        """
        wanted = parsed(DecideInterrupts, body, fields)
        found = await by_id(self._ports, me, {one.interrupt_id for one in wanted.decisions})
        runs = {name: one.found.run_id for name, one in found.items()}
        outcomes = []
        for one in wanted.decisions:
            try:
                outcomes.append(await self._decide(me, runs, one.interrupt_id, one.decision, given(one.data)))
            except WfcoreError as error:
                outcomes.append(DecisionOutcome(one.interrupt_id, error=error))
        return outcomes

    async def _decide(
        self, me: Principal, runs: Mapping[str, str], interrupt_id: str, decision: str, data: JSON
    ) -> DecisionOutcome:
        if interrupt_id not in runs:
            raise NotFound
        run_id = await self._latest(me, runs[interrupt_id])  # `resume` says why the caller cannot decide it
        body = {"decision": decision, "interruptId": interrupt_id, **({} if data is None else {"data": data})}
        while True:
            try:
                view = await self._runs.resume(me, run_id, body)
            except Conflict:  # somebody else can have made a turn meanwhile, and left this interrupt open
                refused, run_id = run_id, await self._latest(me, run_id)
                if refused == run_id:
                    raise
            else:
                return DecisionOutcome(interrupt_id, view.id, str(view.status))

    async def _latest(self, me: Principal, run_id: str) -> str:
        row = await latest_turn(self._ports.journal, me.org_uuid, run_id)
        return run_id if row is None else row.id

    async def _closed(self, me: Principal, workflow: int | None) -> Sequence[int]:
        """The keys of what was decided or has expired, newest first."""
        where = InboxFilter(within(me.workflows, None if workflow is None else [workflow]))
        return await self._ports.journal.inbox(me, limit=MOST_CLOSED, decided=True, where=where)

    async def _closed_items(self, me: Principal, keys: Sequence[int]) -> list[InboxItem]:
        found = await self._ports.journal.interrupts_at(me.org_uuid, keys, decided=True)
        return [InboxItem(one) for one in found]

    async def _in_order(
        self, me: Principal, keys: Sequence[int], order: Order, *, decided: bool
    ) -> tuple[Sequence[int], Place]:
        """The keys, newest first before, in an order; and the place of a key in it."""
        if order == "newest":
            return keys, lambda key: (0, -key)
        at = await self._ports.journal.deadlines(me.org_uuid, keys, decided=decided)
        return [*at, *(key for key in keys if key not in at)], lambda key: (at.get(key, NEVER), -key)

    async def _listed(self, me: Principal, items: Sequence[InboxItem], *, can_decide: bool) -> list[ListedItem]:
        """The items with the names of workflows and people."""
        if not items:
            return []
        storage, org, targets = self._ports.storage, me.org_uuid, {_target(item.found) for item in items}
        people = await storage.member_names(org, {user for item in items for user in _users(item)})
        names = dict[str, Mapping[int, str]]()
        for kind in {kind for kind, number in targets if number is not None}:
            numbers = [number for of, number in targets if of == kind and number is not None]
            names[kind] = await storage.resource_names(org, Kind(kind), numbers)
        return [ListedItem(one, _name(names, one.found), people, can_decide) for one in items]


def _name(names: Mapping[str, Mapping[int, str]], found: OpenInterrupt) -> str | None:
    kind, number = _target(found)
    return None if number is None else names[kind].get(number)


def _target(found: OpenInterrupt) -> tuple[str, int | None]:
    return found.execution.kind, found.execution.resource_id


def _users(item: InboxItem) -> Iterable[str]:
    yield item.found.execution.user_id
    yield from (vote.by.user_id for vote in item.found.interrupt.answers)
