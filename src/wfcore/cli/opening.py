"""What the commands share: their common options, an open wfcore, and how a result is printed."""

import json
import logging
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import CycloptsError, Parameter

from wfcore.cli.plain import plain

if TYPE_CHECKING:
    from wfcore.bootstrap import Core
    from wfcore.domain.resources.access import Principal
    from wfcore.ports.providers import Tool
    from wfcore.ports.telemetry import Telemetry

DATABASE: Final = "sqlite:///wfcore.db"
IN_MEMORY: Final = "sqlite://"
LOCAL: Final = "00000000-0000-4000-8000-000000000000"
"""The organization of what is validated and run without a server."""

Database = Annotated[
    str, Parameter(help="The database: sqlite:///path, postgresql://user@host/name, or sqlite:// for one in memory.")
]
UnusedDatabase = Annotated[str, Parameter(help="Taken as everywhere, and not used: this command needs none.")]
Config = Annotated[str | None, Parameter(help="A TOML file of settings.")]
Tools = Annotated[
    list[str],
    Parameter(negative=(), help="Python tools, as MODULE:NAME or FILE.py:NAME: a function or a list of them."),
]


Flag = Annotated[bool, Parameter(negative=())]


@asynccontextmanager
async def opened(
    database: str,
    config: str | None,
    *,
    tools: "Iterable[Callable[..., Any] | Tool]" = (),
    worker: bool = False,
    models: bool = False,
    migrate: bool = True,
    telemetry: "Sequence[Telemetry]" = (),
) -> "AsyncIterator[Core]":
    """Open wfcore as the settings say. What cannot be used is wrong usage.

    The configured models are there for a worker, and with `models` for who checks requests that name them.
    """
    from wfcore import bootstrap
    from wfcore.settings.installation import load

    logging.basicConfig(level=logging.ERROR, format="%(levelname)s %(name)s: %(message)s")
    configuration = load(config)
    async with AsyncExitStack() as stack:
        core = bootstrap.open(
            database,
            tools=tools,
            models=configuration.providers() if worker or models else None,
            settings=configuration.settings(),
            worker=worker,
            migrate=migrate,
            secret=configuration.secret(),
            previous_secrets=configuration.previous_secrets(),
            blobs=configuration.blob_store(),
            telemetry=telemetry,
        )
        try:
            opened_core = await stack.enter_async_context(core)
        except (ValueError, TypeError) as error:
            raise CycloptsError(msg=str(error)) from None
        yield opened_core


def print_result(value: Any) -> None:
    """Print a JSON value on stdout: on one line, unless a person reads it."""
    print(json.dumps(value, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None))  # noqa: T201


def say(line: str) -> None:
    """Tell the person at the terminal something that is no result."""
    print(plain(line), file=sys.stderr)  # noqa: T201


async def local_principal(core: "Core") -> "Principal":
    """Who works at this terminal, in an organization of its own."""
    if await core.ports.storage.organization(LOCAL) is None:
        await core.directory.create_organization("local", id=LOCAL)
    return core.principal(LOCAL, user="local")
