"""The interface rows of workflows: by which doors each can be reached (interface, workflow interfaces)."""

from collections.abc import Mapping

import attrs

from wfcore.domain.access import Principal
from wfcore.domain.codec import check
from wfcore.domain.errors import JSON, NotFound, refuse
from wfcore.domain.interfaces import Interface, InterfaceKind
from wfcore.domain.lifecycle import Operation, move
from wfcore.domain.management_shapes import CreateInterface, PatchInterface
from wfcore.domain.resources import Kind
from wfcore.ports.storage import UnitOfWork
from wfcore.runtime.audit import audit
from wfcore.runtime.context import needs
from wfcore.runtime.idempotency import keep_answer, kept_answer
from wfcore.runtime.resource_base import ResourceBase
from wfcore.runtime.wire import key_issues, wire_body


class Interfaces(ResourceBase):
    """All of it takes the management of the workflow, whose number comes after the principal.

    `if_match` is an ETag of the workflow: stale is a Conflict.
    """

    kind, area = Kind.WORKFLOW, "workflows"

    @needs("*:write")
    async def create(
        self,
        me: Principal,
        workflow: int,
        body: Mapping[str, JSON] | None = None,
        *,
        key: str | None = None,
        if_match: str | None = None,
        **fields: JSON,
    ) -> Interface:
        """Add a row. `key` is an Idempotency-Key: the same key and body give the same answer."""
        data = wire_body(body, fields)
        refuse([*key_issues(key), *check(CreateInterface, data)])
        asked = [workflow, data]
        async with self._ports.storage.transaction(me.org_uuid) as work:
            if kept := await kept_answer(work, me, "interface", key, asked, Interface):
                return kept
            await self._writable(work, me, workflow, if_match)
            kind, config = InterfaceKind(data["kind"]), data.get("config", {})
            row = Interface(self._ports.ids.uuid(), workflow, kind, config, self._ports.now())
            await work.interfaces.add(row)
            await keep_answer(work, me, "interface", key, asked, row)
            await self._note(work, me, "create", row)
        return row

    @needs("*:read")
    async def page(self, me: Principal, workflow: int, *, limit: int = 25, after: str = "") -> list[Interface]:
        """By id, ascending, ids greater than `after`."""
        async with self._ports.storage.reading(me.org_uuid) as work:
            await self._managed(work, me, workflow)
            return await work.interfaces.page(workflow, limit=limit, after=after)

    @needs("*:read")
    async def get(self, me: Principal, workflow: int, id: str) -> Interface:
        async with self._ports.storage.reading(me.org_uuid) as work:
            await self._managed(work, me, workflow)
            return await _found(work, workflow, id)

    @needs("*:write")
    async def patch(
        self,
        me: Principal,
        workflow: int,
        id: str,
        body: Mapping[str, JSON] | None = None,
        *,
        if_match: str | None = None,
        **fields: JSON,
    ) -> Interface:
        """Replace the `config`; the kind stays what it is."""
        data = wire_body(body, fields)
        refuse(check(PatchInterface, data))
        async with self._ports.storage.transaction(me.org_uuid) as work:
            await self._writable(work, me, workflow, if_match)
            old = await _found(work, workflow, id)
            row = attrs.evolve(old, config=data.get("config", old.config))
            await work.interfaces.save(row)
            await self._note(work, me, "update", row)
        return row

    @needs("*:write")
    async def delete(self, me: Principal, workflow: int, id: str, *, if_match: str | None = None) -> Interface:
        """Remove one row, which is returned as it was."""
        async with self._ports.storage.transaction(me.org_uuid) as work:
            await self._writable(work, me, workflow, if_match)
            row = await _found(work, workflow, id)
            await work.interfaces.remove(workflow, id)
            await self._note(work, me, "delete", row)
        return row

    @needs("*:write")
    async def clear(self, me: Principal, workflow: int, *, if_match: str | None = None) -> int:
        """Remove every row; how many there were (interface, Remove every interface from a workflow)."""
        async with self._ports.storage.transaction(me.org_uuid) as work:
            await self._writable(work, me, workflow, if_match)
            deleted = await work.interfaces.clear(workflow)
            if deleted:
                details = {"deleted": deleted}
                await audit(work, me, self._ports.now(), self.kind, "clear_interfaces", str(workflow), details)
        return deleted

    # Parts

    async def _writable(self, work: UnitOfWork, me: Principal, workflow: int, if_match: str | None) -> None:
        move((await self._managed(work, me, workflow, if_match)).status, Operation.EDIT)

    async def _note(self, work: UnitOfWork, me: Principal, verb: str, row: Interface) -> None:
        details = {"workflowId": row.workflow_id, "kind": row.kind.value}
        await audit(work, me, self._ports.now(), "interface", verb, row.id, details)


async def _found(work: UnitOfWork, workflow: int, id: str) -> Interface:
    row = await work.interfaces.get(workflow, id)
    if row is None:
        raise NotFound
    return row
