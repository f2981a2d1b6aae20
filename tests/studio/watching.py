"""Watches a page for what must never happen on it."""

from collections.abc import Callable
from typing import Any

import attrs
from playwright.sync_api import Page

Open = Callable[..., Page]
"""Opens a page: see `open_page`."""

EXPECTED = (
    "ERR_INTERNET_DISCONNECTED",
    "status of 40",
    "status of 422",
    "status of 429",
    "status of 503",
    "ERR_CONNECTION",
    "ERR_INCOMPLETE",
    "ERR_EMPTY",
    "ERR_ABORTED",
    "ERR_FAILED",
    "Failed to fetch",
    "blocked by CORS policy",
)
"""Parts of console errors of the browser about responses that a test provokes."""


@attrs.define(slots=False)
class Watch:
    """What happened on a page that must not: checked when the test ends."""

    page: Page
    origin: str
    others: tuple[str, ...] = ()
    """Further origins that the page may call."""
    problems: list[str] = attrs.field(factory=list)

    def begin(self) -> None:
        self.page.on("dialog", self._dialog)
        self.page.on("pageerror", lambda error: self.problems.append(f"exception {error}"))
        self.page.on("console", self._console)
        self.page.on("request", self._request)

    def _dialog(self, dialog: Any) -> None:
        self.problems.append(f"dialog {dialog.message}")
        dialog.dismiss()

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning") and not any(part in message.text for part in EXPECTED):
            self.problems.append(f"console {message.text}")

    def _request(self, request: Any) -> None:
        if not request.url.startswith((self.origin, *self.others, "data:", "blob:")):
            self.problems.append(f"request {request.url}")

    def end(self) -> None:
        if not self.page.is_closed():
            self.problems += self.page.evaluate("window.__csp ?? []")
        assert not self.problems, self.problems
