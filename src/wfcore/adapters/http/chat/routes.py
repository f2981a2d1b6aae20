"""The chat page of an interface (`page.html`, `forms.js` and `page.js`), and the workflow that it reads after sign-in.

The page is the same for every workflow and names none: it reads the workflow with the member's credential. It loads no
other resource, and runs only the script whose digest its policy contains (CSP Level 3).
"""

import base64
import hashlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, TypedDict

from starlette.responses import Response

from wfcore.adapters.http.core.responses import json_response
from wfcore.adapters.http.core.route import Call, Route
from wfcore.domain.channels.interfaces import frame_ancestors
from wfcore.runtime.channels.chat_pages import ChatApps
from wfcore.runtime.common.authorization import scopes_of

_INLINE = re.compile(r"<(style|script)>(.*?)</\1>", re.DOTALL)

_HEADERS: Final = {"Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin"}


class ChatAppRow(TypedDict):
    """The workflow or skill behind a chat. `takesMessage`: the `input` of a run must contain the `message`."""

    id: str
    workflowId: int | None
    skillId: int | None
    name: str
    description: str | None
    takesMessage: bool


class ChatAppRoutes:
    """Two routes below the URL of a row: the page, which is public, and the workflow, for callers who can use it."""

    def __init__(self, chats: ChatApps) -> None:
        self._chats = chats

    def table(self) -> Iterator[Route]:
        base = "/interfaces/chatapp/{interfaceId}"
        yield Route(
            "chatapp.page", "GET", base, self.page, "The chat page of an interface", None, {"type": "string"},
            media_type="text/html",
        )  # fmt: skip
        yield Route(
            "chatapp.workflow", "GET", f"{base}/workflow", self.workflow, "Read the workflow behind a chat page",
            scopes_of(self._chats.get), ChatAppRow,
        )  # fmt: skip

    async def page(self, call: Call) -> Response:
        endpoint = await self._chats.page(call.path["interfaceId"])
        policy = f"{_policy()}; frame-ancestors {' '.join(frame_ancestors(endpoint.row.config))}"
        return Response(_page(), media_type="text/html", headers={"Content-Security-Policy": policy, **_HEADERS})

    async def workflow(self, call: Call) -> Response:
        return json_response((await self._chats.get(call.me, call.path["interfaceId"])).to_wire())


@cache
def _page() -> str:
    """The page with its script inlined: one document that loads no other."""
    frame, forms, page = (
        Path(__file__).with_name(name).read_text("utf-8") for name in ("page.html", "forms.js", "page.js")
    )
    script = f"{forms}{page}"
    return frame.replace("<script></script>", f"<script>\n{script}</script>")


@cache
def _policy() -> str:
    """The content security policy: the page's own script and style, and connections to its own origin."""
    own = {kind: f"'sha256-{_digest(text)}'" for kind, text in _INLINE.findall(_page())}
    return (
        f"default-src 'none'; script-src {own['script']}; style-src {own['style']}; img-src data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
