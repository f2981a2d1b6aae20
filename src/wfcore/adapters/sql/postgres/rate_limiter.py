"""Rate limits of all processes on one PostgreSQL database.

The table is not a part of the schema: it is unlogged, so that no request waits for a disk, and empty after a crash of
the server. Events are counted by the sixtieth of a rate's time, on the server's clock.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import psycopg
import sqlalchemy as sa

from wfcore.adapters.sql.postgres.connections import PostgresAddress
from wfcore.adapters.sql.postgres.pipeline import PipelineClient
from wfcore.adapters.sql.schema.names import DEFAULT_SCHEMA
from wfcore.adapters.sql.schema.statement import Statement
from wfcore.domain.kernel.errors import Unavailable
from wfcore.ports.system import Rate

PARTS: Final = 60
"""The parts of a rate's time. One more is counted: an event at the end of the oldest is younger than that time."""

TIMEOUT: Final = 1.0
"""Seconds after which the server counts as away."""

DROP_SECONDS: Final = 3600
"""How often a process deletes the keys without events."""

_counts: Final = sa.Table("wfcore_rate_counts", sa.MetaData())

_LOCK: Final = 7_766_070_006
"""The advisory lock of those who create the table: IF NOT EXISTS alone fails when two do so at the same moment."""

_CREATE: Final = Statement(
    lambda d: (
        f"""
DO $$ BEGIN
    PERFORM pg_advisory_xact_lock({_LOCK});
    CREATE UNLOGGED TABLE IF NOT EXISTS {d[_counts]}
        (key text PRIMARY KEY, part bigint NOT NULL, counts int[] NOT NULL, idle_at bigint NOT NULL)
        WITH (fillfactor = 50);
END $$"""
    )
)
"""`counts` are those of the latest part of the time, `part`, and of the parts before it. At `idle_at` none counts."""

_NOW: Final = "coalesce({0}::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)"
_SET_BACK: Final = f"r.part - {{0}} > {PARTS + 1}"
"""Whether the server's clock was set back by more than the whole time: what was counted before is over."""
_PASSED: Final = (
    f"(CASE WHEN {_SET_BACK} THEN {PARTS + 1} ELSE least({PARTS + 1}, greatest(0, {{0}} - r.part)) END)::int"
)
"""How many parts have passed since the latest one with events."""
_KEPT: Final = f"r.counts[1:{PARTS + 1} - {_PASSED}]"

_ADMIT: Final = Statement(
    lambda d: (
        f"""
WITH given AS (
    SELECT key, most, width, {_NOW.format(d[4])} / width AS part
    FROM unnest({d[1]}::text[], {d[2]}::int[], {d[3]}::bigint[]) AS rates(key, most, width)
), held AS MATERIALIZED (
    SELECT r.key, r.part, {_KEPT.format("given.part")} AS counts
    FROM {d[_counts]} r JOIN given ON given.key = r.key ORDER BY r.key FOR UPDATE OF r
), refused AS MATERIALIZED (
    SELECT given.key, (held.part + {PARTS + 2} - max(age)) * width AS until
    FROM held JOIN given ON given.key = held.key, unnest(held.counts) WITH ORDINALITY AS kept(count, age)
    WHERE count > 0 GROUP BY given.key, held.part, width, most HAVING sum(count) >= most
), counted AS (
    INSERT INTO {d[_counts]} AS r (key, part, counts, idle_at)
    SELECT key, part, 1 || array_fill(0, ARRAY[{PARTS}]), (part + {PARTS + 1}) * width FROM given
    WHERE NOT EXISTS (SELECT FROM refused) ORDER BY key
    ON CONFLICT (key) DO UPDATE SET idle_at = excluded.idle_at,
        part = CASE WHEN {_SET_BACK.format("excluded.part")} THEN excluded.part
            ELSE greatest(r.part, excluded.part) END,
        counts = CASE {_PASSED.format("excluded.part")} WHEN 0 THEN (r.counts[1] + 1) || r.counts[2:]
            ELSE 1 || array_fill(0, ARRAY[{_PASSED.format("excluded.part")} - 1]) || {_KEPT.format("excluded.part")} END
    WHERE (SELECT coalesce(sum(count), 0) FROM unnest({_KEPT.format("excluded.part")}) AS kept(count))
        < (SELECT most FROM given WHERE given.key = excluded.key)
    RETURNING key
)
SELECT given.key, CASE WHEN until > 0 THEN greatest(1, until - {_NOW.format(d[4])}) END, counted.key IS NOT NULL
FROM given LEFT JOIN refused ON refused.key = given.key LEFT JOIN counted ON counted.key = given.key"""
    )
)
"""Counts an event for each key if all admit one, and returns for each the wait (NULL: unknown) and whether it counted.

Rows are locked before they are read. Two first events of a key cannot lock it: the second is counted, or refused
without a wait, by the row of the first.
"""

_DROP_IDLE: Final = Statement(lambda d: f"DELETE FROM {d[_counts]} WHERE idle_at <= {_NOW.format(d[1])}")


class PostgresRateLimiter:
    """Implements the port `RateLimiter` with one upsert for each event. `now` replaces the server's clock in tests."""

    def __init__(self, url: str, schema: str | None = None, *, now: Callable[[], int | None] = lambda: None) -> None:
        self._client = PipelineClient(PostgresAddress(url, "NORMAL", schema or DEFAULT_SCHEMA))
        self._now = now
        self._drop_at: float | None = None

    async def admit(self, rates: Sequence[Rate]) -> Sequence[int]:
        try:
            async with asyncio.timeout(TIMEOUT):
                await self._prepare()
                return await self._admit(rates)
        except (TimeoutError, psycopg.Error) as error:
            raise Unavailable("the counts of rate limits cannot be reached") from error

    async def close(self) -> None:
        await self._client.close()

    async def _admit(self, rates: Sequence[Rate]) -> Sequence[int]:
        keys = [f"{rate.key} {rate.seconds}" for rate in rates]
        widths = [-(-rate.seconds * 1000 // PARTS) for rate in rates]
        while True:
            result = await self._client.execute((_ADMIT, (keys, [rate.count for rate in rates], widths, self._now())))
            found = {key: (wait, is_counted) for key, wait, is_counted in result.rows}
            if any(wait is not None for wait, _ in found.values()):
                return [found[key][0] or 0 for key in keys]
            if all(is_counted for _, is_counted in found.values()):
                return [0] * len(rates)

    async def _prepare(self) -> None:
        """Create the table once, and delete keys without events now and then."""
        now = asyncio.get_running_loop().time()
        if self._drop_at is None:
            await self._client.execute((_CREATE, ()))
        if self._drop_at is None or now >= self._drop_at:
            self._drop_at = now + DROP_SECONDS
            await self._client.execute((_DROP_IDLE, (self._now(),)))
