"""The source of an option's value: the command line, else the environment, else the configuration file."""

import os
from collections.abc import Iterable, Mapping
from typing import Any, Final

from cyclopts import App, CycloptsError, Token
from cyclopts.argument import Argument, ArgumentCollection

PREFIX: Final = "WFCORE_"
ENVIRONMENT: Final = "the environment"


_CHECKS: Final = ("config", "check")
"""The command that reports every fault of a file itself."""


_SERVER: Final = {"server", "token"}
_DATABASE: Final = {"database", "schema", "org", "user_id"}
"""The options that name one of the two targets of a command, whose data it works on."""

INCOMPLETE: Final = (
    "a database needs --org and --user-id (WFCORE_ORG, WFCORE_USER_ID), a server --server or `wfcore login`"
)


def fill(root: App, _: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """Fill in the options that the command line left out (a config hook of cyclopts)."""
    options = {_key(argument): argument for argument in arguments if argument.name.startswith("--")}
    if on_database := _names_database(options):
        options = {key: option for key, option in options.items() if key not in _SERVER}
    for key, option in options.items():
        variable = PREFIX + key.upper()
        if not option.tokens and variable in os.environ and not _is_pair(option):
            _set(option, _texts(option, os.environ[variable]), variable, ENVIRONMENT)
    if "config" in options and options["config"].tokens and commands != _CHECKS:
        _fill_from_file(root, options["config"].tokens[0].value, options)
    if on_database and not (options["org"].tokens and options["user_id"].tokens):
        raise CycloptsError(msg=INCOMPLETE)


def _names_database(options: Mapping[str, Argument]) -> bool:
    """Whether the command line names a database for a command that could work on a server: no other source names one.

    Raises CycloptsError when it names both.
    """
    named = {key for key, option in options.items() if option.tokens}
    if not options.keys() >= _SERVER | _DATABASE or not named & _DATABASE:
        return False
    if named & _SERVER:
        raise CycloptsError(msg="name either a server or a database")
    return True


def _fill_from_file(root: App, path: str, options: Mapping[str, Argument]) -> None:
    for key, value in _read(path).items():
        option = options.get(key)
        if option is None:
            known = all_options(root)
            if key not in known:
                raise CycloptsError(msg=_unknown(key, path, known))
            continue
        _check_type(key, value, option, path)
        if not option.tokens:
            _set(option, _texts(option, value), key, path)


def _unknown(key: str, path: str, options: Iterable[str]) -> str:
    from wfcore.settings.names import UnknownName, nearest, setting_names

    return str(UnknownName(key, path, nearest(key, setting_names().union(options))))


def _read(path: str) -> dict[str, Any]:
    from wfcore.settings.installation import load

    configuration = load(path)
    given = {"database": configuration.database, "schema": configuration.schema}
    return {**configuration.options, **{name: value for name, value in given.items() if value is not None}}


def _key(argument: Argument) -> str:
    return argument.name.removeprefix("--").replace("-", "_")


def all_options(app: App) -> dict[str, list[Argument]]:
    """The options of all commands by their names: several commands can share a file."""
    found: dict[str, list[Argument]] = {}
    if app.default_command is not None:
        for argument in app.assemble_argument_collection():
            found.setdefault(_key(argument), []).append(argument)
        return found
    for name in app:
        for key, arguments in {} if name.startswith("-") else all_options(app[name]).items():
            found.setdefault(key, []).extend(arguments)
    return found


def option_fault(key: str, value: Any, options: Iterable[Argument], name: str, source: str) -> str | None:
    """Why no command has an option with this value; None if one has. In the environment every value is text."""
    fault = None
    for option in options:
        option.tokens.clear()
        try:
            if source != ENVIRONMENT:
                _check_type(key, value, option, source)
            _set(option, _texts(option, value), name, source)
            option.convert_and_validate()
        except (CycloptsError, ValueError) as error:
            fault = fault or _located(str(error).strip().splitlines()[-1], name, source)
        else:
            return None
    return fault


def _located(problem: str, name: str, source: str) -> str:
    return problem if name in problem else f"`{name}` in {source}: {problem}"


def _texts(option: Argument, value: Any) -> list[str]:
    """The value as arguments of a command line. In the environment, commas separate the values of a list."""
    if isinstance(value, str) and _is_list(option):
        return [part.strip() for part in value.split(",") if part.strip()]
    return [_text(part) for part in value] if isinstance(value, list) else [_text(value)]


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_list(option: Argument) -> bool:
    return getattr(option.hint, "__origin__", None) is list


def _is_pair(option: Argument) -> bool:
    """An option of two values has no variable: `WFCORE_BLOBS` is a setting, and not `--blobs FROM TO` of a copy."""
    count, _ = option.token_count()
    return bool(count == 2)


def _check_type(key: str, value: Any, option: Argument, path: str) -> None:
    import msgspec

    try:
        msgspec.convert(value, option.hint)
    except msgspec.ValidationError as error:
        problem = str(error).replace(" | null", "")
        raise CycloptsError(msg=f"`{key}` in {path}: {problem[:1].lower()}{problem[1:]}") from None


def _set(option: Argument, texts: list[str], name: str, source: str) -> None:
    for index, text in enumerate(texts):
        option.append(Token(keyword=name, value=text, source=source, index=0 if _is_list(option) else index))
