"""The page `/docs`: the OpenAPI document for readers, shown by Redoc.

`redoc.js.gz` is `bundles/redoc.standalone.js` of the npm package `redoc` 2.5.1 (MIT, see `redoc.LICENSE.txt`), in which
the address of its logo is empty: the page loads nothing from another server. Its content security policy enforces that.
"""

import gzip
import hashlib
import html
from collections.abc import Iterator
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Final

from starlette.responses import Response

from wfcore.adapters.http.core.route import Call, Handler, Route

_FILE: Final = Path(__file__).with_name("redoc.js.gz")

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; worker-src blob:; style-src 'self' 'unsafe-inline'; connect-src 'self'; "
    "img-src 'self' data:; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Redoc styles its elements with inline styles, and searches in a worker of its own script."""

_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>wfcore API</title>
<link rel="icon" href="data:,">
</head>
<body>
<noscript>JavaScript is needed to show this page. The document is at <a href="{document}">{document}</a>.</noscript>
<redoc spec-url="{document}" disable-search="false" hide-download-button="false"></redoc>
<script src="{script}"></script>
</body>
</html>
"""


class ReferenceRoutes:
    """The page and its script. They need no credential: the document needs none either."""

    def table(self) -> Iterator[Route]:
        yield self._route("docs.page", "/docs", self.page, "The documentation of the API", "text/html")
        yield self._route("docs.script", "/docs/redoc.js", self.script, "The script of the page", "text/javascript")

    def _route(self, name: str, path: str, handle: Handler, summary: str, media_type: str) -> Route:
        return Route(
            name, "GET", path, handle, summary, None, {"type": "string"}, any_query=True, media_type=media_type
        )

    async def page(self, call: Call) -> Response:
        places = {"document": call.url("/openapi.json"), "script": call.url(f"/docs/redoc.js?v={_digest()[:16]}")}
        text = _PAGE.format(**{name: html.escape(url) for name, url in places.items()})
        headers = {"Content-Security-Policy": _POLICY, "Referrer-Policy": "no-referrer", "Cache-Control": "no-cache"}
        return Response(text, HTTPStatus.OK, headers, "text/html")

    async def script(self, call: Call) -> Response:
        """The script, compressed if the client accepts it."""
        headers = {
            "ETag": f'"{_digest()[:32]}"', "Cache-Control": "public, max-age=31536000, immutable",
            "Vary": "Accept-Encoding",
        }  # fmt: skip
        if headers["ETag"] in call.headers.get("If-None-Match", ""):
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
        packed = _FILE.read_bytes()
        if "gzip" in call.headers.get("Accept-Encoding", ""):
            return Response(packed, HTTPStatus.OK, {**headers, "Content-Encoding": "gzip"}, "text/javascript")
        return Response(gzip.decompress(packed), HTTPStatus.OK, headers, "text/javascript")


@cache
def _digest() -> str:
    return hashlib.sha256(_FILE.read_bytes()).hexdigest()
