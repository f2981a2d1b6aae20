"""Shared use cases of records that belong to an organization as a whole: read, list, create once, delete.

Only the token scopes of their `area` are checked: every member sees all records of the organization.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Generic, Protocol, TypeVar

from wfcore.domain.kernel.errors import NotFound
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal
from wfcore.ports.storage import Identified, RecordRepository, UnitOfWork
from wfcore.runtime.common.audit import audit
from wfcore.runtime.common.authorization import needs
from wfcore.runtime.common.idempotency import store_response, stored_response
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.common.preconditions import check_match


class OrganizationRecord(Identified, Protocol):
    """A row with a representation on the wire."""

    def to_wire(self) -> dict[str, JSON]: ...


Record = TypeVar("Record", bound=OrganizationRecord)


class RecordServiceBase(Generic[Record]):
    """The base class. A subclass defines the repository of its records, their audit details and their view."""

    area: ClassVar[str]
    kind: ClassVar[str]

    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    @needs("*:read")
    async def page(self, me: Principal, *, limit: int = 25, after: str = "") -> list[Record]:
        """By id, which is the order of creation, ids greater than `after`."""
        async with self._ports.storage.reading(me.org_uuid) as work:
            return [await self._view(work, me, row) for row in await self._rows(work).page(limit=limit, after=after)]

    @needs("*:read")
    async def get(self, me: Principal, id: str) -> Record:
        """One record. NotFound for an unknown id."""
        async with self._ports.storage.reading(me.org_uuid) as work:
            return await self._view(work, me, await self._found(work, id))

    @needs("*:write")
    async def delete(self, me: Principal, id: str, *, if_match: str | None = None) -> Record:
        """Delete the record permanently. Returns it as it was. An outdated ETag `if_match` is a Conflict."""
        async with self._ports.storage.transaction(me.org_uuid) as work:
            row = await self._found(work, id)
            view = await self._view(work, me, row)
            check_match(if_match, view.to_wire())
            await self._rows(work).remove(id)
            await self._audit(work, me, "delete", row)
            return view

    # Parts

    @abstractmethod
    def _rows(self, work: UnitOfWork) -> RecordRepository[Record]: ...

    @abstractmethod
    def _details(self, row: Record) -> dict[str, JSON]:
        """The details of a row for the audit."""

    async def _view(self, work: UnitOfWork, me: Principal, row: Record) -> Record:
        """The row as this principal sees it."""
        return row

    async def _found(self, work: UnitOfWork, id: str) -> Record:
        row = await self._rows(work).get(id)
        if row is None:
            raise NotFound
        return row

    async def _create(
        self,
        me: Principal,
        row: Record,
        *,
        key: str | None,
        request: JSON,
        former: Sequence[JSON] = (),
        redact: Callable[[Record], Record] = lambda row: row,
    ) -> Record:
        """Add the row, unless the same request has created one before, also as one of `former` (`stored_response`).

        `redact` makes the response that is stored.
        """
        async with self._ports.storage.transaction(me.org_uuid) as work:
            if kept := await stored_response(work, me, self.kind, key, request, type(row), former=former):
                return kept
            await self._check(work, row)
            await self._rows(work).add(row)
            view = await self._view(work, me, row)
            await store_response(work, me, self.kind, key, request, redact(view))
            await self._audit(work, me, "create", row)
            return view

    async def _check(self, work: UnitOfWork, row: Record) -> None:
        """Raises an error for a new row that refers to what does not exist."""

    async def _save(self, work: UnitOfWork, me: Principal, new: Record, data: Mapping[str, JSON]) -> Record:
        """Save a changed row; the audit names the fields of the body."""
        await self._rows(work).save(new)
        await self._audit(work, me, "update", new, changed=sorted(data))
        return await self._view(work, me, new)

    async def _audit(self, work: UnitOfWork, me: Principal, verb: str, row: Record, **more: JSON) -> None:
        await audit(work, me, self._ports.now(), self.kind, verb, row.id, self._details(row) | more)
