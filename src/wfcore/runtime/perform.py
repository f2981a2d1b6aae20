"""Performing effects: calling tools and models, and turning whatever happens into an entry."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any

import attrs
import msgspec

from wfcore.domain.errors import JSON
from wfcore.domain.json_schema import Schema, compile_schema
from wfcore.domain.resources import Variation
from wfcore.domain.run.effects import CallModel, CallTool, Effect
from wfcore.domain.run.entries import Failed, Said, Succeeded
from wfcore.ports.journal import Execution
from wfcore.ports.providers import (
    Finished,
    ModelError,
    ModelRequest,
    TextDelta,
    Tool,
    ToolCall,
    ToolFailed,
    Usage,
)
from wfcore.runtime.context import Ports

Stream = Callable[[Said], Awaitable[None]]


class ClaimLost(Exception):
    """Another worker has the execution, or nobody: whoever drives it here is to stop."""


LONGEST_MESSAGE = 500
"""Characters of an exception's text that are kept; the rest would be somebody's data."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Performer:
    """Performs one effect at a time for any number of executions; it never raises but for cancellation."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._schemas: dict[str, Schema] = {}

    async def perform(self, execution: Execution, effect: Effect, stream: Stream) -> Succeeded | Failed:
        """The entry that tells how the effect ended. A tool that takes too long is broken off.

        `ClaimLost`, which only `stream` raises, goes through.
        """
        try:
            if effect.timeout is None:
                output, usage = await self._outcome(execution, effect, stream)
            else:
                async with asyncio.timeout(effect.timeout):
                    output, usage = await self._outcome(execution, effect, stream)
        except (ToolFailed, ModelError) as error:
            return self._failed(effect, error.message, getattr(error, "reason", "failed"), error.retryable)
        except ClaimLost:
            raise
        except asyncio.CancelledError:
            if _is_being_cancelled():
                raise
            return self._failed(effect, "the tool was cancelled from inside", "failed")
        except TimeoutError:
            took = "no answer in time" if effect.timeout is None else f"no answer within {effect.timeout:g} seconds"
            return self._failed(effect, took, "timeout")
        except (Exception, SystemExit) as error:  # noqa: BLE001  (a tool may raise anything; the run must learn of it)
            return self._failed(effect, f"{type(error).__name__}: {error}", "failed")
        node, visit, step = effect.address
        return Succeeded(self._ports.clock.now(), node, visit, step, effect.attempt, output, usage)

    def _failed(self, effect: Effect, message: str, reason: str, retryable: bool = True) -> Failed:
        node, visit, step = effect.address
        text = message[:LONGEST_MESSAGE]
        return Failed(self._ports.clock.now(), node, visit, step, effect.attempt, text, reason, retryable)

    async def _outcome(
        self, execution: Execution, effect: Effect, stream: Stream
    ) -> tuple[JSON, dict[str, JSON] | None]:
        if isinstance(effect, CallModel):
            return await self._ask(execution, effect, stream)
        tool = self._tool(effect)
        call = ToolCall(effect.key, effect.attempt, execution.ref.org, execution.root_run_id, execution.user_id)
        if tool.is_async:
            output = await tool.run(effect.params, call)
        elif tool.blocking:
            output = await asyncio.to_thread(tool.run, effect.params, call)
        else:
            output = tool.run(effect.params, call)
        return self._kept(output), None

    # Tools

    def _tool(self, effect: CallTool) -> Tool:
        """The tool that is to be called, which takes these arguments."""
        tool = self._ports.tools.get(effect.tool)
        if tool is None:
            raise ToolFailed(f"there is no tool `{effect.tool}`", retryable=False)
        if tool.checks:
            _check_arguments(self._schema(tool), effect.params)
        return tool

    def _schema(self, tool: Tool) -> Schema:
        schema = self._schemas.get(tool.id)
        if schema is None:
            schema = self._schemas[tool.id] = compile_schema(tool.parameters)
        return schema

    def _kept(self, output: Any) -> JSON:
        """The output as the journal keeps it: what a restart reads back is what goes on now."""
        try:
            text = _encode(output)
        except (TypeError, ValueError, msgspec.MsgspecError) as error:
            raise ToolFailed(f"the tool's result is no JSON value: {error}", retryable=False) from None
        if len(text) > self._ports.settings.max_output_bytes:
            most = self._ports.settings.max_output_bytes
            raise ToolFailed(f"the tool's result has {len(text)} bytes, more than {most}", retryable=False)
        return _decode(text)

    # Models

    async def _ask(
        self, execution: Execution, effect: CallModel, stream: Stream
    ) -> tuple[JSON, dict[str, JSON] | None]:
        request = await self._request(execution, effect)
        provider = self._ports.models.get(request.model or "")
        if provider is None:
            raise ModelError(f"the model `{request.model}` is not configured", retryable=False)
        parts: list[str] = []
        usage = Usage()
        finished: Finished | None = None
        batch = _Batch(self._ports, effect, stream)
        async with aclosing(provider.stream(request)) as deltas:
            async for delta in deltas:
                match delta:
                    case TextDelta(text):
                        parts.append(text)
                        await batch.add(text)
                    case Usage():
                        usage = delta
                    case Finished():
                        finished = delta
        if finished is None:
            raise ModelError("the model broke off before its answer was whole")
        if finished.reason != "stop":
            raise ModelError(f"the model ended with `{finished.reason}`", retryable=False, reason=finished.reason)
        await batch.flush()
        return "".join(parts), {"model": request.model, **_usage_to_wire(usage)}

    async def _request(self, execution: Execution, effect: CallModel) -> ModelRequest:
        skill = await self._skill(execution, effect)
        messages = list(effect.messages)
        settings = dict(effect.settings)
        model = effect.model
        if skill is not None:
            model = model or skill.content.get("model") or None
            messages = _with_instructions(skill, messages)
        return ModelRequest(
            messages, model or self._ports.settings.default_model, settings, effect.output_schema, effect.key
        )

    async def _skill(self, execution: Execution, effect: CallModel) -> Variation | None:
        if effect.agent_id is None:
            return None
        async with self._ports.storage.reading(execution.ref.org) as work:
            resource = await work.skills.get(effect.agent_id)
            if resource is not None and resource.status == "active" and resource.active_variation_id:
                found = await work.skills.variation(resource.id, resource.active_variation_id)
                if found is not None:
                    return found
        raise ModelError(f"skill `{effect.agent_id}` is not deployed", retryable=False, reason="skill_missing")


class _Batch:
    """Text on its way to the journal: the first piece at once, then what came in within an interval."""

    def __init__(self, ports: Ports, effect: CallModel, stream: Stream) -> None:
        self._ports = ports
        self._effect = effect
        self._stream = stream
        self._parts: list[str] = []
        self._sent_at = 0

    async def add(self, text: str) -> None:
        self._parts.append(text)
        if self._ports.clock.now() - self._sent_at >= self._ports.settings.delta_interval * 1000:
            await self.flush()

    async def flush(self) -> None:
        if self._parts:
            node, visit, step = self._effect.address
            now = self._sent_at = self._ports.clock.now()
            text = "".join(self._parts)
            self._parts = []
            await self._stream(Said(now, node, visit, step, self._effect.attempt, text))


def _with_instructions(skill: Variation, messages: list[Mapping[str, JSON]]) -> list[Mapping[str, JSON]]:
    """The skill's instructions and expected output before those of the node."""
    content = skill.content
    lines = [*(content.get("instructions") or [])]
    if content.get("expectedOutput"):
        lines.append(f"Expected output: {content['expectedOutput']}")
    system = [message["content"] for message in messages if message["type"] == "system"]
    text = "\n".join([*lines, *system])
    rest = [message for message in messages if message["type"] != "system"]
    return [{"type": "system", "content": text}, *rest] if text else rest


def _is_being_cancelled() -> bool:
    """Whether somebody asked this very task to stop; if not, the cancellation came out of the tool."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _usage_to_wire(usage: Usage) -> dict[str, JSON]:
    counted = attrs.asdict(usage)
    return {"calls": 1, "inputTokens": counted["input_tokens"], "outputTokens": counted["output_tokens"]}


def _check_arguments(schema: Schema, params: JSON) -> None:
    issues = schema.check(params, "params")
    if issues:
        raise ToolFailed(f"`{issues[0].path}`: {issues[0].message}", retryable=False)
