"""What is typed and not sent: a form is not left without the consent of the user, messages and answers are kept."""

import re
from typing import Any

import pytest
from appearance import APPEARANCES, check_accessibility
from playwright.sync_api import Locator, Page, expect
from servers import Server
from slices import slice_of
from test_chat import chat
from test_chat_page import idle, say
from test_forms import answer, asked
from test_keyboard import tab_to
from test_sessions import EXPIRED, asking, made, of_somebody_else, revoke, sign_in
from test_skill import opened, skill, tab
from watching import Open

ASKS_OF_UNLOAD = "() => !dispatchEvent(new Event('beforeunload', { cancelable: true }))"


@pytest.fixture(scope="module")
def groups(server: Server) -> list[str]:
    """The ids of two groups, Alpha and Beta."""
    with server.client() as client:
        return [client.post("/api/v1/groups", json={"name": name}).json()["id"] for name in ("Alpha", "Beta")]


def question(page: Page) -> Locator:
    return page.get_by_role("dialog", name="Leave without saving?")


def say_so(page: Page, choice: str) -> None:
    question(page).get_by_role("button", name=choice).click()
    expect(question(page)).to_have_count(0)


def entry(page: Page, name: str) -> Locator:
    return page.get_by_role("navigation", name="Main").get_by_role("link", name=re.compile(f"^{name}"))


def row(page: Page, name: str) -> Locator:
    return page.locator(".record").filter(has_text=name)


def edit_alpha(page: Page) -> Locator:
    """The field of a changed group."""
    row(page, "Alpha").click()
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Name").fill("Alpha and more")
    return page.get_by_label("Name")


LEAVES = {
    "row": lambda page: row(page, "Beta").click(),
    "new": lambda page: page.get_by_role("button", name="New group").click(),
    "close": lambda page: page.get_by_role("button", name="Close").click(),
    "section": lambda page: entry(page, "Policies").click(),
    "Back": lambda page: page.evaluate("history.back()"),
    "Forward": lambda page: page.evaluate("history.forward()"),
}


@pytest.mark.parametrize("way", LEAVES)
def test_a_changed_record_is_not_lost_unasked(open_page: Open, groups: list[str], way: str) -> None:
    """The page stays, with the address, what was typed and the focus; or it goes on to where the user wanted."""
    page = open_page("/studio/groups")
    field = edit_alpha(page)
    if way == "Forward":
        page.get_by_role("button", name="Cancel").click()
        entry(page, "Hooks").click()
        expect(page.get_by_role("heading", name="Hooks")).to_be_visible()
        page.evaluate("history.back()")
        expect(row(page, "Alpha")).to_be_visible()
        page.get_by_role("button", name="Edit").click()
        field.fill("Alpha and more")
    for stays in ("Escape", "button"):
        LEAVES[way](page)
        expect(question(page).get_by_role("button", name="Stay")).to_be_focused()
        page.keyboard.press("Escape") if stays == "Escape" else say_so(page, "Stay")
        expect(question(page)).to_have_count(0)
        expect(page).to_have_url(re.compile(f"/studio/groups/{groups[0]}$"))
        expect(field).to_have_value("Alpha and more")
    if way in ("Back", "Forward"):
        expect(field).to_be_focused()
    LEAVES[way](page)
    say_so(page, "Discard")
    {
        "row": lambda: expect(page.locator("aside dl")).to_contain_text(groups[1]),
        "new": lambda: expect(field).to_have_value(""),
        "close": lambda: expect(page).to_have_url(re.compile("/studio/groups$")),
        "section": lambda: expect(page.get_by_role("heading", name="Policies")).to_be_visible(),
        "Back": lambda: expect(page.locator("aside")).to_be_hidden(),
        "Forward": lambda: expect(page.get_by_role("heading", name="Hooks")).to_be_visible(),
    }[way]()  # fmt: skip
    assert page.evaluate(ASKS_OF_UNLOAD) is False


def test_a_new_record_is_not_lost_unasked(open_page: Open, server: Server, groups: list[str]) -> None:
    """Nor is a question asked before something is typed, once it is undone or saved, or by a cancel."""
    page = open_page(f"/studio/groups/{groups[0]}")
    new = page.get_by_role("button", name="New group")
    for name, shown in (("Beta", groups[1]), ("Beta", groups[1])):  # nothing typed, and the record that is open already
        new.click()
        expect(page.get_by_label("Name")).to_be_focused()
        row(page, name).click()
        expect(page.locator("aside dl")).to_contain_text(shown)
    new.click()
    page.get_by_label("Name").fill("Gamma")
    new.click()  # it is open
    expect(page.get_by_label("Name")).to_have_value("Gamma")
    assert page.evaluate(ASKS_OF_UNLOAD) is True
    row(page, "Beta").click()
    say_so(page, "Stay")
    expect(row(page, "Beta")).to_be_focused()
    page.get_by_label("Name").fill("")
    assert page.evaluate(ASKS_OF_UNLOAD) is False
    entry(page, "Hooks").click()
    expect(page.get_by_role("heading", name="Hooks")).to_be_visible()
    page.evaluate("history.back()")
    new.click()
    page.get_by_label("Name").fill("Gamma")
    page.get_by_role("button", name="Create").click()
    expect(page.locator("aside dl")).to_be_visible()
    expect(row(page, "Gamma")).to_be_visible()
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Name").fill("Gamma 2")
    page.get_by_role("button", name="Save").click()
    expect(row(page, "Gamma 2")).to_be_visible()
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Name").fill("Gamma 3")
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("button", name="Edit")).to_be_focused()
    entry(page, "Hooks").click()
    expect(page.get_by_role("heading", name="Hooks")).to_be_visible()


def test_by_keyboard(open_page: Open, groups: list[str]) -> None:
    page = open_page("/studio/groups")
    edit_alpha(page)
    tab_to(page, lambda name: name == "Policies")
    page.keyboard.press("Enter")
    expect(question(page).get_by_role("button", name="Stay")).to_be_focused()
    page.keyboard.press("Enter")
    expect(question(page)).to_have_count(0)
    expect(entry(page, "Policies")).to_be_focused()
    page.keyboard.press("Enter")
    expect(question(page).get_by_role("button", name="Stay")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Policies")).to_be_visible()


@pytest.mark.parametrize("appearance", slice_of(APPEARANCES, 2))
def test_accessible(open_page: Open, groups: list[str], appearance: str) -> None:
    """No finding of axe on the question, which says what it is about and is in sight."""
    page = open_page(f"/studio/groups/{groups[0]}", **APPEARANCES[appearance])
    german = appearance == "German"
    page.get_by_role("button", name="Bearbeiten" if german else "Edit").click()
    page.get_by_label("Name").fill("Alpha and more")
    page.evaluate("history.pushState(null, '', '/studio/policies'); dispatchEvent(new PopStateEvent('popstate'))")
    dialog = page.get_by_role("dialog", name="Ohne Speichern verlassen?" if german else "Leave without saving?")
    for name in ("Bleiben", "Verwerfen") if german else ("Stay", "Discard"):
        expect(dialog.get_by_role("button", name=name)).to_be_in_viewport(ratio=1)
    check_accessibility(page)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_settings_of_a_skill(open_page: Open, chats: dict[str, Any]) -> None:
    """Whatever view of the skill is shown."""
    page = opened(open_page, chats, skill(chats, "Half typed"))
    tab(page, "Settings")
    page.get_by_label("Expected output").fill("typed")
    tab(page, "Memories")
    entry(page, "Inbox").click()
    say_so(page, "Stay")
    tab(page, "Settings")
    expect(page.get_by_label("Expected output")).to_have_value("typed")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Unpublished changes")).to_be_visible()
    page.get_by_label("Expected output").fill("again")
    entry(page, "Inbox").click()
    say_so(page, "Discard")
    expect(page.get_by_role("heading", name="Inbox")).to_be_visible()
    page.evaluate("history.back()")
    tab(page, "Settings")
    expect(page.get_by_label("Expected output")).to_have_value("typed")


def test_a_new_function_for_tokens_drops_nothing(open_page: Open, chats: dict[str, Any]) -> None:
    """A product can make one at each rendering of its page."""
    page = chat(open_page, chats, f"?skillId={chats['helper']}")
    message = page.get_by_label("Message", exact=True)
    message.fill("half a sen")
    with page.expect_request("**/changes"):
        page.locator("#app > *").evaluate("one => { const old = one.getToken; one.getToken = () => old(); }")
    expect(message).to_have_value("half a sen")
    entry(page, "Runs").click()
    expect(page.get_by_role("heading", name="Runs")).to_be_visible()
    page.evaluate("history.back()")
    expect(message).to_have_value("half a sen")


def test_a_message_is_kept(open_page: Open, chats: dict[str, Any]) -> None:
    """With its attachments, for its own chat, until it is sent."""
    page = chat(open_page, chats, f"?skillId={chats['helper']}")
    message = page.get_by_label("Message", exact=True)
    say(page, "first")
    idle(page)
    assert page.evaluate(ASKS_OF_UNLOAD) is False
    message.fill("half a sen")
    file = {"name": "order.txt", "mimeType": "text/plain", "buffer": b"Order 7: one chair"}
    page.get_by_label("Attach images or texts").set_input_files(file)  # type: ignore[arg-type]
    assert page.evaluate(ASKS_OF_UNLOAD) is True
    entry(page, "Runs").click()
    expect(page.get_by_role("heading", name="Runs")).to_be_visible()
    page.evaluate("history.back()")
    expect(message).to_have_value("half a sen")
    expect(page.locator(".composer .tag")).to_contain_text("order.txt")
    page.get_by_role("button", name="New chat").click()
    expect(message).to_have_value("")
    expect(page.locator(".composer .tag")).to_have_count(0)
    page.get_by_role("button", name="Earlier chats").click()
    page.get_by_role("navigation", name="Earlier chats").get_by_role("button", name=re.compile("^first")).first.click()
    expect(message).to_have_value("half a sen")
    expect(page.get_by_role("button", name="Send")).to_be_enabled()
    page.get_by_role("button", name="Send").click()
    expect(page.locator(".bubble.own .files")).to_have_text("order.txt")
    expect(message).to_have_value("")
    entry(page, "Runs").click()
    page.evaluate("history.back()")
    expect(page.locator(".bubble.own .files")).to_have_text("order.txt")
    expect(message).to_have_value("")


def test_the_page_of_a_chat(open_page: Open, chats: dict[str, Any]) -> None:
    """The browser asks before it is closed, while a message is typed."""
    page = open_page(chats["pages"]["helper"], token=chats["token"], origin=chats["url"])
    message = page.get_by_label("Message", exact=True)
    for text, asks in (("", False), ("half a sen", True), (" ", False)):
        message.fill(text)
        assert page.evaluate(ASKS_OF_UNLOAD) is asks


def test_answers_are_kept(open_page: Open, server: Server) -> None:
    """For each request, in the inbox and on its own page, until the decision; nobody is asked but by a reload."""
    with server.client() as client:
        run_id, request = asking(client)
        page = open_page(f"/studio/inbox/{request}")
        reason = page.get_by_label("Reason")
        expect(reason).to_be_visible()
        assert page.evaluate(ASKS_OF_UNLOAD) is False
        reason.fill("late delivery")
        assert page.evaluate(ASKS_OF_UNLOAD) is True
        entry(page, "Inbox").click()
        expect(page.get_by_role("heading", name="Inbox")).to_be_visible()
        page.locator(f'[data-id="{request}"] .open').click()
        expect(reason).to_have_value("late delivery")
        page.get_by_role("tab", name="Decided").click()
        page.get_by_role("tab", name="Open").click()
        page.locator(f'[data-id="{request}"] .open').click()
        page.get_by_role("button", name="Approve").click()
        expect(page.get_by_text("Your decision is recorded")).to_be_visible()
        assert page.evaluate(ASKS_OF_UNLOAD) is False
        resumed = client.get(f"/agent/v1/runs/{run_id}").json()["resumedBy"]
        assert "late delivery" in client.get(f"/agent/v1/runs/{resumed}/events").text


def test_memories_are_kept(open_page: Open, chats: dict[str, Any]) -> None:
    """Of a new memory with its user, and of one that is changed, until they are saved or cancelled."""
    page = opened(open_page, chats, skill(chats, "Half remembered"))
    tab(page, "Memories")
    page.get_by_label("New memory").fill("Likes tea")
    page.get_by_role("button", name="Remember").click()
    expect(page.locator(".memories")).to_contain_text("Likes tea")
    page.get_by_role("button", name="Edit").click()
    changed = page.get_by_label("Memory", exact=True)
    changed.fill("Likes green tea")
    expect(changed).to_be_focused()
    page.get_by_label("New memory").fill("Pays by")
    assert page.evaluate(ASKS_OF_UNLOAD) is True
    tab(page, "Context")
    tab(page, "Memories")
    expect(page.get_by_role("tab", name="Memories")).to_be_focused()
    expect(changed).to_have_value("Likes green tea")
    expect(page.get_by_label("New memory")).to_have_value("Pays by")
    page.route("**/memories/*", lambda route: route.abort())
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_be_visible()
    expect(changed).to_have_value("Likes green tea")  # it was not saved
    page.unroute("**/memories/*")
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("button", name="Edit")).to_be_focused()
    page.get_by_role("button", name="Edit").click()
    expect(changed).to_have_value("Likes tea")
    changed.fill("Likes cake")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".memories")).to_contain_text("Likes cake")
    expect(page.get_by_role("button", name="Edit")).to_be_focused()
    page.get_by_label("Of the end user").fill("u-7")
    entry(page, "Runs").click()
    page.evaluate("history.back()")
    tab(page, "Memories")
    expect(page.get_by_label("Of the end user")).to_have_value("u-7")
    expect(page.get_by_label("New memory")).to_have_value("Pays by")
    page.get_by_role("button", name="Remember").click()
    expect(page.locator(".memories")).to_contain_text("Pays by")
    assert page.evaluate(ASKS_OF_UNLOAD) is False


def test_the_message_of_a_context_is_kept(open_page: Open, chats: dict[str, Any]) -> None:
    page = opened(open_page, chats, skill(chats, "Half composed"))
    tab(page, "Context")
    page.get_by_label("Message").fill("Where is order 7?")
    page.get_by_label("Id of the end user").fill("u-7")
    tab(page, "Memories")
    tab(page, "Context")
    expect(page.get_by_label("Message")).to_have_value("Where is order 7?")
    expect(page.get_by_label("Id of the end user")).to_have_value("u-7")


def test_the_name_of_a_new_workflow_is_kept(open_page: Open) -> None:
    """Whatever closes its dialog but a cancel."""
    page = open_page("/studio/runs")
    entry(page, "Workflows").click()
    new = page.get_by_role("button", name="New workflow")
    name = page.get_by_label("Name of the new workflow")
    new.click()
    name.fill("Monthly report of all open")
    assert page.evaluate(ASKS_OF_UNLOAD) is True
    for leave in (lambda: page.evaluate("history.back()"), lambda: page.keyboard.press("Escape")):
        leave()
        expect(name).to_have_count(0)
        entry(page, "Workflows").click()
        new.click()
        expect(name).to_have_value("Monthly report of all open")
    page.get_by_role("button", name="Cancel").click()
    new.click()
    expect(name).to_have_value("")


def test_an_answer_in_a_chat_that_is_no_value_yet(open_page: Open, chats: dict[str, Any]) -> None:
    """Another chat is not shown without the consent of the user."""
    page = chat(open_page, chats, f"?workflowId={chats['workflow']}")
    say(page, "first")
    amount = page.get_by_label("Amount")
    amount.fill("")
    amount.press_sequentially("1e")
    new = page.get_by_role("button", name="New chat")
    new.click()
    say_so(page, "Stay")
    expect(new).to_be_focused()
    assert amount.evaluate("one => one.validity.badInput")
    new.click()
    say_so(page, "Discard")
    expect(amount).to_have_count(0)


def test_another_chat_leaves_no_settings(open_page: Open, chats: dict[str, Any]) -> None:
    """Those of its skill stay, with what was typed."""
    page = opened(open_page, chats, skill(chats, "Beside a chat"))
    tab(page, "Settings")
    page.get_by_label("Expected output").fill("typed")
    tab(page, "Try it")
    page.get_by_label("Message", exact=True).fill("half a sen")
    page.get_by_role("button", name="New chat").click()
    expect(page.get_by_label("Message", exact=True)).to_have_value("")
    tab(page, "Settings")
    expect(page.get_by_label("Expected output")).to_have_value("typed")


def test_an_answer_that_is_no_value_yet(open_page: Open, server: Server) -> None:
    """It cannot be kept, so the user is asked, also before another request of the inbox."""
    with server.client() as client:
        asking(client)
        run_id, request = asked(client)
        page = open_page("/studio/inbox")
        page.locator(f'[data-id="{request}"] .open').click()
        page.get_by_label("Count").fill("3")
        page.get_by_label("Meta").fill('{"a": ')
        other = page.locator(f'.request:not([data-id="{request}"]) .open').first
        other.click()
        say_so(page, "Stay")
        entry(page, "Runs").click()
        say_so(page, "Stay")
        expect(page.get_by_label("Meta")).to_have_value('{"a": ')
        page.get_by_label("Meta").fill('{"a": 1}')
        entry(page, "Runs").click()
        expect(page.get_by_role("heading", name="Runs")).to_be_visible()
        page.evaluate("history.back()")
        page.locator(f'[data-id="{request}"] .open').click()
        assert answer(page, client, run_id) == {"count": 3, "meta": {"a": 1}}


def test_nobody_is_asked_without_a_session(open_page: Open, server: Server, groups: list[str]) -> None:
    """After its end until the sign-in of the same user, who finds what was typed; and not at a sign-out."""
    token = made(server)
    page = open_page(f"/studio/groups/{groups[0]}", token=token["token"])
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Name").fill("Alpha and more")
    revoke(server, token)
    expect(page.get_by_text(EXPIRED)).to_be_visible()
    assert page.evaluate(ASKS_OF_UNLOAD) is False
    sign_in(page, made(server)["token"])
    expect(page.get_by_label("Name")).to_have_value("Alpha and more")
    assert page.evaluate(ASKS_OF_UNLOAD) is True
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Access token")).to_be_visible()
    expect(question(page)).to_have_count(0)
    assert page.evaluate(ASKS_OF_UNLOAD) is False


@pytest.mark.parametrize("somebody_else", [True, False])
def test_nothing_is_kept_after_a_sign_out(open_page: Open, server: Server, somebody_else: bool) -> None:
    with server.client() as client:
        _, request = asking(client)
        next_token = of_somebody_else(server, client, "kept-user") if somebody_else else made(server)["token"]
    page = open_page(f"/studio/inbox/{request}")
    page.get_by_label("Reason").fill("mine alone")
    entry(page, "Runs").click()
    page.get_by_role("button", name="Sign out").click()
    sign_in(page, next_token)
    page.evaluate("history.back()")
    expect(page.get_by_label("Reason")).to_have_value("")


@pytest.mark.parametrize("kind", ["path", "hash", "own"])
def test_in_the_page_of_a_product(open_page: Open, product: dict[str, Any], kind: str) -> None:
    """Inside the element it is the same; the browser does not ask when the product itself goes to another page."""
    page = open_page(f"/white/{kind}", token=None, origin=f"http://127.0.0.1:{product['port']}")
    entry(page, "Groups").click()
    before = page.url
    page.get_by_role("button", name="New group").click()
    page.get_by_label("Name").fill("Half")
    entry(page, "Policies").click()
    say_so(page, "Stay")
    if kind != "own":
        page.evaluate("history.back()")
        say_so(page, "Stay")
    expect(page.get_by_label("Name")).to_have_value("Half")
    expect(page).to_have_url(before)
    assert page.evaluate(ASKS_OF_UNLOAD) is False
    entry(page, "Policies").click()
    say_so(page, "Discard")
    expect(page.get_by_role("heading", name="Policies")).to_be_visible()
