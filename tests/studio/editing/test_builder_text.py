"""Text of the builder that is no value yet is kept in the draft, which is then neither deployed nor run."""

import re

import demo
from appearance import check_accessibility
from playwright.sync_api import expect
from servers import Server
from test_builder import SAVED, create, node, opened, stored
from watching import Open

CALL = demo.graph(
    [demo.node("call", "action", toolId="core.http", timeoutSeconds=30, params={"method": "GET", "url": "https://a.example"})],
    ("start", "call"),
)  # fmt: skip
BROKEN = '{"type": "object", '
SCHEMA = {"type": "object", "required": ["order"]}


def test_text_that_is_no_value_is_kept_and_stops_a_deploy_and_a_run(open_page: Open, server: Server) -> None:
    with server.client() as client:
        workflow = create(client, CALL)
        page = opened(open_page, workflow)
        node(page, "start").click()
        page.get_by_role("button", name="As JSON Schema").click()
        schema = page.get_by_label("Input schema")
        schema.fill(BROKEN)
        expect(page.get_by_text("This is not valid JSON")).to_be_visible()
        node(page, "call").click()
        seconds = page.get_by_label("Time limit in seconds")
        expect(seconds).to_have_value("30")
        seconds.fill("3 minutes")
        expect(page.get_by_text("This must be number")).to_be_visible()
        expect(page.get_by_role("button", name="2 problems")).to_be_visible()
        check_accessibility(page)
        start, call = stored(client, workflow)["nodes"]
        assert (start["data"]["inputSchema"], call["data"]["timeoutSeconds"]) == (BROKEN, "3 minutes")
        dialog = page.get_by_role("dialog")
        page.get_by_role("button", name="Run", exact=True).click()
        dialog.get_by_role("button", name="Run").click()
        expect(dialog.get_by_role("alert")).to_contain_text("inputSchema")
        dialog.get_by_role("button", name="Cancel").click()
        page.get_by_role("button", name="Deploy").click()
        expect(dialog.get_by_role("alert").first).to_contain_text("2 problems")
        expect(dialog.get_by_role("button", name="Deploy")).to_be_disabled()
        dialog.get_by_role("button", name="Cancel").click()
        page.reload()
        page.locator(".head").get_by_role("button", name=re.compile("problems?$")).click()
        page.get_by_role("list", name="Problems").get_by_role("button", name="start").click()
        expect(schema).to_have_value(BROKEN)
        expect(schema).to_have_attribute("aria-invalid", "true")
        schema.fill('{"type": "object", "required": ["order"]}')
        node(page, "call").click()
        seconds.fill("180")
        expect(page.get_by_role("button", name="0 problems")).to_be_visible()
        expect(page.locator(SAVED)).to_be_visible()
        start, call = stored(client, workflow)["nodes"]
        assert (start["data"]["inputSchema"], call["data"]["timeoutSeconds"]) == (SCHEMA, 180)
