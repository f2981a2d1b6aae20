"""A failed run is retried from its page: with which version, what does not fit, and the turns that it then has."""

import json
from typing import Any

import pytest
from appearance import check_accessibility
from playwright.sync_api import Page, Route, expect
from servers import Server
from watching import Open

NEXT = "01941f29-7c00-7000-8000-00000000beef"
DIFFERENCES = [
    {"nodeId": "price_lines", "what": "removed", "message": "the version has no node `price_lines`"},
    {"nodeId": "notify", "what": "type", "message": "`notify` was an action and is an agent"},
]


class Retries:
    """Answers the requests of a retry: another version does not fit, and the run's own version begins a turn."""

    def __init__(self, page: Page, server: Server, run_id: str) -> None:
        self.sent: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.began = False
        with server.client() as client:
            self.record: dict[str, Any] = client.get(f"/agent/v1/runs/{run_id}").json()
        page.route(f"**/agent/v1/runs/{run_id}/retry", self.retry)
        page.route(f"**/agent/v1/runs/{run_id}", self.first)
        page.route(f"**/agent/v1/runs/{NEXT}", self.second)
        page.route(f"**/agent/v1/runs/{NEXT}/events", lambda route: route.fulfill(json={"events": []}))
        page.route(f"**/agent/v1/runs/{NEXT}/graph", lambda route: route.fulfill(status=404, json={}))

    def retry(self, route: Route) -> None:
        self.keys.append(route.request.headers["idempotency-key"])
        self.sent.append(json.loads(route.request.post_data or "{}"))
        if self.sent[-1]["version"] == "published":
            error = {
                "code": "CONFLICT", "status": "FAILED_PRECONDITION", "message": "the published version does not fit",
                "info": {"reason": "incompatible", "differences": DIFFERENCES},
            }  # fmt: skip
            return route.fulfill(status=409, json={"error": error})
        self.began = True
        return route.fulfill(status=202, json={"runId": NEXT, "status": "queued"})

    def first(self, route: Route) -> None:
        route.fulfill(json={**self.record, "retriedBy": NEXT if self.began else None})

    def second(self, route: Route) -> None:
        turn = {**self.record, "runId": NEXT, "parentRunId": self.record["runId"], "status": "done", "error": None}
        route.fulfill(json={**turn, "startedBy": {"userId": "grace", "kind": "person"}})


def test_what_does_not_fit_is_shown(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """409 with differences: each with its node; then the version of the run is retried, and its turns are one story."""
    page = open_page("/studio/runs")
    retries = Retries(page, server, ids["failed"])
    page.goto(f"{server.url}/studio/runs/{ids['failed']}")
    page.get_by_role("button", name="Retry from failure").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("The version of this run")).to_be_checked()
    dialog.get_by_label("The version that is published now").check()
    dialog.get_by_role("button", name="Retry from failure").click()
    expect(dialog.get_by_role("alert")).to_contain_text("the published version does not fit")
    for each in DIFFERENCES:
        expect(dialog.get_by_role("listitem").filter(has_text=each["message"])).to_contain_text(each["nodeId"])
    check_accessibility(page)
    dialog.get_by_label("The version of this run").check()
    expect(dialog.get_by_role("alert")).to_have_count(0)
    dialog.get_by_role("button", name="Retry from failure").click()
    expect(dialog).to_have_count(0)
    assert [one["version"] for one in retries.sent] == ["published", "pinned"]
    assert len(set(retries.keys)) == 2
    page.get_by_text("2 turns").click()
    expect(page.locator(".story li").nth(0)).to_contain_text("Started by ada")
    expect(page.locator(".story li").nth(1)).to_contain_text("Retried by grace")
    expect(page.locator(".head .status.ok")).to_be_visible()
    expect(page.get_by_role("button", name="Retry from failure")).to_have_count(0)


def test_a_fork_names_its_source(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    page = open_page("/studio/runs")
    record = {"forkedFrom": ids["failed"]}

    def forked(route: Route) -> None:
        route.fulfill(json={**route.fetch().json(), **record})

    page.route(f"**/agent/v1/runs/{ids['done']}", forked)
    page.goto(f"{server.url}/studio/runs/{ids['done']}")
    page.locator(".story").get_by_role("link", name=ids["failed"]).click()
    expect(page.get_by_role("heading", name="Fulfil order")).to_be_visible()


@pytest.mark.parametrize("name", ["done", "form"])
def test_only_what_failed_or_was_cancelled_is_offered(open_page: Open, ids: dict[str, str], name: str) -> None:
    page = open_page(f"/studio/runs/{ids[name]}")
    expect(page.locator(".react-flow__node").first).to_be_visible()
    expect(page.get_by_role("button", name="Retry from failure")).to_have_count(0)
