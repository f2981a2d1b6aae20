"""Pictures of a counter-example: the graph with the path that was taken, in Mermaid, and the steps in SVG."""

import re
from collections.abc import Iterator, Mapping
from html import escape
from itertools import pairwise
from typing import Final

from wfcore.domain.graph.flowchart import TAKEN
from wfcore.domain.graph.flowchart import mermaid as flowchart
from wfcore.domain.graph.structure import Edge, Graph, parse_graph
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.rules.checking import STEPS, CounterExample


def mermaid(structure: Mapping[str, JSON], example: CounterExample) -> str:
    """The graph of the structure as a Mermaid flowchart; nodes and edges of the path stand out."""
    graph = parse_graph(structure)
    return flowchart(graph, nodes=example.path, edges=_taken(graph, example))


def _taken(graph: Graph, example: CounterExample) -> Iterator[int]:
    """The positions of the edges of the path; of several between two nodes, that of an outcome that happened."""
    steps = set(example.steps)
    for source, target in pairwise(example.path):
        between = [edge for edge in graph.outgoing[source] if edge.target == target]
        if between:
            yield graph.edges.index(next((one for one in between if (source, _outcome(one)) in steps), between[0]))


def _outcome(edge: Edge) -> str:
    return {None: "done", "error": "failed"}.get(edge.source_handle, edge.source_handle or "")


WIDTH, HEIGHT, GAP, MARGIN = 320, 36, 26, 12


def svg(example: CounterExample) -> str:
    """The steps from top to bottom as an SVG image: a box for each node, on each arrow how it ended."""
    steps = [("start", ""), *example.steps[:STEPS]]
    if len(example.steps) > STEPS:
        steps.append((f"{len(example.steps) - STEPS} more steps", ""))
    boxes = [*steps, (example.what, "")]
    height = 2 * MARGIN + len(boxes) * HEIGHT + (len(boxes) - 1) * GAP
    width = WIDTH + 2 * MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
        '<g font-family="sans-serif" font-size="13">',
        f"<title>{_xml(example.what)}</title>",
    ]
    for index, (name, way) in enumerate(boxes):
        top, is_last = MARGIN + index * (HEIGHT + GAP), index == len(boxes) - 1
        lines += _box(name, top, TAKEN if is_last else "#475569")
        if not is_last:
            lines += _arrow(way, top + HEIGHT)
    return "\n".join([*lines, "</g>", "</svg>"]) + "\n"


def _box(text: str, top: int, colour: str) -> Iterator[str]:
    yield (
        f'<rect x="{MARGIN}" y="{top}" width="{WIDTH}" height="{HEIGHT}" rx="6" fill="#fff" stroke="{colour}"'
        ' stroke-width="1.5"/>'
    )
    shown = text if len(text) <= MOST_LETTERS else f"{text[: MOST_LETTERS - 1]}\u2026"
    yield (
        f'<text x="{MARGIN + WIDTH // 2}" y="{top + 23}" text-anchor="middle" fill="#0f172a">'
        f"<title>{_xml(text)}</title>{_xml(shown)}</text>"
    )


def _arrow(way: str, top: int) -> Iterator[str]:
    middle, end = MARGIN + WIDTH // 2, top + GAP
    yield f'<path d="M{middle} {top}V{end - 5}m-4 -4l4 8l4 -8" fill="none" stroke="#475569" stroke-width="1.5"/>'
    if way:
        yield f'<text x="{middle + 10}" y="{top + 17}" font-size="11" fill="#475569">{_xml(way)}</text>'


MOST_LETTERS: Final = 42
"""The most letters of a text in a box."""


def _xml(text: str) -> str:
    """The text for XML 1.0, which has no control characters."""
    return escape(re.sub(r"[\x00-\x08\x0b-\x1f\x7f\ufffe\uffff]", "\N{REPLACEMENT CHARACTER}", text))
