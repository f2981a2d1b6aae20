"""Answers that come when a test says so."""

import re
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Page, Request, Route
from servers import eventually

AFTER_A_FRAME = "() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))"


class Held:
    """Requests that reach the server at once, and whose answers come when the test says so."""

    def __init__(self, page: Page, url: str, wanted: Callable[[Request], object]) -> None:
        self.page = page
        self.url = re.compile(url)
        self.wanted = wanted
        self.waiting: list[tuple[Route, Any]] = []
        page.route(self.url, self._hold)

    def _hold(self, route: Route) -> None:
        if self.wanted(route.request):
            self.waiting.append((route, route.fetch()))
        else:
            route.fallback()

    def collect(self, count: int = 1) -> None:
        eventually(lambda: self.page.wait_for_timeout(1) or len(self.waiting) >= count)

    def answer(self, place: int = 0, **instead: Any) -> None:
        """Gives the page the answer, or `json` in its place, and time to make of it what it does."""
        route, response = self.waiting.pop(place)
        with self.page.expect_event("requestfinished", lambda one: one == route.request):
            route.fulfill(response=response, **instead)
        self.page.evaluate(AFTER_A_FRAME)

    def end(self) -> None:
        """Holds no further requests."""
        self.wanted = lambda _: False


def method(name: str) -> Callable[[Request], bool]:
    return lambda request: request.method == name
