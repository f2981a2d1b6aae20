"""Printed pages: what is read on paper, without what is only of use on a screen."""

import itertools

import demo
import httpx
import pytest
from playwright.sync_api import Page, expect
from servers import Server, eventually
from watching import Open

PAPER_WIDTH = 720
"""Of A4 without its margins, in pixels."""
IS_ON_PAPER = """(one) => {
  const { left, right, top, bottom } = one.getBoundingClientRect();
  const graph = one.closest('.drop').getBoundingClientRect();
  return left >= graph.left && right <= Math.min(graph.right, innerWidth) && top >= graph.top && bottom <= graph.bottom;
}"""


def printed(page: Page) -> None:
    """Show the page as it is printed: without its navigation."""
    page.emulate_media(media="print")
    expect(page.get_by_role("navigation", name="Main")).to_be_hidden()


def test_a_list_is_printed_in_its_whole_height(open_page: Open, ids: dict[str, str]) -> None:
    """Dark on white, and not cut at the height of the window."""
    page = open_page("/studio/runs", viewport={"width": 1000, "height": 400}, color_scheme="dark")
    expect(page.locator(".line").first).to_be_visible()
    expect(page.get_by_text("the list has more")).to_be_hidden()
    printed(page)
    expect(page.locator(".rows")).to_have_css("color-scheme", "light")
    expect(page.locator(".rows > div")).to_have_css("transform", "none")
    expect(page.locator(".page")).to_have_css("overflow", "visible")


def test_a_run_is_printed_with_its_error_and_graph(open_page: Open, ids: dict[str, str]) -> None:
    page = open_page(f"/studio/runs/{ids['failed']}", viewport={"width": 1280, "height": 400})
    expect(page.locator(".react-flow__node").first).to_be_visible()
    printed(page)
    expect(page.get_by_text("the catalog has no article C-404")).to_be_visible()
    expect(page.get_by_role("tab", name="Events")).to_be_hidden()
    expect(page.get_by_role("button", name="Retry from failure")).to_be_hidden()


def wide(client: httpx.Client) -> int:
    """A workflow whose graph is 3,000 pixels wide."""
    steps = [demo.transform(f"step{number}", str(number)) for number in range(11)]
    names = ["start", *(f"step{number}" for number in range(11))]
    return demo.workflow(client, "Wide", demo.graph(steps, *itertools.pairwise(names)))


@pytest.mark.parametrize("place", ["builder", "run"])
def test_a_wide_graph_fits_the_paper_without_the_buttons_of_the_canvas(
    open_page: Open, server: Server, place: str
) -> None:
    with server.client() as client:
        workflow = wide(client)
        run = demo.run(client, workflow)
        demo.settle(client, run)
    path = f"/studio/workflows/{workflow}" if place == "builder" else f"/studio/runs/{run}"
    page = open_page(path, viewport={"width": 1600, "height": 700})
    nodes = page.locator(".react-flow__node")
    expect(nodes).to_have_count(12)
    page.get_by_role("button", name="Zoom in").click()
    printed(page)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.set_viewport_size({"width": PAPER_WIDTH, "height": 1000})
    eventually(lambda: all(node.evaluate(IS_ON_PAPER) for node in nodes.all()))
    expect(page.get_by_role("button", name="Zoom in")).to_be_hidden()
    expect(page.get_by_role("button", name="Condition")).to_be_hidden()
