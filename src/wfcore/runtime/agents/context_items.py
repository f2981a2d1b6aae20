"""Context items: an organization's texts for all its agents (interface, functional areas: organization context)."""

from typing import ClassVar, Unpack

import attrs

from wfcore.api.contexts import ContextItemFields, CreateContextItem, PatchContextItem
from wfcore.domain.agents.context_items import ContextItem
from wfcore.domain.json.values import UNSET, to_json
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal
from wfcore.ports.storage import RecordRepository, UnitOfWork
from wfcore.runtime.common.authorization import needs
from wfcore.runtime.common.bodies import Tree, parsed
from wfcore.runtime.common.organization_records import RecordServiceBase
from wfcore.runtime.common.preconditions import check_match


class ContextItems(RecordServiceBase[ContextItem]):
    """The context items of the caller's organization."""

    area: ClassVar = "context"
    kind: ClassVar = "context_item"

    @needs("*:write")
    async def create(
        self,
        me: Principal,
        body: CreateContextItem | Tree | None = None,
        *,
        key: str | None = None,
        **fields: Unpack[ContextItemFields],
    ) -> ContextItem:
        """Create a context item. `key` is an Idempotency-Key: the same key and body return the same response."""
        new = parsed(CreateContextItem, body, fields, key=key)
        now = self._ports.now()
        item = ContextItem(self._ports.ids.uuid(), new.title, new.content, now, now)
        return await self._create(me, item, key=key, request=to_json(new))

    @needs("*:write")
    async def patch(
        self,
        me: Principal,
        id: str,
        body: PatchContextItem | Tree | None = None,
        *,
        if_match: str | None = None,
        **fields: Unpack[ContextItemFields],
    ) -> ContextItem:
        """Change the given fields. An outdated ETag `if_match` is a Conflict."""
        changes = parsed(PatchContextItem, body, fields)
        async with self._ports.storage.transaction(me.org_uuid) as work:
            old = await self._found(work, id)
            check_match(if_match, old.to_wire())
            title = old.title if changes.title is UNSET else changes.title
            content = old.content if changes.content is UNSET else changes.content
            if (title, content) == (old.title, old.content):
                return old
            new = attrs.evolve(old, title=title, content=content, updated_at=self._ports.now())
            return await self._save(work, me, new, to_json(changes))

    def _rows(self, work: UnitOfWork) -> RecordRepository[ContextItem]:
        return work.context_items

    def _details(self, row: ContextItem) -> dict[str, JSON]:
        return {"title": row.title}
