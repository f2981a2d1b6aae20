"""`/docs`: the documentation of the API."""

import re

import httpx
import pytest

import wfcore
from wfcore.adapters.http import app

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("prefix", ["", "/flows"])
async def test_the_page_loads_only_from_this_server(prefix: str) -> None:
    """It needs no credential; its script and its document are where it says, also below a prefix."""
    async with wfcore.open("sqlite://", worker=False) as core:
        transport = httpx.ASGITransport(app(core, studio=None), root_path=prefix)
        async with httpx.AsyncClient(transport=transport, base_url="http://product") as visitor:
            page = await visitor.get(f"{prefix}/docs")
            assert (page.status_code, page.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
            policy = page.headers["Content-Security-Policy"]
            assert "default-src 'none'; script-src 'self'; worker-src blob:" in policy
            assert "unsafe-eval" not in policy
            (document,) = re.findall(r'spec-url="([^"]+)"', page.text)
            (script,) = re.findall(r'<script src="([^"]+)"', page.text)
            assert (await visitor.get(document)).json()["openapi"].startswith("3.1")
            packed = await visitor.get(script)
            assert packed.headers["Content-Encoding"] == "gzip"
            plain = await visitor.get(script, headers={"Accept-Encoding": "identity"})
            assert plain.headers["Content-Type"].startswith("text/javascript")
            assert "Content-Encoding" not in plain.headers
            assert plain.text == packed.text
            assert "cdn.redoc.ly" not in plain.text
            again = await visitor.get(script, headers={"If-None-Match": plain.headers["ETag"]})
            assert (again.status_code, again.content) == (304, b"")
            assert (await visitor.get(f"{prefix}/docs/other.js")).status_code == 404
