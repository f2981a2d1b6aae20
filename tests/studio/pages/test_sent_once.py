"""What is pressed again after a lost response is done once; and its keys need no secure context."""

import re
from collections.abc import Callable

import demo
from playwright.sync_api import Route, expect
from servers import Server
from watching import Open

WITHOUT_UUIDS = "delete Crypto.prototype.randomUUID"
"""As over plain HTTP on another name than localhost."""


def lost_once() -> Callable[[Route], None]:
    """Lets the server handle the first request, and loses its response."""
    lost: list[str] = []

    def handle(route: Route) -> None:
        if route.request.method != "POST" or lost:
            return route.fallback()
        lost.append(route.fetch().text())
        return route.abort()

    return handle


def test_a_run_is_started_once(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    with server.client() as client:
        workflow = demo.workflow(client, "Once", demo.graph([demo.transform("show", 1)], ("start", "show")))
        page = open_page(f"/studio/workflows/{workflow}")
        page.route(re.compile(r"/agent/v1/runs$"), lost_once())
        page.get_by_role("button", name="Run", exact=True).click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("button", name="Run").click()
        expect(dialog.get_by_role("alert")).to_contain_text("cannot be reached")
        dialog.get_by_role("button", name="Run").click()
        expect(dialog).to_have_count(0)
        assert len(client.get("/agent/v1/runs", params={"workflowId": workflow}).json()["runs"]) == 1


def test_an_own_decision_is_not_that_of_somebody_else(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    with server.client() as client:
        run_id = demo.run(client, int(ids["plain_workflow"]), order="lost")
        (request,) = demo.settle(client, run_id)["interrupts"]
        page = open_page(f"/studio/inbox/{request['interruptId']}")
        expect(page.get_by_role("button", name="Approve")).to_be_visible()
        page.route(f"**/interrupts/{request['interruptId']}", lambda _: None)  # the page does not see the decision
        page.route("**/resume", lost_once())
        page.get_by_role("button", name="Approve").click()
        expect(page.get_by_role("alert")).to_contain_text("cannot be reached")
        page.get_by_role("button", name="Approve").click()
        expect(page.get_by_text("Your decision is recorded")).to_be_visible()


def test_a_decision_whose_response_was_lost_is_shown(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    with server.client() as client:
        run_id = demo.run(client, int(ids["plain_workflow"]), order="seen")
        (request,) = demo.settle(client, run_id)["interrupts"]
        page = open_page(f"/studio/inbox/{request['interruptId']}")
        page.route("**/resume", lost_once())
        page.get_by_role("button", name="Approve").click()
        expect(page.get_by_role("status").filter(has_text="Approved")).to_be_visible()
        expect(page.get_by_role("alert")).to_have_count(0)


def test_no_secure_context_is_needed(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    with server.client() as client:
        run_id = demo.run(client, int(ids["plain_workflow"]), order="plain")
        (request,) = demo.settle(client, run_id)["interrupts"]
    page = open_page(f"/studio/inbox/{request['interruptId']}", script=WITHOUT_UUIDS)
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_text("Your decision is recorded")).to_be_visible()
    page.goto(f"{server.url}/studio/groups")
    page.get_by_role("button", name="New group").click()
    page.get_by_label("Name").fill("Plain")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", name="Plain")).to_be_visible()


def test_a_lost_request_is_reported_in_the_language_of_the_page(open_page: Open, ids: dict[str, str]) -> None:
    """What was typed stays."""
    page = open_page("/studio/groups", locale="de-DE")
    page.locator(".head .button.primary").click()
    page.get_by_label("Name").fill("Buchhaltung")
    page.route("**/api/v1/groups", lambda route: route.abort())
    page.locator("aside form button[type=submit]").click()
    expect(page.locator("aside").get_by_role("alert")).to_have_text("Der Server ist nicht erreichbar")
    expect(page.get_by_label("Name")).to_have_value("Buchhaltung")
