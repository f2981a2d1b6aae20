"""A graph as a drawing in SVG, which follows the colours of the reader (light or dark)."""

from itertools import pairwise
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from wfcore.domain.graph.node_types import NodeType
from wfcore.domain.graph.structure import Graph, Node
from wfcore.flows.labels import clipped, label_of, printable
from wfcore.flows.layout import HEIGHT, WIDTH, EdgeRoute, Point, layout

_STYLE: Final = (
    "svg{color:#1c2430;background:#fff;font:13px system-ui,sans-serif}"
    "rect,polygon{fill:#f4f6f9;stroke:#8a97a8}path{fill:none;stroke:#8a97a8}text{fill:currentColor}"
    ".what,.handle{font-size:11px;opacity:.75}"
    ".start rect{fill:#e3f1e7}.condition polygon{fill:#fdf3d8}.agent rect{fill:#ece6fa}"
    ".humanApproval rect{fill:#fde8dc}"
    "@media(prefers-color-scheme:dark){svg{color:#e6eaf0;background:#14181f}rect,polygon{fill:#232a35}"
    ".start rect{fill:#1d3a29}.condition polygon{fill:#43391a}.agent rect{fill:#332a4d}"
    ".humanApproval rect{fill:#4a2d1f}}"
)

_ARROW: Final = (
    '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
    '<path d="M0 0L8 4L0 8"/></marker></defs>'
)


def svg(graph: Graph) -> str:
    """The drawing as an SVG document (W3C, SVG 2)."""
    drawn = layout(graph)
    width, height = _text(drawn.width), _text(drawn.height)
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
        f"<style>{_STYLE}</style>",
        _ARROW,
        *(_edge(route) for route in drawn.routes),
        *(_node(node, drawn.places[node.id]) for node in graph.nodes),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _node(node: Node, place: Point) -> str:
    x, y = place
    name, what = label_of(node)
    middle = _text(x + WIDTH / 2)
    return (
        f'<g class="{node.type.value}"><title>{escape(printable(node.id))}</title>{_shape(node, x, y)}'
        f'<text x="{middle}" y="{_text(y + 20)}" text-anchor="middle">{escape(name)}</text>'
        f'<text class="what" x="{middle}" y="{_text(y + 37)}" text-anchor="middle">{escape(what)}</text></g>'
    )


def _shape(node: Node, x: float, y: float) -> str:
    if node.type is NodeType.CONDITION:
        corners = [(x + 14, y), (x + WIDTH - 14, y), (x + WIDTH, y + HEIGHT / 2), (x + WIDTH - 14, y + HEIGHT),
                   (x + 14, y + HEIGHT), (x, y + HEIGHT / 2)]  # fmt: skip
        return f'<polygon points="{" ".join(_pair(corner) for corner in corners)}"/>'
    radius = HEIGHT / 2 if node.type is NodeType.START else 6
    size = f'width="{_text(WIDTH)}" height="{_text(HEIGHT)}"'
    return f'<rect x="{_text(x)}" y="{_text(y)}" {size} rx="{_text(radius)}"/>'


def _edge(route: EdgeRoute) -> str:
    line = f'<path d={quoteattr(_path(route))} marker-end="url(#arrow)"/>'
    if route.edge.source_handle is None:
        return line
    (x, y), (next_x, next_y) = route.points[:2]
    # a tenth of the way down, so that the labels of edges from one node stand apart
    at = (x + 5, y + 10) if route.back else (x + (next_x - x) * 0.35 + 4, y + (next_y - y) * 0.35)
    handle = escape(clipped(route.edge.source_handle))
    return f'{line}<text class="handle" x="{_text(at[0])}" y="{_text(at[1])}">{handle}</text>'


def _path(route: EdgeRoute) -> str:
    """Straight lines for a back edge; otherwise curves between the layers."""
    start, *others = route.points
    if route.back:
        return f"M{_pair(start)}" + "".join(f"L{_pair(point)}" for point in others)
    curves = [f"M{_pair(start)}"]
    for (x, y), (to_x, to_y) in pairwise(route.points):
        half = (y + to_y) / 2
        curves.append(f"C{_pair((x, half))} {_pair((to_x, half))} {_pair((to_x, to_y))}")
    return "".join(curves)


def _pair(point: Point) -> str:
    return f"{_text(point[0])},{_text(point[1])}"


def _text(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")
