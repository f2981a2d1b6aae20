"""The routes of the studio: its pages, the module of the custom elements, and their built files.

They need no credential and disclose nothing. They are not part of the OpenAPI document, which describes the API.
"""

from collections.abc import Iterator
from http import HTTPStatus
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import RedirectResponse, Response

from wfcore.adapters.http.core.route import Call, Handler, Route
from wfcore.adapters.http.studio.document import BASE, StudioDocument
from wfcore.adapters.http.studio.files import StaticFile, read
from wfcore.domain.kernel.errors import NotFound

_IMMUTABLE: Final = "public, max-age=31536000, immutable"
_SHARED: Final = {"Access-Control-Allow-Origin": "*", "Cross-Origin-Resource-Policy": "cross-origin"}
"""The files are the same for everyone: pages of other origins can load the elements."""


class StudioFileRoutes:
    """The files below `/studio`, which the chat pages of interfaces need too. The module is named after the prefix."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def table(self) -> Iterator[Route]:
        yield _route("studio.module", f"{BASE}/{self._prefix}.js", self.module, "The module of the custom elements")
        yield _route("studio.asset", f"{BASE}/assets/{{name}}", self.asset, "A built file of the studio")

    async def module(self, call: Call) -> Response:
        return _file(call.headers, read("wfcore.js"), "no-cache")

    async def asset(self, call: Call) -> Response:
        return _file(call.headers, read(f"assets/{call.path['name']}"), _IMMUTABLE)


class StudioRoutes:
    """The pages of the studio below `/studio`, and the redirect of browsers from `/`."""

    def __init__(self, document: StudioDocument) -> None:
        self._document = document

    def table(self) -> Iterator[Route]:
        yield _route("studio.root", "/", self.root, "Redirect browsers to the studio")
        for name, path in (
            ("studio.home", f"{BASE}/"),
            ("studio.page", f"{BASE}/{{page}}"),
            ("studio.one", f"{BASE}/{{page}}/{{id}}"),
        ):
            yield _route(name, path, self.page, "A page of the studio")
        yield _route("studio.start", BASE, self.start, "Redirect to the studio")

    async def root(self, call: Call) -> Response:
        """Programs get the 404 of an unknown path; browsers, which state that they accept HTML, are redirected."""
        if "text/html" not in call.headers.get("Accept", "").lower():
            raise NotFound
        return await self.start(call)

    async def start(self, call: Call) -> Response:
        return RedirectResponse(call.url(f"{BASE}/"), HTTPStatus.TEMPORARY_REDIRECT)

    async def page(self, call: Call) -> Response:
        return self._document.response(call)


def _route(name: str, path: str, handle: Handler, summary: str) -> Route:
    return Route(name, "GET", path, handle, summary, None, {"type": "string"}, any_query=True, media_type="text/html")


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
