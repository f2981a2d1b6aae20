"""Cassettes: calls of models and tools, recorded once into a file, and played from it in later tests.

    with Cassette("tests/cassettes/refund.json") as cassette:
        models = {"default": cassette.model(lambda: OpenAIModel("gpt-5"))}
        async with wfcore.open("sqlite://", models=models, tools=cassette.tools([send_refund])) as core:
            ...

The file is JSON. No secret is stored in it (`wfcore.testing.redaction`).
"""

import os
import re
import tempfile
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from hashlib import sha256
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Any, Final, Literal, Self

import attrs
import msgspec

from wfcore.adapters.tools.functions import tool_of
from wfcore.domain.json.codec import dumps, fingerprint, text_of
from wfcore.domain.json.differences import first_difference
from wfcore.domain.json.parsing import parse_json
from wfcore.domain.kernel.json_readers import as_list, as_object, as_objects, as_text, optional_text
from wfcore.domain.kernel.json_type import JSON
from wfcore.ports.providers import (
    Delta,
    Finished,
    ModelError,
    ModelProvider,
    ModelRequest,
    TextDelta,
    TokenUsage,
    Tool,
    ToolCall,
    ToolCallDelta,
    ToolFailed,
    collect_calls,
)
from wfcore.testing.redaction import Redactor

VERSION: Final = 1
LONGEST_IMAGE: Final = 200
"""Characters of an image's data that are stored; of a longer one its digest."""

MADE_BEFORE: Final = "no further call of it is recorded"

Mode = Literal["once", "never", "all"]
Made = ModelProvider | Callable[[], ModelProvider]


class NotRecorded(AssertionError):
    """A call that is not in the cassette, or recorded calls that were not made."""


class Cassette:
    """A file of recorded calls, as a context manager.

    `record`: with `once`, a missing file is recorded and an existing one is played; with `never` a missing file is an
    error, as in continuous integration; with `all` the file is recorded anew. Recording writes the file at the end of
    the block, unless it raises.

    A played call is matched by what it sends, after redaction: the same request receives the recorded responses in
    their order. Keys and ids of runs are not compared. A call that was not recorded fails without a retry, and the end
    of the block raises `NotRecorded`, also for recorded calls that were not made.

    `redact` are texts and patterns that are replaced by `***`, also those that differ in every run, such as a date;
    `fields` are names of further fields with secrets.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        record: Mode = "once",
        redact: Iterable[str | re.Pattern[str]] = (),
        fields: Iterable[str] = (),
    ) -> None:
        self.path = Path(path)
        self.recording = record == "all" or (record == "once" and not self.path.exists())
        self._redaction = Redactor(redact, fields)
        self._lock = Lock()
        self._calls: list[Mapping[str, JSON]] = []
        self._faults: list[str] = []
        if not self.recording:
            self._calls = self._read()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if kind is not None:
            return
        if self.recording:
            self._write()
        else:
            self.check()

    def check(self) -> None:
        """Raise NotRecorded for calls that were not recorded, and for recorded ones that were not made."""
        faults = [*self._faults, *(f"not made: {_named(call)}" for call in self._calls)]
        if faults:
            raise NotRecorded(f"cassette `{self.path}`: {'; '.join(faults)}")

    def model(self, provider: Made) -> ModelProvider:
        """The provider, recorded or played. A function that makes one is called only to record."""
        return _RecordedModel(self, provider)

    def tools(self, tools: Iterable[Callable[..., Any] | Tool], deps: object = None) -> list[Tool]:
        """The tools, recorded or played. `deps` is what their `RunContext` has, as in `wfcore.open`."""
        return [self.tool(each, deps) for each in tools]

    def tool(self, tool: Callable[..., Any] | Tool, deps: object = None) -> Tool:
        """One tool, recorded or played. It is called only to record."""
        real = tool if isinstance(tool, Tool) else tool_of(tool, deps)
        run = self._recorded_async(real) if real.is_async else self._recorded(real)
        return attrs.evolve(real, run=run)

    # Tools

    def _recorded(self, real: Tool) -> Callable[[Mapping[str, JSON], ToolCall], Any]:
        def run(args: Mapping[str, JSON], call: ToolCall) -> Any:
            if not self.recording:
                return self._played_tool(real.id, args)
            try:
                result = real.run(args, call)
            except Exception as error:
                self._add_tool(real.id, args, {"error": _tool_error(error)})
                raise
            self._add_tool(real.id, args, {"result": _as_json(result)})
            return result

        return run

    def _recorded_async(self, real: Tool) -> Callable[[Mapping[str, JSON], ToolCall], Any]:
        async def run(args: Mapping[str, JSON], call: ToolCall) -> Any:
            if not self.recording:
                return self._played_tool(real.id, args)
            try:
                given: Any = real.run(args, call)
                result = await given
            except Exception as error:
                self._add_tool(real.id, args, {"error": _tool_error(error)})
                raise
            self._add_tool(real.id, args, {"result": _as_json(result)})
            return result

        return run

    def _add_tool(self, tool_id: str, args: Mapping[str, JSON], outcome: Mapping[str, JSON]) -> None:
        self.add({"tool": tool_id, "args": args, **outcome})

    def _played_tool(self, tool_id: str, args: Mapping[str, JSON]) -> JSON:
        try:
            found = self.take({"tool": tool_id, "args": args})
        except NotRecorded as fault:
            raise ToolFailed(str(fault), retryable=False) from None
        if "error" in found:
            error = as_object(found["error"])
            raise ToolFailed(as_text(error["message"]), retryable=bool(error["retryable"]))
        return found["result"]

    # Calls

    def add(self, call: Mapping[str, JSON]) -> None:
        """Record one call."""
        redacted = as_object(self._redaction.of(call))
        with self._lock:
            self._calls.append(redacted)

    def take(self, request: Mapping[str, JSON]) -> Mapping[str, JSON]:
        """The next recorded call with this request. Raises NotRecorded if there is none, and so does the end."""
        wanted = as_object(self._redaction.of(request))
        with self._lock:
            for number, call in enumerate(self._calls):
                if fingerprint({key: call.get(key) for key in wanted}) == fingerprint(wanted):
                    return self._calls.pop(number)
            alike = [call for call in self._calls if _kind(call) == _kind(wanted)]
            why = first_difference(wanted, {key: alike[0].get(key) for key in wanted}) if alike else MADE_BEFORE
            self._faults.append(f"not recorded: {_named(wanted)} ({why})")
            raise NotRecorded(self._faults[-1])

    # The file

    def _read(self) -> list[Mapping[str, JSON]]:
        read = as_object(parse_json(self.path.read_bytes()))
        if read.get("version") != VERSION:
            raise ValueError(f"cassette `{self.path}` has version `{read.get('version')}`: record it again")
        return list(as_objects(read["calls"]))

    def _write(self) -> None:
        """Write the whole file, or none."""
        text = msgspec.json.format(msgspec.json.encode({"version": VERSION, "calls": self._calls}), indent=1)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=self.path.parent, prefix=self.path.name)
        with os.fdopen(descriptor, "wb") as file:
            file.write(text + b"\n")
        Path(name).replace(self.path)


class _RecordedModel:
    """A provider whose calls go through a cassette."""

    def __init__(self, cassette: Cassette, provider: Made) -> None:
        self._cassette = cassette
        self._made = provider
        self._provider = provider if hasattr(provider, "stream") else None

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        sent = _request_to_json(request)
        if not self._cassette.recording:
            for part in self._played(sent):
                yield part
            return
        parts: list[Delta] = []
        try:
            async with aclosing(self._real().stream(request)) as deltas:
                async for delta in deltas:
                    parts.append(delta)
                    yield delta
        except ModelError as error:
            failed: dict[str, JSON] = {"message": error.message, "retryable": error.retryable, "reason": error.reason}
            self._cassette.add({**sent, "response": {**_response(parts), "error": failed}})
            raise
        self._cassette.add({**sent, "response": _response(parts)})

    def _real(self) -> ModelProvider:
        if self._provider is None:
            self._provider = self._made()  # type: ignore[operator]
        return self._provider

    def _played(self, sent: Mapping[str, JSON]) -> Iterable[Delta]:
        try:
            found = self._cassette.take(sent)
        except NotRecorded as fault:
            raise ModelError(str(fault), retryable=False) from None
        response = as_object(found["response"])
        if text := as_text(response["content"]):
            yield TextDelta(text)
        for index, call in enumerate(as_objects(response["toolCalls"])):
            yield ToolCallDelta(index, as_text(call["id"]), as_text(call["name"]), text_of(call["args"]))
        if response["usage"] is not None:
            yield TokenUsage(*(int(str(count)) for count in as_list(response["usage"])))
        if "error" in response:
            error = as_object(response["error"])
            reason = as_text(error["reason"])
            raise ModelError(as_text(error["message"]), retryable=bool(error["retryable"]), reason=reason)
        yield Finished(as_text(response["finished"]))


def _request_to_json(request: ModelRequest) -> dict[str, JSON]:
    """What a call sends, without its key. Ids of messages are left out: they differ in every run."""
    messages = [
        {name: _without_images(value) if name == "images" else value for name, value in message.items() if name != "id"}
        for message in request.messages
    ]
    return {
        "model": request.model,
        "messages": messages,
        "settings": dict(request.settings),
        "outputSchema": request.output_schema,
        "tools": [
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
            for tool in request.tools
        ],
    }


def _without_images(images: JSON) -> JSON:
    return [{**image, "data": _shortened(as_text(image["data"]))} for image in as_objects(images)]


def _shortened(data: str) -> str:
    return data if len(data) <= LONGEST_IMAGE else f"sha256:{sha256(data.encode()).hexdigest()}"


def _response(parts: list[Delta]) -> dict[str, JSON]:
    """A response as one message, so that no secret is divided between two parts of it."""
    usage = [[part.input_tokens, part.output_tokens] for part in parts if isinstance(part, TokenUsage)]
    ends = [part.reason for part in parts if isinstance(part, Finished)]
    return {
        "content": "".join(part.text for part in parts if isinstance(part, TextDelta)),
        "toolCalls": list(collect_calls(parts)),
        "usage": list(usage[0]) if usage else None,
        "finished": ends[0] if ends else None,
    }


def _tool_error(error: Exception) -> dict[str, JSON]:
    message = error.message if isinstance(error, ToolFailed) else f"{type(error).__name__}: {error}"
    return {"message": message, "retryable": getattr(error, "retryable", True)}


def _as_json(value: Any) -> JSON:
    """The result of a tool as it is stored: a round trip through JSON."""
    result: JSON = msgspec.json.decode(msgspec.json.encode(value))
    return result


def _kind(call: Mapping[str, JSON]) -> str:
    return optional_text(call.get("tool")) or "model"


def _named(call: Mapping[str, JSON]) -> str:
    """The call in one line."""
    if "tool" in call:
        return f"`{as_text(call['tool'])}` with {dumps(call['args'])}"
    messages = as_objects(call["messages"])
    last = optional_text(messages[-1].get("content")) if messages else None
    return f"a call of the model after {len(messages)} messages, the last one `{(last or '')[:80]}`"
