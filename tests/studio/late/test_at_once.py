"""The canvas answers from the moment at which it is drawn."""

import demo
import pytest
from playwright.sync_api import expect
from servers import Server
from test_builder import create
from watching import Open

AT_ONCE = """{
  const clock = performance.now.bind(performance);
  let calls = 0;
  // React does no two things in one message then: a click can come between them.
  performance.now = () => clock() + 6 * calls++;
  const choose = () => {
    const node = find(document);
    if (!node || node.chosen) return;
    node.chosen = true;
    node.focus();
    if ("%s" === "click") node.click();
    else node.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true, composed: true }));
  };
  const inside = (root) => [...root.querySelectorAll("*")].flatMap((one) => (one.shadowRoot ? [one.shadowRoot] : []));
  const find = (root) => root.querySelector("[data-id=first]") ?? inside(root).map(find).find(Boolean);
  const { attachShadow } = Element.prototype;
  Element.prototype.attachShadow = function (...given) {
    const root = attachShadow.apply(this, given);
    new MutationObserver(choose).observe(root, { childList: true, subtree: true });
    return root;
  };
}"""
"""Chooses the node as soon as it is in the document, before React has run the effects of that."""


@pytest.mark.parametrize("way", ["click", "key"])
@pytest.mark.parametrize("where", ["run", "draft"])
def test_a_node_is_chosen_as_soon_as_it_is_there(
    open_page: Open, server: Server, ids: dict[str, str], where: str, way: str
) -> None:
    """The canvas has what it needs for that when it is drawn."""
    # Without places, which come late.
    structure = demo.graph([demo.transform("first", 1)], ("start", "first"))
    with server.client() as client:
        if where == "run":
            run_id = demo.run(client, demo.workflow(client, "At once", structure))
            demo.settle(client, run_id)
        path = f"/studio/runs/{run_id}" if where == "run" else f"/studio/workflows/{create(client, structure)}"
    page = open_page(path, script=AT_ONCE % way)
    expect(page.locator("aside h2").locator("visible=true")).to_have_text("first")
