"""The pages on a small phone: what is shown at first can be read."""

from typing import Any

from playwright.sync_api import Page, expect
from servers import Server, eventually
from watching import Open

PHONE: dict[str, Any] = {"viewport": {"width": 375, "height": 667}, "has_touch": True, "is_mobile": True}
IS_WITHIN = """(one) => {
  const inner = one.getBoundingClientRect();
  const outer = one.closest('.graph').getBoundingClientRect();
  return inner.left >= outer.left && inner.right <= outer.right
    && inner.top >= outer.top && inner.bottom <= outer.bottom;
}"""
SCALE = "(one) => one.getBoundingClientRect().width / one.offsetWidth"


def check_beginning(page: Page) -> None:
    """The start is in sight as a whole, at a scale at which its name can be read."""
    start = page.locator(".react-flow__node[data-id=start]")
    expect(start).to_be_visible()
    eventually(lambda: start.evaluate(IS_WITHIN) and start.evaluate(SCALE) >= 0.749)


def test_a_graph_begins_readable_at_its_start(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """A graph that is too long for the phone was shown as a whole, with names of a few pixels, or from its middle."""
    page = open_page(f"/studio/workflows/{ids['refund_workflow']}", **PHONE)
    check_beginning(page)
    page.get_by_role("button", name="Fit").tap()
    start = page.locator(".react-flow__node[data-id=start]")
    eventually(lambda: start.evaluate(SCALE) < 0.5)
    page = open_page(f"/studio/runs/{ids['failed']}", **PHONE)
    check_beginning(page)
    page.get_by_role("tab", name="Events").tap()
    page.get_by_role("tab", name="Graph").tap()
    check_beginning(page)


def test_a_wide_canvas_begins_with_the_whole_graph(open_page: Open, ids: dict[str, str]) -> None:
    page = open_page(f"/studio/runs/{ids['failed']}")
    nodes = page.locator(".react-flow__node")
    expect(nodes).to_have_count(10)
    eventually(lambda: all(node.evaluate(IS_WITHIN) for node in nodes.all()))
