"""What becomes of pages whose credential is the cookie of a product when its session ends: nothing typed is lost."""

from typing import Any

import httpx
import pytest
from appearance import check_accessibility
from playwright.sync_api import Page, expect
from servers import eventually
from waiting import HANG
from watching import Open

EXPIRED = "Your session has ended"


@pytest.fixture
def origin(product: dict[str, Any]) -> str:
    return f"http://127.0.0.1:{product['port']}"


def sign_in(page: Page, origin: str) -> None:
    page.context.add_cookies([{"name": "session", "value": "zoe", "url": origin}])


def fill_in(page: Page, name: str) -> Any:
    """A form of a new group, as far as it can be filled in before the session ends."""
    page.get_by_role("button", name="New group").first.click()
    page.get_by_label("Name").fill(name)
    return page.get_by_role("button", name="Create", exact=True)


def groups(origin: str) -> list[str]:
    found = httpx.get(f"{origin}/d/api/v1/groups", cookies={"session": "zoe"}, trust_env=False, timeout=HANG).json()
    return [each["name"] for each in found["groups"]]


@pytest.mark.parametrize("way", ["button", "return"])
def test_a_page_goes_on_when_the_product_has_signed_its_user_in(open_page: Open, origin: str, way: str) -> None:
    """On demand, or as soon as the user comes back to it; what was refused is then sent once."""
    page = open_page("/", token=None, origin=origin)
    page.goto(f"{origin}/d/studio/groups")
    create = fill_in(page, f"By {way}")
    page.context.clear_cookies()
    create.dispatch_event("click")  # the page may have learned it already, which covers the button
    expect(page.get_by_text(EXPIRED)).to_be_visible()
    expect(page.get_by_role("dialog").get_by_role("button", name="Continue")).to_be_visible()
    check_accessibility(page)
    with page.expect_response("**/api/v1/me"):
        page.get_by_role("button", name="Continue").click()
    expect(page.get_by_text(EXPIRED)).to_be_visible()
    sign_in(page, origin)
    if way == "button":
        page.get_by_role("button", name="Continue").click()
    else:
        page.evaluate("dispatchEvent(new Event('focus'))")
    expect(page.get_by_text(EXPIRED)).to_have_count(0)
    expect(page.locator(".line", has_text=f"By {way}")).to_be_visible()
    assert groups(origin).count(f"By {way}") == 1


def test_a_session_of_somebody_else_shows_nothing_of_before(open_page: Open, origin: str) -> None:
    page = open_page("/", token=None, origin=origin)
    page.goto(f"{origin}/d/studio/groups")
    create = fill_in(page, "Mine alone")
    page.context.clear_cookies()
    create.dispatch_event("click")  # the page may have learned it already, which covers the button
    expect(page.get_by_text(EXPIRED)).to_be_visible()
    page.route("**/api/v1/me", lambda route: route.fulfill(json={**route.fetch().json(), "userId": "yan"}))
    sign_in(page, origin)
    # A check that is under way can continue the page too: the button would go away before it is clicked.
    came_back = "() => dispatchEvent(new Event('focus'))"
    eventually(lambda: page.evaluate(came_back) and page.get_by_text(EXPIRED).count() == 0)
    expect(page.get_by_role("heading", name="Groups")).to_be_visible()
    expect(page.get_by_label("Name")).to_have_count(0)
    assert "Mine alone" not in groups(origin)


@pytest.mark.parametrize("waits", [True, False])
def test_elements_of_a_product_keep_what_was_typed(open_page: Open, origin: str, waits: bool) -> None:
    """They report the 401; the product can let them wait: `getToken` resolves with null after its sign-in."""
    page = open_page("/white/own", token=None, origin=origin)
    studio = page.locator("acme-studio")
    studio.evaluate(
        """(one, waits) => {
          window.required = 0;
          let renewed = null;
          if (waits) one.getToken = async () => { await renewed; return null; };
          addEventListener('acme-auth-required', (event) => {
            window.required++;
            renewed ??= new Promise((resolve) => { window.signedIn = resolve; });
            if (waits) event.preventDefault();
          });
          one.setAttribute('route', 'groups');
        }""",
        waits,
    )
    name = f"Of a product {waits}"
    create = fill_in(page, name)
    page.context.clear_cookies()
    create.click()
    eventually(lambda: page.evaluate("window.required > 0"))
    expect(page.get_by_label("Name")).to_have_value(name)
    sign_in(page, origin)
    if waits:
        page.evaluate("window.signedIn()")
    else:
        expect(create).to_be_enabled()
        create.click()
    expect(page.locator(".line", has_text=name)).to_be_visible()
    assert groups(origin).count(name) == 1
