"""An organization with more people than a page: they are found by the search of the server, and shown by name."""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import demo
import httpx
import pytest
from appearance import check_accessibility
from playwright.sync_api import Page, expect
from servers import Server, eventually
from watching import Open

MANY = 101


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[httpx.Client]:
    with server.client() as found:
        yield found


@pytest.fixture(scope="module", autouse=True)
def crowd(client: httpx.Client) -> Iterator[None]:
    """Zoe is none of the first by user id; one of these has no address."""
    people = [
        {"userId": f"c{number:03}", "name": f"Member {number}", "email": f"c{number}@acme.test"}
        for number in range(MANY)
    ]
    del people[0]["email"]
    for one in (*people, {"userId": "zoe-1", "name": "Zoe Late", "email": "zoe@acme.test"}):
        assert client.post("/api/v1/members", json=one).status_code == 201
    yield
    for one in (*people, {"userId": "zoe-1"}):
        client.delete(f"/api/v1/members/{one['userId']}")


def reads_of(page: Page) -> list[dict[str, list[str]]]:
    """The queries by which people are read, from now on."""
    found: list[dict[str, list[str]]] = []

    def note(request: Any) -> None:
        if urlsplit(request.url).path == "/api/v1/members":
            found.append(parse_qs(urlsplit(request.url).query))

    page.on("request", note)
    return found


def test_a_person_is_found_and_opened(open_page: Open) -> None:
    """What is typed is searched once it rests; of the list itself a page is read."""
    page = open_page("/studio/more")
    reads = reads_of(page)
    page.get_by_role("navigation", name="Main").get_by_role("link", name="People").click()
    field = page.get_by_role("combobox", name="Find a person")
    field.click()
    expect(page.get_by_text("There are more: search to narrow them down")).to_be_visible()
    field.press_sequentially("LATE")
    expect(page.get_by_role("option", name="Zoe Late")).to_be_visible()
    check_accessibility(page)
    field.press("Enter")
    expect(page).to_have_url(re.compile("/studio/members/zoe-1$"))
    assert {"q": ["LATE"], "pageSize": ["100"]} in reads
    assert not [read for read in reads if "pageToken" in read]
    field.fill("nobody has this")
    expect(page.get_by_text("Nothing matches")).to_be_visible()


def test_a_delegation_names_both(open_page: Open, client: httpx.Client) -> None:
    page = open_page("/studio/delegations")
    page.get_by_role("button", name="New delegation").click()
    for label, text in (("Decisions of", "zoe@"), ("Decided by", "Member 100")):
        field = page.get_by_role("combobox", name=label)
        field.fill(text)
        expect(page.get_by_role("option", name=re.compile("Zoe Late|Member 100"))).to_be_visible()
        field.press("Enter")
    field = page.get_by_role("combobox", name="Decided by")
    field.fill("Zoe Late")  # nobody decides for themselves
    expect(page.get_by_text("Nothing matches")).to_be_visible()
    field.press("Escape")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", name="Member 100 decides for Zoe Late")).to_be_visible()
    place = "/api/v1/delegations/" + page.url.rsplit("/", 1)[1]
    assert [client.get(place).json()[side] for side in ("from", "to")] == ["zoe-1", "c100"]
    page.reload()
    expect(page.locator(".record").filter(has_text="Zoe Late")).to_contain_text("Member 100")
    page.goto(page.url.partition("/studio")[0] + "/studio/members/zoe-1")
    expect(page.get_by_role("link", name="Member 100 decides for Zoe Late")).to_be_visible()
    client.delete(place)


def test_an_approver_is_found_and_shown_by_name(open_page: Open, client: httpx.Client) -> None:
    node = demo.node("ask", "humanApproval", message="Pay?")
    structure = {"nodes": [demo.node("start", "start"), node], "edges": [demo.edge("start", "ask")]}
    body = {"name": "Ask one", "type": "workflow", "workflowStructure": structure}
    number = client.post("/api/v1/workflows", json=body).json()["id"]
    page = open_page(f"/studio/workflows/{number}")
    page.locator(".react-flow__node[data-id=ask]").click()
    people = page.get_by_role("combobox", name="People")
    people.fill("late")
    expect(page.get_by_role("option", name="Zoe Late")).to_be_visible()
    people.press("Enter")
    expect(page.get_by_text("Zoe Late · zoe@acme.test")).to_be_visible()

    def saved() -> Any:
        draft = client.get(f"/api/v1/workflows/{number}", params={"view": "draft"}).json()
        return draft["variation"]["workflowStructure"]["nodes"][1]["data"].get("approvers")

    eventually(lambda: saved() == {"emails": ["zoe@acme.test"]})
    page.reload()
    page.locator(".react-flow__node[data-id=ask]").click()
    expect(page.get_by_text("Zoe Late · zoe@acme.test")).to_be_visible()


def test_filters_and_groups_find_people(open_page: Open, client: httpx.Client) -> None:
    """Whose tokens and whose actions are listed, and who joins a group."""
    team = client.post("/api/v1/groups", json={"name": "Late shift"}).json()["id"]
    page = open_page(f"/studio/groups/{team}")
    field = page.get_by_role("combobox", name="Add a person")
    field.fill("late")
    expect(page.get_by_role("option", name="Zoe Late")).to_be_visible()
    field.press("Enter")
    members = page.get_by_role("region", name="Members").get_by_role("list")
    expect(members.get_by_role("link", name="Zoe Late")).to_be_visible()
    expect(page.locator(".record").filter(has_text="Late shift")).to_contain_text("1")
    for section, name, parameter in (("tokens", "Of", "userId=zoe-1"), ("audit", "Who", "userId=zoe-1")):
        page.goto(page.url.partition("/studio")[0] + f"/studio/{section}")
        field = page.get_by_role("combobox", name=name, exact=True).and_(page.locator("input"))
        field.fill("late")
        expect(page.get_by_role("option", name="Zoe Late")).to_be_visible()
        with page.expect_request(lambda request, wanted=parameter: wanted in request.url):
            field.press("Enter")
        expect(field).to_have_value("Zoe Late")
    client.delete(f"/api/v1/groups/{team}")


def test_a_large_group_shows_all_of_its_members(open_page: Open, client: httpx.Client) -> None:
    """Page after page."""
    team = client.post("/api/v1/groups", json={"name": "Crowd"}).json()["id"]
    for number in range(MANY):
        place = f"/api/v1/members/c{number:03}"
        assert client.patch(place, json={"groups": [team]}).status_code == 200
    page = open_page(f"/studio/groups/{team}")
    members = page.get_by_role("region", name="Members")
    links = members.get_by_role("list").get_by_role("link")
    expect(links).to_have_count(100)
    members.get_by_role("button", name="Show more").click()
    expect(links).to_have_count(MANY)
    expect(members.get_by_role("button", name="Show more")).to_have_count(0)
    client.delete(f"/api/v1/groups/{team}")
