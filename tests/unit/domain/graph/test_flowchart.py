"""Flow charts of graphs in Mermaid."""

from wfcore.domain.graph.flowchart import mermaid
from wfcore.domain.graph.structure import Graph, parse_graph
from wfcore.testing.histories import sketch


def test_a_chart_has_each_node_and_edge() -> None:
    """In their order; what stands out is named last, and nothing is without it."""
    graph = parse_graph(sketch("s -> a", "a -> b"))
    plain = mermaid(graph)
    assert plain.splitlines() == [
        "flowchart TD", '    n0(["s"])', '    n1["a"]', '    n2["b"]', "    n0 --> n1", "    n1 --> n2"
    ]  # fmt: skip
    shown = mermaid(graph, nodes=["s", "a"], edges=[0])
    assert shown.startswith(plain)
    assert shown.splitlines()[-2:] == ["    class n0,n1 taken", "    linkStyle 0 stroke:#c2410c,stroke-width:3px"]


def test_an_empty_chart() -> None:
    assert mermaid(Graph()) == "flowchart TD\n"
