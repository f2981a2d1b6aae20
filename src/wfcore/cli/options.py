"""Where an option's value comes from: the command line, else the environment, else the configuration file."""

import os
from typing import Any, Final

from cyclopts import App, CycloptsError, Token
from cyclopts.argument import Argument, ArgumentCollection

PREFIX: Final = "WFCORE_"


def fill(app: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """Give the options that the command line left out the values they have elsewhere (a hook of cyclopts)."""
    options = {_key(argument): argument for argument in arguments if argument.name.startswith("--")}
    for key, option in options.items():
        variable = PREFIX + key.upper()
        if not option.tokens and variable in os.environ:
            _put(option, _texts(option, os.environ[variable]), variable, "environment")
    if "config" in options and options["config"].tokens:
        _fill_from_file(app, options["config"].tokens[0].value, options)


def _fill_from_file(app: App, path: str, options: dict[str, Argument]) -> None:
    from wfcore.settings import BadSettings, load

    try:
        configuration = load(path)
    except BadSettings as error:
        raise CycloptsError(msg=str(error)) from None
    given = dict(configuration.options)
    if configuration.database is not None:
        given["database"] = configuration.database
    known = None
    for key, value in given.items():
        if key in options:
            _check_type(key, value, options[key], path)
            if not options[key].tokens:
                _put(options[key], _texts(options[key], value), key, path)
        else:
            known = known or _all_options(_root(app))
            if key not in known:
                raise CycloptsError(msg=f"`{key}` in {path}: there is no such setting")


def _key(argument: Argument) -> str:
    return argument.name.removeprefix("--").replace("-", "_")


def _root(app: App) -> App:
    return app.app_stack.stack[0][0]


def _all_options(app: App) -> set[str]:
    """The options of all commands: a file may serve several."""
    found = {_key(argument) for argument in app.assemble_argument_collection(parse_docstring=False)}
    for name in app:
        if not name.startswith("-"):
            found |= _all_options(app[name])
    return found


def _texts(option: Argument, value: Any) -> list[str]:
    """As words of the command line. A list in the environment has commas between its values."""
    if isinstance(value, str) and _is_list(option):
        return [part.strip() for part in value.split(",") if part.strip()]
    return [_text(part) for part in value] if isinstance(value, list) else [_text(value)]


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_list(option: Argument) -> bool:
    return getattr(option.hint, "__origin__", None) is list


def _check_type(key: str, value: Any, option: Argument, path: str) -> None:
    import msgspec

    try:
        msgspec.convert(value, option.hint)
    except msgspec.ValidationError as error:
        problem = str(error)
        raise CycloptsError(msg=f"`{key}` in {path}: {problem[:1].lower()}{problem[1:]}") from None


def _put(option: Argument, texts: list[str], name: str, source: str) -> None:
    for index, text in enumerate(texts):
        option.append(Token(keyword=name, value=text, source=source, index=0 if _is_list(option) else index))
