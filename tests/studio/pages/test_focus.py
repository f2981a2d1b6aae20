"""For keyboards and screen readers: the focus stays when its control goes away, and errors belong to their fields."""

import re
from typing import Any

import demo
import pytest
from appearance import check_accessibility
from playwright.sync_api import Locator, Page, Route, expect
from servers import ORG, Server
from watching import Open


def press(control: Locator, key: str = "Enter") -> None:
    control.focus()
    control.press(key)


def description(control: Locator) -> str:
    """The texts that `aria-describedby` names."""
    found = """(one) => (one.getAttribute('aria-describedby') ?? '').split(' ')
      .map((id) => one.getRootNode().getElementById(id)?.textContent).join(' ')"""
    return str(control.evaluate(found))


def settings(page: Page, tab: str) -> Locator:
    press(page.get_by_role("button", name="Settings"))
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("tab", name=tab).click()
    expect(dialog.get_by_role("tabpanel", name=tab)).to_be_visible()
    return dialog


def drafted(server: Server, name: str) -> str:
    with server.client() as client:
        body = {"name": name, "type": "workflow", "workflowStructure": demo.QUICK}
        return str(client.post("/api/v1/workflows", json=body).json()["id"])


def waiting_run(server: Server, ids: dict[str, str], order: int) -> tuple[str, str]:
    """The ids of a run that waits for a decision, and of its request."""
    with server.client() as client:
        run_id = demo.run(client, int(ids["plain_workflow"]), order=order)
        (waiting,) = demo.settle(client, run_id)["interrupts"]
    return run_id, waiting["interruptId"]


def test_a_decision(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """The buttons go away: the part of the page where they were has the focus."""
    page = open_page(f"/studio/inbox/{waiting_run(server, ids, 31)[1]}")
    expect(page.get_by_role("button", name="Deny")).to_be_enabled()
    press(page.get_by_role("button", name="Deny"))
    expect(page.get_by_role("group", name="Decided")).to_be_focused()


def test_a_cancelled_run(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """The dialog gives the focus back to a button that goes away."""
    page = open_page(f"/studio/runs/{waiting_run(server, ids, 32)[0]}")
    press(page.get_by_role("button", name="Cancel run"))
    press(page.get_by_role("dialog").get_by_role("button", name="Cancel run"))
    expect(page.get_by_role("heading", name="Publish release", level=1)).to_be_focused()


# A busy browser runs timers after the input that came meanwhile.
HELD_TIMERS = """
const original = window.setTimeout;
let held = null;
window.setTimeout = (run, ...rest) => (held ? held.push(run) : original(run, ...rest));
window.hold = () => { held = []; };
window.release = () => { const due = held; held = null; for (const run of due) run(); };
"""


@pytest.mark.parametrize("is_busy", [False, True], ids=["idle", "busy"])
def test_a_new_secret_of_a_hook(open_page: Open, server: Server, is_busy: bool) -> None:
    """It takes the place of the button, and is read out."""
    rotations: list[Route] = []

    def keep(route: Route) -> None:
        rotations.append(route)

    with server.client() as client:
        body = {"url": "https://hooks.invalid/secret", "events": ["run.failed"]}
        hook = client.post("/api/v1/hooks", json=body).json()["id"]
        page = open_page(f"/studio/hooks/{hook}", script=HELD_TIMERS)
        page.route("**/rotate", keep)
        button = page.get_by_role("button", name="New secret")
        expect(button).to_be_enabled()
        if is_busy:
            page.evaluate("hold()")
        press(button)
        with page.expect_request("**/rotate"):
            press(page.get_by_role("dialog").get_by_role("button", name="New secret"))
        expect(button).to_be_focused()
        if is_busy:
            page.evaluate("release()")
        rotations.pop().continue_()
        part = page.get_by_role("region", name="Secret")
        expect(part.locator("code")).to_have_text(re.compile("^whsec_"))
        expect(part).to_be_focused()
        expect(part).to_have_attribute("aria-live", "polite")
        client.delete(f"/api/v1/hooks/{hook}")


def test_outcomes_are_announced(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """A decision, and the status of a run, are written into regions that were there before."""
    run_id, request = waiting_run(server, ids, 33)
    run = open_page(f"/studio/runs/{run_id}")
    status = run.locator("wfcore-run .head").get_by_role("status").first
    expect(status).to_have_text("Waiting")
    page = open_page(f"/studio/inbox/{request}")
    outcome = page.locator(".decide [role=status]")
    expect(page.get_by_role("button", name="Deny")).to_be_enabled()
    expect(outcome).to_have_text("")
    press(page.get_by_role("button", name="Deny"))
    expect(outcome).to_contain_text("Your decision is recorded")
    expect(status).to_have_text("Done")
    check_accessibility(page)


def test_escape_leaves_the_focus_on_the_node_of_a_run(open_page: Open, ids: dict[str, str]) -> None:
    """It closes the details; on a node that is not selected it does nothing."""
    page = open_page(f"/studio/runs/{ids['failed']}")
    node = page.locator(".react-flow__node[data-id=label]")
    heading = page.locator("wfcore-run aside h2")
    press(node)
    expect(heading).to_have_text("label")
    for _ in range(2):
        page.keyboard.press("Escape")
        expect(heading).to_have_count(0)
        page.evaluate("() => new Promise(requestAnimationFrame).then(() => new Promise(requestAnimationFrame))")
        expect(node).to_be_focused()
        expect(heading).to_have_count(0)


def test_removed_entries_and_people(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """The focus stays in the list of what is removed."""
    page = open_page(f"/studio/workflows/{drafted(server, 'Removed entries')}")
    dialog = settings(page, "Trigger")
    dialog.get_by_label("Runs are started by").select_option("schedule")
    dialog.get_by_label("Frequency").select_option("Cron")
    press(dialog.get_by_role("button", name="Add entry"))
    press(dialog.get_by_role("button", name="Remove entry 1"))
    expect(dialog.get_by_role("group", name="Cron expressions")).to_be_focused()
    dialog.get_by_role("tab", name="Sharing").click()
    dialog.get_by_role("radio").last.check()
    person = dialog.locator("input[type=email]")
    person.fill("grace@acme.test")
    press(dialog.get_by_role("button", name="Add entry"))
    expect(person).to_be_focused()
    press(dialog.get_by_role("button", name="Remove grace@acme.test"))
    expect(dialog.get_by_role("group", name="People")).to_be_focused()


def test_errors_of_settings_belong_to_their_fields(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """They had no text at the field, and a message that names keys of the API."""
    page = open_page(f"/studio/workflows/{drafted(server, 'Errors of settings')}")
    dialog = settings(page, "General")
    name = dialog.get_by_label("Name", exact=True)
    name.fill("")
    press(dialog.get_by_role("button", name="Save"))
    expect(name).to_be_focused()
    expect(name).to_have_attribute("aria-invalid", "true")
    assert "must not be empty" in description(name)
    expect(dialog.get_by_role("alert")).to_have_text("Check the marked fields")
    check_accessibility(page)


def test_a_choice_says_that_it_is_required_and_missing(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """A group of radio buttons, and each of several boxes."""
    page = open_page("/studio/hooks")
    press(page.get_by_role("button", name="New hook").first)
    page.get_by_label("URL").fill("https://hooks.invalid/choice")
    press(page.get_by_role("button", name="Create"))
    box = page.get_by_label("Approval waits")
    expect(box).to_be_focused()
    expect(box).to_have_attribute("aria-invalid", "true")
    assert "This field is required" in description(box)
    press(page.get_by_role("button", name="Cancel"))
    page.goto(f"{server.url}/studio/policies")
    press(page.get_by_role("button", name="New policy").first)
    expect(page.get_by_role("radiogroup", name="Effect")).to_have_attribute("aria-required", "true")


def test_a_page_that_is_not_there_has_a_heading(open_page: Open, ids: dict[str, str]) -> None:
    for path in ("/studio/nothing", f"/studio/runs/{ORG}", "/studio/workflows/99999"):
        page = open_page(path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        check_accessibility(page)


def test_an_empty_inbox(open_page: Open, ids: dict[str, str]) -> None:
    """The tabs control nothing then."""
    page = open_page("/studio/inbox")
    page.route("**/agent/v1/interrupts?*", lambda route: route.fulfill(json={"interrupts": [], "nextPageToken": None}))
    page.get_by_role("tab", name="Decided").click()
    expect(page.locator(".state strong")).to_be_visible()
    check_accessibility(page)


def test_all_deliveries_of_a_hook(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """Page after page; one that is sent again keeps the focus in the list."""
    status = {"now": "failed"}

    def one(number: int) -> dict[str, Any]:
        at = "2026-01-01T00:00:00.000Z"
        return {
            "id": f"d{number}", "event": "run.finished", "webhookId": "m", "status": status["now"], "attempts": [],
            "createdAt": at, "nextAttemptAt": None,
        }  # fmt: skip

    def deliveries(route: Route) -> None:
        begin, following = (30, None) if "pageToken=next" in route.request.url else (0, "next")
        rows = [one(number) for number in range(begin, begin + 30)]
        route.fulfill(json={"deliveries": rows, "nextPageToken": following})

    def redeliver(route: Route) -> None:
        status["now"] = "pending"
        route.fulfill(status=202, json=one(0))

    with server.client() as client:
        body = {"url": "https://hooks.invalid/further", "events": ["run.failed"]}
        hook = client.post("/api/v1/hooks", json=body).json()["id"]
        page = open_page("/studio/hooks")
        page.route("**/deliveries?*", deliveries)
        page.route("**/redeliver", redeliver)
        page.locator(".record").filter(has_text="/further").click()
        expect(page.locator(".delivery")).to_have_count(30)
        more = page.get_by_role("button", name="Show more")
        press(more)
        expect(page.locator(".delivery")).to_have_count(60)
        expect(more).to_have_count(0)
        part = page.get_by_role("region", name="Deliveries")
        expect(part).to_be_focused()
        press(part.get_by_role("button", name="Send again").first)
        expect(part.get_by_role("button", name="Send again")).to_have_count(0)
        expect(part).to_be_focused()
        expect(page.locator(".delivery")).to_have_count(60)
        client.delete(f"/api/v1/hooks/{hook}")


def test_all_workflows_of_the_usage_have_names(open_page: Open, ids: dict[str, str]) -> None:
    """Also those of the chart, which are the largest; further rows are shown on demand."""
    usage = {"inputTokens": 1, "outputTokens": 1, "durationMs": 1, "cost": None}
    rows = [{"key": str(number), "calls": number, **usage} for number in range(1, 121)]

    def report(route: Route) -> None:
        by = "workflow" if "groupBy=workflow" in route.request.url else "day"
        at = {"from": "2026-01-01T00:00:00.000Z", "to": "2026-01-02T00:00:00.000Z"}
        totals = {"calls": 1, **usage}
        route.fulfill(json={"usage": rows if by == "workflow" else [], "totals": totals, "groupBy": by, **at})

    def workflow(route: Route) -> None:
        number = route.request.url.rsplit("/", 1)[1].split("?")[0]
        route.fulfill(json={"id": int(number), "name": f"Flow {number}."})

    page = open_page("/studio/audit")
    page.route("**/api/v1/usage?*", report)
    page.route("**/api/v1/workflows/*", workflow)
    page.get_by_role("link", name="Usage").click()
    page.get_by_role("tab", name="Workflow").click()
    page.get_by_label("Measure").select_option("calls")
    expect(page.locator(".hbar").first).to_contain_text("Flow 120.")
    rows_shown = page.locator("tbody tr")
    expect(rows_shown).to_have_count(50)
    press(page.get_by_role("button", name="70 more entries"))
    expect(rows_shown).to_have_count(100)
    expect(rows_shown.last).to_contain_text("Flow 100.")
    press(page.get_by_role("button", name="20 more entries"))
    expect(rows_shown.last).to_contain_text("Flow 120.")
    expect(page.get_by_role("region", name="Workflow")).to_be_focused()
