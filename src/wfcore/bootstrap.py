"""The composition root: only this module connects ports to adapters. `open` takes a replacement for every port."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from wfcore.adapters.blobs import LocalBlobs
from wfcore.adapters.dispatch.embedded import EmbeddedDispatcher
from wfcore.adapters.dispatch.event_hub import EventHub
from wfcore.adapters.guardrails import GuardrailCatalog
from wfcore.adapters.inmemory.blobs import InMemoryBlobs
from wfcore.adapters.inmemory.memories import InMemoryMemories
from wfcore.adapters.outbound.guard import AddressGuard
from wfcore.adapters.outbound.mcp_servers import McpServers
from wfcore.adapters.outbound.post import GuardedOutbound
from wfcore.adapters.outbound.tool import http_tool
from wfcore.adapters.sealing import KEY_BYTES, Sealing, file_of, key_beside
from wfcore.adapters.system import RandomIds, SystemClock
from wfcore.adapters.tools.catalog import ToolRegistry
from wfcore.adapters.tools.memory_tools import memory_tools
from wfcore.domain.agents.prices import Price
from wfcore.domain.kernel.errors import Unavailable
from wfcore.domain.kernel.ids import normalize_email
from wfcore.domain.resources.access import TOKEN_SCOPES, Principal, Role
from wfcore.extras import needs_extra
from wfcore.ports.blobs import Blobs
from wfcore.ports.dispatcher import Dispatcher
from wfcore.ports.guardrails import Guardrail
from wfcore.ports.journal import Journal
from wfcore.ports.outbound import Outbound
from wfcore.ports.providers import EventSink, MemoryBackend, ModelProvider, Tool
from wfcore.ports.storage import Storage
from wfcore.ports.system import Clock, Ids
from wfcore.ports.telemetry import Telemetry, Timed
from wfcore.ports.tool_servers import ToolServers
from wfcore.runtime.agents.attachments import Attachments
from wfcore.runtime.agents.context_items import ContextItems
from wfcore.runtime.agents.contexts import Contexts
from wfcore.runtime.agents.conversations import Conversations
from wfcore.runtime.agents.memories import Memories
from wfcore.runtime.channels.chat_pages import ChatApps
from wfcore.runtime.channels.postings import Poster
from wfcore.runtime.channels.team_chats import TeamChats
from wfcore.runtime.channels.workflow_tools import WorkflowTools
from wfcore.runtime.common.audit import AuditTrail
from wfcore.runtime.common.installation import Settings
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.execution.driver import Driver
from wfcore.runtime.execution.plans import Plans
from wfcore.runtime.execution.telemetry import observed_journal
from wfcore.runtime.organization.directory import Directory
from wfcore.runtime.organization.members import Groups, Members, Tokens
from wfcore.runtime.organization.usage import Usage
from wfcore.runtime.resources.resources import Skills, Workflows
from wfcore.runtime.runs.runs import Runs
from wfcore.runtime.runs.suggestions import Suggestions
from wfcore.runtime.tools.catalog import ToolCatalog
from wfcore.runtime.tools.connections import Connections
from wfcore.runtime.triggers.scheduler import Scheduler
from wfcore.runtime.triggers.webhook_deliveries import Deliveries

IN_MEMORY = ("sqlite://", "sqlite:///:memory:")

if TYPE_CHECKING:
    from wfcore.adapters.dispatch.postgres_notifications import PostgresHints
    from wfcore.adapters.sql.store import Store


class Core:
    """An open wfcore: its use cases as attributes."""

    def __init__(self, ports: Ports) -> None:
        plans = Plans(ports.storage, ports.journal)
        self.ports = ports
        self.driver = Driver(ports, plans)
        self.workflows = Workflows(ports)
        self.skills = Skills(ports)
        self.memories = Memories(ports)
        self.attachments = Attachments(ports)
        self.runs = Runs(ports, plans, self.driver)
        self.scheduler = Scheduler(ports, self.runs)
        self.webhooks = Deliveries(ports, self.runs)
        self.workflow_tools = WorkflowTools(ports, self.runs)
        self.directory = Directory(ports)
        self.members = Members(ports)
        self.groups = Groups(ports)
        self.tokens = Tokens(ports, self.directory)
        self.audit = AuditTrail(ports)
        self.tools = ToolCatalog(ports)
        self.context_items = ContextItems(ports)
        self.contexts = Contexts(ports)
        self.connections = Connections(ports)
        self.conversations = Conversations(ports)
        self.usage = Usage(ports)
        self.suggestions = Suggestions(ports, self.runs)
        self.chat_apps = ChatApps(ports)
        self.team_chats = TeamChats(ports, self.runs)
        self.poster = Poster(ports)

    def principal(
        self,
        org: str,
        user: str,
        *,
        email: str | None = None,
        groups: Iterable[str] = (),
        role: str = Role.MEMBER,
        scopes: Iterable[str] = TOKEN_SCOPES,
    ) -> Principal:
        """The principal of a user that the embedding product has authenticated. `org` is the organization's UUID.

        An `email` that is not a plain ASCII address is ignored. Raises TypeError when an organization, user or group
        is not given by its id.
        """
        ids = {"org": [org], "user": [user], "groups": list(groups)}
        for name, given in ids.items():
            if not all(isinstance(each, str) for each in given):
                raise TypeError(f"`{name}` must be given by id, as a string")
        address = normalize_email(email) if email else None
        return Principal(org, user, address, frozenset(ids["groups"]), frozenset(scopes), Role(role))


@asynccontextmanager
async def open(  # noqa: A001  (the name of the public function)
    database: str = "sqlite:///wfcore.db",
    *,
    tools: Iterable[Callable[..., Any] | Tool] = (),
    models: Mapping[str, ModelProvider] | None = None,
    settings: Settings | None = None,
    worker: bool = True,
    migrate: bool = True,
    synchronous: Literal["FULL", "NORMAL"] = "FULL",
    grace: float = 5.0,
    secret: bytes | None = None,
    previous_secrets: Sequence[bytes] = (),
    storage: Storage | None = None,
    journal: Journal | None = None,
    dispatcher: Dispatcher | None = None,
    events: EventSink | None = None,
    memories: MemoryBackend | None = None,
    blobs: Blobs | None = None,
    clock: Clock | None = None,
    ids: Ids | None = None,
    telemetry: Sequence[Telemetry] = (),
    tool_servers: ToolServers | None = None,
    outbound: Outbound | None = None,
    guardrails: Iterable[Guardrail] = (),
) -> AsyncIterator[Core]:
    """Open wfcore on a database: `sqlite:///path`, `postgresql://user@host/name`, or `sqlite://` for one in memory.

    `tools` are functions (`wfcore.tool` describes them further) or `Tool`s. `models` are providers by name; `default`
    serves agents that name no model. With `worker`, this process drives runs, also those that an ended process left.
    On exit, active runs get `grace` seconds to reach a durable point; the rest continue at the next start. `secret`, 32
    bytes, seals the secrets of connections; `previous_secrets` only unseal. Without it, an embedded database has a key
    file beside it. Attachments are stored in `blobs`; without it, in a directory beside an embedded database.
    `telemetry` observes all work (`wfcore.adapters.telemetry`). `guardrails` check the output of every agent.

    Raises Unavailable when the database cannot be used, ValueError for an invalid URL or key.
    """
    settings = settings or Settings()
    clock, guard = clock or SystemClock(), AddressGuard.allowing(settings.http_allow)
    keys = _keys(secret, previous_secrets, database if storage is None and not is_server(database) else None)
    blobs = blobs or _blobs(database if storage is None else None)
    listener = _listener(telemetry)
    hints = _hints(database) if storage is None and journal is None else None
    if storage is None or journal is None:
        storage, journal, stored_memories = await _stores(database, synchronous, listener, settings.prices)
        memories = memories or stored_memories
    memories = memories or InMemoryMemories()
    if listener is not None:
        journal = observed_journal(journal, listener)
    embedded = EmbeddedDispatcher(
        journal, clock, concurrency=settings.max_concurrent_runs, notify=hints.notify_workers if hints else None
    )
    hub = EventHub(hints.notify_followers, hints.has_peers) if hints else EventHub()
    ports = Ports(
        storage,
        journal,
        dispatcher or embedded,
        events or hub,
        ToolRegistry(tools, [http_tool(guard), *memory_tools(memories, clock)]),
        models if models is not None else _scripted(),
        memories,
        blobs,
        Sealing(keys),
        clock,
        ids or RandomIds(),
        settings,
        listener,
        tool_servers=tool_servers or McpServers(guard, clock),
        guardrails=GuardrailCatalog(guardrails),
        outbound=outbound or GuardedOutbound(guard),
    )
    try:
        await _check_schema(storage, migrate=migrate)
        core = Core(ports)
        if hints:
            await hints.open(embedded.receive, hub.receive)
        if worker:
            await ports.dispatcher.start(core.driver)
            core.scheduler.start()
            core.poster.start()
        try:
            yield core
        finally:
            await core.poster.stop()
            await core.scheduler.stop()
            await ports.dispatcher.stop(grace)
            await ports.tool_servers.close()
    finally:
        if hints:
            await hints.close()
        await storage.close()


def _keys(secret: bytes | None, previous: Sequence[bytes], database: str | None) -> Callable[[], Sequence[bytes]]:
    """A function that loads the secret keys, so that a key file is created only when it is needed."""

    def load() -> Sequence[bytes]:
        if secret is not None or database is None:
            return [] if secret is None else [secret, *previous]
        try:
            return [key_beside(file_of(database)), *previous]
        except (OSError, ValueError) as error:
            raise Unavailable("the secret key cannot be read") from error

    if any(len(key) != KEY_BYTES for key in (secret, *previous) if key is not None):
        raise ValueError(f"`secret` must be {KEY_BYTES} bytes")
    return load


def _blobs(database: str | None) -> Blobs:
    """A directory beside an embedded database, created when needed; in memory for a database in memory."""
    if database in IN_MEMORY:
        return InMemoryBlobs()
    file = file_of(database or "")
    return LocalBlobs(file and file.with_name(f"{file.name}.blobs"))


async def _check_schema(storage: Storage, *, migrate: bool) -> None:
    if migrate:
        await storage.upgrade()
    problem = await storage.check()
    if problem is not None:
        raise Unavailable(problem)


def _listener(telemetry: Sequence[Telemetry]) -> Telemetry | None:
    """All telemetry adapters as one; None without any."""
    if len(telemetry) < 2:
        return telemetry[0] if telemetry else None
    from wfcore.adapters.telemetry.fan_out import FanOut

    return FanOut(telemetry)


async def _stores(
    database: str, synchronous: Literal["FULL", "NORMAL"], listener: Telemetry | None, prices: Mapping[str, Price]
) -> tuple[Storage, Journal, MemoryBackend]:
    """The storage, journal and memories of a database URL."""
    if database in IN_MEMORY:
        from wfcore.adapters.inmemory.journal import MemoryJournal
        from wfcore.adapters.inmemory.storage import MemoryStorage

        storage = MemoryStorage(
            pinned=lambda variation_id: journal.pinned(variation_id),  # noqa: PLW0108  (assigned below)
            find_run=lambda org, run_id: journal.find_run(org, run_id),  # noqa: PLW0108
        )
        journal = MemoryJournal(usable=storage.may_use, add_audit_rows=storage.add_audit_rows, prices=prices)
        return storage, journal, InMemoryMemories()
    from wfcore.adapters.sql.journal import SqlJournal
    from wfcore.adapters.sql.repositories.memories import SqlMemories
    from wfcore.adapters.sql.storage import SqlStorage

    opened = await _database(database, synchronous)
    on_commit = None if listener is None else partial(listener.record_duration, Timed.commit, outcome="written")
    return SqlStorage(opened), SqlJournal(opened, on_commit, prices), SqlMemories(opened)


async def _database(url: str, synchronous: Literal["FULL", "NORMAL"]) -> "Store":
    if is_server(url):
        with needs_extra("postgres", "a PostgreSQL database"):
            from wfcore.adapters.sql.postgres.database import PostgresDatabase

        server = PostgresDatabase(url, synchronous=synchronous)
        await server.open()
        return server
    if not url.startswith("sqlite:///"):
        schemes = "sqlite:///path, postgresql://user@host/name or sqlite://"
        raise ValueError(f"unknown database URL `{url.partition('://')[0]}`: use {schemes}")
    from wfcore.adapters.sql.sqlite.database import Database

    file = Database(url, synchronous=synchronous)
    await file.open()
    return file


def is_server(database: str) -> bool:
    """Whether a URL names a database server, which several machines can share."""
    return database.startswith("postgresql:")


def _hints(database: str) -> "PostgresHints | None":
    """Notifications between processes; None on an embedded database, where processes poll."""
    if not is_server(database):
        return None
    from wfcore.adapters.dispatch.postgres_notifications import PostgresHints

    return PostgresHints(database)


def _scripted() -> dict[str, ModelProvider]:
    """The models of an installation that configures none: a scripted one."""
    from wfcore.adapters.models.scripted import ScriptedModel

    return {"default": ScriptedModel()}
