"""What is pasted into the builder never keeps the draft from being saved, and what is not pasted is named."""

import json

import demo
from appearance import check_accessibility
from playwright.sync_api import Page, expect
from servers import Server
from test_builder import SAVED, create, names, node, opened, stored
from watching import Open

CLIPBOARD = {"permissions": ["clipboard-read", "clipboard-write"]}


def paste(page: Page, text: str) -> None:
    page.evaluate("(text) => navigator.clipboard.writeText(text)", text)
    node(page, "first").focus()
    page.keyboard.press("Control+v")


def test_what_is_not_pasted_is_named(open_page: Open, server: Server) -> None:
    with server.client() as client:
        workflow = create(client)
        page = opened(open_page, workflow, **CLIPBOARD)
        notice = page.locator(".notices [role=alert]")
        paste(page, '{"nodes": [{"id": "a", "type": "action"},]}')
        expect(notice).to_contain_text("Nothing was pasted: the clipboard has no JSON.")
        check_accessibility(page)
        paste(page, '{"edges": []}')
        expect(notice).to_contain_text("Nothing was pasted: the JSON of the clipboard has no list `nodes`.")
        nodes = [
            demo.node("good", "action", toolId="core.transform"),
            {"id": "lost", "type": "wait"},
            {"id": 7, "type": "action"},
            {"id": "again", "type": "action", "position": {"x": "left"}},
            {"id": "again", "type": "action"},
            {"id": "bad", "type": "action", "data": {"value": "\0"}},
        ]
        edges = [{"source": "good", "target": "again"}, {"source": "good", "target": "lost"}]
        paste(page, json.dumps({"nodes": nodes, "edges": edges}))
        expect(notice.get_by_role("listitem")).to_have_text(
            [
                "Node lost was not pasted: its `type` is not one of the steps on the left.",
                "Node 3 was not pasted: its `id` must be a text of 1 to 255 characters.",
                "Node bad was not pasted: its `data` must be an object that can be stored.",
                "Connections that were not pasted: 1. Each must join two different nodes that are pasted.",
            ]
        )
        expect(node(page, "again_2")).to_be_visible()
        expect(page.locator(SAVED)).to_be_visible()
        assert names(stored(client, workflow)) == ["start", "first", "second", "good", "again", "again_2"]
        notice.get_by_role("button", name="Close").click()
        expect(notice).to_have_count(0)
        expect(node(page, "again_2")).to_be_focused()


def test_a_graph_does_not_grow_beyond_the_limits_of_the_server(open_page: Open, server: Server) -> None:
    """A paste, an added node and a connection that exceed them change nothing, and say what is allowed."""
    limits = {"nodes": 4, "edges": 2}
    with server.client() as client:
        workflow = create(client)
        page = opened(open_page, workflow, **CLIPBOARD)
        served = client.get("/api/v1/node-types").json()
        assert served["limits"] == {"nodes": 5000, "edges": 20000}
        page.route("**/api/v1/node-types", lambda route: route.fulfill(json={**served, "limits": limits}))
        page.reload()
        node(page, "first").wait_for()
        notice = page.locator(".notices [role=alert]")
        two = [demo.node(name, "action") for name in "ab"]
        paste(page, json.dumps({"nodes": two}))
        expect(notice).to_have_text("Nothing was added: a graph can have at most 4 nodes.")
        check_accessibility(page)
        paste(page, json.dumps({"nodes": two[:1]}))
        expect(node(page, "a")).to_be_visible()
        expect(notice).to_have_count(0)
        page.get_by_role("button", name="Wait", exact=True).click()
        expect(notice).to_have_text("Nothing was added: a graph can have at most 4 nodes.")
        node(page, "first").click()
        for target in ("second", "a"):
            page.get_by_label("Connect Next to").select_option(target)
        expect(notice).to_have_text("Nothing was added: a graph can have at most 2 connections.")
        expect(page.locator(SAVED)).to_be_visible()
        structure = stored(client, workflow)
        assert (names(structure), len(structure["edges"])) == (["start", "first", "second", "a"], 2)
