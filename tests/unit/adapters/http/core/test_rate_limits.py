"""Rate limits by the minute: never more requests than the limit, and a correct wait."""

import asyncio

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from starlette.requests import HTTPConnection

from wfcore.adapters.http.core.rate_limits import MAX_ADDRESSES, SECOND, FailedAuthentications, RateLimits
from wfcore.adapters.rate_limits.counts import MemoryRateLimiter
from wfcore.domain.kernel.errors import RateLimited, Unauthenticated
from wfcore.domain.resources.access import Principal, Role
from wfcore.testing.contracts.processes.rate_limiter import Watch

pytestmark = pytest.mark.anyio

ORG, OTHER = "00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"


def who(user: str = "u1", org: str = ORG) -> Principal:
    return Principal(org, user, None, frozenset(), frozenset(), Role.MEMBER)


async def refusal(limits: RateLimits, me: Principal) -> RateLimited | None:
    try:
        await limits.admit(me)
    except RateLimited as error:
        return error
    return None


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def limiter(watch: Watch) -> MemoryRateLimiter:
    return MemoryRateLimiter(now=watch)


async def test_without_limits_nothing_is_stored(limiter: MemoryRateLimiter) -> None:
    """Without limits no request is refused, and none stored."""
    limits = RateLimits(limiter, None, None)
    for _ in range(1000):
        await limits.admit(who())
    assert len(limiter) == 0


async def test_a_refusal_names_the_limit_and_the_wait(limiter: MemoryRateLimiter, watch: Watch) -> None:
    """The error names the limit that was reached, and the seconds until the oldest request is a minute old."""
    limits = RateLimits(limiter, 2, None)
    await limits.admit(who())
    watch.now += 10_001
    await limits.admit(who())
    refused = await refusal(limits, who())
    assert refused is not None
    assert (refused.http, refused.code, refused.status) == (429, "RATE_LIMITED", "RESOURCE_EXHAUSTED")
    assert refused.info == {"limit": "principal", "requestsPerMinute": 2, "retryAfterSeconds": 50}


async def test_each_principal_has_its_own_limit(limiter: MemoryRateLimiter) -> None:
    """Requests of one user do not count for another, nor for a user of the same name in another organization."""
    limits = RateLimits(limiter, 1, None)
    for me in (who("a"), who("b"), who("a", OTHER)):
        await limits.admit(me)
        assert await refusal(limits, me) is not None


async def test_an_organization_shares_its_limit(limiter: MemoryRateLimiter, watch: Watch) -> None:
    """All users of an organization share its limit; a request that one limit refuses does not count for the other."""
    limits = RateLimits(limiter, 5, 2)
    await limits.admit(who("a"))
    await limits.admit(who("b"))
    for _ in range(20):
        refused = await refusal(limits, who("a"))
        assert refused is not None
        assert refused.info["limit"] == "organization"
    await limits.admit(who("a", OTHER))
    watch.now += 60_000
    await limits.admit(who("a"))
    await limits.admit(who("a"))
    assert await refusal(limits, who("a")) is not None, "the organization's, again"


@given(st.integers(1, 5), st.lists(st.integers(0, 40_000), min_size=1, max_size=60))
@example(2, [0, 30_000, 31_000, 1_000])
def test_no_minute_has_more_than_the_limit(most: int, pauses: list[int]) -> None:
    """At any pace, no 60 seconds have more requests than the limit, and no request is refused without need."""
    watch = Watch()
    limits = RateLimits(MemoryRateLimiter(now=watch), most, None)
    admitted: list[int] = []
    for pause in pauses:
        watch.now += pause
        recent = [at for at in admitted if at > watch.now - 60_000]
        refused = asyncio.run(refusal(limits, who()))
        assert (refused is None) == (len(recent) < most)
        if refused is None:
            admitted.append(watch.now)


@given(st.integers(1, 4), st.lists(st.integers(0, 30_000), min_size=4, max_size=30))
def test_the_wait_is_correct(most: int, pauses: list[int]) -> None:
    """A request is accepted after `retryAfterSeconds`, and refused a second sooner; refused requests change nothing."""

    async def check_waits() -> None:
        watch = Watch()
        limits = RateLimits(MemoryRateLimiter(now=watch), most, None)
        for pause in pauses:
            watch.now += pause
            refused = await refusal(limits, who())
            if refused is None:
                continue
            seconds = refused.info["retryAfterSeconds"]
            assert isinstance(seconds, int)
            assert 1 <= seconds <= 60
            at = watch.now
            watch.now = at + (seconds - 1) * 1000
            assert await refusal(limits, who()) is not None
            watch.now = at + seconds * 1000
            await limits.admit(who())

    asyncio.run(check_waits())


@pytest.mark.parametrize("most", [1, 1000])
async def test_storage_of_a_principal_is_bounded_by_its_limit(limiter: MemoryRateLimiter, most: int) -> None:
    """However often a principal is refused, at most as many times as the limit are stored."""
    limits = RateLimits(limiter, most, None)
    refused = sum([await refusal(limits, who()) is not None for _ in range(most + 500)])
    assert refused == 500
    assert [len(events.times) for events in limiter._events.values()] == [most]


def check(valid: bool) -> None:
    if not valid:
        raise Unauthenticated("no")


class TestFailedAuthentications:
    """A token bucket for each address."""

    @staticmethod
    def attempt(failures: FailedAuthentications, host: str, token: str, *, valid: bool = False) -> str:
        headers = [(b"authorization", token.encode())] if token else []
        connection = HTTPConnection({"type": "http", "headers": headers, "client": (host, 1)})
        try:
            with failures.counted(connection):
                check(valid)
        except (Unauthenticated, RateLimited) as error:
            return f"{error.http} {error.info.get('retryAfterSeconds', '')}".strip()
        return "200"

    def test_the_bucket_of_an_address_empties_and_fills(self) -> None:
        """Six failures a minute: the seventh is refused, and one more is tried after ten seconds."""
        clock = [0]
        failures = FailedAuthentications(6, now=lambda: clock[0])
        assert [self.attempt(failures, "192.0.2.1", f"t{n}") for n in range(7)] == ["401"] * 6 + ["429 10"]
        assert self.attempt(failures, "192.0.2.2", "t") == "401"
        clock[0] += 10 * SECOND
        assert [self.attempt(failures, "192.0.2.1", "t") for _ in range(2)] == ["401", "429 10"]

    def test_a_valid_credential_is_not_locked_out(self) -> None:
        """One that was valid lately is tried; a new one waits, and a missing one does not count."""
        failures = FailedAuthentications(1, now=lambda: 0)
        assert self.attempt(failures, "192.0.2.1", "good", valid=True) == "200"
        assert self.attempt(failures, "192.0.2.1", "") == "401"
        assert self.attempt(failures, "192.0.2.1", "bad") == "401"
        assert self.attempt(failures, "192.0.2.1", "good", valid=True) == "200"
        assert self.attempt(failures, "192.0.2.1", "other", valid=True) == "429 60"
        assert self.attempt(failures, "192.0.2.1", "good") == "401"
        assert self.attempt(failures, "192.0.2.1", "good", valid=True) == "429 120"

    def test_a_network_of_ipv6_is_one_address(self) -> None:
        """64 bits of IPv6 are one client; an IPv4 address written as IPv6 is itself."""
        failures = FailedAuthentications(1, now=lambda: 0)
        assert self.attempt(failures, "2001:db8::1", "a") == "401"
        assert self.attempt(failures, "2001:db8::2", "a").startswith("429")
        assert self.attempt(failures, "::ffff:192.0.2.1", "a") == "401"
        assert self.attempt(failures, "::ffff:192.0.2.2", "a") == "401"

    def test_the_memory_is_bounded(self) -> None:
        """The latest addresses and credentials are remembered."""
        failures = FailedAuthentications(1, now=lambda: 0)
        for number in range(MAX_ADDRESSES + 100):
            self.attempt(failures, f"host {number}", f"{number}")
            self.attempt(failures, "192.0.2.1", f"{number}", valid=True)
        assert len(failures) == 2 * MAX_ADDRESSES
