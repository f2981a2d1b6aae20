"""Delivers events to hooks and to the handlers of the embedding program, each at least once.

The deliveries are rows that were written with the events. A hook reports what its maker may use when it is delivered;
anything else is dropped. A handler gets the events of all organizations.
"""

import asyncio
import inspect
import json
import logging
from collections.abc import Sequence
from typing import Final

import attrs

from wfcore.domain.channels.hooks import DeliveryState, Hook, message_of, wait_after
from wfcore.domain.json.codec import dumps, from_ms
from wfcore.domain.kernel.errors import Forbidden, NotFound
from wfcore.domain.projections.notices import Notice
from wfcore.domain.resources.access import Principal
from wfcore.domain.resources.resource import Kind
from wfcore.ports.faults import is_failure
from wfcore.ports.repositories.hooks import Attempt, Delivery, DueDelivery
from wfcore.ports.storage import UnitOfWork
from wfcore.runtime.channels.delivery_loop import CLAIM_DURATION, Answer, DeliveryLoop, post_signed
from wfcore.runtime.channels.hooks import open_secrets, webhook_id_of
from wfcore.runtime.common.arguments import checks_arguments
from wfcore.runtime.common.audit import audit
from wfcore.runtime.common.authorization import authorize
from wfcore.runtime.common.handlers import Handler, HookEvent
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.common.threads import in_thread
from wfcore.runtime.organization.directory import known_principal

log = logging.getLogger("wfcore.notifier")

HANDLER_SECONDS: Final = 50.0
"""How long a coroutine handler can take: less than the duration of a claim."""

ATTEMPTS_KEPT: Final = 50
"""How many of the latest attempts a delivery keeps."""

KEPT_FOR: Final = 30 * 24 * 3_600_000
"""Milliseconds for which the log of a hook keeps deliveries that are not pending."""

_GONE: Final = 410

_Claimed = tuple[Delivery, Hook | None]


class Notifier(DeliveryLoop[DueDelivery]):
    """Delivers events of every organization, concurrently with other processes."""

    def __init__(self, ports: Ports) -> None:
        super().__init__(ports, "deliveries of events")
        self._registered: dict[str, str] = {}

    async def register(self) -> None:
        """Make the store keep deliveries for the handlers of this process, also in other processes."""
        handlers = self._ports.handlers
        for name in handlers.names:
            event = handlers.event_of(name)
            if self._registered.get(name) != event:
                await self._ports.storage.register_handler(name, [event])
                self._registered[name] = event
                self._listed_at = None

    @checks_arguments
    async def forget(self, name: str) -> None:
        """End the registration of a handler, and delete its deliveries."""
        self._ports.handlers.remove(name)
        self._registered.pop(name, None)
        await self._ports.storage.register_handler(name, [])

    async def _due(self, now: int, limit: int) -> Sequence[DueDelivery]:
        await self.register()
        storage = self._ports.storage
        found = list(await storage.due_deliveries(now, limit=limit))
        for name in self._ports.handlers.names:
            found += await storage.due_deliveries(now, handler=name, limit=limit)
        return found

    async def _deliver(self, due: DueDelivery) -> None:
        claimed = await self._claim(due)
        if claimed is None:
            return
        delivery, hook = claimed
        begun, at = self._ports.clock.monotonic(), self._ports.clock.now()
        answer = await (self._call(due.org, delivery) if hook is None else self._post(due.org, hook, delivery))
        attempt = Attempt(at, answer.status, answer.error, self._ports.clock.monotonic() - begun)
        await self._record(due.org, delivery, attempt, is_accepted=answer.is_accepted)

    async def _correct(self, due: DueDelivery, now: int) -> None:
        async with self._ports.storage.reading(due.org) as work:
            read = await work.deliveries.get(due.id)
        if read is None or read.next_at is None or read.next_at <= now + _wait_of(read):
            return
        async with self._ports.storage.transaction(due.org) as work:
            if await work.deliveries.get(due.id) == read:
                await work.deliveries.put(attrs.evolve(read, next_at=now + _wait_of(read)))

    # Claims

    async def _claim(self, due: DueDelivery) -> _Claimed | None:
        """Claim the delivery; None when it is not due any more, or must not be made."""
        now = self._ports.clock.now()
        async with self._ports.storage.transaction(due.org) as work:
            read = await work.deliveries.get(due.id)
            if read is None or read.next_at is None or read.next_at > now or not self._is_free(due, read):
                return None
            hook = await work.hooks.get(read.hook) if read.hook else None
            if read.hook and (hook is None or not await self._may_report(work, due.org, hook, read.notice)):
                await work.deliveries.remove(read.id)
                return None
            if hook is not None and not hook.is_enabled:
                await work.deliveries.put(attrs.evolve(read, state="failed", next_at=None))
                return None
            body = read.body or dumps(message_of(read.notice, due.org, self._ports.settings.public_url))
            claimed = attrs.evolve(read, next_at=now + CLAIM_DURATION, tries=-abs(read.tries) - 1, body=body)
            await work.deliveries.put(claimed)
        return claimed, hook

    async def _may_report(self, work: UnitOfWork, org: str, hook: Hook, notice: Notice) -> bool:
        """Whether the hook's maker may use now what the notice is about."""
        maker = await known_principal(work, org, hook.user_id)
        if maker is None:
            return False
        if notice.resource_id is None:
            return maker.user_id == notice.user_id
        return await _may_use(work, maker, notice)

    # Attempts

    async def _post(self, org: str, hook: Hook, delivery: Delivery) -> Answer:
        secrets = open_secrets(self._ports, org, hook)
        if not secrets:
            return Answer(None, "the secret of this hook cannot be read with the key of this installation: rotate it")
        body = (delivery.body or "").encode()
        return await post_signed(self._ports, hook.url, secrets, webhook_id_of(delivery), body)

    async def _call(self, org: str, delivery: Delivery) -> Answer:
        """Call the handler of the delivery. 200 stands for its success."""
        function = self._ports.handlers.function(delivery.handler)
        if function is None:
            return Answer(None, "the handler is not registered any more")
        message = json.loads(delivery.body or "")
        notice = delivery.notice
        event = HookEvent(f"{org}:{delivery.id}", notice.event, from_ms(notice.at), message["data"])
        try:
            async with asyncio.timeout(HANDLER_SECONDS):
                await _called(function, event)
        except BaseException as error:
            if not is_failure(error):
                raise
            details = {"handler": delivery.handler, "event": notice.event, "organization": org, "run": notice.run_id}
            log.exception("a handler failed; the event is delivered again later", extra=details)
            return Answer(None, type(error).__name__)
        return Answer(200)

    # Outcomes

    async def _record(self, org: str, claimed: Delivery, attempt: Attempt, *, is_accepted: bool) -> None:
        """Record the attempt: delivered, to be retried, or given up; nothing if another process has claimed it."""
        async with self._ports.storage.transaction(org) as work:
            read = await work.deliveries.get(claimed.id)
            if read is None or (read.next_at, read.tries) != (claimed.next_at, claimed.tries):
                return
            attempts = (*read.attempts, attempt)[-ATTEMPTS_KEPT:]
            read = attrs.evolve(read, tries=-read.tries)
            wait = None if is_accepted or attempt.status == _GONE else wait_after(read.tries)
            state: DeliveryState = "delivered" if is_accepted else "failed" if wait is None else "pending"
            next_at = None if wait is None else self._ports.clock.now() + wait
            if read.handler and state != "pending":
                await work.deliveries.remove(read.id)
                if state == "failed":
                    log.error("a handler never succeeded; the event is dropped", extra={"handler": read.handler})
                return
            await work.deliveries.put(attrs.evolve(read, state=state, next_at=next_at, attempts=attempts))
            await self._after(work, read, attempt, state)

    async def _after(self, work: UnitOfWork, delivery: Delivery, attempt: Attempt, state: DeliveryState) -> None:
        """What follows for the hook: old rows are deleted, a failure is audited, and 410 switches it off."""
        now = self._ports.clock.now()
        if state != "pending" and delivery.hook:
            await work.deliveries.clear(delivery.hook, before=now - KEPT_FOR)
        hook = await work.hooks.get(delivery.hook) if delivery.hook else None
        if hook is None or state != "failed":
            return
        await audit(work, None, self._ports.now(), "hook", "give_up", hook.id, {"deliveryId": delivery.id})
        if attempt.status == _GONE and hook.is_enabled:
            await work.hooks.save(attrs.evolve(hook, is_enabled=False))
            await work.deliveries.subscribe(hook.id, ())
            await audit(work, None, self._ports.now(), "hook", "disable", hook.id, {"reason": "gone"})


def _wait_of(pending: Delivery) -> int:
    """The most milliseconds until the next attempt of a pending delivery."""
    if pending.is_claimed:
        return CLAIM_DURATION
    return (wait_after(pending.tries) or 0) if pending.tries else 0


async def _may_use(work: UnitOfWork, maker: Principal, notice: Notice) -> bool:
    try:
        authorize(maker, await work.resources(Kind(notice.kind)).get(notice.resource_id or 0), "use")
    except (NotFound, Forbidden):
        return False
    return True


async def _called(function: Handler, event: HookEvent) -> None:
    """Call a coroutine function on the loop, and any other function in a thread."""
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):
        await function(event)
        return
    result = await in_thread(function, event)
    if inspect.isawaitable(result):
        await result
