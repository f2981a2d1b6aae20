"""The interface rows of one organization, in a dict."""

from copy import deepcopy

import attrs

from wfcore.domain.channels.interfaces import Interface
from wfcore.ports.storage import Duplicate, Stale

InterfaceKey = tuple[int, str]
"""The id of a workflow, and the id of one of its interfaces."""


@attrs.frozen
class MemoryInterfaces:
    """Implements the port `InterfaceRepository`."""

    rows: dict[InterfaceKey, Interface]

    async def add(self, interface: Interface) -> None:
        if (interface.workflow_id, interface.id) in self.rows:
            raise Duplicate("interfaces")
        self.rows[interface.workflow_id, interface.id] = deepcopy(interface)

    async def get(self, workflow_id: int, id: str) -> Interface | None:
        return deepcopy(self.rows.get((workflow_id, id)))

    async def page(self, workflow_id: int, *, limit: int, after: str = "") -> list[Interface]:
        keys = sorted(key for key in self.rows if key[0] == workflow_id and key[1] > after)
        return [deepcopy(self.rows[key]) for key in keys[:limit]]

    async def save(self, interface: Interface) -> None:
        key = (interface.workflow_id, interface.id)
        if key not in self.rows:
            raise Stale(f"interface {interface.id}")
        self.rows[key] = attrs.evolve(self.rows[key], config=deepcopy(interface.config), sealed=interface.sealed)

    async def remove(self, workflow_id: int, id: str) -> None:
        self.rows.pop((workflow_id, id), None)

    async def clear(self, workflow_id: int) -> int:
        keys = [key for key in self.rows if key[0] == workflow_id]
        for key in keys:
            del self.rows[key]
        return len(keys)
