"""The builder, deep: expressions with their values, runs from a node, simulation, and proposals of a model."""

import json

import demo
import httpx
from appearance import check_accessibility
from playwright.sync_api import Route, expect
from scripted_server import scripted_server
from servers import Server, eventually
from test_builder import SAVED, create, names, node, opened, stored
from waiting import HANG
from watching import Open

ORDER = {"type": "object", "properties": {"order": {"type": "integer", "title": "Order"}}, "required": ["order"]}
REFUND = {
    "nodes": [
        demo.node("start", "start", inputSchema=ORDER),
        demo.transform("load", {"total": "{{ input.order * 10 }}", "lines": [{"sku": "A"}, {"sku": "B"}]}),
        demo.node("large", "condition", branches=[{"handle": "yes", "when": "nodes.load.output.total > 50"}]),
        demo.transform("mail", "Refund"),
    ],
    "edges": [demo.edge("start", "load"), demo.edge("load", "large"), demo.edge("large", "mail", "yes")],
}


def test_expressions(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """Completed from schemas without a run, then with its values; the server's value or error is beside."""
    with server.client() as client:
        workflow = create(client, REFUND)
        page = opened(open_page, workflow)
        node(page, "mail").click()
        value = page.get_by_label("value", exact=True)
        options = page.get_by_role("listbox", name="Completions")
        value.fill("Refund {{ ")
        expect(options.get_by_role("option")).to_have_count(8)
        check_accessibility(page)
        value.fill("Refund {{ input.")
        expect(options.get_by_role("option")).to_have_text(["orderinteger"])
        page.keyboard.press("Enter")
        expect(value).to_have_value("Refund {{ input.order")
        page.keyboard.type(" }}")
        expect(page.get_by_text("There are no values yet").first).to_be_visible()
        expect(page.locator(SAVED)).to_be_visible()
        page.get_by_role("button", name="Run", exact=True).click()
        page.get_by_role("dialog").get_by_label("Order").fill("7")
        page.get_by_role("dialog").get_by_role("button", name="Run").click()
        expect(page.locator(".head .status.ok")).to_be_visible()
        page.get_by_role("button", name="Back to the draft").click()
        expect(page.locator(".side output")).to_have_text("= Refund 7")
        value.fill("{{ nodes.load.output.")
        expect(options.get_by_role("option")).to_have_text(["total70", "linesarray"])
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Tab")
        page.keyboard.type("[1].sku }}")
        expect(page.locator(".side output")).to_have_text("= B")
        value.fill("{{ nodes.load.output.totals }}")
        expect(page.locator(".side .result .hint")).to_contain_text("totals")
        node(page, "large").click()
        expect(page.locator(".side output")).to_have_text("= true")
        condition = page.get_by_label("When")
        condition.fill("nodes.load.output.total >")
        expect(page.locator(".side .result .hint")).to_contain_text("Column")
        condition.fill("nodes.load.output.total > 100")
        expect(page.locator(".side output")).to_have_text("= false")
        check_accessibility(page)


def test_a_run_from_a_node(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """A node is tried on the values of the last run or on own ones; a run begins there with what came before."""
    with server.client() as client:
        workflow = demo.workflow(client, "From here", REFUND)
        first = demo.run(client, workflow, order=7)
        demo.settle(client, first)
        page = opened(open_page, workflow)
        node(page, "mail").click()
        page.get_by_label("value", exact=True).fill("{{ nodes.load.output.total }} for order {{ input.order }}")
        expect(page.locator(".side output")).to_have_text("= 70 for order 7")  # what is below does not move any more
        page.get_by_text("Try this node").click()
        page.get_by_role("button", name="Try", exact=True).click()
        expect(page.locator(".side .stack[role=status] .json")).to_contain_text("70 for order 7")
        page.get_by_role("textbox", name="Input").fill('{"order": 8}')
        expect(page.locator(".side output")).to_have_text("= 70 for order 8")
        expect(page.locator(".side").get_by_text("With values of your own")).to_be_visible()
        page.get_by_role("button", name="Use those of the last run").click()
        expect(page.locator(".side output")).to_have_text("= 70 for order 7")
        expect(page.locator(SAVED)).to_be_visible()
        page.get_by_role("button", name="Run from this node").click()
        dialog = page.get_by_role("dialog", name="Run from mail")
        expect(dialog.get_by_label("Order")).to_have_value("7")
        dialog.get_by_role("button", name="Run", exact=True).click()
        expect(page.locator(".head .status.ok")).to_be_visible()
        runs = client.get("/agent/v1/runs", params={"workflowId": workflow}).json()["runs"]
        assert [(one["forkedFrom"], one["output"]) for one in runs] == [(first, "70 for order 7"), (None, "Refund")]
        assert stored(client, workflow)["nodes"][1]["data"] == REFUND["nodes"][1]["data"]


def test_a_trial_waits_for_the_values_of_the_last_run(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """A node cannot be tried before those values are there: it would fail without them."""
    held: list[Route] = []
    with server.client() as client:
        workflow = demo.workflow(client, "Late values", REFUND)
        demo.settle(client, demo.run(client, workflow, order=7))
    page = open_page("/studio/runs")
    page.route("**/agent/v1/runs/*/graph*", lambda route: held.append(route))  # noqa: PLW0108  (it sets attributes)
    page.goto(f"{server.url}/studio/workflows/{workflow}")
    node(page, "mail").click()
    page.get_by_text("Try this node").click()
    expect(page.get_by_role("button", name="Try", exact=True)).to_be_disabled()
    eventually(lambda: page.wait_for_timeout(1) or held)
    held[0].continue_()
    page.get_by_role("button", name="Try", exact=True).click()
    expect(page.locator(".side .stack[role=status] .json")).to_contain_text("Refund")


PAYMENT = demo.graph(
    [
        demo.node("large", "condition", branches=[{"handle": "yes", "when": "input.total > 50"}]),
        demo.node("ask", "humanApproval", message="Pay?"),
        demo.node("pay", "action", toolId="core.http", params={"method": "POST", "url": "https://pay.example.com/"}),
        demo.node("known", "condition", branches=[{"handle": "always", "when": "true"}]),
        demo.transform("closed", 1),
    ],
    ("start", "large"), ("large", "ask", "yes"), ("large", "pay", "else"), ("ask", "pay", "approved"),
    ("pay", "known"), ("known", "closed", "else"),
)  # fmt: skip


def test_a_simulation(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """Paths are shown on the canvas, nodes that no run reaches are marked, a broken rule or policy is played."""
    policy = {"name": "Limits", "when": {"tool": "core.http"}, "require": {"timeout": True}, "severity": "warning"}
    with server.client() as client:
        made = client.post("/api/v1/policies", json=policy)
        assert made.status_code == 201, made.text
        page = opened(open_page, create(client, PAYMENT))
        page.get_by_role("button", name="Simulate", exact=True).click()
        panel = page.get_by_role("complementary", name="Simulate")
        expect(panel.get_by_role("button", name="closed")).to_be_visible()
        expect(node(page, "closed").locator(".gnode")).to_have_attribute("data-outcome", "never")
        panel.get_by_role("button", name="large (else)").first.click()
        expect(node(page, "pay").locator(".gnode")).to_have_attribute("data-outcome", "done")
        expect(node(page, "ask").locator(".gnode")).to_have_attribute("data-outcome", "unreached")
        expect(page.locator(".react-flow__edge.taken")).to_have_count(3)
        panel.get_by_role("button", name="Play the run that breaks Limits").click()
        panel.get_by_role("button", name="Next").click()
        expect(node(page, "pay").locator(".gnode.current")).to_be_visible()
        assert client.delete(f"/api/v1/policies/{made.json()['id']}").status_code == 200
        check_accessibility(page)
        panel.get_by_label("Rules, one a line").fill("never pay without approved ask\nat most 1 pay")
        panel.get_by_role("button", name="Simulate again").click()
        expect(panel.locator(".verdict")).to_contain_text(
            ["never pay without approved ask: broken", "at most 1 pay: holds"]
        )
        panel.get_by_role("button", name="Play the run that breaks never pay").focus()
        page.keyboard.press("Enter")
        expect(node(page, "large").locator(".gnode.current")).to_have_attribute("data-outcome", "else")
        status = panel.get_by_role("group", name="Step by step").get_by_role("status")
        expect(status).to_have_text("Step 1 of 1: large, else")
        page.get_by_role("button", name="Wait", exact=True).click()
        page.get_by_role("button", name="Close", exact=True).click()
        expect(panel.get_by_text("The graph has changed since")).to_be_visible()
        expect(page.locator("[data-outcome]")).to_have_count(0)


ASK = demo.node("ask", "humanApproval", message="Pay?")
CHANGE: demo.Json = {
    "explanation": "Somebody approves before <b>anything</b> is paid.",
    "nodes": [ASK, demo.transform("mail", "{{ nodes.pay.output }}")],
    "edges": [demo.edge("start", "ask"), demo.edge("ask", "pay", "approved"), demo.edge("pay", "mail")],
    "removeNodes": [],
    "removeEdges": ["start-pay"],
}
WRONG: demo.Json = {**CHANGE, "edges": []}


def test_a_proposal(open_page: Open) -> None:
    """A model is asked in words, again with its faults; the change is shown on the canvas, and applied by a click."""
    with scripted_server() as server:
        headers = {"Authorization": f"Bearer {server.token}"}
        with httpx.Client(base_url=server.url, headers=headers, timeout=HANG, trust_env=False) as client:
            workflow = create(client, demo.graph([demo.transform("pay", "paid")], ("start", "pay")))
            page = opened(open_page, workflow, token=server.token, origin=server.url)
            server.model.play(json.dumps(WRONG), json.dumps(CHANGE))
            page.get_by_role("button", name="Ask", exact=True).click()
            page.get_by_label("What should the workflow do?").fill("Ask before it pays, then send a mail")
            page.keyboard.press("Control+Enter")
            proposal = page.get_by_role("group", name="Proposal")
            expect(proposal.get_by_role("status")).to_have_text(CHANGE["explanation"])
            expect(proposal.get_by_text("2 calls of the model")).to_be_visible()
            expect(node(page, "ask").locator(".gnode")).to_have_attribute("data-outcome", "added")
            assert names(stored(client, workflow)) == ["start", "pay"]
            check_accessibility(page)
            proposal.get_by_role("button", name="Discard").click()
            expect(node(page, "ask")).to_have_count(0)
            server.model.play(json.dumps(CHANGE))
            page.get_by_role("button", name="Propose").click()
            proposal.get_by_role("button", name="Apply to the draft").focus()
            page.keyboard.press("Enter")
            expect(page.locator(SAVED)).to_be_visible()
            eventually(lambda: names(stored(client, workflow)) == ["start", "pay", "ask", "mail"])
            expect(page.get_by_role("button", name="0 problems")).to_be_visible()
            page.get_by_role("button", name="Undo").click()
            expect(node(page, "ask")).to_have_count(0)
            assert client.get("/api/v1/usage").json()["totals"]["calls"] == 3
