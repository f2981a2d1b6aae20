"""The names of all settings, and the unknown names of a file or an environment with the nearest known one."""

import difflib
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import attrs
import msgspec

from wfcore.domain.kernel.json_type import JSON
from wfcore.settings.installation import PREFIX, Configuration, DatabaseSettings
from wfcore.settings.models import ModelSettings
from wfcore.settings.oauth import OAuthSettings

_ANY_NAME: Final = ("shards.", "studio.theme.", "studio.labels.", "tool_calls.")
"""The keys of these tables are shards, CSS properties, keys of texts and tools, which have any name."""

_OF_DATABASE: Final = {
    f"{PREFIX}DATABASE_{field.upper()}": f"{PREFIX}DATABASE" if field == "url" else PREFIX + field.upper()
    for field in DatabaseSettings.__struct_fields__
}
"""What is a key of `[database]` in a file, with the variable that is read."""

_MODEL: Final = re.compile(rf"models_.+_(?:{'|'.join(ModelSettings.__struct_fields__)})", re.DOTALL)


@attrs.frozen
class UnknownName:
    """A name that is not a setting, where it is, and the known name that is most like it; None without one."""

    name: str
    source: str
    nearest: str | None

    def __str__(self) -> str:
        hint = "" if self.nearest is None else f", did you mean `{self.nearest}`?"
        return f"`{self.name}` in {self.source}: is not a setting{hint}"


def setting_names() -> frozenset[str]:
    """The names of the keys of a file with dots, as `limits.max_nodes`; those of models as `models.*.provider`."""
    found = {*_names(Configuration), *_names(DatabaseSettings, "database."), *_names(OAuthSettings, "oauth.")}
    models = {f"models.*.{field}" for field in ModelSettings.__struct_fields__}
    return frozenset((found | models) - {"options", "models"})


def _names(struct: type[Any], prefix: str = "") -> Iterator[str]:
    for field in msgspec.structs.fields(struct):
        default = field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default
        if isinstance(default, msgspec.Struct):
            yield from _names(type(default), f"{prefix}{field.name}.")
        else:
            yield f"{prefix}{field.name}"


def nearest(name: str, known: Collection[str]) -> str | None:
    """The known name that is most like this one; None when none is like it."""
    return next(iter(difflib.get_close_matches(name, sorted(known), 1, 0.7)), None)


def unknown_variables(environ: Mapping[str, str], options: Collection[str]) -> list[UnknownName]:
    """The variables `WFCORE_...` that neither a setting nor one of these options of commands has."""
    keys = {name.replace(".", "_") for name in setting_names() if not name.startswith(("models.", "database."))}
    known = {PREFIX + key.upper() for key in (*keys, *options, "config")}
    return [
        UnknownName(name, "the environment", _OF_DATABASE.get(name) or nearest(name, known))
        for name in sorted(environ)
        if name.startswith(PREFIX) and name not in known and not _has_any_name(name)
    ]


def unknown_keys(tree: Mapping[str, JSON], source: str, options: Collection[str]) -> list[UnknownName]:
    """The keys of a file that neither a setting nor one of these options of commands has."""
    known = {*setting_names(), *options}
    found = []
    for name in _keys(tree):
        parts = name.split(".")
        plain = f"models.*.{parts[2]}" if parts[0] == "models" and len(parts) == 3 else name
        if plain not in known and not name.startswith(_ANY_NAME):
            guess = nearest(plain, known)
            found.append(UnknownName(name, source, guess and guess.replace("*", parts[min(1, len(parts) - 1)])))
    return found


def _has_any_name(variable: str) -> bool:
    name = variable.removeprefix(PREFIX).lower()
    return name.startswith("shards_") or _MODEL.fullmatch(name) is not None


def _keys(tree: Mapping[str, JSON], prefix: str = "") -> Iterator[str]:
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from _keys(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"
