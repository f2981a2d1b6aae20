"""The element `wfcore-skill` in a real browser: settings, deploy, evaluations, memories and the context."""

import re
from typing import Any

import pytest
from appearance import APPEARANCES, check_accessibility
from demo import EVIL
from playwright.sync_api import Page, expect
from slices import slice_of
from test_chat_page import client, idle, say
from test_hostile import check
from watching import Open

CASES: Any = [
    {
        "id": "uses-it", "name": "Uses the tool", "required": True, "input": {"message": "use it"},
        "checks": [{"kind": "contains", "value": "Done"}, {"kind": "toolCalled", "tool": "core.transform"}],
    },
    {"id": "greets", "input": {"message": "hello"}, "checks": [{"kind": "contains", "value": "Welcome"}]},
]  # fmt: skip


def skill(chats: dict[str, Any], name: str, **fields: Any) -> int:
    """A new, deployed skill with a tool."""
    tools = {"core.transform": {"enabled": True}}
    with client(chats) as api:
        made = api.post("/api/v1/skills", json={"name": name, "instructions": ["Help."], "toolset": tools, **fields})
        number = int(made.json()["id"])
        assert api.post(f"/api/v1/skills/{number}/deploy", json={"force": True}).status_code == 200
    return number


def opened(open_page: Open, chats: dict[str, Any], number: int, **options: Any) -> Page:
    return open_page(f"/studio/skills/{number}", token=chats["token"], origin=chats["url"], **options)


def tab(page: Page, name: str) -> None:
    page.get_by_role("tab", name=name).click()


def fill_in_cases(page: Page) -> None:
    """The cases as fields: those of a check follow its kind, and errors stand at their fields."""
    cases = page.get_by_role("group", name="Evaluation cases")
    for place, case in enumerate(CASES):
        cases.get_by_role("button", name="Add entry").last.click()
        one = cases.get_by_role("group", name="Case").nth(place)
        one.get_by_label("ID").fill("not an id" if place else case["id"])
        one.get_by_label("Name", exact=False).first.fill(case.get("name", ""))
        one.get_by_label("Must pass").set_checked(case.get("required", False))
        one.get_by_label("Message").fill(case["input"]["message"])
        one.get_by_label("Kind").select_option("Output matches a pattern")
        one.get_by_label("Pattern").fill("left behind")
        one.get_by_label("Kind").select_option("Output contains")
        page.get_by_role("button", name="Save").click()
        expect(one.get_by_label("Text")).to_be_focused()
        one.get_by_label("Text").fill(case["checks"][0]["value"])
        if place == 0:
            one.get_by_role("button", name="Add entry").click()
            one.get_by_label("Kind").nth(1).select_option("Tool was called")
            one.get_by_label("Name of the tool").select_option("core.transform")
    page.get_by_role("button", name="Save").click()
    expect(cases.get_by_label("ID").nth(1)).to_be_focused()
    cases.get_by_label("ID").nth(1).fill(CASES[1]["id"])
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("button", name="Save")).to_be_enabled()  # it has been saved


def test_a_skill_is_made_tried_and_deployed(open_page: Open, chats: dict[str, Any]) -> None:
    """From its name to the draft that is tried and then published; a required case that never ran is in the way."""
    page = open_page("/studio/skills", token=chats["token"], origin=chats["url"])
    page.get_by_role("button", name="New skill").click()
    page.get_by_label("Name of the new skill").fill("Greeter")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Greeter")).to_be_visible()
    tab(page, "Settings")
    page.get_by_role("group", name="Instructions").get_by_role("button", name="Add entry").click()
    page.get_by_role("group", name="Instructions").locator("textarea").fill("Greet everybody.")
    page.get_by_role("group", name="Tools").get_by_role("button", name="Add entry").click()
    page.get_by_label("Tool", exact=True).select_option(label="Transform")
    page.get_by_label("Chat page").check()
    fill_in_cases(page)
    tab(page, "Try it")
    expect(page.get_by_text("The draft is used here")).to_be_visible()
    say(page, "use it")
    expect(page.locator(".bubble").last).to_have_text("Answer:Done: use it")
    idle(page)
    page.get_by_role("button", name="Deploy").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Uses the tool")
    dialog.get_by_role("button", name="Cancel").click()
    tab(page, "Evaluations")
    page.get_by_role("button", name="Run with the draft").click()
    expect(page.get_by_role("row", name="Uses the tool").get_by_text("passed")).to_be_visible()
    page.get_by_role("button", name="Deploy").click()
    expect(page.get_by_role("button", name="Deploy")).to_have_count(0)
    tab(page, "Settings")
    expect(page.get_by_role("link", name="Open the chat page")).to_be_visible()
    with client(chats) as api:
        number = int(page.url.rsplit("/", 1)[1])
        found = api.get(f"/api/v1/skills/{number}").json()["variation"]
    assert found["instructions"] == ["Greet everybody."]
    assert found["evaluations"] == CASES
    assert found["toolset"] == {"core.transform": {"enabled": True, "requiresApproval": False}}


def test_delete_and_restore(open_page: Open, chats: dict[str, Any]) -> None:
    """A skill is deleted after a question, and restored from the list of those that are deleted."""
    number = skill(chats, "Short-lived")
    with client(chats) as api:
        page = opened(open_page, chats, number)
        page.get_by_role("button", name="Delete skill").click()
        question = page.get_by_role("dialog", name="Delete this skill?")
        expect(question).to_contain_text("Short-lived")
        check_accessibility(page)
        question.get_by_role("button", name="Cancel").click()
        assert api.get(f"/api/v1/skills/{number}").json()["status"] == "active"
        page.get_by_role("button", name="Delete skill").click()
        question.get_by_role("button", name="Delete skill").click()
        expect(page.get_by_role("heading", name="Skills")).to_be_visible()
        expect(page.locator(f'a[href$="/skills/{number}"]')).to_have_count(0)
        page.get_by_role("button", name="Deleted").click()
        page.locator(f'a[href$="/skills/{number}"]').click()
        expect(page.get_by_role("alert")).to_contain_text("This skill was deleted.")
        page.get_by_role("button", name="Restore").click()
        expect(page.get_by_role("button", name="Delete skill")).to_be_visible()
        assert api.get(f"/api/v1/skills/{number}").json()["status"] == "active"


def test_evaluations_compare_variations(open_page: Open, chats: dict[str, Any]) -> None:
    """Case by case with checks, outputs and calls; an earlier version can be compared too."""
    number = skill(chats, "Compared", evaluations=CASES)
    with client(chats) as api:
        api.patch(f"/api/v1/skills/{number}", json={"toolset": {}})
        api.post(f"/api/v1/skills/{number}/deploy", json={"force": True})
        api.patch(
            f"/api/v1/skills/{number}", json={"toolset": {"core.transform": {"enabled": True}}, "expectedOutput": "x"}
        )
    page = opened(open_page, chats, number)
    tab(page, "Evaluations")
    row = page.get_by_role("row", name="Uses the tool")
    for version, verdicts in (("published version", ["failed", "never run"]), ("draft", ["failed", "passed"])):
        page.get_by_role("button", name=f"Run with the {version}").click()
        expect(row.get_by_role("cell")).to_have_text(verdicts)
    page.get_by_label("Compare with").select_option(index=1)
    expect(row.get_by_role("cell")).to_have_text(["failed", "passed", "never run"])
    page.get_by_role("button", name="Uses the tool").click()
    expect(page.locator(".results .card").nth(0)).to_contain_text("You said: use it")
    expect(page.locator(".results .card").nth(1)).to_contain_text("Done: null")
    expect(page.locator(".results .card").nth(1)).to_contain_text("1 tool call")
    check_accessibility(page)


def test_memories_and_the_context(open_page: Open, chats: dict[str, Any]) -> None:
    """Memories are added, changed, found and forgotten; the context shows which ones are sent, and its digest."""
    number = skill(chats, "Rememberer")
    page = opened(open_page, chats, number)
    tab(page, "Memories")
    for text in ("Likes tea", EVIL):
        page.get_by_label("New memory", exact=True).fill(text)
        page.keyboard.press("Enter")
        expect(page.get_by_label("New memory", exact=True)).to_have_value("")
    expect(page.locator(".memories li")).to_have_count(2)
    check(page)
    page.get_by_role("button", name="Edit: Likes tea").click()
    page.get_by_label("Memory", exact=True).fill("Likes green tea")
    page.get_by_role("button", name="Save").click()
    page.get_by_label("Search memories").fill("zebra")
    expect(page.get_by_text("Nothing matches this search")).to_be_visible()
    page.get_by_label("Search memories").fill("green")
    expect(page.locator(".memories li")).to_have_count(1)
    tab(page, "Context")
    page.get_by_label("Message").fill("Which tea?")
    page.get_by_role("button", name="Show what would be sent").click()
    expect(page.locator(".composed table")).to_contain_text("memory")
    digest = page.locator(".composed .digest").first.text_content() or ""
    with client(chats) as api:
        body = {"message": "Which tea?", "view": "active"}
        assert api.post(f"/api/v1/skills/{number}/context", json=body).json()["digest"] == digest
    page.locator(".composed summary").first.click()
    check(page)
    tab(page, "Memories")
    page.get_by_role("button", name="Forget: Likes green tea").click()
    page.get_by_role("dialog").get_by_role("button", name="Forget").click()
    expect(page.locator(".memories li")).to_have_count(1)


def test_a_change_elsewhere_is_offered(open_page: Open, chats: dict[str, Any]) -> None:
    """What was typed is kept; it replaces the newer settings only if the user says so."""
    number = skill(chats, "Shared")
    page = opened(open_page, chats, number)
    tab(page, "Settings")
    page.get_by_label("Description").fill("mine")
    with client(chats) as api:
        api.patch(f"/api/v1/skills/{number}", json={"expectedOutput": "theirs"})
    page.get_by_role("button", name="Save").click()
    page.get_by_role("button", name="Keep my changes").click()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Unpublished changes")).to_be_visible()
    with client(chats) as api:
        found = api.get(f"/api/v1/skills/{number}", params={"view": "draft"}).json()
    assert (found["description"], found["variation"]["expectedOutput"]) == ("mine", "theirs")


def test_settings_that_are_not_saved_stay(open_page: Open, chats: dict[str, Any]) -> None:
    """Another view does not drop them, and the browser asks before the page is left; without them it does not."""
    number = skill(chats, "Half done")
    page = opened(open_page, chats, number)
    asks = "() => !dispatchEvent(new Event('beforeunload', { cancelable: true }))"
    tab(page, "Settings")
    expect(page.get_by_label("Expected output")).to_be_visible()
    assert page.evaluate(asks) is False
    page.get_by_label("Expected output").fill("typed")
    tab(page, "Memories")
    expect(page.get_by_label("Expected output")).to_be_hidden()
    expect(page.get_by_label("New memory", exact=True)).to_be_visible()
    assert page.evaluate(asks) is True
    tab(page, "Settings")
    expect(page.get_by_label("Expected output")).to_have_value("typed")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Unpublished changes")).to_be_visible()
    assert page.evaluate(asks) is False
    page.get_by_label("Expected output").fill("typed again")
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_label("Expected output")).to_have_value("typed")
    assert page.evaluate(asks) is False


@pytest.fixture(scope="module")
def shown(chats: dict[str, Any]) -> int:
    number = skill(chats, "Shown", evaluations=CASES, description="Shown in every appearance")
    with client(chats) as api:
        api.post(f"/api/v1/skills/{number}/memories", json={"memory": "Likes tea"})
    return number


@pytest.mark.parametrize("appearance", slice_of(APPEARANCES, 2, 1))
def test_accessible(open_page: Open, chats: dict[str, Any], shown: int, appearance: str) -> None:
    """No finding of axe on its views, and nothing wider than the window; all of them in one appearance."""
    page = opened(open_page, chats, shown, **APPEARANCES[appearance])
    for index in range(5) if appearance == "light" else (1, 4):
        page.get_by_role("tab").nth(index).click()
        expect(page.locator("[role=tabpanel] .skeleton")).to_have_count(0)
        check_accessibility(page)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_settings_whose_tools_cannot_be_read(open_page: Open, chats: dict[str, Any]) -> None:
    """They say so, as a form without the field would look like a skill without tools."""
    skill(chats, "Cut off")
    page = open_page("/studio/skills", token=chats["token"], origin=chats["url"])
    page.get_by_role("link", name="Cut off").click()
    page.route(re.compile(r"/api/v1/tools\b"), lambda route: route.abort())
    tab(page, "Settings")
    panel = page.get_by_role("tabpanel", name="Settings")
    expect(panel.get_by_text("The server cannot be reached")).to_be_visible()
    page.unroute_all(behavior="ignoreErrors")
    panel.get_by_role("button", name="Try again").click()
    expect(panel.get_by_role("group", name="Tools")).to_be_visible()
