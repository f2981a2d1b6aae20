"""State diagrams of `mermaid` blocks as pictures: drawn by the layout of wfcore, without a script in the page."""

import re
from base64 import b64encode
from typing import Any
from xml.sax.saxutils import escape

from docutils import nodes
from sphinx.transforms import SphinxTransform

from wfcore.domain.graph.node_types import NodeType
from wfcore.domain.graph.structure import Edge, Graph, Node
from wfcore.flows.svg import svg

MOVE = re.compile(r"^ *(\S+) --> (\S+?)(?:: (.*))?$", re.MULTILINE)
MIDDLE = "text:not(.handle){transform:translateY(8px)}"
SECOND_LINE = re.compile(r'<text class="what".*?</text>')


def state_diagram(source: str) -> str:
    """The SVG of a `stateDiagram-v2`. `[*]` is the start where moves leave it, and the end where they arrive."""
    moves = [
        ("start" if begin == "[*]" else begin, "end" if end == "[*]" else end, label or None)
        for begin, end, label in MOVE.findall(source)
    ]
    names = dict.fromkeys(name for begin, end, _ in moves for name in (begin, end))
    places = tuple(Node(name, NodeType.START if name in {"start", "end"} else NodeType.ACTION) for name in names)
    edges = tuple(Edge(str(number), *move) for number, move in enumerate(moves))
    drawing = svg(Graph(places, edges)).replace("</style>", f"{MIDDLE}</style>", 1)
    return SECOND_LINE.sub("", drawing)


def image(drawing: str, text: str) -> str:
    """The element of a drawing. As an image it keeps its style sheet for itself."""
    address = f"data:image/svg+xml;base64,{b64encode(drawing.encode()).decode()}"
    return f'<img class="picture" src="{address}" alt="{escape(text, {chr(34): "&quot;"})}">'


class Pictures(SphinxTransform):
    """Replaces the blocks in pages of HTML; the text stays as the description of the picture."""

    default_priority = 400

    def apply(self, **_: Any) -> None:
        for block in list(self.document.findall(nodes.literal_block)):
            text = block.astext()
            if block.get("language") == "mermaid" and text.startswith("stateDiagram-v2"):
                block.replace_self(nodes.raw("", image(state_diagram(text), text), format="html"))


def setup(app: Any) -> dict[str, bool]:
    app.add_transform(Pictures)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
