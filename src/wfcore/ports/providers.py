"""What runs reach out to: tools, models, memories, and whoever listens to their events."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol

import attrs
from msgspec import Struct

from wfcore.domain.json.parsing import parse_json
from wfcore.domain.kernel.errors import Malformed
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.events import Event
from wfcore.ports.journal import ExecutionRef

# Tools


class ToolFailed(Exception):
    """The tool says why it failed. `retryable` False: trying again cannot help."""

    reason = "failed"

    def __init__(self, message: str, *, retryable: bool = True) -> None:
        super().__init__(message)
        self.message = message
        self.retryable = retryable


class ConnectionRequired(ToolFailed):
    """There is no connection that the tool could use, or its service refused the credentials: somebody has to connect.

    The run then asks for it by a `connect` interrupt (interface, Events), and calls the tool again.
    """

    reason = "connection_required"

    def __init__(self, message: str = "the service refused the credentials") -> None:
        super().__init__(message, retryable=False)


@attrs.frozen
class ToolConnection:
    """The connection that a call may use. `config` has the secrets in the clear: no `repr` shows it."""

    id: str
    provider: str
    kind: str
    config: Mapping[str, JSON] = attrs.field(repr=False)


class ToolCall(Struct, frozen=True):
    """What a tool is told beside its arguments. `key` is the same for every attempt of the same call (RFC draft
    "The Idempotency-Key HTTP Header Field"): a tool that changes the world uses it to do so once. `connection` is there
    when the tool names a `provider`; `skill_id` and `message_id` when an agent called it, the latter being the message
    that asked for it."""

    key: str
    attempt: int
    org: str
    run_id: str
    user_id: str
    connection: ToolConnection | None = None
    skill_id: int | None = None
    message_id: str = ""


@attrs.frozen
class Tool:
    """A tool of the catalog. `parameters` is the JSON Schema of the arguments.

    `run` takes the arguments and the call; a plain function runs in a worker thread unless `blocking` is False. A tool
    that is not `idempotent` is called once for each attempt: when the worker ends while it runs, its outcome is
    unknown, and the attempt has failed. An idempotent one is called again, under the same key.
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
    """Whose connection the tool needs: that of the organization which has this `provider`."""


class Tools(Protocol):
    """The catalog of one installation. Implementers: the same id always means the same tool."""

    def get(self, tool_id: str) -> Tool | None: ...

    def all(self) -> Sequence[Tool]:
        """By id."""
        ...


# Models


MOST_CALLS: Final = 64
"""Tool calls of one answer."""
LONGEST_NAME: Final = 200
"""Characters of a tool call's id, and of its name."""
LONGEST_ARGUMENTS: Final = 1_000_000
"""Characters of the arguments of one answer's tool calls together."""


class ModelError(Exception):
    """The provider refused, failed, or broke off. A half answer is never taken for a whole one."""

    def __init__(self, message: str, *, retryable: bool = True, reason: str = "model_failed") -> None:
        super().__init__(message)
        self.message = message
        self.retryable = retryable
        self.reason = reason


@attrs.frozen
class ToolDefinition:
    """A tool as the model is told of it. `name` matches `^[A-Za-z0-9_-]{1,64}$`, `parameters` is a JSON Schema."""

    name: str
    description: str = ""
    parameters: Mapping[str, JSON] = attrs.field(factory=lambda: {"type": "object"})


@attrs.frozen
class ModelRequest:
    """One call. `messages` are in the interface's Message shape, `settings` in its modelSettings shape.

    A human message may carry `images: [{"mimeType", "data"}]`, the data in base64. Of an ai message's `toolCalls`,
    each has been answered by a tool message with its `toolCallId`.
    """

    messages: Sequence[Mapping[str, JSON]]
    model: str | None = None
    settings: Mapping[str, JSON] = attrs.field(factory=dict)
    output_schema: Mapping[str, JSON] | None = None
    key: str = ""
    tools: Sequence[ToolDefinition] = ()


@attrs.frozen
class TextDelta:
    """Some more text of the answer."""

    text: str


@attrs.frozen
class ToolCallDelta:
    """Some more of a tool call. Calls are counted from 0; the first fragment of each has its whole id and name."""

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""


@attrs.frozen
class TokenUsage:
    """What the call consumed, in tokens."""

    input_tokens: int = 0
    output_tokens: int = 0


@attrs.frozen
class Finished:
    """The answer is whole. `reason`: `stop`, `tool_calls` (exactly when there are some), `length` or `refusal`."""

    reason: str = "stop"


Delta = TextDelta | ToolCallDelta | TokenUsage | Finished


class ModelProvider(Protocol):
    """Implementers: the stream ends with exactly one `Finished`, or raises `ModelError`; closing it ends the call.

    `TokenUsage` comes at most once, after everything but `Finished`; before an error, too, where it is known. What the
    provider cannot be told is refused. Whether a call is of a tool that was offered is for the caller to see.
    """

    def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]: ...


def collect_calls(deltas: Iterable[Delta]) -> list[dict[str, JSON]]:
    """The tool calls of a whole answer, in the interface's shape `{"id", "name", "args"}`.

    `args` is an object. Arguments that are none stay the text they came as, for the model to be told of its mistake;
    no arguments at all are `{}`. Raises ModelError as `CallCollector` does.
    """
    collector = CallCollector()
    for delta in deltas:
        if isinstance(delta, ToolCallDelta):
            collector.add(delta)
    return collector.calls()


class CallCollector:
    """Puts the fragments of one answer's tool calls together, as they come.

    ModelError for fragments that are no calls: an index out of order, an id or name that is missing, not printable or
    over LONGEST_NAME, an id for the second time, more than MOST_CALLS calls or LONGEST_ARGUMENTS characters.
    """

    def __init__(self) -> None:
        self._begun: dict[str, str] = {}
        self._arguments: list[list[str]] = []
        self._length = 0

    def __len__(self) -> int:
        return len(self._begun)

    def add(self, delta: ToolCallDelta) -> None:
        if delta.index == len(self._begun):
            self._begin(delta)
        elif not 0 <= delta.index < len(self._begun):
            raise ModelError(f"a fragment of tool call {delta.index} came after {len(self._begun)} calls")
        self._length += len(delta.arguments)
        if self._length > LONGEST_ARGUMENTS:
            raise ModelError(f"the arguments of the tool calls have more than {LONGEST_ARGUMENTS} characters")
        self._arguments[delta.index].append(delta.arguments)

    def calls(self) -> list[dict[str, JSON]]:
        """As `collect_calls` gives them, in the order they began in."""
        told = zip(self._begun.items(), self._arguments, strict=True)
        return [{"id": call, "name": name, "args": _arguments("".join(parts))} for (call, name), parts in told]

    def _begin(self, call: ToolCallDelta) -> None:
        for text in (call.id, call.name):
            if not (0 < len(text) <= LONGEST_NAME and text.isprintable()):
                raise ModelError("a tool call has no id or no name")
        if call.id in self._begun:
            raise ModelError(f"two tool calls have the id `{call.id[:40]}`")
        if len(self._begun) == MOST_CALLS:
            raise ModelError(f"the model asked for more than {MOST_CALLS} tool calls at once")
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
    """Memories of scopes. Every call names organization and scope; a memory of another scope is None or absent.

    Implementers: metadata is kept verbatim; `hash` follows the text; lists are in order of creation.
    """

    async def add(self, org: str, skill_id: int, memory: Memory) -> None:
        """Keep it. One of the same id that is there already stays as it is, one that was deleted stays deleted."""
        ...

    async def get(self, org: str, skill_id: int, memory_id: str) -> Memory | None: ...

    async def replace(self, org: str, skill_id: int, memory: Memory, *, old: Memory | None = None) -> bool:
        """Put the new text and metadata in the place of the memory with the same id; False when there is none.

        With `old` only while that is what is kept: of two that replace the same at once, one gets False.
        """
        ...

    async def delete(self, org: str, skill_id: int, memory_id: str) -> bool: ...

    async def list(
        self, org: str, skill_id: int, *, limit: int, after: str | None = None, user_id: str | None = None
    ) -> Sequence[Memory]:
        """At most `limit`, those created after the memory with id `after`; `user_id` narrows to that end user's."""
        ...

    async def search(
        self, org: str, skill_id: int, query: str, *, limit: int, user_id: str | None = None, shared: bool = False
    ) -> Sequence[Memory]:
        """Those that share a word with the query, best first; `user_id` narrows to that end user's, `shared` adds to
        them those of no end user."""
        ...


# Events


class Subscription(Protocol):
    """Events of one execution from the moment of subscribing on, in order, in batches."""

    async def next(self, timeout: float) -> list[Event] | None:
        """The next batch; None after `timeout` seconds without one, or sooner when another process wrote something.

        None is the reader's sign to look at the journal. `Lagged` when the reader was too slow.
        """
        ...

    def close(self) -> None: ...


class Lagged(Exception):
    """The reader fell behind and events were dropped for it: read the journal and subscribe again."""


class EventSink(Protocol):
    """Tells listeners in this process what has become durable. A hint: the journal is what counts.

    Implementers: publishing never waits for a listener; a slow one is dropped with `Lagged`.
    """

    def wanted(self, execution: ExecutionRef) -> bool:
        """Whether somebody listens; if not, events need not even be made."""
        ...

    def publish(self, execution: ExecutionRef, events: Sequence[Event]) -> None: ...

    def subscribe(self, execution: ExecutionRef) -> Subscription: ...
