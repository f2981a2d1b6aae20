"""The document of every page: it names nothing, and its script reads the API with the user's credential."""

import html
import json
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from starlette.responses import Response

from wfcore.adapters.http.core.route import Call
from wfcore.adapters.http.studio.branding import Studio
from wfcore.adapters.http.studio.files import built
from wfcore.ports.identity import TokenVerifier

BASE: Final = "/studio"

_HEADERS: Final = {"Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin"}

_PAGE: Final = """<!doctype html>
<html lang="{locale}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1, interactive-widget=resizes-content">
<meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex">
<title>{title}</title>
<link rel="icon" href="data:,">
{links}
<script type="module" src="{script}"></script>
</head>
<body>
<noscript>JavaScript is needed to show this page.</noscript>
<div id="app" data-config="{config}"></div>
</body>
</html>
"""


class StudioDocument:
    """The same document for every page; with OAuth, users sign in at the issuer of `oauth`."""

    def __init__(self, studio: Studio, oauth: TokenVerifier | None) -> None:
        self._studio = studio
        self._oauth = oauth if studio.oauth_client_id else None

    def response(self, call: Call, frame_ancestors: tuple[str, ...] | None = None, *, chat: bool = False) -> Response:
        """The page; with `chat`, that of an interface instead of the studio."""
        files, url = built(), call.url(f"{BASE}/")
        links = [f'<link rel="modulepreload" href="{html.escape(url + name)}">' for name in files.preload]
        if files.style is not None:
            links.insert(0, f'<link rel="stylesheet" href="{html.escape(url + files.style)}">')
        text = _PAGE.format(
            locale=html.escape(self._studio.locale or "en"),
            title=html.escape(self._studio.title),
            links="\n".join(links),
            script=html.escape(url + files.script),
            config=html.escape(json.dumps({**self._config(call), "chat": chat})),
        )
        policy = self._policy(frame_ancestors or tuple(self._studio.frame_ancestors))
        headers = {**_HEADERS, "Content-Security-Policy": policy, "Cache-Control": "no-cache"}
        return Response(text, HTTPStatus.OK, headers, "text/html")

    def _config(self, call: Call) -> dict[str, object]:
        sign_in = None
        if self._oauth is not None:
            sign_in = {
                "issuer": self._oauth.issuer,
                "clientId": self._studio.oauth_client_id,
                "scope": self._studio.oauth_scope,
                "resource": self._oauth.audience,
            }
        return {**self._studio.to_wire(), "baseUrl": call.url(""), "oauth": sign_in}

    def _policy(self, frame_ancestors: tuple[str, ...]) -> str:
        """The content security policy (CSP Level 3); with OAuth, the page can also connect to the issuer."""
        connect = "'self'"
        if self._oauth is not None:
            issuer = urlsplit(self._oauth.issuer)
            connect += f" {issuer.scheme}://{issuer.netloc}"
        return (
            "default-src 'none'; script-src 'self'; style-src 'self'; "
            f"connect-src {connect}; img-src 'self' data:; font-src 'self'; base-uri 'none'; form-action 'none'; "
            f"frame-ancestors {' '.join(frame_ancestors)}; require-trusted-types-for 'script'"
        )
