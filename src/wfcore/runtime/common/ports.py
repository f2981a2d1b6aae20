"""The ports of one installation, which every use case receives."""

from collections.abc import Mapping
from datetime import datetime

import attrs

from wfcore.domain.json.codec import from_ms
from wfcore.ports.blobs import Blobs
from wfcore.ports.dispatcher import Dispatcher
from wfcore.ports.guardrails import Guardrails
from wfcore.ports.journal import Journal
from wfcore.ports.outbound import Outbound
from wfcore.ports.providers import EventSink, MemoryBackend, ModelProvider, Tools
from wfcore.ports.sealing import Sealer
from wfcore.ports.storage import Storage
from wfcore.ports.system import Clock, Ids
from wfcore.ports.telemetry import Telemetry
from wfcore.ports.tool_servers import ToolServers
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

    def now(self) -> datetime:
        """The time in UTC, to the millisecond."""
        return from_ms(self.clock.now())
