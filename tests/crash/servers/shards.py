"""Several PostgreSQL databases as the shards of one installation, and the process that moves organizations."""

import asyncio
import random
import time
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import psycopg
from process_roles import ROLES, Spec, write_line
from stores import Store

from wfcore.adapters.sharding.routing import Shards
from wfcore.adapters.sql import migrations
from wfcore.adapters.sql.schema.names import DEFAULT_SCHEMA
from wfcore.adapters.sql.shards import moving
from wfcore.adapters.sql.shards.moving import ShardDatabases
from wfcore.adapters.sql.transfer.databases import Address, opened
from wfcore.addresses import server_options
from wfcore.domain.kernel.errors import Conflict, NotFound, Unavailable
from wfcore.ports.shards import MAIN, Moving


class ShardedStore:
    """Implements `Store` on the databases of others. Its URLs are theirs, one a line: `main` is the first."""

    def __init__(self, parts: Sequence[Store]) -> None:
        self.parts = parts
        self.url = parts[0].url
        self.keeps_acknowledged = all(part.keeps_acknowledged for part in parts)

    def copy(self, place: Path) -> str:
        """A copy of the seed, and new shards beside it, on which nothing is yet."""
        urls = [part.copy(place) for part in self.parts]
        for url in urls[1:]:
            with opened(Address(url)) as database:
                migrations.upgrade(database.connection, schema=DEFAULT_SCHEMA)
        installation = databases_of("\n".join(urls))
        for name in installation.urls.keys() - {MAIN}:
            moving.add(installation, name)
        return "\n".join(urls)

    def rows(self, url: str, question: str) -> list[tuple[Any, ...]]:
        return [*chain(*(part.rows(own, question) for part, own in self._each(url)))]

    def drop(self, url: str) -> None:
        for part, own in self._each(url):
            part.drop(own)

    def prepare_outages(self) -> None:
        for part in self.parts:
            part.prepare_outages()

    def disturb(self, url: str, choice: float, seconds: float) -> None:
        """One of the databases; the rest of `choice` selects how."""
        number, choice = divmod(choice * len(self.parts), 1)
        self.parts[int(number)].disturb(url.split("\n")[int(number)], choice, seconds)

    def _each(self, url: str) -> Sequence[tuple[Store, str]]:
        return list(zip(self.parts, url.split("\n"), strict=True))


def databases_of(url: str) -> ShardDatabases:
    """The databases of a URL of `ShardedStore`."""
    main, *others = url.split("\n")
    return ShardDatabases({MAIN: main, **shards_of(others)}, DEFAULT_SCHEMA)


def shards_of(urls: Sequence[str]) -> dict[str, str]:
    return {f"s{number}": url for number, url in enumerate(urls, 1)}


async def mover(spec: Spec) -> None:
    """Move organizations without end, and record for how many seconds their writes waited."""
    installation = databases_of(spec["url"])
    while True:
        org, to = random.choice(spec["orgs"]), random.choice([*installation.urls])
        try:
            moved = moving.move(installation, org, to)
        except (Conflict, NotFound, Unavailable):
            await asyncio.sleep(0.1)
        else:
            write_line(spec["moves"], moved.waited)


def watch_refusals(spec: Spec) -> None:
    """Record for how many seconds each write of this process was refused because its organization was moved."""
    write = Shards.write

    async def watched(self: Any, org: str, call: Any) -> Any:
        refused = list[float]()

        async def attempt(part: Any) -> Any:
            try:
                return await call(part)
            except Moving:
                refused.append(time.monotonic())
                raise

        try:
            return await write(self, org, attempt)
        finally:
            if refused:
                write_line(spec["refusals"], [spec["name"], refused[-1] - refused[0]])

    Shards.write = watched  # type: ignore[method-assign]


async def until_nothing_moves(url: str) -> None:
    """Wait until the last move is undone or completed."""
    while True:
        with psycopg.connect(**server_options(url.split(maxsplit=1)[0])) as main:
            if main.execute("SELECT beats FROM wfcore.placement_changes").fetchall() == [(None,)]:
                return
        await asyncio.sleep(0.1)


ROLES[mover.__name__] = mover
