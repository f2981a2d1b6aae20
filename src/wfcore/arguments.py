"""What the arguments of `wfcore.open` can be: one of another type is refused by its name, before a use of it fails."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, get_args

import attrs

from wfcore.ports.guardrails import Guardrail
from wfcore.ports.providers import ModelProvider, Tool
from wfcore.ports.telemetry import Telemetry
from wfcore.runtime.common.arguments import field_fault
from wfcore.runtime.common.installation import Secrets, Settings
from wfcore.runtime.common.ports import Overrides

TYPES: Final[Mapping[str, tuple[Any, str]]] = {
    "schema": (str | None, "the name of a schema"),
    "models": (Mapping | None, "a dict of model providers by their names"),
    "settings": (Settings | None, "a `wfcore.Settings`"),
    "worker": (bool, "a bool"),
    "migrate": (bool, "a bool"),
    "secrets": (bytes | Secrets | None, "`bytes` or a `wfcore.Secrets`"),
    "ports": (Overrides | None, "a `wfcore.Overrides`"),
}
"""The types of arguments, and how a message describes them."""

LISTS: Final[Mapping[str, tuple[str, Any]]] = {
    "tools": ("a list of functions or tools", None),
    "guardrails": ("a list of guardrails", Guardrail),
    "telemetry": ("a list of receivers of measurements", Telemetry),
}
"""How a message describes arguments that are lists, and what their items implement."""


def check_types(**given: object) -> None:
    """Raises TypeError for an argument that has none of its types, and for a field of settings or secrets."""
    for name, value in given.items():
        allowed, description = TYPES[name]
        if not isinstance(value, allowed):
            raise _refusal(name, description, value)
        if isinstance(value, (Settings, Secrets)) and (fault := field_fault(value, name)):
            raise TypeError(f"`{fault[0]}` {fault[1]}")


def listed(name: str, values: Any) -> tuple[Any, ...]:
    """The items of an argument, each checked."""
    description, protocol = LISTS[name]
    if not isinstance(values, Iterable) or isinstance(values, (str, bytes, Mapping)):
        raise _refusal(name, description, values)
    items = tuple(values)
    for index, item in enumerate(items):
        place = f"{name}[{index}]"
        if protocol is not None:
            _check_implements(place, protocol, item)
        elif not isinstance(item, Tool) and (isinstance(item, type) or not callable(item)):
            raise _refusal(place, "a function or a tool", item)
    return items


def check_models(models: Mapping[str, ModelProvider]) -> None:
    """Raises TypeError for a name of another type, and for a value that does not implement `ModelProvider`."""
    for name, model in models.items():
        if not isinstance(name, str):
            raise _refusal("models", "a dict with names that are `str`", name)
        _check_implements(f'models["{name}"]', ModelProvider, model)


def check_adapters(ports: Overrides) -> None:
    """Raises TypeError for an adapter without a method of its port."""
    for field in attrs.fields(Overrides):
        adapter = getattr(ports, field.name)
        if adapter is not None:
            _check_implements(f"ports.{field.name}", get_args(field.type)[0], adapter)


def _check_implements(place: str, protocol: Any, value: object) -> None:
    description = f"an object that implements `{protocol.__name__}`"
    if isinstance(value, type):
        raise _refusal(place, description, value)
    for name in dir(protocol):
        if not (name.startswith("_") or hasattr(type(value), name) or hasattr(value, name)):
            raise _refusal(place, description, value, f": it has no `{name}`")


def _refusal(place: str, description: str, value: object, why: str = "") -> TypeError:
    found = f"the class `{value.__name__}`" if isinstance(value, type) else f"`{type(value).__name__}`"
    return TypeError(f"`{place}` must be {description}, not {'`None`' if value is None else found}{why}")
