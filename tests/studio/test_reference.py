"""`/docs` in a real browser."""

import re

from playwright.sync_api import expect
from watching import Open


def test_the_documentation_is_shown_and_searched(open_page: Open) -> None:
    """Without a credential, and without a violation of its content security policy or a request elsewhere."""
    page = open_page("/docs", token=None)
    expect(page.get_by_role("heading", name=re.compile("wfcore"))).to_be_visible()
    page.get_by_placeholder("Search...").fill("rollback")
    expect(page.get_by_role("search").get_by_text("Deploy an old variation again").first).to_be_visible()
