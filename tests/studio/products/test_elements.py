"""The elements in a product's page: its own users and policy, two organizations and several elements on one page."""

from typing import Any

import httpx
from playwright.sync_api import expect
from servers import eventually
from waiting import HANG
from watching import Open


def publish(origin: str, order: str) -> None:
    """Start a run of the first organization that asks whether to publish this order: a test decides none of others."""
    body = {"workflowId": 1, "input": {"order": order}}
    own = {"headers": {"Accept": "application/json", "Origin": origin}, "cookies": {"session": "zoe"}}
    started = httpx.post(f"{origin}/a/agent/v1/runs", json=body, **own, trust_env=False, timeout=HANG)  # type: ignore[arg-type]
    assert started.status_code in (200, 202), started.text


def test_two_organizations_on_one_page(open_page: Open, product: dict[str, Any]) -> None:
    """One by the cookie of the product, one by a bearer token; languages and colours of their own."""
    origin = f"http://127.0.0.1:{product['port']}"
    publish(origin, "of two")
    page = open_page("/", token=None, origin=origin)
    first, second = page.locator("#first wfcore-inbox"), page.locator("#second wfcore-inbox")
    expect(first.get_by_text("Publish release of two?")).to_be_visible()
    expect(second.get_by_text("Publish release b?")).to_be_visible()
    expect(first.get_by_role("heading", name="Inbox")).to_be_visible()
    expect(second.get_by_role("heading", name="Eingang")).to_be_visible()
    expect(page.locator("#first wfcore-runs .line").first).to_be_visible()
    expect(page.locator("#second wfcore-run .react-flow__node")).to_have_count(2)
    scheme = "getComputedStyle(document.querySelector('{}')).colorScheme"
    assert page.evaluate(scheme.format("#second wfcore-inbox")) == "dark"
    assert page.evaluate("window.asked") >= 1
    eventually(lambda: page.evaluate("window.seen.filter(([name]) => name === 'ready').length === 4"))
    assert page.evaluate("document.querySelectorAll('style').length") == 0


def test_the_host_can_refuse_a_decision(open_page: Open, product: dict[str, Any]) -> None:
    """`wfcore-before-decide` is cancelable, and `wfcore-decided` comes after the server's own answer."""
    origin = f"http://127.0.0.1:{product['port']}"
    publish(origin, "refused")
    page = open_page("/", token=None, origin=origin)
    inbox = page.locator("#first wfcore-inbox")
    inbox.get_by_text("Publish release refused?").click()
    page.evaluate("window.refuse = true")
    inbox.get_by_role("button", name="Approve").click()
    expect(inbox.get_by_role("button", name="Approve")).to_be_enabled()
    page.mouse.move(0, 0)
    accent = inbox.get_by_role("button", name="Approve").evaluate("(one) => getComputedStyle(one).backgroundColor")
    assert accent == "rgb(1, 102, 68)"
    page.evaluate("window.refuse = false")
    inbox.get_by_role("button", name="Approve").click()
    expect(inbox.get_by_text("Your decision is recorded")).to_be_visible()
    names = page.evaluate("window.seen.map(([name]) => name)")
    assert names.index("before-decide") < names.index("decided")
    (decided,) = page.evaluate("window.seen.filter(([name]) => name === 'decided').map((one) => one[2])")
    assert decided["decision"] == "approve"


def test_the_host_navigates(open_page: Open, product: dict[str, Any]) -> None:
    """An element never touches the address of its host: it reports where the user wants to go."""
    page = open_page("/", token=None, origin=f"http://127.0.0.1:{product['port']}")
    before = page.url
    page.locator("#first wfcore-runs .line").first.click()
    navigated = page.evaluate("window.seen.filter(([name]) => name === 'navigate').map((one) => one[2])")
    assert [one["page"] for one in navigated] == ["run"]
    assert page.url == before


def test_an_element_survives_a_move(open_page: Open, product: dict[str, Any]) -> None:
    """Moved in the document it keeps its state; removed it ends; added again it begins anew."""
    page = open_page("/", token=None, origin=f"http://127.0.0.1:{product['port']}")
    inbox = page.locator("#second wfcore-inbox")
    inbox.get_by_text("Publish release b?").click()
    expect(inbox.locator(".approval")).to_be_visible()
    page.evaluate("document.body.append(document.getElementById('second'))")
    expect(inbox.locator(".approval")).to_be_visible()
    page.evaluate("(window.kept = document.querySelector('#second wfcore-inbox')).remove()")
    page.wait_for_timeout(50)
    page.evaluate("document.getElementById('second').append(window.kept)")
    expect(inbox.get_by_text("Publish release b?")).to_be_visible()
    expect(inbox.locator(".approval")).to_have_count(0)


def test_a_lost_credential_is_reported(open_page: Open, product: dict[str, Any]) -> None:
    """After a 401 the token is requested once more; then the host is asked to sign the user in. A list that cannot be
    read is a request that failed.
    """
    page = open_page("/", token=None, origin=f"http://127.0.0.1:{product['port']}")
    expect(page.locator("#second wfcore-inbox").get_by_text("Publish release b?")).to_be_visible()
    page.evaluate("window.token = 'svc_gone'; window.asked = 0")
    page.evaluate("document.querySelector('#second wfcore-inbox').remove()")
    page.evaluate("""() => {
      const runs = document.createElement('wfcore-runs');
      runs.addEventListener('wfcore-error', ({detail}) => { window.failed = detail.status; });
      document.getElementById('second').append(runs);
    }""")
    expect(page.locator("#second wfcore-runs").get_by_text("Melden Sie sich an")).to_be_visible()
    eventually(lambda: page.evaluate("window.seen.some(([name]) => name === 'auth-required')"))
    eventually(lambda: page.evaluate("window.failed === 401"))
    assert page.evaluate("window.asked") >= 2


def test_an_inbox_begins_with_one_call_of_get_token(open_page: Open, product: dict[str, Any]) -> None:
    """Its list and its stream of changes are requested at the same time: they wait for the same token."""
    page = open_page("/", token=None, origin=f"http://127.0.0.1:{product['port']}")
    expect(page.locator("#second wfcore-inbox").get_by_text("Publish release b?")).to_be_visible()
    page.evaluate("""async () => {
      window.calls = 0;
      const inbox = document.createElement('wfcore-inbox');
      inbox.getToken = async () => {
        window.calls++;
        await new Promise((resolve) => requestAnimationFrame(resolve));
        return window.token;
      };
      document.getElementById('second').append(inbox);
    }""")
    expect(page.locator("#second wfcore-inbox").last.get_by_text("Publish release b?")).to_be_visible()
    assert page.evaluate("window.calls") == 1


def test_an_element_without_a_height_has_a_good_one_and_fills_another(open_page: Open, product: dict[str, Any]) -> None:
    """Without a height it had a strip of some 200 pixels for a request or a graph; in a cell it scrolls in itself."""
    page = open_page("/", token=None, origin=f"http://127.0.0.1:{product['port']}")
    set_height = "(one, height) => { one.style.height = height; }"
    for inner, name, element in (
        (".inbox", "inbox", page.locator("#second wfcore-inbox")),
        (".split", "run", page.locator("#second wfcore-run")),
    ):
        part = element.locator(inner)
        expect(part).to_be_visible()
        element.evaluate(set_height, "auto")
        assert part.evaluate("(one) => one.offsetHeight") >= 500, name
        element.evaluate(set_height, "300px")
        assert element.evaluate("(one) => one.offsetHeight") == 300, name
        assert element.locator(".page").evaluate("(one) => one.offsetHeight") == 300, name
    cell = page.locator("#first")
    cell.evaluate("(one) => { one.style.display = 'grid'; one.style.gridTemplateRows = '200px 260px'; }")
    runs = cell.locator("wfcore-runs")
    runs.evaluate(set_height, "auto")
    margins = 16
    assert runs.evaluate("(one) => one.offsetHeight") == 260 - margins


def test_the_host_can_refuse_and_change_a_message(open_page: Open, product: dict[str, Any]) -> None:
    """A chat under the product's policy: `wfcore-before-run` is cancelable, and its body can be changed."""
    page = open_page("/", token=None, origin=f"http://127.0.0.1:{product['port']}")
    page.evaluate("""() => {
      const chat = document.createElement('wfcore-chat');
      chat.setAttribute('workflow-id', '1');
      chat.addEventListener('wfcore-before-run', (event) => {
        if (window.refuse) event.preventDefault();
        else event.detail.input = { order: 'chat' };
      });
      document.getElementById('first').append(chat);
      window.refuse = true;
    }""")
    chat = page.locator("wfcore-chat")
    chat.get_by_label("Message", exact=True).fill("release it")
    chat.get_by_role("button", name="Send").click()
    expect(chat.get_by_label("Message", exact=True)).to_have_value("release it")
    page.evaluate("window.refuse = false")
    chat.get_by_role("button", name="Send").click()
    expect(chat.get_by_role("heading", name="Publish release chat?")).to_be_visible()
    chat.get_by_role("button", name="Deny").click()
    expect(chat.get_by_role("button", name="Deny")).to_have_count(0)
