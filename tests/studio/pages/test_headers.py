"""The headers of pages: where they lead, and where their buttons stand."""

import re

from playwright.sync_api import expect
from servers import eventually
from watching import Open

ENDS = """(all) => Object.fromEntries(all.map((one) => one.getBoundingClientRect())
  .filter(({ width }) => width).map(({ y, right }) => [Math.round(y), Math.round(right)]))"""
"""Where each row of these elements ends, by its height in the page."""


def test_the_name_of_a_run_leads_to_its_workflow(open_page: Open, ids: dict[str, str]) -> None:
    page = open_page(f"/studio/runs/{ids['failed']}")
    page.get_by_role("heading", name="Fulfil order").get_by_role("link").click()
    expect(page.locator("wfcore-builder").get_by_role("heading", name="Fulfil order")).to_be_visible()
    expect(page).to_have_url(re.compile(r"/studio/workflows/\d+$"))


def test_a_second_row_of_buttons_ends_where_the_first_one_does(open_page: Open, ids: dict[str, str]) -> None:
    """In a window of 1000 pixels the buttons of the builder need two rows."""
    page = open_page(f"/studio/workflows/{ids['refund_workflow']}", viewport={"width": 1000, "height": 800})
    toolbar = page.locator("wfcore-builder .head")
    buttons = toolbar.get_by_role("button").or_(toolbar.get_by_role("link"))
    expect(toolbar.get_by_role("button", name="Deploy")).to_be_visible()

    def two_rows_end_there() -> bool:
        ends = list(buttons.evaluate_all(ENDS).values())
        return len(ends) == 2 and ends[0] == ends[1]

    eventually(two_rows_end_there)  # the buttons move while the draft is read and checked
