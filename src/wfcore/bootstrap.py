"""Where ports meet adapters; the only such place. Every port can be replaced by giving another one to `open`."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal

from wfcore.adapters.events import EventHub
from wfcore.adapters.memory.memories import InMemoryMemories
from wfcore.adapters.outbound.guard import Guard
from wfcore.adapters.outbound.tool import http_tool
from wfcore.adapters.sealing import KEY_BYTES, Sealing, file_of, key_beside
from wfcore.adapters.system import RandomIds, SystemClock
from wfcore.adapters.tools import Catalog
from wfcore.domain.access import TOKEN_SCOPES, Principal, Role
from wfcore.domain.errors import Unavailable
from wfcore.domain.ids import normalize_email
from wfcore.ports.dispatcher import Dispatcher
from wfcore.ports.journal import Journal
from wfcore.ports.providers import EventSink, MemoryBackend, ModelProvider, Tool
from wfcore.ports.storage import Storage
from wfcore.ports.system import Clock, Ids
from wfcore.runtime.audit import AuditTrail
from wfcore.runtime.catalog import ToolCatalog
from wfcore.runtime.connections import Connections
from wfcore.runtime.context import Ports, Settings
from wfcore.runtime.context_items import ContextItems
from wfcore.runtime.drive import Driver
from wfcore.runtime.memories import Memories
from wfcore.runtime.organization import Directory
from wfcore.runtime.people import Groups, Members, Tokens
from wfcore.runtime.plans import Plans
from wfcore.runtime.resources import Skills, Workflows
from wfcore.runtime.runs import Runs
from wfcore.runtime.scheduler import Scheduler


class Core:
    """wfcore, open: its use cases as attributes."""

    def __init__(self, ports: Ports) -> None:
        plans = Plans(ports.storage)
        self.ports = ports
        self.driver = Driver(ports, plans)
        self.workflows = Workflows(ports)
        self.skills = Skills(ports)
        self.memories = Memories(ports)
        self.runs = Runs(ports, plans, self.driver)
        self.scheduler = Scheduler(ports, self.runs)
        self.directory = Directory(ports)
        self.members = Members(ports)
        self.groups = Groups(ports)
        self.tokens = Tokens(ports, self.directory)
        self.audit = AuditTrail(ports)
        self.tools = ToolCatalog(ports)
        self.context_items = ContextItems(ports)
        self.connections = Connections(ports)

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
        """A user of the embedding product, whom that product has authenticated. `org` is the organization's UUID.

        An `email` that is no plain ASCII address grants nothing, and is left out.
        """
        address = normalize_email(email) if email else None
        return Principal(org, user, address, frozenset(groups), frozenset(scopes), Role(role))


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
    clock: Clock | None = None,
    ids: Ids | None = None,
) -> AsyncIterator[Core]:
    """Open wfcore on a database: `sqlite:///path`, or `sqlite://` for one that lives in memory.

    `tools` are functions (`wfcore.tool` gives them more than a name) or `Tool`s; `models` are providers by name, of
    which `default` serves agents that name none. With `worker` this process drives runs, from now on and those that
    were left by processes that ended. On leaving, runs get `grace` seconds to come to a rest; what is still under way
    goes on at the next start. `secret`, 32 bytes, seals the secrets of connections, and those that one of
    `previous_secrets` has sealed can be read; without it, there is a key in a file beside an embedded database.
    """
    settings = settings or Settings()
    clock = clock or SystemClock()
    keys = _keys(secret, previous_secrets, database if storage is None else None)
    if storage is None or journal is None:
        storage, journal, kept = await _stores(database, synchronous)
        memories = memories or kept
    ports = Ports(
        storage,
        journal,
        dispatcher or _embedded(journal, clock, settings),
        events or EventHub(),
        Catalog(tools, [http_tool(Guard.allowing(settings.http_allow))]),
        models if models is not None else _scripted(),
        memories or InMemoryMemories(),
        Sealing(keys),
        clock,
        ids or RandomIds(),
        settings,
    )
    try:
        await _ready(storage, migrate=migrate)
        core = Core(ports)
        if worker:
            await ports.dispatcher.start(core.driver)
            core.scheduler.start()
        try:
            yield core
        finally:
            await core.scheduler.stop()
            await ports.dispatcher.stop(grace)
    finally:
        await storage.close()


def _keys(secret: bytes | None, previous: Sequence[bytes], database: str | None) -> Callable[[], Sequence[bytes]]:
    """The secret keys, to be had when first needed: a file beside the database is made no sooner."""

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


async def _ready(storage: Storage, *, migrate: bool) -> None:
    if migrate:
        await storage.upgrade()
    problem = await storage.check()
    if problem is not None:
        raise Unavailable(problem)


async def _stores(database: str, synchronous: Literal["FULL", "NORMAL"]) -> tuple[Storage, Journal, MemoryBackend]:
    """The adapters that a database URL stands for."""
    if database in ("sqlite://", "sqlite:///:memory:"):
        from wfcore.adapters.memory.journal import MemoryJournal
        from wfcore.adapters.memory.storage import MemoryStorage

        storage = MemoryStorage(pinned=lambda variation_id: kept.pinned(variation_id))  # noqa: PLW0108  (made below)
        kept = MemoryJournal(usable=storage.may_use, note=storage.note)
        return storage, kept, InMemoryMemories()
    if not database.startswith("sqlite:///"):
        raise ValueError(f"`{database}` is no database URL of this release: sqlite:///path or sqlite://")
    from wfcore.adapters.sql.database import Database
    from wfcore.adapters.sql.journal import SqlJournal
    from wfcore.adapters.sql.memories import SqlMemories
    from wfcore.adapters.sql.storage import SqlStorage

    opened = Database(database, synchronous=synchronous)
    await opened.open()
    return SqlStorage(opened), SqlJournal(opened), SqlMemories(opened)


def _embedded(journal: Journal, clock: Clock, settings: Settings) -> Dispatcher:
    from wfcore.adapters.embedded import EmbeddedDispatcher

    return EmbeddedDispatcher(journal, clock, concurrency=settings.max_concurrent_runs)


def _scripted() -> dict[str, ModelProvider]:
    """With no model configured, agents are answered by the scripted one."""
    from wfcore.adapters.models.scripted import ScriptedModel

    return {"default": ScriptedModel()}
