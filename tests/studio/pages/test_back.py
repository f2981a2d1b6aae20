"""Back, and a reload: what is shown in the place of a list or a graph is in the address."""

import re

import demo
from playwright.sync_api import Page, expect
from servers import Server
from watching import Open

PHONE = {"width": 390, "height": 844}


def at_inbox(page: Page) -> None:
    expect(page).to_have_url(re.compile("/studio/inbox$"))
    expect(page.get_by_role("list", name="Requests")).to_be_visible()


def test_back_leads_from_a_request_to_the_list(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """On a phone, the request takes the place of the list. A reload shows it again, also one that is decided."""
    with server.client() as client:
        demo.settle(client, demo.run(client, int(ids["plain_workflow"]), order="Back"))
    page = open_page("/studio/inbox", viewport=PHONE)
    entry, article = page.get_by_role("button", name="Publish release Back?"), page.get_by_role("article")
    entry.click()
    expect(article).to_be_visible()
    page.go_back()
    at_inbox(page)
    expect(entry).to_be_focused()
    page.go_forward()
    expect(article.get_by_role("heading", name="Publish release Back?")).to_be_visible()
    page.reload()
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_text("Your decision is recorded")).to_be_visible()
    page.reload()
    expect(article.get_by_text("Approved").first).to_be_visible()
    page.get_by_role("button", name="Back", exact=True).click()
    at_inbox(page)


def test_other_requests_of_a_wide_list_are_one_step(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """Beside the list, going from one request to the next adds no steps to go back."""
    orders = [f"Wide {number}" for number in range(3)]  # own ones: other tests decide requests, and make many
    with server.client() as client:
        for order in orders:
            demo.settle(client, demo.run(client, int(ids["plain_workflow"]), order=order))
    page = open_page("/studio/runs")
    page.get_by_role("link", name="Inbox").click()
    for order in orders:
        page.get_by_role("button", name=f"Publish release {order}?").click()
        expect(page.get_by_role("article", name=f"Publish release {order}?")).to_be_visible()
    page.go_back()
    at_inbox(page)
    expect(page.get_by_role("article")).to_have_count(0)
    page.go_back()
    expect(page).to_have_url(re.compile("/studio/runs$"))


def test_back_leads_from_a_run_to_its_draft(open_page: Open, server: Server, ids: dict[str, str]) -> None:
    """A run that the builder has started is still shown after a reload; Back leads to the graph."""
    page = open_page(f"/studio/workflows/{ids['plain_workflow']}")
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Run").click()
    back = page.get_by_role("button", name="Back to the draft")
    expect(back).to_be_visible()
    page.reload()
    expect(back).to_be_visible()
    page.go_back()
    expect(page.get_by_role("button", name="Deploy")).to_be_visible()
    expect(page).to_have_url(re.compile(r"/studio/workflows/\d+$"))
