"""PostgreSQL databases for tests: opening one, and ending its connections."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg

from wfcore.adapters.sql.postgres.database import PostgresDatabase


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[PostgresDatabase]:
    database = PostgresDatabase(url, synchronous="NORMAL")
    await database.open()
    try:
        yield database
    finally:
        await database.close()


async def idle(times: int = 50) -> None:
    """Let others have their turn, over and over."""
    for _ in range(times):
        await asyncio.sleep(0.001)


GONE = (
    "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = current_database()"
    " AND pid NOT IN (%s, pg_backend_pid())"
)


def end_connections(url: str, but: int = 0) -> None:
    """As after a restart of the server: every connection to the database has ended, `but` that of one backend."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(GONE, (but,))
