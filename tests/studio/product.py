"""A product with its own users and its own strict policy, whose page shows elements of two organizations.

`python tests/studio/product.py` prints the port, and the id of a parked run of each organization.
"""

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import demo
import uvicorn
from starlette.applications import Starlette
from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Mount, Route

import wfcore
from wfcore.adapters.http import app
from wfcore.ports.identity import Identity

ACME = wfcore.http.Studio(
    title="Acme Automation",
    logo="data:image/gif;base64,R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw==",
    theme={"--wf-color-accent": "rgb(120, 20, 60)"},
    links=[("Back to Acme", "/")],
    labels={"nav.runs": "Jobs", "de": {"nav.inbox": "Postfach"}, "fr": {"nav.inbox": "Boîte"}},
    prefix="acme",
)
WHITE = """<!doctype html>
<html lang="en"><head><title>Acme</title><link rel="icon" href="data:,">
<link rel="stylesheet" href="/style.css">
<script type="module" src="/d/studio/acme.js"></script>
</head>
<body><main><h1>Acme</h1><acme-studio heading="Automation" %s></acme-studio></main></body></html>"""
REACT = """<!doctype html>
<html lang="en"><head><title>React</title><link rel="icon" href="data:,">
<link rel="stylesheet" href="/style.css">
<script type="module" src="/react.js"></script>
<script type="module" src="/d/studio/acme.js"></script>
</head>
<body><div id="root"></div></body></html>"""
BUNDLE = Path(__file__).parent / "react18" / "built" / "page.js"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
)
PAGE = """<!doctype html>
<html lang="en"><head><title>Product</title><link rel="icon" href="data:,">
<link rel="stylesheet" href="/style.css">
<script type="module" src="/product.js"></script>
<script type="module" src="/a/studio/wfcore.js"></script>
<script type="module" src="/b/studio/wfcore.js"></script>
</head>
<body><h1>Product</h1>
<wfcore-provider id="first" base-url="/a"><wfcore-inbox></wfcore-inbox><wfcore-runs></wfcore-runs></wfcore-provider>
<wfcore-provider id="second" base-url="/b" locale="de" color-scheme="dark">
<wfcore-inbox skin="minimal"></wfcore-inbox><wfcore-run run-id="%s"></wfcore-run></wfcore-provider>
</body></html>"""
STYLE = """wfcore-inbox, wfcore-runs, wfcore-run { height: 420px; margin: 8px; --wf-color-accent: rgb(1, 102, 68); }
acme-studio { height: 700px; --wf-color-accent: rgb(1, 102, 68); }
button { color: rgb(160, 0, 0) !important; }"""
SCRIPT = """window.seen = [];
for (const name of ['ready', 'navigate', 'decided', 'before-decide', 'error', 'auth-required', 'run-end']) {
  addEventListener('wfcore-' + name, (event) => {
    window.seen.push([name, event.target.localName, JSON.parse(JSON.stringify(event.detail))]);
    if (name === 'before-decide' && window.refuse) event.preventDefault();
  });
}
const provider = document.getElementById('second');
window.asked = 0;
provider.getToken = async () => { window.asked++; return window.token; };
window.token = 'TOKEN';
"""


class Issuer:
    """A verifier that knows one access token."""

    issuer = "http://issuer.test"
    audience = "http://product.test/c"

    def __init__(self, org: str) -> None:
        self._org = org

    async def verify(self, token: str) -> Identity | None:
        known = token == "access-token"
        return Identity(self._org, "zoe", frozenset(wfcore_scopes())) if known else None


async def main() -> None:
    async with AsyncExitStack() as stack:
        mounts, waiting, token = [], [], ""
        for name, title in (("a", "Publish first"), ("b", "Publish second")):
            core = await stack.enter_async_context(wfcore.open("sqlite://"))
            org = (await core.directory.create_organization(name)).uuid
            await core.directory.add_member(org, "zoe", "zoe@product.test")
            if name == "b":
                token = await core.directory.create_token(org, "zoe", scopes=wfcore_scopes())
            me = core.principal(org, user="zoe", email="zoe@product.test")
            flow = await core.workflows.create(me, name=title, structure=demo.PLAIN)
            await core.workflows.deploy(me, flow.id)
            run = await core.runs.start(me, workflow=flow.id, input={"order": name})
            waiting.append(run.id)

            async def by_cookie(connection: HTTPConnection, me: wfcore.Principal = me) -> wfcore.Principal | None:
                return me if connection.cookies.get("session") == "zoe" else None

            mounts.append(Mount(f"/{name}", app(core, authenticate=by_cookie) if name == "a" else app(core)))

        core = await stack.enter_async_context(wfcore.open("sqlite://"))
        org = (await core.directory.create_organization("d")).uuid
        await core.directory.add_member(org, "zoe", "zoe@product.test", role="owner")
        zoe = core.principal(org, user="zoe", email="zoe@product.test", role="owner")
        flow = await core.workflows.create(zoe, name="Publish fourth", structure=demo.PLAIN)
        await core.workflows.deploy(zoe, flow.id)
        waiting.append((await core.runs.start(zoe, workflow=flow.id, input={"order": "d"})).id)
        await core.runs.start(zoe, workflow=flow.id, input={"order": "react"})
        await core.skills.create(zoe, {"name": "Fourth"})

        async def of_acme(connection: HTTPConnection) -> wfcore.Principal | None:
            return zoe if connection.cookies.get("session") == "zoe" else None

        mounts.append(Mount("/d", app(core, authenticate=of_acme, studio=ACME)))

        core = await stack.enter_async_context(wfcore.open("sqlite://"))
        org = (await core.directory.create_organization("c")).uuid
        await core.directory.add_member(org, "zoe", "zoe@product.test")
        me = core.principal(org, user="zoe", email="zoe@product.test")
        skill = await core.skills.create(me, {"name": "Helper", "interfaces": [{"kind": "chatapp"}]})
        deployed = (await core.skills.deploy(me, skill.id)).to_wire()
        studio = wfcore.http.Studio(title="Third", oauth_client_id="studio")
        mounts.append(Mount("/c", app(core, oauth=Issuer(org), studio=studio)))

        async def page(request: Request) -> Response:
            shown = HTMLResponse(PAGE % waiting[1], headers={"Content-Security-Policy": POLICY})
            shown.set_cookie("session", "zoe", httponly=True, samesite="lax")
            return shown

        async def white(request: Request) -> Response:
            """The whole application in a page: its place in the path, in the fragment, or kept by the product; or
            elements in a page of React 18.
            """
            kind = request.path_params["kind"]
            base = {"path": 'base-path="/white/path"', "hash": 'base-path="#/"'}.get(kind, "")
            shown = HTMLResponse(
                REACT if kind == "react" else WHITE % base, headers={"Content-Security-Policy": POLICY}
            )
            shown.set_cookie("session", "zoe", httponly=True, samesite="lax")
            return shown

        async def script(request: Request) -> Response:
            return Response(SCRIPT.replace("TOKEN", token), media_type="text/javascript")

        async def react(request: Request) -> Response:
            return Response(BUNDLE.read_text(), media_type="text/javascript")

        async def style(request: Request) -> Response:
            return Response(STYLE, media_type="text/css")

        routes = [
            Route("/", page),
            Route("/product.js", script),
            Route("/style.css", style),
            Route("/react.js", react),
            *mounts,
        ]
        routes += [Route(path, white) for path in ("/white/{kind}", "/white/{kind}/{rest:path}")]
        config = uvicorn.Config(Starlette(routes=routes), "127.0.0.1", 0, log_level="error", ws="none", lifespan="off")
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve())
        while not server.started:  # noqa: ASYNC110  (uvicorn has no event for it)
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        sys.stdout.write(
            json.dumps({"port": port, "runs": waiting, "chat": deployed["variation"]["interfaces"][0]["url"]}) + "\n"
        )
        sys.stdout.flush()
        await serving


def wfcore_scopes() -> list[str]:
    return ["workflows:read", "workflows:invoke"]


if __name__ == "__main__":
    asyncio.run(main())
