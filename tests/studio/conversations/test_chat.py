"""The element `wfcore-chat` in a real browser: Markdown, tools, subordinates, requests, attachments and threads."""

import re
from typing import Any

import pytest
from appearance import APPEARANCES, check_accessibility
from playwright.sync_api import Page, Route, expect
from servers import eventually
from slices import slice_of
from test_chat_page import idle, opened, say
from test_hostile import check
from test_keyboard import tab_to
from watching import Open


def chat(open_page: Open, chats: dict[str, Any], query: str, **options: Any) -> Page:
    """The page of the studio, signed in."""
    return open_page(f"/studio/chat{query}", token=chats["token"], origin=chats["url"], **options)


def test_markdown(open_page: Open, chats: dict[str, Any]) -> None:
    """Formatted text without markup; links open elsewhere without a reference to this page; no image is loaded."""
    page = chat(open_page, chats, f"?skillId={chats['helper']}")
    say(page, "markdown please")
    log = page.locator(".md").last
    expect(log.locator("strong")).to_have_text("bold")
    expect(log.locator("td").last).to_have_text("40 & more")
    expect(log.locator("pre")).to_have_text('print("<b>hi</b>")')
    link = log.get_by_role("link", name="link")
    expect(link).to_have_attribute("href", "https://example.com/x?a=1&b=2")
    expect(link).to_have_attribute("rel", "noopener noreferrer nofollow")
    expect(log.get_by_role("link", name="a chart")).to_have_attribute("href", "https://evil.test/p.png")
    expect(log.locator("img")).to_have_count(0)


def test_hostile_texts(open_page: Open, chats: dict[str, Any]) -> None:
    """Answers, messages, names and files with markup stay text, and nothing is requested elsewhere."""
    page = chat(open_page, chats, f"?skillId={chats['helper']}")
    name = "<img src=x onerror=alert(1)>\u202egnp.txt"
    page.get_by_label("Attach images or texts").set_input_files(
        {"name": name, "mimeType": "text/html", "buffer": b"<b>"}
    )
    expect(page.locator(".composer .tag")).to_contain_text("<img src=x onerror=alert(1)>\\u202egnp.txt")
    say(page, "evil <script>alert(1)</script>")
    expect(page.locator(".md")).to_contain_text("<img src=x onerror=alert(1)>")
    expect(page.locator(".md")).to_contain_text("\\u202egnp.exe")
    idle(page)
    check(page)
    hrefs = page.locator(".md a").evaluate_all("all => all.map((one) => one.protocol)")
    assert set(hrefs) <= {"https:"}
    page.reload()
    expect(page.locator(".md")).to_contain_text("<img src=x onerror=alert(1)>")
    check(page)


def test_a_very_long_text(open_page: Open, chats: dict[str, Any]) -> None:
    """A megabyte of nested markup is shown as it was written, at first its beginning, and the page still responds."""
    page = chat(open_page, chats, f"?skillId={chats['helper']}")
    say(page, "huge")
    expect(page.locator(".md .text")).to_contain_text(">>>…")
    expect(page.get_by_role("button", name="Show all")).to_be_visible()
    idle(page)
    check(page)
    say(page, "and now?")
    expect(page.locator(".bubble").last).to_have_text("Answer:You said: and now?")


@pytest.mark.parametrize("appearance", ["light", "phone"])
def test_the_lists_are_accessible(open_page: Open, chats: dict[str, Any], appearance: str) -> None:
    """The choice of a partner, and the skills."""
    for path, ready in (("chat", ".partners button"), ("skills", ".line")):
        page = open_page(f"/studio/{path}", token=chats["token"], origin=chats["url"], **APPEARANCES[appearance])
        expect(page.locator(ready).first).to_be_visible()
        check_accessibility(page)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_partners_that_cannot_be_read(open_page: Open, chats: dict[str, Any]) -> None:
    """The choice says that the skills are missing, and reads them again on demand."""
    page = open_page("/studio/skills", token=chats["token"], origin=chats["url"])
    page.route(re.compile(r"/api/v1/skills\?"), lambda route: route.abort())
    page.get_by_role("navigation").get_by_role("link", name="Chat").click()
    expect(page.get_by_role("alert")).to_contain_text("The server cannot be reached")
    expect(page.locator(".partners button")).to_have_count(1)
    page.unroute_all()
    page.get_by_role("button", name="Try again").click()
    expect(page.locator(".partners button", has_text="Helper")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)


def test_attachments(open_page: Open, chats: dict[str, Any]) -> None:
    """They are uploaded before the message is sent; what the server does not accept says why and is not sent."""
    page = chat(open_page, chats, f"?skillId={chats['helper']}")
    files = [
        {"name": "order.txt", "mimeType": "text/plain", "buffer": b"Order 7: one chair"},
        {"name": "bad.bin", "mimeType": "application/octet-stream", "buffer": bytes(range(256))},
    ]
    page.get_by_label("Attach images or texts").set_input_files(files)  # type: ignore[arg-type]
    expect(page.locator(".composer .tag.bad")).to_contain_text("bad.bin")
    page.get_by_role("button", name="Remove bad.bin").click()
    expect(page.get_by_label("Message", exact=True)).to_be_focused()
    say(page, "what is it?")
    expect(page.locator(".bubble.own .files")).to_have_text("order.txt")
    expect(page.locator(".composer .tag")).to_have_count(0)
    expect(page.locator(".bubble").last).to_contain_text("You said: what is it?")
    idle(page)
    page.reload()
    expect(page.locator(".bubble.own .files")).to_have_text("order.txt")


def test_tool_calls_are_folded(open_page: Open, chats: dict[str, Any]) -> None:
    page = chat(open_page, chats, f"?skillId={chats['helper']}")
    say(page, "use twice")
    expect(page.locator(".bubble").last).to_have_text("Answer:Done: use twice")
    steps = page.locator("details.steps")
    expect(steps.locator(".json").first).not_to_be_visible()
    steps.get_by_text("2 steps").click()
    steps.get_by_text("Transform").first.click()
    expect(steps.locator(".json").first).to_contain_text("use twice")


def test_several_requests_at_once(open_page: Open, chats: dict[str, Any]) -> None:
    """Each has its exact arguments and its own decision, by keyboard alone; the focus goes to the next at once."""
    slow = "const timer = setTimeout; window.setTimeout = (call, ms) => timer(call, ms === 60 ? 1e9 : ms);"
    page = chat(open_page, chats, f"?skillId={chats['careful']}", script=slow)
    expect(page.get_by_label("Message", exact=True)).to_be_focused()
    page.keyboard.type("use twice")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Approve")).to_have_count(2)
    idle(page)
    check_accessibility(page)
    tab_to(page, lambda name: name == "Approve", "Shift+Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Approve")).to_have_count(1)
    expect(page.get_by_role("button", name="Approve")).to_be_focused()
    tab_to(page, lambda name: name == "Deny")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Deny")).to_have_count(0)
    expect(page.locator(".bubble").last).to_contain_text("Done:")
    expect(page.get_by_label("Message", exact=True)).to_be_focused()


def test_a_missing_connection(open_page: Open, chats: dict[str, Any]) -> None:
    """The request shows where the connection is authorized; the run can go on without it."""
    page = chat(open_page, chats, f"?skillId={chats['seller']}")
    say(page, "use the CRM")
    link = page.locator(".asked").get_by_role("link", name="Authorize in a new tab")
    expect(link).to_have_attribute("href", re.compile("^https?://"))
    expect(link).to_have_attribute("rel", "noopener noreferrer")
    page.get_by_role("button", name="Do not connect").click()
    expect(page.locator(".bubble").last).to_contain_text("Done:")


def test_subordinates_have_their_names(open_page: Open, chats: dict[str, Any]) -> None:
    page = opened(open_page, chats, "boss")
    say(page, "use them")
    expect(page.locator(".bubble.helper .who").first).to_have_text("Clerk of <b>books</b>")
    expect(page.locator(".bubble:not(.helper)").last).to_contain_text("Done: Done:")
    check(page)


def test_the_assistant(open_page: Open, chats: dict[str, Any]) -> None:
    """It hands work to a skill, and shows which one."""
    page = chat(open_page, chats, "?assistant=true")
    expect(page.get_by_role("heading", name="Assistant")).to_be_visible()
    say(page, "use somebody")
    expect(page.locator(".bubble.helper .who").first).to_have_text("Helper")
    expect(page.locator(".bubble:not(.helper)").last).to_contain_text("Done: Done:")


def test_the_address_leads_to_the_thread(open_page: Open, chats: dict[str, Any]) -> None:
    """From the choice of a partner to a chat whose address opens it again."""
    page = chat(open_page, chats, "")
    page.get_by_role("button", name=re.compile("^Helper")).click()
    say(page, "remember this")
    expect(page).to_have_url(re.compile(r"skillId=\d+&sessionId=\w+$"))
    idle(page)
    again = open_page(page.url.removeprefix(chats["url"]), token=chats["token"], origin=chats["url"])
    expect(again.locator(".bubble.own")).to_have_text("You:remember this")


def test_a_run_can_be_stopped(open_page: Open, chats: dict[str, Any]) -> None:
    page = chat(open_page, chats, f"?skillId={chats['helper']}")
    say(page, "slowly")
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_text("Cancelled.")).to_be_visible()
    idle(page)


def test_a_run_can_be_stopped_before_it_has_begun(open_page: Open, chats: dict[str, Any]) -> None:
    held: list[Route] = []
    page = chat(open_page, chats, f"?skillId={chats['helper']}")
    page.route("**/agent/v1/runs", lambda route: held.append(route) if is_start(route) else route.fallback())
    with page.expect_request(lambda request: request.method == "POST"):
        say(page, "slowly")
    page.get_by_role("button", name="Stop").click()
    for route in held:
        route.continue_()
    expect(page.get_by_text("Cancelled.")).to_be_visible()
    idle(page)


@pytest.mark.parametrize("text", ["slowly", "markdown please"])
def test_a_message_sent_while_the_chat_is_read(open_page: Open, chats: dict[str, Any], text: str) -> None:
    """It is shown once with its answer, although what is read then has its run too, under way or done."""
    held: list[Route] = []
    page = chat(open_page, chats, "")
    page.route("**/*", lambda route: held.append(route) if is_read(route) else route.fallback())
    page.goto(f"{chats['url']}/studio/chat?skillId={chats['helper']}")
    say(page, text)
    if text == "slowly":
        expect(page.get_by_role("button", name="Stop")).to_be_visible()
        expect(page.locator(".bubble")).to_have_count(2)
    else:
        idle(page)
    with page.expect_response(lambda response: "threadId=" in response.url):
        for route in held:
            route.continue_()
    if text == "slowly":
        page.get_by_role("button", name="Stop").click()
        idle(page)
    say(page, "markdown again")
    idle(page)
    expect(page.locator(".bubble.own")).to_have_count(2)
    expect(page.locator(".bubble")).to_have_count(4)


def is_start(route: Route) -> bool:
    return route.request.method == "POST"


def is_read(route: Route) -> bool:
    """Whether the request reads a thread: its runs or its messages."""
    return route.request.method == "GET" and (
        "threadId=" in route.request.url or "/conversations/" in route.request.url
    )


def test_a_chat_that_cannot_be_read(open_page: Open, chats: dict[str, Any]) -> None:
    """It does not look like a new one: it says so, and is read again on demand."""
    page = chat(open_page, chats, f"?skillId={chats['helper']}")
    say(page, "markdown please")
    idle(page)
    page.route("**/*", lambda route: route.fulfill(status=503) if is_read(route) else route.fallback())
    page.reload()
    failure = page.locator(".thread").get_by_role("alert")
    expect(failure).to_be_visible()
    expect(page.locator(".welcome")).to_have_count(0)
    check_accessibility(page)
    page.unroute_all()
    failure.get_by_role("button", name="Try again").click()
    expect(page.locator(".bubble")).to_have_count(2)
    expect(failure).to_have_count(0)


@pytest.mark.parametrize("appearance", slice_of(APPEARANCES, 2, 1))
def test_accessible(open_page: Open, chats: dict[str, Any], appearance: str) -> None:
    """No finding of axe with Markdown, steps and a request in sight, and nothing wider than the window."""
    page = chat(open_page, chats, f"?skillId={chats['careful']}", **APPEARANCES[appearance])
    box = page.locator("#message")
    for number, text in enumerate(("markdown", "use it"), 1):
        box.fill(text)
        box.press("Enter")
        expect(page.locator(".bubble.own")).to_have_count(number)
        expect(page.locator("wfcore-chat button[type=submit]")).to_have_text(
            "Senden" if appearance == "German" else "Send"
        )
        expect(page.locator(".log[aria-busy]")).to_have_count(0)
    expect(page.locator(".asked.open")).to_be_visible()
    page.locator("details.steps > summary").first.click()
    check_accessibility(page)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_older_messages_leave_what_is_read_in_its_place(open_page: Open, chats: dict[str, Any]) -> None:
    """They are added above; the message that was the first stays where it was in the window."""

    def answer(route: Route) -> None:
        begin = 0 if "pageToken" in route.request.url else 40
        texts = [f"Message {number}" for number in range(begin, begin + 40)]
        messages = [{"type": "ai", "content": text, "id": f"r:{text}", "toolCalls": []} for text in texts]
        token = None if "pageToken" in route.request.url else "older"
        route.fulfill(json={"threadId": "t", "skillId": 1, "messages": messages, "nextPageToken": token})

    page = chat(open_page, chats, "?skillId=1&sessionId=none")
    page.route(re.compile(r"/conversations/[^?]"), answer)
    page.goto(f"{chats['url']}/studio/chat?skillId={chats['helper']}&sessionId=long")
    first = page.locator(".bubble").filter(has_text=re.compile(r"Message 40$"))
    expect(page.locator(".bubble")).to_have_count(40)
    expect(page.locator(".bubble").last).to_be_in_viewport()
    page.locator(".thread").evaluate("(one) => one.scrollTo(0, 0)")
    expect(first).to_be_in_viewport()
    page.get_by_role("button", name="older").click()
    expect(page.locator(".bubble")).to_have_count(80)
    expect(first).to_be_in_viewport()


def test_messages_out_of_sight_of_a_long_chat_are_not_laid_out(open_page: Open, chats: dict[str, Any]) -> None:
    """Of 500 only some where one reads; all stay in the document, as for a search, and are printed."""
    texts = [f"Message {number}" + "\n\nand more" * (number % 5) for number in range(500)]
    messages = [{"type": "ai", "content": text, "id": f"r:{text}", "toolCalls": []} for text in texts]
    whole = {"threadId": "t", "skillId": 1, "messages": messages, "nextPageToken": None}
    page = chat(open_page, chats, "?skillId=1&sessionId=none")
    page.route(re.compile(r"/conversations/[^?]"), lambda route: route.fulfill(json=whole))
    page.goto(f"{chats['url']}/studio/chat?skillId={chats['helper']}&sessionId=long")
    expect(page.locator(".bubble")).to_have_count(500)
    thread = page.locator(".thread")

    def laid_out(number: int) -> bool:
        text = page.locator(".bubble").nth(number).locator("p").first
        return bool(text.evaluate("(one) => one.checkVisibility({ contentVisibilityAuto: true })"))

    eventually(lambda: thread.evaluate("(one) => one.scrollHeight - one.scrollTop - one.clientHeight < 2"))
    expect(page.locator(".bubble").last).to_be_in_viewport(ratio=1)
    eventually(lambda: laid_out(499) and not laid_out(0))
    thread.evaluate("(one) => one.scrollTo(0, 0)")
    eventually(lambda: laid_out(0) and not laid_out(499))
    page.emulate_media(media="print")
    eventually(lambda: laid_out(0) and laid_out(499))
