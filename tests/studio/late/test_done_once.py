"""What is pressed twice is done once, and what was cancelled meanwhile shows nothing else."""

import re
from typing import Any

import demo
import pytest
from held import AFTER_A_FRAME, Held, method
from playwright.sync_api import expect
from servers import Server
from test_builder import create, opened
from test_builder_settings import settings
from test_chat import chat
from test_chat_page import idle, say
from test_skill import opened as skill_page
from test_skill import skill
from watching import Open


def test_a_skill_is_deleted_once(open_page: Open, chats: dict[str, Any]) -> None:
    page = skill_page(open_page, chats, skill(chats, "Twice"))
    held = Held(page, r"/api/v1/skills/\d+$", method("DELETE"))
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").dblclick()
    held.collect()
    page.keyboard.press("Enter")
    page.evaluate(AFTER_A_FRAME)
    assert len(held.waiting) == 1
    entries = page.evaluate("history.length")
    held.answer()
    expect(page.get_by_role("heading", name="Skills")).to_be_visible()
    assert page.evaluate("history.length") == entries + 1


def test_a_schedule_is_switched_once(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """A second toggle would undo the first one."""
    trigger = {
        "trigger_type": "schedule",
        "schedule": {"frequency": "daily", "timezone": "UTC", "time_of_day": "09:00"},
    }
    with server.client() as client:
        workflow = create(client, demo.graph([demo.transform("first", 1)], ("start", "first")))
        client.patch(f"/api/v1/workflows/{workflow}", json={"trigger": trigger})
        assert client.post(f"/api/v1/workflows/{workflow}/deploy").status_code == 200
        page = opened(open_page, workflow)
        button = page.get_by_role("button", name="Switch on").first
        expect(button).to_be_visible()
        held = Held(page, f"/workflows/{workflow}/toggle$", method("POST"))
        button.dblclick()
        held.collect()
        page.evaluate(AFTER_A_FRAME)
        assert len(held.waiting) == 1
        held.answer()
        expect(button).to_have_count(0)
        assert client.get(f"/api/v1/workflows/{workflow}").json()["isEnabled"] is True
        client.delete(f"/api/v1/workflows/{workflow}")  # the calendar of another test would show it


def test_a_chat_page_is_made_once(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """Also while what follows it is read."""
    with server.client() as client:
        workflow = create(client, demo.graph([demo.transform("first", 1)], ("start", "first")))
        client.patch(f"/api/v1/workflows/{workflow}", json={"trigger": {"trigger_type": "chatapp"}})
        page = opened(open_page, workflow)
        settings(page, "Trigger")
        button = page.get_by_role("button", name="Make a chat page")
        held = Held(page, rf"/workflows/{workflow}(\?|$)", method("GET"))
        with page.expect_response(re.compile("/interfaces$")):
            button.click()
        held.collect()
        button.click(force=True)
        page.evaluate(AFTER_A_FRAME)
        held.end()
        while held.waiting:
            held.answer()
        expect(page.get_by_text(re.compile("/interfaces/chatapp/"))).to_be_visible()
        listed = client.get(f"/api/v1/workflows/{workflow}/interfaces").json()["interfaces"]
        assert len(listed) == 1


@pytest.mark.parametrize("way", ["Cancel", "Escape"])
def test_a_workflow_that_was_not_waited_for(open_page: Open, server: Server, ids: dict[str, str], way: str) -> None:
    """It is in the list, which stays in sight."""
    name = f"Not waited for by {way}"
    page = open_page("/studio/workflows")
    page.get_by_role("button", name="New workflow").click()
    page.get_by_label("Name of the new workflow").fill(name)
    held = Held(page, "/api/v1/workflows$", method("POST"))
    page.get_by_role("dialog").get_by_role("button", name="Create").click()
    held.collect()
    if way == "Escape":
        page.keyboard.press("Escape")
    else:
        page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    held.answer()
    page.get_by_role("searchbox").fill(name)  # other tests have made many
    expect(page.get_by_role("link", name=re.compile(name))).to_be_visible()
    expect(page).to_have_url(re.compile("/studio/workflows$"))
    page.get_by_role("button", name="New workflow").click()
    expect(page.get_by_label("Name of the new workflow")).to_have_value("")


def test_a_record_that_was_not_waited_for(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """It is in the list, and what is opened meanwhile stays: another form, too."""
    page = open_page("/studio/groups")
    page.get_by_role("button", name="New group").click()
    page.get_by_label("Name").fill("Not waited for")
    held = Held(page, "/api/v1/groups$", method("POST"))
    page.get_by_role("button", name="Create").click()
    held.collect()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="New group").click()
    page.get_by_label("Name").fill("Second")
    held.answer()
    expect(page.locator(".record").filter(has_text="Not waited for")).to_be_visible()
    expect(page).to_have_url(re.compile("/studio/groups$"))
    expect(page.get_by_label("Name")).to_have_value("Second")


def test_an_interface_that_was_not_waited_for(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    with server.client() as client:
        workflow = create(client, demo.graph([demo.transform("first", 1)], ("start", "first")))
    page = opened(open_page, workflow)
    dialog = settings(page, "Interfaces")
    kinds = dialog.get_by_role("group", name="Add an interface")
    kinds.get_by_role("button", name="Chat page").click()
    held = Held(page, "/interfaces$", method("POST"))
    dialog.get_by_role("button", name="Create").click()
    held.collect()
    dialog.get_by_role("button", name="Cancel").click()
    kinds.get_by_role("button", name="Tool for MCP").click()
    dialog.get_by_label("Title").fill("Second")
    with page.expect_response(re.compile(rf"/workflows/{workflow}\?view=draft")):  # what follows the change
        held.answer()
    page.evaluate(AFTER_A_FRAME)
    expect(dialog.get_by_label("Title")).to_have_value("Second")


def test_a_chat_that_could_not_be_forgotten(open_page: Open, chats: dict[str, Any]) -> None:
    """The question stays, and says why."""
    page = chat(open_page, chats, f"?skillId={skill(chats, 'Forgets nothing')}")
    say(page, "remember me")
    idle(page)
    page.get_by_role("button", name="New chat").click()
    page.get_by_role("button", name="Earlier").click()
    page.route(re.compile("/conversations/"), lambda route: route.abort())
    page.get_by_role("button", name=re.compile("remember me")).last.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button").last.click()
    expect(dialog.get_by_role("alert")).to_have_text("The server cannot be reached")
    page.unroute_all(behavior="ignoreErrors")
    dialog.get_by_role("button").last.click()
    expect(dialog).to_have_count(0)
    expect(page.locator(".earlier")).not_to_contain_text("remember me")
