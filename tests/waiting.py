"""How long tests wait. No limit says how fast the machine is: each ends what would never happen, and nothing else."""

import asyncio
from collections.abc import Callable

HANG = 500
"""Seconds for what ends by itself: a process, a request, a run. The `timeout` of pytest is longer."""

PATIENCE = 120
"""Seconds for a condition that is looked at again and again: so long waits a test that fails for good reason."""


async def until(asked: Callable[[], bool]) -> None:
    """Wait for what a server or another process does."""
    while not asked():  # noqa: ASYNC110  (nothing here is told of it)
        await asyncio.sleep(0.001)
