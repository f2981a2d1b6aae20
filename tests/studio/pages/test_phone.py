"""The pages on a small phone: what is shown at first can be read, and no name is cut."""

from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect
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


def is_whole(heading: Locator) -> bool:
    return bool(heading.evaluate("(one) => one.scrollWidth <= one.clientWidth && one.scrollHeight <= one.clientHeight"))


@pytest.mark.parametrize("kind", ["skills", "workflows"])
def test_a_long_name_is_not_cut(open_page: Open, server: Server, kind: str) -> None:
    name = "Customer support with refunds and returns of damaged goods"
    body = {"name": name, "type": "workflow"} if kind == "workflows" else {"name": name, "instructions": ["Help."]}
    with server.client() as client:
        made = client.post(f"/api/v1/{kind}", json=body)
        assert made.status_code == 201, made.text
    page = open_page(f"/studio/{kind}/{made.json()['id']}", **PHONE)
    heading = page.get_by_role("heading", name=name)
    expect(heading).to_be_visible()
    assert is_whole(heading)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_simulation_begins_readable_and_its_step_is_in_sight(open_page: Open, ids: dict[str, str]) -> None:
    """It showed the whole graph, with names of a few pixels."""
    page = open_page(f"/studio/workflows/{ids['refund_workflow']}", **PHONE)
    check_beginning(page)
    page.get_by_role("button", name="Simulate").tap()
    panel = page.locator("aside:visible")
    end = panel.get_by_role("button", name="Done").first
    expect(end).to_be_visible()
    check_beginning(page)
    end.tap()
    step = page.locator(".react-flow__node", has=page.locator(".gnode.current"))
    eventually(lambda: step.evaluate(IS_WITHIN) and step.evaluate(SCALE) >= 0.749)
