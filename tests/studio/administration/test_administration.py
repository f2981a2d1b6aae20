"""The pages of the administration in a real browser: what they show, make, change and remove, and for whom."""

import re
from typing import Any

import demo
import httpx
import pytest
import test_hostile
from appearance import APPEARANCES, check_accessibility
from playwright.sync_api import Page, Route, expect
from servers import ORG, Server, eventually, wfcore
from slices import slice_of
from test_keyboard import tab_to
from waiting import HANG
from watching import Open

SECTIONS = {
    "connections": "Ledger", "tools": "Transform", "schedules": "Nightly",
    "members": "Grace Hopper", "groups": "Finance", "delegations": "Ada Lovelace", "tokens": "token",
    "hooks": "https://hooks.invalid/wf", "policies": "Refunds are approved", "audit": "Ada Lovelace",
}  # fmt: skip
"""The sections, and a text that each shows."""

DAYS = [
    {
        "key": f"2026-03-{day:02}", "calls": day, "inputTokens": 1_000 * day, "outputTokens": 100, "durationMs": 9,
        "cost": day / 4,
    }
    for day in range(2, 12)
]  # fmt: skip


@pytest.fixture(scope="module")
def filled(server: Server) -> dict[str, str]:
    """One record of each kind: their ids."""
    with server.client() as client:

        def make(path: str, **body: Any) -> str:
            made = client.post(f"/api/v1/{path}", json=body)
            assert made.status_code == 201, made.text
            return str(made.json().get("id") or made.json()["userId"])

        group = make("groups", name="Finance")
        connection = {"apiKey": "k", "header": "X-Key"}
        schedule = {"frequency": "daily", "time_of_day": "02:30", "timezone": "Europe/Berlin"}
        trigger = {"trigger_type": "schedule", "schedule": schedule}
        nightly = demo.workflow(client, "Nightly", demo.QUICK, trigger=trigger)
        assert client.post(f"/api/v1/workflows/{nightly}/toggle", json={"isEnabled": True}).status_code == 200
        grace = make("members", userId="grace", name="Grace Hopper", email="grace@acme.test", groups=[group])
        return {
            "nightly": str(nightly),
            "groups": group,
            "members": grace,
            "delegations": make("delegations", to=grace),
            "connections": make("connections", name="Ledger", provider="ledger", kind="api_key", config=connection),
            "hooks": make("hooks", url="https://hooks.invalid/wf", events=["run.failed"]),
            "policies": make("policies", name="Refunds are approved", when={"tool": "send_*"},
                             require={"approval": {"groups": [group]}}),
        }  # fmt: skip


@pytest.fixture(scope="module")
def member(server: Server, filled: dict[str, str]) -> str:
    """A token of a member who administers nothing."""
    who = ("--org", ORG, "--user-id", "bob", "--database", server.database)
    wfcore("member", "add", *who, "--email", "bob@acme.test")
    return wfcore("token", "create", *who, "--all-scopes")


def row(page: Page, text: str) -> Any:
    return page.locator(".record").filter(has_text=text)


def open_section(page: Page, section: str) -> None:
    page.evaluate(
        "(to) => { history.pushState(null, '', to); dispatchEvent(new PopStateEvent('popstate')); }",
        f"/studio/{section}",
    )


@pytest.mark.parametrize("appearance", slice_of(APPEARANCES, 2))
def test_accessible(open_page: Open, filled: dict[str, str], appearance: str) -> None:
    """No finding of axe on a list, on the details of a record and on a form, and nothing wider than the window."""
    page = open_page("/studio/connections", **APPEARANCES[appearance])
    for section, text in SECTIONS.items():
        open_section(page, section)
        expect(page.locator("wfcore-administration").get_by_text(text).locator("visible=true").first).to_be_visible()
        if section in filled:
            open_section(page, f"{section}/{filled[section]}")
            expect(page.locator("aside dl")).to_be_visible()
        elif section == "tokens":
            page.locator(".head .button.primary").click()
            expect(page.locator("form")).to_be_visible()
        check_accessibility(page)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), section
    if appearance == "German":
        expect(page.get_by_role("heading", name="Protokoll")).to_be_visible()


class TestConnections:
    def test_from_the_form_to_the_removal(self, open_page: Open, server: Server, filled: dict[str, str]) -> None:
        """Errors of the client and of the server stand at their fields; a secret is sent and never shown."""
        page = open_page("/studio/connections")
        page.get_by_role("button", name="New connection").click()
        page.get_by_label("OAuth").check()
        page.get_by_role("button", name="Create").click()
        expect(page.get_by_label("Name")).to_be_focused()
        assert page.locator("[aria-invalid=true]").count() == 4
        for label, text in {
            "Name": "CRM", "Provider": "crm", "Authorization URL": "https://crm.test/authorize",
            "Token URL": "not an address", "Client ID": "c-1", "Client secret": "very-secret",
        }.items():  # fmt: skip
            page.get_by_label(label).fill(text)
        page.get_by_role("button", name="Create").click()
        expect(page.get_by_label("Token URL")).to_have_attribute("aria-invalid", "true")
        page.get_by_label("Token URL").fill("https://crm.test/token")
        page.get_by_role("button", name="Create").click()
        expect(page.locator("aside").get_by_text("To authorize")).to_be_visible()
        expect(page).to_have_url(re.compile("/studio/connections/[0-9a-f-]{36}$"))
        assert "very-secret" not in page.content()
        with server.client() as client:
            (made,) = [one for one in client.get("/api/v1/connections").json()["connections"] if one["name"] == "CRM"]
        assert made["config"]["clientSecret"] == {"set": True}
        assert (made["kind"], made["config"]["tokenUrl"]) == ("oauth2", "https://crm.test/token")
        page.get_by_role("button", name="Remove").click()
        page.get_by_role("dialog").get_by_role("button", name="Remove").click()
        expect(row(page, "CRM")).to_have_count(0)

    def test_authorize(self, open_page: Open, server: Server) -> None:
        """The page of the service opens beside this one; what comes back is shown without a reload."""
        with server.client() as client:
            config = {
                "authorizeUrl": "http://service.test/authorize",
                "tokenUrl": "http://service.test/t",
                "clientId": "c",
            }
            body = {"name": "Calendar", "provider": "cal", "kind": "oauth2", "config": config}
            number = client.post("/api/v1/connections", json=body).json()["id"]
            page = open_page(f"/studio/connections/{number}")
            page.context.route("http://service.test/**", lambda route: route.fulfill(body="Grant access?"))
            with page.context.expect_page() as opened:
                page.get_by_role("button", name="Authorize").click()
            expect(opened.value.get_by_text("Grant access?")).to_be_visible()
            assert "client_id=c" in opened.value.url
            assert opened.value.evaluate("window.opener") is None
            opened.value.close()
            client.patch(f"/api/v1/connections/{number}", json={"name": "Calendars"})
            expect(page.get_by_role("heading", name="Calendars")).to_be_visible()
            client.delete(f"/api/v1/connections/{number}")

    @pytest.mark.parametrize("keep", [True, False])
    def test_a_conflict_offers_both_versions(self, open_page: Open, server: Server, keep: bool) -> None:
        """`If-Match`: what somebody else has changed meanwhile is not overwritten unseen."""
        with server.client() as client:
            body = {"name": "Old", "provider": "p", "kind": "api_key", "config": {"apiKey": "k"}}
            place = f"/api/v1/connections/{client.post('/api/v1/connections', json=body).json()['id']}"
            page = open_page(place.replace("/api/v1", "/studio"))
            page.get_by_role("button", name="Edit").click()
            page.get_by_label("Name").fill("Mine")
            assert client.patch(place, json={"status": "disabled"}).status_code == 200
            page.get_by_role("button", name="Save").click()
            expect(page.get_by_text("Somebody has changed this")).to_be_visible()
            assert client.get(place).json()["name"] == "Old"
            if keep:
                page.route(f"**{place}", lambda one: None if one.request.method == "GET" else one.fallback())
                page.get_by_role("button", name="Keep my changes").click()
                expect(page.get_by_role("button", name="Save")).to_be_disabled()  # until the newer version is read
                page.unroute(f"**{place}")  # what was held goes on
            else:
                page.get_by_role("button", name="Show what is there now").click()
                expect(page.get_by_label("Off")).to_be_checked()
                page.get_by_label("Name").fill("Both")
            page.get_by_role("button", name="Save").click()
            expect(page.get_by_role("heading", name="Mine" if keep else "Both")).to_be_visible()
            now = client.get(place).json()
            assert (now["name"], now["status"]) == ("Mine" if keep else "Both", "disabled")
            assert now["config"]["apiKey"] == {"set": True}
            client.delete(place)


@pytest.mark.parametrize("fails", [True, False])
def test_news_that_come_when_a_form_is_open(open_page: Open, server: Server, fails: bool) -> None:
    """The form stays, and belongs to the version that it began with: saving it is a conflict, and no news is lost."""
    held: list[Route] = []

    def hold(route: Route) -> None:
        if route.request.method == "GET":
            held.append(route)
        else:
            route.continue_()

    with server.client() as client:
        body = {"name": "Before", "provider": "p", "kind": "api_key", "config": {"apiKey": "k"}}
        place = f"/api/v1/connections/{client.post('/api/v1/connections', json=body).json()['id']}"
        page = open_page(place.replace("/api/v1", "/studio"))
        expect(page.get_by_role("heading", name="Before")).to_be_visible()
        page.route(f"**{place}", hold)
        client.patch(place, json={"status": "disabled"})
        eventually(lambda: page.wait_for_timeout(1) or held)
        page.get_by_role("button", name="Edit").click()
        page.get_by_label("Name").fill("After")
        with page.expect_event("requestfailed" if fails else "requestfinished", lambda one: one.url.endswith(place)):
            for one in held:
                one.abort() if fails else one.continue_()
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_text("Somebody has changed this")).to_be_visible()
        assert client.get(place).json()["name"] == "Before"
        client.delete(place)


def test_a_tool_server_shows_its_problem(open_page: Open, server: Server) -> None:
    with server.client() as client:
        body = {"name": "Warehouse", "provider": "w", "kind": "mcp", "config": {"url": "http://127.0.0.1:9/mcp"}}
        number = client.post("/api/v1/connections", json=body).json()["id"]
        page = open_page("/studio/tools")
        notice = page.locator(".notice.bad").filter(has_text="Warehouse")
        expect(notice).to_be_visible()
        page.get_by_label("Search tools").fill("durable timer")
        row(page, "core.wait").click()
        expect(page.locator("aside").get_by_text("seconds").first).to_be_visible()
        notice.get_by_role("link").click()
        expect(page.get_by_role("heading", name="Warehouse")).to_be_visible()
        client.delete(f"/api/v1/connections/{number}")


def test_schedules_as_list_and_calendar(open_page: Open, server: Server, filled: dict[str, str], member: str) -> None:
    """The switch is for who manages the workflow; a change of somebody else is shown without a reload."""
    place = f"/api/v1/workflows/{filled['nightly']}"
    page = open_page("/studio/schedules", timezone_id="America/New_York")
    row(page, "Nightly").click()
    expect(page.locator("aside time")).to_have_count(10)
    expect(page.locator("aside time").first).to_have_text(re.compile(r"^\d{4}-\d\d-\d\d 02:30 \+0[12]:00$"))
    page.get_by_role("button", name="Switch off").click()
    expect(row(page, "Nightly")).to_contain_text("Off")
    with server.client() as client:
        assert client.get(place).json()["isEnabled"] is False
        client.post(f"{place}/toggle", json={"isEnabled": True})
        expect(page.get_by_role("button", name="Switch off")).to_be_visible()
        page.get_by_role("button", name="Close").click()
        page.get_by_role("tab", name="Calendar").click()
        expect(page.locator(".calendar > li")).to_have_count(28)
        # From today to a Sunday in four weeks; at 20:30 or 21:30 of New York.
        expect(page.locator(".slot").filter(has_text="Nightly").nth(20)).to_have_text(re.compile("0[89]:30 PM"))
        check_accessibility(page)
        page.locator(".slot").filter(has_text="Nightly").first.click()  # other tests leave schedules that are on
        expect(page.locator("aside").get_by_role("heading", name="Nightly")).to_be_visible()
        group = client.post("/api/v1/groups", json={"name": "Night shift"}).json()["id"]
        client.patch("/api/v1/members/ada", json={"groups": [group]})
        rights = {ORG: {"use": True, "manage": False}, group: {"use": True, "manage": True}}
        access = {"visibility": "shared", "groupPermissions": rights}
        assert client.patch(place, json={"accessConfig": access}).status_code == 200
    other = open_page("/studio/schedules", token=member)
    row(other, "Nightly").click()
    expect(other.get_by_text("Only who manages this workflow")).to_be_visible()
    assert other.get_by_role("button", name="Switch").count() == 0


def test_people_by_keyboard_alone(open_page: Open, server: Server, filled: dict[str, str]) -> None:
    """A person is added with a group, and opened again from the list."""
    page = open_page("/studio/members")
    expect(row(page, "Grace Hopper")).to_be_visible()
    tab_to(page, lambda name: name == "Add a person")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Name")).to_be_focused()
    tab_to(page, lambda name: name.startswith("Email"))
    page.keyboard.type("alan@acme.test")
    tab_to(page, lambda name: name.startswith("User ID"))
    page.keyboard.type("alan")
    tab_to(page, lambda name: name == "Finance")
    page.keyboard.press("Space")
    page.keyboard.press("Enter")
    expect(page.locator("aside dl").get_by_text("alan@acme.test")).to_be_visible()
    with server.client() as client:
        made = client.get("/api/v1/members/alan").json()
    assert (made["role"], made["groups"]) == ("member", [filled["groups"]])
    expect(row(page, "alan@acme.test")).to_be_visible()
    tab_to(page, lambda name: name == "Close")
    page.keyboard.press("Enter")
    expect(page.locator(".record:focus")).to_contain_text("alan@acme.test")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Edit")).to_be_visible()
    tab_to(page, lambda name: name == "Edit")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Name")).to_be_focused()
    page.keyboard.type("Alan Turing")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Alan Turing")).to_be_visible()
    expect(page.get_by_role("button", name="Edit")).to_be_focused()


def test_a_token_is_shown_once(open_page: Open, server: Server) -> None:
    """It works at once, is gone with the page, and does not work any more when it is revoked."""
    page = open_page("/studio/tokens")
    page.get_by_role("button", name="New token").click()
    page.get_by_label("Name").fill("Reports")
    page.get_by_role("button", name="Create").click()
    expect(page.locator("fieldset", has_text="Permissions").locator(".problem")).to_be_visible()
    page.get_by_label("See the usage of models · usage:read", exact=True).check()
    page.get_by_role("button", name="Create").click()
    token = page.locator(".secret code").inner_text()
    with httpx.Client(
        base_url=server.url, headers={"Authorization": f"Bearer {token}"}, trust_env=False, timeout=HANG
    ) as client:
        assert client.get("/api/v1/usage").status_code == 200
        assert client.get("/api/v1/workflows").status_code == 403
        assert token not in page.url
        page.reload()
        expect(page.locator("aside dl").get_by_text("See the usage of models · usage:read")).to_be_visible()
        assert page.locator(".secret").count() == 0
        page.get_by_role("button", name="Revoke").click()
        page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
        box = page.locator(".main .scroll")
        to_the_end = "(one) => one.scrollTo(0, one.scrollHeight)"
        eventually(lambda: box.evaluate(to_the_end) or row(page, "Reports").count())  # other tests make many tokens
        expect(row(page, "Reports")).to_contain_text("Revoked")
        assert client.get("/api/v1/usage").status_code == 401


def test_hooks_with_their_deliveries(open_page: Open, server: Server) -> None:
    """The secret is shown once and renewed; a delivery shows its attempts, and is sent again."""
    page = open_page("/studio/hooks")
    page.get_by_role("button", name="New hook").click()
    page.get_by_label("URL").fill("https://hooks.invalid/deliveries")
    page.get_by_label("Run finished").check()
    page.get_by_role("button", name="Create").click()
    expect(page.locator(".secret code")).to_have_text(re.compile("^whsec_"))
    with server.client() as client:
        (hook,) = [one for one in client.get("/api/v1/hooks").json()["hooks"] if one["url"].endswith("/deliveries")]
        assert (hook["events"], hook["filter"]) == (["run.finished"], {"workflowId": None})
        demo.run(client, demo.workflow(client, "Quick", demo.QUICK), order=1)
        eventually(lambda: client.get(f"/api/v1/hooks/{hook['id']}/deliveries").json()["deliveries"])
        page.get_by_role("button", name="Refresh").click()
        expect(page.locator(".delivery").get_by_text("Run finished")).to_be_visible()
        first = page.locator(".secret code").inner_text()
        page.get_by_role("button", name="I have stored it").click()
        page.get_by_role("button", name="New secret").click()
        page.get_by_role("dialog").get_by_role("button", name="New secret").click()
        expect(page.locator(".secret code")).to_have_text(re.compile("^whsec_"))
        assert page.locator(".secret code").inner_text() != first
        attempt = {"at": "2026-01-01T00:00:00.000Z", "status": 503, "error": None, "ms": 12}
        delivery = {
            "id": "d1", "event": "run.finished", "webhookId": "msg_1", "status": "failed", "attempts": [attempt],
            "createdAt": "2026-01-01T00:00:00.000Z", "nextAttemptAt": None,
        }  # fmt: skip
        again: list[str] = []

        def redeliver(route: Route) -> None:
            again.append(route.request.url)
            route.fulfill(status=202, json={**delivery, "status": "pending"})

        page.route(
            "**/deliveries?*", lambda route: route.fulfill(json={"deliveries": [delivery], "nextPageToken": None})
        )
        page.route("**/redeliver", redeliver)
        page.get_by_role("button", name="Refresh").click()
        expect(page.locator(".delivery time")).to_have_attribute("datetime", "2026-01-01T00:00:00.000Z")
        page.get_by_text("1 attempt").click()
        expect(page.get_by_text("· 503 ·")).to_be_visible()
        page.get_by_role("button", name="Send again").click()
        eventually(lambda: page.wait_for_timeout(1) or again)
        expect(page.get_by_role("button", name="Send again")).to_be_visible()
        assert again == [f"{server.url}/api/v1/hooks/{hook['id']}/deliveries/d1/redeliver"]
        client.delete(f"/api/v1/hooks/{hook['id']}")


def test_policies(open_page: Open, server: Server, filled: dict[str, str]) -> None:
    """The fields follow the choices; a change replaces the rule, and issues of the server stand at their fields."""
    page = open_page("/studio/policies")
    page.get_by_role("button", name="New policy").click()
    page.get_by_label("Name").fill("Both never")
    page.get_by_label("Each agent").check()
    page.get_by_label("Not both tools").check()
    page.get_by_role("button", name="Create").click()
    expect(page.locator("fieldset", has_text="Tools that must not meet").locator(".problem")).to_be_visible()
    for number, text in enumerate(("crm.*", "send_*"), 1):
        page.get_by_role("button", name="Add entry").click()
        page.get_by_label(str(number), exact=True).fill(text)
    page.get_by_role("button", name="Create").click()
    expect(page.locator("aside dl").get_by_text("Each agent · Not both tools")).to_be_visible()
    place = "/api/v1/policies/" + page.url.rsplit("/", 1)[1]
    with server.client() as client:
        made = client.get(place).json()
        assert (made["when"], made["require"]) == ({"agent": True}, {"notTogether": ["crm.*", "send_*"]})
        page.get_by_role("button", name="Edit").click()
        page.get_by_label("Calls of a tool").check()
        page.get_by_label("Tool", exact=True).fill("send_*")
        page.get_by_label("An approval before").check()
        page.get_by_label("Finance").check()
        page.get_by_label("Warns").check()
        page.get_by_role("button", name="Save").click()
        expect(page.locator("aside dl").get_by_text("Warns")).to_be_visible()
        now = client.get(place).json()
        client.delete(place)
    assert (now["when"], now["severity"]) == ({"tool": "send_*"}, "warning")
    assert now["require"]["approval"]["groups"] == [filled["groups"]]


def test_usage_as_chart_and_table(open_page: Open, server: Server) -> None:
    """The same figures in both; days without calls have no bar."""

    def report(route: Route) -> None:
        by = re.findall(r"groupBy=(\w+)", route.request.url)[0]
        rows = DAYS if by == "day" else [{**DAYS[0], "key": "large"}, {**DAYS[5], "key": "small"}]
        totals = {key: sum(one[key] for one in rows) for key in DAYS[0] if key != "key"}  # type: ignore[misc]
        at = {"from": "2026-03-01T10:00:00Z", "to": "2026-03-14T10:00:00Z"}
        route.fulfill(json={"usage": rows, "totals": totals, "groupBy": by, **at})

    page = open_page("/studio")
    page.route("**/api/v1/usage?*", report)
    page.goto(f"{server.url}/studio/usage")
    expect(page.locator(".chart rect")).to_have_count(14)
    assert (
        page.locator(".chart rect").evaluate_all("(all) => all.filter((one) => one.height.baseVal.value > 0).length")
        == 10
    )
    expect(page.get_by_role("row", name=re.compile("^2026-03-11"))).to_contain_text("11,000")
    check_accessibility(page)
    page.get_by_role("tab", name="Model").click()
    expect(page.locator(".hbar")).to_have_text([re.compile("small.*1.75"), re.compile("large.*0.5")])
    page.get_by_label("Measure").select_option("calls")
    expect(page.locator(".hbar").first).to_contain_text("7")


def test_usage_of_the_server(open_page: Open, server: Server) -> None:
    page = open_page("/studio/usage")
    expect(page.get_by_text("No calls of models")).to_be_visible()
    page.get_by_label("Period").select_option("90")
    page.get_by_role("tab", name="Person").click()
    expect(page.get_by_text("No calls of models")).to_be_visible()


def test_the_audit(open_page: Open, server: Server, filled: dict[str, str]) -> None:
    """Filters reach the server; an entry shows its details and leads to what it is about."""
    with server.client() as client:  # its entry is among the newest: the tests before this one can have made many
        body = {"url": "https://hooks.invalid/audit", "events": ["run.failed"]}
        made = client.post("/api/v1/hooks", json=body).json()
        client.delete(f"/api/v1/hooks/{made['id']}")
        kept, gone = (
            client.post("/api/v1/workflows", json={"name": name, "type": "workflow", "workflowStructure": demo.PLAIN})
            .json()["id"] for name in ("Audited", "Forgotten")
        )  # fmt: skip
        client.delete(f"/api/v1/workflows/{gone}")
        run = demo.run(client, demo.workflow(client, "Audited run", demo.PLAIN), order=1)
        assert client.post(f"/agent/v1/runs/{run}/cancel", json={}).is_success
    page = open_page("/studio/audit")
    expect(row(page, "Hook: created").first).to_be_visible()
    expect(row(page, f"Workflow Audited ({kept})")).to_contain_text("Ada Lovelace")
    expect(row(page, "Workflow: deleted").first).to_contain_text(f"Workflow {gone}")
    expect(row(page, "Run: cancelled").first).to_contain_text("Run Audited run")
    page.get_by_role("combobox", name="Action").fill("policy created")
    with page.expect_request(lambda request: "action=policy.create" in request.url):
        page.get_by_role("combobox", name="Action").press("Enter")
    expect(row(page, "Hook: created")).to_have_count(0)
    row(page, "Policy Refunds are approved").first.click()
    expect(page.locator("aside .json")).to_contain_text("Refunds are approved")
    expect(page.locator("aside").get_by_text("policy.create", exact=True)).to_be_visible()
    page.locator("aside").get_by_role("link").click()
    expect(page.get_by_role("heading", name="Refunds are approved")).to_be_visible()


def test_a_member_sees_no_management(open_page: Open, filled: dict[str, str], member: str) -> None:
    """What the caller cannot change has no button; what the caller cannot see is not in the navigation."""
    page = open_page("/studio/members", token=member)
    expect(row(page, "Grace Hopper")).to_be_visible()
    navigation = page.locator("nav .sections")
    expect(navigation.get_by_role("link", name="Connections")).to_be_visible()
    expect(navigation.get_by_role("link", name="Audit")).to_have_count(0)
    for section in ("members", "groups", "policies"):
        open_section(page, f"{section}/{filled[section]}")
        expect(page.locator("aside dl")).to_be_visible()
        assert page.locator(".head .button, aside .button.danger").count() == 0
        assert page.get_by_role("button", name="Edit").count() == 0
    open_section(page, "audit")
    expect(page.get_by_text("You do not have access to this")).to_be_visible()


def test_readonly_and_features_hide_the_management(open_page: Open, filled: dict[str, str]) -> None:
    page = open_page("/studio/groups")
    expect(page.get_by_role("button", name="New group")).to_be_visible()
    element = page.locator("wfcore-administration")
    element.evaluate("(one) => one.setAttribute('features', 'filters')")
    expect(page.get_by_role("button", name="New group")).to_have_count(0)
    element.evaluate("(one) => { one.removeAttribute('features'); one.setAttribute('readonly', ''); }")
    expect(row(page, "Finance")).to_be_visible()
    expect(page.get_by_role("button", name="New group")).to_have_count(0)


def test_hostile_names_are_text(open_page: Open, server: Server) -> None:
    with server.client() as client:
        group = client.post("/api/v1/groups", json={"name": demo.EVIL[:100]}).json()["id"]
        body = {
            "name": demo.EVIL[:100],
            "when": {"tool": "</script><img src=x onerror=alert(1)>"},
            "require": {"retry": True},
        }
        policy = client.post("/api/v1/policies", json=body).json()["id"]
        for path in (f"groups/{group}", f"policies/{policy}", "audit", "members"):
            page = open_page(f"/studio/{path}")
            expect(page.locator(".record").first).to_be_visible()
            test_hostile.check(page)
        client.delete(f"/api/v1/groups/{group}")
        client.delete(f"/api/v1/policies/{policy}")


def test_a_phone_reaches_every_section(open_page: Open, filled: dict[str, str]) -> None:
    page = open_page("/studio/runs", **APPEARANCES["phone"])
    page.get_by_role("link", name="More").click()
    check_accessibility(page)
    page.locator(".morepage").get_by_role("link", name="Policies").click()
    row(page, "Refunds are approved").click()
    expect(page.locator("aside dl")).to_be_visible()
    page.get_by_role("button", name="Close").click()
    expect(row(page, "Refunds are approved")).to_be_visible()
