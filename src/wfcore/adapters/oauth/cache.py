"""The issuer's keys, kept: at most one request at a time and one in an interval, whatever the tokens ask for."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from wfcore.adapters.oauth.issuer import Silent
from wfcore.adapters.oauth.keys import VerificationKey, choose
from wfcore.domain.kernel.errors import Unavailable
from wfcore.ports.system import Clock

logger = logging.getLogger(__name__)

Keys = tuple[VerificationKey, ...]

FRESH: Final = 300
"""Seconds after which keys are asked for again."""
STALE: Final = 3_600
"""Seconds that keys go on being used while the issuer cannot be asked. Then no token can be judged."""
COOL_DOWN: Final = 5
"""Seconds between two requests, so that unknown key ids, which anybody can make up, do not become requests."""


class KeyCache:
    """Keys by id."""

    def __init__(self, fetch: Callable[[], Awaitable[Keys]], clock: Clock) -> None:
        self._fetch = fetch
        self._clock = clock
        self._keys: Keys = ()
        self._fetched_at: int | None = None
        self._asked_at: int | None = None
        self._flight: asyncio.Task[None] | None = None
        self._silent = False

    async def find(self, kid: str | None, algorithm: str) -> list[VerificationKey]:
        """The keys that a token with this header may be signed with. Unavailable when no token can be judged.

        While the issuer is silent, tokens of keys that are known do not wait for it.
        """
        fresh = self._within(self._fetched_at, FRESH)
        if not fresh and (flight := self._ask()) is not None and not self._silent:
            await asyncio.shield(flight)
        if not (found := self._choose(kid, algorithm)) and (flight := self._ask()) is not None:
            await asyncio.shield(flight)
            found = self._choose(kid, algorithm)
        if not self._within(self._fetched_at, STALE):
            raise Unavailable("the issuer of access tokens does not answer")
        return found

    def _choose(self, kid: str | None, algorithm: str) -> list[VerificationKey]:
        return choose(self._keys, kid, algorithm) if self._within(self._fetched_at, STALE) else []

    def _ask(self) -> asyncio.Task[None] | None:
        """The request that is under way, or a new one; None while it is too early for one.

        It is a task of its own: the request of whoever came first may be cancelled, and others wait too.
        """
        if self._flight is None and not self._within(self._asked_at, COOL_DOWN):
            self._flight = asyncio.create_task(self._refresh())
        return self._flight

    async def _refresh(self) -> None:
        self._asked_at = self._clock.now()
        try:
            self._keys = await self._fetch()
            self._silent, self._fetched_at = False, self._clock.now()
        except Exception as reason:
            self._silent = True
            logger.warning(
                "no keys from the issuer of access tokens: %s", reason, exc_info=not isinstance(reason, Silent)
            )
        finally:
            self._flight, self._asked_at = None, self._clock.now()

    def _within(self, since: int | None, seconds: int) -> bool:
        """Whether that was less than so many seconds ago. A clock that was set back ends every wait."""
        return since is not None and 0 <= self._clock.now() - since < seconds * 1000
