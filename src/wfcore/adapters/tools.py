"""The tool catalog: functions of the embedding program, and the built-in tools.

A function becomes a tool by its signature: its name is the id, its docstring the description, its annotations the
JSON Schema of the arguments. A parameter annotated `ToolCall` is given the call and is no argument.
"""

import asyncio
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar, get_type_hints, overload

import attrs
import msgspec

from wfcore.domain.errors import JSON
from wfcore.domain.run.plan import FAIL, TRANSFORM, WAIT
from wfcore.ports.providers import Tool, ToolCall, ToolFailed

F = TypeVar("F", bound=Callable[..., Any])

_ID = re.compile(r"[a-zA-Z0-9_.-]{1,128}", re.ASCII)
_MARK = "__wfcore_tool__"
_PLAIN = (str, int, float, bool, list, dict, Any, inspect.Parameter.empty)


@attrs.frozen
class _Marks:
    id: str | None
    name: str | None
    description: str | None
    blocking: bool


@overload
def tool(function: F) -> F: ...
@overload
def tool(
    *, id: str | None = None, name: str | None = None, description: str | None = None, blocking: bool = True  # noqa: A002
) -> Callable[[F], F]: ...
def tool(
    function: Any = None,
    *,
    id: str | None = None,  # noqa: A002
    name: str | None = None,
    description: str | None = None,
    blocking: bool = True,
) -> Any:
    """Say more of a function that is a tool: its id, a name and description for people, whether it may block.

    A plain function runs in a worker thread; with `blocking=False` it runs on the event loop and has to be quick.
    """

    def mark(function: F) -> F:
        setattr(function, _MARK, _Marks(id, name, description, blocking))
        return function

    return mark if function is None else mark(function)


class Catalog:
    """`wfcore.ports.providers.Tools` over the given tools and the built-in ones. ValueError for an id given twice."""

    def __init__(self, tools: Iterable[Callable[..., Any] | Tool] = ()) -> None:
        given = [entry if isinstance(entry, Tool) else tool_of(entry) for entry in tools]
        self._tools: dict[str, Tool] = {built.id: built for built in BUILT_IN}
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
    bare = function
    while isinstance(bare, partial):
        bare = bare.func
    marks: _Marks = getattr(bare, _MARK, _Marks(None, None, None, True))
    called = bare if inspect.isroutine(bare) else type(bare).__call__
    tool_id = marks.id or getattr(bare, "__name__", type(bare).__name__)
    arguments = _Arguments.of(function, called, tool_id)
    is_async = inspect.iscoroutinefunction(called)
    return Tool(
        tool_id,
        arguments.caller(function, is_async),
        marks.name or tool_id.replace("_", " "),
        marks.description if marks.description is not None else inspect.getdoc(bare) or "",
        arguments.schema,
        marks.blocking,
        is_async,
        checks=True,
    )


@attrs.frozen
class _Arguments:
    """The parameters of a function: their schema, those to convert, and where the call goes."""

    schema: Mapping[str, JSON]
    types: Mapping[str, Any]
    call: str | None

    @classmethod
    def of(cls, function: Callable[..., Any], called: Any, tool_id: str) -> "_Arguments":
        hints = get_type_hints(called, include_extras=True)
        fields: list[tuple[Any, ...]] = []
        types: dict[str, Any] = {}
        call = None
        for name, parameter in inspect.signature(function).parameters.items():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
                raise TypeError(f"tool `{tool_id}`: parameter `{name}` cannot be given by name")
            annotation = hints.get(name, Any)
            if annotation is ToolCall:
                call = name
                continue
            if annotation not in _PLAIN:
                types[name] = annotation
            default = () if parameter.default is parameter.empty else (parameter.default,)
            fields.append((name, annotation, *default))
        return cls(_schema(tool_id, fields), types, call)

    def caller(self, function: Callable[..., Any], is_async: bool) -> Callable[[Mapping[str, JSON], ToolCall], Any]:
        if not self.types and self.call is None:
            if is_async:
                return lambda params, _: function(**params)
            return lambda params, _: function(**params)
        return lambda params, call: function(**self._converted(params, call))

    def _converted(self, params: Mapping[str, JSON], call: ToolCall) -> dict[str, Any]:
        given = dict(params)
        for name, wanted in self.types.items():
            if name in given:
                try:
                    given[name] = msgspec.convert(given[name], wanted)
                except msgspec.ValidationError as error:
                    raise ToolFailed(f"`params.{name}`: {error}", retryable=False) from None
        if self.call is not None:
            given[self.call] = call
        return given


def _schema(tool_id: str, fields: list[tuple[Any, ...]]) -> Mapping[str, JSON]:
    optional = [field for field in fields if len(field) == 3]  # noqa: PLR2004
    required = [field for field in fields if len(field) == 2]  # noqa: PLR2004
    try:
        shape = msgspec.defstruct("Arguments", [*required, *optional], kw_only=True, forbid_unknown_fields=True)
        (_,), definitions = msgspec.json.schema_components([shape], ref_template="#/$defs/{name}")
    except (TypeError, ValueError) as error:
        raise TypeError(f"tool `{tool_id}`: {error}") from None
    schema = dict(definitions.pop("Arguments"))
    schema.pop("title", None)
    return {**schema, "$defs": definitions} if definitions else schema


# Built-in tools. The run machine performs the plain ones itself; with `retry`, `forEach` or approval they come here.


def _transform(params: Mapping[str, JSON], _: ToolCall) -> JSON:
    return params.get("value")


def _fail(params: Mapping[str, JSON], _: ToolCall) -> JSON:
    raise ToolFailed(str(params.get("message") or "failed by core.fail"))


async def _wait(params: Mapping[str, JSON], _: ToolCall) -> JSON:
    await asyncio.sleep(float(params.get("seconds") or 0))
    return dict(params)


def _object(**properties: JSON) -> dict[str, JSON]:
    return {"type": "object", "properties": properties, "required": list(properties)}


BUILT_IN = (
    Tool(TRANSFORM, _transform, "Transform", "Gives back `value`, rendered.", _object(value={}), blocking=False),
    Tool(FAIL, _fail, "Fail", "Fails with `message`.", _object(message={"type": "string"}), blocking=False),
    Tool(
        WAIT,
        _wait,
        "Wait",
        "Goes on after `seconds`; a durable timer.",
        _object(seconds={"type": "number", "minimum": 0}),
        is_async=True,
    ),
)
