"""`wfcore config check`: every fault of the configuration in one answer."""

import os

from wfcore.cli.common import DATABASE, Config, UnusedDatabase, print_message
from wfcore.cli.options import all_options
from wfcore.settings.installation import PREFIX, BadSettings, Configuration, load, read_file
from wfcore.settings.names import UnknownName, unknown_keys, unknown_variables


async def check(*, database: UnusedDatabase = DATABASE, config: Config = None) -> int:
    """Check the configuration file and the variables WFCORE_...; prints every fault, and opens no database.

    An unknown name is a fault, with the nearest known one. Exit status: 0, or 2 for a configuration with faults.
    """
    faults = list(map(str, _unknown(config)))
    try:
        _check_use(load(config))
    except BadSettings as error:
        if "unknown field" not in str(error) or not faults:
            faults.append(str(error))
    for fault in faults:
        print_message(f"error: {fault}")
    if not faults:
        print("the configuration is valid")  # noqa: T201
    return 2 if faults else 0


def _check_use(configuration: Configuration) -> None:
    """Raises BadSettings for values whose faults only show when they are used."""
    configuration.settings()
    configuration.providers()
    configuration.metrics()
    configuration.traces()


def _unknown(config: str | None) -> list[UnknownName]:
    from wfcore.cli.main import app

    options, path = all_options(app), config or os.environ.get(f"{PREFIX}CONFIG")
    found = unknown_variables(os.environ, options)
    if path is not None:
        try:
            found += unknown_keys(read_file(path), path, options)
        except BadSettings:
            return found  # `load` reports it
    return found


def warn_of_unknown_variables() -> None:
    """Print a warning for each variable `WFCORE_...` that nothing reads."""
    if unknown_variables(os.environ, ()):  # most variables are settings: the options of all commands take long
        from wfcore.cli.main import app

        for one in unknown_variables(os.environ, all_options(app)):
            print_message(f"warning: {one}")
