"""Pictures of graphs: every node and edge is drawn, nothing overlaps, and no text can break the format."""

import re
from itertools import combinations, pairwise
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings

from wfcore.domain.graph.flowchart import mermaid
from wfcore.domain.graph.structure import Graph, parse_graph
from wfcore.flows import Flow
from wfcore.flows.labels import LONGEST, label_of
from wfcore.flows.layout import HEIGHT, WIDTH, layout
from wfcore.flows.svg import svg
from wfcore.testing.graphs import deployable_graphs
from wfcore.testing.histories import sketch

SVG = "{http://www.w3.org/2000/svg}"


def graph_of(*edges: str, **data: Any) -> Graph:
    return parse_graph(sketch(*edges, **data))


@settings(max_examples=60)
@given(deployable_graphs(max_nodes=12))
def test_laws_of_the_layout(structure: dict[str, Any]) -> None:
    """No two nodes overlap, all are on the page; an edge goes down unless it closes a cycle, and ends at its nodes."""
    graph = parse_graph(structure)
    drawn = layout(graph)
    assert drawn == layout(graph)
    for (one_x, one_y), (two_x, two_y) in combinations(drawn.places.values(), 2):
        assert abs(one_x - two_x) >= WIDTH or abs(one_y - two_y) >= HEIGHT
    for x, y in drawn.places.values():
        assert 0 <= x <= drawn.width - WIDTH
        assert 0 <= y <= drawn.height - HEIGHT
    assert [route.edge for route in drawn.routes] == list(graph.edges)
    for route in drawn.routes:
        source, target = drawn.places[route.edge.source], drawn.places[route.edge.target]
        assert (source[1] < target[1]) or route.back
        for (x, y), (left, top) in ((route.points[0], source), (route.points[-1], target)):
            assert left <= x <= left + WIDTH
            assert top <= y <= top + HEIGHT


@settings(max_examples=40)
@given(deployable_graphs(max_nodes=8))
def test_svg_is_well_formed(structure: dict[str, Any]) -> None:
    """One group for each node, one line for each edge."""
    graph = parse_graph(structure)
    root = ElementTree.fromstring(svg(graph))
    assert [group.findtext(f"{SVG}title") for group in root.findall(f"{SVG}g")] == [node.id for node in graph.nodes]
    assert len(root.findall(f"{SVG}path")) == len(graph.edges)
    handles = [text.text for text in root.findall(f"{SVG}text")]
    assert handles == [edge.source_handle for edge in graph.edges if edge.source_handle]


def test_a_long_edge_passes_beside_the_nodes_between() -> None:
    """A shortcut over two layers does not cross them."""
    drawn = layout(graph_of("s -> a", "a -> b", "b -> c", "s -> c"))
    (shortcut,) = [route for route in drawn.routes if (route.edge.source, route.edge.target) == ("s", "c")]
    for name in ("a", "b"):
        left, top = drawn.places[name]
        beside = [x for x, y in shortcut.points if top <= y <= top + HEIGHT]
        assert beside
        assert all(not left < x < left + WIDTH for x in beside)


def test_cycles_are_drawn_at_the_right() -> None:
    """An edge to an earlier node, and one to the node itself."""
    drawn = layout(graph_of("s -> a", "a -> b", "b -> a", "b -> b", a={"type": "humanApproval"}))
    backs = [route for route in drawn.routes if route.back]
    assert [(route.edge.source, route.edge.target) for route in backs] == [("b", "a"), ("b", "b")]
    right = max(x + WIDTH for x, _ in drawn.places.values())
    assert [max(x for x, _ in route.points) > right for route in backs] == [True, True]
    assert backs[0].points != backs[1].points


def test_a_back_edge_passes_between_the_layers() -> None:
    """It crosses no node beside its own."""
    ask = {"type": "humanApproval"}
    drawn = layout(graph_of("s -> a", "a -approved-> b", "a -denied-> c", "b -> a", "c -> a", a=ask))
    for route in drawn.routes:
        for (x, y), (to_x, to_y) in pairwise(route.points) if route.back else ():
            for left, top in drawn.places.values():
                crosses_x = min(x, to_x) < left + WIDTH and max(x, to_x) > left
                crosses_y = min(y, to_y) < top + HEIGHT and max(y, to_y) > top
                assert not (crosses_x and crosses_y)


def test_an_empty_graph() -> None:
    assert layout(Graph()).places == {}
    assert mermaid(Graph(), label_of) == "flowchart TD\n"
    ElementTree.fromstring(svg(Graph()))


def test_mermaid() -> None:
    """A shape for each type, the handle on the arrow."""
    drawn = graph_of(
        "s -> check", "check -big-> ask", "ask -approved-> pay", "pay -error-> help",
        check={"type": "condition"}, ask={"type": "humanApproval"}, help={"type": "agent", "agent_id": 7},
        pay={"toolId": "send_refund", "forEach": "input.x"},
    )  # fmt: skip
    assert mermaid(drawn, label_of).splitlines() == [
        "flowchart TD",
        '    n0(["s<br/>Start"])',
        '    n1{"check<br/>Condition"}',
        '    n2{{"ask<br/>Approval"}}',
        '    n3["pay<br/>send_refund for each"]',
        '    n4[["help<br/>skill 7"]]',
        "    n0 --> n1",
        '    n1 -->|"big"| n2',
        '    n2 -->|"approved"| n3',
        '    n3 -->|"error"| n4',
    ]


@pytest.mark.parametrize("text", ['"];click n0 href "x', "<script>&", "`|{}#35;", "end", "ü\n\x00", "x" * 300])
def test_texts_of_a_graph_are_quoted(text: str) -> None:
    """Ids, tools and handles of other people cannot change a picture; long ones are cut."""
    structure: Any = {
        "nodes": [
            {"id": "s", "type": "start"},
            {"id": text, "type": "action", "data": {"toolId": text}},
        ],
        "edges": [{"id": "1", "source": "s", "target": text, "sourceHandle": text}],
    }
    graph = parse_graph(structure)
    assert all(len(line) <= LONGEST for line in label_of(graph.nodes[1]))
    plain = r'"[^"<>`|{}&]*(<br/>[^"<>`|{}&]*)?"'
    for row in mermaid(graph, label_of).splitlines()[1:]:
        assert re.fullmatch(rf" {{4}}(n\d[(\[]+{plain}[)\]]+|n0 -->\|{plain}\| n1)", row), row
    root = ElementTree.fromstring(svg(graph))
    assert len(root.findall(f"{SVG}g")) == 2


def test_the_pictures_of_a_flow() -> None:
    """Also of a flow that cannot run yet."""
    flow = Flow("Half")
    flow.action("core.transform", value=1, after=[])
    assert flow.mermaid().splitlines()[2] == '    n1["transform<br/>core.transform"]'
    assert ">transform</text>" in flow.svg()
