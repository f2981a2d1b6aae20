"""The pages in a real browser, with real data: what they show, by pointer and by keyboard, in every appearance."""

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import demo
import pytest
from appearance import APPEARANCES, check_accessibility
from demo import QUORUM, graph, node, run, settle, workflow
from playwright.sync_api import Locator, Route, expect
from playwright.sync_api import TimeoutError as TooLate
from servers import Server, eventually
from slices import slice_of
from watching import Open

UNAVAILABLE = {"error": {"code": "unavailable", "status": "UNAVAILABLE", "message": "starting"}}


def pages(ids: dict[str, str]) -> dict[str, tuple[str, str]]:
    """The address of each page, and what it shows when it is ready."""
    return {
        "runs": ("/studio/runs", "wfcore-runs .line"),
        "run": (f"/studio/runs/{ids['failed']}", ".react-flow__node[data-id=price_lines]"),
        "inbox": ("/studio/inbox", "wfcore-inbox .request"),
        "workflows": ("/studio/workflows", "wfcore-workflows .line"),
        "builder": (f"/studio/workflows/{ids['refund_workflow']}", "wfcore-builder .react-flow__node"),
    }


@pytest.mark.parametrize("appearance", slice_of(APPEARANCES, 2))
@pytest.mark.parametrize("name", ["runs", "run", "inbox", "workflows", "builder"])
def test_accessible(open_page: Open, server: Server, ids: dict[str, str], name: str, appearance: str) -> None:
    """No finding of axe, in shadow roots too, and nothing wider than the window."""
    path, ready = pages(ids)[name]
    if name == "inbox":
        with server.client() as client:  # the newest request is in sight, however many other tests have left
            settle(client, run(client, int(ids["refund_workflow"]), order=appearance))
    page = open_page(path, **APPEARANCES[appearance])
    expect(page.locator(ready).first).to_be_visible()
    if name == "inbox":
        page.locator(".request .open", has_text=f"Refund order {appearance} ").click()
        expect(page.locator("wfcore-inbox .approval")).to_be_visible()
    if name == "run":
        page.locator(".react-flow__node[data-id=price_lines]").click()
        expect(page.locator("wfcore-run aside h2")).to_have_text("price_lines")
    if name == "builder":
        page.locator(".react-flow__node[data-id=approve_refund]").click()
        expect(page.locator("wfcore-builder aside h2")).to_contain_text("approve_refund")
    check_accessibility(page)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    if appearance == "German":
        assert page.evaluate("document.documentElement.lang").startswith("de")
        german = {"runs": "Läufe", "inbox": "Eingang"}
        if name in german:
            expect(page.get_by_role("heading", name=german[name]).first).to_be_visible()
        expect(page.locator("nav").get_by_role("link", name="Läufe")).to_be_visible()


def test_the_nodes_of_a_graph_can_be_touched(open_page: Open, ids: dict[str, str]) -> None:
    """On a phone no node is smaller than a target may be, however large the graph is."""
    path, ready = pages(ids)["run"]
    page = open_page(path, **APPEARANCES["phone"])
    expect(page.locator(ready)).to_be_visible()
    check_accessibility(page)


def test_the_first_of_two_approvals(open_page: Open, server: Server) -> None:
    """It is recorded, and the run waits for the second one; the link goes on showing the request."""
    with server.client() as client:
        run_id = run(client, workflow(client, "Two approvals", QUORUM), order=1)
        (asked,) = settle(client, run_id)["interrupts"]
    page = open_page(f"/studio/inbox/{asked['interruptId']}")
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_text("The run waits for a further approval.")).to_be_visible()
    expect(page.get_by_text("The run continues.")).to_have_count(0)
    page.reload()
    expect(page.get_by_text("Others have to decide this")).to_be_visible()
    expect(page.get_by_role("region", name="Decisions so far").get_by_text("Ada Lovelace")).to_be_visible()
    expect(page.locator(".decide").get_by_role("button")).to_have_count(0)


def test_sign_in_and_out(open_page: Open, server: Server) -> None:
    """A wrong token is refused, a right one is kept for this tab only, and none is in the address."""
    page = open_page("/studio/inbox", token=None)
    field = page.get_by_label("Access token")
    expect(field).to_be_visible()
    check_accessibility(page)
    field.fill("svc_wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_text("This token is not valid")).to_be_visible()
    field.fill(server.token)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Inbox")).to_be_visible()
    assert server.token not in page.url
    assert page.evaluate("localStorage.length") == 0
    page.get_by_role("button", name="Sign out").click()
    expect(field).to_be_visible()
    assert page.evaluate("sessionStorage.getItem('studio-token')") is None


@pytest.mark.parametrize(
    ("status", "text"),
    [(503, "The server cannot check the token now"), (429, "The server cannot check the token now"),
     (0, "The server cannot be reached")],
)  # fmt: skip
def test_a_sign_in_that_the_server_cannot_check(open_page: Open, server: Server, status: int, text: str) -> None:
    """A token is called invalid only by a server that has checked it."""
    page = open_page("/studio/inbox", token=None)
    field = page.get_by_label("Access token")
    expect(field).to_be_visible()
    page.route(
        "**/api/v1/me", lambda route: route.fulfill(status=status, json=UNAVAILABLE) if status else route.abort()
    )
    field.fill(server.token)
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text(text)
    expect(field).not_to_have_attribute("aria-invalid", "true")
    page.unroute_all()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Inbox")).to_be_visible()


def test_a_reload_while_the_server_starts_again(open_page: Open, ids: dict[str, str]) -> None:
    """The page says that the server does not answer, and goes on by itself when it does."""
    page = open_page("/studio/runs")
    expect(page.locator(".line").first).to_be_visible()
    page.route("**/api/v1/me", lambda route: route.fulfill(status=503, json=UNAVAILABLE))
    page.reload()
    expect(page.get_by_role("alert")).to_contain_text("starting")
    expect(page.get_by_role("button", name="Try again")).to_be_visible()
    expect(page.get_by_label("Access token")).to_have_count(0)
    page.unroute_all()
    expect(page.locator(".line").first).to_be_visible()


def test_filters_are_in_the_address(open_page: Open, ids: dict[str, str]) -> None:
    page = open_page("/studio/runs")
    expect(page.locator(".line").first).to_be_visible()
    page.get_by_label("Status").select_option("error")
    expect(page).to_have_url(re.compile(r"\?status=error$"))
    expect(page.locator(".line .status.bad").first).to_be_visible()
    expect(page.locator(".line .status.ok")).to_have_count(0)
    page.reload()
    expect(page.get_by_label("Status")).to_have_value("error")
    page.get_by_label("Status").select_option("queued")
    expect(page.get_by_text("No run matches these filters")).to_be_visible()
    page.get_by_role("button", name="Clear filters").click()
    expect(page.locator(".line").first).to_be_visible()


def test_a_late_response_of_other_filters_is_ignored(open_page: Open, ids: dict[str, str]) -> None:
    """The list shows what its filters say, also if the response to the filters before comes last."""
    page = open_page("/studio/inbox")
    expect(page.locator(".request").first).to_be_visible()
    held: list[Route] = []

    def hold(route: Route) -> None:
        if "status=error" in route.request.url:
            route.continue_()
        else:
            held.append(route)

    page.route(re.compile(r"/agent/v1/runs\?"), hold)
    page.get_by_role("navigation").get_by_role("link", name="Runs").click()
    eventually(lambda: page.wait_for_timeout(1) or held)
    page.get_by_label("Status").select_option("error")
    expect(page.locator(".line .status.bad").first).to_be_visible()
    with page.expect_response(lambda one: "/agent/v1/runs?" in one.url and "status=error" not in one.url):
        held[0].continue_()
    page.wait_for_timeout(200)  # until the page has read the response
    expect(page.locator(".line .status.bad").first).to_be_visible()
    expect(page.locator(".line .status.ok")).to_have_count(0)


def test_a_run_with_many_requests_in_a_low_window(open_page: Open, server: Server) -> None:
    """As at a zoom of 200 %: the page scrolls, and the graph keeps a height to work in."""
    asking = [node(f"ask{number}", "humanApproval", message=f"Question {number}?") for number in range(4)]
    with server.client() as client:
        number = workflow(client, "Four questions", graph(asking, *[("start", one["id"]) for one in asking]))
        run_id = run(client, number, order=1)
        settle(client, run_id)
    page = open_page(f"/studio/runs/{run_id}", viewport={"width": 640, "height": 360})
    expect(page.locator(".notice", has_text="Question")).to_have_count(4)
    page.locator(".react-flow__node[data-id=ask0]").click()
    expect(page.locator("wfcore-run aside h2")).to_have_text("ask0")
    page.locator("wfcore-run aside").get_by_role("button", name="Close").click()
    page.get_by_role("tab", name="Events").click()
    shown = page.locator("#run-view")
    expect(shown.get_by_role("listitem").first).to_be_visible()
    assert shown.evaluate("(one) => one.offsetHeight") >= 200


def test_what_stands_in_backticks_is_shown_as_code(open_page: Open, server: Server) -> None:
    """In the message of a failed run, in the details of its node and in the list of its events."""
    failing = node("book", "action", toolId="core.fail", params={"message": "no account `A-7` is open"})
    with server.client() as client:
        run_id = run(client, workflow(client, "Fails with code", graph([failing], ("start", "book"))))
        settle(client, run_id)
    page = open_page(f"/studio/runs/{run_id}")
    code = page.locator("code", has_text="A-7")
    expect(page.locator(".notice").first.locator(code)).to_have_text("A-7")
    page.locator(".react-flow__node[data-id=book]").click()
    expect(page.locator("wfcore-run aside .notice").locator(code)).to_have_text("A-7")
    page.get_by_role("tab", name="Events").click()
    events = page.locator(".erow", has_text="no account A-7 is open")
    expect(events.locator(code).first).to_have_text("A-7")
    expect(page.locator("#run-view")).not_to_contain_text("`A-7`")


def test_the_time_of_a_run_that_waits(open_page: Open, server: Server) -> None:
    """It goes on, in the list of runs and on the page of the run: its summary, timeline and node."""
    with server.client() as client:
        run_id = run(client, workflow(client, "Waits", QUORUM), order=1)
        (asked,) = settle(client, run_id)["interrupts"]
    page = open_page("/studio/runs?status=interrupted")
    grows(page.locator(f'.line[href$="/runs/{run_id}"] .c-duration'))
    page.locator(f'.line[href$="/runs/{run_id}"]').click()
    grows(page.locator(".summary > span", has_text="Duration"))
    page.get_by_role("tab", name="Timeline").click()
    waits = page.locator(".trow", has_text=asked["nodeId"])
    grows(waits.locator(".end"))
    waits.click()
    grows(page.locator(".side .facts dt:text-is('Duration') + dd"))


def grows(time: Locator) -> None:
    """The text of the time becomes another one."""
    expect(time).to_be_visible()
    expect(time).not_to_have_text(time.inner_text())


def test_a_failed_run_leads_to_its_cause(open_page: Open, ids: dict[str, str]) -> None:
    """From the list to the child that failed, with its input's story: graph, timeline, events, detail."""
    page = open_page(f"/studio/runs?status=error&workflowId={ids['order_workflow']}")  # others of the process fail too
    page.locator(".line").filter(has_text="Fulfil order").click()
    expect(page).to_have_url(re.compile(ids["failed"]))
    states = {
        "load_order": "done", "price_lines": "error", "reserve": "cancelled", "greet_vip": "skipped", "ship": "pending",
    }  # fmt: skip
    for name, state in states.items():
        shown = page.locator(f".react-flow__node[data-id={name}] .gnode")
        expect(shown).to_have_attribute("data-status", re.compile("skipped|pending" if state == "skipped" else state))
    page.get_by_role("button", name=re.compile(r"price_lines \[3\] . refuse")).click()
    expect(page.locator("wfcore-run aside h2")).to_have_text("refuse")
    expect(page.locator("wfcore-run aside").get_by_text("the catalog has no article C-404").first).to_be_visible()
    expect(page.locator(".react-flow__node[data-id=refuse] .gnode[data-status=error]")).to_be_visible()
    page.get_by_role("tab", name="Timeline").click()
    expect(page.locator(".trow[aria-current=true]")).to_contain_text("refuse")
    page.get_by_role("tab", name="Events").click()
    expect(page.locator(".erow").first).to_contain_text("Run started")


def test_a_child_whose_node_has_a_comma(open_page: Open, server: Server) -> None:
    """What the child did is read and shown, whatever the id of the node that called it."""
    child = demo.graph([demo.transform("inner", "{{ input.word }}")], ("start", "inner"))
    with server.client() as client:
        call = {"workflowId": demo.workflow(client, "Commas inside", child), "input": {"word": "found"}}
        parent = demo.graph([demo.node("a, 100%", "action", toolId="core.workflow", params=call)], ("start", "a, 100%"))
        run_id = demo.run(client, demo.workflow(client, "Commas", parent))
        demo.settle(client, run_id)
    page = open_page(f"/studio/runs/{run_id}")
    page.locator(".react-flow__node").last.click()
    with page.expect_response(re.compile("/graph.*path=")) as read:
        page.locator("wfcore-run aside").get_by_role("button", name=re.compile("Open the graph of this child")).click()
    assert read.value.status == 200
    page.locator(".react-flow__node[data-id=inner]").click()
    expect(page.locator("wfcore-run aside")).to_contain_text("found")


STAYS = "const timer = setTimeout; window.setTimeout = (call, ms) => timer(call, ms === 1_500 ? 1e9 : ms);"
"""What the button says for a moment stays: on a busy machine the moment can be over before the test looks."""


@pytest.mark.parametrize("works", [True, False])
def test_copying_without_a_secure_context(open_page: Open, ids: dict[str, str], works: bool) -> None:
    """As over plain HTTP, where the browser has no clipboard: the text is copied, or the button says that it is not."""
    script = f"Object.defineProperty(navigator, 'clipboard', {{value: undefined}}); {STAYS}"
    script += "" if works else "Document.prototype.execCommand = () => false;"
    page = open_page(f"/studio/runs/{ids['done']}", script=script)
    page.get_by_role("button", name="Copy run id").click()
    if not works:
        expect(page.get_by_role("button", name="Not copied")).to_be_focused()
        return
    expect(page.get_by_role("button", name="Copied")).to_be_focused()
    page.get_by_role("navigation").get_by_role("link", name="Workflows").click()
    page.get_by_label("Search workflows").focus()
    page.keyboard.press("Control+v")
    expect(page.get_by_label("Search workflows")).to_have_value(ids["done"])


def test_addresses_that_lead_nowhere(open_page: Open) -> None:
    """An unknown page, and an id that nothing can have, lead back to the runs."""
    for address in ("/studio/nothing", "/studio/workflows/new", "/studio/skills/0", "/studio/skills/1x"):
        page = open_page(address)
        expect(page.get_by_text("This page does not exist")).to_be_visible()
    page.get_by_text("Go to the runs").click()
    expect(page).to_have_url(re.compile("/studio/runs$"))


LATE = """{
  const post = MessagePort.prototype.postMessage;
  MessagePort.prototype.postMessage = function (...given) { setTimeout(() => post.apply(this, given), 500); };
}"""
"""What React does after it has rendered comes later than a click, as on a busy machine."""


def test_a_form_shows_errors_at_their_fields(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """Ten fields with defaults; the answer that reaches the run is exactly what was entered."""
    with server.client() as client:
        run_id = run(client, int(ids["refund_workflow"]), order=99)
        (waiting,) = settle(client, run_id)["interrupts"]
        page = open_page(f"/studio/inbox/{waiting['interruptId']}", script=LATE)
        expect(page.get_by_role("heading", name="Refund order 99 to Ada Lovelace?")).to_be_visible()
        expect(page.get_by_label("Amount")).to_have_value("120.5")
        page.get_by_role("button", name="Approve").click()
        reason = page.get_by_label("Reason")
        expect(reason).to_be_focused()
        expect(reason).to_have_attribute("aria-invalid", "true")
        check_accessibility(page)
        reason.fill("late")
        expect(page.get_by_text("At least 5 characters")).to_be_visible()
        reason.fill("late delivery")
        page.get_by_label("Account", exact=True).select_option(label="savings")
        page.get_by_label("fast").check()
        page.get_by_label("vip").check()
        page.get_by_label("Email").fill("ada@acme.test")
        page.get_by_role("button", name="Add entry").click()
        page.locator(".entry input").fill("+1 555")
        page.get_by_label("I checked the account").check()
        page.get_by_role("button", name="Approve").click()
        expect(page.get_by_text("Your decision is recorded")).to_be_visible()
        record = settle(client, str(client.get(f"/agent/v1/runs/{run_id}").json()["resumedBy"]))
        assert record["status"] == "done"
        assert record["output"] == {
            "amount": 120.5, "reason": "late delivery", "account": "savings", "speed": "fast", "count": 1,
            "tags": ["vip"],
            "contact": {"email": "ada@acme.test", "phones": ["+1 555"]}, "confirm": True,
        }  # fmt: skip


def test_a_link_opens_one_request_after_the_sign_in(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    with server.client() as client:
        (waiting,) = client.get(f"/agent/v1/runs/{ids['call']}").json()["interrupts"]
    page = open_page(f"/studio/inbox/{waiting['interruptId']}", token=None)
    page.get_by_label("Access token").fill(server.token)
    page.keyboard.press("Enter")
    expect(page.locator("wfcore-approval .approval")).to_have_count(1)
    expect(page.get_by_text(waiting["digest"])).to_be_visible()
    expect(page.locator("wfcore-approval .json")).to_contain_text("ledger")
    expect(page.locator("wfcore-approval .json")).to_contain_text("1250")


def test_two_keys_approve(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """By keyboard alone from the list: one key opens the request at its decision, the second takes it."""
    with server.client() as client:
        run_id = run(client, int(ids["plain_workflow"]), order=777)
        settle(client, run_id)
        page = open_page("/studio/inbox")
        row = page.locator(".request .open").filter(has_text="Publish release 777?")
        expect(row).to_be_visible()
        for _ in range(60):
            page.keyboard.press("Tab")
            if page.evaluate(FOCUSED) == "open clip":
                break
        while page.evaluate(FOCUSED_TEXT) != "Publish release 777?":
            page.keyboard.press("ArrowDown")
        page.keyboard.press("a")
        expect(page.get_by_role("button", name="Approve", exact=True)).to_be_focused()
        page.keyboard.press("Enter")
        expect(row).to_have_count(0)
        record = settle(client, str(client.get(f"/agent/v1/runs/{run_id}").json()["resumedBy"]))
        assert record["status"] == "done"


def test_a_key_goes_to_the_decision_at_once(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """Also on a phone, where the request takes the place of the list: the next key cannot come too early."""
    with server.client() as client:
        settle(client, run(client, int(ids["plain_workflow"]), order="by key"))
    page = open_page("/studio/inbox", **APPEARANCES["phone"])
    row = page.locator(".request .open", has_text="Publish release by key?")
    expect(row).to_be_visible()
    focused = row.evaluate("""async (row) => {
      row.focus();
      row.dispatchEvent(new KeyboardEvent('keydown', { key: 'a', bubbles: true, composed: true }));
      for (let turn = 0; turn < 5; turn++) await null;
      return row.getRootNode().activeElement?.dataset.decision;
    }""")
    assert focused == "approve"


DEEP = "let e = document.activeElement; while (e.shadowRoot?.activeElement) e = e.shadowRoot.activeElement;"
FOCUSED = f"() => {{ {DEEP} return e.className }}"
FOCUSED_TEXT = f"() => {{ {DEEP} return e.textContent }}"


def test_a_decision_of_somebody_else_shows(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """No decision is assumed: what was decided meanwhile is refused by the server, and the page shows it."""
    with server.client() as client:
        run_id = run(client, int(ids["plain_workflow"]), order=888)
        (waiting,) = settle(client, run_id)["interrupts"]
        page = open_page(f"/studio/inbox/{waiting['interruptId']}")
        page.route("**/api/v1/changes", lambda route: route.abort())
        expect(page.get_by_role("button", name="Approve")).to_be_visible()
        done = client.post(
            f"/agent/v1/runs/{run_id}/resume", json={"decision": "deny"}, headers={"Accept": "application/json"}
        )
        assert done.status_code in (200, 202)
        with suppress(TooLate):  # the page may show the decision before the click
            page.get_by_role("button", name="Approve").click()
        expect(page.get_by_text(re.compile("decided meanwhile|does not exist|Denied")).first).to_be_visible()


def test_a_request_that_expires_while_it_is_open(open_page: Open, server: Server) -> None:
    """It offers no decision any more, at once and without news of the server.

    No response has a time: the page would learn that the server's clock was not set forward.
    """

    def undated(route: Route) -> None:
        found = route.fetch()
        route.fulfill(response=found, headers={name: text for name, text in found.headers.items() if name != "date"})

    ask = demo.node("ask", "humanApproval", message="Publish in time?", timeoutSeconds=3600)
    with server.client() as client:
        run_id = demo.run(client, demo.workflow(client, "In time", demo.graph([ask], ("start", "ask"))))
        request = demo.settle(client, run_id)["interrupts"][0]["interruptId"]
    page = open_page("/studio/more")
    page.route(re.compile("/(api|agent)/v1/"), undated)
    page.route("**/api/v1/changes*", lambda route: None)
    page.clock.install()
    page.goto(f"{server.url}/studio/inbox/{request}")
    expect(page.get_by_role("button", name="Approve")).to_be_enabled()
    page.clock.fast_forward("01:00:01")
    expect(page.get_by_role("button", name="Approve")).to_have_count(0)
    expect(page.get_by_role("status").filter(has_text="The deadline has passed")).to_be_visible()


AHEAD = """{
  const Right = Date;
  window.Date = class extends Right {
    constructor(...given) { given.length ? super(...given) : super(Right.now() + %d * 3_600_000); }
    static now() { return Right.now() + %d * 3_600_000; }
  };
}"""
"""The clock of the computer is so many hours ahead."""


@pytest.mark.parametrize("hours", [5, -5])
def test_a_clock_that_is_wrong(open_page: Open, server: Server, hours: int) -> None:
    """Deadlines count by the clock of the server: a request can be decided until it has expired there."""
    ask = demo.node("ask", "humanApproval", message="By which clock?", timeoutSeconds=4 * 3600 - 1)
    with server.client() as client:
        run_id = demo.run(client, demo.workflow(client, "By the clock", demo.graph([ask], ("start", "ask"))))
        request = demo.settle(client, run_id)["interrupts"][0]["interruptId"]
    page = open_page(f"/studio/inbox/{request}", script=AHEAD % (hours, hours))
    expect(page.locator(".approval header .tag", has_text="in 3 hr.")).to_be_visible()
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_text("Your decision is recorded")).to_be_visible()


@pytest.mark.parametrize("hours", [5, -5])
def test_relative_times_by_a_clock_that_is_wrong(open_page: Open, server: Server, hours: int) -> None:
    """They, what has expired, and the filters by time count by the clock of the server too."""
    at = datetime.now(UTC)
    with server.client() as client:
        number = demo.workflow(client, f"Changed at {hours}", demo.QUICK)
        run_id = demo.run(client, number, order=1)
        body = {"name": f"Valid at {hours}", "scopes": ["usage:read"], "expiresInSeconds": 3 * 3600 - 60}
        assert client.post("/api/v1/tokens", json=body).status_code == 201
    page = open_page("/studio/workflows", script=AHEAD % (hours, hours))
    page.get_by_label("Search workflows").fill(f"Changed at {hours}")  # other tests have many workflows
    changed = page.locator(".line", has_text=f"Changed at {hours}").locator(".c-started")
    expect(changed).to_have_text(re.compile("^(now|[0-9]+ (sec|min)[.] ago)$"))
    page.get_by_role("navigation").get_by_role("link", name="Tokens").click()
    shown = page.locator(".line", has_text=f"Valid at {hours}")
    box = page.locator(".main .scroll")
    to_the_end = "(one) => one.scrollTo(0, one.scrollHeight)"
    eventually(lambda: box.evaluate(to_the_end) or shown.count())  # the newest is the last, and other tests make many
    expect(shown).to_contain_text("Active")
    expect(shown).to_contain_text("in 2 hr.")
    with page.expect_request(lambda one: "/agent/v1/runs?" in one.url) as sent:
        page.goto(f"{server.url}/studio/runs?since=hour&workflowId={number}")
    (since,) = parse_qs(urlsplit(sent.value.url).query)["since"]
    assert abs(datetime.fromisoformat(since) - at + timedelta(hours=1)) < timedelta(minutes=15)
    expect(page.locator(".line", has_text=run_id)).to_be_visible()


def test_several_at_once(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    with server.client() as client:
        runs = [run(client, int(ids["plain_workflow"]), order=number) for number in (9001, 9002)]
        for each in runs:
            settle(client, each)
        page = open_page("/studio/inbox")
        for number in (9001, 9002):
            page.get_by_label(f"Select Publish release {number}?").check()
        page.get_by_role("button", name="Approve 2").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("Publish release 9002?")
        check_accessibility(page)
        dialog.get_by_role("button", name="Approve 2").click()
        expect(page.get_by_label("Select Publish release 9001?")).to_have_count(0)
        for each in runs:
            assert settle(client, str(client.get(f"/agent/v1/runs/{each}").json()["resumedBy"]))["status"] == "done"
