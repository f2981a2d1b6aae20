"""Live pages: a run that goes on while it is watched, and a server that is killed and started again."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import demo
import pytest
from playwright.sync_api import expect
from servers import Server
from watching import Open

TOOLS = f"{Path(__file__).parents[1] / 'hold.py'}:hold"


def with_pause(tool: str, **params: Any) -> demo.Json:
    return demo.graph(
        [
            demo.transform("first", "one"),
            demo.node("pause", "action", toolId=tool, params=params),
            demo.transform("last", "two"),
        ],
        ("start", "first"), ("first", "pause"), ("pause", "last"),
    )  # fmt: skip


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Server]:
    found = Server(tmp_path, tools=TOOLS)
    found.create()
    found.start()
    yield found
    found.kill()


def test_a_killed_server_is_joined_again(open_page: Open, own_server: Server, tmp_path: Path) -> None:
    """The page shows that it connects again, and then the rest of the run: each node once, in its final state.

    The stream of changes is joined again too: another page shows what began after the restart. A chat
    says that it connects again, and shows the response.
    """
    released = tmp_path / "released"
    with own_server.client() as client:
        slow = demo.workflow(client, "Slow", with_pause("hold", path=str(released)))
        run_id = demo.run(client, slow, order=1)
        plain = demo.workflow(client, "Publish release", demo.PLAIN)
    inbox = open_page("/studio/inbox", token=own_server.token, origin=own_server.url)
    expect(inbox.get_by_text("Nothing waits for you")).to_be_visible()
    page = open_page(f"/studio/runs/{run_id}", token=own_server.token, origin=own_server.url)
    pause = page.locator(".react-flow__node[data-id=pause] .gnode")
    expect(pause).to_have_attribute("data-status", "running")
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    chat = open_page(f"/studio/chat?workflowId={slow}", token=own_server.token, origin=own_server.url)
    chat.get_by_label("Message", exact=True).fill("go")
    chat.keyboard.press("Enter")
    expect(chat.get_by_text("2 steps")).to_be_visible()
    own_server.kill()
    expect(page.get_by_text("Connecting again")).to_be_visible()
    expect(chat.get_by_text("Reconnecting")).to_be_visible()
    own_server.start()
    released.touch()
    expect(page.locator(".react-flow__node[data-id=last] .gnode")).to_have_attribute("data-status", "done")
    expect(page.locator(".head .status.ok")).to_be_visible()
    page.get_by_role("tab", name="Timeline").click()
    expect(page.locator(".trow")).to_have_count(4)
    expect(chat.locator(".bubble")).to_have_text(["You:go", "Answer:two"])
    with own_server.client() as client:
        demo.run(client, plain, order=2)
    expect(inbox.get_by_text("Publish release 2?")).to_be_visible()


def test_cancel_asks_first(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """The safe choice has the focus; a cancelled run ends on the page too."""
    with server.client() as client:
        run_id = demo.run(client, demo.workflow(client, "To cancel", with_pause("core.wait", seconds=3600)), order=1)
    page = open_page(f"/studio/runs/{run_id}")
    page.get_by_role("button", name="Cancel run").click()
    expect(page.get_by_role("button", name="Keep running")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.get_by_role("button", name="Cancel run").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel run").click()
    expect(page.locator(".head .status").get_by_text("Cancelled")).to_be_visible()


def test_new_requests_appear(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """The inbox is live by the change stream, where the server has one."""
    page = open_page("/studio/inbox")
    expect(page.locator(".request").first).to_be_visible()
    with server.client() as client:
        demo.run(client, int(ids["plain_workflow"]), order=31337)
    expect(page.get_by_text("Publish release 31337?")).to_be_visible()
