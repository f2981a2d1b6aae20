"""Open event streams. Each ends within seconds after its caller has lost the right to read it (interface, Events).

One timer checks all streams of a process. A check reads each token, member and resource once, however many streams
depend on it, and decides with `authorize`, as a new request does.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, Self, TypeVar

import attrs

from wfcore.domain.kernel.errors import Forbidden, NotFound
from wfcore.domain.people.people import Member
from wfcore.domain.resources.access import Principal
from wfcore.domain.resources.lifecycle import Status
from wfcore.domain.resources.resource import Kind, Resource
from wfcore.runtime.common.authorization import authorize
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.common.run_views import RunView
from wfcore.runtime.organization.directory import Directory
from wfcore.runtime.runs.reading import RunReading

log = logging.getLogger("wfcore.streams")

INTERVAL: Final = 2.0
"""Seconds between two checks. A stream ends at most this long, and the check itself, after the loss."""
YIELD_EVERY: Final = 50
"""Streams after which a check lets other work run."""
PART: Final = 500
"""The most ids of one query."""

T = TypeVar("T")


@attrs.frozen
class Shown:
    """What a stream shows: runs of one resource, or of none; the outline of one run that only an approver can see."""

    kind: str
    resource_id: int | None
    outline_of: str | None = None
    is_there: bool = False
    """Whether the resource was read just now, and is not deleted."""

    @classmethod
    def run(cls, view: RunView) -> Self:
        """The stream of this run."""
        return cls(view.row.kind, view.row.resource_id, view.id if view.is_outline else None, view.is_new)

    @classmethod
    def of(cls, target: Resource) -> Self:
        """The stream of a run of this workflow or skill, whichever turn it shows."""
        return cls(target.kind, target.id)


@attrs.frozen
class Standing:
    """What the directory says of a caller whose credential is not wfcore's own: it is compared with what it said
    when the stream began.
    """

    member: Member | None
    groups: frozenset[str]
    """The groups that exist, of those that matter."""

    def now(self, me: Principal, later: "Standing") -> Principal | None:
        """The principal without the groups that it has lost since; None for a former member."""
        if self.member is None:
            lost = frozenset[str]()
        elif later.member is None:
            return None
        else:
            lost = self.member.groups - later.member.groups
        return attrs.evolve(me, groups=me.groups - lost - (self.groups - later.groups))


@attrs.define(eq=False)
class OpenStream:
    """One stream. `end` is called once, from the event loop, when its caller can no longer read it."""

    me: Principal
    shown: Shown | None
    end: Callable[[], object]
    standing: Standing | None = None
    was_deleted: bool = False
    """Whether the resource was already deleted when the stream began."""


class OpenStreams:
    """The open streams of one process."""

    def __init__(self, ports: Ports, directory: Directory, reading: RunReading) -> None:
        self._ports = ports
        self._directory = directory
        self._reading = reading
        self._open = set[OpenStream]()
        self._timer: asyncio.Task[None] | None = None

    async def add(self, me: Principal, shown: Shown | None, end: Callable[[], object]) -> OpenStream:
        """Watch a stream until `remove`. `end` is called when the credential, the membership or the access is lost."""
        facts = _Facts(self._ports, me.org_uuid)
        standing = (await facts.read_standings([me]))[me.user_id] if me.token is None else None
        resource = await facts.resource(shown) if shown and not shown.is_there else None
        stream = OpenStream(me, shown, end, standing, resource is not None and resource.status is Status.DELETED)
        self._open.add(stream)
        if self._timer is None or self._timer.done():
            self._timer = asyncio.create_task(self._watch())
        return stream

    def remove(self, stream: OpenStream) -> None:
        """The stream has ended. The timer stops with the last one."""
        self._open.discard(stream)
        if not self._open and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _watch(self) -> None:
        while True:
            await self._ports.clock.sleep(INTERVAL)
            await self.check()

    async def check(self) -> None:
        """End the streams whose callers cannot read them any more."""
        by_org = defaultdict[str, list[OpenStream]](list)
        for stream in self._open:
            if self._is_expired(stream):
                stream.end()
            else:
                by_org[stream.me.org_uuid].append(stream)
        for org, streams in by_org.items():
            try:
                await self._check(streams, _Facts(self._ports, org))
            except NotFound:  # the organization was deleted
                for stream in streams:
                    stream.end()
            except Exception as error:  # noqa: BLE001 - the store does not respond: the next check decides
                self._ports.outage.failed(log, f"checking {len(streams)} open streams failed", error)

    def _is_expired(self, stream: OpenStream) -> bool:
        expires = stream.me.expires_at
        return expires is not None and expires <= self._ports.now()

    async def _check(self, streams: Sequence[OpenStream], facts: "_Facts") -> None:
        await facts.read_standings([stream.me for stream in streams if stream.standing is not None])
        for number, stream in enumerate(streams, 1):
            if stream in self._open and not await self._is_allowed(stream, facts):
                stream.end()
            if number % YIELD_EVERY == 0:
                await asyncio.sleep(0)

    async def _is_allowed(self, stream: OpenStream, facts: "_Facts") -> bool:
        try:
            me = await self._principal(stream, facts)
            return me is not None and (stream.shown is None or await self._can_read(me, stream, stream.shown, facts))
        except (Forbidden, NotFound):
            return False

    async def _principal(self, stream: OpenStream, facts: "_Facts") -> Principal | None:
        """The stream's caller as it is now; None without a valid credential or membership."""
        me = stream.me
        if stream.standing is None:
            return await facts.once(("token", me.token), lambda: self._directory.renewed(me))
        return stream.standing.now(me, facts.standings[me.user_id])

    async def _can_read(self, me: Principal, stream: OpenStream, shown: Shown, facts: "_Facts") -> bool:
        """Raises NotFound or Forbidden, or returns False, when the principal cannot read what the stream shows."""
        if shown.resource_id is None:
            return True
        resource = await facts.resource(shown)
        if resource is None or (resource.status is Status.DELETED and not stream.was_deleted):
            return False
        if shown.outline_of is not None:
            return await self._reading.sees(me, shown.outline_of)
        return authorize(me, resource, "use").can_use


class _Facts:
    """What one check has read of an organization: each thing once."""

    def __init__(self, ports: Ports, org: str) -> None:
        self._ports = ports
        self._org = org
        self._known = dict[object, object]()
        self.standings = dict[str, Standing]()

    async def once(self, key: object, read: Callable[[], Awaitable[T]]) -> T:
        """The value under this key, read at its first use."""
        if key not in self._known:
            self._known[key] = await read()
        return self._known[key]  # type: ignore[return-value]

    async def resource(self, shown: Shown) -> Resource | None:
        number = shown.resource_id
        if number is None:
            return None
        kind = Kind(shown.kind)
        return await self.once((kind, number), lambda: self._ports.storage.find_resource(self._org, kind, number))

    async def read_standings(self, principals: Sequence[Principal]) -> Mapping[str, Standing]:
        """What the directory says of these callers, by user id."""
        groups = {group for me in principals for group in me.groups}
        for ids in _parts({me.user_id for me in principals}):
            async with self._ports.storage.reading(self._org) as work:
                members = await work.directory.members(limit=len(ids), ids=ids)
                known = [group.id for part in _parts(groups) for group in await work.directory.groups(part)]
            by_id = {member.user_id: member for member in members}
            self.standings |= {user_id: Standing(by_id.get(user_id), frozenset(known)) for user_id in ids}
        return self.standings


def _parts(ids: Collection[str]) -> Iterator[Sequence[str]]:
    """The ids in parts that one query can take."""
    rest = iter(sorted(ids))
    while part := tuple(islice(rest, PART)):
        yield part
