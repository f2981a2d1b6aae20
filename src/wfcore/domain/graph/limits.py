"""How large a graph may be: for whoever sets it, without the rules themselves (interface, Limits)."""

import attrs


@attrs.frozen
class GraphLimits:
    """The most nodes and edges of one graph."""

    nodes: int = 5_000
    edges: int = 20_000
