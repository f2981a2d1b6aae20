"""The pages at a zoom of 200 and 400 % of a window of 1280 x 1024 or less: WCAG 2.2, 1.4.10 and 2.4.11."""

from typing import Any

import demo
import pytest
from playwright.sync_api import Locator, expect
from servers import Server, eventually
from watching import Open

ZOOMS: dict[str, dict[str, Any]] = {
    "200 %": {"viewport": {"width": 640, "height": 400}},
    "400 %": {"viewport": {"width": 320, "height": 256}},
}
IS_IN_SIGHT = """(one) => {
  one.focus();
  const { x, y, width, height } = one.getBoundingClientRect();
  const at = [x + width / 2, y + Math.min(height / 2, 12)];
  let found = document.elementFromPoint(...at);
  for (let root = found?.shadowRoot; root; root = found.shadowRoot) {
    const inner = root.elementFromPoint(...at);
    if (!inner || inner === found) break;
    found = inner;
  }
  return one.contains(found);
}"""


SHOWN_HEIGHT = """(one) => {
  const { top, bottom } = one.getBoundingClientRect();
  const page = one.closest('.page').getBoundingClientRect();
  return Math.min(bottom, page.bottom) - Math.max(top, page.top);
}"""


def check_focus(controls: Locator) -> None:
    """Each of these shows when it has the focus: it can be scrolled to, and nothing is over it."""
    for control in controls.all():
        if control.is_visible():
            assert control.evaluate(IS_IN_SIGHT), control.evaluate("(one) => one.outerHTML")


@pytest.mark.parametrize("zoom", ["100 %", *ZOOMS])
def test_a_form_is_not_under_its_buttons(open_page: Open, server: Server, ids: dict[str, str], zoom: str) -> None:
    with server.client() as client:
        (waiting,) = client.get(f"/agent/v1/runs/{ids['form']}").json()["interrupts"]
    window = ZOOMS.get(zoom, {"viewport": {"width": 1280, "height": 700}})
    page = open_page(f"/studio/inbox/{waiting['interruptId']}", **window)
    expect(page.get_by_label("Amount")).to_be_visible()
    check_focus(page.locator("wfcore-approval").locator("input, select, textarea, button"))
    page = open_page("/studio/connections", **window)
    page.get_by_role("button", name="New connection").first.click()
    expect(page.get_by_role("button", name="Create")).to_be_visible()
    check_focus(page.locator("aside").locator("input, select, textarea, button"))


@pytest.mark.parametrize("zoom", ZOOMS)
def test_the_builder_and_the_chat_of_a_skill_keep_a_height(
    open_page: Open, server: Server, ids: dict[str, str], zoom: str
) -> None:
    """The page scrolls to the fields of a node, and to the messages: they had no height at all."""
    with server.client() as client:
        skill = client.post("/api/v1/skills", json={"name": f"At {zoom}", "instructions": ["Help."]}).json()
    page = open_page(f"/studio/workflows/{ids['plain_workflow']}", **ZOOMS[zoom])
    node = page.locator(".react-flow__node[data-id=ask]")
    node.focus()
    page.keyboard.press("Enter")
    panel = page.locator("wfcore-builder aside")
    expect(panel.get_by_role("heading", name="ask")).to_be_attached()
    check_focus(panel.locator("input, select, textarea, button"))
    page = open_page(f"/studio/skills/{skill['id']}", **ZOOMS[zoom])
    box = page.get_by_label("Message", exact=True)
    expect(box).to_be_attached()
    assert box.evaluate(IS_IN_SIGHT)
    assert page.locator(".thread").evaluate("(one) => one.offsetHeight") >= 60


@pytest.mark.parametrize("zoom", ZOOMS)
def test_a_panel_that_opens_is_in_sight(open_page: Open, ids: dict[str, str], zoom: str) -> None:
    """The page scrolls to the details of a node, also to those of the next one, and to a simulation."""
    page = open_page(f"/studio/workflows/{ids['plain_workflow']}", **ZOOMS[zoom])
    panel = page.locator("aside:visible")
    for name in ("ask", "start"):
        page.locator(f".react-flow__node[data-id={name}]").focus()
        page.keyboard.press("Enter")
        expect(panel.get_by_role("heading", name=name, exact=True)).to_be_visible()
        eventually(lambda: panel.evaluate(SHOWN_HEIGHT) >= 60)
    page.keyboard.press("Escape")
    expect(panel).to_have_count(0)
    page.get_by_role("button", name="Simulate").press("Enter")
    expect(panel.get_by_role("heading", name="Simulate")).to_be_attached()
    eventually(lambda: panel.evaluate(SHOWN_HEIGHT) >= 60)
    page = open_page(f"/studio/runs/{ids['plain0']}", **ZOOMS[zoom])
    page.locator(".react-flow__node[data-id=ask]").focus()
    page.keyboard.press("Enter")
    panel = page.locator("aside:visible")
    eventually(lambda: panel.evaluate(SHOWN_HEIGHT) >= 60)


def test_the_focus_follows_into_a_request_and_back(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """The request takes the place of the list, and the focus was lost with it."""
    with server.client() as client:
        demo.settle(client, demo.run(client, int(ids["plain_workflow"]), order="at 200 %"))
    page = open_page("/studio/inbox", **ZOOMS["200 %"])
    row = page.locator(".request .open", has_text="Publish release at 200 %?")
    row.press("Enter")
    expect(page.get_by_role("region", name="Details")).to_be_focused()
    page.get_by_role("button", name="Back", exact=True).press("Enter")
    expect(row).to_be_focused()


def test_the_palette_hides_the_graph_that_it_covers(open_page: Open, ids: dict[str, str]) -> None:
    """The focus could be on a node, or a button of the canvas, below the palette."""
    page = open_page(f"/studio/workflows/{ids['plain_workflow']}", **ZOOMS["200 %"])
    node = page.locator(".react-flow__node[data-id=ask]")
    expect(node).to_be_visible()
    page.get_by_role("button", name="Add", exact=True).press("Enter")
    expect(page.get_by_role("button", name="Condition")).to_be_visible()
    expect(node).to_be_hidden()
    page.get_by_role("button", name="Note", exact=True).press("Enter")
    expect(page.locator(".react-flow__node-note")).to_be_focused()
