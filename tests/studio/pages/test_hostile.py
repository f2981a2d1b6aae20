"""Hostile names, outputs, messages and schemas stay text: no element, handler, dialog or foreign request."""

import demo
import pytest
from playwright.sync_api import Page, expect
from servers import Server
from watching import Open

FOUND = """() => {
  const found = [];
  const look = (root) => {
    for (const one of root.querySelectorAll('*')) {
      if (one.shadowRoot) look(one.shadowRoot);
      if (['SCRIPT', 'IFRAME', 'OBJECT'].includes(one.tagName) && root !== document) found.push(one.tagName);
      if (one.tagName === 'IMG' && !one.closest('.brand')) found.push('IMG');
      for (const { name, value } of one.attributes) {
        if (name.startsWith('on') || (/href|src/.test(name) && /^\\s*javascript:/i.test(value))) found.push(name);
      }
    }
  };
  look(document);
  return found;
}"""


@pytest.fixture(scope="module")
def hostile(server: Server) -> dict[str, str]:
    with server.client() as client:
        number = demo.workflow(client, demo.EVIL, demo.HOSTILE, description=demo.EVIL)
        run_id = demo.run(client, number, order=demo.EVIL)
        (waiting,) = demo.settle(client, run_id)["interrupts"]
    return {"run": run_id, "interrupt": waiting["interruptId"]}


def check(page: Page) -> None:
    page.wait_for_timeout(300)
    assert page.evaluate(FOUND) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate("({}).x") is None


def test_run(open_page: Open, hostile: dict[str, str]) -> None:
    page = open_page(f"/studio/runs/{hostile['run']}")
    expect(page.locator(".react-flow__node").first).to_be_visible()
    for index in range(page.locator(".react-flow__node").count()):
        page.locator(".react-flow__node").nth(index).click()
        check(page)
    for tab in ("Timeline", "Events", "Output"):
        page.get_by_role("tab", name=tab).click()
        check(page)


@pytest.mark.parametrize(
    ("step", "code", "text"),
    [
        (demo.transform("pay", 1, requiresApproval=True), ["core.transform"], "allow core.transform with these"),
        (
            demo.node("ask", "humanApproval", message="Is `<img src=x onerror=alert(1)>` right, ``, `a\n` or ` so?"),
            ["<img src=x onerror=alert(1)>"],
            "Is <img src=x onerror=alert(1)> right, ``, `a\n` or ` so?",
        ),
    ],
)
def test_names_in_backticks(open_page: Open, server: Server, step: demo.Json, code: list[str], text: str) -> None:
    """Names in backticks are code in the text of a request, hostile ones too; other backticks stay."""
    with server.client() as client:
        number = demo.workflow(client, "Named", demo.graph([step], ("start", step["id"])))
        run_id = demo.run(client, number, order=1)
        (waiting,) = demo.settle(client, run_id)["interrupts"]
    page = open_page(f"/studio/inbox/{waiting['interruptId']}")
    title = page.locator(".approval .message")
    expect(title).to_contain_text(text)
    assert title.locator("code").all_inner_texts() == code
    assert "`core" not in (page.locator(".approval").get_attribute("aria-label") or "")
    check(page)
    page.goto(f"{server.url}/studio/runs/{run_id}")
    expect(page.locator(".notice.wait code").first).to_have_text(code[0])
    page.goto(f"{server.url}/studio/inbox")
    expect(page.locator(".request", has_text=text[:20]).first.locator("code").first).to_have_text(code[0])
    check(page)


@pytest.mark.parametrize("path", ["/studio/runs", "/studio/inbox", "/studio/workflows"])
def test_lists(open_page: Open, hostile: dict[str, str], path: str) -> None:
    page = open_page(path)
    if path.endswith("workflows"):
        page.get_by_label("Search workflows").fill("gnp.exe")
    expect(page.locator(".line, .request").filter(has_text="\\u202egnp.exe").first).to_be_visible()
    check(page)


def test_approval(open_page: Open, hostile: dict[str, str]) -> None:
    """A schema of 300 fields, with names of prototypes and markup in every text."""
    page = open_page(f"/studio/inbox/{hostile['interrupt']}")
    expect(page.locator(".approval .message")).to_contain_text("\\u202egnp.exe")
    expect(page.get_by_text("further fields are not shown")).to_be_visible()
    check(page)


def test_builder(open_page: Open, hostile: dict[str, str], server: Server) -> None:
    with server.client() as client:
        number = client.get(f"/agent/v1/runs/{hostile['run']}").json()["target"]["id"]
    page = open_page(f"/studio/workflows/{number}")
    expect(page.locator(".react-flow__node").first).to_be_visible()
    for index in range(page.locator(".react-flow__node").count()):
        page.locator(".react-flow__node").nth(index).focus()
        page.keyboard.press("Enter")
        expect(page.locator(".side")).to_be_visible()
        check(page)
        for field in page.locator(".side textarea.param").all():
            field.focus()
            page.keyboard.press("Control+Space")
            check(page)


@pytest.mark.parametrize(
    "path",
    ["/studio/runs/javascript:alert(1)", "/studio/%3Cimg%20src=x%20onerror=alert(1)%3E", "/studio/runs?status=%3Cb%3E"],
)
def test_addresses(open_page: Open, server: Server, path: str) -> None:
    page = open_page(path)
    expect(page.locator("[role=alert], .state").first).to_be_visible()
    check(page)
