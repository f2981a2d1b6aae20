"""`wfcore worker`: a process that drives runs, beside servers and other workers on the same database."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from cyclopts import CycloptsError

from wfcore.cli.common import DATABASE, Config, Database, Schema, Tools, freeze_heap, open_core, stopped_by_hangup
from wfcore.cli.setup.configuration import warn_of_missing_settings, warn_of_unknown_variables
from wfcore.logs import Format, LevelName, configure

STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


async def worker(
    *,
    log_format: Format = "text",
    log_level: LevelName = "warning",
    tools: Tools = [],  # noqa: B006  (never changed)
    database: Database = DATABASE,
    config: Config = None,
    schema: Schema = None,
) -> None:
    """Drive runs, schedules and timers; SIGTERM, SIGHUP and Ctrl-C shut it down cleanly.

    Prints one line, `working`, when it is ready. On shutdown, active runs get a few seconds to stop; other workers
    continue them.

    Parameters
    ----------
    log_format
        Format of the lines on stderr: text, or one JSON object each.
    log_level
        The lowest level that is logged; `info` has a line for each turn.
    """
    from wfcore.addresses import IN_MEMORY
    from wfcore.cli.files import load_tools
    from wfcore.settings.installation import load

    if database in IN_MEMORY:
        raise CycloptsError(
            msg=f"`{database}` is in the memory of one process: a worker needs a database that processes share"
        )
    warn_of_unknown_variables()
    configure(log_format, log_level)
    given, configured = load_tools(tools), load(config)
    warn_of_missing_settings(configured, database)
    traces = configured.traces()
    telemetry = [] if traces is None else [traces]
    with stopped_by_hangup(), _stop_signal() as end:
        async with open_core(database, config, schema, tools=given, worker=True, migrate=True, telemetry=telemetry):
            freeze_heap()
            print("working", flush=True)  # noqa: T201
            await end.wait()


@contextmanager
def _stop_signal() -> Iterator[asyncio.Event]:
    """An event that is set by a stop signal, which then does not end the process."""
    end, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, end.set)
    try:
        yield end
    finally:
        for number in STOP_SIGNALS:
            loop.remove_signal_handler(number)
