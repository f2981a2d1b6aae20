"""`wfcore dev`: a server and a worker on a local file, with a demo organization."""

import hmac
import secrets
import webbrowser
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import attrs

from wfcore.cli.commands.serve import Port, ServerOptions, listen, server_of, url_of
from wfcore.cli.common import Config, Database, Flag, Schema, Tools, open_core, stopped_by_hangup
from wfcore.cli.setup.configuration import warn_of_unknown_variables
from wfcore.logs import configure

if TYPE_CHECKING:
    from starlette.requests import HTTPConnection
    from starlette.types import ASGIApp, Receive, Scope, Send

    from wfcore.core import Core
    from wfcore.domain.resources.access import Principal

DEV_DATABASE: Final = "sqlite:///wfcore-dev.db"
HOST: Final = "127.0.0.1"
"""Only programs of this machine can connect: the link signs in without a password."""
NAMES: Final = (HOST, "localhost")
COOKIE: Final = "wfcore_dev"
SIGN_IN: Final = "/dev/"
"""The path of the link, before its secret."""
USER: Final = "demo"


async def dev(
    *,
    port: Port = 8080,
    open: Flag = False,
    tools: Tools = [],  # noqa: B006  (never changed)
    database: Database = DEV_DATABASE,
    config: Config = None,
    schema: Schema = None,
) -> None:
    """Serve a demo organization on this machine, and print a link that signs in to the studio.

    The first start creates workflows, and runs that are finished, waiting and failed; later ones find them again. Only
    this machine can connect. The link is valid until the process ends.

    Parameters
    ----------
    port
        Port to listen on; 0 picks a free one.
    open
        Open the link in the browser.
    """
    from wfcore.adapters.http import app
    from wfcore.cli.commands.demo import ORGANIZATION, create_demo
    from wfcore.cli.files import load_tools
    from wfcore.settings.installation import load

    warn_of_unknown_variables()
    configure("text", "warning")
    given, configured = load_tools(tools), load(config)
    settings = configured.server.overridden(attrs.asdict(ServerOptions()))
    with stopped_by_hangup(), listen(HOST, port) as listener:
        async with open_core(database, config, schema, tools=given, worker=True, models=True, migrate=True) as core:
            await create_demo(core, USER)
            secret = secrets.token_urlsafe(32)
            me = core.principal(ORGANIZATION, USER, email="demo@example.org", role="owner")
            api = app(core, authenticate=_by_cookie(core, secret, me), allowed_hosts=NAMES)
            url = url_of(HOST, listener)
            link = f"{url}{SIGN_IN}{secret}"

            def announce() -> None:
                print(f"studio, signed in as `{USER}`: {link}", flush=True)  # noqa: T201
                if open:
                    webbrowser.open(link)

            server = server_of(with_sign_in(api, secret), url, settings, core.ports.clock.now, announce)
            await server.serve([listener])


def _by_cookie(core: "Core", secret: str, me: "Principal") -> "Callable[[HTTPConnection], Awaitable[Principal | None]]":
    """Accept the cookie of the link, and personal access tokens."""

    async def authenticate(connection: "HTTPConnection") -> "Principal | None":
        from wfcore.adapters.http.core.authentication import bearer_token

        token = bearer_token(connection)
        if token is not None:
            return await core.directory.authenticate(token)
        return me if _is_secret(connection.cookies.get(COOKIE, ""), secret) else None

    return authenticate


def with_sign_in(application: "ASGIApp", secret: str) -> "ASGIApp":
    """The application, whose path `/dev/<secret>` sets the cookie and redirects to the studio."""
    from starlette.responses import RedirectResponse

    headers = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}

    async def routed(scope: "Scope", receive: "Receive", send: "Send") -> None:
        path = str(scope.get("path", ""))
        if scope["type"] == "http" and path.startswith(SIGN_IN) and _is_secret(path.removeprefix(SIGN_IN), secret):
            response = RedirectResponse("/studio/", 303, headers)
            response.set_cookie(COOKIE, secret, httponly=True, samesite="strict")
            await response(scope, receive, send)
        else:
            await application(scope, receive, send)

    return routed


def _is_secret(text: str, secret: str) -> bool:
    return hmac.compare_digest(text.encode(errors="replace"), secret.encode())
