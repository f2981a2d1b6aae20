"""The choice of the shard for a call: by the organization that the first argument names, or every shard."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping
from typing import Any, Final, Generic, TypeVar

from wfcore.domain.kernel.errors import NotFound, Unavailable
from wfcore.domain.resources.access import Principal
from wfcore.ports.journal import JournalConflict
from wfcore.ports.shards import MAIN, Moving, Placements

log = logging.getLogger("wfcore.shards")

T = TypeVar("T")
R = TypeVar("R")

PATIENCE: Final = 10.0
"""Seconds for which a write waits for the move of its organization."""

RETRY: Final = 0.02
"""Seconds between two attempts at such a write."""

ANSWERS_WITHIN: Final = 2.0
"""Seconds after which a shard counts as unavailable in a call to all shards: the others must not wait for it."""


class Shards(Generic[T]):
    """The same part (storage, journal, ...) of every shard, by the shard's name; the first one is that of `MAIN`."""

    def __init__(self, parts: Mapping[str, T], placements: Placements) -> None:
        self.parts = parts
        self.placements = placements
        self._down: set[str] = set()

    def of_part(self, choose: Callable[[T], R]) -> "Shards[R]":
        """The shards of a part of the part."""
        return Shards({name: choose(part) for name, part in self.parts.items()}, self.placements)

    @property
    def main(self) -> T:
        return self.parts[MAIN]

    async def of(self, org: str) -> T:
        """That of the organization's shard. Raises Unavailable when the settings do not have the shard."""
        return self.named(await self.name_of(org))

    def named(self, shard: str) -> T:
        if shard not in self.parts:
            raise Unavailable(f"shard `{shard}` is not in the settings: add it to `[shards]`")
        return self.parts[shard]

    async def write(self, org: str, call: Callable[[T], Awaitable[R]]) -> R:
        """Call it on the organization's shard, again while the organization is being moved.

        A call that was late finds nothing on the shard that the organization has left: it is made on the other one.
        """
        end = time.monotonic() + PATIENCE
        while True:
            shard = await self.name_of(org)
            try:
                return await call(self.named(shard))
            except (JournalConflict, NotFound):
                if shard == await self.name_of(org):
                    raise
            except Moving:
                if time.monotonic() >= end:
                    raise
                await asyncio.sleep(RETRY)

    async def each(self, call: Callable[[T], Awaitable[R]], among: Collection[str] | None = None) -> dict[str, R]:
        """Call it on every shard, or on those, at once. One that does not respond is left out; Unavailable if all are.

        A shard that does not respond has done the work, or will do it, or not: the caller must be able to repeat it.
        """

        async def within_time(part: T) -> R:
            async with asyncio.timeout(ANSWERS_WITHIN):
                return await call(part)

        names = self.parts if among is None else among
        calls = [within_time(self.parts[name]) for name in names]
        found, failed = {}, list[BaseException]()
        for name, outcome in zip(names, await asyncio.gather(*calls, return_exceptions=True), strict=True):
            if not isinstance(outcome, BaseException):
                found[name] = outcome
                self._down.discard(name)
            elif isinstance(outcome, Unavailable | TimeoutError):
                failed.append(outcome)
                self._note(name, outcome)
            else:
                raise outcome
        if not found:
            raise Unavailable("no shard responds") from failed[0]
        return found

    async def every(self, call: Callable[[T], Awaitable[R]]) -> dict[str, R]:
        """As `each`, but raises Unavailable when any shard does not respond."""
        found = await self.each(call)
        self.check_all(found)
        return found

    def check_all(self, found: Collection[str]) -> None:
        """Raises Unavailable unless every shard is among them."""
        for name in sorted(self.parts.keys() - found):
            raise Unavailable(f"shard `{name}` does not respond")

    async def own(self, rows: Mapping[str, Iterable[R]], org_of: Callable[[R], str]) -> list[R]:
        """The rows of those organizations that are on the shard on which they were found."""
        return [row for name, found in rows.items() for row in found if name == await self.name_of(org_of(row))]

    async def name_of(self, org: str) -> str:
        """The name of the organization's shard."""
        return self.placements.cached(org) or (await self.placements.of(org)).shard

    async def joined(self, join: Callable[[T], Awaitable[R]]) -> R:
        """The part in a transaction of the embedding product: that of the shard to which the connection is.

        Raises ValueError for a connection to another database.
        """
        *others, last = self.parts.values()
        for part in others:
            try:
                return await join(part)
            except ValueError:
                continue
        return await join(last)

    def _note(self, name: str, error: BaseException) -> None:
        """Log the first failure of a shard; the others until it responds again are not news."""
        if name not in self._down and not isinstance(error, Moving):
            self._down.add(name)
            log.warning("a shard does not respond: its organizations wait", extra={"shard": name}, exc_info=error)


def org_of(whose: Any) -> str:
    """The organization that the first argument of a call names; empty for an empty list."""
    if isinstance(whose, str):
        return whose
    if isinstance(whose, Principal):
        return whose.org_uuid
    if isinstance(whose, list | tuple):
        return org_of(whose[0]) if whose else ""
    return str(whose.org)


class Routed(Generic[T]):
    """A port over all shards."""

    def __init__(self, shards: Shards[T]) -> None:
        self._shards = shards


Method = Callable[..., Coroutine[Any, Any, Any]]


def reads(name: str) -> Method:
    """The method of this name on the shard of the organization."""

    async def call(self: Routed[Any], whose: Any, *args: Any, **options: Any) -> Any:
        return await getattr(await self._shards.of(org_of(whose)), name)(whose, *args, **options)

    return call


def writes(name: str) -> Method:
    """The same for a method that writes: it waits for a move of the organization."""

    async def call(self: Routed[Any], whose: Any, *args: Any, **options: Any) -> Any:
        return await self._shards.write(org_of(whose), lambda part: getattr(part, name)(whose, *args, **options))

    return call
