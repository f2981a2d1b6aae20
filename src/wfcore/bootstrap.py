"""Where ports meet adapters; the only such place. Every port can be replaced by giving another one to `open`."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Literal

from wfcore.adapters.events import EventHub
from wfcore.adapters.memory.memories import InMemoryMemories
from wfcore.adapters.outbound.guard import Guard
from wfcore.adapters.outbound.tool import http_tool
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
from wfcore.runtime.context import Ports, Settings
from wfcore.runtime.drive import Driver
from wfcore.runtime.memories import Memories
from wfcore.runtime.organization import Directory
from wfcore.runtime.people import Groups, Members, Tokens
from wfcore.runtime.plans import Plans
from wfcore.runtime.resources import Skills, Workflows
from wfcore.runtime.runs import Runs


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
        self.directory = Directory(ports)
        self.members = Members(ports)
        self.groups = Groups(ports)
        self.tokens = Tokens(ports, self.directory)
        self.audit = AuditTrail(ports)
        self.tools = ToolCatalog(ports)

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
    goes on at the next start.
    """
    settings = settings or Settings()
    clock = clock or SystemClock()
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
        clock,
        ids or RandomIds(),
        settings,
    )
    try:
        await _ready(storage, migrate=migrate)
        core = Core(ports)
        if worker:
            await ports.dispatcher.start(core.driver)
        try:
            yield core
        finally:
            await ports.dispatcher.stop(grace)
    finally:
        await storage.close()


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
