"""The tool catalog: functions of the embedding program, and the built-in tools.

A function becomes a tool by its signature: its name is the id, its docstring the description, its annotations the
JSON Schema of the arguments. A parameter annotated `ToolCall` receives the call and is not an argument.
"""

import asyncio
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints, overload

import attrs
import msgspec

from wfcore.domain.kernel.json_readers import as_number
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.machine.replies import said
from wfcore.domain.run.plan import FAIL, TRANSFORM, WAIT, WORKFLOW
from wfcore.ports.providers import Tool, ToolCall, ToolFailed

F = TypeVar("F", bound=Callable[..., Any])

_ID = re.compile(r"[a-zA-Z0-9_.-]{1,128}", re.ASCII)
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
) -> Any:
    """Set options of a function that is a tool: its id, a name and description for people, whether it can block.

    A plain function runs in a worker thread; with `blocking=False` it runs on the event loop and must be quick.
    `idempotent`: it can be called again under the same key when the outcome of the first call is unknown. `provider`:
    it needs the organization's connection to that service, which its `ToolCall` holds.
    """

    def mark(function: Any) -> Any:
        marked = partial(function) if inspect.ismethod(function) else function
        setattr(marked, _OPTIONS_ATTRIBUTE, _ToolOptions(id, name, description, blocking, idempotent, provider))
        return marked

    return mark if function is None else mark(function)


class ToolRegistry:
    """Implements the port `Tools`: the given tools and the built-in ones, including those of other adapters.

    Raises ValueError for an id that is malformed, built in or used twice; TypeError for a function that cannot be a
    tool.
    """

    def __init__(self, tools: Iterable[Callable[..., Any] | Tool] = (), built_in: Iterable[Tool] = ()) -> None:
        given = [entry if isinstance(entry, Tool) else tool_of(entry) for entry in tools]
        self._tools: dict[str, Tool] = {built.id: built for built in (*BUILT_IN, *built_in)}
        for entry in given:
            _check_id(entry.id)
            if entry.id in self._tools:
                raise ValueError(f"tool `{entry.id}` is defined twice")
            self._tools[entry.id] = entry

    def get(self, tool_id: str) -> Tool | None:
        return self._tools.get(tool_id)

    def all(self) -> Sequence[Tool]:
        return [self._tools[tool_id] for tool_id in sorted(self._tools)]


def _check_id(tool_id: str) -> None:
    if not _ID.fullmatch(tool_id):
        raise ValueError(f"`{tool_id}` is not a valid tool id: use 1 to 128 letters, digits, `_`, `.` and `-`")
    if tool_id.startswith("core."):
        raise ValueError(f"`{tool_id}`: ids that begin with `core.` are reserved for built-in tools")


def tool_of(function: Callable[..., Any]) -> Tool:
    """The tool made from a function. Raises TypeError that names the parameter for an unsupported signature."""
    bare = function.func if isinstance(function, partial) else function
    options: _ToolOptions = (
        getattr(function, _OPTIONS_ATTRIBUTE, None) or getattr(bare, _OPTIONS_ATTRIBUTE, None) or _ToolOptions()
    )
    tool_id = options.id or str(getattr(bare, "__name__", type(bare).__name__))
    called = _annotated_function(bare, tool_id)
    arguments = _Arguments.of(function, called, tool_id)
    return Tool(
        tool_id,
        arguments.caller(function),
        options.name or tool_id.replace("_", " "),
        options.description if options.description is not None else inspect.getdoc(bare) or "",
        arguments.schema,
        options.blocking,
        inspect.iscoroutinefunction(inspect.unwrap(called)),
        idempotent=options.idempotent,
        provider=options.provider,
        output_schema=_output_schema(called, tool_id),
    )


def _output_schema(called: Callable[..., Any], tool_id: str) -> Mapping[str, JSON] | None:
    """The JSON Schema of the annotated result; None without an annotation, or for one that has no schema."""
    returned = _hints(called, tool_id).get("return", Any)
    if returned is Any:
        return None
    try:
        (shape,), definitions = msgspec.json.schema_components([returned], ref_template="#/$defs/{name}")
    except (TypeError, ValueError, RuntimeError):
        return None
    return {**shape, "$defs": definitions} if definitions else shape


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
    """The parameters of a function: their schema, the types to convert to, and the one that receives the call."""

    schema: Mapping[str, JSON]
    types: Mapping[str, Any]
    call: str | None

    @classmethod
    def of(cls, function: Callable[..., Any], called: Callable[..., Any], tool_id: str) -> "_Arguments":
        hints = _hints(called, tool_id)
        given = [
            parameter.replace(annotation=hints.get(name, Any))
            for name, parameter in _parameters(function, tool_id).items()
        ]
        calls = [parameter.name for parameter in given if parameter.annotation is ToolCall]
        if len(calls) > 1:
            raise TypeError(f"tool `{tool_id}`: only one parameter can receive the call, not `{'`, `'.join(calls)}`")
        arguments = [parameter for parameter in given if parameter.annotation is not ToolCall]
        types = {entry.name: entry.annotation for entry in arguments if not _is_json(entry.annotation)}
        return cls(_schema(tool_id, arguments), types, calls[0] if calls else None)

    def caller(self, function: Callable[..., Any]) -> Callable[[Mapping[str, JSON], ToolCall], Any]:
        if not self.types and self.call is None:
            return lambda params, _: function(**params)
        return lambda params, call: function(**self._converted(params, call))

    def _converted(self, params: Mapping[str, JSON], call: ToolCall) -> dict[str, Any]:
        given: dict[str, Any] = dict(params)
        for name, wanted in self.types.items():
            if name in given:
                given[name] = _convert(given[name], wanted, f"params.{name}")
        if self.call is not None:
            given[self.call] = call
        return given


def _convert(value: JSON, wanted: Any, path: str) -> Any:
    """`value` as the annotated type. Raises a `ToolFailed` without retry that names the path of an invalid value."""
    try:
        return msgspec.convert(value, wanted)
    except msgspec.ValidationError as error:
        message, _, below = str(error).partition(" - at `$")
        raise ToolFailed(f"`{path}{below.rstrip('`')}`: {message[:1].lower()}{message[1:]}", retryable=False) from None


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
            raise TypeError(f"tool `{tool_id}`: parameter `{name}` cannot be passed by name")
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


def _schema(tool_id: str, parameters: Sequence[inspect.Parameter]) -> Mapping[str, JSON]:
    for parameter in parameters:
        try:
            msgspec.json.schema(parameter.annotation)
        except (TypeError, ValueError, RuntimeError) as error:
            why = str(error).partition("\n")[0]
            raise TypeError(f"tool `{tool_id}`: parameter `{parameter.name}` has no JSON Schema: {why}") from None
    annotations = [parameter.annotation for parameter in parameters]
    shapes, definitions = msgspec.json.schema_components(annotations, ref_template="#/$defs/{name}")
    described = zip(parameters, shapes, strict=True)
    schema: dict[str, JSON] = {
        "type": "object",
        "properties": {parameter.name: {**shape, **_default(parameter)} for parameter, shape in described},
        "required": [parameter.name for parameter in parameters if parameter.default is parameter.empty],
        "additionalProperties": False,
    }
    return {**schema, "$defs": definitions} if definitions else schema


def _default(parameter: inspect.Parameter) -> dict[str, JSON]:
    """The default for the schema, if it can be written as JSON."""
    if parameter.default is parameter.empty:
        return {}
    try:
        return {"default": msgspec.json.decode(msgspec.json.encode(parameter.default))}
    except (TypeError, ValueError, msgspec.MsgspecError):
        return {}


# Built-in tools. The run machine performs the plain ones itself; with `retry`, `forEach` or approval they are called
# here. The machine does not validate their rendered parameters, so they are not validated here either.


def _transform(params: Mapping[str, JSON], _: ToolCall) -> JSON:
    return params.get("value")


def _fail(params: Mapping[str, JSON], _: ToolCall) -> JSON:
    raise ToolFailed(said(params.get("message") or "failed by core.fail"))


async def _wait(params: Mapping[str, JSON], _: ToolCall) -> JSON:
    await asyncio.sleep(as_number(params["seconds"]))
    return params


def _workflow(params: Mapping[str, JSON], _: ToolCall) -> JSON:
    raise ToolFailed("`core.workflow` can only be called by a node of a workflow", retryable=False)


def _built_in(
    tool_id: str,
    run: Callable[..., Any],
    description: str,
    output: Mapping[str, JSON] | None = None,
    **properties: Mapping[str, JSON],
) -> Tool:
    schema: dict[str, JSON] = {
        "type": "object",
        "properties": properties,
        "required": [name for name, shape in properties.items() if "default" not in shape],
        "additionalProperties": False,
    }
    name = tool_id.removeprefix("core.").capitalize()
    is_async = inspect.iscoroutinefunction(run)
    return Tool(
        tool_id, run, name, description, schema, blocking=False, is_async=is_async, checks=False, idempotent=True,
        output_schema=output,
    )  # fmt: skip


BUILT_IN = (
    _built_in(TRANSFORM, _transform, "Returns `value`, rendered.", value={}),
    _built_in(FAIL, _fail, "Fails with `message`.", message={}),
    _built_in(WAIT, _wait, "Continues after `seconds`; a durable timer.", seconds={"type": "number", "minimum": 0}),
    _built_in(
        WORKFLOW,
        _workflow,
        "Runs a workflow with `input`, and returns its output.",
        workflowId={"type": "integer", "minimum": 1},
        input={"type": "object", "default": {}},
    ),
)
