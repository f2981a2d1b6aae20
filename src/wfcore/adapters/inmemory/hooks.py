"""The subscriptions and deliveries of one organization, in dicts.

They are kept outside of the tenant's rows, because the journal adds deliveries while a transaction is open.
"""

from collections.abc import Callable, Collection, Iterable

import attrs
from msgspec import structs

from wfcore.domain.kernel.ids import parse_id
from wfcore.domain.projections.notices import Notice
from wfcore.ports.repositories.hooks import Delivery

Change = Callable[["DeliveryLog"], None]
Subscription = tuple[str, int | None]
"""An event, and the workflow whose events are reported (None: all)."""


@attrs.define
class RegisteredHandlers:
    """The handlers of all organizations by name, with their events."""

    events: dict[str, frozenset[str]] = attrs.Factory(dict)

    def names(self, notice: Notice) -> list[str]:
        registered = [name for name, events in self.events.items() if notice.event in events]
        return list(dict.fromkeys([*registered, *notice.handlers]))


@attrs.define
class DeliveryLog:
    """The committed rows of one organization. `last` is the number of the latest delivery."""

    handlers: RegisteredHandlers
    subscriptions: dict[str, tuple[Subscription, ...]] = attrs.Factory(dict)
    rows: dict[int, Delivery] = attrs.Factory(dict)
    last: int = 0

    def copy(self) -> "DeliveryLog":
        return DeliveryLog(self.handlers, dict(self.subscriptions), dict(self.rows), self.last)

    def subscribe(self, hook: str, wanted: tuple[Subscription, ...]) -> None:
        self.subscriptions.pop(hook, None)
        if wanted:
            self.subscriptions[hook] = wanted

    def add(self, notices: Iterable[Notice]) -> None:
        for notice in notices:
            kept = structs.replace(notice, handlers=())
            for hook, wanted in self.subscriptions.items():
                if any(_matches(notice, *one) for one in wanted):
                    self._add(Delivery("", hook, "", kept, next_at=0))
            for name in self.handlers.names(notice):
                self._add(Delivery("", "", name, kept, next_at=0))

    def put(self, delivery: Delivery) -> None:
        if int(delivery.id) in self.rows:
            self.rows[int(delivery.id)] = delivery

    def remove(self, id: str) -> None:
        self.rows.pop(int(id), None)

    def clear(self, hook: str, before: int | None) -> None:
        self.rows = {
            number: row
            for number, row in self.rows.items()
            if row.hook != hook or (before is not None and (row.state == "pending" or row.notice.at >= before))
        }

    def _add(self, delivery: Delivery) -> None:
        self.last += 1
        self.rows[self.last] = attrs.evolve(delivery, id=str(self.last))


def _matches(notice: Notice, event: str, workflow_id: int | None) -> bool:
    target = ("workflow", workflow_id)
    return event == notice.event and (workflow_id is None or target == (notice.kind, notice.resource_id))


@attrs.define
class MemoryDeliveries:
    """Implements the port `DeliveryRepository` within one transaction: a copy, and the changes to repeat at commit."""

    log: DeliveryLog
    draft: DeliveryLog = attrs.field(init=False)
    changes: list[Change] = attrs.field(init=False, factory=list)

    @draft.default
    def _copy(self) -> DeliveryLog:
        return self.log.copy()

    def commit(self) -> None:
        for change in self.changes:
            change(self.log)

    async def subscribe(self, hook: str, events: Collection[str], workflow_id: int | None = None) -> None:
        wanted = tuple((event, workflow_id) for event in events)
        self._apply(lambda log: log.subscribe(hook, wanted))

    async def add(self, notices: Iterable[Notice]) -> None:
        given = list(notices)
        self._apply(lambda log: log.add(given))

    async def get(self, id: str) -> Delivery | None:
        number = parse_id(id)
        return None if number is None else self.draft.rows.get(number)

    async def page(self, hook: str, *, limit: int, before: str | None = None) -> list[Delivery]:
        found = [
            row
            for number, row in sorted(self.draft.rows.items(), reverse=True)
            if row.hook == hook and (before is None or number < int(before))
        ]
        return found[:limit]

    async def put(self, delivery: Delivery) -> None:
        self._apply(lambda log: log.put(delivery))

    async def remove(self, id: str) -> None:
        self._apply(lambda log: log.remove(id))

    async def clear(self, hook: str, before: int | None = None) -> None:
        self._apply(lambda log: log.clear(hook, before))

    def _apply(self, change: Change) -> None:
        change(self.draft)
        self.changes.append(change)
