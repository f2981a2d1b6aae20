"""The whole application in a product's page, in its name: where it keeps its place, and that nothing names wfcore."""

import re
from typing import Any

import pytest
from appearance import APPEARANCES, check_accessibility
from playwright.sync_api import Page, Response, Route, expect
from servers import eventually
from slices import slice_of
from watching import Open

DOCUMENT = """() => {
  const found = [document.title, ...Object.keys(localStorage), ...Object.keys(sessionStorage)];
  const look = (root) => {
    for (const one of root.querySelectorAll('*')) {
      found.push(one.localName, ...[...one.attributes].flatMap((each) => [each.name, each.value]));
      for (const child of one.childNodes) if (child.nodeType === 3) found.push(child.data);
      if (one.shadowRoot) look(one.shadowRoot);
    }
  };
  look(document);
  return found;
}"""
"""Every tag, attribute and text of the page, in shadow roots too, its title, and the keys of its storage."""

PLACES = (
    "runs", "runs/{run}", "inbox", "chat", "workflows", "workflows/1", "skills", "skills/1", "connections", "tools",
    "schedules", "members", "members/zoe", "groups", "delegations", "tokens", "hooks", "policies", "usage", "audit",
)  # fmt: skip


@pytest.fixture
def origin(product: dict[str, Any]) -> str:
    return f"http://127.0.0.1:{product['port']}"


def entry(page: Page, name: str) -> Any:
    return page.get_by_role("navigation").get_by_role("link", name=re.compile(f"^{name}"))


def test_nothing_names_the_library(open_page: Open, product: dict[str, Any], origin: str) -> None:
    """Not on any page: no tag, attribute, text, title, key of the storage, address, header or response."""
    page = open_page("/white/path", token=None, origin=origin)
    expect(page.locator("acme-runs .line").first).to_be_visible()
    assert [text for text in page.evaluate(DOCUMENT) if "wfcore" in text.lower()] == []
    page.goto("about:blank")  # the next page has no late responses of this one
    traffic: list[Response] = []
    page.on("response", lambda one: traffic.append(one))  # noqa: PLW0108  (Playwright needs a function with attributes)
    page.goto(f"{origin}/d/studio/")
    expect(page).to_have_url(f"{origin}/d/studio/runs")
    for place in PLACES:
        page.evaluate(
            "(to) => { history.pushState(null, '', to); dispatchEvent(new PopStateEvent('popstate')); }",
            f"/d/studio/{place.format(run=product['runs'][2])}",
        )
        page.wait_for_load_state()
        expect(page.locator("main h1").first).to_be_visible()
        expect(page.locator(".skeleton")).to_have_count(0)
        named = [text for text in page.evaluate(DOCUMENT) if "wfcore" in text.lower()]
        assert named == [], place
    assert page.title() == "Audit · Acme Automation"
    assert len(traffic) > len(PLACES)
    for one in traffic:
        assert "wfcore" not in f"{one.url} {one.headers} {one.request.headers}".lower()
        if "event-stream" not in one.headers.get("content-type", ""):
            assert "wfcore" not in one.text().lower(), one.url


def test_title_logo_colours_texts_and_languages(open_page: Open, origin: str) -> None:
    """Settings of the server. A further language has English texts where it has none of its own."""
    open_page("/white/path", token=None, origin=origin)
    for locale, runs, inbox in (("en-US", "Jobs", "Inbox"), ("de-DE", "Jobs", "Postfach"), ("fr-FR", "Jobs", "Boîte")):
        page = open_page("/white/path", token=None, origin=origin, locale=locale)
        page.goto(f"{origin}/d/studio/runs")
        expect(entry(page, runs)).to_be_visible()
        expect(entry(page, inbox)).to_be_visible()
    expect(page.locator(".brand img")).to_be_visible()
    expect(page.locator(".brand")).to_have_text("Acme Automation")
    expect(entry(page, "Back to Acme")).to_have_attribute("href", "/")
    accent = "(one) => getComputedStyle(one).getPropertyValue('--wf-color-accent')"
    assert page.locator("acme-application").evaluate(accent) == "rgb(120, 20, 60)"
    assert page.evaluate("document.documentElement.lang") == "fr-FR"


@pytest.mark.parametrize("base", ["/white/path/", "/white/hash#/"])
def test_it_has_its_place_in_the_address(open_page: Open, origin: str, base: str) -> None:
    """Only below the base path: links, Back, a reload and a link in a message lead to the same place."""
    page = open_page(base.split("#", maxsplit=1)[0].rstrip("/"), token=None, origin=origin)
    started = page.url
    expect(page.locator("acme-runs .line").first).to_be_visible()
    assert page.url == started
    entry(page, "Inbox").click()
    expect(page).to_have_url(f"{origin}{base}inbox")
    expect(page.locator("acme-inbox").get_by_text("Publish release d?")).to_be_visible()
    entry(page, "Runs").click()
    page.locator("acme-runs .line").first.click()
    expect(page).to_have_url(re.compile(re.escape(f"{origin}{base}runs/")))
    expect(page.locator("acme-run .react-flow__node")).to_have_count(2)
    page.reload()
    expect(page.locator("acme-run .react-flow__node")).to_have_count(2)
    page.go_back()
    expect(page.locator("acme-runs .line").first).to_be_visible()
    page.go_back()
    expect(page.locator("acme-inbox").get_by_text("Publish release d?")).to_be_visible()
    assert page.title() == "Acme"
    expect(page.get_by_role("heading", name="Acme", exact=True)).to_be_visible()
    expect(page.locator(".brand")).to_have_text("Automation")


def test_another_user_finds_no_list_of_the_one_before(open_page: Open, origin: str) -> None:
    """After another `getToken` with another user, Back shows a list without the rows that the first one has read."""
    page = open_page("/white/path", token=None, origin=origin)
    entry(page, "Runs").click()
    expect(page.locator("acme-runs .line").first).to_be_visible()
    entry(page, "Inbox").click()
    expect(page.locator("acme-inbox").get_by_text("Publish release d?")).to_be_visible()
    me = page.evaluate("fetch('/d/api/v1/me').then((found) => found.json())")
    page.route("**/api/v1/me", lambda route: route.fulfill(json={**me, "userId": "bob"}))
    held: list[Route] = []
    page.route("**/agent/v1/runs?*", lambda route: held.append(route))  # noqa: PLW0108  (as above)
    with page.expect_response("**/api/v1/me"):
        page.locator("acme-studio").evaluate("(one) => { one.getToken = () => null; }")
    page.go_back()
    expect(page.locator("acme-runs .skeleton").first).to_be_visible()
    expect(page.locator("acme-runs .line")).to_have_count(0)
    eventually(lambda: held)


def test_the_product_keeps_its_place(open_page: Open, origin: str) -> None:
    """Without a base path it is in the attribute `route`; the product can refuse to leave it."""
    page = open_page("/white/own", token=None, origin=origin)
    studio = page.locator("acme-studio")
    page.evaluate("""() => {
      window.seen = [];
      addEventListener('acme-navigate', (event) => {
        seen.push([event.target.localName, event.detail.route]);
        if (window.refuse) event.preventDefault();
      });
    }""")
    entry(page, "Inbox").click()
    expect(studio).to_have_attribute("route", "inbox")
    page.evaluate("window.refuse = true")
    entry(page, "Workflows").click()
    expect(page.locator("acme-inbox").get_by_text("Publish release d?")).to_be_visible()
    studio.evaluate("(one) => one.setAttribute('route', 'members/zoe')")
    expect(page.locator("acme-administration aside dl")).to_be_visible()
    assert page.url == f"{origin}/white/own"
    assert page.evaluate("seen") == [["acme-studio", "inbox"], ["acme-studio", "workflows"]]
    studio.evaluate("""(one) => {
      one.links = [{ text: 'Help', url: '/help' }];
      one.labels = { 'nav.inbox': 'Waiting' };
      one.setAttribute('locale', 'de');
      one.setAttribute('readonly', '');
      one.setAttribute('color-scheme', 'dark');
      one.setAttribute('heading', '');
    }""")
    expect(entry(page, "Help")).to_be_visible()
    expect(entry(page, "Waiting")).to_be_visible()
    expect(page.locator("acme-administration").get_by_role("heading", name="Personen")).to_be_visible()
    expect(page.locator("acme-administration .button.primary")).to_have_count(0)
    expect(page.locator(".brand")).to_have_count(0)
    scheme = "(one) => getComputedStyle(one).colorScheme"
    assert page.locator("acme-administration").evaluate(scheme) == "dark"


@pytest.mark.parametrize("appearance", slice_of(APPEARANCES, 2))
def test_accessible(open_page: Open, origin: str, appearance: str) -> None:
    page = open_page("/white/hash", token=None, origin=origin, **APPEARANCES[appearance])
    for name, row in (("runs", ".line"), ("inbox", ".request")):
        page.evaluate("(to) => { location.hash = to; }", f"#/{name}")
        expect(page.locator(f"acme-{name} {row}").first).to_be_visible()
        check_accessibility(page)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
