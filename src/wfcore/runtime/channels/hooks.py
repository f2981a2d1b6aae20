"""Hooks: addresses that are notified of events (interface, decisions on hooks).

Every member with the scope sees all hooks of the organization. A hook reports what its maker may use. A member who
changes the hook of somebody else becomes its maker, so that nobody can redirect what only another member may see.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import ClassVar, Unpack

import attrs

from wfcore.api.hooks import CreateHook, CreateHookFields, HookFilter, PatchHook, PatchHookFields
from wfcore.domain.channels.hooks import Hook, hook_issues
from wfcore.domain.json.codec import iso_ms
from wfcore.domain.json.values import UNSET, UnsetType, given, to_json
from wfcore.domain.kernel.errors import Forbidden, Issue, NotFound, refuse
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal
from wfcore.domain.triggers.webhooks import secret_of
from wfcore.ports.repositories.hooks import Attempt, Delivery
from wfcore.ports.sealing import Unsealable, place_of_hook
from wfcore.ports.storage import RecordRepository, UnitOfWork
from wfcore.runtime.common.authorization import authorize, conflict, needs
from wfcore.runtime.common.bodies import Tree, parsed
from wfcore.runtime.common.idempotency import store_response, stored_response
from wfcore.runtime.common.organization_records import RecordServiceBase
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.common.preconditions import check_match

SECRET_LENGTH = 43
"""Characters of a hook's key: 256 bits."""


@attrs.frozen
class DeliveryView:
    """One delivery of a hook."""

    row: Delivery

    @property
    def id(self) -> str:
        return self.row.id

    def to_wire(self) -> dict[str, JSON]:
        row = self.row
        return {
            "id": row.id,
            "event": row.notice.event,
            "webhookId": webhook_id_of(row),
            "status": row.state,
            "attempts": [_attempt_to_wire(one) for one in row.attempts],
            "nextAttemptAt": None if row.next_at is None else iso_ms(row.next_at or _due_since(row)),
            "createdAt": iso_ms(row.notice.at),
        }


def _due_since(row: Delivery) -> int:
    """Since when a delivery is due that is due at once: its event or, when it is delivered again, its last attempt."""
    return max([row.notice.at, *(one.at + one.ms for one in row.attempts)])


def _attempt_to_wire(attempt: Attempt) -> dict[str, JSON]:
    return {"at": iso_ms(attempt.at), "status": attempt.status, "error": attempt.error, "ms": attempt.ms}


def webhook_id_of(delivery: Delivery) -> str:
    """The header `webhook-id` of every attempt."""
    return f"msg_{delivery.hook.replace('-', '')}_{delivery.id}"


def open_secrets(ports: Ports, org: str, hook: Hook) -> list[str]:
    """The secrets that sign now, the current one first; none when this installation lacks the key."""
    place = place_of_hook(org, hook.id)
    try:
        secrets = [ports.sealer.open(hook.sealed, *place)]
    except Unsealable:
        return []
    for _, sealed in hook.former_secrets(ports.clock.now()):
        with suppress(Unsealable):  # the hook was rotated because nobody can read this one any more
            secrets.append(ports.sealer.open(sealed, *place))
    return secrets


class Hooks(RecordServiceBase[Hook]):
    """The hooks of the caller's organization.

    A change with `connection` is written in the caller's transaction, on the same database: it exists if and only if
    the caller commits. ValueError for a connection to another database or without a transaction.
    """

    area: ClassVar = "hooks"
    kind: ClassVar = "hook"

    @needs("*:write")
    async def create(
        self,
        me: Principal,
        body: CreateHook | Tree | None = None,
        *,
        key: str | None = None,
        connection: object | None = None,
        **fields: Unpack[CreateHookFields],
    ) -> Hook:
        """Create a hook. The result has its secret, also when `key`, an Idempotency-Key, repeats the create."""
        new = parsed(CreateHook, body, fields, hook_issues, key=key)
        request = to_json(new)
        async with self._writing(me, connection) as work:
            if kept := await stored_response(work, me, self.kind, key, request, str):
                return self._with_secret(me.org_uuid, await self._found(work, kept))
            workflow_id = await self._workflow(work, me, new.filter)
            new_id = self._ports.ids.uuid()
            secret, sealed = self._new_secret(me.org_uuid, new_id)
            enabled = new.is_enabled is UNSET or bool(new.is_enabled)
            made = Hook(new_id, new.url, tuple(new.events), workflow_id, enabled, me.user_id, sealed)
            await work.hooks.add(made)
            await work.deliveries.subscribe(made.id, made.subscribed, workflow_id)
            await store_response(work, me, self.kind, key, request, new_id)
            await self._audit(work, me, "create", made)
        return attrs.evolve(made, secret=secret)

    @needs("*:write")
    async def patch(
        self,
        me: Principal,
        id: str,
        body: PatchHook | Tree | None = None,
        *,
        if_match: str | None = None,
        connection: object | None = None,
        **fields: Unpack[PatchHookFields],
    ) -> Hook:
        """Change the given fields. The caller becomes the maker, whose access the hook has from now on.

        An outdated ETag `if_match` is a Conflict.
        """
        changes = parsed(PatchHook, body, fields, hook_issues)
        async with self._writing(me, connection) as work:
            old = await self._found(work, id)
            check_match(if_match, old.to_wire())
            new = attrs.evolve(
                old,
                url=given(changes.url) or old.url,
                events=tuple(given(changes.events) or old.events),
                workflow_id=old.workflow_id if changes.filter is UNSET
                else await self._workflow(work, me, changes.filter),
                is_enabled=old.is_enabled if changes.is_enabled is UNSET else changes.is_enabled,
                user_id=me.user_id,
            )  # fmt: skip
            await work.deliveries.subscribe(id, new.subscribed, new.workflow_id)
            return await self._save(work, me, new, to_json(changes))

    @needs("*:write")
    async def delete(
        self, me: Principal, id: str, *, if_match: str | None = None, connection: object | None = None
    ) -> Hook:
        """Delete the hook with its deliveries. An outdated ETag `if_match` is a Conflict."""
        async with self._writing(me, connection) as work:
            row = await self._found(work, id)
            check_match(if_match, row.to_wire())
            await work.deliveries.subscribe(id, ())
            await work.deliveries.clear(id)
            await work.hooks.remove(id)
            await self._audit(work, me, "delete", row)
        return row

    @needs("*:write")
    async def rotate(
        self, me: Principal, id: str, *, if_match: str | None = None, connection: object | None = None
    ) -> Hook:
        """A new secret, which the result has. For 24 hours messages are signed with the old one too.

        A repeated rotation ends no earlier secret: the receiver can have the one from before the first.
        """
        async with self._writing(me, connection) as work:
            old = await self._found(work, id)
            check_match(if_match, old.to_wire())
            secret, sealed = self._new_secret(me.org_uuid, id)
            new = old.rotated(sealed, self._ports.clock.now())
            await work.hooks.save(new)
            await self._audit(work, me, "rotate", new)
        return attrs.evolve(new, secret=secret)

    @needs("*:read")
    async def deliveries(
        self, me: Principal, id: str, *, limit: int = 25, before: str | None = None
    ) -> list[DeliveryView]:
        """The deliveries of the hook, newest first, made before the one with the id `before`."""
        async with self._ports.storage.reading(me.org_uuid) as work:
            await self._found(work, id)
            return [DeliveryView(row) for row in await work.deliveries.page(id, limit=limit, before=before)]

    @needs("*:write")
    async def redeliver(
        self, me: Principal, id: str, delivery_id: str, *, connection: object | None = None
    ) -> DeliveryView:
        """Deliver again, now, with the same `webhook-id` and body. Conflict `disabled` for a hook that is off."""
        async with self._writing(me, connection) as work:
            hook, row = await self._found(work, id), await work.deliveries.get(delivery_id)
            if row is None or row.hook != id:
                raise NotFound
            if not hook.is_enabled:
                raise conflict("the hook is switched off", "disabled")
            new = attrs.evolve(row, state="pending", next_at=0, tries=0)
            await work.deliveries.put(new)
            await self._audit(work, me, "redeliver", hook, deliveryId=delivery_id)
        return DeliveryView(new)

    # Parts

    @asynccontextmanager
    async def _writing(self, me: Principal, connection: object | None) -> AsyncIterator[UnitOfWork]:
        storage = self._ports.storage if connection is None else await self._ports.storage.within(connection)
        async with storage.transaction(me.org_uuid) as work:
            yield work

    def _rows(self, work: UnitOfWork) -> RecordRepository[Hook]:
        return work.hooks

    def _details(self, row: Hook) -> dict[str, JSON]:
        return {"url": row.url, "events": list(row.events), "isEnabled": row.is_enabled}

    def _new_secret(self, org: str, id: str) -> tuple[str, str]:
        """A new secret, in clear text and sealed."""
        secret = secret_of(self._ports.ids.token(SECRET_LENGTH))
        return secret, self._ports.sealer.seal(secret, *place_of_hook(org, id))

    def _with_secret(self, org: str, hook: Hook) -> Hook:
        return attrs.evolve(hook, secret=next(iter(open_secrets(self._ports, org, hook)), None))

    async def _workflow(self, work: UnitOfWork, me: Principal, chosen: HookFilter | UnsetType | None) -> int | None:
        """The workflow of a filter. Invalid unless the caller can use it."""
        number = given(chosen.workflow_id) if isinstance(chosen, HookFilter) else None
        if number is None:
            return None
        try:
            authorize(me, await work.workflows.get(number), "use")
        except (NotFound, Forbidden):
            message = f"unknown workflow `{number}`: use the id of a workflow that you can use"
            refuse([Issue("filter.workflowId", message, "reference")])
        return number
