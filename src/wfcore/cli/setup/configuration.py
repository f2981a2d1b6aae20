"""`wfcore config check`: every fault of the configuration in one answer."""

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

from cyclopts import CycloptsError

from wfcore.adapters.sealing import file_of
from wfcore.adapters.sql.schema.names import DEFAULT_SCHEMA, check_schema
from wfcore.addresses import IN_MEMORY, address_of, is_server, server_options
from wfcore.cli.common import DATABASE, Config, UnusedDatabase, print_message
from wfcore.cli.files import load_tools
from wfcore.cli.options import ENVIRONMENT, all_options, option_fault
from wfcore.settings.faults import faults_of
from wfcore.settings.installation import PREFIX, BadSettings, Configuration, read_file
from wfcore.settings.names import UnknownName, unknown_keys, unknown_variables

if TYPE_CHECKING:
    from cyclopts.argument import Argument

    Options: TypeAlias = Mapping[str, list[Argument]]


async def check(*, database: UnusedDatabase = DATABASE, config: Config = None) -> int:
    """Check the configuration file and the variables WFCORE_...; prints every fault, and opens no database.

    An unknown name is a fault, with the nearest known one. Exit status: 0, or 2 for a configuration with faults.
    """
    from wfcore.cli.main import app

    options, path = all_options(app), config or os.environ.get(f"{PREFIX}CONFIG")
    found, configuration = faults_of(path, os.environ)
    faults = [*map(str, _unknown(path, options)), *found, *_option_faults(path, configuration, options)]
    faults += _database_faults(configuration)
    for fault in faults:
        print_message(f"error: {fault}")
    if not faults:
        print("the configuration is valid")  # noqa: T201
    return 2 if faults else 0


def _unknown(path: str | None, options: "Options") -> list[UnknownName]:
    found = unknown_variables(os.environ, options)
    if path is not None:
        try:
            found += unknown_keys(read_file(path), path, options)
        except BadSettings:
            return found  # `faults_of` reports it
    return found


def _option_faults(path: str | None, configuration: Configuration, options: "Options") -> Iterator[str]:
    """The values of options of commands, and the tools that they name."""
    given = [(key, value, key, path or "") for key, value in configuration.options.items()]
    variables = {f"{PREFIX}{key.upper()}": key for key in options}
    given += [(variables[name], os.environ[name], name, ENVIRONMENT) for name in sorted(variables & os.environ.keys())]
    for key, value, name, source in given:
        if fault := option_fault(key, value, options.get(key, ()), name, source):
            yield fault
        elif key == "tools":
            yield from _tool_faults(value if isinstance(value, list) else value.split(","))


def _tool_faults(references: list[str]) -> Iterator[str]:
    for reference in references:
        try:
            load_tools([reference.strip()])
        except CycloptsError as error:
            yield str(error)


def _database_faults(configuration: Configuration) -> Iterator[str]:
    """Those of the URL and the schema, without the URL, which can have a password."""
    url, schema = configuration.database or DATABASE, configuration.schema
    if url not in IN_MEMORY and not is_server(url) and file_of(url) is None:
        yield "`database`: is not a valid URL: use sqlite:///path, postgresql://user@host/name or sqlite://"
    elif schema is not None and not is_server(url):
        yield "`schema`: is for PostgreSQL"
    try:
        check_schema(schema or DEFAULT_SCHEMA)
        if is_server(url):
            server_options(address_of(url))
    except (ValueError, ImportError) as error:
        yield str(error)


def warn_of_unknown_variables() -> None:
    """Print a warning for each variable `WFCORE_...` that nothing reads."""
    if unknown_variables(os.environ, ()):  # most variables are settings: the options of all commands take long
        from wfcore.cli.main import app

        for one in unknown_variables(os.environ, all_options(app)):
            print_message(f"warning: {one}")


def warn_of_missing_settings(configured: Configuration, database: str) -> None:
    """Print a warning for each setting that a server of PostgreSQL needs: it has no file with a place beside it."""
    if not is_server(database):
        return
    if configured.blobs is None:
        print_message("warning: there is no directory for attachments, which are refused: set `blobs`")
    if configured.secret_key is None:
        print_message("warning: there is no secret key, without which no secrets are stored or read: set `secret_key`")
