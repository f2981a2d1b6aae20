"""The bounds of a graph, apart from the rules so that settings can import them cheaply (interface, Limits)."""

import attrs


@attrs.frozen
class GraphLimits:
    """The most nodes and edges of one graph."""

    nodes: int = 5_000
    edges: int = 20_000
