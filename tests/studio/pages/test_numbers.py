"""Numbers that JavaScript cannot have, beyond 2^53 or with a fraction of zero, are shown and sent as they are."""

import json
import re
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

import demo
from playwright.sync_api import Page, Route, expect
from servers import Server, eventually
from test_builder import SAVED, create, node, opened, stored
from test_skill import CASES, skill
from test_skill import opened as skill_page
from watching import Open

LARGE = 9007199254740993
VALUE = {"account": LARGE, "rate": 1.0}
ANSWER: demo.Json = {
    "type": "object",
    "properties": {
        "id": {"type": "integer", "title": "Id"},
        "kept": {"type": "integer", "title": "Kept", "default": LARGE},
        "meta": {"type": "object", "title": "Meta"},
    },
}


def test_an_edit_leaves_the_numbers_beside_it(open_page: Open, server: Server) -> None:
    """Of other parameters, of other nodes, and in what is renamed; places with fractions stay places."""
    first = demo.transform("first", VALUE, timeoutSeconds=30.0, own={"id": LARGE})
    first["position"] = {"x": 300.0, "y": 0.5}
    structure = demo.graph([first, demo.transform("second", VALUE)], ("start", "first"), ("first", "second"))
    with server.client() as client:
        workflow = create(client, structure)
        page = opened(open_page, workflow)
        node(page, "first").click()
        expect(page.get_by_label("value", exact=True)).to_have_value(json.dumps(VALUE, indent=2))
        page.get_by_label("Label").fill("First")
        page.get_by_label("Id", exact=True).fill("renamed")
        page.get_by_label("Id", exact=True).press("Enter")
        expect(node(page, "renamed")).to_be_visible()
        node(page, "second").click()
        page.get_by_label("Label").fill("Second")
        expect(page.locator(SAVED)).to_be_visible()
        _, one, two = stored(client, workflow)["nodes"]
        params = {"value": VALUE}
        data = {"toolId": "core.transform", "params": params, "timeoutSeconds": 30.0, "own": {"id": LARGE}}
        assert json.dumps(one["data"], sort_keys=True) == json.dumps({**data, "label": "First"}, sort_keys=True)
        assert json.dumps(two["data"]["params"]) == json.dumps(params)


def test_an_answer_has_all_digits(open_page: Open, server: Server) -> None:
    """In a field for a number, as a default that nobody touched, and in JSON; the pages show them."""
    graph = demo.graph(
        [
            demo.node("ask", "humanApproval", message="Which?", formSchema=ANSWER),
            demo.transform("show", "{{ nodes.ask.output.data }}"),
        ],
        ("start", "ask"), ("ask", "show", "approved"),
    )  # fmt: skip
    with server.client() as client:
        run_id = demo.run(client, demo.workflow(client, "Large", graph))
        request = demo.settle(client, run_id)["interrupts"][0]["interruptId"]
        page = open_page(f"/studio/inbox/{request}")
        expect(page.get_by_label("Kept")).to_have_value(str(LARGE))
        page.get_by_label("Id").fill(str(LARGE + 2))
        page.get_by_label("Meta").fill(f'{{"id": {LARGE}, "rate": 1.0}}')
        page.get_by_role("button", name="Approve").click()
        expect(page.get_by_text("Your decision is recorded")).to_be_visible()
        turn = client.get(f"/agent/v1/runs/{run_id}").json()["resumedBy"]
        output = demo.settle(client, turn)["output"]
        wanted = {"id": LARGE + 2, "kept": LARGE, "meta": {"id": LARGE, "rate": 1.0}}
        assert json.dumps(output, sort_keys=True) == json.dumps(wanted)
        page.goto(f"{server.url}/studio/runs/{turn}")
        page.get_by_role("tab", name="Output").click()
        shown = page.get_by_role("group", name="Output")
        expect(shown).to_contain_text(f"id: {LARGE + 2}")
        expect(shown).to_contain_text("rate: 1.0")


def test_an_approval_shows_the_exact_arguments(open_page: Open, server: Server) -> None:
    with server.client() as client:
        graph = demo.graph([demo.transform("post", VALUE, requiresApproval=True)], ("start", "post"))
        run_id = demo.run(client, demo.workflow(client, "Post", graph))
        request = demo.settle(client, run_id)["interrupts"][0]["interruptId"]
    page = open_page(f"/studio/inbox/{request}")
    expect(page.get_by_text(str(LARGE))).to_be_visible()


NOW = datetime.now(UTC)
PAGES = (
    "runs", "inbox", "inbox/{request}", "workflows", "skills", "chat", "tools", "schedules", "members", "tokens",
    "hooks", "policies", "usage", "audit", "runs/{failed}", "runs/{form}", "workflows/{refund_workflow}",
)  # fmt: skip
TEXT = """() => {
  const of = (node) => [...(node.shadowRoot ?? node).childNodes].map((one) =>
    one.nodeType === 3 ? one.data : one.localName === 'style' ? '' : of(one)).join(' ');
  return of(document.body);
}"""
"""The text of a page with its elements."""


def reading(page: Page, number: type[int | float] = float) -> Page:
    """The page, which from now on reads integers as other programs write them, `1.0` for `1`, and always at `NOW`."""

    def answer(route: Route) -> None:
        found = route.fetch()
        headers = {**found.headers, "date": format_datetime(NOW, usegmt=True)}
        if "application/json" in found.headers.get("content-type", ""):
            body = json.dumps(json.loads(found.text(), parse_int=number))
            route.fulfill(response=found, headers=headers, body=body)
        else:
            route.fulfill(response=found, headers=headers)

    page.route(lambda url: bool(re.search("/(api|agent)/v1/(?!.*changes)", url)), answer)
    return page


def text_of(page: Page) -> str:
    """Without the fractions of the values of users, which are shown."""
    return re.sub(r"(\d)\.0\b", r"\1", page.evaluate(TEXT))


def test_pages_are_the_same_with_fractions_of_zero(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """Numbers of wfcore's own fields are plain: pages count, compare and show them."""
    with server.client() as client:
        request = demo.settle(client, ids["form"])["interrupts"][0]["interruptId"]
    plain, other = reading(open_page("/studio/more"), int), reading(open_page("/studio/more"))
    for path in PAGES:
        for page in (plain, other):
            page.clock.set_fixed_time(NOW)
            page.goto(f"{server.url}/studio/{path.format(request=request, **ids)}")
            expect(page.locator("h1, h2").first).to_be_visible()
            expect(page.get_by_role("status", name="Loading")).to_have_count(0)
        eventually(lambda: text_of(plain) == text_of(other))
        expect(other.get_by_role("alert")).to_have_count(0)


def test_nodes_with_such_places_are_moved(open_page: Open, server: Server) -> None:
    """By keys, by undo, and as copies beside them."""
    first, second = demo.transform("first", 1), demo.transform("second", 2)
    structure = demo.graph([first, second], ("start", "first"))
    for place, each in enumerate(structure["nodes"]):
        each["position"] = {"x": 300.0 * place, "y": 200.0}
    with server.client() as client:
        workflow = create(client, structure)
        page = opened(open_page, workflow, permissions=["clipboard-read", "clipboard-write"])
        reading(page).reload()
        node(page, "first").focus()
        page.keyboard.press("Enter")
        page.keyboard.press("ArrowDown")
        expect(page.locator(SAVED)).to_be_visible()
        assert stored(client, workflow)["nodes"][1]["position"]["y"] > 200
        page.keyboard.press("Control+z")
        expect(page.locator(SAVED)).to_be_visible()
        assert stored(client, workflow)["nodes"][1]["position"] == {"x": 300, "y": 200}
        page.keyboard.press("Control+c")
        page.keyboard.press("Control+v")
        expect(node(page, "first_2")).to_be_visible()
        expect(page.locator(SAVED)).to_be_visible()
        copy = stored(client, workflow)["nodes"][3]
        assert (copy["position"]["x"], copy["position"]["y"] > 200) == (332, True)


def test_results_of_evaluations(open_page: Open, chats: dict[str, Any]) -> None:
    """Costs of a whole amount are shown, and a case that passes."""

    def results(route: Route) -> None:
        found = route.fetch().json()
        for each in found["results"]:
            each["cost"] = 2.0
        route.fulfill(json=found)

    number = skill(chats, "Priced", evaluations=CASES)
    page = skill_page(open_page, chats, number)
    page.route("**/evaluations/results?*", results)
    page.get_by_role("tab", name="Evaluations").click()
    page.get_by_role("button", name="Run with the published version").click()
    row = page.get_by_role("row", name="Uses the tool")
    expect(row.get_by_role("cell").first).to_have_text("passed")
    page.get_by_role("button", name="Uses the tool").click()
    expect(page.locator(".results .card").first).to_contain_text("Cost 2")


def test_choices_and_conditions_are_equal_numbers(open_page: Open, server: Server) -> None:
    """`1` is a choice of `1.0`; what is chosen is written as the schema has it."""
    rate = {"enum": [1.0, 2.0, 3.5], "title": "Rate", "default": 1}
    more = {"type": "string", "title": "Reason"}
    schema = {
        "type": "object",
        "properties": {"rate": rate},
        "allOf": [{"if": {"properties": {"rate": {"const": 2.0}}}, "then": {"properties": {"reason": more}}}],
    }
    graph = demo.graph([demo.node("ask", "humanApproval", message="Which?", formSchema=schema)], ("start", "ask"))
    with server.client() as client:
        run_id = demo.run(client, demo.workflow(client, "Rates", graph))
        request = demo.settle(client, run_id)["interrupts"][0]["interruptId"]
        page = open_page(f"/studio/inbox/{request}")
        expect(page.get_by_label("1.0")).to_be_checked()
        page.get_by_label("2.0").check()
        expect(page.get_by_label("Reason")).to_be_visible()
        page.get_by_role("button", name="Approve").click()
        expect(page.get_by_text("Your decision is recorded")).to_be_visible()
        output = demo.settle(client, client.get(f"/agent/v1/runs/{run_id}").json()["resumedBy"])["output"]
        assert json.dumps(output["data"]) == '{"rate": 2.0}'
