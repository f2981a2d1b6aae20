"""What a picture of a graph writes into a node: its id, and what it does."""

from typing import Final

from wfcore.domain.graph.node_types import NODE_TYPES, NodeType
from wfcore.domain.graph.structure import Node

LONGEST: Final = 28
"""The most characters of a line."""


def label_of(node: Node) -> tuple[str, str]:
    """Two lines, each at most `LONGEST` characters: the id, and the tool, skill or type."""
    return clipped(node.id), clipped(_what(node))


def clipped(text: str) -> str:
    flat = " ".join(printable(text).split())
    return flat if len(flat) <= LONGEST else flat[: LONGEST - 1] + "…"


def printable(text: str) -> str:
    """The text with `?` for what XML does not allow, as control characters and halves of surrogate pairs."""
    return "".join(each if each.isprintable() or each.isspace() else "?" for each in text)


def _what(node: Node) -> str:
    if node.type is NodeType.ACTION and isinstance(tool := node.data.get("toolId"), str):
        return tool + (" for each" if "forEach" in node.data else "")
    if node.type is NodeType.AGENT and "agent_id" in node.data:
        return f"skill {node.data['agent_id']}"
    return NODE_TYPES[node.type].title
