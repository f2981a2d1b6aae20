"""The chat page in a real browser: what a form submits, where its errors are, and what remains after a reload."""

import os
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from servers import Server
from watching import Open

FORM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "fast": {"type": "boolean", "default": True, "title": "Fast"},
        "sure": {"type": "boolean", "title": "Sure"},
        "kind": {"enum": ["card", "cash"], "title": "Kind", "description": "How to pay back"},
        "amount": {"type": "number", "minimum": 1, "maximum": 10, "default": 4, "title": "Amount"},
        "due": {"type": "string", "format": "date", "title": "Due"},
        "lines": {"type": "array", "items": {"type": "integer"}, "title": "Lines"},
        "marks": {"type": "array", "items": {"enum": ["a", "b"]}, "default": ["b"], "title": "Marks"},
        "code": {"type": "string", "pattern": "^A", "title": "Code"},
        "note": {"type": "string", "title": "Note"},
    },
    "required": ["kind", "fast"],
}


@pytest.fixture(scope="module")
def chats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with a scripted model."""
    folder = tmp_path_factory.mktemp("chats")
    (folder / "wfcore.toml").write_text('default_model = "echo"\n[models.echo]\nprovider = "scripted"\n')
    found, before = Server(folder), os.environ.get("WFCORE_CONFIG")
    os.environ["WFCORE_CONFIG"] = str(folder / "wfcore.toml")
    try:
        found.create()
        found.start()
    finally:
        os.environ.pop("WFCORE_CONFIG")
        if before is not None:
            os.environ["WFCORE_CONFIG"] = before
    yield found
    found.kill()


def chat_with_form(server: Server) -> str:
    """The path of the page of a workflow that needs an approval, and then shows its data."""
    ask = {"id": "ask", "type": "humanApproval", "data": {"message": "Pay back?", "formSchema": FORM}}
    value = {"value": "{{ nodes.ask.output.data }}"}
    show = {"id": "show", "type": "action", "data": {"toolId": "core.transform", "params": value}}
    nodes = [{"id": "start", "type": "start"}, ask, show]
    edges = [
        {"id": "1", "source": "start", "target": "ask"},
        {"id": "2", "source": "ask", "sourceHandle": "approved", "target": "show"},
    ]
    with server.client() as client:
        body = {"name": "Refunds", "type": "workflow", "workflowStructure": {"nodes": nodes, "edges": edges}}
        number = client.post("/api/v1/workflows", json=body).json()["id"]
        assert client.post(f"/api/v1/workflows/{number}/deploy").status_code == 200
        return str(client.post(f"/api/v1/workflows/{number}/interfaces", json={"kind": "chatapp"}).json()["url"])


def chat_with_skill(server: Server) -> str:
    with server.client() as client:
        body = {"name": "Helper", "instructions": ["Help."], "interfaces": [{"kind": "chatapp"}]}
        number = client.post("/api/v1/skills", json=body).json()["id"]
        deployed = client.post(f"/api/v1/skills/{number}/deploy")
        assert deployed.status_code == 200, deployed.text
        return str(deployed.json()["variation"]["interfaces"][0]["url"])


def opened(open_page: Open, server: Server, path: str) -> Page:
    """The page, signed in."""
    script = f"sessionStorage.setItem('wfcore {path} token', '{server.token}')"
    return open_page(path, token=None, origin=server.url, script=script)


def say(page: Page, text: str) -> None:
    page.get_by_label("Message").fill(text)
    page.get_by_role("button", name="Send").click()


def test_a_form_submits_what_was_chosen(open_page: Open, chats: Server) -> None:
    """Defaults stay, a choice without a default begins empty and stops a submit, and what is left empty is absent."""
    page = opened(open_page, chats, chat_with_form(chats))
    say(page, "refund")
    expect(page.get_by_label("Fast")).to_be_checked()
    expect(page.get_by_label("Kind")).to_have_value("")
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_label("Kind")).to_be_focused()
    page.get_by_label("Kind").select_option("cash")
    page.get_by_label("Amount").fill("11")
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_label("Amount")).to_be_focused()
    page.get_by_label("Amount").fill("2.5")
    page.get_by_label("Due").fill("2026-03-04")
    page.get_by_label("Lines").fill("3\n 4\n")
    page.get_by_label("a", exact=True).check()
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_text("Approved.")).to_be_visible()
    expect(page.get_by_label("Message")).to_be_focused()
    with chats.client() as client:
        run = client.get("/agent/v1/runs", params={"status": "done"}).json()["runs"][0]
    assert run["output"] == {
        "fast": True, "kind": "cash", "amount": 2.5, "due": "2026-03-04", "lines": [3, 4], "marks": ["a", "b"],
    }  # fmt: skip


def test_errors_are_at_their_field(open_page: Open, chats: Server) -> None:
    """Those of the page and those of the server; the first one has the focus, and the form can be sent again."""
    page = opened(open_page, chats, chat_with_form(chats))
    say(page, "refund")
    page.get_by_label("Kind").select_option("card")
    page.get_by_label("Lines").fill("many")
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_text("“many” is not a number.")).to_be_visible()
    expect(page.get_by_label("Lines")).to_be_focused()
    page.get_by_label("Lines").fill("")
    page.get_by_label("Code").fill("B1")
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_label("Code")).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_label("Code")).to_be_focused()
    page.get_by_label("Code").fill("A1")
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_text("Approved.")).to_be_visible()
    expect(page.locator(".failed")).to_have_count(0)


def test_a_chat_remains_after_a_reload(open_page: Open, chats: Server) -> None:
    """Its messages are shown again, the conversation goes on; a new chat begins empty, and an earlier one is listed."""
    page = opened(open_page, chats, chat_with_skill(chats))
    say(page, "first words")
    expect(page.locator(".bubble")).to_have_count(2)
    answer = page.locator(".bubble").nth(1).text_content()
    assert answer
    expect(page.get_by_role("button", name="Send")).to_be_enabled()
    page.reload()
    expect(page.locator(".bubble")).to_have_text(["first words", answer])
    say(page, "second words")
    expect(page.locator(".bubble")).to_have_count(4)
    expect(page.get_by_role("button", name="Send")).to_be_enabled()
    page.get_by_role("button", name="New chat").click()
    expect(page.locator(".bubble")).to_have_count(0)
    page.get_by_text("Earlier chats").click()
    page.get_by_role("button", name="first words").click()
    expect(page.locator(".bubble")).to_have_count(4)
    expect(page.locator(".bubble").nth(2)).to_have_text("second words")


def test_a_page_that_is_offline_waits(open_page: Open, chats: Server) -> None:
    """It says so, and continues at once when it is online again."""
    page = opened(open_page, chats, chat_with_skill(chats))
    expect(page.get_by_label("Message")).to_be_visible()
    page.context.set_offline(True)
    say(page, "hello")
    expect(page.get_by_text("You are offline.")).to_be_visible()
    page.context.set_offline(False)
    expect(page.locator(".bubble")).to_have_count(2)
