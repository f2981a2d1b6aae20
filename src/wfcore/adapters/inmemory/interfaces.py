"""The interface rows of one organization, in a dict."""

from copy import deepcopy

import attrs

from wfcore.domain.channels.interfaces import Interface
from wfcore.domain.resources.resource import Kind
from wfcore.ports.storage import Duplicate, Stale

InterfaceKey = tuple[Kind, int, str]
"""A workflow or a skill, and the id of one of its interfaces."""


@attrs.frozen
class MemoryInterfaces:
    """Implements the port `InterfaceRepository`."""

    rows: dict[InterfaceKey, Interface]

    async def add(self, interface: Interface) -> None:
        if _key(interface) in self.rows:
            raise Duplicate("interfaces")
        self.rows[_key(interface)] = deepcopy(interface)

    async def get(self, workflow_id: int, id: str) -> Interface | None:
        return deepcopy(self.rows.get((Kind.WORKFLOW, workflow_id, id)))

    async def page(self, workflow_id: int, *, limit: int, after: str = "") -> list[Interface]:
        keys = [key for key in self._keys_of(Kind.WORKFLOW, workflow_id) if key[2] > after]
        return [deepcopy(self.rows[key]) for key in keys[:limit]]

    async def of_skill(self, skill_id: int) -> list[Interface]:
        return [deepcopy(self.rows[key]) for key in self._keys_of(Kind.SKILL, skill_id)]

    async def signed(self, *, limit: int, after: tuple[int, str] = (0, "")) -> list[Interface]:
        own = sorted(key for key, row in self.rows.items() if key[0] is Kind.WORKFLOW and row.sealed is not None)
        return [deepcopy(self.rows[key]) for key in own if key[1:] > after][:limit]

    async def save(self, interface: Interface) -> None:
        key = _key(interface)
        if key not in self.rows:
            raise Stale(f"interface {interface.id}")
        self.rows[key] = attrs.evolve(self.rows[key], config=deepcopy(interface.config), sealed=interface.sealed)

    async def remove(self, workflow_id: int, id: str) -> None:
        self.rows.pop((Kind.WORKFLOW, workflow_id, id), None)

    async def clear(self, workflow_id: int) -> int:
        keys = self._keys_of(Kind.WORKFLOW, workflow_id)
        for key in keys:
            del self.rows[key]
        return len(keys)

    def _keys_of(self, target: Kind, number: int) -> list[InterfaceKey]:
        return sorted(key for key in self.rows if key[:2] == (target, number))


def _key(interface: Interface) -> InterfaceKey:
    return interface.target, interface.resource_id, interface.id
