"""Tool calls: validated arguments, the required connection, and the result as the journal stores it."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from wfcore.domain.agents.connections import ConnectionKind
from wfcore.domain.json.codec import dumps
from wfcore.domain.json.nesting import MAX_VALUE_DEPTH, is_deeper
from wfcore.domain.json.schema import Schema, compile_schema
from wfcore.domain.kernel.json_readers import as_object
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.effects import LOOK_UP, CallTool
from wfcore.ports.faults import ClaimLost, is_failure, own_work
from wfcore.ports.journal import Execution
from wfcore.ports.providers import PlainFunction, Tool, ToolCall, ToolConnection, ToolFailed
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.common.threads import in_thread
from wfcore.runtime.tools.connection_use import ConnectionUse, ConnectionUser, NoConnection, OpenedConnection
from wfcore.runtime.tools.mcp_tools import ServedTools, is_served
from wfcore.runtime.tools.offered_tools import offer_of
from wfcore.runtime.tools.progress import ProgressReports, Publish

MOST_ISSUES = 10
"""The most errors of the arguments that one message names."""

WITH_CREDENTIALS = (ConnectionKind.API_KEY, ConnectionKind.OAUTH2)
"""The kinds of connections whose credentials a tool of no provider can send."""

SCALARS = frozenset({str, int, float, bool, type(None)})

LONG_NUMBER = 19
_LONG_NUMBER = re.compile(rb"[0-9]{%d}" % LONG_NUMBER)
"""Matches every integer beyond 64 bits, which a JSON value must not contain."""


def _model_to_json(value: Any) -> JSON:
    """A model of pydantic, in JSON's types. TypeError for any other type that JSON cannot express."""
    if not hasattr(value, "model_dump"):
        raise TypeError(f"a value of the type `{type(value).__name__}`")
    shown: JSON = value.model_dump(mode="json", by_alias=True)
    return shown


_encode = msgspec.json.Encoder(enc_hook=_model_to_json).encode
_decode = msgspec.json.Decoder().decode


Begin = Callable[[], Awaitable[Any]]
"""Begins a call, and returns what its result is awaited from."""


class PlainCall:
    """Calls a coroutine function that needs nothing but its arguments: the result, or the error, as by
    `ToolCalls.call`.
    """

    __slots__ = ("_function", "_schema", "checked_output")

    def __init__(self, function: Callable[..., Any], schema: Schema, checked_output: Callable[[Any], JSON]) -> None:
        self._function = function
        self._schema = schema
        self.checked_output = checked_output
        """What becomes of what the function returns."""

    async def __call__(self, params: JSON) -> JSON:
        return self.checked_output(await self.begin(params))

    def begin(self, params: JSON) -> Awaitable[Any]:
        """Call the function. `ToolFailed` for invalid arguments."""
        _check_arguments(self._schema, params)
        begun: Awaitable[Any] = self._function(**_own(as_object(params))) if params else self._function()
        return begun

    def prepared(self, params: JSON) -> Begin:
        """`begin` with these arguments, which never change: valid ones are checked only here."""
        if self._schema.check(params, "params"):
            return partial(self.begin, params)
        constant = as_object(params)
        if SCALARS.issuperset(map(type, constant.values())):
            return partial(self._function, **constant) if constant else self._function
        return lambda: self._function(**_own(constant))


class ToolCalls:
    """Calls the tools of one installation."""

    def __init__(self, ports: Ports) -> None:
        self._journal = ports.journal
        self._clock = ports.clock
        self._tools = ports.tools
        self._most_bytes = ports.settings.max_output_bytes
        self._schemas: dict[str, Schema] = {}
        self._plain: dict[str, tuple[Tool, Schema]] = {}
        """The tools called so far whose calls need neither a connection nor a server: most of them."""
        self._functions: dict[str, PlainCall] = {}
        self.plain_call: Callable[[str], PlainCall | None] = self._functions.get
        """By id of the tool: the same as `call` for coroutine functions that need nothing but their arguments, and no
        approval; None for any other tool, and before its first call."""
        self._use = ConnectionUse(ports)
        self._served = ServedTools(ports)

    def call(self, execution: Execution, effect: CallTool, publish: Publish) -> Awaitable[JSON]:
        """The tool's result; `publish` is called with its progress.

        `ToolFailed` for invalid arguments or results; other exceptions of the tool propagate.
        """
        plain = self._plain.get(effect.tool)
        if plain is not None and not effect.definition:
            _check_arguments(plain[1], effect.params)
            return self._run(plain[0], execution, effect, publish)
        if is_served(effect.tool):
            return self._run_served(execution, effect, publish)
        if effect.definition == LOOK_UP:
            return self._look_up(effect)
        tool = self._tool(effect)
        if tool.checks and tool.provider is None and not tool.connection_parameter:
            self._plain[tool.id] = tool, self._schemas[tool.id]
            if tool.is_async and isinstance(tool.run, PlainFunction):
                self._functions[tool.id] = PlainCall(tool.run.function, self._schemas[tool.id], self._checked_output)
        if tool.provider is None and not (tool.connection_parameter and _named_connection(tool, effect)):
            return self._run(tool, execution, effect, publish)
        return self._run_connected(tool, execution, effect, publish)

    async def _look_up(self, effect: CallTool) -> JSON:
        """The digest of the tool's definition in this process, and its name."""
        return _definition(self._known(effect.tool))

    async def _run_connected(self, tool: Tool, execution: Execution, effect: CallTool, publish: Publish) -> JSON:
        user = ConnectionUser.of_run(execution, effect.connections)
        with own_work(ToolFailed, ClaimLost):
            connection = await self._connection(tool, user, effect)
            if not tool.idempotent:
                await self._check_claim(execution)

        async def call(opened: OpenedConnection) -> JSON:
            async def publish_masked(progress: float | None, total: float | None, message: str) -> None:
                await publish(progress, total, opened.mask().text(message))

            return await opened.masked(await self._run(tool, execution, effect, publish_masked, opened.tool_connection))

        return await self._use.used(user, connection, call)

    async def _connection(self, tool: Tool, user: ConnectionUser, effect: CallTool) -> OpenedConnection:
        """The connection of the tool's provider, or the one that the arguments name."""
        if tool.provider is not None:
            return await self._use.of_provider(user, tool.provider)
        try:
            return await self._use.of_id(user, _named_connection(tool, effect), *WITH_CREDENTIALS)
        except NoConnection as error:
            raise ToolFailed(f"{error.message} that `{tool.id}` can use", retryable=False) from None

    async def _run_served(self, execution: Execution, effect: CallTool, publish: Publish) -> JSON:
        user = ConnectionUser.of_run(execution, effect.connections)
        with own_work(ToolFailed):
            tool = await self._served.tool(user, effect.tool, refresh=bool(effect.definition))
        if effect.definition == LOOK_UP:
            return _definition(tool)
        _check_arguments(compile_schema(tool.parameters), effect.params)
        if effect.definition:
            _check_definition(tool, effect.definition)
        with own_work(ClaimLost):
            await self._check_claim(execution)
        return await self._run(tool, execution, effect, publish)

    async def _check_claim(self, execution: Execution) -> None:
        """Check the claim again before a call that must not repeat: time has passed since the call was announced.

        The announcement itself is an append that only the holder can write.
        """
        current = await self._journal.execution(execution.ref)
        if (current.claimed_by, current.epoch) != (execution.claimed_by, execution.epoch):
            raise ClaimLost

    async def _run(
        self,
        tool: Tool,
        execution: Execution,
        effect: CallTool,
        publish: Publish,
        connection: ToolConnection | None = None,
    ) -> JSON:
        reports = ProgressReports(publish, self._clock, asyncio.get_running_loop())
        call = ToolCall(
            effect.key,
            effect.attempt,
            execution.ref.org,
            execution.root_run_id,
            execution.user_id,
            connection,
            effect.skill_id,
            effect.message_id,
            execution.epoch,
            effect.end_user_id,
            reports.report,
        )
        params = _own(as_object(effect.params))
        try:
            if tool.blocking and not tool.is_async:
                output: Any = await in_thread(tool.run, params, call)
            else:
                output = tool.run(params, call)
                output = await output if tool.is_async else output
        finally:
            if reports.latest is not None or reports.task is not None:
                await reports.end()
        return self._checked_output(output)

    def _tool(self, effect: CallTool) -> Tool:
        """The tool to call, with checked arguments. Arguments from a model are always checked."""
        tool = self._tools.get(effect.tool) or self._known(effect.tool)
        if tool.checks or effect.agent:
            _check_arguments(self._schemas.get(tool.id) or self._schema(tool), effect.params)
        if effect.definition:
            _check_definition(tool, effect.definition)
        return tool

    def _known(self, tool_id: str) -> Tool:
        tool = self._tools.get(tool_id)
        if tool is None:
            raise ToolFailed(f"there is no tool `{tool_id}`", retryable=False)
        return tool

    def _schema(self, tool: Tool) -> Schema:
        schema = self._schemas[tool.id] = compile_schema(tool.parameters)
        return schema

    def _checked_output(self, output: Any) -> JSON:
        """The output after a round trip through JSON, so that a replay reads the same value."""
        try:
            text = _encode(output)
            kept: JSON = _decode(text)
            if len(text) < LONG_NUMBER:
                return kept
            if _LONG_NUMBER.search(text):
                dumps(kept)
        except BaseException as error:  # properties and serializers of the result can raise anything
            if not is_failure(error):
                raise
            raise _unusable(f"the tool's result is not a JSON value: {error}") from None
        if len(text) > self._most_bytes:
            raise _unusable(f"the tool's result has {len(text)} bytes: at most {self._most_bytes}")
        if len(text) > MAX_VALUE_DEPTH and text.count(b"[") + text.count(b"{") > MAX_VALUE_DEPTH and is_deeper(kept):
            raise _unusable(f"the tool's result is nested deeper than {MAX_VALUE_DEPTH} levels")
        return kept


def _own(params: Mapping[str, JSON]) -> dict[str, JSON]:
    """A copy that the tool can change: the plan and the state of the run hold the arguments themselves."""
    return {name: value if type(value) in SCALARS else _copied(value) for name, value in params.items()}


def _copied(value: JSON) -> JSON:
    if isinstance(value, Mapping):
        return _own(value)
    if isinstance(value, list | tuple):
        return [item if type(item) in SCALARS else _copied(item) for item in value]
    return value


def _definition(tool: Tool) -> JSON:
    return {"digest": offer_of(tool).digest(), "name": tool.name}


def _unusable(problem: str) -> ToolFailed:
    """The failure of a call that returned: another attempt would repeat what the tool did."""
    return ToolFailed(f"{problem}; what the tool did has happened", retryable=False)


def _named_connection(tool: Tool, effect: CallTool) -> str:
    """The id of the connection that the arguments name, "" for none."""
    named = as_object(effect.params).get(tool.connection_parameter) if tool.connection_parameter else None
    return named if isinstance(named, str) else ""


class DefinitionChanged(ToolFailed):
    """The tool has changed since this call was approved. `info` has the digest of the current definition."""

    reason = "definition_changed"

    def __init__(self, tool: str, digest: str) -> None:
        super().__init__(f"`{tool}` has changed since it was approved", retryable=False)
        self.info: dict[str, JSON] = {"definition": digest}


def _check_arguments(schema: Schema, params: JSON) -> None:
    issues = schema.check(params, "params")
    if issues:
        message = "; ".join(f"`{issue.path}`: {issue.message}" for issue in issues[:MOST_ISSUES])
        raise ToolFailed(message, retryable=False)


def _check_definition(tool: Tool, approved: str) -> None:
    digest = offer_of(tool).digest()
    if digest != approved:
        raise DefinitionChanged(tool.id, digest)
