"""A failed run is retried from its page: with which version, what does not fit, and the turns that it then has."""

import re

import demo
import httpx
import pytest
from appearance import check_accessibility
from playwright.sync_api import Route, expect
from servers import Server
from watching import Open

FAILS = demo.node("last", "action", toolId="core.fail", params={"message": "the ledger is closed"})
BROKEN = demo.graph([demo.transform("first", 1), FAILS], ("start", "first"), ("first", "last"))
MENDED = demo.graph(
    [demo.transform("first", 1), demo.transform("last", "fixed")], ("start", "first"), ("first", "last")
)
SHORTER = demo.graph([demo.transform("last", "fixed")], ("start", "last"))


def failed(client: httpx.Client, published: demo.Json) -> str:
    """A run that failed, of a workflow that was deployed with another graph since."""
    number = demo.workflow(client, "Book", BROKEN)
    run_id = demo.run(client, number, order=1)
    assert demo.settle(client, run_id)["status"] == "error"
    changed = client.patch(f"/api/v1/workflows/{number}", json={"workflowStructure": published})
    assert changed.status_code == 200, changed.text
    assert client.post(f"/api/v1/workflows/{number}/deploy").status_code == 200
    return run_id


def test_a_failed_run_goes_on_with_the_published_version(open_page: Open, server: Server) -> None:
    """Its own version fails again, the published one does not; the turns are one story."""
    with server.client() as client:
        run_id = failed(client, MENDED)
    page = open_page(f"/studio/runs/{run_id}")
    for version, result in (("The version of this run", "bad"), ("The version that is published now", "ok")):
        page.get_by_role("button", name="Retry from failure").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label(version).check()
        check_accessibility(page)
        dialog.get_by_role("button", name="Retry from failure").click()
        expect(dialog).to_have_count(0)
        expect(page.locator(f".head .status.{result}")).to_be_visible()
    page.get_by_text("3 turns").click()
    turns = page.locator(".story li")
    expect(turns.nth(0)).to_contain_text("Started by Ada Lovelace")
    expect(turns.nth(2)).to_contain_text("Retried by Ada Lovelace")
    expect(page.locator(".react-flow__node[data-id=last] .gnode")).to_have_attribute("data-status", "done")
    expect(page.get_by_role("button", name="Retry from failure")).to_have_count(0)


def test_what_does_not_fit_is_shown(open_page: Open, server: Server) -> None:
    """A version without a step that is done: 409, with each difference and its node."""
    with server.client() as client:
        run_id = failed(client, SHORTER)
    page = open_page(f"/studio/runs/{run_id}")
    page.get_by_role("button", name="Retry from failure").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("The version of this run")).to_be_checked()
    dialog.get_by_label("The version that is published now").check()
    dialog.get_by_role("button", name="Retry from failure").click()
    expect(dialog.get_by_role("alert").get_by_role("listitem").filter(has_text="first").first).to_be_visible()
    check_accessibility(page)
    dialog.get_by_label("The version of this run").check()
    expect(dialog.get_by_role("alert")).to_have_count(0)
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)


def test_a_fork_names_its_source(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    page = open_page("/studio/runs")

    def forked(route: Route) -> None:
        route.fulfill(json={**route.fetch().json(), "forkedFrom": ids["failed"]})

    page.route(f"**/agent/v1/runs/{ids['done']}", forked)
    page.goto(f"{server.url}/studio/runs/{ids['done']}")
    page.locator(".story").get_by_role("link", name=ids["failed"]).click()
    expect(page.get_by_role("heading", name="Fulfil order")).to_be_visible()


@pytest.mark.parametrize("name", ["done", "form"])
def test_only_what_failed_or_was_cancelled_is_offered(open_page: Open, ids: dict[str, str], name: str) -> None:
    page = open_page(f"/studio/runs/{ids[name]}")
    expect(page.locator(".react-flow__node").first).to_be_visible()
    expect(page.get_by_role("button", name="Retry from failure")).to_have_count(0)


def test_what_could_not_be_read_is_read_again(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """Each request of the page fails once: what is there is shown with the problem, until all of it is read."""
    page = open_page("/studio/more")
    seen: set[str] = set()

    def once(route: Route) -> None:
        path = route.request.url.split("?")[0]
        known = path in seen
        seen.add(path)
        route.continue_() if known else route.abort()

    page.route(re.compile("/(api|agent)/v1/(?!me$)"), once)
    page.route("**/api/v1/changes*", lambda route: None)  # a change would read the run again
    page.goto(f"{server.url}/studio/runs/{ids['failed']}")
    page.get_by_role("button", name="Try again").click()
    alert = page.locator(".notice[role=alert]")
    expect(alert).to_contain_text("The server cannot be reached")
    alert.get_by_role("button", name="Try again").press("Enter")
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(page.locator(".react-flow__node[data-id=ship]")).to_be_visible()
    page.locator(".react-flow__node[data-id=load_order]").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("group", name="Output")).to_contain_text("Grace Hopper")
    expect(page.get_by_role("group", name="Input")).to_be_visible()
