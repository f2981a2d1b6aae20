"""The shards of an installation, and the move of an organization from one to another while its runs go on.

The rows are copied in one transaction of the target: first all of them, then, again and again, those that changed
meanwhile. For the last changes the writes of the organization are refused (`Moving`), and wait. The placement then
names the target: this is the moment of the move. Whatever was killed, the next move of anything puts it right: before
`capture.refuse_for_good` nothing has moved, after it the move is completed.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import attrs
import psycopg

from wfcore.adapters.sql.maintenance.tenancy import TABLES
from wfcore.adapters.sql.schema.statement import PostgresDialect
from wfcore.adapters.sql.schema.tables import metadata, organizations
from wfcore.adapters.sql.shards import capture
from wfcore.adapters.sql.shards.capture import Connection, TenantRows, columns, run
from wfcore.adapters.sql.shards.placements import changes, creating, placements, shards
from wfcore.adapters.sql.transfer.databases import numbered
from wfcore.addresses import server_options
from wfcore.domain.kernel.errors import Conflict, NotFound, Unavailable
from wfcore.ports.shards import LEASE, MAIN, RANGE

_LOCK: Final = 7_766_070_005
"""Held by the session that moves an organization: there is one at a time."""

FEW: Final = 500
"""ChangedRows rows that are copied while writes wait."""

ROUNDS: Final = 50
"""Rounds of copying changed rows, after which the writes are too many to catch up with."""

GRACE: Final = 3.0
"""Seconds after the move before the old rows are deleted: calls that began before have ended."""

OnStep = Callable[[str], None]


@attrs.frozen
class ShardDatabases:
    """The databases by the names of their shards, `MAIN` among them, and the schema with the tables in each."""

    urls: Mapping[str, str] = attrs.field(repr=False)
    schema: str

    def name(self, table: Any) -> str:
        return PostgresDialect(self.schema, str)[table]

    @contextmanager
    def connected(self, shard: str) -> Iterator[Connection]:
        """A connection in autocommit mode. Raises Unavailable for an unknown shard, and for errors of the database."""
        if shard not in self.urls:
            raise NotFound(f"shard `{shard}` is not in the settings: add it to `[shards]`")
        try:
            with psycopg.connect(**server_options(self.urls[shard]), autocommit=True) as connection:
                yield connection
        except psycopg.Error as error:
            raise Unavailable(f"shard `{shard}`: {str(error).partition(chr(10))[0]}") from error


@attrs.frozen
class Shard:
    """A shard, and how many organizations are on it."""

    name: str
    organizations: int


@attrs.frozen
class CompletedMove:
    """How many rows were copied, and for how many seconds writes had to wait."""

    rows: int
    waited: float


def add(installation: ShardDatabases, shard: str) -> None:
    """Make it a shard on which new organizations are placed, and give it a range of numbers.

    Raises Conflict when it is one already, or when its database has organizations.
    """
    with _locked(installation) as main, installation.connected(shard) as database:
        names = dict(run(main, f"SELECT name, number FROM {installation.name(shards)}").fetchall())
        if shard in names or shard == MAIN:
            raise Conflict(f"shard `{shard}` was added before")
        if run(database, f"SELECT 1 FROM {installation.name(organizations)} LIMIT 1").fetchone():
            raise Conflict(f"the database of shard `{shard}` has organizations: use one without rows of wfcore")
        number = max(names.values(), default=0) + 1
        for table in metadata.sorted_tables:
            if (column := numbered(table)) is not None:
                sequence = f"pg_get_serial_sequence('{installation.name(table)}', '{column.name}')"
                run(database, f"SELECT setval({sequence}, {number * RANGE})")
        run(main, f"INSERT INTO {installation.name(shards)} VALUES (%s, %s)", (shard, number))


def listed(installation: ShardDatabases) -> list[Shard]:
    """The main shard and those that were added."""
    with installation.connected(MAIN) as main:
        _create(main, installation)
        names = run(main, f"SELECT name FROM {installation.name(shards)} ORDER BY number").fetchall()
    found = []
    for name in (MAIN, *(name for (name,) in names)):
        with installation.connected(name) as database:
            ((count,),) = run(database, f"SELECT count(*) FROM {installation.name(organizations)}").fetchall()
            found.append(Shard(name, count))
    return found


def move(installation: ShardDatabases, org: str, to: str, on_step: OnStep = lambda _step: None) -> CompletedMove:
    """Move an organization to a shard. Its runs and its event streams go on; its writes wait a moment at the end.

    Raises NotFound for an unknown organization or shard; Conflict when it is there already, and while another move is
    under way; Unavailable when a database does not respond, or when its changes cannot be caught up with.
    """
    with _locked(installation) as main:
        recover(installation, main, on_step)
        known = {name for (name,) in run(main, f"SELECT name FROM {installation.name(shards)}")}
        if to not in {MAIN, *known}:
            raise NotFound(f"unknown shard `{to}`: use one that `wfcore shard list` prints")
        origin = _shard_of(main, installation, org)
        if origin == to:
            raise Conflict(f"organization `{org}` is on shard `{to}`")
        with ExitStack() as stack:
            source, fence, target = (stack.enter_context(installation.connected(name)) for name in (origin, origin, to))
            tenant = _tenant(source, installation, org)
            if tenant is None:
                raise NotFound(f"unknown organization `{org}`")
            _place(main, installation, org, origin, moving=to)
            on_step("announced")
            try:
                moved = _Move(source, fence, target, tenant, on_step).run()
            except BaseException:
                _undo(installation, main, org, origin, to)
                raise
        ended = _complete(installation, main, org, origin, to, on_step)
        return attrs.evolve(moved, waited=ended - moved.waited)


def recover(installation: ShardDatabases, main: Connection, on_step: OnStep) -> None:
    """Undo or complete a move that was killed."""
    rows = run(main, f"SELECT org, shard, moving, leaving FROM {installation.name(placements)}"
                        " WHERE moving IS NOT NULL OR leaving IS NOT NULL").fetchall()  # fmt: skip
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


@attrs.frozen
class _Move:
    source: Connection
    fence: Connection
    target: Connection
    tenant: TenantRows
    on_step: OnStep

    def run(self) -> CompletedMove:
        """Returns with the rows on the target, and with the writes of the organization refused for good.

        `waited` of the result is when they began to wait, by the monotonic clock.
        """
        time.sleep(2 * LEASE)  # by now every process reads the placement before each call
        capture.stop(self.source, self.tenant)
        capture.start(self.source, self.tenant)
        self.on_step("captured")
        with self.target.transaction():
            run(self.target, "SET LOCAL idle_in_transaction_session_timeout = 0")
            rows = self._copy_all()
            self.on_step("copied")
            rows += self._catch_up()
            began = time.monotonic()
            capture.refuse(self.fence)
            self.on_step("fenced")
            rows += self._copy_changed()
        self.on_step("committed")
        capture.refuse_for_good(self.fence, self.tenant)
        self.on_step("final")
        return CompletedMove(rows, began)

    def _copy_all(self) -> int:
        rows = 0
        with _snapshot(self.source):
            for table in TABLES:
                read: Any = f"COPY ({self.tenant.select(table)}) TO STDOUT"
                write: Any = f"COPY {self.tenant.name(table)} ({columns(table)}) FROM STDIN"
                with self.source.cursor() as out, self.target.cursor() as into:
                    with out.copy(read) as blocks, into.copy(write) as copy:
                        for block in blocks:
                            copy.write(block)
                    rows += into.rowcount
        return rows

    def _catch_up(self) -> int:
        rows = 0
        for _ in range(ROUNDS):
            found = self._copy_changed()
            rows += found
            if found <= FEW:
                return rows
        raise Unavailable("the organization changes faster than it can be copied: try again later")

    def _copy_changed(self) -> int:
        with _snapshot(self.source):
            return capture.apply(self.target, self.tenant, list(capture.noted(self.source, self.tenant)))


@contextmanager
def _snapshot(connection: Connection) -> Iterator[None]:
    with connection.transaction():
        run(connection, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        yield


@contextmanager
def _locked(installation: ShardDatabases) -> Iterator[Connection]:
    """The main database, in which nobody else moves organizations meanwhile."""
    with installation.connected(MAIN) as main:
        _create(main, installation)
        ((is_free,),) = run(main, f"SELECT pg_try_advisory_lock({_LOCK})").fetchall()
        if not is_free:
            raise Conflict("another organization is being moved: try again when it has ended")
        yield main


def _create(main: Connection, installation: ShardDatabases) -> None:
    with main.transaction():
        run(main, "SET LOCAL client_min_messages = warning")
        for statement in creating(installation.schema):
            run(main, statement)


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
    """Write the placement, as the next change."""
    with main.transaction():
        run(main, f"UPDATE {installation.name(changes)} SET number = number + 1")
        statement: Any = f"""
INSERT INTO {installation.name(placements)} (org, shard, moving, leaving, version)
VALUES (%s, %s, %s, %s, (SELECT number FROM {installation.name(changes)})) ON CONFLICT (org) DO UPDATE
SET shard = excluded.shard, moving = excluded.moving, leaving = excluded.leaving, version = excluded.version"""
        run(main, statement, (org, shard, moving, leaving))


def _undo(installation: ShardDatabases, main: Connection, org: str, origin: str, to: str) -> None:
    """The organization stays where it was."""
    with installation.connected(to) as target:
        tenant = _tenant(target, installation, org)
        if tenant is not None:
            capture.delete(target, tenant)
    with installation.connected(origin) as source:
        tenant = _tenant(source, installation, org)
        if tenant is not None:
            capture.stop(source, tenant)
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
        tenant = _tenant(source, installation, org)
        if tenant is not None:
            capture.delete(source, tenant)
        on_step("deleted")
        capture.stop(source, tenant or TenantRows(installation.schema, 0))
    _place(main, installation, org, _shard_of(main, installation, org))
    on_step("cleaned")
