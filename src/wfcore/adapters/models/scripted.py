"""A stand-in for a model: it says what it was told to say. For tests, demos and the first minutes without a key."""

import asyncio
import math
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from typing import Final

from wfcore.adapters.models.completions import content_of
from wfcore.domain.json.codec import dumps
from wfcore.domain.kernel.json_type import JSON
from wfcore.ports.providers import Delta, Finished, ModelRequest, TextDelta, TokenUsage, ToolCallDelta

Reply = str | Exception | Mapping[str, JSON]
Script = Sequence[Reply] | Callable[[ModelRequest], Reply]

QUOTED: Final = 500
"""Characters of the last human message that an unscripted answer quotes."""
FRAGMENT: Final = 8
"""Characters of a tool call's arguments that come at once."""
DEEPEST: Final = 32
"""Levels of references that `smallest` follows; a schema that refers to itself without end gives null there."""
BIGGEST: Final = 10_000
"""Parts of a schema that `smallest` looks at, and the length of a text or list: schemas come from customers."""
NUDGE: Final = 2.0**-20
"""How far within an exclusive bound a number is that may be any."""

_WORDS = re.compile(r"\s*\S+|\s+", re.ASCII)


class ScriptedModel:
    """This is no model and understands nothing: it plays a script, the same one each time.

    `replies` are given one per call, the last one for ever; or a function of the request makes them; one reply is a
    script by itself. A reply is a text, an exception, which is raised, or a message: `{"content", "toolCalls"}`, both
    optional, each call `{"name", "args", "id"}`, where `args` that are text are sent as they are and an `id` is made
    up if there is none. Without replies the answer quotes the last human message, or is a small value that fits the
    output schema. Answers are streamed word by word and arguments in fragments, with `delay` seconds before each. The
    tokens of its usage are words: those of all messages, and those of the answer, arguments included.

    ValueError when `replies` is empty or `delay` negative.
    """

    def __init__(self, replies: str | Mapping[str, JSON] | Script | None = None, *, delay: float = 0.0) -> None:
        if isinstance(replies, Sequence | Mapping) and not replies:
            raise ValueError("a script has at least one reply")
        if not delay >= 0:
            raise ValueError(f"`{delay}` is no number of seconds")
        self._replies: Script | None = [replies] if isinstance(replies, str | Mapping) else replies
        self._delay = delay
        self._given = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        reply = self._next(request)
        if isinstance(reply, Exception):
            raise reply
        message = {"content": reply} if isinstance(reply, str) else reply
        calls = self._calls(message)
        parts: list[Delta] = [TextDelta(word) for word in _WORDS.findall(content_of(message))]
        for part in [*parts, *_fragments(calls)]:
            if self._delay:
                await asyncio.sleep(self._delay)
            yield part
        asked = sum(len(content_of(message).split()) for message in request.messages)
        said = [content_of(message), *(arguments for _, _, arguments in calls)]
        yield TokenUsage(asked, sum(len(text.split()) for text in said))
        yield Finished("tool_calls" if calls else "stop")

    def _next(self, request: ModelRequest) -> Reply:
        self._given += 1
        if self._replies is None:
            return _made_up(request)
        if callable(self._replies):
            return self._replies(request)
        return self._replies[min(self._given, len(self._replies)) - 1]

    def _calls(self, message: Mapping[str, JSON]) -> list[tuple[str, str, str]]:
        """Id, name and arguments of the message's tool calls. Ids that are made up differ in all answers of a model."""
        calls = []
        for index, call in enumerate(message.get("toolCalls") or ()):
            args = call.get("args", {})
            made_up = f"call_{self._given}_{index + 1}"
            calls.append((call.get("id") or made_up, call["name"], args if isinstance(args, str) else dumps(args)))
        return calls


def _fragments(calls: Sequence[tuple[str, str, str]]) -> Iterator[ToolCallDelta]:
    for index, (call, name, arguments) in enumerate(calls):
        yield ToolCallDelta(index, call, name)
        for start in range(0, len(arguments), FRAGMENT):
            yield ToolCallDelta(index, arguments=arguments[start : start + FRAGMENT])


def _made_up(request: ModelRequest) -> str:
    if request.output_schema is not None:
        return dumps(smallest(request.output_schema))
    asked = [content_of(message) for message in request.messages if message.get("type") == "human"]
    quoted = asked[-1] if asked else ""
    shown = quoted if len(quoted) <= QUOTED else f"{quoted[:QUOTED]}..."
    return f"(scripted answer; no model is configured) You said: {shown}"


# Values for schemas


def smallest(schema: JSON) -> JSON:
    """A small value that fits a JSON Schema of the plain kind.

    It knows types, properties, items, lower bounds, enum, const, default, local references and the first of `anyOf`
    or `oneOf`; not patterns, formats, `not` or conditions.
    """
    return _Sample(schema).of(schema, 0)


class _Sample:
    """Makes values for the parts of one schema, `root`, in which local references are looked up."""

    def __init__(self, root: JSON) -> None:
        self._root = root
        self._left = BIGGEST

    def of(self, schema: JSON, depth: int) -> JSON:
        if not isinstance(schema, Mapping) or self._left <= 0:
            return None
        schema = self._resolved(schema, depth)
        for key in ("const", "default"):
            if key in schema:
                return schema[key]
        if schema.get("enum"):
            return schema["enum"][0]
        return self._of_type(_type(schema), schema, depth + 1)

    def _resolved(self, schema: Mapping[str, JSON], depth: int) -> Mapping[str, JSON]:
        """The schema with what it refers to, its `allOf` and the first of its alternatives put into it."""
        self._left -= 1
        parts = [*(schema.get(key, [None])[0] for key in ("anyOf", "oneOf")), *schema.get("allOf", ())]
        if "$ref" in schema:
            parts.append(self._target(schema["$ref"]))
        merged = {key: value for key, value in schema.items() if key not in ("anyOf", "oneOf", "allOf", "$ref")}
        for part in parts:
            if isinstance(part, Mapping) and depth < DEEPEST and self._left > 0:
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
                properties = schema.get("properties", {})
                return {name: self.of(properties.get(name, {}), depth) for name in schema.get("required", properties)}
            case "array":
                first = [self.of(part, depth) for part in schema.get("prefixItems", ())]
                missing = min(int(schema.get("minItems", 0)), BIGGEST) - len(first)
                return first + [self.of(schema.get("items", {}), depth) for _ in range(missing)]
            case "string":
                return "x" * min(int(schema.get("minLength", 0)), BIGGEST)
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
    """What both say; of properties and required names all, of anything else what `one` says."""
    merged = {**other, **one}
    if "properties" in one and "properties" in other:
        merged["properties"] = {**other["properties"], **one["properties"]}
    if "required" in one and "required" in other:
        merged["required"] = [*dict.fromkeys([*one["required"], *other["required"]])]
    return merged


def _number(schema: Mapping[str, JSON], *, whole: bool) -> JSON:
    """The number nearest to zero within the bounds, of `multipleOf` if that is asked for."""
    step = schema.get("multipleOf", 1 if whole else None)
    inward = step or NUDGE
    low = max(schema.get("minimum", -math.inf), schema.get("exclusiveMinimum", -math.inf) + inward)
    high = min(schema.get("maximum", math.inf), schema.get("exclusiveMaximum", math.inf) - inward)
    number = min(max(low, 0), high)
    if step is None or not number:
        return number
    return step * (math.ceil(number / step) if number > 0 else math.floor(number / step))
