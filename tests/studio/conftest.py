"""A real Chromium and a real server. Without a browser the tests fail: `make browser` installs one."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import browser
import demo
import jitter
import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright
from servers import Server, first_line
from waiting import PATIENCE
from watching import Open, Watch

REPORTS = """addEventListener('securitypolicyviolation', (event) => {
  (window.__csp ??= []).push(`${event.violatedDirective} ${event.blockedURI}`);
})"""
SIGN_IN = """if (!sessionStorage.getItem('once')) {
  sessionStorage.setItem('studio-token', '%s');
  sessionStorage.setItem('once', '1');
}"""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """The browser of one module: while it runs, its event loop runs too, and no other test can have one."""
    path = browser.find()
    if path is None:
        pytest.fail("no Chromium was found: `make browser` installs one")
    expect.set_options(timeout=1000 * PATIENCE)
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
    """Opens a page of the studio, signed in unless `token` is None; `script` runs in it first.

    Problems on any of the pages fail the test.
    """
    watches: list[Watch] = []

    def opened(
        path: str,
        *,
        token: str | None = server.token,
        origin: str = server.url,
        others: tuple[str, ...] = (),
        script: str = "",
        **context: Any,
    ) -> Page:
        made = chromium.new_context(**{"viewport": {"width": 1280, "height": 800}, "locale": "en-US", **context})
        made.set_default_timeout(1000 * PATIENCE)
        made.add_init_script(REPORTS)
        made.add_init_script(jitter.script(len(watches)))
        made.add_init_script(script)
        if token is not None:
            made.add_init_script(SIGN_IN % token)
        page = made.new_page()
        watch = Watch(page, origin, others)
        watch.begin()
        watches.append(watch)
        page.goto(origin + path)
        return page

    yield opened
    for watch in watches:
        watch.end()
        for page in watch.page.context.pages:
            page.unroute_all(behavior="ignoreErrors")  # those under way would fail the next test
        watch.page.context.close()


@pytest.fixture(scope="session")
def chats() -> Iterator[dict[str, Any]]:
    """The server of `chat_server.py`: what it prints, and its `url`."""
    with printing("chat_server.py") as found:
        yield {**found, "url": f"http://127.0.0.1:{found['port']}"}


@pytest.fixture(scope="session")
def product() -> Iterator[dict[str, Any]]:
    with printing("product.py") as found:
        yield found


@contextmanager
def printing(script: str) -> Iterator[dict[str, Any]]:
    """Run a script of this folder; the JSON of the first line that it prints."""
    folder = Path(__file__).parent
    path = os.pathsep.join([str(folder), str(folder.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, str(folder / script)]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path})
    assert running.stdout is not None
    try:
        yield json.loads(first_line(running.stdout))
    finally:
        running.kill()
        running.wait()
        running.stdout.close()
