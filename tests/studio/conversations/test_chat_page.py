"""The chat page of an interface in a real browser: sign-in, forms, and what remains after a reload."""

import re
from typing import Any

import httpx
import pytest
from appearance import check_accessibility
from playwright.sync_api import Page, expect
from waiting import HANG
from watching import Open


def client(chats: dict[str, Any]) -> httpx.Client:
    headers = {"Authorization": f"Bearer {chats['token']}", "Accept": "application/json"}
    return httpx.Client(base_url=chats["url"], headers=headers, trust_env=False, timeout=HANG)


def opened(open_page: Open, chats: dict[str, Any], name: str, **options: Any) -> Page:
    """The page of this interface, signed in."""
    return open_page(chats["pages"][name], token=chats["token"], origin=chats["url"], **options)


def say(page: Page, text: str) -> None:
    page.get_by_label("Message", exact=True).fill(text)
    page.get_by_role("button", name="Send").click()


def idle(page: Page) -> None:
    """No turn is under way."""
    expect(page.get_by_role("button", name="Stop")).to_have_count(0)


def test_a_form_submits_what_was_chosen(open_page: Open, chats: dict[str, Any]) -> None:
    """Defaults stay, a choice without a default begins empty and stops a submit, and what is left empty is absent."""
    page = opened(open_page, chats, "refunds", timezone_id="Europe/Berlin")
    say(page, "refund")
    expect(page.get_by_label("Fast")).to_be_checked()
    expect(page.get_by_label("card")).not_to_be_checked()
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_label("card")).to_be_focused()
    page.get_by_label("cash").check()
    page.get_by_label("Amount").fill("11")
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_label("Amount")).to_be_focused()
    page.get_by_label("Amount").fill("2.5")
    page.get_by_label("Due").fill("2026-03-04")
    page.get_by_label("Paid at").fill("2026-03-04T10:00")
    for number in ("3", "4"):
        page.get_by_role("button", name="Add entry").click()
        page.locator(".entry input").last.fill(number)
    page.get_by_label("a", exact=True).check()
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_text("Your decision is recorded")).to_be_visible()
    expect(page.get_by_label("Message", exact=True)).to_be_focused()
    expect(page.locator(".log .json").last).to_contain_text("cash")
    with client(chats) as api:
        run = api.get("/agent/v1/runs", params={"status": "done", "workflowId": chats["workflow"]}).json()["runs"][0]
    assert (run["origin"], run["output"]) == ("chatapp", {
        "fast": True, "kind": "cash", "amount": 2.5, "due": "2026-03-04", "at": "2026-03-04T09:00:00.000Z",
        "lines": [3, 4], "marks": ["b", "a"],
    })  # fmt: skip


def test_errors_are_at_their_field(open_page: Open, chats: dict[str, Any]) -> None:
    """Those of the page and those of the server; the first one has the focus, and the form can be sent again."""
    page = opened(open_page, chats, "refunds")
    say(page, "refund")
    page.get_by_label("card").check()
    page.get_by_label("Code").fill("B1")
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_label("Code")).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_label("Code")).to_be_focused()
    check_accessibility(page)
    page.get_by_label("Code").fill("A1")
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_text("Your decision is recorded")).to_be_visible()
    expect(page.locator(".failed")).to_have_count(0)


def test_a_chat_remains_after_a_reload(open_page: Open, chats: dict[str, Any]) -> None:
    """Its messages are shown again, the conversation goes on; a new chat begins empty, and an earlier one is listed."""
    page = opened(open_page, chats, "helper")
    say(page, "first words")
    said = ["You:first words", "Answer:You said: first words"]
    expect(page.locator(".bubble")).to_have_text(said)
    idle(page)
    page.reload()
    expect(page.locator(".bubble")).to_have_text(said)
    say(page, "second words")
    expect(page.locator(".bubble")).to_have_count(4)
    idle(page)
    page.get_by_role("button", name="New chat").click()
    expect(page.locator(".bubble")).to_have_count(0)
    expect(page.get_by_label("Message", exact=True)).to_be_focused()
    page.get_by_role("button", name="Earlier chats").click()
    check_accessibility(page)
    page.get_by_role("button", name=re.compile("^first words")).click()
    expect(page.locator(".bubble")).to_have_count(4)
    expect(page.locator(".bubble").nth(2)).to_have_text("You:second words")
    page.get_by_role("button", name="New chat").click()
    page.get_by_role("button", name="Earlier chats").click()
    page.get_by_role("button", name="Delete first words").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("button", name=re.compile("first words"))).to_have_count(0)


def test_a_page_that_is_offline_waits(open_page: Open, chats: dict[str, Any]) -> None:
    """It says so, and continues at once when it is online again."""
    page = opened(open_page, chats, "helper")
    expect(page.locator(".welcome")).to_have_text("Helps with orders")
    page.context.set_offline(True)
    say(page, "hello")
    expect(page.get_by_text("You are offline.")).to_be_visible()
    page.context.set_offline(False)
    expect(page.locator(".bubble")).to_have_count(2)
    expect(page.get_by_text("You are offline.")).to_have_count(0)


def test_a_reload_joins_the_run(open_page: Open, chats: dict[str, Any]) -> None:
    """The page of a run that waits shows it again; a message that never arrived is sent once more, and only once."""
    page = opened(open_page, chats, "careful")
    expect(page.locator(".welcome")).to_be_visible()
    page.context.set_offline(True)
    say(page, "use it")
    expect(page.get_by_text("You are offline.")).to_be_visible()
    page.context.set_offline(False)
    expect(page.get_by_role("button", name="Approve")).to_be_visible()
    page.reload()
    expect(page.locator(".bubble.own")).to_have_text(["You:use it"])
    page.get_by_role("button", name="Approve").click()
    expect(page.locator(".bubble").last).to_have_text("Answer:Done: use it")
    idle(page)


def test_a_decision_elsewhere_is_followed(open_page: Open, chats: dict[str, Any]) -> None:
    """The page shows the turn that somebody else began, and its request is closed; so it is for a cancelled run."""
    page = opened(open_page, chats, "careful")
    for path, shown in (("resume", "Done: use elsewhere"), ("cancel", "Cancelled.")):
        say(page, "use elsewhere")
        expect(page.get_by_role("button", name="Approve")).to_be_visible()
        idle(page)
        with client(chats) as api:
            waiting = {"status": "interrupted", "skillId": chats["careful"]}
            runs = api.get("/agent/v1/runs", params=waiting).json()["runs"]
            run = next(one for one in runs if not one["resumedBy"])
            body = {"decision": "approve"} if path == "resume" else {}
            assert api.post(f"/agent/v1/runs/{run['runId']}/{path}", json=body).status_code in (200, 202)
        expect(page.locator(".log").get_by_text(shown)).to_be_visible()
        expect(page.get_by_role("button", name="Approve")).to_have_count(0)
        expect(page.get_by_text("This was decided").last).to_be_visible()


def test_a_credential_that_can_only_invoke(open_page: Open, chats: dict[str, Any]) -> None:
    """The chat works without what it cannot read: messages, requests and decisions; after a reload it begins empty."""
    with client(chats) as api:
        body = {"name": "chat only", "scopes": ["workflows:invoke"]}
        token = api.post("/api/v1/tokens", json=body).json()["token"]
    page = opened(open_page, {**chats, "token": token}, "careful")
    say(page, "use it alone")
    page.get_by_role("button", name="Approve").click()
    expect(page.locator(".bubble").last).to_have_text("Answer:Done: use it alone")
    idle(page)
    page.reload()
    expect(page.locator(".welcome")).to_be_visible()
    expect(page.get_by_label("Message", exact=True)).to_be_focused()


DENIED = """for (const name of ['sessionStorage', 'localStorage', 'BroadcastChannel']) {
  Object.defineProperty(window, name, { get() { throw new DOMException('denied', 'SecurityError'); } });
}"""
"""As in a browser that lets a page in a frame keep nothing."""


def test_a_page_without_storage_is_a_chat(open_page: Open, chats: dict[str, Any]) -> None:
    """The sign-in and the message under way are those of the open page: a reload begins with a sign-in."""
    page = open_page(chats["pages"]["helper"], token=None, origin=chats["url"], script=DENIED)
    page.get_by_label("Access token").fill(chats["token"])
    page.get_by_role("button", name="Sign in").click()
    say(page, "kept nowhere")
    expect(page.get_by_text("You said: kept nowhere")).to_be_visible()
    page.reload()
    expect(page.get_by_label("Access token")).to_be_visible()


def test_one_sign_in_for_all_tabs(open_page: Open, chats: dict[str, Any]) -> None:
    """A new tab asks the open ones; a sign-out ends the session of all. Nothing is kept but in the tabs."""
    first = open_page(chats["pages"]["helper"], token=None, origin=chats["url"])
    field = first.get_by_label("Access token")
    field.fill("svc_wrong")
    first.keyboard.press("Enter")
    expect(first.get_by_text("This token is not valid")).to_be_visible()
    second = first.context.new_page()
    second.goto(f"{chats['url']}/studio/chat")
    expect(second.get_by_label("Access token")).to_be_visible()
    field.fill(chats["token"])
    first.keyboard.press("Enter")
    expect(first.get_by_role("heading", name="Helper")).to_be_visible()
    assert first.title() == "Helper"
    expect(second.get_by_role("button", name="Assistant")).to_be_visible()
    third = first.context.new_page()
    third.goto(chats["url"] + chats["pages"]["careful"])
    expect(third.get_by_role("heading", name="Careful")).to_be_visible()
    assert first.evaluate("localStorage.length") == 0
    third.get_by_role("button", name="Sign out").click()
    for page in (first, second, third):
        expect(page.get_by_label("Access token")).to_be_visible()
        assert page.evaluate("sessionStorage.getItem('studio-token')") is None


@pytest.mark.parametrize("path", ["/studio/chat?skillId={helper}", "{pages[helper]}"])
def test_a_message_outlives_its_token(open_page: Open, chats: dict[str, Any], path: str) -> None:
    """What was said, and what is typed, is there after the sign-in, which sends what was refused."""
    with client(chats) as owner:
        scopes = owner.get("/api/v1/me").json()["scopes"]
        token = owner.post("/api/v1/tokens", json={"name": "A chat", "scopes": scopes}).json()
        page = open_page(path.format(**chats), token=token["token"], origin=chats["url"])
        box = page.get_by_label("Message", exact=True)
        box.fill("first")
        page.keyboard.press("Enter")
        expect(page.locator(".bubble").last).to_contain_text("You said: first")
        idle(page)
        page.route("**/api/v1/changes*", lambda route: route.abort())  # the page learns of it by the message
        owner.delete(f"/api/v1/tokens/{token['id']}").raise_for_status()
    box.fill("second")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Your session has ended")).to_be_visible()
    page.get_by_label("Access token").fill(chats["token"])
    page.keyboard.press("Enter")
    expect(page.locator(".bubble").last).to_contain_text("You said: second")
    expect(page.locator(".bubble.own")).to_have_count(2)


def test_a_sign_out_reaches_a_tab_that_shows_something_else(open_page: Open, chats: dict[str, Any]) -> None:
    """It is signed out when it comes back; a new sign-in there counts again."""
    first = open_page("/studio/runs", token=None, origin=chats["url"], others=("about:",))
    first.get_by_label("Access token").fill(chats["token"])
    first.keyboard.press("Enter")
    expect(first.get_by_role("heading", name="Runs")).to_be_visible()
    second = first.context.new_page()
    second.goto(f"{chats['url']}/studio/runs")
    expect(second.get_by_role("heading", name="Runs")).to_be_visible()
    first.goto("about:blank")
    second.get_by_role("button", name="Sign out").click()
    expect(second.get_by_label("Access token")).to_be_visible()
    first.go_back()
    expect(first.get_by_label("Access token")).to_be_visible()
    assert first.evaluate("sessionStorage.getItem('studio-token')") is None
    first.get_by_label("Access token").fill(chats["token"])
    first.keyboard.press("Enter")
    expect(second.get_by_role("heading", name="Runs")).to_be_visible()
    for page in (first, second):
        page.reload()
        expect(page.get_by_role("heading", name="Runs")).to_be_visible()


MEASURED = """(box) => {
  const thread = box.getRootNode().querySelector('.thread');
  const { get } = Object.getOwnPropertyDescriptor(Element.prototype, 'scrollHeight');
  window.heights = [thread.clientHeight];
  const measure = () => (window.heights.push(thread.clientHeight), get.call(box));
  Object.defineProperty(box, 'scrollHeight', { get: measure });
}"""


def test_typing_does_not_lay_out_the_messages(open_page: Open, chats: dict[str, Any]) -> None:
    """While the height of what is typed is measured, the part with the messages keeps its own."""
    page = opened(open_page, chats, "helper")
    box = page.get_by_label("Message", exact=True)
    box.fill("one")
    low = box.evaluate("(box) => box.offsetHeight")
    box.fill("one\ntwo\nthree\nfour")
    box.evaluate(MEASURED)
    box.press_sequentially(" five")
    heights = page.evaluate("window.heights")
    assert len(heights) > 5
    assert len(set(heights)) == 1
    assert box.evaluate("(box) => box.offsetHeight") > 2 * low
    box.fill("one")
    assert box.evaluate("(box) => box.offsetHeight") == low
