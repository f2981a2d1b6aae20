"""The bounds of a graph (interface, Limits)."""

from wfcore.domain.graph.limits import GraphLimits


def test_defaults() -> None:
    """By default a graph has at most 5,000 nodes and 20,000 edges."""
    assert GraphLimits() == GraphLimits(nodes=5_000, edges=20_000)
