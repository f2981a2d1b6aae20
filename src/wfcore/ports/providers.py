"""What runs reach out to: tools, models, memories, and whoever listens to their events."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import Protocol

import attrs

from wfcore.domain.errors import JSON
from wfcore.domain.run.events import Event
from wfcore.ports.journal import ExecutionRef

# Tools


class ToolFailed(Exception):
    """The tool says why it failed. `retryable` False: trying again cannot help."""

    def __init__(self, message: str, *, retryable: bool = True) -> None:
        super().__init__(message)
        self.message = message
        self.retryable = retryable


@attrs.frozen
class ToolCall:
    """What a tool is told beside its arguments. `key` is the same for every attempt of the same call (RFC draft
    "The Idempotency-Key HTTP Header Field"): a tool that changes the world uses it to do so once."""

    key: str
    attempt: int
    org: str
    run_id: str
    user_id: str


@attrs.frozen
class Tool:
    """A tool of the catalog. `parameters` is the JSON Schema of the arguments.

    `run` takes the arguments and the call; a plain function runs in a worker thread unless `blocking` is False.
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


class Tools(Protocol):
    """The catalog of one installation. Implementers: the same id always means the same tool."""

    def get(self, tool_id: str) -> Tool | None: ...

    def all(self) -> Sequence[Tool]:
        """By id."""
        ...


# Models


class ModelError(Exception):
    """The provider refused, failed, or broke off. A half answer is never taken for a whole one."""

    def __init__(self, message: str, *, retryable: bool = True, reason: str = "model_failed") -> None:
        super().__init__(message)
        self.message = message
        self.retryable = retryable
        self.reason = reason


@attrs.frozen
class ModelRequest:
    """One call. `messages` are in the interface's Message shape, `settings` in its modelSettings shape."""

    messages: Sequence[Mapping[str, JSON]]
    model: str | None = None
    settings: Mapping[str, JSON] = attrs.field(factory=dict)
    output_schema: Mapping[str, JSON] | None = None
    key: str = ""


@attrs.frozen
class TextDelta:
    """Some more text of the answer."""

    text: str


@attrs.frozen
class Usage:
    """What the call consumed, in tokens."""

    input_tokens: int = 0
    output_tokens: int = 0


@attrs.frozen
class Finished:
    """The answer is whole. `reason`: `stop`, `length` or `refusal`."""

    reason: str = "stop"


Delta = TextDelta | Usage | Finished


class ModelProvider(Protocol):
    """Implementers: the stream ends with exactly one `Finished`, or raises `ModelError`; closing it ends the call."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]: ...


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

    async def add(self, org: str, skill_id: int, memory: Memory) -> None: ...

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
        self, org: str, skill_id: int, query: str, *, limit: int, user_id: str | None = None
    ) -> Sequence[Memory]:
        """Those that share a word with the query, best first."""
        ...


# Events


class Subscription(Protocol):
    """Events of one execution from the moment of subscribing on, in order, in batches."""

    async def next(self, timeout: float) -> list[Event] | None:
        """The next batch; None after `timeout` seconds without one. `Lagged` when the reader was too slow."""
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
