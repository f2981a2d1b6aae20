"""The builder: by keyboard and by pointer, its draft on the server, and what happens when things go wrong."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import demo
import httpx
import pytest
from appearance import check_accessibility
from playwright.sync_api import Page, expect
from servers import Server, eventually
from watching import Open

SMALL = demo.graph([demo.transform("first", 1), demo.transform("second", 2)], ("start", "first"))
SAVED = ".saving.saved"
DRAWN = "() => new Promise(requestAnimationFrame).then(() => new Promise(requestAnimationFrame))"
"""Resolves when what was changed is drawn."""


def create(client: httpx.Client, structure: demo.Json = SMALL, name: str = "Build me") -> int:
    body = {"name": name, "type": "workflow", "workflowStructure": structure}
    made = client.post("/api/v1/workflows", json=body)
    assert made.status_code == 201, made.text
    return int(made.json()["id"])


def stored(client: httpx.Client, workflow: int) -> demo.Json:
    """The graph of the draft."""
    found = client.get(f"/api/v1/workflows/{workflow}", params={"view": "draft"})
    assert found.status_code == 200, found.text
    structure: demo.Json = found.json()["variation"]["workflowStructure"]
    return structure


def names(structure: demo.Json) -> list[str]:
    return [each["id"] for each in structure["nodes"]]


def node(page: Page, name: str) -> Any:
    return page.locator(f".react-flow__node[data-id={name}]")


def opened(open_page: Open, workflow: int, **context: Any) -> Page:
    page = open_page(f"/studio/workflows/{workflow}", **context)
    expect(page.locator(".react-flow__node").first).to_be_visible()
    return page


def middle(what: Any) -> tuple[float, float]:
    box = what.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def drag(page: Page, what: Any, to: tuple[float, float]) -> None:
    page.mouse.move(*middle(what))
    page.mouse.down()
    page.mouse.move(*to, steps=8)
    page.mouse.up()


def test_by_pointer(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """Nodes are dragged, connected by their handles, added by drag, deleted, undone and done again."""
    with server.client() as client:
        workflow = create(client)
        page = opened(open_page, workflow)
        x, y = middle(node(page, "second"))
        drag(page, node(page, "second"), (x + 60, y + 160))
        expect(page.get_by_role("button", name="Undo")).to_be_enabled()
        expect(page.locator(SAVED)).to_be_visible()
        assert all("position" in each for each in stored(client, workflow)["nodes"])
        page.get_by_role("button", name="Fit").click()
        page.evaluate(DRAWN)
        source = node(page, "first").locator(".react-flow__handle-right")
        drag(page, source, middle(node(page, "second").locator(".react-flow__handle-left")))
        expect(page.locator(".react-flow__edge")).to_have_count(2)
        page.get_by_role("button", name="Wait", exact=True).drag_to(
            page.locator(".react-flow__pane"), target_position={"x": 200, "y": 560}
        )
        expect(node(page, "wait")).to_be_visible()
        expect(page.locator(SAVED)).to_be_visible()
        assert names(stored(client, workflow)) == ["start", "first", "second", "wait"]
        node(page, "first").click()
        page.keyboard.press("Delete")
        expect(node(page, "first")).to_have_count(0)
        expect(page.locator(".react-flow__edge")).to_have_count(0)
        page.get_by_role("button", name="Undo").click()
        expect(page.locator(".react-flow__edge")).to_have_count(2)
        page.get_by_role("button", name="Redo").click()
        expect(node(page, "first")).to_have_count(0)
        page.keyboard.press("Control+z")
        expect(node(page, "first")).to_be_visible()
        expect(page.locator(SAVED)).to_be_visible()
        assert names(stored(client, workflow)) == ["start", "first", "second", "wait"]


def test_moves_by_arrow_keys_are_saved_and_undone(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    with server.client() as client:
        workflow = create(client)
        page = opened(open_page, workflow)
        node(page, "first").focus()
        page.keyboard.press("Enter")
        page.keyboard.press("ArrowDown")
        expect(page.get_by_role("button", name="Undo")).to_be_enabled()
        expect(page.locator(SAVED)).to_be_visible()
        start, first, _ = [each["position"]["y"] for each in stored(client, workflow)["nodes"]]
        assert first != start
        page.keyboard.press("Control+z")
        expect(page.get_by_role("button", name="Undo")).to_be_disabled()
        expect(page.locator(SAVED)).to_be_visible()
        assert "position" not in stored(client, workflow)["nodes"][1]


def test_copy_and_paste(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """Nodes are JSON on the clipboard, and get new ids where they are pasted."""
    with server.client() as client:
        workflow = create(client)
        page = opened(open_page, workflow, permissions=["clipboard-read", "clipboard-write"])
        node(page, "first").click()
        page.keyboard.press("Control+a")
        page.keyboard.press("Control+c")
        page.keyboard.press("Control+v")
        expect(node(page, "first_2")).to_be_visible()
        expect(page.locator(SAVED)).to_be_visible()
        assert names(stored(client, workflow)) == ["start", "first", "second", "first_2", "second_2"]
        assert "core.transform" in page.evaluate("navigator.clipboard.readText()")


def test_problems_are_at_their_nodes(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """What the server finds has a mark on the node, its field, and a line that leads there."""
    with server.client() as client:
        page = opened(open_page, create(client))
    expect(node(page, "second").locator(".gnode.bad")).to_be_visible()
    node(page, "first").click()
    page.get_by_label("value", exact=True).fill("{{ nodes.nowhere.output }}")
    expect(node(page, "first").locator(".gnode.bad")).to_be_visible()
    expect(page.locator(".side .problem")).to_contain_text("nowhere")
    page.locator(".head").get_by_role("button", name=re.compile("problems?$")).click()
    page.get_by_role("list", name="Problems").get_by_role("button", name="second").first.click()
    expect(page.get_by_label("Id", exact=True)).to_have_value("second")
    node(page, "second").focus()
    page.keyboard.press("Delete")
    node(page, "first").click()
    page.get_by_label("value", exact=True).fill("fine")
    expect(page.get_by_role("button", name="0 problems")).to_be_visible()
    expect(page.locator(".gnode.bad")).to_have_count(0)


def test_an_id_is_renamed_everywhere(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    structure = demo.graph(
        [demo.transform("first", 1), demo.transform("second", "{{ nodes.first.output + 1 }}")],
        ("start", "first"), ("first", "second"),
    )  # fmt: skip
    with server.client() as client:
        workflow = create(client, structure)
        page = opened(open_page, workflow)
        node(page, "first").click()
        page.get_by_label("Id", exact=True).fill("second")
        expect(page.get_by_text("must not be empty or that of another node")).to_be_visible()
        page.get_by_label("Id", exact=True).fill("price")
        page.keyboard.press("Enter")
        expect(node(page, "price")).to_be_visible()
        expect(page.get_by_label("Id", exact=True)).to_be_focused()
        page.get_by_label("Id", exact=True).fill("amount")
        page.keyboard.press("Shift+Tab")
        page.keyboard.type("Amount")
        expect(page.get_by_label("Label")).to_have_value("Amount")
        expect(node(page, "amount")).to_be_visible()
        expect(page.locator(SAVED)).to_be_visible()
        found = stored(client, workflow)
        assert found["nodes"][2]["data"]["params"]["value"] == "{{ nodes.amount.output + 1 }}"
        assert [(one["source"], one["target"]) for one in found["edges"]] == [("start", "amount"), ("amount", "second")]


@pytest.mark.parametrize("mine", [True, False])
def test_a_draft_that_was_changed_elsewhere(open_page: Open, server: Server, ids: dict[str, str], mine: bool) -> None:
    """Both versions are offered, with what differs; neither is lost without a choice."""
    with server.client() as client:
        workflow = create(client)
        page = opened(open_page, workflow)
        expect(page.locator(SAVED)).to_be_visible()
        other = demo.graph([demo.transform("first", 1), demo.transform("third", 3)], ("start", "first"))
        assert client.patch(f"/api/v1/workflows/{workflow}", json={"workflowStructure": other}).status_code == 200
        page.get_by_role("button", name="Wait", exact=True).click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("third")
        expect(dialog).to_contain_text("wait")
        assert names(stored(client, workflow)) == ["start", "first", "third"]
        dialog.get_by_role("button", name="Keep my version" if mine else "Take the other version").click()
        expect(dialog).to_have_count(0)
        expect(node(page, "wait" if mine else "third")).to_be_visible()
        expect(page.locator(SAVED)).to_be_visible()
        expected = ["start", "first", "second", "wait"] if mine else ["start", "first", "third"]
        eventually(lambda: names(stored(client, workflow)) == expected)


def test_nothing_is_lost_when_the_page_is_closed(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """Closed at once after a change: a request that outlives the page brings it to the server."""
    with server.client() as client:
        workflow = create(client)
        page = opened(open_page, workflow)
        page.clock.install()
        page.clock.pause_at(datetime.now(UTC) + timedelta(hours=1))  # nothing is saved because time has passed
        page.get_by_role("button", name="Wait", exact=True).click()
        expect(page.locator(".saving.dirty")).to_be_visible()
        page.goto(f"{server.url}/studio/runs")
        page.clock.resume()
        eventually(lambda: "wait" in names(stored(client, workflow)))
        page.goto(f"{server.url}/studio/workflows/{workflow}")
        expect(node(page, "wait")).to_be_visible()
        expect(page.locator(SAVED)).to_be_visible()
        assert page.evaluate("localStorage.length") == 0


def without_writes(route: Any) -> None:
    if route.request.method == "PATCH":
        route.abort()
    else:
        route.continue_()


def test_nothing_is_lost_while_the_server_is_away(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """Changes are kept in the browser, and restored in the next page, which saves them when the user says so."""
    with server.client() as client:
        workflow = create(client)
        page = opened(open_page, workflow)
        page.route("**/api/v1/workflows/*", without_writes)
        page.get_by_role("button", name="Wait", exact=True).click()
        expect(page.locator(".saving.failed")).to_be_visible()
        (kept,) = page.evaluate("Object.values(localStorage)")
        assert "core.wait" in kept
        assert server.token not in kept
        second = page.context.new_page()
        second.goto(f"{server.url}/studio/workflows/{workflow}")
        expect(second.get_by_text("had not been saved were restored")).to_be_visible()
        expect(node(second, "wait")).to_be_visible()
        assert "wait" not in names(stored(client, workflow))
        second.get_by_role("button", name="Save", exact=True).click()
        expect(second.locator(SAVED)).to_be_visible()
        assert "wait" in names(stored(client, workflow))
        second.close()


def test_who_cannot_manage_only_looks(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """Without manage, nothing can be added, changed or deployed; nodes are found by their names."""
    with server.client() as client:
        structure = demo.graph([demo.transform("first", 1)], ("start", "first"))
        workflow = demo.workflow(client, "Look only", structure)
        org = client.get("/api/v1/me").json()["orgUuid"]
    page = open_page("/studio/runs")

    def denied(route: Any) -> None:
        found = route.fetch().json()
        route.fulfill(json={**found, "canManage": False, "manageDenial": "needs_group_manage", "orgUuid": org})

    page.route(f"**/api/v1/workflows/{workflow}*", denied)
    page.goto(f"{server.url}/studio/workflows/{workflow}")
    expect(page.get_by_text("You can look at this workflow")).to_be_visible()
    expect(page.get_by_role("button", name="Deploy")).to_have_count(0)
    entries = page.locator(".palette").get_by_role("button")
    expect(entries).to_have_text(["start", "first"])
    page.get_by_label("Find a node").fill("FIRST")
    expect(entries).to_have_text(["first"])
    check_accessibility(page)
    page.set_viewport_size({"width": 390, "height": 800})
    page.get_by_role("button", name="Find a node").click()
    entries.click()
    expect(node(page, "first")).to_be_focused()
    expect(entries).to_be_hidden()
    page.set_viewport_size({"width": 1280, "height": 800})
    expect(page.get_by_label("Id", exact=True)).to_be_disabled()
    page.keyboard.press("Delete")
    expect(node(page, "first")).to_be_visible()


def test_the_host_can_stop_a_deploy_and_a_run(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """`wfcore-before-deploy` and `wfcore-before-run` can be prevented."""
    with server.client() as client:
        workflow = create(client, demo.graph([demo.transform("first", 1)], ("start", "first")))
    script = """for (const name of ['wfcore-before-deploy', 'wfcore-before-run']) addEventListener(name, (event) => {
      event.preventDefault();
      (window.stopped ??= []).push([name, event.detail.workflowId]);
    })"""
    page = opened(open_page, workflow, script=script)
    page.get_by_role("button", name="Deploy").click()
    page.get_by_role("dialog").get_by_role("button", name="Deploy").click()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Run").click()
    eventually(lambda: page.evaluate("window.stopped?.length === 2"))
    assert page.evaluate("window.stopped") == [["wfcore-before-deploy", workflow], ["wfcore-before-run", workflow]]
    with server.client() as client:
        assert client.get(f"/api/v1/workflows/{workflow}").json()["status"] == "draft"


def test_a_failed_run_is_retried_with_the_mended_draft(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """Run from the builder, failed, mended there, and continued from the failed node by the same page."""
    fails = demo.node("last", "action", toolId="core.fail", params={"message": "the ledger is closed"})
    structure = demo.graph([demo.transform("first", 1), fails], ("start", "first"), ("first", "last"))
    with server.client() as client:
        workflow = create(client, structure)
    page = opened(open_page, workflow)
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Run").click()
    expect(page.locator(".head .status.bad")).to_be_visible()
    page.get_by_role("button", name="Back to the draft").click()
    node(page, "last").click()
    page.get_by_label("Tool", exact=True).select_option(label="Transform (core.transform)")
    page.get_by_label("value", exact=True).fill("fine")
    expect(page.locator(SAVED)).to_be_visible()
    page.get_by_role("button", name="Last run").click()
    page.get_by_role("button", name="Retry from failure").click()
    page.get_by_label("The draft as it is now").check()
    page.get_by_role("dialog").get_by_role("button", name="Retry from failure").click()
    expect(page.locator(".head .status.ok")).to_be_visible()


def test_the_impact_of_a_deploy(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """Runs that wait are counted and moved; what changed since it was shown stops the deploy until it is seen."""
    ask = demo.node("ask", "humanApproval", message="Go?")
    after = demo.transform("after", 1)
    with server.client() as client:
        workflow = demo.workflow(client, "Impact", demo.graph([ask], ("start", "ask")))
        waiting = demo.run(client, workflow, order=1)
        demo.settle(client, waiting)
        longer = demo.graph([ask, after], ("start", "ask"), ("ask", "after", "approved"))
        client.patch(f"/api/v1/workflows/{workflow}", json={"workflowStructure": longer})
        page = opened(open_page, workflow)
        page.get_by_role("button", name="Deploy").click()
        dialog = page.get_by_role("dialog")
        expect(dialog.get_by_label("Move 1 waiting run to this version")).to_be_visible()
        check_accessibility(page)
        shorter = demo.graph([after], ("start", "after"))
        client.patch(f"/api/v1/workflows/{workflow}", json={"workflowStructure": shorter})
        dialog.get_by_role("button", name="Deploy").click()
        expect(dialog.get_by_text("Something changed since this was shown")).to_be_visible()
        expect(dialog.get_by_text("1 waiting run keeps its version")).to_be_visible()
        client.patch(f"/api/v1/workflows/{workflow}", json={"workflowStructure": longer})
        page.reload()
        page.get_by_role("button", name="Deploy").click()
        dialog.get_by_label("Move 1 waiting run to this version").check()
        dialog.get_by_role("button", name="Deploy").click()
        expect(dialog).to_have_count(0)
        found = client.get(f"/api/v1/workflows/{workflow}").json()
        assert client.get(f"/agent/v1/runs/{waiting}").json()["variationId"] == found["activeVariationId"]


def test_a_dialog_returns_the_focus(open_page: Open, server: Server) -> None:
    """To the button that opened it, however it is closed; also to one that has nothing more to do."""
    with server.client() as client:
        workflow = create(client, demo.graph([demo.transform("first", 1)], ("start", "first")))
    page = opened(open_page, workflow)
    deploy, dialog = page.get_by_role("button", name="Deploy"), page.get_by_role("dialog")
    for closing in ("Cancel", "Escape", "Deploy"):
        deploy.press("Enter")
        if closing == "Escape":
            page.keyboard.press(closing)
        else:
            button = dialog.get_by_role("button", name=closing)
            expect(button).to_be_enabled()
            button.press("Enter")
        expect(dialog).to_have_count(0)
        expect(deploy).to_be_focused()
    expect(deploy).to_be_disabled()
    page.keyboard.press("Enter")
    expect(dialog).to_have_count(0)


def test_a_node_is_tried(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """On values that belong to the test: what it gives, what it would send, and its error; nothing is called."""
    structure = demo.graph(
        [
            demo.transform("double", "{{ input.n * 2 }}"),
            demo.node("pay", "action", toolId="core.http", params={
                "method": "POST", "url": "https://pay.example.com/", "body": "{{ nodes.double.output }}",
            }),
        ],
        ("start", "double"), ("double", "pay"),
    )  # fmt: skip
    with server.client() as client:
        workflow = create(client, structure)
    page = opened(open_page, workflow)
    node(page, "double").click()
    page.get_by_text("Try this node").click()
    page.get_by_label("Input").fill('{"n": 21}')
    page.get_by_role("button", name="Try", exact=True).click()
    expect(page.locator(".side [role=status] .json")).to_have_text("42")
    page.get_by_label("Input").fill("{}")
    page.get_by_role("button", name="Try", exact=True).click()
    expect(page.locator(".side [role=status] .problem")).to_be_visible()
    page.get_by_role("button", name="pay", exact=True).click()
    page.get_by_text("Try this node").click()
    page.get_by_role("textbox", name="double").fill("42")
    page.get_by_role("button", name="Try", exact=True).click()
    expect(page.locator(".side [role=status] .json").first).to_contain_text("pay.example.com")
    check_accessibility(page)


def test_keys_after_a_removal_wait_for_no_frame(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """Undo right after a removal works on a page that draws its next frame late."""
    with server.client() as client:
        page = opened(open_page, create(client))
    node(page, "first").click()
    page.evaluate("() => { window.requestAnimationFrame = (draw) => setTimeout(draw, 60_000) }")
    page.keyboard.press("Delete")
    expect(node(page, "first")).to_have_count(0)
    page.keyboard.press("Control+z")
    expect(node(page, "first")).to_be_visible()


def test_a_late_frame_takes_no_focus(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """A node that is added gets the focus in the next frame; it stays with a user who has gone on before that."""
    with server.client() as client:
        page = opened(open_page, create(client))
    page.evaluate("() => { window.late = []; window.requestAnimationFrame = (draw) => window.late.push(draw) }")
    page.get_by_role("button", name="Wait", exact=True).press("Enter")
    expect(node(page, "wait")).to_be_visible()
    search = page.get_by_label("Search nodes, steps and tools")
    search.focus()
    page.evaluate("() => { while (late.length) late.shift()(performance.now()) }")
    expect(search).to_be_focused()
    page.get_by_role("button", name="Wait", exact=True).press("Enter")
    page.evaluate("() => { while (late.length) late.shift()(performance.now()) }")
    expect(node(page, "wait_2")).to_be_focused()


def test_notes_and_groups(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """A note is written, nodes are grouped, the group is moved by its name; the graph runs as before."""
    parts = [demo.transform("first", 1), demo.transform("second", 2)]
    with server.client() as client:
        workflow = create(client, demo.graph(parts, ("start", "first"), ("first", "second")))
        page = opened(open_page, workflow)
        page.get_by_role("button", name="Note", exact=True).click()
        page.get_by_label("Text of the note").fill("Ask finance before you change this")
        expect(page.locator(".gnote")).to_have_text("Ask finance before you change this")
        node(page, "first").click()
        page.get_by_role("combobox", name="Group").fill("Payment")
        page.keyboard.press("Enter")
        node(page, "second").click()
        expect(page.locator(".nodeeditor h2")).to_have_text("second")
        page.get_by_role("combobox", name="Group").fill("Payment")
        page.keyboard.press("Enter")
        frame = page.locator(".gframename")
        expect(frame).to_have_text("Payment")
        eventually(
            lambda: [each["data"].get("group") for each in stored(client, workflow)["nodes"]][1:] == ["Payment"] * 2
        )
        page.evaluate(DRAWN)
        x, y = middle(frame)
        drag(page, frame, (x + 30, y + 280))
        expect(page.get_by_role("heading", name="Payment")).to_be_visible()
        check_accessibility(page)
        expect(page.locator(SAVED)).to_be_visible()
        start, first, second = stored(client, workflow)["nodes"]
        assert start["data"]["notes"][0]["text"] == "Ask finance before you change this"
        assert first["position"]["y"] == second["position"]["y"] > start["position"]["y"] + 50
        expect(page.get_by_role("button", name="0 problems")).to_be_visible()
        page.get_by_role("button", name="Remove the group").click()
        expect(frame).to_have_count(0)
        page.locator(".gnote").click()
        page.keyboard.press("Delete")
        expect(page.locator(".gnote")).to_have_count(0)
        page.keyboard.press("Control+z")
        expect(page.locator(".gnote")).to_be_visible()
        page.keyboard.press("Control+z")
        expect(frame).to_be_visible()
        expect(page.locator(SAVED)).to_be_visible()
        assert client.post(f"/api/v1/workflows/{workflow}/deploy").status_code == 200
        assert demo.settle(client, demo.run(client, workflow))["output"] == 2
