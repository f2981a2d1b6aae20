"""Rate limits of all processes that share a Valkey or Redis server, on the clock of the server."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from valkey.asyncio import Valkey
from valkey.exceptions import ValkeyError

from wfcore.domain.kernel.errors import Unavailable
from wfcore.ports.system import Rate

TIMEOUT: Final = 1.0
"""Seconds after which the server counts as away."""

CONNECTIONS: Final = 16
"""Connections of a process: each serves one event at a time."""

_ADMIT: Final = """
local time = redis.call('TIME')
local now = tonumber(ARGV[1]) or time[1] * 1000 + math.floor(time[2] / 1000)
local waits, refused = {}, false
for i, key in ipairs(KEYS) do
    local count, length = tonumber(ARGV[2 * i]), tonumber(ARGV[2 * i + 1])
    local latest = tonumber(redis.call('LINDEX', key, 0))
    if latest and latest > now + length then
        redis.call('DEL', key)
    end
    local oldest = tonumber(redis.call('LINDEX', key, count - 1))
    waits[i] = oldest and math.max(0, oldest + length - now) or 0
    refused = refused or waits[i] > 0
end
if not refused then
    for i, key in ipairs(KEYS) do
        redis.call('LPUSH', key, now)
        redis.call('LTRIM', key, 0, ARGV[2 * i] - 1)
        redis.call('PEXPIRE', key, ARGV[2 * i + 1])
    end
end
return waits
"""
"""A list for each key has the times of its latest events in milliseconds, the latest first: as many as the rate has.

Events later than now by more than the whole time are from before the clock of the server was set back: they are over.
"""


class ValkeyRateLimiter:
    """Implements the port `RateLimiter` with one script for each event. `now` replaces the server's clock in tests."""

    def __init__(self, url: str, *, now: Callable[[], int | None] = lambda: None) -> None:
        """`url`: `redis://[user:password@]host:port/0`, `rediss://` for TLS, or the same with `valkey` for `redis`.

        Raises ValueError, without the password, for a URL that is not valid.
        """
        try:
            self._client = Valkey.from_url(url, socket_timeout=TIMEOUT, socket_connect_timeout=TIMEOUT)
            self._client.connection_pool.make_connection()  # TypeError for an unknown option; it does not connect
        except (ValueError, TypeError):
            raise ValueError("the URL of the rate limits is not valid: use `valkey://host:6379/0`") from None
        self._script: Any = self._client.register_script(_ADMIT)
        self._turns = asyncio.Semaphore(CONNECTIONS)
        self._now = now

    async def admit(self, rates: Sequence[Rate]) -> Sequence[int]:
        now = self._now()
        keys = [f"wfcore:{rate.key} {rate.seconds}" for rate in rates]
        lengths = [number for rate in rates for number in (rate.count, rate.seconds * 1000)]
        try:
            async with asyncio.timeout(TIMEOUT), self._turns:
                found: Sequence[int] = await self._script(keys=keys, args=["" if now is None else now, *lengths])
        except (ValkeyError, OSError) as error:
            raise Unavailable("the counts of rate limits cannot be reached") from error
        return found

    async def close(self) -> None:
        await self._client.aclose()
