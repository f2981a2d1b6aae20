"""Choices whose options come late or not at all: what is typed is not lost, and what failed can be tried again."""

import re

import demo
import pytest
from held import AFTER_A_FRAME, Held
from playwright.sync_api import Locator, Page, expect
from servers import Server
from test_builder import create, opened
from watching import Open

EVERYONE = "Everyone in the organization"
GRAPH = demo.graph([demo.node("ask", "humanApproval", message="Pay?")], ("start", "ask"))


def ask(page: Page) -> tuple[Locator, Locator]:
    """The panel of the approval, and the field of its groups."""
    page.locator("[data-id=ask]").click()
    panel = page.get_by_role("complementary", name="Node details")
    return panel, panel.get_by_role("combobox", name="Groups")


@pytest.fixture
def page(open_page: Open, server: Server) -> Page:
    with server.client() as client:
        return opened(open_page, create(client, GRAPH))


@pytest.mark.parametrize("text", [EVERYONE, "Nobody at all"])
def test_a_field_that_is_left_before_its_list_is_read(page: Page, text: str) -> None:
    """What was typed is chosen then; what is none of the choices stays, and the page says so."""
    held = Held(page, r"/api/v1/groups\?", lambda _: True)
    panel, field = ask(page)
    held.collect()
    field.fill(text)
    panel.get_by_label("Label").click()
    expect(panel.get_by_text("Searching")).to_be_visible()
    expect(field).to_have_value(text)
    held.end()
    held.answer()
    if text == EVERYONE:
        expect(panel.get_by_role("button", name=f"Remove {EVERYONE}")).to_be_visible()
        expect(field).to_have_value("")
        return
    expect(panel.get_by_text(f"“{text}” is none of the choices")).to_be_visible()
    expect(field).to_have_value(text)
    field.click()
    expect(panel.get_by_role("listbox").get_by_text("Nothing matches")).to_be_visible()
    field.press("Escape")
    expect(field).to_have_value("")


def test_a_list_that_could_not_be_read(page: Page) -> None:
    """The field says so, keeps what is typed, and reads it again on demand."""
    page.route(re.compile(r"/api/v1/groups\?"), lambda route: route.abort())
    panel, field = ask(page)
    field.fill(EVERYONE)
    alert = panel.get_by_role("alert").first
    expect(alert).to_have_text("The choices could not be read · The server cannot be reached")
    expect(panel.get_by_text("Searching")).to_have_count(0)
    panel.get_by_label("Label").click()
    expect(field).to_have_value(EVERYONE)
    page.unroute_all(behavior="ignoreErrors")
    panel.get_by_role("button", name="Try again").last.click()  # that of the groups
    expect(panel.get_by_role("option", name=EVERYONE)).to_be_visible()
    expect(alert).to_have_count(0)
    field.press("Enter")
    expect(panel.get_by_role("button", name=f"Remove {EVERYONE}")).to_be_visible()


def test_people_that_could_not_be_read(open_page: Open, server: Server) -> None:
    page = open_page("/studio/groups")
    page.route(re.compile(r"/api/v1/members\?"), lambda route: route.abort())
    page.get_by_role("link", name="People").click()
    field = page.get_by_role("combobox", name="Find a person")
    search = page.get_by_role("search")
    field.fill("ada")
    expect(search.get_by_role("alert")).to_contain_text("The choices could not be read")
    page.unroute_all(behavior="ignoreErrors")
    search.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("option", name="ada")).to_be_visible()
    expect(field).to_be_focused()


def test_a_form_waits_for_its_choices(open_page: Open, server: Server) -> None:
    """Fields that come later would take the place of others that are filled in."""
    page = open_page("/studio/groups")
    held = Held(page, r"/api/v1/members\?", lambda _: True)
    page.get_by_role("link", name="Delegations").click()
    page.get_by_role("button", name="New delegation").click()
    held.collect()
    page.evaluate(AFTER_A_FRAME)
    expect(page.locator("aside form")).to_have_count(0)
    held.end()
    while held.waiting:
        held.answer()
    expect(page.locator("aside form")).to_be_visible()
