"""The shards of an installation, and the move of an organization from one to another while its runs go on.

The rows are copied in one transaction of the target, at the end of which writes of the organization are refused
(`Moving`), and wait. The placement then names the target: this is the moment of the move.

A mover shows every `BEAT` seconds that it is alive. Whatever happened to it, another process then puts it right
(`take_over`), and so does the next move of anything: before `capture.refuse_for_good` nothing has moved, after it the
move is completed. What a mover does after that fails: all its sessions were ended, and it opens none without checking
that of its lock.
"""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any, Final

import attrs
import psycopg

from wfcore.adapters.sql.maintenance.tenancy import TABLES
from wfcore.adapters.sql.schema.statement import PostgresDialect
from wfcore.adapters.sql.schema.tables import organizations
from wfcore.adapters.sql.shards import capture, numbers
from wfcore.adapters.sql.shards.capture import Connection, TenantRows, run
from wfcore.adapters.sql.shards.copying import CompletedMove, Copy, Late, OnStep
from wfcore.adapters.sql.shards.placements import changes, creating, placements, shards
from wfcore.addresses import server_options
from wfcore.domain.kernel.errors import Conflict, NotFound, Unavailable, unknown_organization
from wfcore.ports.shards import MAIN, STRIDE, locator_of

_LOCK: Final = 7_766_070_005
"""Held by the session that moves an organization: there is one at a time."""

_UNFINISHED: Final = "(moving IS NOT NULL OR leaving IS NOT NULL)"

TRIES: Final = 3
"""Copies of an organization, after which the move fails."""

GRACE: Final = 3.0
"""Seconds after the move before the old rows are deleted: calls that began before have ended."""

BEAT: Final = 0.5
"""Seconds between two signs of life of a mover."""

ENDS_WITHIN: Final = 5_000
"""Milliseconds for which a session of an abandoned move can take to end."""


@attrs.frozen
class ShardDatabases:
    """The databases by the names of their shards, `MAIN` among them, and the schema with the tables in each."""

    urls: Mapping[str, str] = attrs.field(repr=False)
    schema: str

    def name(self, table: Any) -> str:
        return PostgresDialect(self.schema, str)[table]

    @property
    def sessions(self) -> str:
        """The name of the sessions of a move."""
        return f"wfcore move {self.schema}"[:63]

    def connect(self, shard: str) -> Connection:
        return psycopg.connect(
            **{**server_options(self.urls[shard]), "application_name": self.sessions}, autocommit=True
        )

    @contextmanager
    def connected(self, shard: str) -> Iterator[Connection]:
        """A connection in autocommit mode. Raises Unavailable for an unknown shard, and for errors of the database."""
        if shard not in self.urls:
            raise NotFound(f"shard `{shard}` is not in the settings: add it to `[shards]`")
        try:
            with self.connect(shard) as connection:
                yield connection
        except psycopg.Error as error:
            raise Unavailable(f"shard `{shard}`: {str(error).partition(chr(10))[0]}") from error


@attrs.frozen
class Shard:
    """A shard, and how many organizations are on it."""

    name: str
    organizations: int


def add(installation: ShardDatabases, shard: str) -> None:
    """Make it a shard on which new organizations are placed, and let it assign numbers of its own.

    Raises Conflict when it is one already, or when its database has organizations.
    """
    with _locked(installation) as main, installation.connected(shard) as database:
        names = dict(run(main, f"SELECT name, number FROM {installation.name(shards)}").fetchall())
        if shard in names or shard == MAIN:
            raise Conflict(f"shard `{shard}` was added before")
        if run(database, f"SELECT 1 FROM {installation.name(organizations)} LIMIT 1").fetchone():
            raise Conflict(f"the database of shard `{shard}` has organizations: use one without rows of wfcore")
        number = max(names.values(), default=0) + 1
        if number == STRIDE:
            raise Conflict(f"there are {STRIDE} shards, the most")
        if not names:
            numbers.begin(main, installation.schema, 0, {})
        numbers.begin(database, installation.schema, number, numbers.last_numbers(main, installation.schema))
        run(main, f"INSERT INTO {installation.name(shards)} VALUES (%s, %s)", (shard, number))


def listed(installation: ShardDatabases) -> list[Shard]:
    """The main shard and those that were added. An organization that is being moved counts once, where it is."""
    with installation.connected(MAIN) as main:
        _create(main, installation)
        names = run(main, f"SELECT name FROM {installation.name(shards)} ORDER BY number").fetchall()
        query = f"SELECT org, shard FROM {installation.name(placements)} WHERE {_UNFINISHED}"
        moved = run(main, query).fetchall()
    query = f"SELECT count(*) FROM {installation.name(organizations)} WHERE uuid <> ALL(%s)"
    found = []
    for name in (MAIN, *(name for (name,) in names)):
        elsewhere = [org for org, shard in moved if shard != name]
        with installation.connected(name) as database:
            ((count,),) = run(database, query, (elsewhere,)).fetchall()
            found.append(Shard(name, count))
    return found


def move(installation: ShardDatabases, org: str, to: str, on_step: OnStep = lambda _step: None) -> CompletedMove:
    """Move an organization to a shard. Its runs and its event streams go on; its writes wait a moment at the end.

    Raises NotFound for an unknown organization or shard; Conflict when it is there already, and while another move is
    under way; Unavailable when a database does not respond, or when its changes cannot be caught up with.
    """
    with _locked(installation) as main, _beating(installation, main):
        recover(installation, main, on_step)
        known = {MAIN: 0, **dict(run(main, f"SELECT name, number FROM {installation.name(shards)}").fetchall())}
        if to not in known:
            is_set = to in installation.urls
            remedy = f"add it with `wfcore shard add {to}`" if is_set else "use one that `wfcore shard list` prints"
            raise NotFound(f"unknown shard `{to}`: {remedy}")
        origin = _shard_of(main, installation, org)
        if origin == to:
            raise Conflict(f"organization `{org}` is on shard `{to}`")
        with installation.connected(origin) as source:
            tenant = _tenant(source, installation, org)
        if tenant is None:
            raise unknown_organization(org)
        waits = list[float]()
        for tries_left in reversed(range(TRIES)):
            try:
                _place(main, installation, org, origin, moving=to)
                on_step("announced")
                with ExitStack() as stack:
                    source, target, other = (stack.enter_context(installation.connected(n)) for n in (origin, to, to))
                    connect, commit = partial(installation.connect, origin), partial(_commit, installation, main, other)
                    copy = Copy(source, target, connect, commit, tenant, known[to], waits, on_step)
                    fence = copy.run()
            except BaseException as error:
                _undo(installation, main, org, origin, to)
                if not isinstance(error, Late) or not tries_left:
                    raise
            else:
                break
        ended = _complete(installation, main, org, origin, to, on_step)
        with installation.connected(to) as target:  # else PostgreSQL would plan without statistics of these rows
            run(target, f"ANALYZE {', '.join(map(installation.name, TABLES))}")
        return CompletedMove(copy.rows, max(*waits, ended - fence.began))


@contextmanager
def without_moves(installation: ShardDatabases) -> Iterator[None]:
    """No organization is moved in this block. Raises Conflict while one is."""
    with _locked(installation) as main:
        if run(main, f"SELECT 1 FROM {installation.name(placements)} WHERE {_UNFINISHED}").fetchone():
            raise Conflict("an organization is being moved: try again when it has ended")
        yield


def take_over(installation: ShardDatabases, beats: int, on_step: OnStep = lambda _step: None) -> None:
    """Undo or complete a move that is silent since the sign of life `beats`, unless another process does so.

    Raises Unavailable when a database does not respond, or a session does not end: repeat it later.
    """
    with installation.connected(MAIN) as main:
        statement = f"UPDATE {installation.name(changes)} SET beats = beats + 1 WHERE beats = %s"
        if not run(main, statement, (beats,)).rowcount:
            return
        _end_sessions(installation, main)
    with _locked(installation) as main, _beating(installation, main):
        recover(installation, main, on_step)


def _end_sessions(installation: ShardDatabases, database: Connection) -> None:
    """End the sessions of the mover, wherever it is, and the lock with which it refuses writes."""
    own = "FROM pg_stat_activity WHERE application_name = %s AND datname = current_database()"
    own += " AND pid <> pg_backend_pid()"
    run(database, f"SELECT pg_terminate_backend(pid, {ENDS_WITHIN}) {own}", (installation.sessions,))
    if run(database, f"SELECT 1 {own}", (installation.sessions,)).fetchone():
        raise Unavailable("a session of an abandoned move does not end")


def recover(installation: ShardDatabases, main: Connection, on_step: OnStep) -> None:
    """Undo or complete a move that was killed."""
    query = f"SELECT org, shard, moving, leaving FROM {installation.name(placements)} WHERE {_UNFINISHED}"
    rows = run(main, query).fetchall()
    for name in installation.urls if rows else ():
        if name != MAIN:  # there, the lock has shown that they ended
            with installation.connected(name) as database:
                _end_sessions(installation, database)
    for org, shard, moving, leaving in rows:
        if leaving is not None:
            _clean(installation, main, org, leaving, on_step)
            continue
        with installation.connected(shard) as source:
            tenant = _tenant(source, installation, org)
            is_final = tenant is not None and capture.is_final(source, tenant)
        if is_final:
            _complete(installation, main, org, shard, moving, on_step)
        else:
            _undo(installation, main, org, shard, moving)


@contextmanager
def _locked(installation: ShardDatabases) -> Iterator[Connection]:
    """The main database, in which nobody else moves organizations meanwhile."""
    with installation.connected(MAIN) as main:
        _create(main, installation)
        ((is_free,),) = run(main, f"SELECT pg_try_advisory_lock({_LOCK})").fetchall()
        if not is_free:
            raise Conflict("another organization is being moved: try again when it has ended")
        try:
            yield main
        finally:
            with suppress(psycopg.Error):  # the end of the session would release it a little later
                run(main, f"SELECT pg_advisory_unlock({_LOCK})")


@contextmanager
def _beating(installation: ShardDatabases, main: Connection) -> Iterator[None]:
    """Show that this mover is alive, and at the end that nothing is left to do, if so."""
    over = threading.Event()

    def go_on() -> None:
        with suppress(Unavailable), installation.connected(MAIN) as own:
            while not over.wait(BEAT):
                _beat(own, installation)

    _beat(main, installation)
    thread = threading.Thread(target=go_on, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        run(main, f"UPDATE {installation.name(changes)} SET beats = NULL WHERE NOT EXISTS"
                  f" (SELECT 1 FROM {installation.name(placements)} WHERE {_UNFINISHED})")  # fmt: skip


def _beat(main: Connection, installation: ShardDatabases) -> None:
    run(main, f"UPDATE {installation.name(changes)} SET beats = coalesce(beats, 0) + 1")


def _commit(installation: ShardDatabases, main: Connection, target: Connection) -> None:
    """Make a small commit in each. That of the target waits for its replicas, if they are synchronous."""
    _beat(main, installation)
    run(target, "SELECT pg_logical_emit_message(true, 'wfcore', '')")


def _create(main: Connection, installation: ShardDatabases) -> None:
    """The statements are sent at once: a process that is suspended holds no lock."""
    run(main, "; ".join(["SET LOCAL client_min_messages = warning", *creating(installation.schema)]))


def _shard_of(main: Connection, installation: ShardDatabases, org: str) -> str:
    found = run(main, f"SELECT shard FROM {installation.name(placements)} WHERE org = %s", (org,)).fetchone()
    return found[0] if found else MAIN


def _tenant(database: Connection, installation: ShardDatabases, org: str) -> TenantRows | None:
    """The rows of the organization in the database; None when it is not there."""
    query: Any = f"SELECT key FROM {installation.name(organizations)} WHERE uuid = %s"
    found = run(database, query, (org,)).fetchone()
    return TenantRows(installation.schema, found[0]) if found else None


def _place(
    main: Connection,
    installation: ShardDatabases,
    org: str,
    shard: str,
    *,
    moving: str | None = None,
    leaving: str | None = None,
) -> None:
    """Write the placement, as the next change. It is one statement: a process that is suspended holds no lock."""
    statement: Any = f"""
WITH change AS (UPDATE {installation.name(changes)} SET number = number + 1 RETURNING number)
INSERT INTO {installation.name(placements)} (org, shard, moving, leaving, locator, version)
SELECT %s, %s, %s, %s, %s, number FROM change ON CONFLICT (org) DO UPDATE
SET shard = excluded.shard, moving = excluded.moving, leaving = excluded.leaving, version = excluded.version"""
    run(main, statement, (org, shard, moving, leaving, locator_of(org)))


def _undo(installation: ShardDatabases, main: Connection, org: str, origin: str, to: str) -> None:
    """The organization stays where it was."""
    with installation.connected(to) as target, installation.connected(origin) as source:
        _check_lock(main)
        capture.stop(source, TenantRows(installation.schema, 0))  # first: from now on, the move is not completed
        tenant = _tenant(target, installation, org)
        if tenant is not None:
            capture.delete(target, tenant)
    _place(main, installation, org, origin)


def _complete(installation: ShardDatabases, main: Connection, org: str, origin: str, to: str, on_step: OnStep) -> float:
    """The organization is on the target from now on; then its old rows are deleted. Returns when, by `monotonic`."""
    _place(main, installation, org, to, leaving=origin)
    ended = time.monotonic()
    on_step("placed")
    time.sleep(GRACE)
    _clean(installation, main, org, origin, on_step)
    return ended


def _clean(installation: ShardDatabases, main: Connection, org: str, origin: str, on_step: OnStep) -> None:
    with installation.connected(origin) as source:
        _check_lock(main)
        tenant = _tenant(source, installation, org)
        if tenant is not None:
            capture.delete(source, tenant)
        on_step("deleted")
        capture.stop(source, tenant or TenantRows(installation.schema, 0))
    _place(main, installation, org, _shard_of(main, installation, org))
    on_step("cleaned")


def _check_lock(main: Connection) -> None:
    """Raises an error of the driver when another process has taken over: it ends all sessions that are open now."""
    run(main, "SELECT 1")
