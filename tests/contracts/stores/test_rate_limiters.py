"""The contract of rate limiters for each adapter, shared ones as two processes have them; and a store that is away."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from traceback import format_exception

import psycopg
import pytest
from postgres_server import WAITS, new_database
from valkey_server import ValkeyServer, shared_valkey
from waiting import HANG, until

from wfcore.adapters.rate_limits import valkey as valkey_limiter
from wfcore.adapters.rate_limits.counts import RETRY_AFTER, MemoryRateLimiter, SharedRateLimiter
from wfcore.adapters.rate_limits.valkey import ValkeyRateLimiter
from wfcore.adapters.sql.postgres import rate_limiter as postgres_limiter
from wfcore.adapters.sql.postgres.rate_limiter import PostgresRateLimiter
from wfcore.bootstrap import open as opened
from wfcore.domain.kernel.errors import Unavailable
from wfcore.ports.system import Rate, RateLimiter
from wfcore.runtime.common.installation import Settings
from wfcore.testing.contracts.processes.rate_limiter import ORG, RateLimiterContract, Watch, is_admitted


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No server counts as away because the machine is busy."""
    for module in (postgres_limiter, valkey_limiter):
        monkeypatch.setattr(module, "TIMEOUT", HANG)


class TestMemoryRateLimiter(RateLimiterContract):
    @asynccontextmanager
    async def open_limiters(self, place: Path, now: Callable[[], int]) -> AsyncIterator[Sequence[RateLimiter]]:
        limiter = MemoryRateLimiter(now=now)
        yield [limiter]
        await limiter.close()


@pytest.mark.service
class TestPostgresRateLimiter(RateLimiterContract):
    @asynccontextmanager
    async def open_limiters(self, place: Path, now: Callable[[], int]) -> AsyncIterator[Sequence[RateLimiter]]:
        url = new_database()
        limiters = [PostgresRateLimiter(url, now=now) for _ in range(2)]
        yield limiters
        for limiter in limiters:
            await limiter.close()


@pytest.mark.service
@pytest.mark.anyio
async def test_another_process_creates_the_table_at_the_same_moment() -> None:
    """PostgreSQL refuses the second of two that create a table, although it must not exist already."""
    url = new_database()
    limiter = PostgresRateLimiter(url)
    with psycopg.connect(url) as other, psycopg.connect(url, autocommit=True) as watch:
        other.execute(postgres_limiter._CREATE.server("wfcore"))
        admitting = asyncio.create_task(limiter.admit([Rate(ORG, 1)]))
        await until(lambda: watch.execute(WAITS).fetchone() is not None)
        other.commit()
        assert await admitting == [0]
    await limiter.close()


class TestValkeyRateLimiter(RateLimiterContract):
    @asynccontextmanager
    async def open_limiters(self, place: Path, now: Callable[[], int]) -> AsyncIterator[Sequence[RateLimiter]]:
        server = shared_valkey()
        server.empty()
        limiters = [ValkeyRateLimiter(server.url, now=now) for _ in range(2)]
        yield limiters
        for limiter in limiters:
            await limiter.close()


class Away:
    """A shared limiter whose counts cannot be reached while `is_away`."""

    def __init__(self) -> None:
        self.is_away = True
        self.calls = 0

    async def admit(self, rates: Sequence[Rate]) -> Sequence[int]:
        self.calls += 1
        if self.is_away:
            raise Unavailable("away")
        return [0] * len(rates)

    async def close(self) -> None:
        self.calls = -1


@pytest.mark.anyio
async def test_a_process_counts_for_itself_while_shared_counts_are_away(caplog: pytest.LogCaptureFixture) -> None:
    """Its own counts have the same rates; the shared ones are tried again after some seconds, not for each event."""
    shared, watch = Away(), Watch()
    limiter = SharedRateLimiter(shared, now=watch)
    assert [await is_admitted(limiter, Rate(ORG, 2)) for _ in range(3)] == [True, True, False]
    assert (shared.calls, len(caplog.messages)) == (1, 1)
    shared.is_away = False
    watch.now += RETRY_AFTER
    assert [await is_admitted(limiter, Rate(ORG, 2)) for _ in range(3)] == [True] * 3
    await limiter.close()
    assert shared.calls == -1


@pytest.mark.anyio
async def test_idle_keys_are_forgotten() -> None:
    """Those without events in their own time, whatever the times of others."""
    watch = Watch()
    limiter = MemoryRateLimiter(now=watch)
    for number in range(100):
        await limiter.admit([Rate(f"{ORG}:{number}", 1, 60)])
    await limiter.admit([Rate(f"{ORG}:day", 1, 86_400)])
    watch.now += 60_000
    await limiter.admit([Rate(ORG, 1)])
    assert len(limiter) == 2


@pytest.mark.anyio
@pytest.mark.parametrize("open_limiter", [PostgresRateLimiter, ValkeyRateLimiter])
async def test_a_server_that_is_away(open_limiter: Callable[[str], RateLimiter]) -> None:
    """No server at this address: Unavailable, which `SharedRateLimiter` expects."""
    scheme = "postgresql" if open_limiter is PostgresRateLimiter else "redis"
    limiter = open_limiter(f"{scheme}://127.0.0.1:1/0")
    with pytest.raises(Unavailable):
        await limiter.admit([Rate(ORG, 1)])
    await limiter.close()


@pytest.mark.anyio
async def test_valkey_counts_on_its_own_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process whose clock is a day ahead forgets no event of others."""
    server, rate, right = shared_valkey(), Rate("day ahead", 1), time.time
    limiters = [ValkeyRateLimiter(server.url) for _ in range(2)]
    assert await is_admitted(limiters[0], rate)
    monkeypatch.setattr(time, "time", lambda: right() + 86_400)
    assert not await is_admitted(limiters[1], rate)
    for limiter in limiters:
        await limiter.close()


@pytest.mark.anyio
async def test_a_server_that_hangs_and_dies(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stopped server is Unavailable after a time, a killed one at once."""
    server = ValkeyServer().start()
    limiter = ValkeyRateLimiter(server.url)
    try:
        assert await is_admitted(limiter, Rate(ORG, 1))
        server.signal(signal.SIGSTOP)
        monkeypatch.setattr(valkey_limiter, "TIMEOUT", 0.2)
        with pytest.raises(Unavailable):
            await limiter.admit([Rate(ORG, 1)])
    finally:
        server.kill()
    with pytest.raises(Unavailable):
        await limiter.admit([Rate(ORG, 1)])
    await limiter.close()


@pytest.mark.anyio
@pytest.mark.service
async def test_idle_keys_are_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys whose events count no more have no row after the next hour."""
    url, watch = new_database(), Watch()
    monkeypatch.setattr(postgres_limiter, "DROP_SECONDS", -1)
    limiter = PostgresRateLimiter(url, now=watch)
    await limiter.admit([Rate(f"{ORG}:{number}", 1) for number in range(5)])
    watch.now += 62_000
    assert not any(await limiter.admit([Rate(ORG, 1)]))
    await limiter.close()
    with psycopg.connect(url, autocommit=True) as connection:
        assert connection.execute("DELETE FROM wfcore.rate_counts RETURNING key").fetchall() == [(f"{ORG} 60",)]


@pytest.mark.anyio
@pytest.mark.service
@pytest.mark.parametrize("on_postgres", [True, False])
async def test_a_server_whose_clock_was_set_back(on_postgres: bool) -> None:
    """The counts of its earlier time end: the rate holds in the new one, and no event waits for the old one."""
    watch, rate = Watch(), Rate("set back", 2)
    limiter: RateLimiter = (
        PostgresRateLimiter(new_database(), now=watch)
        if on_postgres
        else ValkeyRateLimiter(shared_valkey().url, now=watch)
    )
    assert [await is_admitted(limiter, rate) for _ in range(3)] == [True, True, False]
    watch.now -= 3_600_000
    assert [await is_admitted(limiter, rate) for _ in range(3)] == [True, True, False]
    (wait,) = await limiter.admit([rate])
    assert wait <= 61_000
    watch.now += wait
    assert await is_admitted(limiter, rate)
    await limiter.close()


@pytest.mark.anyio
@pytest.mark.service
async def test_servers_share_the_counts_that_a_setting_names() -> None:
    """Two processes on each shared backend admit as many as one; those of `memory` twice as many."""
    url = new_database()
    for backend, most in (("database", 3), (shared_valkey().url, 3), ("memory", 6)):
        settings, rate = Settings(limits_backend=backend), Rate(f"{backend}:setting", 3)
        async with opened(url, settings=settings, worker=False) as one, opened(url, settings=settings) as two:
            limiters = [one.ports.rate_limiter, two.ports.rate_limiter] * 10
            assert sum([await is_admitted(limiter, rate) for limiter in limiters]) == most


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("backend", "named"),
    [
        ("database", "only on PostgreSQL"),
        ("other", "unknown `limits_backend`"),
        ("Redis://ann:canary@h", "unknown `limits_backend`"),
        ("redis://ann:canary@h:port", "is not valid"),
        ("valkey://ann:canary@h:99999/0", "is not valid"),
        ("valkey://ann:canary@h/0?unknown=1", "is not valid"),
    ],
)
async def test_a_backend_that_cannot_be_used(backend: str, named: str) -> None:
    """An error that says what can be used, and does not show the password of a URL."""
    with pytest.raises(ValueError, match=named) as caught:
        async with opened("sqlite://", settings=Settings(limits_backend=backend)):
            pass
    assert "canary" not in "".join(format_exception(caught.value))
