"""A second product, of another origin, whose page shows the inbox of the first one: by a bearer token, without cookies.

    PORTAL=http://localhost:8001 .venv/bin/uvicorn --app-dir examples/embedding app:app
    PRODUCT=http://localhost:8000 .venv/bin/uvicorn --app-dir examples/embedding --port 8001 portal:app

Its backend knows the user and requests a short-lived token for the page from the backend of the product. The product
lists the origin of the portal in `browser_origins`. Tokens of an OAuth issuer would do as well.
"""

import os
from pathlib import Path

from httpx2 import AsyncClient
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

KEY = os.environ.get("PORTAL_KEY", "shared by the product and the portal")
PAGES = Path(__file__).with_name("pages")
POLICY = (
    "default-src 'none'; script-src 'self' {product}; style-src 'self'; connect-src 'self' {product}; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'"
)


async def token_for(product: str, user: str) -> str:
    """A token with which a page acts for this user of the product, from the product's backend."""
    async with AsyncClient(base_url=product, headers={"Authorization": f"Bearer {KEY}"}) as client:
        response = await client.post("/portal-tokens", json={"user": user})
    return str(response.raise_for_status().json()["token"])


def build(product: str, user: str = "amy") -> Starlette:
    """The portal of one user, for the product at this origin. A real one has a sign-in of its own."""

    async def page(request: Request) -> Response:
        text = (PAGES / "portal.html").read_text().replace("PRODUCT", product)
        return HTMLResponse(text, headers={"Content-Security-Policy": POLICY.format(product=product)})

    async def token(request: Request) -> Response:
        return PlainTextResponse(await token_for(product, user), headers={"Cache-Control": "no-store"})

    return Starlette(routes=[Route("/", page), Route("/token", token), Mount("/", StaticFiles(directory=PAGES))])


app = build(os.environ.get("PRODUCT", "http://localhost:8000"))
