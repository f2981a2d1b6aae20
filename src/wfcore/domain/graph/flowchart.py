"""A graph as a flow chart in Mermaid (https://mermaid.js.org/syntax/flowchart.html)."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from wfcore.domain.graph.node_types import NodeType
from wfcore.domain.graph.structure import Graph, Node

_SHAPES: Final[Mapping[NodeType, tuple[str, str]]] = {
    NodeType.START: ("([", "])"),
    NodeType.ACTION: ("[", "]"),
    NodeType.CONDITION: ("{", "}"),
    NodeType.AGENT: ("[[", "]]"),
    NodeType.HUMAN_APPROVAL: ("{{", "}}"),
}

TAKEN: Final = "#c2410c"
"""The colour of nodes and edges that stand out."""


def mermaid(
    graph: Graph,
    label: Callable[[Node], Iterable[str]] = lambda node: (node.id,),
    *,
    nodes: Iterable[str] = (),
    edges: Iterable[int] = (),
) -> str:
    """The chart, from top to bottom. `label` has the lines of a node; no character of a text is read as Mermaid.

    `nodes`, by id, and `edges`, by position, stand out.
    """
    names = {node.id: f"n{index}" for index, node in enumerate(graph.nodes)}
    lines = ["flowchart TD"]
    for node in graph.nodes:
        opening, closing = _SHAPES[node.type]
        text = "<br/>".join(map(_quoted, label(node)))
        lines.append(f'    {names[node.id]}{opening}"{text}"{closing}')
    for edge in graph.edges:
        arrow = "-->" if edge.source_handle is None else f'-->|"{_quoted(edge.source_handle)}"|'
        lines.append(f"    {names[edge.source]} {arrow} {names[edge.target]}")
    if shown := ",".join(names[name] for name in nodes):
        lines += [f"    classDef taken stroke:{TAKEN},stroke-width:3px", f"    class {shown} taken"]
    if taken := ",".join(map(str, edges)):
        lines.append(f"    linkStyle {taken} stroke:{TAKEN},stroke-width:3px")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """The text with entities for what has a meaning in Mermaid, Markdown and HTML."""
    return "".join(each if each.isalnum() or each in " .,-_:?!/" else f"#{ord(each)};" for each in text)
