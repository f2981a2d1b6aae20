"""What becomes of open pages when their session ends: by a token that is refused, and by a sign-out."""

from typing import Any

import demo
import httpx
import pytest
from appearance import check_accessibility
from playwright.sync_api import Page, Route, expect
from servers import ORG, Server, eventually, wfcore
from watching import Open

EXPIRED = "Your session has ended"


@pytest.fixture
def token(server: Server) -> dict[str, Any]:
    """A further token of the user of the tests."""
    return made(server)


def made(server: Server) -> dict[str, Any]:
    with server.client() as client:
        scopes = client.get("/api/v1/me").json()["scopes"]
        found: dict[str, Any] = client.post("/api/v1/tokens", json={"name": "A page", "scopes": scopes}).json()
        return found


def of_somebody_else(server: Server, client: httpx.Client, user: str) -> str:
    client.post("/api/v1/members", json={"userId": user, "role": "admin"})
    whose = ("--org", ORG, "--user-id", user, "--all-scopes", "--database", server.database)
    return wfcore("token", "create", *whose)


def revoke(server: Server, token: dict[str, Any]) -> None:
    with server.client() as client:
        assert client.delete(f"/api/v1/tokens/{token['id']}").status_code in (200, 204)


def sign_in(page: Page, token: str) -> None:
    page.get_by_label("Access token").fill(token)
    page.keyboard.press("Enter")
    expect(page.get_by_label("Access token")).to_have_count(0)


def asking(client: httpx.Client) -> tuple[str, str]:
    """A run, and its request for approval with a form."""
    form = {"type": "object", "properties": {"reason": {"type": "string", "title": "Reason"}}}
    ask = demo.node("ask", "humanApproval", message="Go on?", formSchema=form)
    run_id = demo.run(client, demo.workflow(client, "Asking", demo.graph([ask], ("start", "ask"))))
    return run_id, str(demo.settle(client, run_id)["interrupts"][0]["interruptId"])


def test_a_form_outlives_its_token(open_page: Open, server: Server, token: dict[str, Any]) -> None:
    """Its page says that the session has ended, hides what it shows, and goes on after a sign-in: with the decision."""
    with server.client() as client:
        run_id, request = asking(client)
        page = open_page(f"/studio/inbox/{request}", token=token["token"])
        page.get_by_label("Reason").fill("late delivery")
        page.route("**/api/v1/changes*", lambda route: route.abort())  # the page learns of it by the decision
        revoke(server, token)
        page.get_by_role("button", name="Approve").click()
        expect(page.get_by_text(EXPIRED)).to_be_visible()
        check_accessibility(page)
        page.keyboard.press("Escape")
        page.keyboard.press("Escape")
        page.get_by_label("Access token").fill("svc_wrong")
        page.keyboard.press("Enter")
        expect(page.get_by_text("This token is not valid")).to_be_visible()
        sign_in(page, made(server)["token"])
        expect(page.get_by_text("Your decision is recorded")).to_be_visible()
        resumed = client.get(f"/agent/v1/runs/{run_id}").json()["resumedBy"]
        assert "late delivery" in client.get(f"/agent/v1/runs/{resumed}/events").text
    assert page.url.endswith(f"/studio/inbox/{request}")
    assert page.evaluate("localStorage.length") == 0


def test_pages_learn_that_their_token_is_revoked(open_page: Open, server: Server, token: dict[str, Any]) -> None:
    """Without an action of the user, and they are live again after the sign-in."""
    page = open_page("/studio/workflows", token=token["token"])
    expect(page.get_by_label("Search workflows")).to_be_visible()
    page.get_by_label("Search workflows").fill("named after")
    revoke(server, token)
    expect(page.get_by_text(EXPIRED)).to_be_visible()
    sign_in(page, server.token)
    expect(page.get_by_label("Search workflows")).to_have_value("named after")
    expect(page.get_by_label("Search workflows")).to_be_focused()
    with server.client() as client:
        demo.workflow(client, "Named after the sign-in", demo.QUICK)
    expect(page.locator(".line", has_text="Named after the sign-in")).to_be_visible()


def test_a_refusal_that_comes_late(open_page: Open, server: Server, token: dict[str, Any]) -> None:
    """A response of before, after the page has learned that its session has ended, loses nothing of it either."""
    page = open_page("/studio/groups", token=token["token"])
    page.get_by_role("button", name="New group").first.click()
    page.get_by_label("Name").fill("Typed before")
    held: list[Route] = []
    seen: list[Route] = []

    def late(route: Route) -> None:
        """The first request is refused, then the one with the same token again: only that is held."""
        if route.request.method != "POST":
            return route.continue_()
        seen.append(route)
        return held.append(route) if len(seen) == 2 else route.fulfill(status=401, json={"error": {"message": "no"}})

    page.route("**/api/v1/groups*", late)
    page.get_by_role("button", name="Create", exact=True).click()
    eventually(lambda: page.evaluate("true") and held)  # Playwright calls the handler in its own calls
    revoke(server, token)
    expect(page.get_by_text(EXPIRED)).to_be_visible()
    with page.expect_response("**/api/v1/me"):
        held[0].fulfill(status=401, json={"error": {"message": "no"}})
    page.unroute("**/api/v1/groups*")
    expect(page.get_by_text(EXPIRED)).to_be_visible()
    sign_in(page, server.token)
    expect(page.locator(".line", has_text="Typed before")).to_be_visible()


def test_a_sign_in_of_somebody_else_shows_nothing_of_before(
    open_page: Open, server: Server, token: dict[str, Any]
) -> None:
    with server.client() as client:
        _, request = asking(client)
        other = of_somebody_else(server, client, "next-user")
    page = open_page(f"/studio/inbox/{request}", token=token["token"])
    page.get_by_label("Reason").fill("mine alone")
    revoke(server, token)
    expect(page.get_by_text(EXPIRED)).to_be_visible()
    sign_in(page, other)
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()
    expect(page.get_by_label("Reason")).to_have_value("")


@pytest.mark.parametrize("signed_in_again", [False, True])
def test_a_page_of_the_back_forward_cache(open_page: Open, server: Server, signed_in_again: bool) -> None:
    """One that is restored after a sign-out shows nothing, or what the present session may see."""
    page = open_page("/studio/runs")
    expect(page.get_by_role("heading", name="Runs")).to_be_visible()
    page.evaluate("sessionStorage.removeItem('studio-token')")
    if signed_in_again:
        with server.client() as client:
            other = of_somebody_else(server, client, "back-user")
        page.evaluate("(token) => sessionStorage.setItem('studio-token', token)", other)
    page.evaluate("dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))")
    if signed_in_again:
        expect(page.get_by_text("back-user")).to_be_visible()
        expect(page.get_by_role("heading", name="Runs")).to_be_visible()
    else:
        expect(page.get_by_label("Access token")).to_be_visible()
        expect(page.get_by_role("heading", name="Runs")).to_have_count(0)
