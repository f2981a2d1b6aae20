"""The port `Placements` in tables of the main database, which only an installation with shards has."""

import asyncio
import logging
import time
import zlib
from collections.abc import Callable, Sequence
from typing import Final

import sqlalchemy as sa

from wfcore.adapters.sql.schema.statement import PostgresDialect, Statement
from wfcore.adapters.sql.schema.tables import organizations
from wfcore.adapters.sql.store import Store
from wfcore.domain.kernel.errors import Conflict, NotFound, Unavailable
from wfcore.ports.shards import LEASE, MAIN, Placement, locator_of

log = logging.getLogger("wfcore.shards")

_metadata: Final = sa.MetaData()
shards: Final = sa.Table("wfcore_shards", _metadata)
placements: Final = sa.Table("wfcore_placements", _metadata)
changes: Final = sa.Table("wfcore_placement_changes", _metadata)

CACHED: Final = 100_000
"""Organizations whose shard a process remembers."""

SILENCE: Final = 3.0
"""Seconds without a sign of life after which a move counts as abandoned, by the clock of the process that looks."""

_LOCK: Final = 7_766_070_003


def creating(schema: str) -> Sequence[str]:
    """The statements that create the tables in a schema of PostgreSQL where they are missing.

    - `shards`: `number` is that of its range.
    - `placements`: `moving` is the shard to which the organization is being copied; `leaving` the one from which its
      rows are yet to be deleted.
    - `placement_changes`: one row, the number of changes of `placements` so far, and how many signs of life the mover
      of an organization has given; NULL when none is moved. `key` is that of public ids.
    """
    d = PostgresDialect(schema, str)
    return (
        f"SELECT pg_advisory_xact_lock({_LOCK})",
        f'CREATE SCHEMA IF NOT EXISTS "{schema}"',
        f"CREATE TABLE IF NOT EXISTS {d[shards]} (name text PRIMARY KEY, number bigint NOT NULL UNIQUE)",
        f"""
CREATE TABLE IF NOT EXISTS {d[placements]}
    (org text PRIMARY KEY, shard text NOT NULL, version bigint NOT NULL, moving text, leaving text, locator bigint)""",
        f"CREATE INDEX IF NOT EXISTS placements_locator ON {d[placements]} (locator)",
        f"CREATE INDEX IF NOT EXISTS placements_version ON {d[placements]} (version)",
        f"CREATE TABLE IF NOT EXISTS {d[changes]} (number bigint NOT NULL, beats bigint, key text)",
        f"""
INSERT INTO {d[changes]} SELECT 0, NULL, concat(gen_random_uuid(), gen_random_uuid())
WHERE NOT EXISTS (SELECT 1 FROM {d[changes]})""",
    )


_FIND: Final = Statement(lambda d: f"SELECT shard, moving FROM {d[placements]} WHERE org = {d[1]}")
_LOCATE: Final = Statement(lambda d: f"SELECT shard, moving FROM {d[placements]} WHERE locator = {d[1]}")
_KEY: Final = Statement(lambda d: f"SELECT key FROM {d[changes]}")
_CHANGED: Final = Statement(
    lambda d: (
        f"""
SELECT c.number, c.beats, p.org FROM {d[changes]} c
LEFT JOIN {d[placements]} p ON {d[1]} >= 0 AND p.version > {d[1]}"""
    )
)
"""The number of changes, the signs of life of a mover, and the organizations that changed since another number."""
_NAMES: Final = Statement(lambda d: f"SELECT name FROM {d[shards]} ORDER BY number")
_CHANGE: Final = Statement(lambda d: f"UPDATE {d[changes]} SET number = number + 1 RETURNING number")
_PLACE: Final = Statement(
    lambda d: (
        f"""
INSERT INTO {d[placements]} (org, shard, version, locator)
SELECT CAST({d[1]} AS text), CAST({d[2]} AS text), CAST({d[3]} AS bigint), CAST({d[4]} AS bigint)
WHERE NOT EXISTS (SELECT 1 FROM {d[organizations]} WHERE uuid = {d[1]}) ON CONFLICT (org) DO NOTHING"""
    )
)
"""The organizations of the time before the shards were not placed: they stay on the main shard."""


class SqlPlacements:
    """Implements the port `Placements`. While the main database does not respond, what was read last is used."""

    def __init__(self, main: Store, take_over: Callable[[int], None] | None = None) -> None:
        """`take_over` ends a move that is silent since a sign of life: `moving.take_over`. It runs in a thread."""
        self._main = main
        self._take_over = take_over
        self._beats: int | None = None
        self._beats_at = 0.0
        self._is_silent = False
        self._watching: asyncio.Task[None] | None = None
        self.key = ""
        self._known: dict[str, str] = {}
        self._located: dict[int, Sequence[str]] = {}
        self._version = -1
        self._read_at = -LEASE
        self._reading = asyncio.Lock()

    async def create(self) -> None:
        """Create the tables where they are missing. Abandoned moves are taken over until `close`."""
        async with self._main.writing() as connection:
            for statement in creating(self._main.schema):
                await connection.run_sync(lambda inner, text=statement: inner.exec_driver_sql(text))  # type: ignore[misc]
        ((self.key,),) = await self._main.look_up(_KEY)
        if self._take_over is not None:
            self._watching = asyncio.create_task(self._watch(self._take_over))

    async def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])

    def cached(self, org: str) -> str | None:
        return self._known.get(org) if time.monotonic() - self._read_at < LEASE else None

    async def of(self, org: str) -> Placement:
        if time.monotonic() - self._read_at >= LEASE:
            await self._refresh()
        if org in self._known:
            return Placement(self._known[org])
        version = self._version
        rows = await self._main.look_up(_FIND, org)
        placement = Placement(rows[0][0], rows[0][1] is not None) if rows else Placement(MAIN)
        if not placement.is_moving and version == self._version:
            if len(self._known) >= CACHED:
                self._known.clear()
            self._known[org] = placement.shard
        return placement

    async def located(self, locator: int) -> Sequence[str]:
        """Those in the directory, then the main shard, whose organizations need not be in it."""
        if time.monotonic() - self._read_at >= LEASE:
            await self._refresh()
        if locator in self._located:
            return self._located[locator]
        version = self._version
        rows = await self._main.look_up(_LOCATE, locator)
        names = list(dict.fromkeys([*(shard for shard, _ in rows), MAIN]))
        if version == self._version and not any(moving for _, moving in rows):
            if len(self._located) >= CACHED:
                self._located.clear()
            self._located[locator] = names
        return names

    async def place(self, org: str) -> str:
        names = [MAIN, *(name for (name,) in await self._main.look_up(_NAMES))]
        shard = names[zlib.crc32(org.encode()) % len(names)]
        async with self._main.writing() as connection:
            version = (await connection.run(_CHANGE)).scalar_one()
            await connection.run(_PLACE, (org, shard, version, locator_of(org)))
        self._known.pop(org, None)
        return (await self.of(org)).shard

    async def _refresh(self) -> None:
        """Forget the organizations whose placement has changed."""
        async with self._reading:
            now = time.monotonic()
            if now - self._read_at < LEASE:
                return
            try:
                rows = await self._main.look_up(_CHANGED, self._version)
            except Unavailable:
                log.warning("the placements of organizations cannot be read: the last ones are used", exc_info=True)
            else:
                self._version, beats, _ = rows[0]
                if beats != self._beats:
                    self._beats, self._beats_at = beats, now
                self._is_silent = beats is not None and now - self._beats_at >= SILENCE
                for _, _, org in rows:
                    self._known.pop(org, None)
                    self._located.pop(locator_of(org or ""), None)
            self._read_at = now

    async def _watch(self, take_over: Callable[[int], None]) -> None:
        """Take over each move that shows no sign of life for `SILENCE` seconds."""
        while True:
            await asyncio.sleep(LEASE)
            await self._refresh()
            if not self._is_silent or self._beats is None:
                continue
            log.warning("the move of an organization was abandoned: it is undone or completed")
            self._is_silent, self._beats_at = False, self._read_at
            try:
                await asyncio.to_thread(take_over, self._beats)
            except (Conflict, NotFound, Unavailable):
                log.warning("an abandoned move cannot be ended yet", exc_info=True)
