"""The tool catalog: functions of the embedding program, and the built-in tools.

A function becomes a tool by its signature: its name is the id, its docstring the description, its annotations the
JSON Schema of the arguments. A parameter annotated `ToolCall` is given the call and is no argument.
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

from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.machine.replies import said
from wfcore.domain.run.plan import FAIL, TRANSFORM, WAIT, WORKFLOW
from wfcore.ports.providers import Tool, ToolCall, ToolFailed

F = TypeVar("F", bound=Callable[..., Any])

_ID = re.compile(r"[a-zA-Z0-9_.-]{1,128}", re.ASCII)
_MARK = "__wfcore_tool__"
_PLAIN = (str, int, float, bool, list, dict, NoneType, Any)


@attrs.frozen
class _Marks:
    """What `tool` says of a function beyond its signature."""

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
    """Say more of a function that is a tool: its id, a name and description for people, whether it may block.

    A plain function runs in a worker thread; with `blocking=False` it runs on the event loop and has to be quick.
    `idempotent`: it may be called again under the same key, when nobody knows how the first call ended. `provider`: it
    needs the organization's connection to that service, and finds it in its call.
    """

    def mark(function: Any) -> Any:
        marked = partial(function) if inspect.ismethod(function) else function
        setattr(marked, _MARK, _Marks(id, name, description, blocking, idempotent, provider))
        return marked

    return mark if function is None else mark(function)


class ToolRegistry:
    """`wfcore.ports.providers.Tools` over the given tools and the built-in ones, those of other adapters included.

    ValueError for an id that is malformed, built in or given twice; TypeError for a function that can be no tool.
    """

    def __init__(self, tools: Iterable[Callable[..., Any] | Tool] = (), built_in: Iterable[Tool] = ()) -> None:
        given = [entry if isinstance(entry, Tool) else tool_of(entry) for entry in tools]
        self._tools: dict[str, Tool] = {built.id: built for built in (*BUILT_IN, *built_in)}
        for entry in given:
            _check_id(entry.id)
            if entry.id in self._tools:
                raise ValueError(f"there are two tools `{entry.id}`")
            self._tools[entry.id] = entry

    def get(self, tool_id: str) -> Tool | None:
        return self._tools.get(tool_id)

    def all(self) -> Sequence[Tool]:
        return [self._tools[tool_id] for tool_id in sorted(self._tools)]


def _check_id(tool_id: str) -> None:
    if not _ID.fullmatch(tool_id):
        raise ValueError(f"`{tool_id}` is no tool id: 1 to 128 of letters, digits, `_`, `.` and `-`")
    if tool_id.startswith("core."):
        raise ValueError(f"`{tool_id}`: ids that begin with `core.` are those of built-in tools")


def tool_of(function: Callable[..., Any]) -> Tool:
    """The tool that a function is. TypeError, naming the parameter, for a signature that cannot be one."""
    bare = function.func if isinstance(function, partial) else function
    marks: _Marks = getattr(function, _MARK, None) or getattr(bare, _MARK, None) or _Marks()
    tool_id = marks.id or str(getattr(bare, "__name__", type(bare).__name__))
    called = _called(bare, tool_id)
    arguments = _Arguments.of(function, called, tool_id)
    return Tool(
        tool_id,
        arguments.caller(function),
        marks.name or tool_id.replace("_", " "),
        marks.description if marks.description is not None else inspect.getdoc(bare) or "",
        arguments.schema,
        marks.blocking,
        inspect.iscoroutinefunction(inspect.unwrap(called)),
        idempotent=marks.idempotent,
        provider=marks.provider,
    )


def _called(bare: Any, tool_id: str) -> Callable[..., Any]:
    """The function whose annotations count: that of a callable object is its `__call__`."""
    if isinstance(bare, type) or not callable(bare):
        raise TypeError(f"tool `{tool_id}`: give a function or a callable object, no {type(bare).__name__}")
    called: Callable[..., Any] = bare if inspect.isroutine(bare) else type(bare).__call__
    inner = inspect.unwrap(called)
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        raise TypeError(f"tool `{tool_id}`: a generator gives no single result")
    return called


@attrs.frozen
class _Arguments:
    """The parameters of a function: their schema, those to convert, and the one that is given the call."""

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
            raise TypeError(f"tool `{tool_id}`: only one parameter can be given the call, not `{'`, `'.join(calls)}`")
        arguments = [parameter for parameter in given if parameter.annotation is not ToolCall]
        types = {entry.name: entry.annotation for entry in arguments if not _is_json(entry.annotation)}
        return cls(_schema(tool_id, arguments), types, calls[0] if calls else None)

    def caller(self, function: Callable[..., Any]) -> Callable[[Mapping[str, JSON], ToolCall], Any]:
        if not self.types and self.call is None:
            return lambda params, _: function(**params)
        return lambda params, call: function(**self._converted(params, call))

    def _converted(self, params: Mapping[str, JSON], call: ToolCall) -> dict[str, Any]:
        given = dict(params)
        for name, wanted in self.types.items():
            if name in given:
                given[name] = _convert(given[name], wanted, f"params.{name}")
        if self.call is not None:
            given[self.call] = call
        return given


def _convert(value: JSON, wanted: Any, path: str) -> Any:
    """`value` as the annotated type. `ToolFailed`, not to be tried again, with the wire path of what does not fit."""
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
    """Those that a call can give by name. What a partial has bound is no argument: nobody may see or replace it."""
    try:
        parameters = inspect.signature(function).parameters
    except ValueError as error:
        raise TypeError(f"tool `{tool_id}`: {error}") from None
    bound = function.keywords if isinstance(function, partial) else {}
    for name, parameter in parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise TypeError(f"tool `{tool_id}`: parameter `{name}` cannot be given by name")
    return {name: parameter for name, parameter in parameters.items() if name not in bound}


def _is_json(annotation: Any) -> bool:
    """Whether a value that fits the schema fits the annotation as it is."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _is_json(inner[0])
    if origin is dict:
        return inner[0] is str and _is_json(inner[1])
    if origin in (list, Union, UnionType):
        return all(_is_json(part) for part in inner)
    return origin is Literal or annotation in _PLAIN


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
    schema = {
        "type": "object",
        "properties": {parameter.name: {**shape, **_default(parameter)} for parameter, shape in described},
        "required": [parameter.name for parameter in parameters if parameter.default is parameter.empty],
        "additionalProperties": False,
    }
    return {**schema, "$defs": definitions} if definitions else schema


def _default(parameter: inspect.Parameter) -> dict[str, JSON]:
    """The default as the schema shows it, if it is one that JSON can show."""
    if parameter.default is parameter.empty:
        return {}
    try:
        return {"default": msgspec.json.decode(msgspec.json.encode(parameter.default))}
    except (TypeError, ValueError, msgspec.MsgspecError):
        return {}


# Built-in tools. The run machine performs the plain ones itself; with `retry`, `forEach` or approval they come here.
# The machine takes their rendered parameters as they are, so nothing checks them here either.


def _transform(params: Mapping[str, JSON], _: ToolCall) -> JSON:
    return params.get("value")


def _fail(params: Mapping[str, JSON], _: ToolCall) -> JSON:
    raise ToolFailed(said(params.get("message") or "failed by core.fail"))


async def _wait(params: Mapping[str, JSON], _: ToolCall) -> JSON:
    await asyncio.sleep(params["seconds"])
    return params


def _workflow(params: Mapping[str, JSON], _: ToolCall) -> JSON:
    raise ToolFailed("only a workflow's own node can call a workflow by `core.workflow`", retryable=False)


def _built_in(tool_id: str, run: Callable[..., Any], description: str, **properties: JSON) -> Tool:
    schema = {
        "type": "object",
        "properties": properties,
        "required": [name for name, shape in properties.items() if "default" not in shape],
        "additionalProperties": False,
    }
    name = tool_id.removeprefix("core.").capitalize()
    is_async = inspect.iscoroutinefunction(run)
    return Tool(
        tool_id, run, name, description, schema, blocking=False, is_async=is_async, checks=False, idempotent=True
    )


BUILT_IN = (
    _built_in(TRANSFORM, _transform, "Gives back `value`, rendered.", value={}),
    _built_in(FAIL, _fail, "Fails with `message`.", message={}),
    _built_in(WAIT, _wait, "Goes on after `seconds`; a durable timer.", seconds={"type": "number", "minimum": 0}),
    _built_in(
        WORKFLOW,
        _workflow,
        "Runs a workflow with `input`, and gives back its output.",
        workflowId={"type": "integer", "minimum": 1},
        input={"type": "object", "default": {}},
    ),
)
