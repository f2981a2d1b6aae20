"""The chat page of an interface (`page.html` and `.js`), and what it asks once it knows who is there.

The page is the same for every workflow and names none: what it may show, it asks for with the member's credential. It
loads nothing, from here or elsewhere, and runs only the script that its policy names by its digest (CSP Level 3).
"""

import base64
import hashlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, TypedDict

from starlette.responses import Response

from wfcore.adapters.http.core.responses import json_answer
from wfcore.adapters.http.core.route import Call, Route
from wfcore.domain.channels.interfaces import frame_ancestors
from wfcore.runtime.channels.chat_pages import ChatApps
from wfcore.runtime.common.authorization import scopes_of

_INLINE = re.compile(r"<(style|script)>(.*?)</\1>", re.DOTALL)

_HEADERS: Final = {"Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin"}


class ChatAppRow(TypedDict):
    """The workflow behind a chat. `takesMessage`: the `input` of a run is to have the `message` too."""

    id: str
    workflowId: int
    name: str
    description: str | None
    takesMessage: bool


class ChatAppRoutes:
    """Two routes below the url of a row: the page for anybody, the workflow for who can use it."""

    def __init__(self, chats: ChatApps) -> None:
        self._chats = chats

    def table(self) -> Iterator[Route]:
        place = "/interfaces/chatapp/{interfaceId}"
        yield Route(
            "chatapp.page", "GET", place, self.page, "The chat page of an interface", None, {"type": "string"},
            media_type="text/html",
        )  # fmt: skip
        yield Route(
            "chatapp.workflow", "GET", f"{place}/workflow", self.workflow, "What one talks to on a chat page",
            scopes_of(self._chats.get), ChatAppRow,
        )  # fmt: skip

    async def page(self, call: Call) -> Response:
        surface = await self._chats.page(call.path["interfaceId"])
        policy = f"{_policy()}; frame-ancestors {' '.join(frame_ancestors(surface.row.config))}"
        return Response(_page(), media_type="text/html", headers={"Content-Security-Policy": policy, **_HEADERS})

    async def workflow(self, call: Call) -> Response:
        return json_answer((await self._chats.get(call.me, call.path["interfaceId"])).to_wire())


@cache
def _page() -> str:
    """The page with its script inside: one document that loads nothing."""
    frame, script = (Path(__file__).with_name(f"page.{kind}").read_text("utf-8") for kind in ("html", "js"))
    return frame.replace("<script></script>", f"<script>\n{script}</script>")


@cache
def _policy() -> str:
    """What the page may do: run its own script, look as it does, and speak to where it comes from."""
    own = {kind: f"'sha256-{_digest(text)}'" for kind, text in _INLINE.findall(_page())}
    return (
        f"default-src 'none'; script-src {own['script']}; style-src {own['style']}; img-src data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
