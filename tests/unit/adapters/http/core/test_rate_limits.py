"""Rate limits by the minute: never more requests than the limit, and a correct wait."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import HTTPConnection

from wfcore.adapters.http.core.rate_limits import MAX_ADDRESSES, SECOND, WINDOW, FailedAuthentications, RateLimits
from wfcore.domain.kernel.errors import RateLimited, Unauthenticated
from wfcore.domain.resources.access import Principal, Role

ORG, OTHER = "00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"


def who(user: str = "u1", org: str = ORG) -> Principal:
    return Principal(org, user, None, frozenset(), frozenset(), Role.MEMBER)


class Watch:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000 * SECOND

    def __call__(self) -> int:
        return self.now


def refusal(limits: RateLimits, me: Principal) -> RateLimited | None:
    try:
        limits.admit(me)
    except RateLimited as error:
        return error
    return None


def test_without_limits_nothing_is_stored() -> None:
    """Without limits no request is refused, and none stored."""
    limits = RateLimits(None, None)
    for _ in range(1000):
        limits.admit(who())
    assert len(limits) == 0


def test_a_refusal_names_the_limit_and_the_wait() -> None:
    """The error names the limit that was reached, and the seconds until the oldest request is a minute old."""
    watch = Watch()
    limits = RateLimits(2, None, now=watch)
    limits.admit(who())
    watch.now += 10 * SECOND + 1
    limits.admit(who())
    refused = refusal(limits, who())
    assert refused is not None
    assert (refused.http, refused.code, refused.status) == (429, "RATE_LIMITED", "RESOURCE_EXHAUSTED")
    assert refused.info == {"limit": "principal", "requestsPerMinute": 2, "retryAfterSeconds": 50}


def test_the_window_slides() -> None:
    """After the oldest request is a minute old, one more is admitted, and not as many as the limit."""
    watch = Watch()
    limits = RateLimits(2, None, now=watch)
    limits.admit(who())
    watch.now += 50 * SECOND
    limits.admit(who())
    watch.now += 11 * SECOND
    limits.admit(who())
    refused = refusal(limits, who())
    assert refused is not None
    assert refused.info["retryAfterSeconds"] == 49


def test_each_principal_has_its_own_limit() -> None:
    """Requests of one user do not count for another, nor for a user of the same name in another organization."""
    limits = RateLimits(1, None, now=Watch())
    for me in (who("a"), who("b"), who("a", OTHER)):
        limits.admit(me)
        assert refusal(limits, me) is not None


def test_an_organization_shares_its_limit() -> None:
    """All users of an organization share its limit; a request that one limit refuses does not count for the other."""
    watch = Watch()
    limits = RateLimits(5, 2, now=watch)
    limits.admit(who("a"))
    limits.admit(who("b"))
    for _ in range(20):
        refused = refusal(limits, who("a"))
        assert refused is not None
        assert refused.info["limit"] == "organization"
    limits.admit(who("a", OTHER))
    watch.now += WINDOW
    limits.admit(who("a"))
    limits.admit(who("a"))
    assert refusal(limits, who("a")) is not None, "the organization's, again"


@given(st.integers(1, 5), st.lists(st.integers(0, 40 * SECOND), min_size=1, max_size=60))
def test_no_minute_has_more_than_the_limit(most: int, pauses: list[int]) -> None:
    """At any pace, no 60 seconds have more requests than the limit, and no request is refused without need."""
    watch = Watch()
    limits = RateLimits(most, None, now=watch)
    admitted: list[int] = []
    for pause in pauses:
        watch.now += pause
        recent = [at for at in admitted if at > watch.now - WINDOW]
        refused = refusal(limits, who())
        assert (refused is None) == (len(recent) < most)
        if refused is None:
            admitted.append(watch.now)


@given(st.integers(1, 4), st.lists(st.integers(0, 30 * SECOND), min_size=4, max_size=30))
def test_the_wait_is_correct(most: int, pauses: list[int]) -> None:
    """A request is accepted after `retryAfterSeconds`, and refused a second sooner; refused requests change nothing."""
    watch = Watch()
    limits = RateLimits(most, None, now=watch)
    for pause in pauses:
        watch.now += pause
        refused = refusal(limits, who())
        if refused is None:
            continue
        seconds = refused.info["retryAfterSeconds"]
        assert isinstance(seconds, int)
        assert 1 <= seconds <= 60
        at = watch.now
        watch.now = at + (seconds - 1) * SECOND
        assert refusal(limits, who()) is not None
        watch.now = at + seconds * SECOND
        limits.admit(who())


def test_storage_is_bounded_by_the_last_minute() -> None:
    """A flood of principals is dropped after a minute: nothing remains of a principal without accepted requests."""
    watch = Watch()
    limits = RateLimits(2, 10_000_000, now=watch)
    for number in range(5_000):
        limits.admit(who(f"u{number}"))
    assert len(limits) == 5_001
    watch.now += WINDOW
    limits.admit(who("one"))
    assert len(limits) == 2


@pytest.mark.parametrize("most", [1, 1000])
def test_storage_of_a_principal_is_bounded_by_its_limit(most: int) -> None:
    """However often a principal is refused, at most as many times as the limit are stored."""
    limits = RateLimits(most, None, now=Watch())
    refused = sum(refusal(limits, who()) is not None for _ in range(most + 500))
    assert refused == 500
    assert [len(times) for times in limits._times.values()] == [most]


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
