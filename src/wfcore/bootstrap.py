"""The composition root: only this module connects ports to adapters. `open` takes an adapter of your own for each."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

import attrs

from wfcore.adapters.blobs import LocalBlobs
from wfcore.adapters.dispatch.change_file import ChangeFile
from wfcore.adapters.dispatch.change_hub import ChangeHub
from wfcore.adapters.dispatch.embedded import EmbeddedDispatcher
from wfcore.adapters.dispatch.event_hub import EventHub
from wfcore.adapters.guardrails import GuardrailCatalog
from wfcore.adapters.inmemory.blobs import InMemoryBlobs
from wfcore.adapters.inmemory.memories import InMemoryMemories
from wfcore.adapters.outbound.guard import AddressGuard
from wfcore.adapters.outbound.mcp_servers import McpServers
from wfcore.adapters.outbound.post import GuardedOutbound
from wfcore.adapters.outbound.tool import http_tool
from wfcore.adapters.rate_limits.counts import MemoryRateLimiter, SharedRateLimiter
from wfcore.adapters.sealing import KEY_BYTES, Sealing, file_of, key_file, keys_beside
from wfcore.adapters.system import RandomIds, ReadClock, ServerClock, SystemClock
from wfcore.adapters.tools.catalog import ToolRegistry
from wfcore.adapters.tools.memory_tools import memory_tools
from wfcore.addresses import IN_MEMORY, address_of, is_off_loop, is_server
from wfcore.arguments import check_adapters, check_models, check_types, listed
from wfcore.core import Core
from wfcore.domain.kernel.errors import Unavailable
from wfcore.extras import needs_extra
from wfcore.imports import without_collections
from wfcore.opening import AsyncOpening, to_its_end
from wfcore.ports.blobs import Blobs
from wfcore.ports.changes import ChangeFeed
from wfcore.ports.faults import Outage
from wfcore.ports.guardrails import Guardrail
from wfcore.ports.hints import Hints
from wfcore.ports.journal import Journal
from wfcore.ports.providers import MemoryBackend, ModelProvider, Tool
from wfcore.ports.shards import MAIN
from wfcore.ports.storage import Storage
from wfcore.ports.system import Clock, RateLimiter
from wfcore.ports.telemetry import Telemetry, Timed
from wfcore.runtime.common.deprecated import FormerKeywords, moved
from wfcore.runtime.common.installation import Dispatch, Secrets, Settings
from wfcore.runtime.common.ports import Overrides, Ports
from wfcore.runtime.execution.changes import publishing_journal, publishing_storage
from wfcore.working import working

if TYPE_CHECKING:
    from sqlalchemy import Engine
    from sqlalchemy.ext.asyncio import AsyncEngine

    from wfcore.adapters.dispatch.nats.connection import NatsConnection
    from wfcore.adapters.dispatch.nats.dispatcher import NatsDispatcher
    from wfcore.adapters.dispatch.temporal.connection import TemporalConnection
    from wfcore.adapters.dispatch.temporal.dispatcher import TemporalDispatcher
    from wfcore.adapters.sql.store import Store


def open(  # noqa: A001  (the name of the public function)
    database: "str | Engine | AsyncEngine" = "sqlite:///wfcore.db",
    *,
    schema: str | None = None,
    tools: Iterable[Callable[..., Any] | Tool] = (),
    deps: object = None,
    models: Mapping[str, ModelProvider] | None = None,
    settings: Settings | None = None,
    guardrails: Iterable[Guardrail] = (),
    telemetry: Iterable[Telemetry] = (),
    worker: bool = True,
    migrate: bool = True,
    secrets: Secrets | bytes | None = None,
    ports: Overrides | None = None,
    **former: Unpack[FormerKeywords],
) -> AbstractAsyncContextManager[Core]:
    """Open wfcore on a database: `sqlite:///path`, `postgresql://user@host/name`, or `sqlite://` for one in memory.

    The URL can name a driver, and an SQLAlchemy engine stands for its URL: wfcore connects by itself. With
    `sqlite+aiosqlite:///path` no call of SQLite runs on the event loop. On PostgreSQL the tables are in `schema`
    (default `wfcore`, created if missing); on SQLite their names begin with `wfcore_`.
    `tools` are functions (`wfcore.tool` describes them further) or `Tool`s; `deps` is what their `RunContext` has.
    `models` are providers by name; `default` serves agents that name no model. With `worker`, this process drives runs,
    also those that an ended process left.
    On exit, active runs get `settings.grace` seconds to reach a durable point; the rest continue at the next start.
    `secrets` seals the secrets of connections: a key of 32 bytes, or `Secrets` with previous keys. Without it, an
    embedded database has a key file beside it. Attachments are stored in `ports.blobs`; without it, in a directory
    beside an embedded database. `telemetry` observes all work (`wfcore.adapters.telemetry`). `guardrails` check the
    output of every agent. `ports` replaces adapters by your own. `former` keywords are deprecated.

    Raises Unavailable when the database cannot be used, ValueError for an invalid URL or key, TypeError for an argument
    of another type.
    """
    check_types(
        schema=schema, models=models, settings=settings, worker=worker, migrate=migrate, secrets=secrets, ports=ports
    )
    check_models(models or {})
    lists = listed("tools", tools), listed("guardrails", guardrails), listed("telemetry", telemetry)
    settings, ports = settings or Settings(), ports or Overrides()
    secrets = secrets if isinstance(secrets, Secrets) else Secrets(secrets)
    if former:
        settings, secrets, ports = moved(former, settings, secrets, ports)
    check_adapters(ports)
    address = address_of(database), is_off_loop(database)
    given = _Given(*address, schema, deps, models, settings, *lists, secrets, ports)
    return AsyncOpening(_open(given, worker=worker, migrate=migrate))


@attrs.frozen
class _Given:
    """What the caller of `open` gave."""

    database: str
    off_loop: bool
    schema: str | None
    deps: object
    models: Mapping[str, ModelProvider] | None
    settings: Settings
    tools: Sequence[Callable[..., Any] | Tool]
    guardrails: Sequence[Guardrail]
    telemetry: Sequence[Telemetry]
    secrets: Secrets
    ports: Overrides

    @property
    def stored(self) -> str | None:
        """The URL of the database; None when the caller's own storage replaces it."""
        return self.database if self.ports.storage is None else None


@attrs.frozen
class _Stores:
    storage: Storage
    journal: Journal
    memories: MemoryBackend
    statements: Sequence[str] = ()
    """The modules that its first statements import."""
    read_clock: ReadClock | None = None
    """Reads the clock of the database server; None for an embedded database."""


@attrs.frozen
class _Delivery:
    """The dispatcher and the event hub of this process, which receive the notifications of other processes.

    `journal` publishes what it writes to `changes`.
    """

    journal: Journal
    dispatcher: "EmbeddedDispatcher | NatsDispatcher | TemporalDispatcher"
    events: EventHub
    changes: ChangeFeed
    outage: Outage


@asynccontextmanager
async def _open(given: _Given, *, worker: bool, migrate: bool) -> AsyncIterator[Core]:
    sealing, guard = Sealing(_keys(given), lambda: _has_keys(given)), AddressGuard.allowing(given.settings.http_allow)
    listener = _listener(given.telemetry)
    broker, temporal = _broker(given.settings.dispatch), _temporal(given.settings.dispatch)
    hints = _hints(given, broker)
    stores, closing = await _stores(given, listener), AsyncExitStack()
    closing.push_async_callback(stores.storage.close)
    try:
        clock = await closing.enter_async_context(_clock(given, stores))
        delivery = _delivery(given, stores.journal, clock, hints, broker, temporal)
        core = Core(_ports(given, stores, delivery, clock, guard, sealing, listener))
        await _check_schema(stores.storage, migrate=migrate)
        if hints:
            closing.push_async_callback(hints.close)
            await hints.open(delivery.dispatcher.receive, delivery.events.receive)
        if temporal:
            closing.push_async_callback(temporal.close)
            await temporal.open()
        async with working(core, stores.statements, worker=worker):
            yield core
    finally:
        await to_its_end(closing.aclose())


@asynccontextmanager
async def _clock(given: _Given, stores: _Stores) -> AsyncIterator[Clock]:
    """The caller's own clock; else that of the database server, which all processes have; else that of the machine."""
    if given.ports.clock is not None or stores.read_clock is None:
        yield given.ports.clock or SystemClock()
        return
    clock = ServerClock(stores.read_clock)
    async with clock.following():
        yield clock


def _delivery(
    given: _Given,
    journal: Journal,
    clock: Clock,
    hints: Hints | None,
    broker: "NatsConnection | None",
    temporal: "TemporalConnection | None",
) -> _Delivery:
    file = None if hints or given.stored is None else file_of(given.stored)
    changes = given.ports.changes or ChangeHub(hints or (ChangeFile(file) if file else None))
    journal = publishing_journal(journal, changes)
    outage = Outage(clock)
    dispatcher = _dispatcher(given, journal, clock, outage, hints, broker, temporal)
    return _Delivery(journal, dispatcher, EventHub(hints), changes, outage)


def _dispatcher(
    given: _Given,
    journal: Journal,
    clock: Clock,
    outage: Outage,
    hints: Hints | None,
    broker: "NatsConnection | None",
    temporal: "TemporalConnection | None",
) -> "EmbeddedDispatcher | NatsDispatcher | TemporalDispatcher":
    concurrency, notify = given.settings.max_concurrent_runs, hints.notify_workers if hints else None
    if temporal:
        from wfcore.adapters.dispatch.temporal.dispatcher import TemporalDispatcher

        return TemporalDispatcher(journal, clock, temporal, concurrency=concurrency, notify=notify, outage=outage)
    if broker and hints:
        from wfcore.adapters.dispatch.nats.dispatcher import NatsDispatcher

        return NatsDispatcher(journal, clock, broker, hints, concurrency=concurrency, outage=outage)
    return EmbeddedDispatcher(journal, clock, concurrency=concurrency, notify=notify, outage=outage)


def _ports(
    given: _Given,
    stores: _Stores,
    delivery: _Delivery,
    clock: Clock,
    guard: AddressGuard,
    sealing: Sealing,
    listener: Telemetry | None,
) -> Ports:
    """Every port with the caller's own adapter, else with the default one."""
    own = given.ports
    return Ports(
        publishing_storage(stores.storage, delivery.changes),
        delivery.journal,
        own.dispatcher or delivery.dispatcher,
        own.events or delivery.events,
        ToolRegistry(
            _guarded(given.tools, guard),
            [http_tool(guard), *memory_tools(stores.memories, clock)],
            given.deps,
        ),
        _models(given.models),
        stores.memories,
        own.blobs or _blobs(given.stored),
        sealing,
        clock,
        own.ids or RandomIds(),
        given.settings,
        listener,
        tool_servers=own.tool_servers or McpServers(guard, clock),
        guardrails=GuardrailCatalog(given.guardrails),
        outbound=own.outbound or GuardedOutbound(guard),
        rate_limiter=_rate_limiter(given, clock) if own.rate_limiter is None else own.rate_limiter,
        changes=delivery.changes,
        outage=delivery.outage,
        loop=asyncio.get_running_loop(),
    )


def _guarded(tools: Sequence[Callable[..., Any] | Tool], guard: AddressGuard) -> list[Callable[..., Any] | Tool]:
    """The tools, those of OpenAPI documents with this guard."""
    if not tools:
        return []
    from wfcore.adapters.outbound.openapi_tools import guarded

    return [guarded(tool, guard) for tool in tools]


def _keys(given: _Given) -> Callable[[], Sequence[bytes]]:
    """A function that loads the secret keys, so that a key file is created only when it is needed."""
    current, previous = given.secrets.current, given.secrets.previous
    file = None if given.stored is None or is_server(given.stored) else given.stored

    def load() -> Sequence[bytes]:
        if current is not None or file is None:
            return [] if current is None else [current, *previous]
        try:
            return [*keys_beside(file_of(file)), *previous]
        except (OSError, ValueError) as error:
            raise Unavailable(f"the secret key cannot be read: {error}") from error

    if any(not isinstance(key, bytes) or len(key) != KEY_BYTES for key in (current, *previous) if key is not None):
        raise ValueError(f"every key of `secrets` must be {KEY_BYTES} bytes")
    return load


def _has_keys(given: _Given) -> bool:
    """Whether there are keys already, or none can be created."""
    keys, stored = given.secrets, given.stored
    database = None if stored is None or is_server(stored) else file_of(stored)
    return keys.current is not None or bool(keys.previous) or database is None or key_file(database).exists()


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


async def _stores(given: _Given, listener: Telemetry | None) -> _Stores:
    """The stores of the database URL, or the caller's own. With a listener, the journal is observed."""
    own = given.ports
    if own.storage is not None and own.journal is not None:
        stores = _Stores(own.storage, own.journal, own.memories or InMemoryMemories())
    else:
        opened = await (_sharded_stores if given.settings.shards else _database_stores)(given, listener)
        stores = attrs.evolve(opened, memories=own.memories or opened.memories)
    if listener is None:
        return stores
    from wfcore.runtime.execution.telemetry import observed_journal

    return attrs.evolve(stores, journal=observed_journal(stores.journal, listener))


async def _database_stores(given: _Given, listener: Telemetry | None) -> _Stores:
    if given.schema is not None and not is_server(given.database):
        raise ValueError("`schema` is for PostgreSQL: on SQLite the tables begin with `wfcore_`")
    if given.database in IN_MEMORY:
        from wfcore.adapters.inmemory.journal.journal import MemoryJournal
        from wfcore.adapters.inmemory.maintenance import MemoryMaintenance
        from wfcore.adapters.inmemory.storage import MemoryStorage

        storage = MemoryStorage(
            pinned=lambda variation_id: journal.pinned(variation_id),  # noqa: PLW0108  (assigned below)
            find_run=lambda org, run_id: journal.find_run(org, run_id),  # noqa: PLW0108
            close_journal=lambda: journal.close(),  # noqa: PLW0108
        )
        journal = MemoryJournal(
            org_exists=storage.has_organization,
            usable=storage.may_use,
            add_audit_rows=storage.add_audit_rows,
            add_notices=storage.add_notices,
            run_limit=storage.run_limit,
        )
        storage.maintenance = MemoryMaintenance(storage, journal)
        return _Stores(storage, journal, InMemoryMemories())
    with without_collections():
        from wfcore.adapters.sql.journal.journal import SqlJournal
        from wfcore.adapters.sql.repositories.memories import SqlMemories
        from wfcore.adapters.sql.schema.deferred import MODULES
        from wfcore.adapters.sql.storage import SqlStorage

    opened, read_clock = await _database(given.database, given.schema, given.settings, off_loop=given.off_loop)
    on_commit = None if listener is None else partial(listener.record_duration, Timed.commit, outcome="written")
    return _Stores(SqlStorage(opened), SqlJournal(opened, on_commit), SqlMemories(opened), MODULES, read_clock)


async def _sharded_stores(given: _Given, listener: Telemetry | None) -> _Stores:
    """The stores over the database and those of the shards."""
    urls = {MAIN: given.database, **{name: address_of(url) for name, url in given.settings.shards.items()}}
    if len(urls) == len(given.settings.shards) or not all(map(is_server, urls.values())):
        raise ValueError(f"`shards` are further PostgreSQL databases, beside that of `open`, which is shard `{MAIN}`")
    from wfcore.adapters.sharding.journal import ShardedJournal
    from wfcore.adapters.sharding.routing import Shards
    from wfcore.adapters.sharding.storage import ShardedMemories, ShardedStorage

    with needs_extra("postgres", "shards"):
        from wfcore.adapters.sql.shards.moving import ShardDatabases, take_over
        from wfcore.adapters.sql.shards.placements import SqlPlacements
    from wfcore.adapters.sql.schema.names import DEFAULT_SCHEMA

    async with AsyncExitStack() as stack:
        opened: dict[str, _Stores] = {}
        for name, url in urls.items():
            opened[name] = await _database_stores(attrs.evolve(given, database=url), listener)
            stack.push_async_callback(opened[name].storage.close)
        main: Any = opened[MAIN].storage
        databases = ShardDatabases(urls, given.schema or DEFAULT_SCHEMA)
        placements = SqlPlacements(main.database, partial(take_over, databases))
        await placements.create()
        stack.pop_all()
    shards = Shards(opened, placements)
    return _Stores(
        ShardedStorage(shards.of_part(lambda stores: stores.storage)),
        ShardedJournal(shards.of_part(lambda stores: stores.journal)),
        ShardedMemories(shards.of_part(lambda stores: stores.memories)),
        read_clock=opened[MAIN].read_clock,
    )


async def _database(
    url: str, schema: str | None, settings: Settings, *, off_loop: bool
) -> "tuple[Store, ReadClock | None]":
    """The open database, and what reads the clock of its server."""
    if is_server(url):
        with needs_extra("postgres", "a PostgreSQL database"):
            from wfcore.adapters.sql.postgres.database import PostgresDatabase

        from wfcore.adapters.sql.schema.names import DEFAULT_SCHEMA

        server = PostgresDatabase(url, synchronous=settings.synchronous, schema=schema or DEFAULT_SCHEMA)
        await server.open()
        return server, server.now
    if url.startswith("sqlite://") and not url.startswith("sqlite:///"):
        raise ValueError("the database URL has no path: use `sqlite:///relative/path` or `sqlite:////absolute/path`")
    if not url.startswith("sqlite:///"):
        schemes = "sqlite:///path, postgresql://user@host/name or sqlite://"
        scheme, separator, _ = url.partition("://")
        quoted = f" `{scheme}`" if separator else ""  # without a scheme, the text can begin with the password
        raise ValueError(f"unknown database URL{quoted}: use {schemes}")
    if off_loop:
        from wfcore.adapters.sql.sqlite.off_loop import OffLoopDatabase as Database
    else:
        from wfcore.adapters.sql.sqlite.database import Database  # type: ignore[assignment]
    file = Database(url, synchronous=settings.synchronous, busy_seconds=settings.busy_seconds)
    await file.open()
    return file, None


def _broker(dispatch: Dispatch) -> "NatsConnection | None":
    if dispatch.engine != "nats":
        return None
    with needs_extra("nats", "the engine `nats`"):
        from wfcore.adapters.dispatch.nats.connection import NatsConnection, NatsServers

    return NatsConnection(NatsServers(**attrs.asdict(dispatch, filter=attrs.filters.exclude("engine", "namespace"))))


def _temporal(dispatch: Dispatch) -> "TemporalConnection | None":
    if dispatch.engine != "temporal":
        return None
    with needs_extra("temporal", "the engine `temporal`"):
        from wfcore.adapters.dispatch.temporal.connection import TemporalConnection, TemporalServer

    own = attrs.asdict(dispatch, filter=attrs.filters.exclude("engine", "urls", "replicas"))
    return TemporalConnection(TemporalServer(dispatch.urls[0], **own))


def _hints(given: _Given, broker: "NatsConnection | None") -> Hints | None:
    """Notifications between processes; None on an embedded database, where processes poll."""
    if given.ports.hints is not None:
        return given.ports.hints
    if broker is not None:
        from wfcore.adapters.dispatch.nats.hints import NatsHints

        return NatsHints(broker)
    if given.stored is None or not is_server(given.stored):
        return None
    with needs_extra("postgres", "a PostgreSQL database"):
        from wfcore.adapters.sql.postgres.hints import PostgresHints

    return PostgresHints(given.stored, given.schema)


def _rate_limiter(given: _Given, clock: Clock) -> RateLimiter:
    """The counts that `limits_backend` names; those of this process while shared ones cannot be reached."""
    backend = given.settings.limits_backend
    if backend == "memory":
        return MemoryRateLimiter(now=clock.monotonic)
    if backend != "database":
        if not backend.startswith(("redis", "valkey")):
            raise ValueError("unknown `limits_backend`: use `memory`, `database` or a URL `valkey://host`")
        with needs_extra("valkey", "a Valkey or Redis server"):
            from wfcore.adapters.rate_limits.valkey import ValkeyRateLimiter

        return SharedRateLimiter(ValkeyRateLimiter(backend))
    if given.stored is None or not is_server(given.stored):
        raise ValueError("`limits_backend` can be `database` only on PostgreSQL: use `memory` or the URL of a server")
    from wfcore.adapters.sql.postgres.rate_limiter import PostgresRateLimiter

    return SharedRateLimiter(PostgresRateLimiter(given.stored, given.schema))


def _models(given: Mapping[str, ModelProvider] | None) -> Mapping[str, ModelProvider]:
    """The models; those of an installation that configures none are a scripted one."""
    if given is not None:
        return given
    from wfcore.adapters.models.scripted import ScriptedModel

    return {"default": ScriptedModel()}
