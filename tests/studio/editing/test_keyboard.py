"""By keyboard alone, with the focus always in sight; and without motion for users who want none."""

import re
from collections.abc import Callable

import demo
from playwright.sync_api import Page, expect
from servers import Server
from watching import Open

DEEP = "let e = document.activeElement; while (e.shadowRoot?.activeElement) e = e.shadowRoot.activeElement;"
FOCUS = f"""() => {{ {DEEP}
  if (e === document.body) return null;
  const name = (e.getAttribute('aria-label') ?? e.labels?.[0]?.textContent ?? e.textContent ?? '').trim();
  for (let one = e; one; one = one.parentElement) {{
    const style = getComputedStyle(one);
    if (style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0) return [name, true];
    if (style.boxShadow !== 'none') return [name, true];
  }}
  return [name, false];
}}"""


def focused(page: Page) -> str | None:
    """The name of the element with the focus, which must be seen. None: no element has it."""
    found = page.evaluate(FOCUS)  # at once: an element that goes away or is disabled loses the focus
    if found is None:
        return None
    name, is_outlined = found
    assert is_outlined, name
    return str(name)


def tab_to(page: Page, wanted: Callable[[str], object], key: str = "Tab") -> None:
    """Press the key until the focus is on an element with this name. Each stop on the way is visibly focused."""
    for _ in range(160):
        page.keyboard.press(key)
        name = focused(page)
        if name is not None and wanted(name):
            return
    raise AssertionError("the focus did not reach it")


def test_from_the_list_to_the_cause_of_a_failure(open_page: Open, ids: dict[str, str]) -> None:
    """Filter, open the run, go through its views, select a node of the graph, and close its details again."""
    page = open_page(f"/studio/runs?workflowId={ids['order_workflow']}")  # other tests have failed runs too, and many
    expect(page.locator(".line").first).to_be_visible()
    tab_to(page, lambda name: name == "Status")
    page.keyboard.press("f")  # Failed; letters that follow later than a second begin anew
    expect(page).to_have_url(re.compile("status=error"))
    expect(page.locator(".line .status.ok")).to_have_count(0)
    expect(page.locator(".line").filter(has_text="Fulfil order").first).to_be_visible()
    tab_to(page, lambda name: "Fulfil order" in name)
    page.keyboard.press("Enter")
    expect(page.locator(".react-flow__node[data-id=price_lines]")).to_be_visible()
    tab_to(page, lambda name: name == "Graph")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".trow").first).to_be_visible()
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".react-flow__node[data-id=price_lines]")).to_be_visible()
    tab_to(page, lambda name: name.startswith("price_lines"))
    page.keyboard.press("Enter")
    expect(page.locator("wfcore-run aside h2")).to_have_text("price_lines")
    tab_to(page, lambda name: name == "Close")
    page.keyboard.press("Enter")
    expect(page.locator("wfcore-run aside h2")).to_have_count(0)
    expect(page.locator(".react-flow__node[data-id=price_lines]")).to_be_focused()


def test_a_form_is_filled_in_and_approved(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """Ten fields, without a pointer."""
    with server.client() as client:
        run_id = demo.run(client, int(ids["refund_workflow"]), order=4242)
        (waiting,) = demo.settle(client, run_id)["interrupts"]
        page = open_page(f"/studio/inbox/{waiting['interruptId']}")
        expect(page.get_by_role("heading", name="Refund order 4242 to Ada Lovelace?")).to_be_visible()
        tab_to(page, lambda name: name.startswith("Reason"))
        page.keyboard.type("late delivery")
        tab_to(page, lambda name: name.startswith("Account"))
        page.keyboard.press("t")  # travel
        tab_to(page, lambda name: name.startswith("Email"))
        page.keyboard.type("ada@acme.test")
        tab_to(page, lambda name: "checked the account" in name or name == "Yes")
        page.keyboard.press("Space")
        tab_to(page, lambda name: name == "Approve")
        page.keyboard.press("Enter")
        expect(page.get_by_text("Your decision is recorded")).to_be_visible()
        done = demo.settle(client, str(client.get(f"/agent/v1/runs/{run_id}").json()["resumedBy"]))
        assert (done["output"]["account"], done["output"]["confirm"]) == ("travel", True)


def test_no_motion_for_users_who_want_none(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """A run under way has no running animation."""
    with server.client() as client:
        slow = demo.graph(
            [demo.node("wait", "action", toolId="core.wait", params={"seconds": 3600})], ("start", "wait")
        )
        run_id = demo.run(client, demo.workflow(client, "Slow", slow), order=1)
    animations = """() => {
      const count = (root) => root.getAnimations().length + [...root.querySelectorAll('*')]
        .reduce((sum, one) => sum + (one.shadowRoot ? count(one.shadowRoot) : 0), 0);
      return count(document);
    }"""
    for motion, moves in (("no-preference", True), ("reduce", False)):
        page = open_page(f"/studio/runs/{run_id}", reduced_motion=motion)
        expect(page.locator(".gnode[data-status=running]")).to_be_visible()
        assert bool(page.evaluate(animations)) is moves


def test_all_but_the_start_is_deleted_and_comes_back(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """A graph always has a start, with its edges if only it was chosen; the focus stays where keys are heard."""
    with server.client() as client:
        structure = demo.graph([demo.transform("first", 1)], ("start", "first"))
        body = {"name": "Emptied", "type": "workflow", "workflowStructure": structure}
        workflow = client.post("/api/v1/workflows", json=body).json()["id"]
    page = open_page(f"/studio/workflows/{workflow}")
    nodes, edges = page.locator(".react-flow__node"), page.locator(".react-flow__edge")
    page.locator(".react-flow__node[data-id=start]").click()
    expect(page.get_by_role("button", name="Delete node")).to_have_count(0)
    page.keyboard.press("Delete")
    expect(page.get_by_role("button", name="Undo")).to_have_attribute("aria-disabled", "true")
    expect(edges).to_have_count(1)
    page.keyboard.press("Control+a")
    expect(page.locator(".react-flow__node.selected")).to_have_count(2)
    page.keyboard.press("Delete")
    expect(nodes).to_have_count(1)
    expect(page.locator(".react-flow__node[data-id=start]")).to_be_focused()
    page.keyboard.press("Control+z")
    expect(nodes).to_have_count(2)
    expect(edges).to_have_count(1)


def test_escape_leaves_the_focus_on_the_node(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """It closes the details of the node; the next key works on the graph."""
    page = open_page(f"/studio/workflows/{ids['plain_workflow']}")
    ask = page.locator(".react-flow__node[data-id=ask]")
    ask.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".nodeeditor h2")).to_have_text("ask")
    page.keyboard.press("Escape")
    expect(page.locator(".nodeeditor")).to_have_count(0)
    page.evaluate("() => new Promise(requestAnimationFrame).then(() => new Promise(requestAnimationFrame))")
    expect(ask).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(".nodeeditor h2")).to_have_text("ask")


def test_a_graph_without_a_start_gets_one(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    with server.client() as client:
        structure = {"nodes": [demo.transform("first", 1)], "edges": []}
        body = {"name": "No start", "type": "workflow", "workflowStructure": structure}
        workflow = client.post("/api/v1/workflows", json=body).json()["id"]
    page = open_page(f"/studio/workflows/{workflow}")
    entry = page.locator(".palette").get_by_role("button", name="Start", exact=True)
    entry.click()
    expect(page.locator(".react-flow__node[data-id=start]")).to_be_visible()
    expect(entry).to_have_count(0)
