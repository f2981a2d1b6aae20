"""The handlers of the embedding program (`core.on`): functions that are called for events of all organizations."""

import inspect
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

import attrs

from wfcore.domain.channels.hooks import EVENTS
from wfcore.domain.kernel.json_type import JSON

MAX_NAME: Final = 100


@attrs.frozen
class HookEvent:
    """What a handler is called with. `id` is the same each time the same event is delivered to this handler.

    `data` has the keys of a hook's message: `orgUuid`, `workflowId` or `skillId`, `runId`, `interruptId`, `url`,
    `status`, `decision`, as far as they apply.
    """

    id: str
    type: str
    timestamp: datetime
    data: Mapping[str, JSON]


Handler = Callable[[HookEvent], Any]
"""A function, or a coroutine function. An exception means that the event is delivered again later."""


def full_name(function: Handler) -> str:
    """The name of a function with its module; of another callable, the name of its class."""
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}.{named.__qualname__}"


def _takes_event(function: Handler) -> bool:
    """Whether a function can be called with one argument; True for one of C whose parameters are not known."""
    try:
        parameters = inspect.signature(function)
    except ValueError:
        return True
    try:
        parameters.bind(None)
    except TypeError:
        return False
    return True


class Handlers:
    """The handlers of this process by name. A name has one event and one function."""

    def __init__(self) -> None:
        self._functions: dict[str, tuple[str, Handler]] = {}
        self._names: dict[str, tuple[str, ...]] = {}

    @property
    def names(self) -> list[str]:
        return list(self._functions)

    @property
    def by_event(self) -> Mapping[str, tuple[str, ...]]:
        """The names of the handlers of each event."""
        return self._names

    def event_of(self, name: str) -> str:
        return self._functions[name][0]

    def function(self, name: str) -> Handler | None:
        found = self._functions.get(name)
        return None if found is None else found[1]

    def add(self, event: str, function: Handler, name: str) -> None:
        """ValueError for an unknown event, and for a name that is empty, too long or taken.

        TypeError for what is not a function, and for a name that is not a text.
        """
        if not callable(function):
            raise TypeError(f"`handler` must be a function of one event, not `{type(function).__name__}`")
        if not _takes_event(function):
            raise TypeError("`handler` must be a function of one event: it would be called with that alone")
        if not isinstance(name, str):
            raise TypeError(f"`name` must be a `str`, not `{type(name).__name__}`")
        if event not in EVENTS:
            raise ValueError(f"unknown event `{event}`: use {', '.join(f'`{one}`' for one in EVENTS)}")
        if not 0 < len(name) <= MAX_NAME:
            raise ValueError(f"`name` must have 1 to {MAX_NAME} characters")
        if name in self._functions:
            raise ValueError(f"the name `{name}` is taken: give each handler its own")
        self._functions[name] = event, function
        self._names = {**self._names, event: (*self._names.get(event, ()), name)}

    def remove(self, name: str) -> None:
        """Without effect for a name that is not known."""
        if name in self._functions:
            event, _ = self._functions.pop(name)
            self._names = {**self._names, event: tuple(one for one in self._names[event] if one != name)}
