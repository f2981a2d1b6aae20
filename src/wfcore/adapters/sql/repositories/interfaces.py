"""The interface rows of one organization, in a table."""

import json
from typing import Any, Final

import attrs

from wfcore.adapters.sql.repositories.row_values import from_ms, to_json, to_ms
from wfcore.adapters.sql.schema.deferred import dialect, sa
from wfcore.adapters.sql.schema.named_tables import interfaces, organizations
from wfcore.adapters.sql.schema.statement import Statement
from wfcore.adapters.sql.store import Transaction
from wfcore.domain.channels.interfaces import Interface, InterfaceKind
from wfcore.domain.resources.resource import Kind
from wfcore.ports.storage import Duplicate, FoundInterface, Stale

FIND: Final = Statement(
    lambda d: (
        f"""
SELECT o.uuid, i.id, i.resource_id, i.kind, i.config, i.created_at, i.sealed, i.target
FROM {d[interfaces]} i JOIN {d[organizations]} o ON o.key = i.org WHERE i.id = {d[1]}"""
    )
)
"""An interface of any organization, by an index on its id."""


@attrs.frozen
class SqlInterfaces:
    """Implements the port `InterfaceRepository` within one transaction. `org` is the organization's key."""

    connection: Transaction
    org: int

    async def add(self, interface: Interface) -> None:
        done = await self.connection.execute(dialect.insert_new(interfaces).values({"org": self.org} | _row(interface)))
        if not done.rowcount:
            raise Duplicate("interfaces")

    async def get(self, workflow_id: int, id: str) -> Interface | None:
        found = sa.select(interfaces).where(*self._of(workflow_id), interfaces.c.id == id)
        row = (await self.connection.execute(found)).first()
        return _interface_of_row(row) if row else None

    async def page(self, workflow_id: int, *, limit: int, after: str = "") -> list[Interface]:
        found = sa.select(interfaces).where(*self._of(workflow_id), interfaces.c.id > after)
        rows = (await self.connection.execute(found.order_by(interfaces.c.id).limit(limit))).all()
        return [_interface_of_row(row) for row in rows]

    async def of_skill(self, skill_id: int) -> list[Interface]:
        found = sa.select(interfaces).where(*self._of(skill_id, Kind.SKILL)).order_by(interfaces.c.id)
        return [_interface_of_row(row) for row in (await self.connection.execute(found)).all()]

    async def signed(self, *, limit: int, after: tuple[int, str] = (0, "")) -> list[Interface]:
        of, (number, last) = interfaces.c, after
        own = of.org == self.org, of.target == Kind.WORKFLOW.value, of.sealed.is_not(None)
        later = sa.or_(of.resource_id > number, sa.and_(of.resource_id == number, of.id > last))
        found = sa.select(interfaces).where(*own, later).order_by(of.resource_id, of.id).limit(limit)
        return [_interface_of_row(row) for row in (await self.connection.execute(found)).all()]

    async def save(self, interface: Interface) -> None:
        wanted = (*self._of(interface.resource_id, interface.target), interfaces.c.id == interface.id)
        values = {"config": to_json(interface.config), "sealed": interface.sealed}
        change = interfaces.update().where(*wanted).values(values)
        if not (await self.connection.execute(change)).rowcount:
            raise Stale(f"interface {interface.id}")

    async def remove(self, workflow_id: int, id: str) -> None:
        await self.connection.execute(interfaces.delete().where(*self._of(workflow_id), interfaces.c.id == id))

    async def clear(self, workflow_id: int) -> int:
        return (await self.connection.execute(interfaces.delete().where(*self._of(workflow_id)))).rowcount

    def _of(self, number: int, target: Kind = Kind.WORKFLOW) -> "tuple[sa.ColumnElement[bool], ...]":
        return interfaces.c.org == self.org, interfaces.c.target == target.value, interfaces.c.resource_id == number


def _row(interface: Interface) -> dict[str, Any]:
    return {
        "target": interface.target.value,
        "resource_id": interface.resource_id,
        "id": interface.id,
        "kind": interface.kind.value,
        "config": to_json(interface.config),
        "created_at": to_ms(interface.created_at),
        "sealed": interface.sealed,
    }


def _interface_of_row(row: "sa.Row[Any]") -> Interface:
    return _to_interface(row.id, row.resource_id, row.kind, row.config, row.created_at, row.sealed, row.target)


def _to_interface(
    id: str, number: int, kind: str, config: str, created_at: int, sealed: str | None, target: str
) -> Interface:
    return Interface(id, number, InterfaceKind(kind), json.loads(config), from_ms(created_at), sealed, Kind(target))


def to_found(org: str, *row: Any) -> FoundInterface:
    """The interface in a row of `FIND`."""
    return FoundInterface(org, _to_interface(*row))
