"""All faults of a configuration file and the environment. `load` raises the first one."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final, get_args, get_origin

import msgspec

from wfcore.domain.kernel.json_type import JSON
from wfcore.settings.installation import (
    BadSettings,
    Configuration,
    DatabaseSettings,
    checks_of,
    convert,
    converted,
    environment,
    flattened,
    merged,
    read_file,
)
from wfcore.settings.models import provider_of

_ENVIRONMENT: Final = "the environment"

_LINKED: Final = {"dispatch", "models"}
"""Tables in which a wrong value makes others look wrong."""


def faults_of(file: str | None, environ: Mapping[str, str]) -> tuple[list[str], Configuration]:
    """The faults, in the order of the sources, and the configuration without the tables that have some.

    `unknown_keys` and `unknown_variables` find unknown names.
    """
    found: list[str] = []
    in_file = _of_file(file, found)
    configuration = _of_tree(in_file, str(file), found)
    in_environment = dict[str, JSON]()
    for name, text in environ.items():
        in_environment = merged(in_environment, _of_variable(name, text))
    if in_environment:
        more: list[str] = []
        configuration = _of_tree(merged(in_file, in_environment), _ENVIRONMENT, more)
        known = {_key(fault) for fault in found}
        found += [fault for fault in more if _key(fault) not in known]
    if not any(fault.startswith("`models.") for fault in found):
        found += _raised([configuration.check_default_model])
    return found + _raised(_uses(configuration, found)), configuration


def _of_file(file: str | None, faults: list[str]) -> dict[str, JSON]:
    try:
        tree = {} if file is None else read_file(file)
    except BadSettings as error:
        faults.append(str(error))
        return {}
    if isinstance(table := tree.get("database"), dict):
        table = _known(table, DatabaseSettings)
        problems = list(_wrong_values(table, DatabaseSettings, "database", str(file)))
        faults += problems
        tree = {**tree, "database": {} if problems else table}
    return flattened(tree, str(file))


def _of_variable(name: str, text: str) -> dict[str, JSON]:
    """The setting of a variable; none for an unknown field of a model."""
    try:
        return environment({name: text})
    except BadSettings:
        return {}


def _of_tree(tree: Mapping[str, JSON], source: str, faults: list[str]) -> Configuration:
    """The configuration of the sound values."""
    sound = dict[str, JSON]()
    for part in _parts(tree):
        problems = list(_wrong_values(part, Configuration, "", source))
        rest = _sound(part, Configuration) if problems else part
        whole = _raised([partial(converted, rest, source)])
        faults += problems or whole
        if not whole and not (problems and _LINKED & part.keys()):
            sound = merged(sound, rest)
    configuration = converted(sound, source)
    faults += _raised(checks_of(configuration, source))
    return configuration


def _parts(tree: Mapping[str, JSON]) -> Iterator[dict[str, JSON]]:
    """Each key by itself, and each model, without unknown keys in tables."""
    names = Configuration.__struct_fields__
    for name, value in tree.items():
        if name == "models" and isinstance(value, Mapping):
            yield from (_known({name: {model: table}}, Configuration) for model, table in value.items())
        else:
            yield _known({name: value}, Configuration) if name in names else {name: value}


def _known(value: Any, shape: Any) -> Any:
    """The value without keys of tables that no setting has: `unknown_keys` and `unknown_variables` find these."""
    types = _types(shape, value)
    return value if types is None else {name: _known(value[name], types[name]) for name in value if name in types}


def _sound(value: Any, shape: Any) -> Any:
    """A table of known keys, without values that are wrong."""
    types = _types(shape, value) or {}
    return {
        name: inner if _types(types[name], inner) is None else _sound(inner, types[name])
        for name, inner in value.items()
        if _types(types[name], inner) is not None or not _raised([partial(convert, inner, types[name], "", "")])
    }


def _wrong_values(value: Any, shape: Any, where: str, source: str) -> Iterator[str]:
    """The faults of single values."""
    types = _types(shape, value)
    if types is None:
        yield from _raised([partial(convert, value, shape, where, source)])
        return
    for name, inner in value.items():
        if name in types:
            yield from _wrong_values(inner, types[name], f"{where}.{name}".lstrip("."), source)


def _types(shape: Any, value: Any) -> dict[str, Any] | None:
    """The types of the keys of a table; None for a value that is not one."""
    if not isinstance(value, Mapping):
        return None
    if get_origin(shape) is dict:
        return dict.fromkeys(value, get_args(shape)[1])
    for one in (shape, *get_args(shape)):
        if isinstance(one, type) and issubclass(one, msgspec.Struct):
            return {field.name: field.type for field in msgspec.structs.fields(one)}
    return None


def _uses(found: Configuration, faults: list[str]) -> list[Callable[[], object]]:
    """What shows faults when the settings are used, of models without others."""
    sound = {name: model for name, model in found.models.items() if not any(f"`models.{name}." in f for f in faults)}
    providers = [partial(provider_of, f"models.{name}", model) for name, model in sound.items()]
    return [found.dispatch.check, found.secret, found.previous_secrets, *providers, found.metrics, found.traces]


def _raised(checks: Iterable[Callable[[], object]]) -> list[str]:
    found = []
    for check in checks:
        try:
            check()
        except BadSettings as error:
            found.append(str(error))
    return found


def _key(fault: str) -> str:
    return fault.partition(" in ")[0]
