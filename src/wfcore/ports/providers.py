"""What runs use outside of wfcore: tools, models, memories, and the subscribers of their events."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from math import inf
from typing import Final, Protocol

import attrs
from msgspec import Struct

from wfcore.domain.json.parsing import parse_json
from wfcore.domain.kernel.errors import Malformed
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.effects import MODEL_FAILED
from wfcore.domain.run.events import Event
from wfcore.ports.journal import ExecutionRef
from wfcore.ports.system import Rate

# Tools


class ToolFailed(Exception):
    """The tool failed, with a message that says why. `retryable` False: another attempt cannot succeed."""

    reason = "failed"

    def __init__(self, message: str, *, retryable: bool = True) -> None:
        super().__init__(message)
        self.message = message
        self.retryable = retryable


class ConnectionRequired(ToolFailed):
    """The tool has no connection to use, or its service refused the credentials.

    The run opens a `connect` interrupt (interface, Events), and calls the tool again when it is resolved.
    """

    reason = "connection_required"

    def __init__(self, message: str = "the service refused the credentials") -> None:
        super().__init__(message, retryable=False)


@attrs.frozen
class ToolConnection:
    """The connection that a call can use. `config` holds the secrets in clear text, so no `repr` shows it."""

    id: str
    provider: str
    kind: str
    config: Mapping[str, JSON] = attrs.field(repr=False)


class ToolCall(Struct, frozen=True):
    """The context of a tool call, passed in addition to its arguments.

    `key` is the same for every attempt of the same call (RFC draft "The Idempotency-Key HTTP Header Field"): a tool
    with side effects uses it to perform them once. `connection` is set when the tool names a `provider`. `skill_id`
    and `message_id` are set when an agent called the tool; the latter is the message that requested the call.
    `end_user_id` is then the `userContext.userId` of the run, "" without one: data of the caller, not an identity.

    `fencing` is the number of the claim under which the call is made. It grows each time that a worker claims the
    run's execution, so a call with a smaller number than one before is from a worker that lost the execution.
    `on_progress` receives what `progress` is called with.
    """

    key: str
    attempt: int
    org: str
    run_id: str
    user_id: str
    connection: ToolConnection | None = None
    skill_id: int | None = None
    message_id: str = ""
    fencing: int = 0
    end_user_id: str = ""
    on_progress: Callable[[float | None, float | None, str], None] | None = None

    def progress(self, progress: float | None = None, total: float | None = None, message: str = "") -> None:
        """Report how far the call is: `progress` of `total`, in any unit, and what it does, in at most 500 characters.

        Each report can become an event of the run: the first one at once, then the latest of each second. It can be
        called from any thread, and does not wait. ValueError for a number that is negative or not finite, and
        without a number and a message.
        """
        for name, value in (("progress", progress), ("total", total)):
            if value is not None and not 0 <= value < inf:
                raise ValueError(f"`{name}` must be a finite number of at least 0, not `{value!r}`")
        if progress is None and not message:
            raise ValueError("`progress` or `message` is required")
        if self.on_progress is not None:
            self.on_progress(progress, total, message)


class PlainFunction(Struct, frozen=True):
    """`Tool.run` of a function that takes its arguments alone: its callers need not make a `ToolCall`."""

    function: Callable[..., JSON | Awaitable[JSON]]

    def __call__(self, params: Mapping[str, JSON], call: ToolCall) -> JSON | Awaitable[JSON]:
        return self.function(**params)


@attrs.frozen
class Tool:
    """A tool of the catalog. `parameters` is the JSON Schema of the arguments.

    `run` takes the arguments and the call; a plain function runs in a worker thread unless `blocking` is False. A tool
    that is not `idempotent` is called once for each attempt: when its worker dies during the call, the outcome is
    unknown and the attempt fails. An idempotent tool is called again, with the same key.
    """

    id: str
    run: Callable[[Mapping[str, JSON], ToolCall], JSON | Awaitable[JSON]]
    name: str
    description: str = ""
    parameters: Mapping[str, JSON] = attrs.field(factory=lambda: {"type": "object"})
    blocking: bool = True
    is_async: bool = False
    checks: bool = True
    """Whether arguments are checked against `parameters` before the call."""
    idempotent: bool = False
    provider: str | None = None
    """The tool needs the organization's connection with this `provider`."""
    output_schema: Mapping[str, JSON] | None = None
    """The JSON Schema of the result; None where it is not known."""
    connection_parameter: str | None = None
    """The parameter that can name a connection by its id, for a tool of no provider."""
    group: str | None = None
    """The name under which a catalog lists the tool; None: the part of the id before its last `.`."""
    calls: str | None = attrs.field(default=None)
    """How many calls each organization can begin, such as `100/minute`; None: any number."""

    @calls.validator
    def _check_calls(self, _: object, calls: str | None) -> None:
        if calls is not None:
            Rate.of(self.id, calls)


class Tools(Protocol):
    """The catalog of one installation. Implementers: an id always returns the same tool."""

    def get(self, tool_id: str) -> Tool | None:
        """The tool with this id; None for an unknown one."""
        ...

    def all(self) -> Sequence[Tool]:
        """By id."""
        ...


# Models


MOST_CALLS: Final = 64
"""The most tool calls of one completion."""
LONGEST_NAME: Final = 200
"""The most characters of a tool call's id, and of its name."""
LONGEST_ARGUMENTS: Final = 1_000_000
"""The most characters of the arguments of one completion's tool calls together."""


class ModelError(Exception):
    """The provider refused, failed, or ended the stream early. A partial completion is never used.

    `reason` is `incomplete` for a stream that ended early: a run then calls the model again, by default up to twice.
    """

    def __init__(self, message: str, *, retryable: bool = True, reason: str = MODEL_FAILED) -> None:
        super().__init__(message)
        self.message = message
        self.retryable = retryable
        self.reason = reason


@attrs.frozen
class ToolDefinition:
    """A tool as described to the model. `name` matches `^[A-Za-z0-9_-]{1,64}$`, `parameters` is a JSON Schema."""

    name: str
    description: str = ""
    parameters: Mapping[str, JSON] = attrs.field(factory=lambda: {"type": "object"})


@attrs.frozen
class ModelRequest:
    """One call. `messages` are in the interface's Message shape, `settings` in its modelSettings shape.

    A human message can carry `images: [{"mimeType", "data"}]`, the data in base64. Each of an ai message's `toolCalls`
    has a tool message with its `toolCallId`.
    """

    messages: Sequence[Mapping[str, JSON]]
    model: str | None = None
    settings: Mapping[str, JSON] = attrs.field(factory=dict)
    output_schema: Mapping[str, JSON] | None = None
    key: str = ""
    tools: Sequence[ToolDefinition] = ()


@attrs.frozen
class TextDelta:
    """The next part of the text."""

    text: str


@attrs.frozen
class ToolCallDelta:
    """The next fragment of a tool call. `index` counts from 0; the first fragment has the whole id and name."""

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""


@attrs.frozen
class TokenUsage:
    """The usage of the call, in tokens."""

    input_tokens: int = 0
    output_tokens: int = 0


@attrs.frozen
class Finished:
    """The completion is whole. `reason`: `stop`, `tool_calls` (exactly when there are some), `length` or `refusal`."""

    reason: str = "stop"


Delta = TextDelta | ToolCallDelta | TokenUsage | Finished


ABILITIES: Final = ("tools", "images", "outputSchema")
"""What a model can be able to do: call tools, read images, and follow a JSON Schema of the output."""


class ModelProvider(Protocol):
    """Implementers: the stream ends with exactly one `Finished`, or raises `ModelError`; closing it ends the call.

    `TokenUsage` comes at most once, directly before `Finished`, or before an error where it is known. A request that
    the provider cannot express is refused. The caller checks that the called tools were offered. A provider without
    one of ABILITIES names those that it has in an attribute `abilities`.
    """

    def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        """The parts of one completion, as they arrive. The call begins with the first iteration."""
        ...


def collect_calls(deltas: Iterable[Delta]) -> list[dict[str, JSON]]:
    """The tool calls of a whole completion, in the interface's shape `{"id", "name", "args"}`.

    `args` is an object, `{}` for empty arguments. Arguments that are not a JSON object stay text, so that the model
    can be informed of its mistake. Raises ModelError as `CallCollector` does.
    """
    collector = CallCollector()
    for delta in deltas:
        if isinstance(delta, ToolCallDelta):
            collector.add(delta)
    return collector.calls()


class CallCollector:
    """Joins the fragments of one completion's tool calls as they arrive.

    ModelError for invalid fragments: an index out of order, an id or name that is missing, not printable or longer
    than LONGEST_NAME, a repeated id, more than MOST_CALLS calls or LONGEST_ARGUMENTS characters.
    """

    def __init__(self) -> None:
        self._begun: dict[str, str] = {}
        self._arguments: list[list[str]] = []
        self._length = 0

    def __len__(self) -> int:
        return len(self._begun)

    def add(self, delta: ToolCallDelta) -> None:
        """Take the next fragment. Raises ModelError."""
        if delta.index == len(self._begun):
            self._begin(delta)
        elif not 0 <= delta.index < len(self._begun):
            raise ModelError(f"a fragment of tool call {delta.index} came after {len(self._begun)} calls")
        self._length += len(delta.arguments)
        if self._length > LONGEST_ARGUMENTS:
            raise ModelError(f"the arguments of the tool calls have more than {LONGEST_ARGUMENTS} characters")
        self._arguments[delta.index].append(delta.arguments)

    def calls(self) -> list[dict[str, JSON]]:
        """The calls as `collect_calls` returns them, in the order of their first fragments."""
        calls = zip(self._begun.items(), self._arguments, strict=True)
        return [{"id": call, "name": name, "args": _arguments("".join(parts))} for (call, name), parts in calls]

    def _begin(self, call: ToolCallDelta) -> None:
        for text in (call.id, call.name):
            if not (0 < len(text) <= LONGEST_NAME and text.isprintable()):
                raise ModelError("a tool call has no id or no name")
        if call.id in self._begun:
            raise ModelError(f"two tool calls have the id `{call.id[:40]}`")
        if len(self._begun) == MOST_CALLS:
            raise ModelError(f"the model requested more than {MOST_CALLS} tool calls at once")
        self._begun[call.id] = call.name
        self._arguments.append([])


def _arguments(text: str) -> dict[str, JSON] | str:
    body = text.encode(errors="replace")
    try:
        found = parse_json(body) if text.strip() else {}
    except Malformed:
        return body.decode()
    return found if isinstance(found, dict) else body.decode()


# Memories


@attrs.frozen
class Memory:
    """A long-term memory (interface, Memory). Times are epoch milliseconds."""

    id: str
    memory: str
    hash: str
    metadata: Mapping[str, JSON]
    created_at: int
    updated_at: int
    user_id: str | None = None


class MemoryBackend(Protocol):
    """Memories of scopes. Every call names organization and scope; a memory of another scope is not found.

    Implementers: metadata is kept verbatim; `hash` is that of the text; lists are in order of creation.
    """

    async def add(self, org: str, skill_id: int, memory: Memory) -> None:
        """Store the memory. An existing one with the same id stays unchanged, a deleted one stays deleted."""
        ...

    async def get(self, org: str, skill_id: int, memory_id: str) -> Memory | None: ...

    async def replace(self, org: str, skill_id: int, memory: Memory, *, old: Memory | None = None) -> bool:
        """Replace text and metadata of the memory with the same id; False when there is none.

        With `old`: only while the stored memory equals it. Of two concurrent replacements one gets False.
        """
        ...

    async def delete(self, org: str, skill_id: int, memory_id: str, *, old: Memory | None = None) -> bool:
        """Delete the memory; False when there is none. With `old`: only while the stored memory equals it."""
        ...

    async def list(
        self, org: str, skill_id: int, *, limit: int, after: str | None = None, user_id: str | None = None
    ) -> Sequence[Memory]:
        """At most `limit` memories created after the one with id `after`; with `user_id` only that end user's."""
        ...

    async def search(
        self, org: str, skill_id: int, query: str, *, limit: int, user_id: str | None = None, shared: bool = False
    ) -> Sequence[Memory]:
        """Memories that share a word with the query, in any form, best first.

        With `user_id` only those of that end user; `shared` adds those without an end user.
        """
        ...


# Events


class Subscription(Protocol):
    """Events of one execution since the subscription began, in order, in batches."""

    async def next(self, timeout: float) -> list[Event] | None:
        """The next batch; None after `timeout` seconds without one, or sooner when another process wrote entries.

        After None the reader must read the journal. `Lagged` when the reader was too slow.
        """
        ...

    def close(self) -> None: ...


class Lagged(Exception):
    """The subscriber was too slow and events were dropped: it must read the journal and subscribe again."""


class EventSink(Protocol):
    """Delivers durable events to the subscribers in this process. A hint: the journal is the source of truth.

    Implementers: publishing never waits for a subscriber; a slow one is dropped with `Lagged`.
    """

    def has_subscribers(self, execution: ExecutionRef) -> bool:
        """Whether the execution has subscribers; if not, no events need to be made."""
        ...

    def publish(self, execution: ExecutionRef, events: Sequence[Event]) -> None:
        """Deliver these events, in order. Called after they are durable."""
        ...

    def subscribe(self, execution: ExecutionRef, pace: float = 0.0) -> Subscription:
        """A subscription whose `next` returns batches `pace` seconds apart at least: a fast run costs its reader
        fewer of them. A batch that ends with the last event of a turn is returned at once.
        """
        ...

    def watch(self, execution: ExecutionRef) -> Subscription:
        """A subscription without events, so that none need to be made for it.

        `next` returns None when `settle` is called for the execution, or when another process reports news of it.
        """
        ...

    def settle(self, execution: ExecutionRef) -> None:
        """Wake those who `watch` the execution: one of its turns has ended."""
        ...
