"""Rate limits of all processes that share a Valkey or Redis server, through the library `limits`."""

import asyncio
import time
from collections.abc import Sequence
from math import ceil
from typing import Any, Final

from limits import RateLimitItemPerSecond
from limits.aio.storage import RedisStorage
from limits.aio.strategies import MovingWindowRateLimiter
from limits.errors import ConfigurationError
from valkey.exceptions import ValkeyError

from wfcore.domain.kernel.errors import Unavailable
from wfcore.ports.system import Rate

_Item = tuple[RateLimitItemPerSecond, str]
"""A rate and its key."""

TIMEOUT: Final = 1.0
"""Seconds after which the server counts as away."""


CONNECTIONS: Final = 16
"""Connections of a process: each serves one event at a time."""


class ValkeyRateLimiter:
    """Implements the port `RateLimiter` with a moving window for each key, on the clocks of the processes."""

    def __init__(self, url: str) -> None:
        """`url`: `redis://[user:password@]host:port/0`, `rediss://` for TLS, or the same with `valkey` for `redis`.

        Raises ValueError, without the password, for a URL that is not valid.
        """
        try:
            self._storage = RedisStorage(f"async+{url}", implementation="valkey", key_prefix="wfcore",
                                         socket_timeout=TIMEOUT, socket_connect_timeout=TIMEOUT)  # fmt: skip
        except (ConfigurationError, ValueError):
            raise ValueError("the URL of the rate limits is not valid: use `valkey://host:6379/0`") from None
        self._windows = MovingWindowRateLimiter(self._storage)
        self._turns = asyncio.Semaphore(CONNECTIONS)

    async def admit(self, rates: Sequence[Rate]) -> Sequence[int]:
        items = [(RateLimitItemPerSecond(rate.count, rate.seconds), rate.key) for rate in rates]
        try:
            async with asyncio.timeout(TIMEOUT), self._turns:
                refused = await self._count(items)
                return [max(item is refused, await self._wait(*item)) if refused else 0 for item in items]
        except (ValkeyError, OSError) as error:
            raise Unavailable("the counts of rate limits cannot be reached") from error

    async def close(self) -> None:
        bridge: Any = self._storage.bridge
        await bridge.get_connection().aclose()

    async def _count(self, items: Sequence[_Item]) -> _Item | None:
        """Count an event for each, or for none. Returns the one that admits no event.

        Only the first one is counted without a look before: if it refuses, nothing was counted.
        """
        for item in items[1:]:
            if await self._wait(*item):
                return item
        for item in items:
            if not await self._windows.hit(*item):
                return item
        return None

    async def _wait(self, item: RateLimitItemPerSecond, key: str) -> int:
        """Milliseconds until one more event is admitted."""
        window = await self._windows.get_window_stats(item, key)
        return 0 if window.remaining > 0 else max(1, ceil((window.reset_time - time.time()) * 1000) + 1)
