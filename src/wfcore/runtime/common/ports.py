"""The ports of one installation, which every use case receives, and the adapters that replace the default ones."""

from asyncio import AbstractEventLoop
from collections.abc import Mapping
from datetime import datetime

import attrs

from wfcore.domain.json.codec import from_ms
from wfcore.ports.blobs import Blobs
from wfcore.ports.changes import ChangeFeed
from wfcore.ports.dispatcher import Dispatcher
from wfcore.ports.faults import Outage
from wfcore.ports.guardrails import Guardrails
from wfcore.ports.hints import Hints
from wfcore.ports.journal import Journal
from wfcore.ports.outbound import Outbound
from wfcore.ports.providers import EventSink, MemoryBackend, ModelProvider, Tools
from wfcore.ports.sealing import Sealer
from wfcore.ports.storage import Storage
from wfcore.ports.system import Clock, Ids, RateLimiter
from wfcore.ports.telemetry import Telemetry
from wfcore.ports.tool_servers import ToolServers
from wfcore.runtime.common.handlers import Handlers
from wfcore.runtime.common.installation import Settings


@attrs.frozen
class Ports:
    """All ports. Built only by `wfcore.bootstrap`; each of them can be replaced."""

    storage: Storage
    journal: Journal
    dispatcher: Dispatcher
    events: EventSink
    tools: Tools
    models: Mapping[str, ModelProvider]
    memories: MemoryBackend
    blobs: Blobs
    sealer: Sealer
    clock: Clock
    ids: Ids
    settings: Settings = attrs.field(factory=Settings)
    telemetry: Telemetry | None = None
    """Receives measurements and traces; None disables them, at no cost."""
    tool_servers: ToolServers = attrs.field(kw_only=True)
    guardrails: Guardrails = attrs.field(kw_only=True)
    outbound: Outbound = attrs.field(kw_only=True)
    rate_limiter: RateLimiter = attrs.field(kw_only=True)
    handlers: Handlers = attrs.field(kw_only=True, factory=Handlers)
    """The functions of the embedding program that receive events."""
    changes: ChangeFeed = attrs.field(kw_only=True)

    outage: Outage = attrs.field(kw_only=True, default=attrs.Factory(lambda self: Outage(self.clock), takes_self=True))
    """What is logged of an outage of the store."""

    loop: AbstractEventLoop | None = attrs.field(kw_only=True, default=None)
    """The event loop of the core: use cases are refused on others. None where the caller takes care of that."""

    def now(self) -> datetime:
        """The time in UTC, to the millisecond."""
        return from_ms(self.clock.now())


@attrs.frozen(kw_only=True)
class Overrides:
    """Adapters of your own for `wfcore.open`; None keeps the default one. `wfcore.testing` has a contract for each.

    Raises ValueError when only one of `storage` and `journal` is given: they share their transactions.
    """

    storage: Storage | None = None
    journal: Journal | None = None
    dispatcher: Dispatcher | None = None
    events: EventSink | None = None
    memories: MemoryBackend | None = None
    blobs: Blobs | None = None
    clock: Clock | None = None
    ids: Ids | None = None
    tool_servers: ToolServers | None = None
    outbound: Outbound | None = None
    changes: ChangeFeed | None = None
    rate_limiter: RateLimiter | None = None
    hints: Hints | None = None
    """Notifications between processes, for the default dispatcher, events and changes."""

    def __attrs_post_init__(self) -> None:
        if (self.storage is None) != (self.journal is None):
            raise ValueError("`storage` and `journal` must be given together")
