"""Connections of the driver: what wfcore needs of the lowest version that `pyproject.toml` allows."""

import asyncio
import select

import pytest
from postgres_server import new_database

from wfcore.adapters.sql.postgres.connections import PostgresAddress


@pytest.mark.service
@pytest.mark.anyio
async def test_a_cancellation_that_arrives_with_a_result_is_not_lost() -> None:
    """Else a process that closes at this moment waits for ever for the task that it has cancelled."""
    connection = await PostgresAddress(new_database(), "NORMAL").connect(autocommit=True)
    for turns in range(20):
        waiting = asyncio.create_task(connection.execute("SELECT 1"))
        await asyncio.sleep(0)
        select.select([connection.pgconn.socket], [], [])  # the server has replied; the event loop has not seen it
        for _ in range(turns):
            await asyncio.sleep(0)
        was_requested = waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled() is was_requested
    await connection.close()
