"""Shared by the commands: common options, an open core, and printing."""

import gc
import json
import logging
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import CycloptsError, Parameter

from wfcore.adapters.sealing import file_of
from wfcore.addresses import shown
from wfcore.cli.plain import plain
from wfcore.domain.kernel.errors import NotFound, Unavailable

if TYPE_CHECKING:
    from wfcore.core import Core
    from wfcore.domain.people.people import Organization
    from wfcore.domain.resources.access import Principal
    from wfcore.ports.journal import ExecutionRef
    from wfcore.ports.providers import Tool
    from wfcore.ports.telemetry import Telemetry

DATABASE: Final = "sqlite:///wfcore.db"
IN_MEMORY: Final = "sqlite://"
LOCAL: Final = "00000000-0000-4000-8000-000000000000"
"""The organization of workflows that are validated and run without a server."""

Database = Annotated[
    str, Parameter(help="The database: sqlite:///path, postgresql://user@host/name, or sqlite:// for one in memory.")
]
Schema = Annotated[str | None, Parameter(help="The PostgreSQL schema with the tables; by default `wfcore`.")]
UnusedDatabase = Annotated[str, Parameter(help="Accepted by every command; this one does not use it.")]
Config = Annotated[str | None, Parameter(help="A TOML file of settings.")]
Tools = Annotated[
    list[str],
    Parameter(negative=(), help="Python tools, as MODULE:NAME or FILE.py:NAME: a function or a list of them."),
]


Flag = Annotated[bool, Parameter(negative=())]


@asynccontextmanager
async def open_core(
    database: str,
    config: str | None,
    schema: str | None = None,
    *,
    tools: "Iterable[Callable[..., Any] | Tool]" = (),
    worker: bool = False,
    models: bool = False,
    migrate: bool = False,
    telemetry: "Sequence[Telemetry]" = (),
) -> "AsyncIterator[Core]":
    """Open wfcore with the settings. Raises CycloptsError for values that cannot be used.

    With `migrate`, the database is created, or upgraded to this release; without, Unavailable says that it must be.
    The configured models are available to a worker, and with `models` to a process that only checks their names.
    """
    from wfcore import Overrides, Secrets, bootstrap
    from wfcore.settings.installation import load

    logging.basicConfig(level=logging.ERROR, format="%(levelname)s %(name)s: %(message)s")
    configuration = load(config)
    file = file_of(database)
    if file is not None and not migrate and not file.exists():
        raise Unavailable(f"database `{file}` does not exist: run `wfcore db upgrade`")
    async with AsyncExitStack() as stack:
        core = bootstrap.open(
            database,
            schema=schema,
            tools=tools,
            models=configuration.providers() if worker or models else None,
            settings=configuration.settings(),
            worker=worker,
            migrate=migrate,
            secrets=Secrets(configuration.secret(), previous=configuration.previous_secrets()),
            ports=Overrides(blobs=configuration.blob_store()),
            telemetry=telemetry,
        )
        try:
            opened = await stack.enter_async_context(core)
        except (ValueError, TypeError) as error:
            raise CycloptsError(msg=str(error)) from None
        yield opened


@asynccontextmanager
async def driving(core: "Core", execution: "ExecutionRef") -> AsyncIterator[None]:
    """Drive this execution meanwhile, and no other: other ones can need tools that this process does not have.

    With another engine than the database, only its workers drive.
    """
    from wfcore.adapters.dispatch.one_execution import OneExecutionDispatcher

    if core.ports.settings.dispatch.engine != "database":
        yield
        return
    dispatcher = OneExecutionDispatcher(core.ports.journal, core.ports.clock, execution)
    await dispatcher.start(core.driver)
    try:
        yield
    finally:
        await dispatcher.stop(core.ports.settings.grace)


@contextmanager
def stopped_by_hangup() -> Iterator[None]:
    """SIGHUP, as when a terminal closes, stops the process like SIGTERM. `nohup` ignores it, and that stays so."""

    def stop(*_: object) -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the shell and the kernel both send one
        signal.raise_signal(signal.SIGTERM)

    before = signal.getsignal(signal.SIGHUP)
    if before is signal.SIG_IGN:
        yield
        return
    signal.signal(signal.SIGHUP, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


def freeze_heap() -> None:
    """Exempt what exists now from garbage collections: each would pause the event loop for 0.1 seconds.

    For processes of wfcore's own that have started and will run for long.
    """
    gc.collect()
    gc.freeze()


def print_result(value: Any) -> None:
    """Print a JSON value on stdout: indented on a terminal, else on one line."""
    print(json.dumps(value, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None))  # noqa: T201


def print_message(line: str) -> None:
    """Print a line on stderr, which is for messages and not for results."""
    print(plain(line), file=sys.stderr)  # noqa: T201


@contextmanager
def at_interruption(line: str) -> Iterator[None]:
    """Print what becomes of the work, if Ctrl-C ends the command in this block."""
    from asyncio import CancelledError

    try:
        yield
    except CancelledError:
        print_message(line)
        raise


async def known_organization(core: "Core", id: str, database: str) -> "Organization":
    """The organization. Raises NotFound for an unknown one."""
    found = await core.ports.storage.organization(id)
    if found is None:
        raise NotFound(f"unknown organization `{id}` in `{shown(database)}`")
    return found


async def local_principal(core: "Core") -> "Principal":
    """The local user, in an organization of its own."""
    if await core.ports.storage.organization(LOCAL) is None:
        await core.directory.create_organization("local", id=LOCAL)
    return core.principal(LOCAL, user="local")
