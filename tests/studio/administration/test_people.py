"""The pages about people: who decides for whom, what is stored about a person, and what others change meanwhile."""

import io
import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import demo
import httpx
import pytest
from appearance import check_accessibility
from playwright.sync_api import Page, Route, expect
from servers import ORG, Server, eventually, wfcore
from waiting import HANG
from watching import Open


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[httpx.Client]:
    with server.client() as found:
        yield found


@pytest.fixture(scope="module")
def mia(server: Server, client: httpx.Client) -> str:
    """A token of Mia, who administers nothing."""
    client.post("/api/v1/members", json={"userId": "mia-keller", "name": "Mia Keller", "email": "mia@acme.test"})
    return wfcore(
        "token", "create", "--org", ORG, "--user-id", "mia-keller", "--all-scopes", "--database", server.database
    )


def row(page: Page, text: str) -> Any:
    return page.locator(".record").filter(has_text=text)


def test_a_token_that_writes_sees_what_it_can_read(open_page: Open, server: Server) -> None:
    """`X:write` includes `X:read`: sections, details and choices are those of a token with both."""
    scopes = ("members:write", "workflows:write", "hooks:write", "tokens:write")
    names = [part for scope in scopes for part in ("--scope", scope)]
    token = wfcore("token", "create", "--org", ORG, "--user-id", "ada", *names, "--database", server.database)
    page = open_page("/studio/members/ada", token=token)
    expect(page.get_by_role("heading", name="Delegations")).to_be_visible()
    expect(page.get_by_role("button", name="Export")).to_be_visible()
    page.get_by_role("link", name="Tokens").click()
    page.get_by_role("button", name="New token").click()
    for scope in ("members:read", "members:write", "hooks:read"):
        expect(page.get_by_label(scope)).to_be_visible()
    expect(page.get_by_label("skills:read")).to_have_count(0)
    page.get_by_label("Name").fill("Only reads")
    page.get_by_label("members:read").check()
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_text(re.compile("^svc_"))).to_be_visible()


def test_delegations(open_page: Open, client: httpx.Client, mia: str) -> None:
    """An admin delegates for somebody else, changes it and ends it; issues of the server stand at their fields."""
    flow = demo.workflow(client, "Approve invoices", demo.PLAIN)
    page = open_page("/studio/delegations")
    page.get_by_role("button", name="New delegation").click()
    choose(page, "Decisions of", "Mia Keller")
    choose(page, "Decided by", "Ada Lovelace")
    page.get_by_label("Until").fill("2020-01-02T10:00")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_text("must be in the future")).to_be_visible()
    page.get_by_label("Until").fill("2090-01-02T10:00")
    page.get_by_label("Approve invoices").check()
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", name="Ada Lovelace decides for Mia Keller")).to_be_visible()
    place = "/api/v1/delegations/" + page.url.rsplit("/", 1)[1]
    made = client.get(place).json()
    assert (made["from"], made["to"], made["until"][:4], made["workflowIds"]) == ("mia-keller", "ada", "2090", [flow])
    check_accessibility(page)
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Approve invoices").uncheck()
    page.get_by_label("Until").fill("")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("aside dl")).to_contain_text("Without end")
    now = client.get(place).json()
    assert (now["until"], now["workflowIds"]) == (None, None)

    own = open_page("/studio/members/mia-keller", token=mia)
    own.get_by_role("link", name="Ada Lovelace decides for Mia Keller").click()
    own.get_by_role("button", name="Edit").click()
    expect(own.get_by_label("Decisions of")).to_have_count(0)
    own.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="End", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="End").click()
    expect(row(page, "Mia Keller")).to_have_count(0)
    expect(row(own, "Ada Lovelace")).to_have_count(0)
    assert client.get(place).status_code == 404


def choose(page: Page, label: str, text: str) -> None:
    """Of radio buttons, of a list or by a search: that depends on the people whom other tests have added."""
    group, field = page.get_by_role("radiogroup", name=label), page.get_by_role("combobox", name=label)
    expect(group.or_(field)).to_be_visible()
    if group.count():
        group.get_by_label(text).check()
        return
    expect(field).to_be_enabled()  # the people are read
    if field.evaluate("(one) => one.localName") == "select":
        field.select_option(text)
    else:
        field.fill(text)
        page.get_by_role("option", name=text).click()


def test_a_delegation_of_others_cannot_be_changed(open_page: Open, client: httpx.Client, mia: str) -> None:
    made = client.post("/api/v1/delegations", json={"to": "mia-keller"}).json()["id"]
    page = open_page(f"/studio/delegations/{made}", token=mia)
    expect(page.get_by_role("heading", name="Mia Keller decides for Ada Lovelace")).to_be_visible()
    expect(page.get_by_role("button", name="New delegation")).to_be_visible()
    assert page.get_by_role("button", name=re.compile("^(Edit|End)$")).count() == 0
    client.delete(f"/api/v1/delegations/{made}")
    expect(page.get_by_text("This does not exist")).to_be_visible()


def test_people_are_live(open_page: Open, client: httpx.Client) -> None:
    """What somebody else changes is shown without a reload: in the list, in the details, and in the groups."""
    people, groups = open_page("/studio/members"), open_page("/studio/groups")
    client.post("/api/v1/members", json={"userId": "kay", "name": "Kay McNulty"})
    row(people, "Kay McNulty").click()
    team = client.post("/api/v1/groups", json={"name": "Ballistics"}).json()["id"]
    expect(row(groups, "Ballistics")).to_contain_text("0")
    client.patch("/api/v1/members/kay", json={"groups": [team], "name": "Kay Mauchly"})
    expect(people.get_by_role("heading", name="Kay Mauchly")).to_be_visible()
    expect(people.locator("aside dl")).to_contain_text("Ballistics")
    expect(row(groups, "Ballistics")).to_contain_text("1")
    client.delete("/api/v1/members/kay")
    expect(row(people, "Kay Mauchly")).to_have_count(0)
    client.delete(f"/api/v1/groups/{team}")
    expect(row(groups, "Ballistics")).to_have_count(0)


def test_export(open_page: Open, mia: str, tmp_path: Path) -> None:
    """A member exports the own data, and has no button for those of others."""
    page = open_page("/studio/members/mia-keller", token=mia)
    with page.expect_download() as started:
        page.get_by_role("button", name="Export").click()
    assert started.value.suggested_filename == "mia-keller.zip"
    started.value.save_as(tmp_path / "own.zip")
    with zipfile.ZipFile(io.BytesIO((tmp_path / "own.zip").read_bytes())) as archive:
        (line,) = archive.read("members.jsonl").decode().splitlines()
    assert json.loads(line)["name"] == "Mia Keller"
    other = open_page("/studio/members/ada", token=mia)
    expect(other.locator("aside dl")).to_be_visible()
    assert other.get_by_role("button", name=re.compile("Export|Erase")).count() == 0


def test_erasure(open_page: Open, server: Server, client: httpx.Client) -> None:
    """Only after the user id was entered; a refusal of the server is shown, and the new owner gets the workflow."""
    client.post("/api/v1/members", json={"userId": "jean-bartik", "name": "Jean Bartik"})
    token = wfcore(
        "token", "create", "--org", ORG, "--user-id", "jean-bartik", "--all-scopes", "--database", server.database
    )
    with httpx.Client(
        base_url=server.url, headers={"Authorization": f"Bearer {token}"}, trust_env=False, timeout=HANG
    ) as jean:
        body = {"name": "Trajectories", "type": "workflow", "workflowStructure": demo.QUICK}
        flow = jean.post("/api/v1/workflows", json=body | {"accessConfig": {"visibility": "private"}}).json()["id"]
    page = open_page("/studio/members/jean-bartik")
    page.get_by_role("button", name="Erase").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Erase")).to_be_disabled()
    check_accessibility(page)
    choose(page, "New owner", "Ada Lovelace")
    dialog.get_by_label("enter the user ID").fill("jean-bartik")
    dialog.get_by_role("button", name="Erase").click()
    expect(row(page, "Jean Bartik")).to_have_count(0)
    expect(page).to_have_url(re.compile("/studio/members$"))
    assert client.get("/api/v1/members/jean-bartik").status_code == 404
    assert client.get(f"/api/v1/workflows/{flow}").json()["accessConfig"]["ownerUserId"] == "ada"

    page = open_page("/studio/members/ada")
    page.get_by_role("button", name="Erase").click()
    page.get_by_label("enter the user ID").fill("ada")
    page.get_by_role("dialog").get_by_role("button", name="Erase").click()
    expect(page.get_by_role("alert")).to_contain_text("owner")
    assert client.get("/api/v1/members/ada").status_code == 200


def test_a_long_erasure_shows_its_progress(open_page: Open, client: httpx.Client) -> None:
    """The same request joins it, until the member is gone."""
    client.post("/api/v1/members", json={"userId": "betty-holberton", "name": "Betty Holberton"})
    page = open_page("/studio/members/betty-holberton")
    held: list[Route] = []

    def erase(route: Route) -> None:
        held.append(route)
        if len(held) < 3:
            progress = {"done": len(held), "total": 4}
            route.fulfill(status=202, json={"id": "e", "status": "running", "progress": progress})
        elif len(held) > 3:  # the third did not wait for the end
            route.continue_()

    page.route("**/erase", erase)
    page.get_by_role("button", name="Erase").click()
    page.get_by_label("enter the user ID").fill("betty-holberton")
    page.get_by_role("dialog").get_by_role("button", name="Erase").click()
    expect(page.get_by_role("progressbar")).to_have_js_property("value", 2)
    check_accessibility(page)
    eventually(lambda: page.wait_for_timeout(1) or len(held) > 2)
    held[2].continue_()
    expect(row(page, "Betty Holberton")).to_have_count(0)
    assert len(held) >= 3
    assert {one.request.post_data for one in held} == {"{}"}


def test_usage_is_live(open_page: Open, client: httpx.Client) -> None:
    """A run that ends is counted without a reload."""
    calls = 0

    def report(route: Route) -> None:
        nonlocal calls
        calls += 1
        totals = {"calls": calls, "inputTokens": 10, "outputTokens": 1, "durationMs": 5, "cost": None}
        at = {"from": "2026-03-01T10:00:00Z", "to": "2026-03-14T10:00:00Z", "groupBy": "day"}
        route.fulfill(json={"usage": [{"key": "2026-03-02", **totals}], "totals": totals, **at})

    page = open_page("/studio")
    page.route("**/api/v1/usage?*", report)
    page.goto(page.url.split("/studio")[0] + "/studio/usage")
    expect(page.locator(".tiles")).to_be_visible()
    before = calls
    demo.run(client, demo.workflow(client, "Counted", demo.QUICK), order=1)
    eventually(lambda: page.evaluate("0") == 0 and calls > before)
    eventually(lambda: str(calls) in page.locator(".tiles").inner_text())


def test_a_group_of_many_members(open_page: Open, server: Server, client: httpx.Client) -> None:
    """A page of its members says how many it has at least."""
    team = client.post("/api/v1/groups", json={"name": "Crowd"}).json()["id"]
    members = [
        {"userId": f"u{number}", "email": None, "name": f"Member {number}", "role": "member", "groups": [team]}
        for number in range(1_250)
    ]

    def answer(route: Route) -> None:
        query = parse_qs(urlsplit(route.request.url).query)
        begin, size = int(query.get("pageToken", ["0"])[0]), int(query["pageSize"][0])
        more = str(begin + size) if begin + size < len(members) else None
        route.fulfill(json={"members": members[begin : begin + size], "nextPageToken": more})

    page = open_page("/studio/more")
    page.route(re.compile(r"/api/v1/members\?"), answer)
    page.goto(f"{server.url}/studio/groups")
    expect(row(page, "Crowd")).to_contain_text("100+")
    client.delete(f"/api/v1/groups/{team}")


@pytest.fixture
def noor(client: httpx.Client) -> Iterator[str]:
    made = client.post("/api/v1/members", json={"userId": "noor", "name": "Noor Khan", "email": "noor@acme.test"})
    assert made.status_code == 201, made.text
    yield "noor"
    client.delete("/api/v1/members/noor")


def test_people_of_a_group(open_page: Open, client: httpx.Client, noor: str) -> None:
    """They are added by name and taken out on the page of the group; other groups of a person stay."""
    first, second = (
        client.post("/api/v1/groups", json={"name": name}).json()["id"] for name in ("Night shift", "Day shift")
    )
    client.patch(f"/api/v1/members/{noor}", json={"groups": [first]})

    def groups() -> Any:
        return client.get(f"/api/v1/members/{noor}").json()["groups"]

    page = open_page(f"/studio/groups/{second}")
    members = page.get_by_role("region", name="Members")
    expect(members.get_by_text("Nobody yet")).to_be_visible()
    field = members.get_by_role("combobox", name="Add a person")
    field.fill("noor")
    expect(page.get_by_role("option", name="Noor Khan")).to_be_visible()  # people are read
    field.press("Enter")
    expect(members.get_by_role("listitem")).to_have_count(1)
    assert sorted(groups()) == sorted([first, second])
    check_accessibility(page)
    members.get_by_role("button", name="Remove Noor").click()
    expect(members.get_by_text("Nobody yet")).to_be_visible()
    assert groups() == [first]
    for group in (first, second):
        client.delete(f"/api/v1/groups/{group}")


def test_a_person_is_found_by_name(open_page: Open, noor: str) -> None:
    page = open_page("/studio/members")
    field = page.get_by_role("combobox", name="Find a person")
    field.fill("noor")
    expect(page.get_by_role("option", name=re.compile("noor"))).to_be_visible()  # people are read
    field.press("Enter")
    expect(page).to_have_url(re.compile(f"/studio/members/{noor}$"))
    expect(page.locator("aside dl")).to_be_visible()
