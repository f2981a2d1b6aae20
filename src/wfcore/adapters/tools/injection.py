"""What a tool receives beside its arguments, by the types of its parameters: the call, its context, provided values.

A value is provided by a function, as FastAPI users know it: a plain function, a coroutine function, or a generator
function that yields the value once and cleans up after the call. The function can receive the same itself.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Generic, TypeVar, Union, get_args, get_origin, get_type_hints

import attrs

from wfcore.domain.kernel.json_type import JSON
from wfcore.ports.providers import ToolCall, ToolConnection, ToolFailed
from wfcore.tool_threads import in_tool_thread

Deps = TypeVar("Deps")

UNCHECKED: Final = object()
"""In place of `deps`, where a tool is only described and not called."""


@attrs.frozen
class RunContext(Generic[Deps]):
    """The context of one call of a tool: the `deps` of `wfcore.open`, and the call. A parameter of this type gets it.

    `wfcore.open` checks that its `deps` are of the type in `RunContext[Shop]`.
    """

    deps: Deps
    call: ToolCall

    @property
    def key(self) -> str:
        """The idempotency key of the call, the same in every attempt."""
        return self.call.key

    @property
    def attempt(self) -> int:
        """The number of the attempt, from 1."""
        return self.call.attempt

    @property
    def org(self) -> str:
        """The UUID of the organization."""
        return self.call.org

    @property
    def run_id(self) -> str:
        return self.call.run_id

    @property
    def user_id(self) -> str:
        """Who started the run."""
        return self.call.user_id

    @property
    def connection(self) -> ToolConnection | None:
        """The connection that the tool's `provider` names."""
        return self.call.connection


@attrs.frozen
class Provide:
    """In `Annotated[X, Provide(function)]`: the parameter gets the value of `function`, made once for each call."""

    function: Callable[..., Any]


@attrs.frozen
class _Provider:
    function: Callable[..., Any]
    needs: "Mapping[str, Injected]"

    @property
    def is_async(self) -> bool:
        inner = inspect.unwrap(self.function)
        own = inspect.iscoroutinefunction(inner) or inspect.isasyncgenfunction(inner)
        return own or any(isinstance(need, _Provider) and need.is_async for need in self.needs.values())


Injected = type[ToolCall] | type[RunContext[Any]] | _Provider


def injected(annotation: Any, deps: object, where: str) -> Injected | None:
    """What a parameter with this annotation, or with it or None, receives; None for an argument.

    Raises TypeError, that begins with `where`, when `deps` are of another type, and for a function that cannot provide
    a value.
    """
    if get_origin(annotation) in (Union, UnionType):
        parts = [part for part in get_args(annotation) if part is not NoneType]
        return injected(parts[0], deps, where) if len(parts) == 1 else None
    if annotation is ToolCall:
        return ToolCall
    if annotation is RunContext or get_origin(annotation) is RunContext:
        _check_deps(get_args(annotation), deps, where)
        return RunContext
    if get_origin(annotation) is Annotated:
        for entry in annotation.__metadata__:
            if isinstance(entry, Provide):
                return _provider(entry.function, deps, where, ())
    return None


def _check_deps(wanted: tuple[Any, ...], deps: object, where: str) -> None:
    cls: Any = (get_origin(wanted[0]) or wanted[0]) if wanted else object
    if deps is not UNCHECKED and _is_checkable(cls) and not isinstance(deps, cls):
        given = "nothing" if deps is None else f"`{type(deps).__name__}`"
        raise TypeError(f"{where} needs `deps` of the type `{cls.__name__}`, but `open` got {given}")


def _is_checkable(cls: Any) -> bool:
    if cls is UnionType or not isinstance(cls, type):
        return False
    return not getattr(cls, "_is_protocol", False) or bool(getattr(cls, "_is_runtime_protocol", False))


def _provider(function: Any, deps: object, where: str, within: tuple[Any, ...]) -> _Provider:
    name = getattr(function, "__name__", type(function).__name__)
    if not callable(function) or function in within:
        raise TypeError(f"{where}: `{name}` {'provides itself' if callable(function) else 'is not a function'}")
    try:
        hints = get_type_hints(_annotated(function), include_extras=True)
        parameters = inspect.signature(function).parameters
    except (NameError, TypeError, ValueError, SyntaxError) as error:
        raise TypeError(f"{where}: the annotations of `{name}` cannot be read: {error}") from None
    needs: dict[str, Injected] = {}
    for parameter in parameters.values():
        source = _need(hints.get(parameter.name), deps, f"{where}: `{parameter.name}` of `{name}`", (*within, function))
        if source is not None:
            needs[parameter.name] = source
        elif parameter.default is parameter.empty:
            raise TypeError(f"{where}: `{name}` cannot get `{parameter.name}`: use a `RunContext`, a `ToolCall` or "
                            "another `Provide`")  # fmt: skip
    return _Provider(function, needs)


def _annotated(function: Any) -> Any:
    """What has the annotations: the function itself, a constructor, or the `__call__` of an object."""
    if inspect.isroutine(function):
        return function
    return inspect.getattr_static(function, "__init__") if isinstance(function, type) else type(function).__call__


def _need(annotation: Any, deps: object, where: str, within: tuple[Any, ...]) -> Injected | None:
    for entry in getattr(annotation, "__metadata__", ()):
        if isinstance(entry, Provide):
            return _provider(entry.function, deps, where, within)
    return injected(annotation, deps, where)


# Calls


@attrs.frozen
class Injection:
    """Calls a function with what it receives beside its arguments. `blocking`: it runs in a thread of its own."""

    function: Callable[..., Any]
    sources: Mapping[str, Injected]
    deps: object
    is_async: bool
    blocking: bool

    @property
    def needs_loop(self) -> bool:
        """Whether the function or a provider is async."""
        return self.is_async or any(isinstance(it, _Provider) and it.is_async for it in self.sources.values())

    def call(self, arguments: Mapping[str, Any], call: ToolCall) -> Any:
        """The result, or an awaitable of it if this `needs_loop`."""
        if not any(isinstance(source, _Provider) for source in self.sources.values()):
            return self.function(**arguments, **{name: self._plain(it, call) for name, it in self.sources.items()})
        running = self._run(arguments, call)
        return running if self.needs_loop else _driven(running)

    def _plain(self, source: Injected, call: ToolCall) -> Any:
        return call if source is ToolCall else RunContext(self.deps, call)

    async def _run(self, arguments: Mapping[str, Any], call: ToolCall) -> Any:
        made: dict[Callable[..., Any], Any] = {}
        async with AsyncExitStack() as stack:
            given = {name: await self._value(it, call, stack, made) for name, it in self.sources.items()}
            if self.is_async:
                return await self.function(**arguments, **given)
            return await self._apart(self.function, **arguments, **given)

    async def _value(
        self, source: Injected, call: ToolCall, stack: AsyncExitStack, made: dict[Callable[..., Any], Any]
    ) -> Any:
        if not isinstance(source, _Provider):
            return self._plain(source, call)
        function = source.function
        if function not in made:
            needs = {name: await self._value(need, call, stack, made) for name, need in source.needs.items()}
            made[function] = await self._provided(function, needs, stack)
        return made[function]

    async def _provided(self, function: Callable[..., Any], needs: Mapping[str, Any], stack: AsyncExitStack) -> Any:
        inner = inspect.unwrap(function)
        if inspect.isasyncgenfunction(inner):
            return await stack.enter_async_context(asynccontextmanager(function)(**needs))
        if inspect.isgeneratorfunction(inner):
            opened = contextmanager(function)(**needs)
            value = await self._apart(opened.__enter__)
            stack.push_async_exit(lambda *failure: self._apart(opened.__exit__, *failure))
            return value
        return await function(**needs) if inspect.iscoroutinefunction(inner) else await self._apart(function, **needs)

    async def _apart(self, function: Callable[..., Any], *given: Any, **named: Any) -> Any:
        """Call a plain function: in a thread if this runs on the event loop and the function can block."""
        if not (self.needs_loop and self.blocking):
            return function(*given, **named)
        return await in_tool_thread(_portable, function, *given, **named)


def _portable(function: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """A future cannot carry StopIteration, and KeyboardInterrupt would end the process."""
    try:
        return function(*given, **named)
    except (StopIteration, KeyboardInterrupt) as error:
        raise ToolFailed(f"{type(error).__name__}: {error}") from error


def _driven(running: Any) -> Any:
    """The result of a coroutine that waits for nothing."""
    try:
        running.send(None)
    except StopIteration as ended:
        return ended.value
    raise AssertionError("a plain call waited")


Run = Callable[[Mapping[str, JSON], ToolCall], JSON | Awaitable[JSON]]
