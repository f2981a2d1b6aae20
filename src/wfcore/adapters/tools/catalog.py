"""The tool catalog: tools of the embedding program, and the built-in tools."""

import asyncio
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from wfcore.adapters.tools.functions import tool, tool_of
from wfcore.domain.kernel.json_readers import as_number
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.effects import FAIL, TRANSFORM, WAIT, WORKFLOW
from wfcore.ports.providers import Tool, ToolCall, ToolFailed

__all__ = ["BUILT_IN", "ToolRegistry", "tool"]

_ID = re.compile(r"[a-zA-Z0-9_.-]{1,128}", re.ASCII)


class ToolRegistry:
    """Implements the port `Tools`: the given tools and the built-in ones, including those of other adapters.

    `deps` are those of each `RunContext`. Raises ValueError for an id that is malformed, built in or used twice;
    TypeError for a function that cannot be a tool.
    """

    def __init__(
        self, tools: Iterable[Callable[..., Any] | Tool] = (), built_in: Iterable[Tool] = (), deps: object = None
    ) -> None:
        given = [entry if isinstance(entry, Tool) else tool_of(entry, deps) for entry in tools]
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


# Built-in tools. The run machine performs the plain ones itself; with `retry`, `forEach` or approval they are called
# here. The machine does not validate their rendered parameters, so they are not validated here either.


def _transform(params: Mapping[str, JSON], _: ToolCall) -> JSON:
    return params.get("value")


def _fail(params: Mapping[str, JSON], _: ToolCall) -> JSON:
    from wfcore.domain.json.codec import text_of

    raise ToolFailed(text_of(params.get("message") or "failed by core.fail"))


async def _wait(params: Mapping[str, JSON], _: ToolCall) -> JSON:
    await asyncio.sleep(as_number(params["seconds"]))
    return params


def _workflow(params: Mapping[str, JSON], _: ToolCall) -> JSON:
    raise ToolFailed("`core.workflow` can only be called by a node of a workflow", retryable=False)


def _built_in(
    tool_id: str,
    run: Callable[..., Any],
    description: str,
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
