"""A real Chromium and a real server. Without a browser the tests fail: `make browser` installs one."""

from collections.abc import Iterator
from typing import Any

import browser
import demo
import pytest
from playwright.sync_api import Browser, Page, sync_playwright
from servers import Server
from watching import Open, Watch

REPORTS = """addEventListener('securitypolicyviolation', (event) => {
  (window.__csp ??= []).push(`${event.violatedDirective} ${event.blockedURI}`);
})"""
SIGN_IN = """if (!sessionStorage.getItem('once')) {
  sessionStorage.setItem('wfcore-studio-token', '%s');
  sessionStorage.setItem('once', '1');
}"""


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    path = browser.find()
    if path is None:
        pytest.fail("no Chromium was found: `make browser` installs one")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=list(browser.ARGUMENTS))
        yield running
        running.close()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    found = Server(tmp_path_factory.mktemp("studio"))
    found.create()
    found.start()
    yield found
    found.kill()


@pytest.fixture(scope="session")
def ids(server: Server) -> dict[str, str]:
    """The runs of `demo.fill`, by name."""
    with server.client() as client:
        return demo.fill(client)


@pytest.fixture
def open_page(chromium: Browser, server: Server) -> Iterator[Open]:
    """Opens a page of the studio, signed in unless `token` is None. Problems on any of the pages fail the test."""
    watches: list[Watch] = []

    def opened(path: str, *, token: str | None = server.token, origin: str = server.url, **context: Any) -> Page:
        made = chromium.new_context(**{"viewport": {"width": 1280, "height": 800}, "locale": "en-US", **context})
        made.set_default_timeout(15_000)
        made.add_init_script(REPORTS)
        if token is not None:
            made.add_init_script(SIGN_IN % token)
        page = made.new_page()
        watch = Watch(page, origin)
        watch.begin()
        watches.append(watch)
        page.goto(origin + path)
        return page

    yield opened
    for watch in watches:
        watch.end()
        watch.page.context.close()
