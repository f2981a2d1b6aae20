"""The routes of the studio: its pages, the module of the custom elements, and their built files.

They need no credential and disclose nothing: every page is the same document, and the script in it reads the API with
the credential of the user. They are not part of the OpenAPI document, which describes the API.
"""

import html
import json
from collections.abc import Iterator
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import RedirectResponse, Response

from wfcore.adapters.http.core.route import Call, Handler, Route
from wfcore.adapters.http.studio.branding import Studio
from wfcore.adapters.http.studio.files import StaticFile, built, read
from wfcore.domain.kernel.errors import NotFound
from wfcore.ports.identity import TokenVerifier

BASE: Final = "/studio"

_IMMUTABLE: Final = "public, max-age=31536000, immutable"
_PAGE_HEADERS: Final = {"Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin"}
_SHARED: Final = {"Access-Control-Allow-Origin": "*", "Cross-Origin-Resource-Policy": "cross-origin"}
"""The files are the same for everyone: pages of other origins can load the elements."""

_PAGE: Final = """<!doctype html>
<html lang="{locale}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
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


class StudioRoutes:
    """The pages and files of the studio below `/studio`, and the redirect of browsers from `/`."""

    def __init__(self, studio: Studio, oauth: TokenVerifier | None) -> None:
        self._studio = studio
        self._oauth = oauth if studio.oauth_client_id else None

    def table(self) -> Iterator[Route]:
        yield self._route("studio.root", "/", self.root, "Redirect browsers to the studio")
        for name, path in (
            ("studio.home", f"{BASE}/"),
            ("studio.page", f"{BASE}/{{page}}"),
            ("studio.one", f"{BASE}/{{page}}/{{id}}"),
        ):
            yield self._route(name, path, self.page, "A page of the studio")
        yield self._route("studio.start", BASE, self.start, "Redirect to the studio")
        yield self._route("studio.module", f"{BASE}/wfcore.js", self.module, "The module of the custom elements")
        yield self._route("studio.asset", f"{BASE}/assets/{{name}}", self.asset, "A built file of the studio")

    def _route(self, name: str, path: str, handle: Handler, summary: str) -> Route:
        return Route(
            name, "GET", path, handle, summary, None, {"type": "string"}, any_query=True, media_type="text/html"
        )

    async def root(self, call: Call) -> Response:
        """Programs get the 404 of an unknown path; browsers, which state that they accept HTML, are redirected."""
        if "text/html" not in call.headers.get("Accept", "").lower():
            raise NotFound
        return await self.start(call)

    async def start(self, call: Call) -> Response:
        return RedirectResponse(call.url(f"{BASE}/"), HTTPStatus.TEMPORARY_REDIRECT)

    async def page(self, call: Call) -> Response:
        files, url = built(), call.url(f"{BASE}/")
        links = [f'<link rel="modulepreload" href="{html.escape(url + name)}">' for name in files.preload]
        if files.style is not None:
            links.insert(0, f'<link rel="stylesheet" href="{html.escape(url + files.style)}">')
        text = _PAGE.format(
            locale=html.escape(self._studio.locale or "en"),
            title=html.escape(self._studio.title),
            links="\n".join(links),
            script=html.escape(url + files.script),
            config=html.escape(json.dumps(self._config(call))),
        )
        headers = {**_PAGE_HEADERS, "Content-Security-Policy": self._policy(), "Cache-Control": "no-cache"}
        return Response(text, HTTPStatus.OK, headers, "text/html")

    async def module(self, call: Call) -> Response:
        return _file(call.headers, read("wfcore.js"), "no-cache")

    async def asset(self, call: Call) -> Response:
        return _file(call.headers, read(f"assets/{call.path['name']}"), _IMMUTABLE)

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

    def _policy(self) -> str:
        """The content security policy of the pages; with OAuth they can also connect to the issuer."""
        connect = "'self'"
        if self._oauth is not None:
            issuer = urlsplit(self._oauth.issuer)
            connect += f" {issuer.scheme}://{issuer.netloc}"
        return (
            "default-src 'none'; script-src 'self'; style-src 'self'; "
            f"connect-src {connect}; img-src 'self' data:; font-src 'self'; base-uri 'none'; form-action 'none'; "
            f"frame-ancestors {' '.join(self._studio.frame_ancestors)}; require-trusted-types-for 'script'"
        )


def _file(request: Headers, file: StaticFile | None, caching: str) -> Response:
    """The file, compressed if the client accepts it. Raises NotFound for None."""
    if file is None:
        raise NotFound
    headers = {**_SHARED, "ETag": file.etag, "Cache-Control": caching, "Vary": "Accept-Encoding"}
    if file.etag in request.get("If-None-Match", ""):
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    if "gzip" in request.get("Accept-Encoding", ""):
        return Response(file.packed, HTTPStatus.OK, {**headers, "Content-Encoding": "gzip"}, file.media_type)
    return Response(file.content, HTTPStatus.OK, headers, file.media_type)
