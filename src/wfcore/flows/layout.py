"""A layered drawing of a graph: nodes in layers from top to bottom, in an order with few crossings.

The steps are those of Sugiyama, Tagawa and Toda (1981): turn back edges round, assign layers by the longest path, order
each layer by the mean of its neighbours, then assign coordinates.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

import attrs

from wfcore.domain.graph.structure import Edge, Graph

WIDTH, HEIGHT = 200.0, 48.0
"""The size of a node."""
GAP_X, GAP_Y = 32.0, 56.0
"""The least distance between nodes of a layer, and the distance between layers."""
MARGIN: Final = 16.0
BEND: Final = 24.0
"""The width that an edge takes which passes a layer, and the distance between back edges."""
SIDE: Final = 0.85
"""Where back edges leave and enter a node, as a share of its width."""
CLEAR: Final = 12.0
"""The distance of back edges from the nodes of a layer; less than the margin."""
SWEEPS: Final = 8

Point = tuple[float, float]
Key = str | tuple[int, int]
"""A node by its id, or the point of an edge (by position) in a layer."""


@attrs.frozen
class EdgeRoute:
    """The points of an edge, from its source to its target. `back`: it closes a cycle, and is drawn at the right."""

    edge: Edge
    points: tuple[Point, ...]
    back: bool


@attrs.frozen
class Layout:
    """The upper left corner of each node, the routes of the edges, and the size of the drawing."""

    places: Mapping[str, Point]
    routes: tuple[EdgeRoute, ...]
    width: float
    height: float


def layout(graph: Graph) -> Layout:
    """The drawing of a graph. Equal graphs have equal drawings."""
    back = _back_edges(graph)
    layers = _layers(graph, back)
    rows, chains = _rows(graph, back, layers)
    neighbours = _neighbours(chains)
    _order(rows, neighbours)
    centres = _centres(rows, neighbours)
    top = {key: MARGIN + number * (HEIGHT + GAP_Y) for number, row in enumerate(rows) for key in row}
    places = {node.id: (centres[node.id] - WIDTH / 2, top[node.id]) for node in graph.nodes}
    right = max((x + WIDTH for x, _ in places.values()), default=MARGIN)
    routes, used = [], 0
    for index, edge in enumerate(graph.edges):
        if index in back:
            used += 1
            routes.append(EdgeRoute(edge, _around(edge, places, right + used * BEND), True))
        else:
            routes.append(EdgeRoute(edge, _down(chains[index], centres, top), False))
    height = max(top.values(), default=0.0) + HEIGHT + MARGIN
    return Layout(places, tuple(routes), right + used * BEND + MARGIN, height)


def _back_edges(graph: Graph) -> set[int]:
    """The positions of edges that lead to a node on the way to them, in a depth-first search; also loops."""
    position = {id(edge): index for index, edge in enumerate(graph.edges)}
    found, finished = set[int](), set[str]()
    for root in graph.nodes:
        path = {} if root.id in finished else {root.id: iter(graph.outgoing[root.id])}
        while path:
            edge = next(next(reversed(path.values())), None)
            if edge is None:
                finished.add(path.popitem()[0])
            elif edge.target in path:
                found.add(position[id(edge)])
            elif edge.target not in finished:
                path[edge.target] = iter(graph.outgoing[edge.target])
    return found


def _layers(graph: Graph, back: set[int]) -> dict[str, int]:
    """The layer of each node: below all nodes that lead to it."""
    forward = [edge for index, edge in enumerate(graph.edges) if index not in back]
    missing = dict.fromkeys(graph.by_id, 0)
    targets: dict[str, list[str]] = {name: [] for name in graph.by_id}
    for edge in forward:
        missing[edge.target] += 1
        targets[edge.source].append(edge.target)
    layers = dict.fromkeys(graph.by_id, 0)
    ready = [name for name, count in missing.items() if not count]
    while ready:
        name = ready.pop()
        for target in targets[name]:
            layers[target] = max(layers[target], layers[name] + 1)
            missing[target] -= 1
            if not missing[target]:
                ready.append(target)
    return layers


def _rows(
    graph: Graph, back: set[int], layers: Mapping[str, int]
) -> tuple[list[list[Key]], dict[int, tuple[Key, ...]]]:
    """The nodes and points of each layer, and the chain of each edge through them."""
    rows: list[list[Key]] = [[] for _ in range(max(layers.values(), default=-1) + 1)]
    for node in graph.nodes:
        rows[layers[node.id]].append(node.id)
    chains: dict[int, tuple[Key, ...]] = {}
    for index, edge in enumerate(graph.edges):
        if index not in back:
            between = range(layers[edge.source] + 1, layers[edge.target])
            for layer in between:
                rows[layer].append((index, layer))
            chains[index] = (edge.source, *((index, layer) for layer in between), edge.target)
    return rows, chains


def _neighbours(chains: Mapping[int, Sequence[Key]]) -> tuple[dict[Key, list[Key]], dict[Key, list[Key]]]:
    """Those above and those below each node and point."""
    above: dict[Key, list[Key]] = {}
    below: dict[Key, list[Key]] = {}
    for chain in chains.values():
        for upper, lower in pairwise(chain):
            above.setdefault(lower, []).append(upper)
            below.setdefault(upper, []).append(lower)
    return above, below


def _order(rows: list[list[Key]], neighbours: tuple[dict[Key, list[Key]], dict[Key, list[Key]]]) -> None:
    """Sort each row by the mean position of its neighbours, downward and upward in turn."""
    for sweep in range(SWEEPS):
        near = neighbours[sweep % 2]
        for row, fixed in _pairs(rows, downward=sweep % 2 == 0):
            place = {key: index for index, key in enumerate(fixed)}
            own = {key: index for index, key in enumerate(row)}
            row.sort(key=lambda key: _mean([place[each] for each in near.get(key, ())], own[key]))


def _pairs(rows: list[list[Key]], *, downward: bool) -> Iterator[tuple[list[Key], list[Key]]]:
    """Each row with the one before it in this direction."""
    ordered = rows if downward else rows[::-1]
    for fixed, row in pairwise(ordered):
        yield row, fixed


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _centres(rows: list[list[Key]], neighbours: tuple[dict[Key, list[Key]], dict[Key, list[Key]]]) -> dict[Key, float]:
    """The x of the middle of each node and point: near its neighbours, at the least distances from its row."""
    centres: dict[Key, float] = {}
    for row in rows:
        _spread(row, [0.0] * len(row), centres)
    for sweep in range(SWEEPS):
        near = neighbours[sweep % 2]
        for row, _ in _pairs(rows, downward=sweep % 2 == 0):
            _spread(row, [_mean([centres[it] for it in near.get(key, ())], centres[key]) for key in row], centres)
    least = min((centres[key] - _half(key) for key in centres), default=0.0)
    return {key: x - least + MARGIN for key, x in centres.items()}


def _spread(row: Sequence[Key], wanted: Sequence[float], centres: dict[Key, float]) -> None:
    """Place a row as near as possible to what is wanted: the mean of packing it from the left and from the right."""
    distances = [_half(one) + _half(two) + GAP_X for one, two in pairwise(row)]
    left, right = list(wanted), list(wanted)
    for index, distance in enumerate(distances, 1):
        left[index] = max(left[index], left[index - 1] + distance)
    for index in range(len(row) - 2, -1, -1):
        right[index] = min(right[index], right[index + 1] - distances[index])
    for key, one, two in zip(row, left, right, strict=True):
        centres[key] = (one + two) / 2


def _half(key: Key) -> float:
    return WIDTH / 2 if isinstance(key, str) else BEND / 2


def _down(chain: Sequence[Key], centres: Mapping[Key, float], top: Mapping[Key, float]) -> tuple[Point, ...]:
    first, *between, last = chain
    points: list[Point] = [(centres[first], top[first] + HEIGHT)]
    for key in between:
        points += [(centres[key], top[key]), (centres[key], top[key] + HEIGHT)]
    return (*points, (centres[last], top[last]))


def _around(edge: Edge, places: Mapping[str, Point], x: float) -> tuple[Point, ...]:
    """Out of the bottom, between the layers to the right, up, and between the layers to the top of the target."""
    (from_x, from_y), (to_x, to_y) = places[edge.source], places[edge.target]
    start, end = from_x + WIDTH * SIDE, to_x + WIDTH * SIDE
    below, above = from_y + HEIGHT + CLEAR, to_y - CLEAR
    return (start, from_y + HEIGHT), (start, below), (x, below), (x, above), (end, above), (end, to_y)
