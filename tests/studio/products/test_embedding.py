"""The example of embedding in a real browser: the inbox and the viewer of runs in pages of two products.

No page may cause a report of its content security policy, an error on the console or a request to another origin: see
`watching.Watch`.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from appearance import check_accessibility
from playwright.sync_api import Page, expect
from servers import first_line
from watching import Open

VISIBLE_TEXT = """() => {
  const texts = [];
  const look = (root) => {
    for (const one of root.querySelectorAll('*')) {
      if (one.shadowRoot) look(one.shadowRoot);
      texts.push(one.getAttribute('aria-label') ?? '', one.getAttribute('title') ?? '');
      if (!['SCRIPT', 'STYLE'].includes(one.tagName)) for (const child of one.childNodes) if (child.nodeType === 3) texts.push(child.data);
    }
  };
  look(document);
  return texts.join(' ');
}"""  # noqa: E501


@pytest.fixture(scope="module")
def urls() -> Iterator[dict[str, str]]:
    command = [sys.executable, str(Path(__file__).parents[1] / "embedding.py")]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert running.stdout is not None
    yield json.loads(first_line(running.stdout))
    running.kill()
    running.wait()
    running.stdout.close()


def product(open_page: Open, urls: dict[str, str], user: str) -> Page:
    page = open_page("/", token=None, origin=urls["product"])
    page.get_by_label("User").fill(user)
    page.get_by_label("Password").fill(f"{user}'s")
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("wfcore-inbox").get_by_role("heading", name="Waiting for you")).to_be_visible()
    return page


def bill(page: Page, customer: str, amount: int) -> None:
    page.get_by_role("textbox", name="Customer").fill(customer)
    page.get_by_label("Amount").fill(str(amount))
    page.get_by_role("button", name="Send invoice").click()
    expect(page.get_by_text("The invoice is on its way.")).to_be_visible()


def test_a_user_decides_in_the_page_of_the_product(open_page: Open, urls: dict[str, str]) -> None:
    """The cookie of the product is the credential; the product shows the run in its own page."""
    page = product(open_page, urls, "ann")
    bill(page, "Hopper", 4200)
    inbox = page.locator("wfcore-inbox")
    inbox.get_by_text("Send Hopper an invoice of 4200.0 euros?").click()
    inbox.get_by_label("sales").check()
    check_accessibility(page)
    inbox.get_by_role("button", name="Approve").click()
    expect(inbox.get_by_text("Your decision is recorded")).to_be_visible()
    expect(inbox.locator(".request").filter(has_text="Send Hopper an invoice")).to_have_count(0)
    newest = page.locator("wfcore-runs .line").first
    expect(newest).to_contain_text("Done")  # its turns replace each other until then
    newest.click()
    viewer = page.locator("wfcore-run")
    expect(viewer.locator(".react-flow__node[data-id=send] .gnode[data-status=done]")).to_be_visible()
    expect(viewer.get_by_text("2 turns")).to_be_visible()
    assert page.url == urls["product"] + "/"
    page.get_by_role("button", name="Back to the activity").click()
    expect(page.locator("wfcore-runs .line").first).to_be_visible()


def test_nothing_names_the_library(open_page: Open, urls: dict[str, str]) -> None:
    """White-labelled: the colours, fonts and words are those of the product."""
    page = product(open_page, urls, "ann")
    bill(page, "Lovelace", 1500)
    inbox = page.locator("wfcore-inbox")
    inbox.get_by_text("Send Lovelace an invoice").click()
    approve = inbox.get_by_role("button", name="Approve")
    assert approve.evaluate("(one) => getComputedStyle(one).backgroundColor") == "rgb(11, 110, 79)"
    assert "Georgia" in approve.evaluate("(one) => getComputedStyle(one).fontFamily")
    text = page.evaluate(VISIBLE_TEXT)
    assert "Waiting for you" in text
    assert not re.search("wfcore|studio", text, re.IGNORECASE)


def test_companies_see_only_their_own(open_page: Open, urls: dict[str, str]) -> None:
    ann, bob = product(open_page, urls, "ann"), product(open_page, urls, "bob")
    bill(ann, "Curie", 2000)
    bill(bob, "Noether", 3000)
    expect(ann.locator("wfcore-inbox").get_by_text("Send Curie")).to_be_visible()
    expect(bob.locator("wfcore-inbox").get_by_text("Send Noether")).to_be_visible()
    assert "Curie" not in bob.evaluate(VISIBLE_TEXT)


def test_a_page_of_another_origin_decides_with_a_token(open_page: Open, urls: dict[str, str]) -> None:
    """The portal has no cookie of the product; its page requests a token from its own backend."""
    page = product(open_page, urls, "ann")
    bill(page, "Germain", 7000)
    portal = open_page("/", token=None, origin=urls["portal"], others=(urls["product"],))
    inbox = portal.locator("wfcore-inbox")
    inbox.get_by_text("Send Germain an invoice").click()
    inbox.get_by_label("service").check()
    inbox.get_by_role("button", name="Freigeben").click()
    expect(inbox.locator(".request").filter(has_text="Send Germain an invoice")).to_have_count(0)
    expect(portal.locator("wfcore-runs .line").first).to_be_visible()
    assert portal.evaluate("document.cookie") == ""
    assert portal.context.cookies() == []


def test_a_page_of_an_unlisted_origin_reads_nothing(open_page: Open, urls: dict[str, str]) -> None:
    """`localhost` is another origin than `127.0.0.1`: even with a valid token the browser blocks the response."""
    other = urls["portal"].replace("127.0.0.1", "localhost")
    page = open_page("/token", token=None, origin=other, others=(urls["product"],))
    token = page.inner_text("body")
    script = """async ([url, token]) => {
      const headers = { Authorization: `Bearer ${token}` };
      try { return (await fetch(url, { headers })).status; } catch { return 'blocked'; }
    }"""
    assert page.evaluate(script, [urls["product"] + "/automation/api/v1/me", token]) == "blocked"
    listed = open_page("/token", token=None, origin=urls["portal"], others=(urls["product"],))
    assert listed.evaluate(script, [urls["product"] + "/automation/api/v1/me", token]) == 200


def test_the_page_ends_with_its_session(open_page: Open, urls: dict[str, str]) -> None:
    """Signed out, the product shows its own sign-in; the elements request nothing more."""
    page = product(open_page, urls, "amy")
    page.context.clear_cookies()
    page.locator("wfcore-inbox #order").select_option("deadline", force=True)  # hidden, if the page has asked before
    expect(page.get_by_role("heading", name="Sign in to Ledgerline")).to_be_visible()
