"""The cache of an issuer's keys: how often it requests them, and how long it uses them."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest
from issuing import EC, FOREIGN, jwk

from wfcore.adapters.oauth.cache import COOL_DOWN, FRESH, STALE, KeyCache
from wfcore.adapters.oauth.issuer import KeysUnavailable
from wfcore.adapters.oauth.keys import VerificationKey, read_keys
from wfcore.domain.kernel.errors import Unavailable
from wfcore.testing.fakes import FakeClock

pytestmark = pytest.mark.anyio


class Scripted:
    """An issuer that gives these key sets one after the other, the last for ever; None is silence."""

    def __init__(self, *sets: dict[str, Any] | None) -> None:
        self.sets = list(sets)
        self.asked = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def keys(self) -> tuple[VerificationKey, ...]:
        self.asked += 1
        await self.gate.wait()
        found = self.sets[min(self.asked, len(self.sets)) - 1]
        if found is None:
            raise KeysUnavailable("nobody there")
        return read_keys(found)


def cache(*sets: dict[str, Any] | None) -> tuple[Scripted, FakeClock, KeyCache]:
    issuer, clock = Scripted(*sets), FakeClock()
    return issuer, clock, KeyCache(issuer.keys, clock)


OLD, NEW = {"keys": [jwk("old", EC)]}, {"keys": [jwk("new", FOREIGN), jwk("old", EC)]}


class TestCache:
    """One request at a time, and one in an interval."""

    async def test_concurrent_unknown_ids_share_one_request(self) -> None:
        """A hundred tokens before the first response share one request, each with a different key id."""
        issuer, _, keys = cache(OLD)
        found = await asyncio.gather(*(keys.find(f"k{number}", "ES256") for number in range(100)))
        assert issuer.asked == 1
        assert found == [[]] * 100

    async def test_unknown_ids_cause_one_request_in_an_interval(self) -> None:
        """Any number of unknown ids causes one request in an interval, and known keys still verify."""
        issuer, clock, keys = cache(OLD)
        assert await keys.find("old", "ES256")
        for interval in range(1, 4):
            clock.advance(COOL_DOWN)
            await asyncio.gather(*(keys.find(f"k{number}", "ES256") for number in range(100)))
            assert await keys.find("k", "ES256") == []
            assert issuer.asked == 1 + interval
            assert await keys.find("old", "ES256")

    async def test_a_new_key_is_found_after_the_interval(self) -> None:
        """Rotation: the unknown id causes the request that finds the key, at once if none was made lately."""
        issuer, clock, keys = cache(OLD, NEW)
        assert await keys.find("old", "ES256")
        clock.advance(COOL_DOWN - 0.001)
        assert await keys.find("new", "ES256") == []
        clock.advance(0.001)
        assert [key.kid for key in await keys.find("new", "ES256")] == ["new"]
        assert issuer.asked == 2

    async def test_another_key_with_a_known_id_is_found_after_the_interval(self) -> None:
        """One that did not make a signature can have been replaced. Any number of such tokens causes one request."""
        issuer, clock, keys = cache(OLD, {"keys": [jwk("old", FOREIGN)]})
        known = await keys.find("old", "ES256")
        assert await keys.find_other(known, "old", "ES256") == []
        clock.advance(COOL_DOWN)
        found = await asyncio.gather(*(keys.find_other(known, "old", "ES256") for _ in range(100)))
        assert [[key.kid for key in each] for each in found] == [["old"]] * 100
        assert await keys.find_other(found[0], "old", "ES256") == []
        assert issuer.asked == 2

    async def test_a_withdrawn_key_is_dropped_when_keys_are_old(self) -> None:
        """It is used as long as keys are fresh, and not after."""
        issuer, clock, keys = cache(NEW, OLD)
        assert await keys.find("new", "ES256")
        clock.advance(FRESH - 0.001)
        assert await keys.find("new", "ES256")
        assert issuer.asked == 1
        clock.advance(0.001)
        assert await keys.find("new", "ES256") == []
        assert await keys.find("old", "ES256")

    async def test_keys_survive_a_failing_issuer_for_a_bounded_time(self) -> None:
        """Known keys are used for a time, then every token is refused; all works again when the issuer responds."""
        issuer, clock, keys = cache(OLD, None, None, None, OLD)
        assert await keys.find("old", "ES256")
        clock.advance(FRESH)
        assert await keys.find("old", "ES256")
        assert await keys.find("unknown", "ES256") == []
        clock.advance(STALE - FRESH - 0.001)
        assert await keys.find("old", "ES256")
        clock.advance(0.001)
        with pytest.raises(Unavailable):
            await keys.find("old", "ES256")
        clock.advance(COOL_DOWN)
        with pytest.raises(Unavailable):
            await keys.find("old", "ES256")
        clock.advance(COOL_DOWN)
        assert await keys.find("old", "ES256")
        assert issuer.asked == 5

    async def test_known_keys_do_not_wait_for_a_failing_issuer(self) -> None:
        """While the second request hangs, a token with a known key is verified."""
        issuer, clock, keys = cache(OLD, None, OLD)
        await keys.find("old", "ES256")
        clock.advance(FRESH)
        await keys.find("old", "ES256")
        clock.advance(COOL_DOWN)
        issuer.gate.clear()
        assert await keys.find("old", "ES256")
        await asyncio.sleep(0)
        assert issuer.asked == 3
        issuer.gate.set()
        assert await keys.find("unknown", "ES256") == []

    async def test_a_cancelled_caller_does_not_cancel_others(self) -> None:
        """The first caller is cancelled; the second one gets the response to the same request."""
        issuer, _, keys = cache(OLD)
        issuer.gate.clear()
        first, second = asyncio.create_task(keys.find("old", "ES256")), asyncio.create_task(keys.find("old", "ES256"))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        issuer.gate.set()
        assert [key.kid for key in await second] == ["old"]
        assert issuer.asked == 1

    async def test_before_the_first_response_the_cache_is_unavailable(self) -> None:
        """A token is not refused because the issuer is down: the cache is Unavailable, after one request."""
        issuer, _, keys = cache(None)
        results = await asyncio.gather(*(keys.find("old", "ES256") for _ in range(100)), return_exceptions=True)
        assert {type(result) for result in results} == {Unavailable}
        assert issuer.asked == 1

    async def test_any_error_of_the_request_is_unavailable(self, caplog: pytest.LogCaptureFixture) -> None:
        """Any error of the request makes the cache Unavailable, and the log has the traceback."""

        def broken() -> Awaitable[Any]:
            raise KeyError("surprise")

        with pytest.raises(Unavailable):
            await KeyCache(broken, FakeClock()).find("old", "ES256")
        assert "surprise" in caplog.text

    @pytest.mark.parametrize("seconds", [-86_400, 86_400])
    async def test_steps_of_the_wall_clock_change_nothing(self, seconds: int) -> None:
        """Ages are monotonic: keys stay usable, and the intervals between requests stay the same."""
        issuer, clock, keys = cache(OLD, None)
        await keys.find("old", "ES256")
        clock.step(seconds)
        assert await keys.find("old", "ES256")
        assert issuer.asked == 1
        clock.advance(FRESH)
        assert await keys.find("old", "ES256")
        clock.advance(STALE - FRESH)
        with pytest.raises(Unavailable):
            await keys.find("old", "ES256")
