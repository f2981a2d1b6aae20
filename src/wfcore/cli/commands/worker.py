"""`wfcore worker`: a process that drives runs, beside servers and other workers on the same database."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from cyclopts import CycloptsError

from wfcore.cli.opening import DATABASE, Config, Database, Tools, opened
from wfcore.logs import Format, LevelName, configure

ENDS: Final = (signal.SIGTERM, signal.SIGINT)


async def worker(
    *,
    log_format: Format = "text",
    log_level: LevelName = "warning",
    tools: Tools = [],  # noqa: B006  (never changed)
    database: Database = DATABASE,
    config: Config = None,
) -> None:
    """Drive runs, schedules and timers; SIGTERM and Ctrl-C end it in good order.

    Prints one line, `working`, once it is ready. What is under way at the end gets a few seconds to come to a rest, and
    goes on in other workers.

    Parameters
    ----------
    log_format
        Lines on stderr: for people, or one JSON object each.
    log_level
        From which level on; `info` has a line for each turn.
    """
    from wfcore.bootstrap import IN_MEMORY
    from wfcore.cli.files import load_tools
    from wfcore.settings.installation import load

    if database in IN_MEMORY:
        raise CycloptsError(msg=f"`{database}` is this process's alone: a worker needs a database that it can share")
    configure(log_format, log_level)
    given, traces = load_tools(tools), load(config).traces()
    telemetry = [] if traces is None else [traces]
    with _told_to_end() as end:
        async with opened(database, config, tools=given, worker=True, telemetry=telemetry):
            print("working", flush=True)  # noqa: T201
            await end.wait()


@contextmanager
def _told_to_end() -> Iterator[asyncio.Event]:
    """Set by a signal that would end the process at once."""
    end, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in ENDS:
        loop.add_signal_handler(number, end.set)
    try:
        yield end
    finally:
        for number in ENDS:
            loop.remove_signal_handler(number)
