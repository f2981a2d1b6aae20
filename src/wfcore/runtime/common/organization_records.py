"""What is done alike with rows that belong to an organization as a whole: read, list, create once, remove.

The token scopes of their `area` decide alone: every member sees all rows of the organization.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import ClassVar, Generic

from wfcore.domain.kernel.errors import NotFound
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal
from wfcore.ports.storage import RecordRepository, Row, UnitOfWork
from wfcore.runtime.common.audit import audit
from wfcore.runtime.common.authorization import needs
from wfcore.runtime.common.idempotency import keep_answer, kept_answer
from wfcore.runtime.common.ports import Ports


class RecordServiceBase(Generic[Row]):
    """The base: a kind of rows says where they are kept, and how they are seen."""

    area: ClassVar[str]
    kind: ClassVar[str]

    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    @needs("*:read")
    async def page(self, me: Principal, *, limit: int = 25, after: str = "") -> list[Row]:
        """By id, which is the order of creation, ids greater than `after`."""
        async with self._ports.storage.reading(me.org_uuid) as work:
            return [self._seen(row) for row in await self._rows(work).page(limit=limit, after=after)]

    @needs("*:read")
    async def get(self, me: Principal, id: str) -> Row:
        async with self._ports.storage.reading(me.org_uuid) as work:
            return self._seen(await self._found(work, id))

    @needs("*:write")
    async def delete(self, me: Principal, id: str) -> Row:
        """Remove it for good; it is returned as it was."""
        async with self._ports.storage.transaction(me.org_uuid) as work:
            row = await self._found(work, id)
            await self._rows(work).remove(id)
            await self._note(work, me, "delete", row)
            return self._seen(row)

    # Parts

    @abstractmethod
    def _rows(self, work: UnitOfWork) -> RecordRepository[Row]: ...

    @abstractmethod
    def _details(self, row: Row) -> dict[str, JSON]:
        """What the audit tells of a row."""

    def _seen(self, row: Row) -> Row:
        return row

    async def _found(self, work: UnitOfWork, id: str) -> Row:
        row = await self._rows(work).get(id)
        if row is None:
            raise NotFound
        return row

    async def _create(
        self, me: Principal, row: Row, *, key: str | None, asked: JSON, shown: Callable[[Row], Row] = lambda row: row
    ) -> Row:
        """Add the row, unless this request made one earlier. `shown` is what of it is kept as the answer."""
        async with self._ports.storage.transaction(me.org_uuid) as work:
            if kept := await kept_answer(work, me, self.kind, key, asked, type(row)):
                return kept
            await self._rows(work).add(row)
            await keep_answer(work, me, self.kind, key, asked, shown(row))
            await self._note(work, me, "create", row)
        return row

    async def _save(self, work: UnitOfWork, me: Principal, new: Row, data: Mapping[str, JSON]) -> Row:
        """Keep a row that a body changed; the audit names the fields of the body."""
        await self._rows(work).save(new)
        await self._note(work, me, "update", new, changed=sorted(data.keys() - {"organizationId"}))
        return self._seen(new)

    async def _note(self, work: UnitOfWork, me: Principal, verb: str, row: Row, **more: JSON) -> None:
        await audit(work, me, self._ports.now(), self.kind, verb, row.id, self._details(row) | more)
