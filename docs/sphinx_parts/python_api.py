"""The Python API as Markdown: front names of a module with their members, and the use cases of an open core."""

import asyncio
import inspect
from collections.abc import Iterator
from importlib import import_module
from operator import attrgetter
from typing import Any

import wfcore
from sphinx_parts.signatures import arguments, fields_of, short
from wfcore.runtime.common.authorization import scopes_of

OWN = {
    "attachments": ["save", "upload"],
    "chat_apps": ["get", "page"],
    "connects": [],
    "contexts": ["assistant", "compose"],
    "directory": ["add_member", "authenticate", "create_group", "create_organization", "create_token", "ensure_group",
                  "ensure_organization", "limit_runs", "run_limits"],
    "driver": [],
    "erasures": ["erase", "start"],
    "notifier": [],
    "poster": [],
    "ports": [],
    "retention": ["delete_organization", "prune"],
    "scheduler": [],
    "secrets": ["reencrypt"],
    "team_chats": ["receive"],
    "webhooks": ["receive"],
    "workflow_tools": ["endpoint", "tool"],
}  # fmt: skip
"""The methods that programs call of areas that also have methods for wfcore itself. None: the area is not shown."""
INTERNAL = {"batches", "decidable", "launch", "run_to_follow", "sees", "start_for", "start_from", "create_body",
            "patch_body", "validate_body", "validate_saved", "runs_of", "request"}  # fmt: skip

INNER = ("workflows.interfaces",)
"""Use cases that an area has as an attribute."""

PLAIN = {"", "required", "optional"}


def members(module: str, *names: str) -> str:
    """The public names of a module, or only these."""
    found = import_module(module)
    shown = names or getattr(found, "__all__", None) or _defined(found)
    return "\n".join(_entry(f"{module}.{name}", getattr(found, name)) for name in shown)


def _defined(module: Any) -> list[str]:
    """The public classes and functions of a module that lists none, without those that `wfcore` has too."""
    found = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    found = {name: value for name, value in found.items() if getattr(wfcore, name, None) is not value}
    return [name for name, value in found.items() if getattr(value, "__module__", "") == module.__name__]


def core(*_: str) -> str:
    """Every area of `wfcore.Core` with its use cases."""
    return asyncio.run(_areas())


async def _areas() -> str:
    async with wfcore.open("sqlite://", worker=False) as opened:
        parts = [
            _call("method", f"wfcore.Core.{name}", getattr(wfcore.Core, name)) for name in ("principal", "on", "off")
        ]
        for name in sorted([*wfcore.Core.__annotations__, *INNER]):
            area = attrgetter(name)(opened)
            names = [each for each in methods_of(name, area) if getattr(area, each).__doc__]
            if names and not name.startswith("_"):
                text = inspect.cleandoc(type(area).__doc__ or "")
                parts.append(f"## core.{name}\n\n{text}\n")
                parts += [_call("method", f"core.{name}.{each}", getattr(area, each)) for each in names]
        return "\n".join(parts)


def methods_of(name: str, area: Any) -> list[str]:
    """The methods of an area, or of its class, that programs call."""
    if name in OWN:
        return OWN[name]
    public = [each for each in dir(area) if not each.startswith("_") and each not in INTERNAL]
    return [each for each in public if inspect.isroutine(getattr(area, each))]


def _entry(name: str, found: Any) -> str:
    if inspect.ismodule(found):
        return f"```{{py:module}} {found.__name__}\n```\n\n{inspect.cleandoc(found.__doc__ or '')}\n"
    if inspect.isclass(found):
        return _class(name, found)
    if inspect.isroutine(found):
        return _call("function", name, found)
    return _fenced("py:data", name, [f":value: {short(found)}"], "")


def _class(name: str, found: type) -> str:
    kind = "exception" if issubclass(found, BaseException) else "class"
    shown = "" if kind == "exception" or getattr(found, "_is_protocol", False) else _constructor(found)
    rows = list(fields_of(found))
    body = [_text(found), *_listed(rows, "Fields")]
    inner = [_call("method", each, getattr(found, each)) for each in _own_methods(found)]
    body += [*inner, *_checks(found)]
    return _fenced(f"py:{kind}", f"{name}{shown}", [], "\n\n".join(part for part in body if part))


def _text(found: type) -> str:
    """The docstring, and for an error of wfcore its status and code."""
    own = inspect.cleandoc(found.__dict__.get("__doc__") or "")
    if issubclass(found, wfcore.WfcoreError):
        own += f"\n\nHTTP {found.http}, `{found.code}`, `{found.status}`."
    return own.strip()


def _constructor(found: type) -> str:
    try:
        return arguments(found)[0].partition(" -> ")[0]
    except (ValueError, TypeError):
        return ""


def _own_methods(found: type) -> Iterator[str]:
    for name, member in vars(found).items():
        documented = inspect.isfunction(member) and member.__doc__
        if not name.startswith(("_", "test_")) and documented:
            yield name


def _checks(found: type) -> list[str]:
    """The checks of a contract suite, as a list."""
    names = [name for name in dir(found) if name.startswith("test_")]
    if not names:
        return []
    lines = [
        f"- {(getattr(found, name).__doc__ or name.removeprefix('test_')).strip().splitlines()[0]}" for name in names
    ]
    return ["Checks:", "\n".join(lines)]


def _listed(rows: list[tuple[str, str, str]], heading: str) -> list[str]:
    """A list of fields or keywords."""
    if not rows:
        return []
    lines = [f"- `{name}`: `{kind}`" + (f" = `{value}`" if value not in PLAIN else "") for name, kind, value in rows]
    return [f"{heading}:", "\n".join(lines)]


def _call(kind: str, name: str, function: Any) -> str:
    shown, fields = arguments(function)
    inner = inspect.unwrap(function)
    options = [":async:"] if inspect.iscoroutinefunction(inner) else []
    scopes = scopes_of(function) if hasattr(function, "scopes") and hasattr(function, "__self__") else None
    body = [inspect.cleandoc(function.__doc__ or "")]
    if scopes:
        body.append(f"Token scopes: {', '.join(f'`{scope}`' for scope in scopes)}.")
    if fields:
        body += _listed(list(fields_of(fields)), "Keywords")
    return _fenced(f"py:{kind}", f"{name}{shown}", options, "\n\n".join(body))


def _fenced(directive: str, title: str, options: list[str], body: str) -> str:
    ticks = "`" * (3 + body.count("```{py:"))
    return "\n".join([f"{ticks}{{{directive}}} {title}", *options, "", body, ticks, ""])
