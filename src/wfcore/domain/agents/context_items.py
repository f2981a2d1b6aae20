"""Context items: texts of an organization for all of its agents (interface, functional areas: organization context)."""

from datetime import datetime

import attrs

from wfcore.domain.kernel.ids import iso
from wfcore.domain.kernel.json_type import JSON


@attrs.frozen
class ContextItem:
    """One text with a title."""

    id: str
    title: str
    content: str
    created_at: datetime
    updated_at: datetime

    def to_wire(self) -> dict[str, JSON]:
        return {
            "id": self.id,
            "title": self.title,
            "content": self.content,
            "createdAt": iso(self.created_at),
            "updatedAt": iso(self.updated_at),
        }
