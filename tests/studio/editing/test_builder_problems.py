"""Problems of a draft name the node and the field, and lead there, from the list and from the dialog of a deploy."""

import re
from typing import Any

import demo
import pytest
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


def fault(name: str, type_: str, **data: Any) -> demo.Json:
    return {"id": name, "type": type_, "data": data}


FAULTS = (
    fault("ask", "humanApproval", message="{{ input. }}", timeoutSeconds=-5, onTimeout="no", requiredApprovals=1.5),
    fault("ask2", "humanApproval", approvers={}, remindAfterSeconds=10, timeoutSeconds=5, escalateTo={"emails": ["x"]}),
    fault("ask3", "humanApproval", approvers={"emails": ["a@b.test"]}, requiredApprovals=2, onTimeout="deny"),
    fault("http", "action", toolId="core.http", params={"method": "GRAB", "headers": 3, "what": 2}),
    fault("wait", "action", toolId="core.wait", params={"seconds": "soon"}, retry={"max_attempts": 2}),
    fault("wait2", "action", toolId="core.wait", params={"seconds": -1}),
    fault("bare", "action"),
    fault("no", "action", toolId="nope"),
    fault("map", "action", toolId="core.transform", params={"value": "{{ nodes.z }} {{ item }}"}, maxConcurrency=2),
    fault(
        "cond", "condition",
        branches=[{"handle": "a", "when": "input.x >"}, {"handle": "else", "when": "1"}, {"handle": "a", "when": ""}],
    ),
    fault("cond2", "condition", branches=[]),
    fault("agent", "agent"),
    fault("agent2", "agent", agent_id=999, tool_restrictions=["zz"], model="none"),
    fault("lost", "action", toolId="core.transform", params={"value": 1}),
    fault("once", "action", toolId="core.transform", params={"value": 1}),
    fault("again", "action", toolId="core.transform", params={}),
)  # fmt: skip
LINES = (
    ("start", "ask"), ("ask", "ask2"), ("ask2", "ask3", "approved"), ("ask3", "http", "expired"),
    ("http", "wait", "yes"), ("http", "bare"), ("bare", "no"), ("no", "map"), ("map", "cond"), ("cond", "cond2", "zz"),
    ("cond", "agent", "a"), ("agent", "agent2"), ("agent2", "start"), ("start", "once"), ("once", "again"),
    ("again", "once"), ("start", "wait2"),
)  # fmt: skip
INTERNAL = re.compile(r"sourceHandle|handle\b|humanApproval|[a-z]+[A-Z]|agent_id|\bnull\b")
ENGLISH = re.compile(r"\b(must|the|is|has|reads|without|unknown|use|there|edge)\b", re.IGNORECASE)


@pytest.mark.parametrize("locale", ["en-US", "de-DE"])
def test_problems_are_in_the_language_and_words_of_the_page(open_page: Open, server: Server, locale: str) -> None:
    """Each that the rules of graphs can find; none has a name of the API, except for what a user has entered."""
    with server.client() as client:
        page = opened(open_page, create(client, demo.graph(list(FAULTS), *LINES)), locale=locale)
    page.locator(".head").get_by_role("button", name=re.compile("[0-9]+ [Pp]roble")).click()
    lines = page.locator(".problems li .text")
    expect(lines).not_to_have_count(1)
    found = lines.all_inner_texts()
    assert len(found) > 40
    entered = re.compile(r"max_attempts|core\.\w+")
    assert not [one for one in found if INTERNAL.search(entered.sub("", one))]
    if locale == "de-DE":
        assert not [one for one in found if ENGLISH.search(one)]


def test_what_a_node_does_is_said_in_the_language_of_the_page(open_page: Open, server: Server) -> None:
    """The names of its parts too."""
    choose = demo.node("choose", "condition", branches=[{"handle": "a", "when": "true"}])
    with server.client() as client:
        page = opened(open_page, create(client, demo.graph([choose], ("start", "choose"))), locale="de-DE")
    node(page, "choose").click()
    panel = page.locator(".nodeeditor")
    expect(panel.get_by_text("Nimmt den ersten Zweig, der gilt")).to_be_visible()
    expect(panel.get_by_role("group", name="Zweig", exact=True)).to_be_visible()
    expect(panel.get_by_text(re.compile("branch", re.IGNORECASE))).to_have_count(0)
