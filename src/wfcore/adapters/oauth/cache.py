"""A cache of the issuer's keys. It sends one request at a time, and at most one in an interval, for any tokens."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from wfcore.adapters.oauth.issuer import KeysUnavailable
from wfcore.adapters.oauth.keys import VerificationKey, choose
from wfcore.domain.kernel.errors import Unavailable
from wfcore.ports.system import Clock

logger = logging.getLogger(__name__)

Keys = tuple[VerificationKey, ...]

FRESH: Final = 300
"""Seconds after which the keys are fetched again."""
STALE: Final = 3_600
"""Seconds for which cached keys are used while the issuer does not answer. After that no token can be verified."""
COOL_DOWN: Final = 5
"""Seconds between two requests. Anybody can invent key ids: they must not cause a request each."""


class KeyCache:
    """The issuer's keys, fetched with `fetch`."""

    def __init__(self, fetch: Callable[[], Awaitable[Keys]], clock: Clock) -> None:
        self._fetch = fetch
        self._clock = clock
        self._keys: Keys = ()
        self._fetched_at: int | None = None
        self._requested_at: int | None = None
        self._request: asyncio.Task[None] | None = None
        self._is_failing = False

    async def find(self, kid: str | None, algorithm: str) -> list[VerificationKey]:
        """The keys that can have signed a token with this header. Raises Unavailable when all keys are too old.

        While the issuer does not answer, a token with a known key does not wait for it.
        """
        fresh = self._within(self._fetched_at, FRESH)
        if not fresh and (request := self._requested()) is not None and not self._is_failing:
            await asyncio.shield(request)
        if not (found := self._choose(kid, algorithm)) and (request := self._requested()) is not None:
            await asyncio.shield(request)
            found = self._choose(kid, algorithm)
        if not self._within(self._fetched_at, STALE):
            raise Unavailable("the issuer of access tokens does not answer")
        return found

    async def find_other(self, known: list[VerificationKey], kid: str | None, algorithm: str) -> list[VerificationKey]:
        """The keys that replaced the `known` ones, which have not made the signature: an issuer can use an id again.

        They are requested as those of unknown ids, not more often.
        """
        if known and (request := self._requested()) is not None:
            await asyncio.shield(request)
        return [key for key in self._choose(kid, algorithm) if key not in known]

    def _choose(self, kid: str | None, algorithm: str) -> list[VerificationKey]:
        return choose(self._keys, kid, algorithm) if self._within(self._fetched_at, STALE) else []

    def _requested(self) -> asyncio.Task[None] | None:
        """The request in flight, or a new one; None before `COOL_DOWN` has passed.

        The request is a separate task: several callers wait for it, and each of them can be cancelled.
        """
        if self._request is None and not self._within(self._requested_at, COOL_DOWN):
            self._request = asyncio.create_task(self._refresh())
        return self._request

    async def _refresh(self) -> None:
        self._requested_at = self._clock.monotonic()
        try:
            self._keys = await self._fetch()
            self._is_failing, self._fetched_at = False, self._clock.monotonic()
        except Exception as reason:
            self._is_failing = True
            logger.warning(
                "no keys from the issuer of access tokens: %s", reason, exc_info=not isinstance(reason, KeysUnavailable)
            )
        finally:
            self._request, self._requested_at = None, self._clock.monotonic()

    def _within(self, since: int | None, seconds: int) -> bool:
        """Whether `since` is less than `seconds` ago, by monotonic time."""
        return since is not None and self._clock.monotonic() - since < seconds * 1000
