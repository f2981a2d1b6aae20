"""The shapes of variations and of their differences (interface, Variations)."""

from typing import TypedDict

from wfcore.domain.json.codec import JsonObject, Time


class VariationRecord(TypedDict):
    """One variation. `variation` is its content, as in a read of its resource."""

    id: str
    deployedAt: Time | None
    deployedBy: str | None
    createdAt: Time
    createdBy: str
    isActive: bool
    variation: JsonObject


class ChangedElement(TypedDict):
    """An element that both have, and the paths in it whose values differ."""

    id: str
    paths: list[str]


class ElementDifference(TypedDict):
    """Added and removed ids, and changed elements."""

    added: list[str]
    removed: list[str]
    changed: list[ChangedElement]


class VariationDifference(TypedDict):
    """`fields` are the paths outside of nodes and edges. Positions are not compared."""

    nodes: ElementDifference
    edges: ElementDifference
    fields: list[str]
