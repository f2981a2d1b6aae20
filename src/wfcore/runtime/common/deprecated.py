"""The former keywords of `wfcore.open`: each warns, and sets the value at its new place."""

import warnings
from collections.abc import Sequence
from typing import Any, Final, Literal, TypedDict

import attrs

from wfcore.ports.blobs import Blobs
from wfcore.ports.dispatcher import Dispatcher
from wfcore.ports.journal import Journal
from wfcore.ports.outbound import Outbound
from wfcore.ports.providers import EventSink, MemoryBackend
from wfcore.ports.storage import Storage
from wfcore.ports.system import Clock, Ids
from wfcore.ports.tool_servers import ToolServers
from wfcore.runtime.common.installation import Secrets, Settings
from wfcore.runtime.common.ports import Overrides


class FormerKeywords(TypedDict, total=False):
    """Keywords that `wfcore.open` still accepts."""

    synchronous: Literal["FULL", "NORMAL"]
    grace: float
    secret: bytes | None
    previous_secrets: Sequence[bytes]
    storage: Storage | None
    journal: Journal | None
    dispatcher: Dispatcher | None
    events: EventSink | None
    memories: MemoryBackend | None
    blobs: Blobs | None
    clock: Clock | None
    ids: Ids | None
    tool_servers: ToolServers | None
    outbound: Outbound | None


PLACES: Final = {
    "synchronous": "settings=Settings(synchronous=...)",
    "grace": "settings=Settings(grace=...)",
    "secret": "secrets=...",
    "previous_secrets": "secrets=Secrets(..., previous=...)",
} | {field.name: f"ports=Overrides({field.name}=...)" for field in attrs.fields(Overrides)}
"""Where the value of each former keyword is given now."""

_OF_SETTINGS: Final = frozenset({"synchronous", "grace"})
_OF_SECRETS: Final = {"secret": "current", "previous_secrets": "previous"}


def moved(
    former: FormerKeywords, settings: Settings, secrets: Secrets, ports: Overrides
) -> tuple[Settings, Secrets, Overrides]:
    """The three values with those of the former keywords. Warns for each, at the caller of the caller.

    Raises TypeError for a keyword that `wfcore.open` never had.
    """
    given: dict[str, Any] = dict(former)
    for name in given:
        if name not in PLACES:
            raise TypeError(f"unknown argument `{name}` of `wfcore.open`")
        message = f"the argument `{name}` of `wfcore.open` is deprecated: use `{PLACES[name]}`"
        warnings.warn(message, DeprecationWarning, stacklevel=3)
    return (
        attrs.evolve(settings, **{name: given[name] for name in given.keys() & _OF_SETTINGS}),
        attrs.evolve(secrets, **{_OF_SECRETS[name]: given[name] for name in given.keys() & _OF_SECRETS}),
        attrs.evolve(ports, **{name: given[name] for name in given.keys() - _OF_SETTINGS - _OF_SECRETS.keys()}),
    )
