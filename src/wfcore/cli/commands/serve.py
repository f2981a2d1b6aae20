"""`wfcore serve`: both APIs on one port, and a worker in the same process."""

import contextlib
import socket
from collections.abc import Generator
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter
from cyclopts.validators import Number

from wfcore.adapters.sealing import file_of
from wfcore.cli.common import DATABASE, Config, Database, Flag, Tools, open_core
from wfcore.extras import needs_extra
from wfcore.logs import Format, LevelName, configure

if TYPE_CHECKING:
    from starlette.types import ASGIApp
    from uvicorn import Server

Port = Annotated[int, Parameter(validator=Number(gte=0, lte=65535))]

DRAIN_SECONDS: Final = 3
"""Seconds that open requests can take to end after a stop signal. Streams end at once."""


async def serve(
    *,
    host: str = "127.0.0.1",
    port: Port = 8080,
    no_worker: Flag = False,
    log_format: Format = "text",
    log_level: LevelName = "warning",
    tools: Tools = [],  # noqa: B006  (never changed)
    database: Database = DATABASE,
    config: Config = None,
) -> None:
    """Serve both APIs on one port and drive runs; SIGTERM and Ctrl-C shut it down cleanly.

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

    configure(log_format, log_level)
    given, configured = load_tools(tools), load(config)
    metrics, traces = configured.metrics(), configured.traces()
    telemetry = [each for each in (metrics, traces) if each is not None]
    with listen(host, port) as listener:
        async with open_core(
            database, config, tools=given, worker=not no_worker, models=True, telemetry=telemetry
        ) as core:
            application = app(
                core,
                oauth=configured.token_verifier(core.ports.clock),
                secret=_secret(configured.secret(), database),
                metrics=metrics,
                metrics_token=configured.telemetry.metrics_token,
            )
            server = _server(application, url_of(host, listener))
            await server.serve([listener])


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


def _server(application: "ASGIApp", url: str) -> "Server":
    with needs_extra("server", "the server"):
        from uvicorn import Config as Settings
        from uvicorn import Server

    class AnnouncingServer(Server):
        """Prints a line when it accepts requests. A stop signal ends it without killing the process."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            print(f"listening on {url}", flush=True)  # noqa: T201

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
    )
    return AnnouncingServer(settings)
