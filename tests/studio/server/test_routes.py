"""The routes of the studio: what they serve, to whom, and with which headers."""

import re
from collections.abc import AsyncIterator

import httpx
import pytest
from clients import assert_envelope

import wfcore.bootstrap
from wfcore.adapters.http import Studio, app
from wfcore.core import Core

pytestmark = pytest.mark.anyio

POLICY = {
    "default-src": "'none'", "script-src": "'self'", "style-src": "'self'", "connect-src": "'self'",
    "img-src": "'self' data:", "font-src": "'self'", "base-uri": "'none'", "form-action": "'none'",
    "frame-ancestors": "'none'", "require-trusted-types-for": "'script'",
}  # fmt: skip
HTML = {"Accept": "text/html,application/xhtml+xml"}


@pytest.fixture(scope="module")
async def core(anyio_backend: str) -> AsyncIterator[Core]:
    async with wfcore.bootstrap.open("sqlite://") as found:
        yield found


def client_of(application: object) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(application), base_url="http://product")  # type: ignore[arg-type]


@pytest.mark.parametrize("path", ["/studio/", "/studio/runs", "/studio/inbox/int_1", "/studio/nonsense"])
async def test_pages(core: Core, path: str) -> None:
    """Every page is the same document, needs no credential, and runs only our own files."""
    async with client_of(app(core)) as visitor:
        page = await visitor.get(path)
        assert page.status_code == 200
        assert page.headers["Content-Type"] == "text/html; charset=utf-8"
        assert page.headers["Cache-Control"] == "no-cache"
        assert page.headers["X-Content-Type-Options"] == "nosniff"
        assert page.headers["Referrer-Policy"] == "no-referrer"
        policy = dict(part.split(" ", 1) for part in page.headers["Content-Security-Policy"].split("; "))
        assert policy == POLICY
        assert page.text == (await visitor.get("/studio/")).text
        for name in re.findall(r'(?:src|href)="(/[^"]+)"', page.text):
            assert (await visitor.get(name)).status_code == 200, name


async def test_files(core: Core) -> None:
    """Names with a digest are immutable, the module is revalidated, and compressed copies are those of the build."""
    async with client_of(app(core)) as visitor:
        page = await visitor.get("/studio/")
        (script,) = re.findall(r'<script type="module" src="([^"]+)"', page.text)
        for path, caching in ((script, "public, max-age=31536000, immutable"), ("/studio/wfcore.js", "no-cache")):
            packed = await visitor.get(path)
            assert packed.headers["Content-Encoding"] == "gzip"
            assert packed.headers["Content-Type"] == "text/javascript; charset=utf-8"
            assert packed.headers["Cache-Control"] == caching
            assert packed.headers["X-Content-Type-Options"] == "nosniff"
            assert packed.headers["Access-Control-Allow-Origin"] == "*"
            plain = await visitor.get(path, headers={"Accept-Encoding": "identity"})
            assert "Content-Encoding" not in plain.headers
            assert plain.content == packed.content
            again = await visitor.get(path, headers={"If-None-Match": packed.headers["ETag"]})
            assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    "name", ["nothing.js", "..%2Frouter.py", "%2e%2e%2f%2e%2e%2froutes.py", "manifest.json", "a%00b"]
)
async def test_only_names_of_the_manifest_are_served(core: Core, name: str) -> None:
    async with client_of(app(core)) as visitor:
        assert_envelope(await visitor.get(f"/studio/assets/{name}"), 404, "NOT_FOUND", "NOT_FOUND")


async def test_the_root_redirects_browsers(core: Core) -> None:
    """Programs get the 404 of before."""
    async with client_of(app(core)) as visitor:
        answer = await visitor.get("/", headers=HTML)
        assert (answer.status_code, answer.headers["Location"]) == (307, "/studio/")
        assert_envelope(await visitor.get("/"), 404, "NOT_FOUND", "NOT_FOUND")
        assert (await visitor.get("/studio")).headers["Location"] == "/studio/"


async def test_a_prefix_is_part_of_every_address(core: Core) -> None:
    async with client_of(app(core, mount="/automation")) as visitor:
        page = await visitor.get("/automation/studio/runs")
        names = re.findall(r'(?:src|href)="(/[^"]+)"', page.text)
        assert names
        assert all(name.startswith("/automation/studio/") for name in names)
        assert "&quot;baseUrl&quot;: &quot;/automation&quot;" in page.text


async def test_it_can_be_left_out(core: Core) -> None:
    """Its files remain: the chat pages of interfaces need them."""
    async with client_of(app(core, studio=None)) as visitor:
        assert (await visitor.get("/studio/wfcore.js")).status_code == 200
        for path in ("/", "/studio/", "/studio/runs"):
            assert_envelope(await visitor.get(path, headers=HTML), 404, "NOT_FOUND", "NOT_FOUND")


async def test_names_and_colours_are_the_products(core: Core) -> None:
    """They are text, whatever they contain."""
    studio = Studio(title="<b>Acme</b>", theme={"--wf-color-accent": "red"}, links=[("Home", "/")], locale="de")
    async with client_of(app(core, studio=studio)) as visitor:
        page = await visitor.get("/studio/")
        assert "<title>&lt;b&gt;Acme&lt;/b&gt;</title>" in page.text
        assert '<html lang="de">' in page.text
        assert "--wf-color-accent" in page.text
    with pytest.raises(ValueError, match="`Acme` is not a valid prefix"):
        Studio(prefix="Acme")
    with pytest.raises(ValueError, match="unknown property `color` of the theme"):
        Studio(theme={"color": "red"})


async def test_the_module_is_named_after_the_prefix(core: Core) -> None:
    async with client_of(app(core, studio=Studio(prefix="acme"))) as visitor:
        assert (await visitor.get("/studio/acme.js")).status_code == 200
        assert (await visitor.get("/studio/wfcore.js")).headers["Content-Type"] == "text/html; charset=utf-8"


async def test_the_pages_are_not_part_of_the_api(core: Core) -> None:
    async with client_of(app(core)) as visitor:
        paths = (await visitor.get("/openapi.json")).json()["paths"]
        assert not [path for path in paths if path == "/" or path.startswith("/studio")]
