"""Numbers that JavaScript cannot have, beyond 2^53 or with a fraction of zero, are shown and sent as they are."""

import json

import demo
from playwright.sync_api import expect
from servers import Server
from test_builder import SAVED, create, node, opened, stored
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
