"""The stream of changes that a caller may see (interface, Changes)."""

from collections.abc import AsyncGenerator, Mapping
from typing import Final

from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal, Role, derive, missing_scopes
from wfcore.domain.resources.resource import Kind, Resource
from wfcore.ports.changes import FeedChange, MissedChanges
from wfcore.runtime.common.authorization import needs
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.organization.directory import Directory
from wfcore.runtime.runs.open_streams import Standing

AREAS: Final[Mapping[str, str]] = {
    "workflow": "workflows",
    "skill": "skills",
    "run": "workflows",
    "interrupt": "workflows",
    "policy": "policies",
    "connection": "connections",
    "hook": "hooks",
    "member": "members",
    "group": "members",
    "delegation": "workflows",
}
"""The area of the token scope that each kind needs, to read it."""

HELLO: Final[Mapping[str, JSON]] = {"kind": "hello"}
"""The first event, and the one after changes were lost: the client must read again."""

RENEW_MS: Final = 2_000
"""For how many milliseconds a caller's groups and scopes count without being read again."""

SILENCE: Final = 3_600.0
"""Seconds of one wait. The response has a heartbeat of its own."""


class Changes:
    """Follows what changes in the caller's organization."""

    def __init__(self, ports: Ports, directory: Directory) -> None:
        self._ports = ports
        self._directory = directory

    @needs()
    async def follow(self, me: Principal) -> AsyncGenerator[list[Mapping[str, JSON]], None]:
        """The changes that the caller may see when they arrive, live, in batches, without end.

        The first event is `HELLO`, and so is the one after changes were lost. A kind whose read scope the credential
        lacks is left out. A change is a hint: what it is about is read by its own use case. The stream ends when the
        caller's token is not valid any more.
        """
        return self._follow(me)

    async def _follow(self, me: Principal) -> AsyncGenerator[list[Mapping[str, JSON]], None]:
        following = self._ports.changes.subscribe(me.org_uuid)
        viewer = _Viewer(self._ports, self._directory, me)
        try:
            if not await viewer.renew():
                return
            yield [HELLO]
            while True:
                try:
                    changes = await following.next(SILENCE)
                except MissedChanges:
                    yield [HELLO]
                    continue
                if changes and not await viewer.renew():
                    return
                if seen := await viewer.seen(changes):
                    yield [{"kind": one.kind, "id": one.id, "what": one.what} for one in seen]
        finally:
            following.close()


class _Viewer:
    """What one caller may see, by its rights of now."""

    def __init__(self, ports: Ports, directory: Directory, me: Principal) -> None:
        self._ports = ports
        self._directory = directory
        self._me = me
        self._began = me
        self._standing: Standing | None = None
        self._renewed_at = -RENEW_MS

    async def renew(self) -> bool:
        """Read the caller's rights again if they are old. False when it has none any more."""
        now = self._ports.clock.monotonic()
        if now - self._renewed_at < RENEW_MS:
            return True
        renewed = await self._current()
        self._me, self._renewed_at = renewed or self._me, now
        return renewed is not None

    async def _current(self) -> Principal | None:
        """The caller as it is now; None without a valid credential or membership."""
        if self._began.token is not None:
            return await self._directory.renewed(self._began)
        standing = await self._read_standing()
        self._standing = self._standing or standing
        return self._standing.now(self._began, standing)

    async def _read_standing(self) -> Standing:
        me = self._began
        async with self._ports.storage.reading(me.org_uuid) as work:
            member = await work.directory.member(me.user_id)
            known = await work.directory.groups(me.groups) if me.groups else ()
        return Standing(member, frozenset(group.id for group in known))

    async def seen(self, changes: list[FeedChange]) -> list[FeedChange]:
        """Those that the caller may see. Each resource is read once."""
        known = dict[tuple[str, int], Resource | None]()
        return [one for one in changes if await self._sees(one, known)]

    async def _sees(self, change: FeedChange, known: dict[tuple[str, int], Resource | None]) -> bool:
        if missing_scopes(self._me.scopes, [f"{AREAS[change.kind]}:read"]):
            return False
        target = (change.kind, change.id) if isinstance(change.id, int) else (change.target_kind, change.target_id)
        if not self._me.reaches(*target):
            return False
        if isinstance(change.id, int):
            is_seen = await self._has(change.kind, change.id, known, to_use=False)
            return is_seen or bool(self._me.subjects & set(change.subjects))
        if not change.subjects or (change.kind == "delegation" and self._me.role is not Role.MEMBER):
            return True
        if self._me.subjects & set(change.subjects):
            return True
        if change.target_id is not None and f"r:{change.target_kind}/{change.target_id}" in change.subjects:
            return await self._has(change.target_kind, change.target_id, known, to_use=True)
        return False

    async def _has(
        self, kind: str, number: int, known: dict[tuple[str, int], Resource | None], *, to_use: bool
    ) -> bool:
        """Whether the caller can use this resource, or else use or manage it. A deleted one counts as it was."""
        if (kind, number) not in known:
            known[kind, number] = await self._ports.storage.find_resource(self._me.org_uuid, Kind(kind), number)
        resource = known[kind, number]
        if resource is None:
            return False
        access = derive(self._me, resource.access)
        return access.can_use if to_use else access.visible
