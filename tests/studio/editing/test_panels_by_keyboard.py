"""The panels of the builder, forms and attachments by keyboard and with a screen reader."""

from pathlib import Path
from typing import Any

import demo
import pytest
from appearance import APPEARANCES, check_accessibility
from playwright.sync_api import Locator, Page, expect
from servers import Server
from slices import slice_of
from watching import Open

LOOKS: dict[str, dict[str, Any]] = {
    **{name: APPEARANCES[name] for name in ("light", "dark", "forced colours")},
    "200 %": {"viewport": {"width": 640, "height": 400}},
}


def drafted(server: Server, name: str) -> str:
    """A draft of an approval and two nodes beside it."""
    nodes = [demo.node("ask", "humanApproval", message="Go?"), demo.transform("pay", 1), demo.transform("log", 2)]
    graph = demo.graph(nodes, ("start", "ask"), ("start", "pay"), ("start", "log"))
    body = {"name": name, "type": "workflow", "workflowStructure": graph}
    with server.client() as client:
        return str(client.post("/api/v1/workflows", json=body).json()["id"])


def opened(page: Page, node: str) -> Locator:
    """The details of a node."""
    page.locator(f".react-flow__node[data-id={node}]").focus()
    page.keyboard.press("Enter")
    panel = page.locator(".nodeeditor")
    expect(panel.get_by_role("heading", name=node, exact=True)).to_be_visible()
    return panel


def press(control: Locator, key: str = "Enter") -> None:
    expect(control).to_be_enabled()
    control.focus()
    control.press(key)


def test_connections(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """An arrow key opens the list of nodes, of which Enter takes one: it connected the first one at once, and the next
    could not be reached. The focus stays with the connections when one is removed.
    """
    page = open_page(f"/studio/workflows/{drafted(server, 'Connections by keyboard')}")
    panel = opened(page, "ask")
    edges = page.locator(".react-flow__edge")
    expect(edges).to_have_count(3)
    choice = panel.get_by_label("Connect approved to")
    press(choice, "ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(edges).to_have_count(3)
    page.keyboard.press("Enter")
    approved = panel.get_by_role("group", name="On approved")
    cut = approved.get_by_role("button", name="Remove the connection to log")
    expect(cut).to_be_visible()
    expect(edges).to_have_count(4)
    expect(choice).to_be_focused()
    press(cut)
    expect(edges).to_have_count(3)
    expect(approved).to_be_focused()


@pytest.mark.parametrize("look", slice_of(LOOKS, 2))
def test_simulate(open_page: Open, server: Server, ids: dict[str, str], look: str) -> None:
    """The panel gets the focus, says what came out, and gives the focus back to its button."""
    page = open_page(f"/studio/workflows/{drafted(server, f'Simulated in {look}')}", **LOOKS[look])
    button = page.get_by_role("button", name="Simulate", exact=True)
    press(button)
    panel = page.get_by_role("complementary", name="Simulate")
    expect(panel).to_be_focused()
    said = panel.get_by_role("status").first
    expect(said).to_have_text("2 ends")
    check_accessibility(page)
    panel.get_by_label("Rules, one a line").fill("never pay without approved ask")
    press(panel.get_by_role("button", name="Simulate again"))
    expect(said).to_have_text("2 ends. never pay without approved ask: broken")
    expect(panel.get_by_role("button", name="Simulate again")).to_be_focused()
    press(panel.get_by_role("button", name="Play the run that breaks"))
    expect(panel.get_by_role("group", name="Step by step")).to_be_visible()
    press(panel.get_by_role("button", name="Close"))
    expect(button).to_be_focused()


@pytest.mark.parametrize("look", slice_of(LOOKS, 2, 1))
def test_a_trial_and_a_fork(open_page: Open, server: Server, ids: dict[str, str], look: str) -> None:
    """A trial says what it gives; the page of a run that is started, and the draft after it, have the focus."""
    page = open_page(f"/studio/workflows/{drafted(server, f'Forked in {look}')}", **LOOKS[look])
    expect(page.locator(".react-flow__node[data-id=ask]")).to_be_visible()
    press(page.get_by_role("button", name="Run", exact=True))
    press(page.get_by_role("dialog").get_by_role("button", name="Run"))
    heading = page.get_by_role("heading", level=1, name=f"Forked in {look}")
    expect(page.locator(".crumbs")).to_be_visible()
    expect(heading).to_be_focused()
    press(page.get_by_role("button", name="Back to the draft"))
    expect(page.locator(".crumbs")).to_have_count(0)
    expect(heading).to_be_focused()
    panel = opened(page, "pay")
    press(panel.get_by_text("Try this node"))
    result = panel.locator("details").last.get_by_role("status")
    expect(result).to_have_text("")
    press(panel.get_by_role("button", name="Try", exact=True))
    expect(result).to_contain_text("1")
    check_accessibility(page)
    start = panel.get_by_role("button", name="Run from this node")
    press(start)
    expect(page.get_by_role("dialog")).to_be_visible()
    check_accessibility(page)
    page.keyboard.press("Escape")
    expect(start).to_be_focused()
    press(start)
    press(page.get_by_role("dialog").get_by_role("button", name="Run"))
    expect(page.locator(".crumbs")).to_be_visible()
    expect(heading).to_be_focused()
    check_accessibility(page)


@pytest.mark.parametrize("look", slice_of(LOOKS, 2))
def test_an_approval_with_a_form(open_page: Open, server: Server, ids: dict[str, str], look: str) -> None:
    """The first invalid field gets the focus, an added entry too, and the part of the decision after it."""
    with server.client() as client:
        run_id = demo.run(client, int(ids["refund_workflow"]), order=77)
        (waiting,) = demo.settle(client, run_id)["interrupts"]
    page = open_page(f"/studio/inbox/{waiting['interruptId']}", **LOOKS[look])
    approve = page.get_by_role("button", name="Approve")
    press(approve)
    expect(page.get_by_label("Reason")).to_be_focused()
    expect(page.get_by_role("alert")).to_have_text("Check the marked fields")
    check_accessibility(page)
    page.keyboard.type("It was broken")
    page.get_by_role("combobox", name="Account", exact=True).select_option("main")
    page.get_by_role("textbox", name="Email").fill("ada@acme.test")
    press(page.get_by_role("group", name="Phones").get_by_role("button", name="Add entry"))
    expect(page.get_by_role("group", name="Phones").get_by_role("textbox")).to_be_focused()
    page.keyboard.type("1")
    press(page.get_by_label("I checked the account"), "Space")
    press(approve)
    expect(page.get_by_role("group", name="Decided")).to_be_focused()
    check_accessibility(page)


@pytest.mark.parametrize("look", slice_of(LOOKS, 2, 1))
def test_an_attachment(open_page: Open, chats: dict[str, Any], tmp_path: Path, look: str) -> None:
    """It is said when a file is attached, and the focus goes to the message when it is removed."""
    (tmp_path / "order.txt").write_text("7")
    url = f"/studio/chat?skillId={chats['helper']}"
    page = open_page(url, token=chats["token"], origin=chats["url"], **LOOKS[look])
    message, attach = page.get_by_label("Message", exact=True), page.get_by_label("Attach images or texts")
    expect(message).to_be_focused()
    page.keyboard.press("Shift+Tab")
    expect(attach).to_be_focused()
    attach.set_input_files(tmp_path / "order.txt")
    said = page.locator(".composer").get_by_role("status").filter(has_text="1 file is attached")
    expect(said).to_be_attached()
    check_accessibility(page)
    page.keyboard.press("Shift+Tab")
    expect(page.get_by_role("button", name="Remove order.txt")).to_be_focused()
    page.keyboard.press("Enter")
    expect(said).to_have_count(0)
    expect(message).to_be_focused()
