"""The lists of the pages: further pages, refreshes in place, and decisions over several rows."""

import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import demo
from appearance import check_accessibility
from large_runs import record
from playwright.sync_api import Locator, Page, Route, expect
from servers import Server, eventually
from watching import Open

Json = dict[str, Any]

FIRST_IN_SIGHT = """(box) => [...box.querySelectorAll('[role=listitem]')].find(
  (row) => row.getBoundingClientRect().bottom > box.getBoundingClientRect().top + 1).textContent"""
FOCUSED = """() => {
  let found = document.activeElement;
  while (found.shadowRoot?.activeElement) found = found.shadowRoot.activeElement;
  return found.textContent;
}"""
MANY = 160


class Rows:
    """Answers the requests of a list from rows of its own, in pages of 50; `pages` has the tokens of the requests."""

    def __init__(self, page: Page, path: str, field: str, rows: list[Json]) -> None:
        self.rows = rows
        self.pages: list[str | None] = []
        self.fails = False
        self._field = field
        page.route(re.compile(rf"{path}\?"), self._answer)

    def _answer(self, route: Route) -> None:
        token = parse_qs(urlsplit(route.request.url).query).get("pageToken", [None])[0]
        self.pages.append(token)
        if self.fails and token:
            route.abort()
            return
        begin = int(token or 0)
        end = begin + 50
        more = str(end) if end < len(self.rows) else None
        route.fulfill(json={self._field: self.rows[begin:end], "nextPageToken": more, "total": len(self.rows)})


def workflow(number: int) -> Json:
    return {"id": number, "name": f"Stub {number}", "description": None, "status": "active"}


def request(number: int) -> Json:
    return {
        "interruptId": f"int-{number}", "runId": f"run-{number}", "type": "approval", "message": f"Question {number}?",
        "target": {"type": "assistant", "id": None}, "nodeId": "ask", "path": [], "status": "open",
    }  # fmt: skip


def to_the_end(box: Locator, count: int, height: int) -> None:
    """Scroll until the list has `count` rows."""

    def scrolled() -> bool:
        box.evaluate("(one) => one.scrollTo(0, one.scrollHeight)")
        box.page.wait_for_timeout(1)  # the responses of `Rows` are given meanwhile
        return bool(box.evaluate("(one) => one.querySelector('.rows').offsetHeight") == count * height)

    eventually(scrolled)


def test_a_page_that_fails_is_requested_again_by_the_user(open_page: Open, server: Server) -> None:
    page = open_page("/studio/more")
    stub = Rows(page, "/api/v1/workflows", "workflows", [workflow(number) for number in range(1, MANY + 1)])
    stub.fails = True
    page.route("**/api/v1/changes*", lambda route: None)  # a change would read the pages again
    page.goto(f"{server.url}/studio/workflows")
    box = page.locator("wfcore-workflows .scroll")
    expect(box).to_be_visible()
    box.evaluate("(one) => one.scrollTo(0, one.scrollHeight)")
    again = box.get_by_role("button", name="Try again")
    expect(again).to_be_visible()
    for _ in range(5):
        box.evaluate("(one) => one.scrollBy(0, -10)")
        page.wait_for_timeout(20)  # a frame, in which the list is measured
    assert stub.pages.count("50") == 1
    stub.fails = False
    again.click()
    expect(again).to_have_count(0)
    to_the_end(box, MANY, 47)
    assert sorted(filter(None, stub.pages)) == ["100", "150", "50", "50"]


def test_a_change_leaves_the_list_of_workflows_where_it_is(
    open_page: Open, server: Server, ids: dict[str, str]
) -> None:
    page = open_page("/studio/inbox")
    stub = Rows(page, "/api/v1/workflows", "workflows", [workflow(number) for number in range(1, MANY + 1)])
    page.get_by_role("navigation").get_by_role("link", name="Workflows").click()
    box = page.locator("wfcore-workflows .scroll")
    expect(box).to_be_visible()
    to_the_end(box, MANY, 47)
    box.evaluate("(one) => one.scrollTo(0, 120 * 47 + 10)")
    expect(box.get_by_text("Stub 121")).to_be_visible()
    before = box.evaluate(FIRST_IN_SIGHT)
    stub.rows = [workflow(1_000), *stub.rows]
    with server.client() as client:
        client.patch(f"/api/v1/workflows/{ids['greet_workflow']}", json={"description": "changed"})
    expect(box.locator(".rows")).to_have_css("height", f"{(MANY + 1) * 47}px")
    assert box.evaluate(FIRST_IN_SIGHT) == before
    assert box.evaluate("(one) => one.scrollTop") == 121 * 47 + 10


def test_a_run_leaves_the_inbox_where_it_is(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """The rows in sight, the selection and the focus stay after a run that has nothing to do with them."""
    page = open_page("/studio/runs")
    stub = Rows(page, "/agent/v1/interrupts", "interrupts", [request(number) for number in range(MANY)])
    page.get_by_role("navigation").get_by_role("link", name="Inbox").click()
    box = page.locator("#inbox-list .scroll")
    expect(box).to_be_visible()
    to_the_end(box, MANY, 74)
    box.evaluate("(one) => one.scrollTo(0, 130 * 74 + 20)")
    for number in (131, 133):
        page.get_by_label(f"Select Question {number}?").check()
    expect(page.locator(".request", has_text="Question 130?")).to_be_visible()
    page.locator(".request .open", has_text="Question 132?").focus()
    before = box.evaluate(FIRST_IN_SIGHT)
    stub.rows = [request(1_000), *stub.rows]
    with server.client() as client:
        demo.run(client, int(ids["greet_workflow"]), order=1)
    expect(box.locator(".rows")).to_have_css("height", f"{(MANY + 1) * 74}px")
    assert box.evaluate(FIRST_IN_SIGHT) == before
    assert page.evaluate(FOCUSED) == "Question 132?"
    expect(page.get_by_role("region", name="2 selected")).to_be_visible()


def test_a_late_answer_of_another_tab_is_ignored(open_page: Open, ids: dict[str, str]) -> None:
    """The inbox shows the requests of the chosen tab, also if those of the other one come last."""
    page = open_page("/studio/runs")
    held: list[Route] = []
    page.route(
        re.compile(r"/agent/v1/interrupts\?"),
        lambda route: (
            route.fulfill(json={"interrupts": [request(7)], "nextPageToken": None, "total": 1})
            if "status=decided" in route.request.url
            else held.append(route)
        ),
    )
    page.get_by_role("navigation").get_by_role("link", name="Inbox").click()
    eventually(lambda: page.wait_for_timeout(1) or held)
    page.get_by_role("tab", name="Decided").click()
    expect(page.locator(".request")).to_have_count(1)
    for one in held:
        one.fulfill(json={"interrupts": [request(1), request(2)], "nextPageToken": None, "total": 2})
    page.wait_for_timeout(200)  # until the page has read the responses
    expect(page.locator(".request")).to_have_count(1)


def test_the_outcome_of_several_decisions_is_shown(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """One of two requests is decided elsewhere meanwhile: the dialog says so until it is closed."""
    with server.client() as client:
        runs = [demo.run(client, int(ids["plain_workflow"]), order=order) for order in ("left", "right")]
        for one in runs:
            demo.settle(client, one)
        page = open_page("/studio/inbox")
        for order in ("left", "right"):
            page.get_by_label(f"Select Publish release {order}?").check()

        def meanwhile(route: Route) -> None:
            client.post(
                f"/agent/v1/runs/{runs[0]}/resume", json={"decision": "deny"}, headers={"Accept": "application/json"}
            )
            route.continue_()

        page.route("**/agent/v1/interrupts/decide", meanwhile)
        page.get_by_role("button", name="Approve 2").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("button", name="Approve 2").click()
        expect(dialog.get_by_role("alert")).to_contain_text("1 decided, 1 not decided")
        for order in ("left", "right"):
            expect(page.get_by_label(f"Select Publish release {order}?")).to_have_count(0)
        expect(dialog.get_by_role("alert")).to_be_visible()
        dialog.get_by_role("button", name="Close").click()
        expect(dialog).to_have_count(0)
        expect(page.locator(".batch")).to_have_count(0)


def test_a_waiting_run_behind_many_that_continued(open_page: Open, server: Server) -> None:
    """Turns that were carried on fill the first page of those that wait; the list reads on until it has a run."""
    with server.client() as client:
        number = demo.workflow(client, "Waits", demo.PLAIN)
        waiting = demo.run(client, number, order=0)
        demo.settle(client, waiting)
        for order in range(52):
            run = demo.run(client, number, order=order)
            demo.settle(client, run)
            body = {"decision": "approve"}
            client.post(f"/agent/v1/runs/{run}/resume", json=body, headers={"Accept": "application/json"})
    page = open_page(f"/studio/runs?status=interrupted&workflowId={number}")
    expect(page.locator(f".line[href$='{waiting}']")).to_be_visible()
    expect(page.get_by_role("status").get_by_text("1 run", exact=True)).to_be_visible()


def test_runs_are_filtered_by_any_workflow(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """All of the first 500 workflows can be chosen, and a chosen one behind them is shown as such."""
    page = open_page("/studio/inbox")
    Rows(page, "/api/v1/workflows", "workflows", [workflow(number) for number in range(1_001, 1_001 + 520)])
    page.goto(f"{server.url}/studio/runs?workflowId={ids['greet_workflow']}")
    choice = page.get_by_label("Workflow", exact=True)
    expect(choice.locator("option:checked")).to_have_text("Greet")
    expect(choice.get_by_text("Only the first 500 are listed")).to_be_attached()
    choice.select_option("Stub 1500")
    expect(page).to_have_url(re.compile("workflowId=1500$"))


def test_many_schedules_are_read_in_pages(open_page: Open, server: Server) -> None:
    """The page reads one list, says if there are more than the first 200 schedules, and reads them on demand."""
    state = {"isEnabled": True, "paused": None, "overlap": "skip", "lastRunId": None, "missed": [], "nextRuns": []}
    first, last = 1_001, 1_230
    rows = [
        {**workflow(number), **state, "nextAt": f"{4000 - number}-01-01T00:00:00.000Z", "canManage": True}
        for number in range(first, last + 1)
    ]
    page = open_page("/studio/inbox")
    Rows(page, "/api/v1/schedules", "schedules", rows)
    read: list[str] = []
    page.on("request", lambda request: read.append(request.url))
    page.get_by_role("navigation").get_by_role("link", name="Schedules").click()
    expect(page.locator(".record").first).to_contain_text("Stub 1200")
    expect(page.get_by_text("Only the first 200 schedules are shown.")).to_be_visible()
    page.get_by_role("button", name="Show more").click()
    expect(page.get_by_role("button", name="Show more")).to_have_count(0)
    page.locator(".main .scroll").evaluate("(box) => box.scrollTo(0, 0)")
    expect(page.locator(".record").first).to_contain_text(f"Stub {last}")
    assert not [url for url in read if "/api/v1/workflows" in url]


def test_a_request_that_somebody_else_decides(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """The open request loses its buttons and shows who decided."""
    with server.client() as client:
        run = demo.run(client, int(ids["plain_workflow"]), order="elsewhere")
        demo.settle(client, run)
        page = open_page("/studio/inbox")
        page.locator(".request .open", has_text="Publish release elsewhere?").click()
        decisions = page.locator(".decide")
        expect(decisions.get_by_role("button", name="Approve")).to_be_visible()
        client.post(f"/agent/v1/runs/{run}/resume", json={"decision": "deny"}, headers={"Accept": "application/json"})
    expect(decisions.get_by_role("button")).to_have_count(0)
    expect(decisions.get_by_text("Denied")).to_be_visible()
    expect(page.get_by_role("region", name="Decisions so far").get_by_text("Ada Lovelace")).to_be_visible()


def test_a_long_list_is_read_again_on_demand(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """A change costs no request of its pages: the list says that it has changed, and is shown from its beginning."""
    many = 400
    page = open_page("/studio/inbox")
    stub = Rows(page, "/api/v1/workflows", "workflows", [workflow(number) for number in range(1, many + 1)])
    page.get_by_role("navigation").get_by_role("link", name="Workflows").click()
    box = page.locator("wfcore-workflows .scroll")
    expect(box).to_be_visible()
    to_the_end(box, many, 47)
    box.evaluate("(one) => one.scrollTo(0, 300 * 47)")
    expect(box.get_by_text("Stub 301")).to_be_visible()
    requested = len(stub.pages)
    stub.rows = [workflow(1_000), *stub.rows]
    with server.client() as client:
        client.patch(f"/api/v1/workflows/{ids['greet_workflow']}", json={"description": "changed twice"})
    notice = page.get_by_role("status").filter(has_text="This list may have changed")
    expect(notice).to_be_visible()
    check_accessibility(page)
    expect(box.get_by_text("Stub 301")).to_be_visible()
    assert len(stub.pages) == requested
    notice.get_by_role("button").press("Enter")
    expect(box.get_by_text("Stub 1000")).to_be_visible()
    expect(notice).to_have_count(0)
    expect(box).to_be_focused()
    assert stub.pages[requested] is None


def test_a_list_is_where_it_was_after_back(open_page: Open, server: Server) -> None:
    """With its rows, its position and what was searched, without a request for them; another visit begins anew."""
    page = open_page("/studio/more")
    stub = Rows(page, "/api/v1/workflows", "workflows", [workflow(number) for number in range(1, 2 * MANY + 1)])
    link = page.get_by_role("navigation").get_by_role("link", name="Workflows")
    link.click()
    search = page.get_by_role("searchbox")
    with page.expect_response(lambda response: "q=Stub" in response.url):
        search.fill("Stub")
    box = page.locator("wfcore-workflows .scroll")
    to_the_end(box, 2 * MANY, 47)
    box.evaluate("(one) => one.scrollTo(0, 120 * 47 + 10)")
    expect(box.get_by_text("Stub 121")).to_be_visible()
    before, requests = box.evaluate(FIRST_IN_SIGHT), len(stub.pages)
    page.get_by_role("navigation").get_by_role("link", name="Inbox").click()
    expect(box).to_have_count(0)
    page.go_back()
    expect(box.get_by_text("Stub 121")).to_be_visible()
    assert box.evaluate(FIRST_IN_SIGHT) == before
    assert box.evaluate("(one) => one.scrollTop") == 120 * 47 + 10
    assert len(stub.pages) == requests
    expect(search).to_have_value("Stub")
    expect(page.get_by_role("status").filter(has_text="This list may have changed")).to_be_visible()
    page.get_by_role("navigation").get_by_role("link", name="Inbox").click()
    link.click()
    expect(box.get_by_text("Stub 1", exact=True)).to_be_visible()
    expect(search).to_have_value("")


def test_runs_show_the_names_of_workflows_that_were_read(open_page: Open, server: Server) -> None:
    """The names that the filter has are not requested again for each row."""
    page = open_page("/studio/more")
    Rows(page, "/api/v1/workflows", "workflows", [workflow(number) for number in range(9_001, 9_041)])
    single: list[str] = []
    page.on("request", lambda one: single.append(one.url) if re.search(r"/workflows/\d+$", one.url) else None)
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route(re.compile(r"/agent/v1/runs\?"), hold)
    page.goto(f"{server.url}/studio/runs")
    expect(page.locator("#f-workflowId option")).to_have_count(41)
    runs = [
        record(f"run-{number}", "done") | {"target": {"type": "workflow", "id": number}}
        for number in range(9_001, 9_041)
    ]
    eventually(lambda: page.wait_for_timeout(1) or held)
    for route in held:
        route.fulfill(json={"runs": runs, "nextPageToken": None})
    expect(page.locator(".line").filter(has_text="Stub 9001")).to_be_visible()
    box = page.locator("wfcore-runs .scroll")
    box.evaluate("(one) => one.scrollTo(0, one.scrollHeight)")
    expect(page.locator(".line").filter(has_text="Stub 9040")).to_be_visible()
    assert single == []
