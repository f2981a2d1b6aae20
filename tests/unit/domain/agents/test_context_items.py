"""Context items of an organization."""

from datetime import UTC, datetime

from wfcore.domain.agents.context_items import ContextItem


def test_the_wire_form() -> None:
    """An item has an id, a title, a text and two instants."""
    at = datetime(2026, 1, 1, tzinfo=UTC)
    assert ContextItem("c1", "Rules", "Within 30 days.", at, at).to_wire() == {
        "id": "c1",
        "title": "Rules",
        "content": "Within 30 days.",
        "createdAt": "2026-01-01T00:00:00.000Z",
        "updatedAt": "2026-01-01T00:00:00.000Z",
    }
