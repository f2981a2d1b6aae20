"""The interfaces of a workflow: chat pages, tools for MCP clients and team chats, in its settings."""

from typing import Any

import demo
import httpx
from appearance import check_accessibility
from playwright.sync_api import Locator, Page, expect
from servers import Server
from test_builder import SAVED, create, opened
from test_builder_settings import settings
from watching import Open


def listed(client: httpx.Client, workflow: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get(f"/api/v1/workflows/{workflow}/interfaces").json()["interfaces"]
    return found


def shown(open_page: Open, client: httpx.Client) -> tuple[Page, Locator, int]:
    """A page of a new workflow, the tab of its interfaces, and its id."""
    workflow = create(client, demo.graph([demo.transform("first", 1)], ("start", "first")))
    page = opened(open_page, workflow)
    return page, settings(page, "Interfaces"), workflow


def test_a_tool_for_mcp_clients(open_page: Open, server: Server) -> None:
    """It is added, shown with its address, changed and removed. Keys of other programs stay."""
    with server.client() as client:
        page, dialog, workflow = shown(open_page, client)
        expect(dialog.get_by_text("The addresses work once the workflow is deployed")).to_be_visible()
        dialog.get_by_role("button", name="Tool for MCP clients").click()
        dialog.get_by_label("Title").fill("Refund")
        check_accessibility(page)
        dialog.get_by_role("button", name="Create").click()
        row = dialog.get_by_role("listitem", name="Tool for MCP clients")
        expect(row).to_be_visible()
        (made,) = listed(client, workflow)
        assert (made["kind"], made["config"]) == ("mcp", {"title": "Refund"})
        expect(row.get_by_text(made["url"])).to_be_visible()
        check_accessibility(page)

        path = f"/api/v1/workflows/{workflow}/interfaces/{made['id']}"
        client.patch(path, json={"config": {"title": "Refund", "team": "billing"}}).raise_for_status()
        page.reload()
        dialog = settings(page, "Interfaces")
        row = dialog.get_by_role("listitem", name="Tool for MCP clients")
        row.get_by_role("button", name="Edit").click()
        dialog.get_by_label("Title").fill("")
        dialog.get_by_label("What the tool is for").fill("Refunds an order")
        dialog.get_by_role("button", name="Save").click()
        expect(row).to_be_visible()
        assert listed(client, workflow)[0]["config"] == {"team": "billing", "description": "Refunds an order"}

        row.get_by_role("button", name="Remove").click()
        page.get_by_role("dialog", name="Remove this interface?").get_by_role("button", name="Remove").click()
        expect(row).to_have_count(0)
        assert listed(client, workflow) == []
        dialog.get_by_role("tab", name="General").click()
        dialog.get_by_label("Name").fill("Renamed")
        dialog.get_by_role("button", name="Save").click()
        expect(dialog.get_by_text("Saved", exact=True)).to_be_visible()
        expect(page.locator(SAVED)).to_be_visible()


def test_a_team_chat(open_page: Open, server: Server) -> None:
    """What the server refuses stands at its field; the secret is shown on demand."""
    with server.client() as client:
        _, dialog, workflow = shown(open_page, client)
        dialog.get_by_role("button", name="Team chat").click()
        address = dialog.get_by_label("Address for answers")
        address.fill("ftp://chat.example.org")
        dialog.get_by_role("button", name="Create").click()
        expect(address).to_have_attribute("aria-invalid", "true")
        expect(address).to_be_focused()
        address.fill("https://chat.example.org/answers")
        dialog.get_by_role("button", name="Create").click()
        row = dialog.get_by_role("listitem", name="Team chat")
        row.get_by_role("button", name="Show secret").click()
        (made,) = listed(client, workflow)
        assert made["config"] == {"postUrl": "https://chat.example.org/answers", "approvals": False}
        secret = client.get(f"/api/v1/workflows/{workflow}/interfaces/{made['id']}/secret").json()["secret"]
        expect(row.get_by_text(secret, exact=True)).to_be_visible()


def test_slack(open_page: Open, server: Server) -> None:
    """Its connection is chosen by name, and its signing secret stays if no other is typed, but with approvals."""
    with server.client() as client:
        body = {"name": "Our Slack", "provider": "slack", "kind": "api_key", "config": {"apiKey": "xoxb-1"}}
        connection = client.post("/api/v1/connections", json=body).json()["id"]
        _, dialog, workflow = shown(open_page, client)
        dialog.get_by_role("button", name="Slack").click()
        dialog.get_by_role("combobox", name="Connection").fill("our sl")
        dialog.get_by_role("option", name="Our Slack").click()
        dialog.get_by_label("Signing secret").fill("0123456789abcdef0123456789abcdef")
        dialog.get_by_role("button", name="Create").click()
        row = dialog.get_by_role("listitem", name="Slack")
        row.get_by_role("button", name="Edit").click()
        expect(dialog.get_by_role("combobox", name="Connection")).to_have_value("Our Slack")
        dialog.get_by_role("button", name="Save").click()
        expect(row).to_be_visible()
        kept = {"format": "slack", "connectionId": connection, "signingSecret": {"set": True}}
        assert listed(client, workflow)[0]["config"] == {**kept, "approvals": False}
        row.get_by_role("button", name="Edit").click()
        dialog.get_by_label("Approvals can be answered in the chat").check()
        dialog.get_by_role("button", name="Save").click()
        secret = dialog.get_by_label("Signing secret")
        expect(secret).to_have_attribute("aria-invalid", "true")
        secret.fill("0123456789abcdef0123456789abcdee")
        dialog.get_by_role("button", name="Save").click()
        expect(row).to_be_visible()
        assert listed(client, workflow)[0]["config"] == {**kept, "approvals": True}


def test_a_chat_page(open_page: Open, server: Server) -> None:
    """A site that can show it in a frame is an origin; a wrong one is told at its entry."""
    with server.client() as client:
        _, dialog, workflow = shown(open_page, client)
        dialog.get_by_role("button", name="Chat page").click()
        dialog.get_by_role("button", name="Add").click()
        site = dialog.get_by_label("Site", exact=False).last
        site.fill("https://app.example.org/path")
        dialog.get_by_role("button", name="Create").click()
        expect(site).to_have_attribute("aria-invalid", "true")
        site.fill("https://app.example.org")
        dialog.get_by_role("button", name="Create").click()
        expect(dialog.get_by_role("listitem", name="Chat page")).to_be_visible()
        assert listed(client, workflow)[0]["config"] == {"frameAncestors": ["https://app.example.org"]}
