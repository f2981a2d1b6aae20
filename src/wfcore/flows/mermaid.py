"""A graph as a flow chart in Mermaid (https://mermaid.js.org/syntax/flowchart.html)."""

from collections.abc import Mapping
from typing import Final

from wfcore.domain.graph.node_types import NodeType
from wfcore.domain.graph.structure import Graph
from wfcore.flows.labels import label_of

_SHAPES: Final[Mapping[NodeType, tuple[str, str]]] = {
    NodeType.START: ("([", "])"),
    NodeType.ACTION: ("[", "]"),
    NodeType.CONDITION: ("{", "}"),
    NodeType.AGENT: ("[[", "]]"),
    NodeType.HUMAN_APPROVAL: ("{{", "}}"),
}


def mermaid(graph: Graph) -> str:
    """The chart, from top to bottom. Ids and texts of the graph are quoted."""
    names = {node.id: f"n{index}" for index, node in enumerate(graph.nodes)}
    lines = ["flowchart TD"]
    for node in graph.nodes:
        opening, closing = _SHAPES[node.type]
        text = "<br/>".join(_quoted(line) for line in label_of(node))
        lines.append(f'    {names[node.id]}{opening}"{text}"{closing}')
    for edge in graph.edges:
        arrow = "-->" if edge.source_handle is None else f'-->|"{_quoted(edge.source_handle)}"|'
        lines.append(f"    {names[edge.source]} {arrow} {names[edge.target]}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """The text with entities for what has a meaning in Mermaid, Markdown and HTML."""
    return "".join(each if each.isalnum() or each in " .,-_:?!/" else f"#{ord(each)};" for each in text)
