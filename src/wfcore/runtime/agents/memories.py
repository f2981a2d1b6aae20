"""Long-term memories of a skill (interface, Memory).

Reading requires use of the skill, changing requires manage. The memories of a deleted skill are kept; they cannot
change until it is restored.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Unpack

import attrs

from wfcore.api.memories import (
    CreateMemory,
    CreateMemoryFields,
    PatchMemory,
    PatchMemoryFields,
    SearchMemories,
    SearchMemoriesFields,
)
from wfcore.domain.agents.memories import Path, mask_issues, mask_paths, metadata_issues, revised, text_hash
from wfcore.domain.json.codec import iso_ms
from wfcore.domain.json.values import given, to_json
from wfcore.domain.kernel.errors import Conflict, NotFound, refuse
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal
from wfcore.domain.resources.lifecycle import Operation, move
from wfcore.domain.resources.resource import Resource
from wfcore.ports.providers import Memory
from wfcore.runtime.common.authorization import authorize, conflict, needs
from wfcore.runtime.common.bodies import Tree, parsed, tree_of
from wfcore.runtime.common.idempotency import store_response, stored_response
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.common.preconditions import check_match

SEARCH_LIMIT = 10
MAX_SEARCH_LIMIT = 100

ATTEMPTS = 100
"""How often an update or deletion is retried after a concurrent update. Each retry means that another one succeeded."""


@attrs.frozen
class MemoryView:
    """A memory as callers see it."""

    memory: Memory

    @property
    def id(self) -> str:
        return self.memory.id

    def to_wire(self) -> dict[str, JSON]:
        memory = self.memory
        return {
            "id": memory.id,
            "memory": memory.memory,
            "hash": memory.hash,
            "metadata": memory.metadata,
            "createdAt": iso_ms(memory.created_at),
            "updatedAt": iso_ms(memory.updated_at),
        }


class Memories:
    """Use cases on the memories of a skill. Checks run in the order: scope, body, skill, memory."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._backend = ports.memories

    @needs("memories:write")
    async def create(
        self,
        me: Principal,
        skill: int,
        body: CreateMemory | Tree | None = None,
        *,
        key: str | None = None,
        **fields: Unpack[CreateMemoryFields],
    ) -> MemoryView:
        """Create a memory: `memory`, and optionally `metadata` and the `user_id` of the end user that it concerns.

        `key` is an Idempotency-Key: the same key and body return the same response.
        """
        new = parsed(CreateMemory, body, fields, metadata_issues, key=key)
        resource = await self._authorized(me, skill, "manage")
        text, now, metadata = new.memory, self._ports.clock.now(), given(new.metadata) or {}
        made = Memory(self._ports.ids.uuid(), text, text_hash(text), metadata, now, now, given(new.user_id))
        if key is None:
            move(resource.status, Operation.EDIT)
        else:
            made = await self._with_key(me, resource, key, to_json(new), made)
        await self._backend.add(me.org_uuid, skill, made)
        return MemoryView(made)

    @needs("memories:read")
    async def get(self, me: Principal, skill: int, id: str) -> MemoryView:
        """One memory. NotFound also for a memory of another skill."""
        await self._allow(me, skill, "use")
        return MemoryView(await self._found(me, skill, id))

    @needs("memories:read")
    async def page(
        self, me: Principal, skill: int, *, limit: int = 25, after: str | None = None, user_id: str | None = None
    ) -> list[MemoryView]:
        """In order of creation, after the memory with id `after`; with `user_id` only those of that end user."""
        await self._allow(me, skill, "use")
        found = await self._backend.list(me.org_uuid, skill, limit=limit, after=after, user_id=user_id)
        return [MemoryView(memory) for memory in found]

    @needs("memories:read")
    async def search(
        self,
        me: Principal,
        skill: int,
        body: SearchMemories | Tree | None = None,
        **fields: Unpack[SearchMemoriesFields],
    ) -> list[MemoryView]:
        """Memories that share words with the `query`, best first: at most `limit`, of end user `user_id` if given."""
        wanted = parsed(SearchMemories, body, fields)
        await self._allow(me, skill, "use")
        limit, user_id = min(given(wanted.limit) or SEARCH_LIMIT, MAX_SEARCH_LIMIT), given(wanted.user_id)
        found = await self._backend.search(me.org_uuid, skill, wanted.query, limit=limit, user_id=user_id)
        return [MemoryView(memory) for memory in found]

    @needs("memories:write")
    async def patch(
        self,
        me: Principal,
        skill: int,
        id: str,
        body: PatchMemory | Tree | None = None,
        *,
        update_mask: str | None = None,
        if_match: str | None = None,
        **fields: Unpack[PatchMemoryFields],
    ) -> MemoryView:
        """Change the fields in `update_mask`, such as `memory,metadata.tags`; without a mask the given fields.

        Concurrent updates of other fields are not lost. An outdated ETag `if_match` is a Conflict.
        """
        tree = tree_of(PatchMemory, body, fields)
        paths = mask_paths(update_mask, tree)
        data = to_json(parsed(PatchMemory, tree, {}, partial(mask_issues, paths), metadata_issues))
        await self._allow(me, skill, "manage")
        if not paths:
            found = MemoryView(await self._found(me, skill, id))
            check_match(if_match, found.to_wire())
            return found
        return MemoryView(await self._revise(me, skill, id, paths, data, if_match))

    @needs("memories:write")
    async def delete(self, me: Principal, skill: int, id: str, *, if_match: str | None = None) -> MemoryView:
        """Delete the memory permanently. Returns it as it was. A second call is NotFound."""
        await self._allow(me, skill, "manage")
        for _ in range(ATTEMPTS):
            found = await self._found(me, skill, id)
            check_match(if_match, MemoryView(found).to_wire())
            if await self._backend.delete(me.org_uuid, skill, id, old=found):
                return MemoryView(found)
        raise _changes_too_often()

    async def _allow(self, me: Principal, skill: int, grant: str) -> None:
        resource = await self._authorized(me, skill, grant)
        if grant == "manage":
            move(resource.status, Operation.EDIT)

    async def _authorized(self, me: Principal, skill: int, grant: str) -> Resource:
        async with self._ports.storage.reading(me.org_uuid) as work:
            resource = await work.skills.get(skill)
        authorize(me, resource, grant)
        assert resource is not None  # noqa: S101  (authorize raised)
        return resource

    async def _with_key(
        self, me: Principal, skill: Resource, key: str, data: Mapping[str, JSON], new: Memory
    ) -> Memory:
        """The memory of this idempotency key, which is `new` the first time.

        Backends have their own transactions, so the response is stored before the memory: a repeated request adds the
        memory that an interrupted one did not. The key outlives the memory, so the text is not stored with it.
        """
        request: JSON = [skill.id, data]
        async with self._ports.storage.transaction(me.org_uuid) as work:
            if kept := await stored_response(work, me, "memory", key, request, tuple[str, int]):
                return attrs.evolve(new, id=kept[0], created_at=kept[1], updated_at=kept[1])
            move(skill.status, Operation.EDIT)
            await store_response(work, me, "memory", key, request, (new.id, new.created_at))
        return new

    async def _found(self, me: Principal, skill: int, id: str) -> Memory:
        found = await self._backend.get(me.org_uuid, skill, id)
        if found is None:
            raise NotFound
        return found

    async def _revise(
        self,
        me: Principal,
        skill: int,
        id: str,
        paths: Iterable[Path],
        data: Mapping[str, JSON],
        if_match: str | None,
    ) -> Memory:
        for _ in range(ATTEMPTS):
            old = await self._found(me, skill, id)
            check_match(if_match, MemoryView(old).to_wire())
            text, metadata = revised(old.memory, old.metadata, paths, data)
            if metadata is not old.metadata:
                refuse(metadata_issues({"metadata": metadata}))
            new = attrs.evolve(
                old, memory=text, hash=text_hash(text), metadata=metadata, updated_at=self._ports.clock.now()
            )
            if await self._backend.replace(me.org_uuid, skill, new, old=old):
                return new
        raise _changes_too_often()


def _changes_too_often() -> Conflict:
    return conflict("this memory changes too often; try again", "stale")
