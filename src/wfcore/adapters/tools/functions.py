"""Functions as tools.

A function becomes a tool by its signature: its name is the id, its docstring the description, its annotations the
JSON Schema of the arguments and of the result. Types that cannot be JSON are refused at once, also that of the result:
at run time it would be too late.
"""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints, overload

import attrs

from wfcore.adapters.tools.injection import Injected, Injection, Run, injected
from wfcore.adapters.tools.shapes import InvalidValue, NoSchema, Schemas, convert, documented_default, prepared
from wfcore.domain.kernel.json_type import JSON
from wfcore.ports.providers import PlainFunction, Tool, ToolCall, ToolFailed

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS_ATTRIBUTE = "__wfcore_tool__"
_JSON_TYPES = (str, int, float, bool, list, dict, NoneType, Any)


@attrs.frozen
class _ToolOptions:
    """The options of `tool` for one function."""

    id: str | None = None
    name: str | None = None
    description: str | None = None
    blocking: bool = True
    idempotent: bool = False
    provider: str | None = None
    calls: str | None = None


@overload
def tool(function: F) -> F: ...
@overload
def tool(
    *,
    id: str | None = None,
    name: str | None = None,
    description: str | None = None,
    blocking: bool = True,
    idempotent: bool = False,
    provider: str | None = None,
    calls: str | None = None,
) -> Callable[[F], F]: ...
def tool(
    function: Any = None,
    *,
    id: str | None = None,
    name: str | None = None,
    description: str | None = None,
    blocking: bool = True,
    idempotent: bool = False,
    provider: str | None = None,
    calls: str | None = None,
) -> Any:
    """Set options of a function that is a tool: its id, a name and description for people, whether it can block.

    A plain function runs in a worker thread; with `blocking=False` it runs on the event loop and must be quick.
    `idempotent`: it can be called again under the same key when the outcome of the first call is unknown. `provider`:
    it needs the organization's connection to that service, which its `ToolCall` holds. `calls`: how many calls each
    organization can begin, such as `100/minute`; further ones wait.
    """

    def mark(function: Any) -> Any:
        if not callable(function):
            raise TypeError(f"`wfcore.tool` takes a function, and its options by name, not `{type(function).__name__}`")
        marked = partial(function) if inspect.ismethod(function) else function
        options = _ToolOptions(id, name, description, blocking, idempotent, provider, calls)
        setattr(marked, _OPTIONS_ATTRIBUTE, options)
        return marked

    return mark if function is None else mark(function)


def tool_of(function: Callable[..., Any], deps: object = None) -> Tool:
    """The tool made from a function. Raises TypeError that names the parameter for an unsupported signature."""
    bare = function.func if isinstance(function, partial) else function
    options: _ToolOptions = _options_of(function) or _options_of(bare) or _ToolOptions()
    tool_id = options.id or str(getattr(bare, "__name__", type(bare).__name__))
    called = _annotated_function(bare, tool_id)
    arguments = _Arguments.of(function, called, tool_id, deps)
    is_async = inspect.iscoroutinefunction(inspect.unwrap(called))
    injection = Injection(function, arguments.sources, deps, is_async, options.blocking)
    return Tool(
        tool_id,
        arguments.caller(injection),
        options.name or tool_id.replace("_", " "),
        options.description if options.description is not None else inspect.getdoc(bare) or "",
        arguments.schema,
        options.blocking,
        injection.needs_loop,
        idempotent=options.idempotent,
        provider=options.provider,
        output_schema=_output_schema(called, tool_id),
        calls=options.calls,
    )


def tools_of(owner: Any, prefix: str | None = None) -> list[Callable[..., Any]]:
    """The public methods of an object as tools `prefix.method`; the prefix is by default the class name, `_` between
    its words. `tool` sets the options of a method; an id that it sets stays as it is.

    A class stands for an object that it makes without arguments. Raises TypeError when there are no public methods.
    """
    made = owner() if isinstance(owner, type) else owner
    named = _snake_case(type(made).__name__) if prefix is None else prefix
    names = [name for name in dir(type(made)) if not name.startswith("_") and _is_method(type(made), name)]
    found = [_named(getattr(made, name), named) for name in names]
    if not found:
        raise TypeError(f"`{type(made).__name__}` has no public methods: a tool is a public method")
    return found


def _is_method(cls: type, name: str) -> bool:
    found = inspect.getattr_static(cls, name)
    return inspect.isfunction(found) or isinstance(found, (staticmethod, classmethod))


def _named(method: Callable[..., Any], prefix: str) -> Callable[..., Any]:
    options: _ToolOptions = _options_of(method) or _ToolOptions()
    name = method.__name__
    own = attrs.evolve(options, id=options.id or f"{prefix}.{name}", name=options.name or name.replace("_", " "))
    marked = partial(method)
    setattr(marked, _OPTIONS_ATTRIBUTE, own)
    return marked


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _options_of(function: Any) -> _ToolOptions | None:
    return getattr(function, _OPTIONS_ATTRIBUTE, None)


def _output_schema(called: Callable[..., Any], tool_id: str) -> Mapping[str, JSON] | None:
    """The JSON Schema of the annotated result; None without an annotation. Raises TypeError if it has none."""
    returned = _hints(called, tool_id).get("return", Any)
    if returned is Any:
        return None
    schemas = Schemas()
    try:
        shape = schemas.of(prepared(returned, output=True), "return")
    except TypeError as error:
        where, why = (error.path, error.why) if isinstance(error, NoSchema) else ("return", str(error))
        raise TypeError(f"tool `{tool_id}`: its result `{where}` cannot be stored as JSON: {why}") from error
    return {**shape, "$defs": schemas.definitions} if schemas.definitions else shape


def _annotated_function(bare: Any, tool_id: str) -> Callable[..., Any]:
    """The function whose annotations are read: for a callable object, its `__call__`."""
    if isinstance(bare, type) or not callable(bare):
        raise TypeError(f"tool `{tool_id}`: use a function or a callable object, not `{type(bare).__name__}`")
    called: Callable[..., Any] = bare if inspect.isroutine(bare) else type(bare).__call__
    inner = inspect.unwrap(called)
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        raise TypeError(f"tool `{tool_id}`: a generator does not return a single result")
    return called


@attrs.frozen
class _Arguments:
    """The parameters of a function: their schema, the types to convert to, and what others receive."""

    schema: Mapping[str, JSON]
    types: Mapping[str, Any]
    sources: Mapping[str, Injected]

    @classmethod
    def of(cls, function: Callable[..., Any], called: Callable[..., Any], tool_id: str, deps: object) -> "_Arguments":
        hints = _hints(called, tool_id)
        given = [
            parameter.replace(annotation=hints.get(name, Any))
            for name, parameter in _parameters(function, tool_id).items()
        ]
        sources = {
            parameter.name: source
            for parameter in given
            if (source := injected(parameter.annotation, deps, f"tool `{tool_id}`: parameter `{parameter.name}`"))
        }
        calls = [name for name, source in sources.items() if source is ToolCall]
        if len(calls) > 1:
            raise TypeError(f"tool `{tool_id}`: only one parameter can receive the call, not `{'`, `'.join(calls)}`")
        arguments = [parameter for parameter in given if parameter.name not in sources]
        types = {entry.name: _prepared(entry, tool_id) for entry in arguments}
        schema = _schema(tool_id, arguments, types)
        return cls(schema, {it.name: types[it.name] for it in arguments if not _is_json(it.annotation)}, sources)

    def caller(self, injection: Injection) -> Run:
        if not self.types and not self.sources:
            return PlainFunction(injection.function)
        return lambda params, call: injection.call(self._converted(params), call)

    def _converted(self, params: Mapping[str, JSON]) -> dict[str, Any]:
        given: dict[str, Any] = dict(params)
        for name, wanted in self.types.items():
            if name in given:
                given[name] = _convert(given[name], wanted, f"params.{name}")
        return given


def _prepared(parameter: inspect.Parameter, tool_id: str) -> Any:
    try:
        return prepared(parameter.annotation)
    except TypeError as error:
        raise TypeError(f"tool `{tool_id}`: parameter `{parameter.name}` has no JSON Schema: {error}") from None


def _convert(value: JSON, wanted: Any, path: str) -> Any:
    """`value` as the annotated type. Raises a `ToolFailed` without retry that names the path of an invalid value."""
    try:
        return convert(value, wanted)
    except InvalidValue as error:
        raise ToolFailed(f"`{path}{error.path}`: {error.message}", retryable=False) from None


def _hints(called: Callable[..., Any], tool_id: str) -> Mapping[str, Any]:
    try:
        return get_type_hints(called, include_extras=True)
    except (NameError, TypeError, SyntaxError) as error:
        raise TypeError(f"tool `{tool_id}`: its annotations cannot be read: {error}") from None


def _parameters(function: Callable[..., Any], tool_id: str) -> Mapping[str, inspect.Parameter]:
    """The parameters that a call passes by name. Those that a partial has bound are hidden and cannot be replaced."""
    try:
        parameters = inspect.signature(function).parameters
    except ValueError as error:
        raise TypeError(f"tool `{tool_id}`: {error}") from None
    bound = function.keywords if isinstance(function, partial) else {}
    for name, parameter in parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            why = "cannot be passed by name: use parameters without `*`, `**` and a `/` behind them"
            raise TypeError(f"tool `{tool_id}`: parameter `{name}` {why}")
    first = next(iter(parameters.values()), None)
    if first is not None and first.name == "self" and first.annotation is first.empty:
        raise TypeError(
            f"tool `{tool_id}`: parameter `self` has no object: use the method of an object, not of a class"
        )
    return {name: parameter for name, parameter in parameters.items() if name not in bound}


def _is_json(annotation: Any) -> bool:
    """Whether a value that matches the schema matches the annotation without conversion."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _is_json(inner[0])
    if origin is dict:
        return inner[0] is str and _is_json(inner[1])
    if origin in (list, Union, UnionType):
        return all(_is_json(part) for part in inner)
    return origin is Literal or annotation in _JSON_TYPES


def _schema(tool_id: str, parameters: Sequence[inspect.Parameter], types: Mapping[str, Any]) -> Mapping[str, JSON]:
    schemas, properties = Schemas(), dict[str, JSON]()
    for entry in parameters:
        try:
            properties[entry.name] = {**schemas.of(types[entry.name], entry.name), **documented_default(entry.default)}
        except NoSchema as error:
            path, why = error.path, error.why
            raise TypeError(f"tool `{tool_id}`: parameter `{path}` has no JSON Schema: {why}") from error
    schema: dict[str, JSON] = {
        "type": "object",
        "properties": properties,
        "required": [entry.name for entry in parameters if entry.default is entry.empty],
        "additionalProperties": False,
    }
    return {**schema, "$defs": schemas.definitions} if schemas.definitions else schema
