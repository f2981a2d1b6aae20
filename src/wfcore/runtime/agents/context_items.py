"""Context items: an organization's texts for all its agents (interface, functional areas: organization context)."""

from collections.abc import Mapping
from typing import ClassVar

import attrs

from wfcore.api.contexts import CreateContextItem, PatchContextItem
from wfcore.domain.agents.context_items import ContextItem
from wfcore.domain.json.codec import check
from wfcore.domain.kernel.errors import refuse
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal
from wfcore.ports.storage import RecordRepository, UnitOfWork
from wfcore.runtime.common.authorization import needs
from wfcore.runtime.common.organization_records import RecordServiceBase
from wfcore.runtime.common.requests import key_issues, wire_body


class ContextItems(RecordServiceBase[ContextItem]):
    """The context items of the caller's organization."""

    area: ClassVar = "context"
    kind: ClassVar = "context_item"

    @needs("*:write")
    async def create(
        self, me: Principal, body: Mapping[str, JSON] | None = None, *, key: str | None = None, **fields: JSON
    ) -> ContextItem:
        """Create a context item. `key` is an Idempotency-Key: the same key and body return the same response."""
        data = wire_body(body, fields)
        refuse([*key_issues(key), *check(CreateContextItem, data)])
        now = self._ports.now()
        item = ContextItem(self._ports.ids.uuid(), data["title"], data["content"], now, now)
        return await self._create(me, item, key=key, request=data)

    @needs("*:write")
    async def patch(
        self, me: Principal, id: str, body: Mapping[str, JSON] | None = None, **fields: JSON
    ) -> ContextItem:
        """Change the given fields."""
        data = wire_body(body, fields)
        refuse(check(PatchContextItem, data))
        async with self._ports.storage.transaction(me.org_uuid) as work:
            old = await self._found(work, id)
            title, content = data.get("title", old.title), data.get("content", old.content)
            if (title, content) == (old.title, old.content):
                return old
            new = attrs.evolve(old, title=title, content=content, updated_at=self._ports.now())
            return await self._save(work, me, new, data)

    def _rows(self, work: UnitOfWork) -> RecordRepository[ContextItem]:
        return work.context_items

    def _details(self, row: ContextItem) -> dict[str, JSON]:
        return {"title": row.title}
