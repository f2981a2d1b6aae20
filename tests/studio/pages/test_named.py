"""What the server says of the user's values: a name in backticks is shown as code, wherever it is shown."""

import demo
from playwright.sync_api import Locator, expect
from servers import Server
from watching import Open

IS_WHOLE = """(shown) => {
  const free = shown.cloneNode(true);
  free.style.cssText = "position: absolute; width: max-content";
  shown.after(free);
  const width = free.offsetWidth;
  free.remove();
  return shown.offsetWidth >= width;
}"""
"""Whether a choice has the width of its longest text."""


def check_named(text: Locator, name: str) -> None:
    expect(text.locator("code", has_text=name)).to_be_visible()
    assert "`" not in text.inner_text()


def test_a_refusal(open_page: Open) -> None:
    page = open_page("/studio/members/ada")
    page.get_by_role("button", name="Remove").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    refusal = page.get_by_role("alert")
    expect(refusal).to_contain_text("is the last owner")
    check_named(refusal, "ada")


def test_who_started_a_run(open_page: Open, ids: dict[str, str]) -> None:
    """By name, in the list too; the API has the user id."""
    page = open_page(f"/studio/runs/{ids['failed']}")
    expect(page.locator(".summary")).to_contain_text("Started by Ada Lovelace")
    page.get_by_role("link", name="Runs", exact=True).click()
    expect(page.locator(".c-by").filter(has_text="Ada Lovelace").first).to_be_visible()


def test_a_field_and_a_simulation(open_page: Open, ids: dict[str, str]) -> None:
    page = open_page(f"/studio/workflows/{ids['plain_workflow']}")
    page.get_by_role("button", name="Simulate").click()
    panel = page.locator("aside:visible")
    panel.get_by_role("textbox").fill("never nobody")
    panel.get_by_role("button", name="Simulate").click()
    check_named(panel.get_by_role("alert"), "nobody")


def test_a_problem_of_a_draft(open_page: Open, server: Server) -> None:
    graph = demo.graph([demo.node("pay", "action", toolId="nowhere")], ("start", "pay"))
    with server.client() as client:
        body = {"name": "Nothing yet", "type": "workflow", "workflowStructure": graph}
        made = client.post("/api/v1/workflows", json=body).json()
    page = open_page(f"/studio/workflows/{made['id']}")
    page.get_by_role("button", name="1 problem", exact=True).click()
    check_named(page.get_by_role("list", name="Problems").get_by_role("listitem").first, "nowhere")


def test_what_is_built_in_is_in_the_language_of_the_page(open_page: Open, ids: dict[str, str]) -> None:
    """Outcomes, tools of wfcore and the origin of a run, in the builder, in a run and in lists."""
    page = open_page(f"/studio/workflows/{ids['refund_workflow']}", locale="de-DE")
    for text in ("genehmigt", "abgelehnt", "abgelaufen"):
        expect(page.locator(".ghandle").get_by_text(text, exact=True).first).to_be_visible()
    palette = page.locator(".palette")
    expect(palette.get_by_role("button", name="Warten", exact=True)).to_be_visible()
    condition = palette.get_by_role("button", name="Bedingung", exact=True)
    expect(condition).to_have_attribute("title", "Nimmt den ersten Zweig, der gilt")
    page = open_page(f"/studio/runs/{ids['form']}", locale="de-DE")
    expect(page.locator(".graph").get_by_text("genehmigt", exact=True).first).to_be_visible()
    page = open_page("/studio/tools", locale="de-DE")
    expect(page.locator("[data-record='core.wait']")).to_contain_text("Warten")
    page = open_page("/studio/runs", locale="de-DE")
    expect(page.locator(".c-origin").get_by_text("Schnittstelle", exact=True).first).to_be_visible()
    assert page.locator("#theme").evaluate(IS_WHOLE), "the choice of light or dark colours is cut"
