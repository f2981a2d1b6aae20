"""Large graphs and runs in a real browser do only the work that shows: what is counted, whatever the machine's speed.

`page_times.py` measures the times.
"""

import pytest
from large_runs import SETTLED, TOUCHED, WATCH, burst, grab, open_in_builder, serve_run, show
from playwright.sync_api import expect
from servers import Server
from watching import Open


def test_only_nodes_in_sight_are_rendered(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """Not even once to be measured: of 5,000 nodes, those beside the window are never elements of the page."""
    page = open_page("/studio/runs", script=WATCH)
    expect(page.locator(".line").first).to_be_visible()
    serve_run(page, 5_000, burst(20))
    show(page)
    page.wait_for_timeout(300)
    shown = page.locator(".react-flow__node").count()
    print(f"rendered {page.evaluate('window.rendered')} of 5,000 nodes, {shown} are in sight")
    assert 0 < shown < 400
    assert page.evaluate("window.rendered") <= 2 * shown


@pytest.mark.parametrize("nodes", [500, 5_000])
def test_dragging_in_the_builder_changes_only_what_is_dragged(
    open_page: Open, server: Server, ids: dict[str, str], nodes: int
) -> None:
    """And of all nodes, only those beside the window are rendered."""
    page, _ = open_in_builder(open_page, server, ids["greet_workflow"], nodes)
    assert page.evaluate("window.rendered") < 1_200
    x, y = grab(page, ".react-flow__node")
    graph = page.locator(".react-flow")
    for step in range(60):
        page.mouse.move(x + step * 2, y + step)
        if step == 20:  # the node is selected, and what comes into sight with it is drawn
            graph.evaluate(SETTLED)
            graph.evaluate(TOUCHED)
    graph.evaluate(SETTLED)
    touched = page.evaluate("window.touched.size")
    page.mouse.up()
    assert 0 < touched < 60, "the same number for every size of the graph"


def test_a_burst_of_events_is_few_updates(open_page: Open, ids: dict[str, str]) -> None:
    """Of 10,001 events at once, the page shows the last state after some updates, not after one for each."""
    page = open_page("/studio/runs", script=WATCH)
    expect(page.locator(".line").first).to_be_visible()
    serve_run(page, 500, burst(10_001), live=True)
    page.evaluate("window.batches = 0")
    show(page, ".head .status.ok")
    assert page.evaluate("window.batches") < 200
