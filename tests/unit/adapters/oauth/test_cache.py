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
    """One request at a time, one in an interval."""

    async def test_a_stampede_of_unknown_ids_is_one_request(self) -> None:
        """A hundred tokens at once before the first answer share it, each with an id of its own."""
        issuer, _, keys = cache(OLD)
        found = await asyncio.gather(*(keys.find(f"k{number}", "ES256") for number in range(100)))
        assert issuer.asked == 1
        assert found == [[]] * 100

    async def test_unknown_ids_ask_once_in_an_interval(self) -> None:
        """However many arrive in it; and while they do, tokens of known keys are judged."""
        issuer, clock, keys = cache(OLD)
        assert await keys.find("old", "ES256")
        for interval in range(1, 4):
            clock.advance(COOL_DOWN)
            await asyncio.gather(*(keys.find(f"k{number}", "ES256") for number in range(100)))
            assert await keys.find("k", "ES256") == []
            assert issuer.asked == 1 + interval
            assert await keys.find("old", "ES256")

    async def test_a_new_key_is_found_after_the_interval(self) -> None:
        """Rotation: the unknown id makes the request that brings it, at once when none was made lately."""
        issuer, clock, keys = cache(OLD, NEW)
        assert await keys.find("old", "ES256")
        clock.advance(COOL_DOWN - 0.001)
        assert await keys.find("new", "ES256") == []
        clock.advance(0.001)
        assert [key.kid for key in await keys.find("new", "ES256")] == ["new"]
        assert issuer.asked == 2

    async def test_a_key_that_was_withdrawn_is_gone_when_keys_are_old(self) -> None:
        """It serves for as long as keys are fresh, and not once more."""
        issuer, clock, keys = cache(NEW, OLD)
        assert await keys.find("new", "ES256")
        clock.advance(FRESH - 0.001)
        assert await keys.find("new", "ES256")
        assert issuer.asked == 1
        clock.advance(0.001)
        assert await keys.find("new", "ES256") == []
        assert await keys.find("old", "ES256")

    async def test_a_silent_issuer_is_forgiven_for_a_bounded_time(self) -> None:
        """Known keys go on, then nothing can be judged; and when it speaks again, all is well."""
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

    async def test_known_keys_do_not_wait_for_a_silent_issuer(self) -> None:
        """The second request hangs; a token of a known key is judged meanwhile."""
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

    async def test_who_goes_away_takes_no_others_along(self) -> None:
        """The first asker is cancelled; the second gets the answer of that same request."""
        issuer, _, keys = cache(OLD)
        issuer.gate.clear()
        first, second = asyncio.create_task(keys.find("old", "ES256")), asyncio.create_task(keys.find("old", "ES256"))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        issuer.gate.set()
        assert [key.kid for key in await second] == ["old"]
        assert issuer.asked == 1

    async def test_nothing_can_be_judged_before_the_first_answer(self) -> None:
        """A good token is not called bad because the issuer is down: that is our failure, asked for once."""
        issuer, _, keys = cache(None)
        results = await asyncio.gather(*(keys.find("old", "ES256") for _ in range(100)), return_exceptions=True)
        assert {type(result) for result in results} == {Unavailable}
        assert issuer.asked == 1

    async def test_a_bug_in_asking_is_silence(self, caplog: pytest.LogCaptureFixture) -> None:
        """Whatever goes wrong in the request, the waiting tokens get an answer, and the log the trace."""

        def broken() -> Awaitable[Any]:
            raise KeyError("surprise")

        with pytest.raises(Unavailable):
            await KeyCache(broken, FakeClock()).find("old", "ES256")
        assert "surprise" in caplog.text

    async def test_a_clock_set_back_stops_nothing(self) -> None:
        """What seems to have been asked in the future is asked anew."""
        issuer, clock, keys = cache(OLD, NEW)
        await keys.find("old", "ES256")
        clock.advance(-3_600)
        assert await keys.find("new", "ES256")
        assert issuer.asked == 2
