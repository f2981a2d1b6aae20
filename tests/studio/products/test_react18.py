"""Elements in the page of a product that bundles its own React 18: attributes, properties and events, both ways."""

import hashlib
from pathlib import Path
from typing import Any

from appearance import check_accessibility
from playwright.sync_api import expect
from watching import Open

FOLDER = Path(__file__).parents[1] / "react18"


def test_the_page_is_built_from_these_sources() -> None:
    """If not: `make react18`."""
    digest = hashlib.sha256(b"".join((FOLDER / name).read_bytes() for name in ("product.js", "package-lock.json")))
    assert (FOLDER / "built" / "page.js").read_text().startswith(f"/*! {digest.hexdigest()} */")


def test_both_ways(open_page: Open, product: dict[str, Any]) -> None:
    """State of the product reaches the elements, and their events change its state; both Reacts render on one page."""
    page = open_page("/white/react", token=None, origin=f"http://127.0.0.1:{product['port']}")
    expect(page.get_by_role("heading", name="React 18.3.1")).to_be_visible()
    inbox = page.locator("acme-inbox")
    expect(inbox.get_by_role("heading", name="Waiting", exact=True)).to_be_visible()
    page.get_by_label("Title").fill("To decide")
    expect(inbox.get_by_role("heading", name="To decide", exact=True)).to_be_visible()
    inbox.get_by_text("Publish release react?").click()
    page.get_by_role("button", name="Language").click()
    expect(inbox.get_by_role("button", name="Freigeben")).to_be_visible()
    check_accessibility(page)
    page.get_by_label("Closed").check()
    inbox.get_by_role("button", name="Freigeben").click()
    expect(inbox.get_by_role("button", name="Freigeben")).to_be_enabled()
    assert page.locator("output").inner_text() == ""
    page.get_by_label("Closed").uncheck()
    inbox.get_by_role("button", name="Freigeben").click()
    expect(page.locator("output")).to_have_text("approve")
    for count in (1, 2):
        page.locator("acme-runs .line").nth(count - 1).click()
        expect(page.locator("acme-run .react-flow__node")).to_have_count(2)
        expect(page.locator("acme-run")).to_have_count(1)
