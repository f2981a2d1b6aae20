"""Forms of a JSON Schema: what is sent is what they show, and text that is no value is not passed over."""

import demo
import httpx
from playwright.sync_api import Page, Route, expect
from servers import Server
from watching import Open

ANSWER: demo.Json = {
    "type": "object",
    "properties": {
        "lines": {"type": "array", "title": "Lines", "items": {"type": "integer"}},
        "meta": {"type": "object", "title": "Meta"},
        "count": {"type": "integer", "title": "Count"},
    },
}
ASKS = demo.graph(
    [
        demo.node("ask", "humanApproval", message="Which lines?", formSchema=ANSWER),
        demo.transform("show", "{{ nodes.ask.output.data }}"),
    ],
    ("start", "ask"), ("ask", "show", "approved"),
)  # fmt: skip


def asked(client: httpx.Client) -> tuple[str, str]:
    """A run that waits for an answer, and its request."""
    run_id = demo.run(client, demo.workflow(client, "Answer", ASKS))
    return run_id, demo.settle(client, run_id)["interrupts"][0]["interruptId"]


def answer(page: Page, client: httpx.Client, run_id: str) -> demo.Json:
    """Approve, and return what the run received."""
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_text("Your decision is recorded")).to_be_visible()
    next_turn = client.get(f"/agent/v1/runs/{run_id}").json()["resumedBy"]
    output: demo.Json = demo.settle(client, next_turn)["output"]
    return output


def test_a_removed_entry_is_the_one_that_is_not_sent(open_page: Open, server: Server) -> None:
    with server.client() as client:
        run_id, request = asked(client)
        page = open_page(f"/studio/inbox/{request}")
        lines = page.get_by_role("group", name="Lines")
        for number in ("111", "222", "333"):
            lines.get_by_role("button", name="Add entry").click()
            lines.get_by_role("spinbutton").last.fill(number)
        lines.get_by_role("button", name="Remove entry 1").click()
        expect(lines.get_by_role("spinbutton")).to_have_count(2)
        for one, number in zip(lines.get_by_role("spinbutton").all(), ("222", "333"), strict=True):
            expect(one).to_have_value(number)
        assert answer(page, client, run_id) == {"lines": [222, 333]}


def test_a_decision_waits_for_text_that_is_no_value(open_page: Open, server: Server) -> None:
    """The value of before is not sent in its place: the field says what is wrong and has the focus."""
    with server.client() as client:
        run_id, request = asked(client)
        page = open_page(f"/studio/inbox/{request}")
        meta = page.get_by_label("Meta")
        meta.fill('{"limit": 100}')
        meta.fill('{"limit": 5')
        page.get_by_label("Count").press_sequentially("1e")
        page.get_by_role("button", name="Approve").click()
        expect(meta).to_be_focused()
        expect(meta).to_have_attribute("aria-invalid", "true")
        expect(page.get_by_text("This is not valid JSON")).to_be_visible()
        meta.fill('{"limit": 5}')
        page.get_by_role("button", name="Approve").click()
        expect(page.get_by_label("Count")).to_be_focused()
        page.get_by_label("Count").fill("")
        assert answer(page, client, run_id) == {"meta": {"limit": 5}}


def test_a_denial_does_not_send_the_value_of_before(open_page: Open, server: Server) -> None:
    with server.client() as client:
        _, request = asked(client)
    page = open_page(f"/studio/inbox/{request}")
    page.get_by_label("Meta").fill('{"limit": 100}')
    page.get_by_label("Meta").fill('{"limit": 5')
    with page.expect_request("**/resume") as sent:
        page.get_by_role("button", name="Deny").click()
    assert "data" not in sent.value.post_data_json


def test_a_run_does_not_start_without_its_input(open_page: Open, server: Server) -> None:
    with server.client() as client:
        workflow = demo.workflow(
            client, "Takes JSON", demo.graph([demo.transform("show", "{{ input.order }}")], ("start", "show"))
        )
        page = open_page(f"/studio/workflows/{workflow}")
        page.get_by_role("button", name="Run", exact=True).click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_role("textbox").fill('{"order": 7, }')
        dialog.get_by_role("button", name="Run").click()
        expect(dialog.get_by_role("textbox")).to_be_focused()
        dialog.get_by_role("textbox").fill('{"order": 7}')
        dialog.get_by_role("button", name="Run").click()
        expect(dialog).to_have_count(0)
        (only,) = client.get("/agent/v1/runs", params={"workflowId": workflow}).json()["runs"]
        assert demo.settle(client, only["runId"])["output"] == 7


def test_an_answer_whose_response_comes_after_its_event(open_page: Open, server: Server) -> None:
    """A request that was opened by its address leaves the list of open ones before the page knows that its decision is
    recorded: it still says so."""
    with server.client() as client:
        run_id, request = asked(client)
        page = open_page(f"/studio/inbox?open={request}")
        row = page.locator(f'[data-id="{request}"]')
        expect(row).to_be_visible()

        def decide(route: Route) -> None:
            response = route.fetch()
            expect(row).to_have_count(0)
            route.fulfill(response=response)

        page.route(f"**/runs/{run_id}/resume", decide)
        page.get_by_label("Count").fill("3")
        assert answer(page, client, run_id) == {"count": 3}
