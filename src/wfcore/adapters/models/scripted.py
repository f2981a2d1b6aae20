"""A scripted replacement for a model, for tests, demos and first steps without a key."""

import asyncio
import math
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from typing import Final

from wfcore.adapters.models.completions import content_of
from wfcore.domain.json.codec import dumps, text_of
from wfcore.domain.kernel.json_readers import (
    as_list,
    as_number,
    as_object,
    as_objects,
    as_text,
    as_texts,
    optional_number,
)
from wfcore.domain.kernel.json_type import JSON
from wfcore.ports.providers import Delta, Finished, ModelError, ModelRequest, TextDelta, TokenUsage, ToolCallDelta

Reply = str | Exception | Mapping[str, JSON]
Script = Sequence[Reply] | Callable[[ModelRequest], Reply]

QUOTED: Final = 500
"""Characters of the last human message that an unscripted reply quotes."""
MAX_REQUESTS: Final = 1_000
"""The most requests that a model keeps: it can serve a demo for days."""
FRAGMENT: Final = 8
"""Characters of a tool call's arguments in one delta."""
MAX_REFERENCE_DEPTH: Final = 32
"""Levels of references that `sample` follows; below them an endlessly recursive schema gives null."""
MAX_PARTS: Final = 10_000
"""Parts of a schema that `sample` reads, and the most of a text or list that it makes: customers write schemas."""
EXCLUSIVE_MARGIN: Final = 2.0**-20
"""The distance from an exclusive bound of a number without `multipleOf`."""

_BOUNDS: Final = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")
_WORDS = re.compile(r"\s*\S+|\s+", re.ASCII)


class ScriptedModel:
    """Implements the port `ModelProvider` without a model: it plays the same script each time.

    Each reply of a list is played once, in order: a request after the last one fails without a retry, and then `check`
    fails. `play` adds replies. A single reply is played for every request; a function makes one from the request. A
    reply is a text, an exception, which is raised, or a message: `{"content", "toolCalls"}`, both optional, each call
    `{"name", "args", "id"}`. `args` that are text are sent unchanged; a missing `id` is generated. Without replies the
    response quotes the last human message, or is a small value that matches the output schema. Responses are streamed
    word by word and arguments in fragments, with `delay` seconds before each. Its usage counts words as tokens: those
    of all messages, and those of the response, arguments included.

    `requests` are the requests so far, of more than `MAX_REQUESTS` the last ones.

    Raises ValueError when `replies` is empty or `delay` negative.
    """

    def __init__(self, replies: str | Mapping[str, JSON] | Script | None = None, *, delay: float = 0.0) -> None:
        if isinstance(replies, Sequence | Mapping) and not replies:
            raise ValueError("`replies` must have at least one reply")
        if not delay >= 0:
            raise ValueError(f"`delay` must be at least 0 seconds, not `{delay}`")
        self.requests: list[ModelRequest] = []
        self._delay = delay
        self._calls_made = 0
        self._list: list[Reply] = []
        self._taken = 0
        self._reply: Callable[[ModelRequest], Reply] = _unscripted
        if callable(replies):
            self._reply = replies
        elif isinstance(replies, str | Mapping):
            self._reply = lambda _: replies
        elif replies is not None:
            self.play(*replies)

    def play(self, *replies: Reply) -> None:
        """Add replies to the script; without a script that is a list, they are the whole script from now on."""
        self._list += replies
        self._reply = self._next_of_list

    def check(self) -> None:
        """Raise AssertionError if a request came after the end of the script."""
        if self._taken > len(self._list):
            raise AssertionError(self._overrun())

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        self._calls_made += 1
        self.requests = [*self.requests[1 - MAX_REQUESTS :], request]
        reply = self._reply(request)
        if isinstance(reply, Exception):
            raise reply
        message = {"content": reply} if isinstance(reply, str) else reply
        calls = self._calls(message)
        parts: list[Delta] = [TextDelta(word) for word in _WORDS.findall(content_of(message))]
        for part in [*parts, *_fragments(calls)]:
            if self._delay:
                await asyncio.sleep(self._delay)
            yield part
        prompt = sum(len(content_of(message).split()) for message in request.messages)
        reply_texts = [content_of(message), *(arguments for _, _, arguments in calls)]
        yield TokenUsage(prompt, sum(len(text.split()) for text in reply_texts))
        yield Finished("tool_calls" if calls else "stop")

    def _next_of_list(self, _: ModelRequest) -> Reply:
        self._taken += 1
        if self._taken > len(self._list):
            return ModelError(self._overrun(), retryable=False)
        return self._list[self._taken - 1]

    def _overrun(self) -> str:
        return f"the script of the model has {len(self._list)} replies, and {self._taken} requests came"

    def _calls(self, message: Mapping[str, JSON]) -> list[tuple[str, str, str]]:
        """Id, name and arguments of the message's tool calls. Generated ids are unique for one model."""
        calls = []
        for index, call in enumerate(as_objects(message.get("toolCalls") or ())):
            args = call.get("args", {})
            ident = as_text(call.get("id") or f"call_{self._calls_made}_{index + 1}")
            calls.append((ident, as_text(call["name"]), text_of(args)))
        return calls


def _fragments(calls: Sequence[tuple[str, str, str]]) -> Iterator[ToolCallDelta]:
    for index, (call, name, arguments) in enumerate(calls):
        yield ToolCallDelta(index, call, name)
        for start in range(0, len(arguments), FRAGMENT):
            yield ToolCallDelta(index, arguments=arguments[start : start + FRAGMENT])


def _unscripted(request: ModelRequest) -> str:
    if request.output_schema is not None:
        return dumps(sample(request.output_schema))
    human = [content_of(message) for message in request.messages if message.get("type") == "human"]
    quoted = human[-1] if human else ""
    shown = quoted if len(quoted) <= QUOTED else f"{quoted[:QUOTED]}..."
    return f"(scripted answer; no model is configured) You said: {shown}"


# Values for schemas


def sample(schema: JSON) -> JSON:
    """A small value that matches a simple JSON Schema.

    Supported are types, properties, items, lower bounds, enum, const, default, local references and the first of
    `anyOf` or `oneOf`; not patterns, formats, `not` or conditions.
    """
    return _Sample(schema).of(schema, 0)


class _Sample:
    """Makes values for parts of the schema `root`, in which local references are resolved."""

    def __init__(self, root: JSON) -> None:
        self._root = root
        self._parts_left = MAX_PARTS

    def of(self, schema: JSON, depth: int) -> JSON:
        if not isinstance(schema, Mapping) or self._parts_left <= 0:
            return None
        schema = self._resolved(schema, depth)
        for key in ("const", "default"):
            if key in schema:
                return schema[key]
        if schema.get("enum"):
            return as_list(schema["enum"])[0]
        return self._of_type(_type(schema), schema, depth + 1)

    def _resolved(self, schema: Mapping[str, JSON], depth: int) -> Mapping[str, JSON]:
        """The schema merged with its reference, its `allOf` and the first of its alternatives."""
        self._parts_left -= 1
        parts = [as_list(schema.get(key, [None]))[0] for key in ("anyOf", "oneOf")]
        parts += as_list(schema.get("allOf", ()))
        if "$ref" in schema:
            parts.append(self._target(as_text(schema["$ref"])))
        merged = {key: value for key, value in schema.items() if key not in ("anyOf", "oneOf", "allOf", "$ref")}
        for part in parts:
            if isinstance(part, Mapping) and depth < MAX_REFERENCE_DEPTH and self._parts_left > 0:
                merged = _merge(merged, self._resolved(part, depth + 1))
        return merged

    def _target(self, reference: str) -> JSON:
        found = self._root
        for step in reference.removeprefix("#").split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, Mapping) else None
        return found

    def _of_type(self, kind: str | None, schema: Mapping[str, JSON], depth: int) -> JSON:
        match kind:
            case "object":
                properties = as_object(schema.get("properties", {}))
                names = as_texts(schema.get("required", list(properties)))
                return {name: self.of(properties.get(name, {}), depth) for name in names}
            case "array":
                first = [self.of(part, depth) for part in as_list(schema.get("prefixItems", ()))]
                missing = min(int(as_number(schema.get("minItems", 0))), MAX_PARTS) - len(first)
                return first + [self.of(schema.get("items", {}), depth) for _ in range(missing)]
            case "string":
                return "x" * min(int(as_number(schema.get("minLength", 0))), MAX_PARTS)
            case "integer" | "number":
                return _number(schema, whole=kind == "integer")
            case "boolean":
                return False
        return None


def _type(schema: Mapping[str, JSON]) -> str | None:
    kind: JSON = schema.get("type")
    if kind is None:
        return "object" if "properties" in schema or "required" in schema else None
    return str(kind[0] if isinstance(kind, list) else kind)


def _merge(one: Mapping[str, JSON], other: Mapping[str, JSON]) -> dict[str, JSON]:
    """Both schemas merged: all properties and required names, for other keywords the value in `one`."""
    merged = {**other, **one}
    if "properties" in one and "properties" in other:
        merged["properties"] = {**as_object(other["properties"]), **as_object(one["properties"])}
    if "required" in one and "required" in other:
        merged["required"] = [*dict.fromkeys([*as_texts(one["required"]), *as_texts(other["required"])])]
    return merged


def _number(schema: Mapping[str, JSON], *, whole: bool) -> JSON:
    """The number nearest to zero within the bounds that is a multiple of `multipleOf`, if present."""
    step = optional_number(schema.get("multipleOf", 1 if whole else None))
    inward = step or EXCLUSIVE_MARGIN
    bounds = {name: as_number(schema[name]) for name in _BOUNDS if name in schema}
    low = max(bounds.get("minimum", -math.inf), bounds.get("exclusiveMinimum", -math.inf) + inward)
    high = min(bounds.get("maximum", math.inf), bounds.get("exclusiveMaximum", math.inf) - inward)
    number = min(max(low, 0), high)
    if step is None or not number:
        return number
    return step * (math.ceil(number / step) if number > 0 else math.floor(number / step))
