"""Reading conversations, and forgetting one's own (interface, Read a conversation).

A conversation is visible to who started it, and to callers who can use a workflow or skill that took part. Under a
skill, which the caller has to be able to use, stand those in which it took part; under 0 all. A thread may hold
conversations of several users (a document's does, when each of them chose its id): it shows what of them the caller
may see, as one.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Final

import attrs

from wfcore.domain.json.codec import iso_ms
from wfcore.domain.kernel.errors import Forbidden, NotFound
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal
from wfcore.domain.resources.resource import Kind
from wfcore.ports.conversations import Conversation, Message
from wfcore.runtime.common.authorization import authorize, needs
from wfcore.runtime.common.ports import Ports

Parts = Sequence[Conversation]


@attrs.frozen
class Window:
    """How much of a thread is shown: the newest messages, at most so many of a `size` in bytes, but `least` of them."""

    messages: int
    size: int
    least: int


READ: Final = Window(1_000, 4_000_000, 1)
LISTED: Final = Window(20, 8_000, 0)


@attrs.frozen
class ConversationView:
    """A thread as one principal sees it. `older` is the `seq` before which there is more, None for nothing."""

    parts: Parts
    skill_id: int
    messages: Sequence[Message]
    older: int | None = None

    @property
    def id(self) -> str:
        return self.parts[0].thread_id

    @property
    def place(self) -> tuple[int, int]:
        """Where it stands in a list."""
        return self.parts[0].updated_at, self.parts[0].key

    def to_wire(self) -> dict[str, JSON]:
        return {
            "threadId": self.id,
            "skillId": self.skill_id,
            "messages": [message.to_wire() for message in self.messages],
            "createdAt": iso_ms(min(one.created_at for one in self.parts)),
            "updatedAt": iso_ms(self.parts[0].updated_at),
        }


class Conversations:
    """The conversations of the caller's organization, as far as the caller may see them."""

    area = "conversations"

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._kept = ports.journal.conversations

    @needs("*:read")
    async def page(
        self, me: Principal, skill: int = 0, *, limit: int = 25, before: tuple[int, int] | None = None
    ) -> list[ConversationView]:
        """Threads, the latest first, each with its newest messages; those behind the `place` of another."""
        await self._allow(me, skill)
        found = await self._kept.page(me, limit=limit, before=before, skill_id=skill or None)
        return [await self._view(me, skill, parts, LISTED) for parts in found]

    @needs("*:read")
    async def get(self, me: Principal, skill: int, thread_id: str, *, before: int | None = None) -> ConversationView:
        """One thread with its newest messages, all of them unless there are very many; or those `before` a `seq`."""
        return await self._view(me, skill, await self._visible(me, skill, thread_id), READ, before)

    @needs("*:write")
    async def delete(self, me: Principal, skill: int, thread_id: str) -> ConversationView:
        """Forget what the caller's own runs left in this thread; it is returned as it was. Runs keep their journals.

        Forbidden when all that the caller sees there was started by others.
        """
        parts = await self._visible(me, skill, thread_id)
        own = [one for one in parts if one.user_id == me.user_id]
        if not own:
            raise Forbidden("only who started a conversation may delete it", {"reason": "not_owner"})
        view = await self._view(me, skill, own, READ)
        if not await self._kept.remove(own[0]):
            raise NotFound
        return view

    async def _allow(self, me: Principal, skill: int) -> None:
        if skill:
            authorize(me, await self._ports.storage.find_resource(me.org_uuid, Kind.SKILL, skill), "use")

    async def _visible(self, me: Principal, skill: int, thread_id: str) -> Parts:
        await self._allow(me, skill)
        parts = await self._kept.visible(me, thread_id, skill_id=skill or None)
        if not parts:
            raise NotFound
        return parts

    async def _view(
        self, me: Principal, skill: int, parts: Parts, window: Window, before: int | None = None
    ) -> ConversationView:
        heads = await self._kept.message_sizes(parts, limit=window.messages + 1, before=before)
        totals = accumulate(head.length for head in heads[: window.messages])
        count = max(sum(total <= window.size for total in totals), min(window.least, len(heads)))
        if not count:
            return ConversationView(parts, await self._skill_of(me, skill, parts), ())
        first, last = heads[count - 1].seq, heads[0].seq
        messages = await self._kept.messages(parts, after=first - 1, up_to=last)
        older = first if len(heads) > count else None
        return ConversationView(parts, await self._skill_of(me, skill, parts), messages, older)

    async def _skill_of(self, me: Principal, skill: int, parts: Parts) -> int:
        """The skill that was asked for, else the first that took part and that the caller can use, else 0."""
        if skill:
            return skill
        for number in sorted({number for one in parts for number in one.skills}):
            if await can_use(self._ports, me, number):
                return number
        return 0


async def can_use(ports: Ports, me: Principal, skill: int) -> bool:
    try:
        authorize(me, await ports.storage.find_resource(me.org_uuid, Kind.SKILL, skill), "use")
    except (NotFound, Forbidden):
        return False
    return True
