"""`/docs` in a real browser."""

from playwright.sync_api import expect
from watching import Open


def test_the_documentation_is_shown_and_searched(open_page: Open) -> None:
    """Without a credential, and without a violation of its content security policy or a request elsewhere."""
    page = open_page("/docs", token=None)
    expect(page.locator("h1", has_text="wfcore")).to_be_visible()  # roles of a page this large take long to find
    page.get_by_placeholder("Search...").fill("rollback")
    expect(page.get_by_role("search").get_by_text("Deploy an old variation again").first).to_be_visible()
