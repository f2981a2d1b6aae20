"""A stand-in for a model: it says what it was told to say. For tests, demos and the first minutes without a key."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from wfcore.domain.codec import dumps
from wfcore.domain.errors import JSON
from wfcore.ports.providers import Delta, Finished, ModelRequest, TextDelta, Usage

Reply = str | Exception
Script = Sequence[Reply] | Callable[[ModelRequest], Reply]

QUOTED = 400
"""Characters of the last human message that an unscripted answer quotes."""

_WORDS = re.compile(r"\s*\S+|\s+", re.ASCII)


class ScriptedModel:
    """No model: `replies` are given in turn, the last one for ever, or made by a function of the request.

    A reply that is an exception is raised. Without replies the answer quotes the last human message, or is the
    smallest value of the output schema. It is streamed word by word, with `delay` seconds before each, and usage
    counts words.
    """

    def __init__(self, replies: Script | None = None, *, delay: float = 0.0) -> None:
        self._replies = replies
        self._delay = delay
        self._given = 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        text = self._reply(request)
        words = _WORDS.findall(text)
        for word in words:
            if self._delay:
                await asyncio.sleep(self._delay)
            yield TextDelta(word)
        asked = sum(len(str(message.get("content", "")).split()) for message in request.messages)
        yield Usage(asked, len(words))
        yield Finished()

    def _reply(self, request: ModelRequest) -> str:
        reply = self._next(request)
        if isinstance(reply, Exception):
            raise reply
        return reply

    def _next(self, request: ModelRequest) -> Reply:
        if self._replies is None:
            return _made_up(request)
        if callable(self._replies):
            return self._replies(request)
        reply = self._replies[min(self._given, len(self._replies) - 1)]
        self._given += 1
        return reply


def _made_up(request: ModelRequest) -> str:
    if request.output_schema is not None:
        return dumps(smallest(request.output_schema))
    asked = [str(message.get("content", "")) for message in request.messages if message.get("type") == "human"]
    quoted = asked[-1] if asked else ""
    return f"(scripted answer; no model is configured) You said: {quoted[:QUOTED]}"


def smallest(schema: Mapping[str, JSON]) -> JSON:
    """A small value that fits a JSON Schema of the plain kind: types, properties, items, enum, const, lower bounds."""
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    if schema.get("enum"):
        return schema["enum"][0]
    for key in ("anyOf", "oneOf", "allOf"):
        if schema.get(key):
            return smallest(schema[key][0])
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object" or (kind is None and "properties" in schema):
        properties = schema.get("properties") or {}
        return {name: smallest(properties.get(name, {})) for name in schema.get("required") or properties}
    if kind == "array":
        return [smallest(schema.get("items") or {}) for _ in range(int(schema.get("minItems") or 0))]
    if kind in ("integer", "number"):
        return schema.get("minimum", 0)
    if kind == "boolean":
        return False
    return None if kind == "null" else "x" * int(schema.get("minLength") or 0)
