"""Problems of a draft name the node and the field, and lead there, from the list and from the dialog of a deploy."""

import re

import demo
from appearance import check_accessibility
from playwright.sync_api import expect
from servers import Server
from test_builder import create, node, opened
from watching import Open

WRONG = demo.graph(
    [
        demo.node("ask", "humanApproval", message="Go?", timeoutSeconds=-5),
        demo.node("fetch", "action", toolId="core.http", params={"method": "GET"}),
        demo.node("choose", "condition", branches=[{"handle": "a", "when": "true"}, {"handle": "b", "when": ""}]),
        demo.node("bare", "action"),
    ],
    ("start", "ask"), ("ask", "fetch", "approved"), ("fetch", "choose"), ("choose", "bare", "a"),
)  # fmt: skip
PLACES = (
    ("ask", "Time limit in seconds", "Time limit in seconds"),
    ("fetch", "url", "url"),
    ("choose", "Branches · 2 · When", "When"),
    ("bare", "Tool", "Tool"),
)


def test_problems_name_their_fields_and_lead_there(open_page: Open, server: Server) -> None:
    with server.client() as client:
        page = opened(open_page, create(client, WRONG))
    dialog, problems = page.get_by_role("dialog"), page.get_by_role("list", name="Problems")
    for way in ("list", "deploy"):
        for name, place, label in PLACES:
            if way == "list":
                page.locator(".head").get_by_role("button", name=re.compile("[0-9] problems?")).click()
            else:
                page.get_by_role("button", name="Deploy").click()
                expect(dialog.get_by_role("alert").first).to_contain_text("have to be solved first")
            line = problems.get_by_role("listitem").filter(has_text=f"{place} · ").filter(has_text=name)
            if name == "ask":
                check_accessibility(page)
            line.get_by_role("button", name=name, exact=True).click()
            expect(dialog).to_have_count(0)
            expect(page.locator(".nodeeditor h2")).to_have_text(name)
            focused = page.locator(".side :focus")
            expect(focused).to_have_accessible_name(re.compile(f"^{label}"))
            expect(focused).to_have_attribute("aria-invalid", "true")


def test_warnings_are_counted_apart_from_problems(open_page: Open, server: Server) -> None:
    """The toolbar, the nodes and the dialog of a deploy have the same counts; warnings alone do not stop a deploy."""
    slow = demo.node("slow", "action", toolId="core.transform", params={"value": 1}, maxConcurrency=2)
    with server.client() as client:
        page = opened(
            open_page,
            create(client, demo.graph([slow, demo.node("bare", "action")], ("start", "slow"), ("slow", "bare"))),
        )
    toolbar, dialog, problems = (
        page.locator(".head"),
        page.get_by_role("dialog"),
        page.get_by_role("list", name="Problems"),
    )
    expect(toolbar.get_by_role("button", name="1 problem, 1 warning", exact=True)).to_be_visible()
    expect(node(page, "slow")).to_have_accessible_name("slow, action, 1 warning")
    expect(node(page, "bare")).to_have_accessible_name("bare, action, 1 problem")
    page.get_by_role("button", name="Deploy").click()
    expect(dialog.get_by_role("alert")).to_have_text("1 problem has to be solved first")
    expect(dialog.get_by_text("1 warning", exact=True)).to_be_visible()
    expect(problems.get_by_role("listitem")).to_have_count(2)
    check_accessibility(page)
    dialog.get_by_role("button", name="Cancel").click()
    node(page, "bare").click()
    page.get_by_role("button", name="Delete node").click()
    expect(toolbar.get_by_role("button", name="1 warning", exact=True)).to_be_visible()
    page.get_by_role("button", name="Deploy").click()
    expect(dialog.get_by_text("1 warning", exact=True)).to_be_visible()
    expect(dialog.get_by_role("button", name="Deploy")).to_be_enabled()


def test_a_warning_at_a_field_is_not_an_error(open_page: Open, server: Server) -> None:
    """It says that it is a warning, and the field stays valid; an error at the same field comes first."""
    limited = demo.node("limited", "action", toolId="core.transform", params={"value": 1}, maxConcurrency=2)
    with server.client() as client:
        page = opened(open_page, create(client, demo.graph([limited], ("start", "limited"))))
    node(page, "limited").click()
    field = page.locator("[data-at='/maxConcurrency']")
    expect(field.get_by_role("textbox")).to_have_accessible_description(re.compile("Warning: "))
    expect(field.get_by_role("textbox")).not_to_have_attribute("aria-invalid", "true")
    expect(field.locator(".problem")).to_have_class("problem warning")
    check_accessibility(page)
    field.get_by_role("textbox").fill("0")
    expect(field.get_by_role("textbox")).to_have_attribute("aria-invalid", "true")
    expect(field.locator(".problem")).to_have_class("problem")
