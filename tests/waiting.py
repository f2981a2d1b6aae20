"""How long tests wait. No limit says how fast the machine is: each ends what would never happen, and nothing else."""

import asyncio
from collections.abc import Callable
from time import process_time

HANG = 500
"""Seconds for what ends by itself: a process, a request, a run. The `timeout` of pytest is longer."""

PATIENCE = 120
"""Seconds for a condition that is looked at again and again: so long waits a test that fails for good reason."""


async def until(asked: Callable[[], bool]) -> None:
    """Wait for what a server or another process does."""
    while not asked():  # noqa: ASYNC110  (nothing here is told of it)
        await asyncio.sleep(0.001)


LOOP_SECONDS = 0.018
"""CPU seconds of the loop of `cpu_limit` on a quiet machine."""


def cpu_limit(seconds: float) -> float:
    """CPU seconds of a quiet machine, as those of this machine now: a busy one takes longer for the same work."""
    began = process_time()
    sum(number * number for number in range(500_000))
    return seconds * max(1.0, (process_time() - began) / LOOP_SECONDS)
