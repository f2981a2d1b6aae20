"""Printed pages: what is read on paper, without what is only of use on a screen."""

from playwright.sync_api import Page, expect
from watching import Open


def printed(page: Page) -> None:
    """Show the page as it is printed: without its navigation."""
    page.emulate_media(media="print")
    expect(page.get_by_role("navigation", name="Main")).to_be_hidden()


def test_a_list_is_printed_in_its_whole_height(open_page: Open, ids: dict[str, str]) -> None:
    """Dark on white, and not cut at the height of the window."""
    page = open_page("/studio/runs", viewport={"width": 1000, "height": 400}, color_scheme="dark")
    expect(page.locator(".line").first).to_be_visible()
    expect(page.get_by_text("the list has more")).to_be_hidden()
    printed(page)
    expect(page.locator(".rows")).to_have_css("color-scheme", "light")
    expect(page.locator(".rows > div")).to_have_css("transform", "none")
    expect(page.locator(".page")).to_have_css("overflow", "visible")


def test_a_run_is_printed_with_its_error_and_graph(open_page: Open, ids: dict[str, str]) -> None:
    page = open_page(f"/studio/runs/{ids['failed']}", viewport={"width": 1280, "height": 400})
    expect(page.locator(".react-flow__node").first).to_be_visible()
    printed(page)
    expect(page.get_by_text("the catalog has no article C-404")).to_be_visible()
    expect(page.get_by_role("tab", name="Events")).to_be_hidden()
    expect(page.get_by_role("button", name="Retry from failure")).to_be_hidden()
