"""`wfcore serve`: both APIs on one port, and a worker in the same process."""

import contextlib
import socket
from collections.abc import Generator
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter
from cyclopts.validators import Number

from wfcore.adapters.sealing import file_of
from wfcore.cli.opening import DATABASE, Config, Database, Flag, Tools, opened
from wfcore.extras import needs_extra
from wfcore.logs import Format, LevelName, configure

if TYPE_CHECKING:
    from starlette.types import ASGIApp
    from uvicorn import Server

Port = Annotated[int, Parameter(validator=Number(gte=0, lte=65535))]

DRAIN: Final = 3
"""Seconds that open requests get to end once the server is told to stop. Streams end at once."""


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
    """Serve both APIs on one port and drive runs; SIGTERM and Ctrl-C end it in good order.

    Prints one line, `listening on http://HOST:PORT`, once it answers. The schema is brought to this release's first.

    Parameters
    ----------
    host
        Address to listen on.
    port
        Port to listen on; 0 picks a free one.
    no_worker
        Leave driving the runs to other processes.
    log_format
        Lines on stderr: for people, or one JSON object each.
    log_level
        From which level on; `info` has a line for each request.
    """
    from wfcore.adapters.http import app
    from wfcore.cli.files import load_tools
    from wfcore.settings.installation import load

    configure(log_format, log_level)
    given, configured = load_tools(tools), load(config)
    metrics, traces = configured.metrics(), configured.traces()
    telemetry = [each for each in (metrics, traces) if each is not None]
    with listen(host, port) as listener:
        async with opened(
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
    """A socket that listens. OSError, naming the address, when that cannot be.

    The protocol is named, since asyncio switches Nagle's algorithm off only then: 40 ms for every answer.
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
    """The address as a client writes it."""
    return f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"


def _secret(configured: bytes | None, database: str) -> bytes:
    from wfcore.cli.commands.secret import key_beside

    return key_beside(file_of(database)) if configured is None else configured


def _server(application: "ASGIApp", url: str) -> "Server":
    with needs_extra("server", "the server"):
        from uvicorn import Config as Settings
        from uvicorn import Server

    class Announced(Server):
        """Says when it answers, and takes a signal for an order to end, not for a way to die."""

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
        timeout_graceful_shutdown=DRAIN,
    )
    return Announced(settings)
