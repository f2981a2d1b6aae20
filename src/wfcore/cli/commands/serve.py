"""`wfcore serve`: both APIs on one port, and a worker in the same process."""

import contextlib
import socket
import sys
from collections.abc import Callable, Generator
from email.utils import formatdate
from typing import TYPE_CHECKING, Annotated, Final

import attrs
from cyclopts import Parameter
from cyclopts.validators import Number

from wfcore.adapters.sealing import file_of
from wfcore.cli.common import (
    DATABASE,
    Config,
    Database,
    Flag,
    Schema,
    Tools,
    freeze_heap,
    open_core,
    print_message,
    stopped_by_hangup,
)
from wfcore.cli.setup.configuration import warn_of_missing_settings, warn_of_unknown_variables
from wfcore.extras import needs_extra
from wfcore.logs import Format, LevelName, configure

if TYPE_CHECKING:
    from starlette.types import ASGIApp
    from uvicorn import Server

    from wfcore.settings.server import ServerSettings

Port = Annotated[int, Parameter(validator=Number(gte=0, lte=65535))]

TICKS: Final = 10
"""Ticks of uvicorn in a second, after which it has the header `Date` anew."""

Names = Annotated[list[str], Parameter(negative=())]


@Parameter(name="*")
@attrs.frozen
class ServerOptions:
    """Connections and names of the server; each option overrides the key of the table `[server]`."""

    keep_alive_seconds: float | None = None
    "How long an idle connection stays open (default: 75)."
    header_seconds: float | None = None
    "How long the head of a request can take to arrive (default: 10)."
    max_connections: int | None = None
    "The most open connections (default: four fifths of the open files that the system allows, at most 10,000)."
    failed_authentications_per_minute: int | None = None
    "The most invalid credentials of one address in a minute; 0: no limit (default: 300)."
    trusted_proxies: Names = attrs.field(factory=list)
    "An address or network whose X-Forwarded-For and X-Forwarded-Proto count; can be repeated."
    allowed_hosts: Names = attrs.field(factory=list)
    "A name of this server; a request with another Host is refused; can be repeated."
    browser_origins: Names = attrs.field(factory=list)
    "A further origin whose pages can call the API and write, such as https://app.example.org; can be repeated."
    public_url: str | None = None
    "The address of this server in links, such as https://flows.example.org (default: that of the request)."


DRAIN_SECONDS: Final = 3
"""Seconds that open requests can take to end after a stop signal. Streams end at once."""


async def serve(
    *,
    host: str = "127.0.0.1",
    port: Port = 8080,
    no_worker: Flag = False,
    log_format: Format = "text",
    log_level: LevelName = "warning",
    connections: ServerOptions | None = None,
    tools: Tools = [],  # noqa: B006  (never changed)
    database: Database = DATABASE,
    config: Config = None,
    schema: Schema = None,
) -> None:
    """Serve both APIs on one port and drive runs; SIGTERM, SIGHUP and Ctrl-C shut it down cleanly.

    Upgrades the schema first. Prints one line, `listening on http://HOST:PORT`, when it accepts requests.

    Parameters
    ----------
    host
        Address to listen on.
    port
        Port to listen on; 0 picks a free one.
    no_worker
        Do not drive runs: other processes do.
    log_format
        Format of the lines on stderr: text, or one JSON object each.
    log_level
        The lowest level that is logged; `info` has a line for each request.
    """
    from wfcore.adapters.http import app
    from wfcore.cli.files import load_tools
    from wfcore.settings.installation import load

    warn_of_unknown_variables()
    configure(log_format, log_level)
    given, configured = load_tools(tools), load(config)
    warn_of_missing_settings(configured, database)
    settings = configured.server.overridden(attrs.asdict(connections or ServerOptions()))
    metrics, traces = configured.metrics(), configured.traces()
    telemetry = [each for each in (metrics, traces) if each is not None]
    with stopped_by_hangup(), listen(host, port) as listener:
        async with open_core(
            database, config, schema, tools=given, worker=not no_worker, models=True, migrate=True, telemetry=telemetry
        ) as core:
            application = app(
                core,
                oauth=configured.token_verifier(core.ports.clock),
                secret=_secret(configured.secret(), database),
                metrics=metrics,
                metrics_token=configured.telemetry.metrics_token,
                studio=configured.studio.studio(),
                **settings.names(),
            )
            url = url_of(host, listener)
            now = core.ports.clock.now
            server = server_of(
                application, url, settings, now, lambda: _print_next_steps(url, configured.studio.enabled)
            )
            await server.serve([listener])


def _print_next_steps(url: str, has_studio: bool) -> None:
    """Print what to do next, at a terminal only."""
    if not sys.stdout.isatty():
        return
    if has_studio:
        print_message(f"studio: {url}/studio/")
    print_message(f"documentation of the API: {url}/docs")
    print_message("a first token: wfcore org create NAME; wfcore member add --org ORG --user-id ID --email EMAIL;")
    print_message("               wfcore token create --org ORG --user-id ID --all-scopes")


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises OSError with the address when it cannot listen.

    The protocol is explicit: only then does asyncio disable Nagle's algorithm, which costs 40 ms a response.
    """
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, socket.IPPROTO_TCP)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            listener.bind(address)
            listener.listen()
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise OSError(error.errno, f"cannot listen on {host}:{port}: {error.strerror}") from None
    return listener


def url_of(host: str, listener: socket.socket) -> str:
    """The URL of the socket, as clients use it."""
    return f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"


def _secret(configured: bytes | None, database: str) -> bytes:
    from wfcore.cli.commands.secret import key_beside

    return key_beside(file_of(database)) if configured is None else configured


def server_of(
    application: "ASGIApp",
    url: str,
    options: "ServerSettings",
    now: Callable[[], int],
    announce: Callable[[], None] = lambda: None,
) -> "Server":
    """The server of the application. `announce` is called once it accepts requests.

    `now` is the wall time in epoch milliseconds for the header `Date`: clients compare the times of responses with it.
    """
    with needs_extra("server", "the server"):
        from uvicorn import Config as Settings
        from uvicorn import Server

        from wfcore.adapters.http.connections import uvicorn_options

    class AnnouncingServer(Server):
        """Prints a line when it accepts requests. A stop signal ends it without killing the process."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            freeze_heap()
            print(f"listening on {url}", flush=True)  # noqa: T201
            announce()

        async def on_tick(self, counter: int) -> bool:
            should_exit = await super().on_tick(counter)
            if counter % TICKS == 0:
                self.server_state.default_headers = [(b"date", formatdate(now() / 1000, usegmt=True).encode())]
            return should_exit

        @contextlib.contextmanager
        def capture_signals(self) -> Generator[None, None, None]:
            with super().capture_signals():
                yield
                self._captured_signals.clear()

    settings = Settings(
        application,
        lifespan="off",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=DRAIN_SECONDS,
        **uvicorn_options(options.limits(), options.trusted_proxies),
    )
    return AnnouncingServer(settings)
