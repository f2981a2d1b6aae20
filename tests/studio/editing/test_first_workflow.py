"""What somebody meets who builds a first workflow: empty lists, settings that are not saved, a schedule that is off."""

import re
from typing import Any

import demo
from appearance import check_accessibility
from playwright.sync_api import expect
from servers import Server
from test_builder import SAVED, create, opened, stored
from test_builder_settings import settings
from watching import Open

GRAPH = demo.graph([demo.transform("first", 1)], ("start", "first"))


def test_empty_lists_lead_on(open_page: Open, server: Server) -> None:
    """The list of runs leads to the workflows, and that of workflows to a new one."""
    page = open_page("/studio/inbox")
    page.route(re.compile(r"/runs(\?|$)"), lambda route: route.fulfill(json={"runs": [], "nextPageToken": None}))
    page.route(
        re.compile(r"/workflows(\?|$)"), lambda route: route.fulfill(json={"workflows": [], "nextPageToken": None})
    )
    page.get_by_role("navigation").get_by_role("link", name="Runs").click()
    page.get_by_role("link", name="Go to the workflows").click()
    expect(page.get_by_text("A workflow runs steps one after the other")).to_be_visible()
    page.locator(".state").get_by_role("button", name="New workflow").click()
    expect(page.get_by_role("dialog").get_by_label("Name")).to_be_focused()


def test_settings_that_are_not_saved_are_known_at_a_deploy(open_page: Open, server: Server) -> None:
    """A deploy goes without them: a notice and the dialog say so and lead back to them."""
    with server.client() as client:
        page = opened(open_page, create(client, GRAPH))
    dialog = settings(page, "Trigger")
    dialog.get_by_label("Runs are started by").select_option("schedule")
    dialog.get_by_role("button", name="Close").click()
    expect(page.locator(".notice", has_text="The settings have changes that are not saved.")).to_be_visible()
    page.get_by_role("button", name="Deploy").click()
    expect(dialog.get_by_text("this version goes without them")).to_be_visible()
    dialog.get_by_role("button", name="Show them").click()
    dialog.get_by_role("tab", name="Trigger").click()
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_text("Saved in the draft")).to_be_visible()
    dialog.get_by_role("button", name="Close").click()
    expect(page.get_by_text("The settings have changes")).to_have_count(0)


def test_a_deployed_schedule_that_is_off_is_switched_on(open_page: Open, server: Server) -> None:
    """A new schedule starts no runs until it is switched on: the page says so, with the switch."""
    body: Any = {
        "trigger_type": "schedule",
        "schedule": {"frequency": "daily", "timezone": "UTC", "time_of_day": "09:00"},
    }
    with server.client() as client:
        workflow = create(client, GRAPH)
        client.patch(f"/api/v1/workflows/{workflow}", json={"trigger": body})
        page = opened(open_page, workflow)
        notice = page.locator(".notice", has_text="The schedule is switched off")
        expect(notice).to_have_count(0)
        page.get_by_role("button", name="Deploy").click()
        page.get_by_role("dialog").get_by_role("button", name="Deploy").click()
        notice.get_by_role("button", name="Switch on").click()
        expect(notice).to_have_count(0)
        assert client.get(f"/api/v1/workflows/{workflow}").json()["isEnabled"] is True
        client.delete(f"/api/v1/workflows/{workflow}")  # the calendar of another test would show it


def test_instructions_of_an_agent_are_text(open_page: Open, server: Server) -> None:
    """Only a list of parts is JSON."""
    agent = demo.node("write", "agent", message="{{ input.text }}", instructions=["Be brief.", "Be kind."])
    with server.client() as client:
        page = opened(open_page, create(client, demo.graph([agent], ("start", "write"))))
    page.get_by_role("button", name="write, agent").click()
    field = page.get_by_role("textbox", name="Instructions")
    expect(field).to_have_attribute("placeholder", "JSON")
    field.fill("")
    expect(field).not_to_have_attribute("placeholder", "JSON")


def test_a_panel_scrolls_alone(open_page: Open, server: Server) -> None:
    """Hidden labels in a long panel make the page around it no higher, which would have a second scroll bar."""
    with server.client() as client:
        graph = demo.graph([demo.node("ask", "humanApproval"), demo.transform("pay", 1)], ("start", "ask"))
        page = opened(open_page, create(client, graph))
    page.get_by_role("button", name="ask, humanApproval").click()
    panel = page.get_by_role("complementary", name="Node details")
    expect(panel.get_by_role("button", name="Delete node")).to_be_attached()
    hidden = "(one) => [one, one.closest('.page')].map((box) => box.scrollHeight - box.clientHeight)"
    inside, outside = panel.evaluate(hidden)
    assert inside > 0
    assert outside == 0


def test_a_form_is_made_without_json(open_page: Open, server: Server) -> None:
    """The fields of a form are a list: what is asked of approvers, and what a run is started with."""
    graph = demo.graph([demo.node("ask", "humanApproval", message="Pay?")], ("start", "ask"))
    with server.client() as client:
        workflow = create(client, graph)
        page = opened(open_page, workflow)
        page.get_by_role("button", name="ask, humanApproval").click()
        form = page.get_by_role("group", name="Form of the approvers")
        form.get_by_role("button", name="Add entry").click()
        expect(form.get_by_label("Label")).to_be_focused()
        form.get_by_label("Label").fill("Amount due")
        form.get_by_label("Kind").select_option(label="Number")
        form.get_by_role("button", name="Add entry").click()
        form.get_by_label("Label").nth(1).fill("Account")
        form.get_by_label("Kind").nth(1).select_option(label="One of several")
        form.get_by_label("Must be filled in").nth(1).uncheck()
        choices = form.get_by_role("group", name="Choices")
        for number, choice in enumerate(("main", "travel"), 1):
            choices.get_by_role("button", name="Add entry").click()
            choices.get_by_label(str(number), exact=True).fill(choice)
        expect(page.get_by_text("nodes.ask.output.data.amount_due, nodes.ask.output.data.account")).to_be_visible()
        check_accessibility(page)
        wanted = {
            "type": "object",
            "required": ["amount_due"],
            "properties": {
                "amount_due": {"title": "Amount due", "type": "number"},
                "account": {"title": "Account", "type": "string", "enum": ["main", "travel"]},
            },
        }
        expect(page.locator(SAVED)).to_be_visible()
        assert stored(client, workflow)["nodes"][1]["data"]["formSchema"] == wanted
        page.reload()
        page.get_by_role("button", name="ask, humanApproval").click()
        form.get_by_label("Label").first.fill("Sum")  # its name stays: expressions use it
        form.get_by_role("button", name="Remove entry 2").last.click()  # the first is of a choice
        expect(page.get_by_text("nodes.ask.output.data.amount_due", exact=True)).to_be_visible()
        page.get_by_role("button", name="As JSON Schema").click()
        expect(page.get_by_label("Form schema")).to_have_value(re.compile(r'"amount_due": \{\s+"title": "Sum"'))
        page.get_by_label("Form schema").fill('{"type": "object", "minProperties": 1}')
        expect(page.get_by_text("This schema says more than fields can show.")).to_be_visible()
        expect(page.get_by_role("button", name="As fields")).to_have_count(0)
        page.get_by_label("Form schema").fill("")
        page.get_by_role("button", name="As fields").click()
        expect(form.get_by_label("Label")).to_have_count(0)


def test_a_schedule_that_has_no_input_says_so(open_page: Open, server: Server) -> None:
    """A field of the start that must be filled in pauses the schedule at its first run: it is known before."""
    start = demo.node(
        "start", "start", inputSchema={"required": ["due"], "properties": {"due": {"title": "Amount due"}}}
    )
    graph = {**GRAPH, "nodes": [start, *GRAPH["nodes"][1:]]}
    text = "this workflow needs Amount due"
    with server.client() as client:
        page = opened(open_page, create(client, graph))
    dialog = settings(page, "Trigger")
    expect(dialog.get_by_text(text)).to_have_count(0)
    dialog.get_by_label("Runs are started by").select_option("schedule")
    expect(dialog.get_by_text(text)).to_be_visible()
    dialog.get_by_role("combobox", name="Time zone").fill("berlin")
    dialog.get_by_role("combobox", name="Time zone").press("Enter")
    expect(dialog.get_by_role("combobox", name="Time zone")).to_have_value("Europe/Berlin")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_text("Saved in the draft")).to_be_visible()
    dialog.get_by_role("button", name="Close").click()
    page.get_by_role("button", name="Deploy").click()
    expect(dialog.get_by_text(text)).to_be_visible()
    expect(dialog.get_by_text("+ start → first")).to_be_visible()  # and not the id of the connection


def test_the_settings_do_not_jump(open_page: Open, server: Server) -> None:
    """The tabs are at the same place whichever is shown."""
    with server.client() as client:
        page = opened(open_page, create(client, GRAPH))
    dialog = settings(page, "General")
    places = []
    for name in ("General", "Trigger", "Versions", "Sharing"):
        tab = dialog.get_by_role("tab", name=name)
        tab.click()
        expect(tab).to_have_attribute("aria-selected", "true")
        if name == "Trigger":
            dialog.get_by_label("Runs are started by").select_option("schedule")
        places.append(dialog.evaluate("(one) => one.getBoundingClientRect().top"))
    assert len(set(places)) == 1, places
