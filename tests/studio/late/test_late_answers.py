"""Answers that come when the user has gone on: they overwrite and close nothing that is newer, and lose no input."""

import re
from typing import Any

import demo
import pytest
from held import AFTER_A_FRAME, Held, method
from playwright.sync_api import Route, expect
from servers import Server, eventually
from test_builder import create, opened
from test_builder_settings import settings
from test_chat import chat
from test_chat_page import client, idle, say
from test_skill import opened as skill_page
from test_skill import skill, tab
from watching import Open


def test_what_is_typed_while_settings_are_saved(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """It is still there, and still to be saved."""
    with server.client() as client:
        workflow = create(client)
        page = opened(open_page, workflow)
        dialog = settings(page, "General")
        dialog.get_by_label("Name").fill("Late")
        held = Held(page, rf"/workflows/{workflow}$", method("PATCH"))
        dialog.get_by_role("button", name="Save").click()
        held.collect()
        dialog.get_by_label("Description").fill("Typed meanwhile")
        held.answer()
        held.end()
        expect(page.get_by_role("heading", name="Late")).to_be_visible()
        expect(dialog.get_by_label("Description")).to_have_value("Typed meanwhile")
        expect(dialog.get_by_role("button", name="Discard")).to_be_visible()
        dialog.get_by_role("button", name="Save").click()
        expect(dialog.get_by_role("button", name="Discard")).to_have_count(0)
        assert client.get(f"/api/v1/workflows/{workflow}").json()["description"] == "Typed meanwhile"


def test_a_version_is_shown_with_its_own_differences(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    with server.client() as client:
        workflow = demo.workflow(client, "Late versions", demo.graph([demo.transform("one", 1)], ("start", "one")))
        for name in ("two", "three"):
            structure = demo.graph([demo.transform(name, 1)], ("start", name))
            client.patch(f"/api/v1/workflows/{workflow}", json={"workflowStructure": structure})
            client.post(f"/api/v1/workflows/{workflow}/deploy")
        page = opened(open_page, workflow)
        dialog = settings(page, "Versions")
        held = Held(page, r"/diff\?", lambda _: True)
        compare = dialog.get_by_role("button", name="Compare")
        expect(compare).to_have_count(3)
        compare.nth(2).click()
        held.collect()
        compare.nth(1).click()
        held.collect(2)
        held.answer(1)
        expect(dialog.locator(".changes .bad")).to_have_text("two")
        held.answer(0)
        expect(dialog.locator(".changes .bad")).to_have_text("two")


def test_a_run_that_was_not_waited_for(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """Its start closes no other dialog, and the draft stays in sight; it can be opened."""
    with server.client() as client:
        workflow = create(client, demo.graph([demo.transform("first", 1)], ("start", "first")))
        page = opened(open_page, workflow)
        held = Held(page, r"/agent/v1/runs$", method("POST"))
        page.get_by_role("button", name="Run", exact=True).click()
        page.get_by_role("dialog").get_by_role("button", name="Run").click()
        held.collect()
        page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
        dialog = settings(page, "General")
        held.answer()
        expect(dialog).to_be_visible()
        dialog.get_by_role("button", name="Close").click()
        page.get_by_role("button", name="Last run").click()
        expect(page.locator(".crumbs")).to_be_visible()


class TestMemories:
    def test_of_the_last_search(self, open_page: Open, chats: dict[str, Any]) -> None:
        page = skill_page(open_page, chats, skill(chats, "Late memories"))
        tab(page, "Memories")
        for text in ("Likes green tea", "Pays by card"):
            page.get_by_label("New memory").fill(text)
            page.get_by_role("button", name="Remember").click()
            expect(page.locator(".memories")).to_contain_text(text)
        held = Held(page, "/memories/search$", lambda _: True)
        for count, text in enumerate(("green", "card"), 1):
            page.get_by_label("Search memories").fill(text)
            held.collect(count)
        held.answer(1)
        expect(page.locator(".memories li")).to_have_count(1)
        held.answer(0)
        expect(page.locator(".memories li")).to_contain_text("Pays by card")

    @pytest.mark.parametrize("field", ["New memory", "Memory"])
    def test_what_is_typed_while_one_is_saved(self, open_page: Open, chats: dict[str, Any], field: str) -> None:
        page = skill_page(open_page, chats, skill(chats, f"Late {field}"))
        tab(page, "Memories")
        page.get_by_label("New memory").fill("Likes tea")
        page.get_by_role("button", name="Remember").click()
        box = page.get_by_label(field, exact=True)
        if field == "Memory":
            page.get_by_role("button", name="Edit: Likes tea").click()
        else:
            expect(box).to_have_value("")
        box.fill("Likes cake")
        held = Held(page, r"/memories(/[\w-]+)?$", lambda request: request.method in ("POST", "PATCH"))
        page.get_by_role("button", name="Save" if field == "Memory" else "Remember").click()
        held.collect()
        box.fill("Likes cake and coffee")
        held.answer()
        held.end()
        expect(page.locator(".memories")).to_contain_text("Likes cake")
        expect(box).to_have_value("Likes cake and coffee")


class TestRecords:
    def test_another_one_that_was_opened_stays(self, open_page: Open, server: Server) -> None:
        """A record that is removed closes its own details only."""
        with server.client() as client:
            one, other = (client.post("/api/v1/groups", json={"name": f"Late {name}"}).json()["id"] for name in "AB")
            page = open_page(f"/studio/groups/{one}")
            page.get_by_role("button", name="Remove").click()
            held = Held(page, f"/groups/{one}$", method("DELETE"))
            page.get_by_role("dialog").get_by_role("button", name="Remove").click()
            held.collect()
            page.locator(".record").filter(has_text="Late B").click()
            expect(page.locator("aside").get_by_role("heading", name="Late B")).to_be_visible()
            held.answer()
            expect(page.locator(".record").filter(has_text="Late A")).to_have_count(0)
            expect(page.locator("aside").get_by_role("heading", name="Late B")).to_be_visible()
            expect(page).to_have_url(re.compile(f"/groups/{other}$"))
            client.delete(f"/api/v1/groups/{other}")

    def test_what_was_read_before_a_change(self, open_page: Open, server: Server) -> None:
        """It does not take the place of what the change gave."""
        with server.client() as client:
            place = f"/api/v1/groups/{client.post('/api/v1/groups', json={'name': 'Late before'}).json()['id']}"
            page = open_page(place.replace("/api/v1", "/studio"))
            heading = page.locator("aside").get_by_role("heading", level=2)
            expect(heading).to_have_text("Late before")
            held = Held(page, f"{place}$", method("GET"))
            page.get_by_role("button", name="Edit").click()
            page.get_by_label("Name").fill("Never saved")
            page.get_by_role("button", name="Cancel").click()  # reads the record again
            held.collect()
            page.get_by_role("button", name="Edit").click()
            page.get_by_label("Name").fill("Late after")
            page.get_by_role("button", name="Save").click()
            expect(heading).to_have_text("Late after")
            held.answer()
            expect(heading).to_have_text("Late after")
            client.delete(place)


def test_the_tag_of_a_schedule_is_that_of_the_newest_read(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """An older one would make the next change a conflict with nobody."""
    schedule = {"frequency": "daily", "timezone": "UTC", "time_of_day": "09:00"}
    with server.client() as client:
        workflow = create(client, demo.graph([demo.transform("first", 1)], ("start", "first")))
        place = f"/api/v1/workflows/{workflow}"
        name = f"Late tags {workflow}"
        client.patch(place, json={"name": name, "trigger": {"trigger_type": "schedule", "schedule": schedule}})
        client.post(f"{place}/deploy")
        page = open_page("/studio/schedules")
        held = Held(page, f"{place}$", method("GET"))
        page.locator(".record").filter(has_text=name).click()
        held.collect()
        client.patch(place, json={"name": f"{name} later"})
        held.collect(2)
        held.answer(1)
        held.answer(0)
        held.end()
        page.get_by_role("button", name="Switch on").click()
        expect(page.get_by_role("button", name="Switch off")).to_be_visible()
        expect(page.get_by_role("alert")).to_have_count(0)
        client.delete(place)


class TestChangesOfOthers:
    """They are seen just after an own change, too."""

    def test_while_settings_are_shown(self, open_page: Open, chats: dict[str, Any]) -> None:
        number = skill(chats, "Late settings")
        page = skill_page(open_page, chats, number)
        tab(page, "Settings")
        name = page.get_by_label("Name", exact=True).first
        name.fill("Mine")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_role("heading", name="Mine")).to_be_visible()
        notice = page.get_by_role("status").filter(has_text="changed")
        expect(notice).to_have_count(0)
        with client(chats) as api:
            api.patch(f"/api/v1/skills/{number}", json={"name": "Theirs"})
        expect(notice).to_be_visible()
        expect(page.get_by_role("heading", name="Theirs")).to_be_visible()
        expect(name).to_have_value("Mine")
        page.get_by_role("button", name="Cancel").click()
        expect(name).to_have_value("Theirs")
        expect(notice).to_have_count(0)

    def test_after_a_deploy(self, open_page: Open, chats: dict[str, Any]) -> None:
        """A deploy is no change of the settings: they can be saved."""
        number = skill(chats, "Late deploy")
        page = skill_page(open_page, chats, number)
        tab(page, "Settings")
        for text in ("First", "Second"):
            page.get_by_label("Expected output").fill(text)
            page.get_by_role("button", name="Save").click()
            page.get_by_role("button", name="Deploy").click()
            expect(page.get_by_role("button", name="Deploy")).to_have_count(0)
        expect(page.get_by_role("alert")).to_have_count(0)


def test_a_person_who_is_looked_for_before_people_are_read(open_page: Open, server: Server) -> None:
    """What is typed stays until they are there."""
    page = open_page("/studio/groups")
    held = Held(page, r"/api/v1/members\?", lambda _: True)
    page.get_by_role("link", name="People").click()
    field = page.get_by_role("combobox", name="Find a person")
    held.collect()
    field.fill("ada")
    field.press("Enter")
    held.end()
    while held.waiting:
        held.answer()
    expect(page.get_by_role("option", name="ada")).to_be_visible()
    field.press("Enter")
    expect(page).to_have_url(re.compile("/studio/members/ada$"))


def test_a_group_that_is_typed_before_groups_are_read(open_page: Open, server: Server) -> None:
    """It stays too, in a field of a node."""
    graph = demo.graph([demo.node("ask", "humanApproval", message="Pay?")], ("start", "ask"))
    with server.client() as client:
        page = opened(open_page, create(client, graph))
    held = Held(page, r"/api/v1/groups\?", lambda _: True)
    page.locator("[data-id=ask]").click()
    held.collect()
    field = page.get_by_role("combobox", name="Groups")
    field.fill("everyone")
    field.press("Enter")
    held.end()
    held.answer()
    expect(page.get_by_role("option", name="Everyone")).to_be_visible()
    field.press("Enter")
    expect(page.get_by_role("button", name="Remove Everyone in the organization")).to_be_visible()


def test_the_number_of_open_requests(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """It is that of the latest count. The numbers are those of the test: other tests have requests too."""
    with server.client() as client:
        page = open_page("/studio/groups")
        badge = page.get_by_role("link", name=re.compile("^Inbox")).locator(".badge")
        expect(badge).to_be_visible()
        runs: list[str] = []
        held = Held(page, "/inbox/count$", lambda _: True)
        for count in (1, 2):
            runs.append(demo.run(client, int(ids["plain_workflow"]), order=f"late {count}"))
            demo.settle(client, runs[-1])
            held.collect(count)
        held.answer(len(held.waiting) - 1, json={"count": 72})
        expect(badge).to_have_text("72")
        held.answer(0, json={"count": 71})
        expect(badge).to_have_text("72")
        for run_id in runs:  # other tests look at the list of the first requests
            client.post(f"/agent/v1/runs/{run_id}/cancel")


class TestChats:
    def test_older_messages_are_read_once(self, open_page: Open, chats: dict[str, Any]) -> None:
        """A second click while they are read adds nothing."""
        held: list[Route] = []

        def answer(route: Route) -> None:
            if "pageToken" in route.request.url:
                return held.append(route)
            return route.fulfill(json=page_of("newer", "older"))

        def page_of(text: str, token: str | None) -> dict[str, Any]:
            message = {"type": "ai", "content": text, "id": f"r:{text}", "toolCalls": []}
            return {"threadId": "t", "skillId": 1, "messages": [message], "nextPageToken": token}

        page = chat(open_page, chats, "?skillId=1&sessionId=none")
        page.route(re.compile(r"/conversations/[^?]"), answer)
        page.goto(f"{chats['url']}/studio/chat?skillId={chats['helper']}&sessionId=late")
        page.get_by_role("button", name="older").dblclick()
        eventually(lambda: page.wait_for_timeout(1) or held)
        page.evaluate(AFTER_A_FRAME)
        for route in held:
            route.fulfill(json=page_of("older", None))
        expect(page.get_by_role("button", name="older")).to_have_count(0)
        expect(page.locator(".bubble")).to_have_text([re.compile("older"), re.compile("newer")])

    def test_a_chat_that_is_forgotten_closes_no_other_question(self, open_page: Open, chats: dict[str, Any]) -> None:
        page = chat(open_page, chats, f"?skillId={skill(chats, 'Late chats')}")
        for text in ("late one", "late two", "late three"):
            say(page, text)
            expect(page.locator(".bubble.own")).to_have_count(1)
            idle(page)
            page.get_by_role("button", name="New chat").click()
        page.get_by_role("button", name="Earlier").click()
        held = Held(page, "/conversations/", method("DELETE"))
        dialog = page.get_by_role("dialog")
        page.get_by_role("button", name=re.compile("late one")).last.click()
        dialog.get_by_role("button").last.click()
        held.collect()
        dialog.get_by_role("button", name="Cancel").click()
        page.get_by_role("button", name=re.compile("late two")).last.click()
        expect(dialog).to_contain_text("late two")
        held.answer()
        expect(page.locator(".earlier")).not_to_contain_text("late one")
        expect(dialog).to_contain_text("late two")
