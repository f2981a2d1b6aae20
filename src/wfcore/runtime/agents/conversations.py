"""Use cases that read conversations and delete one's own (interface, Read a conversation).

A conversation is visible to the user who started it, and to callers who can use one of its participants. The list of
a skill, which the caller must be able to use, has the conversations in which that skill participated; the list of 0
has all. A thread can hold conversations of several users, such as the thread of a document: the visible ones are
shown as one.
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
from wfcore.ports.repositories.conversations import Conversation, Message
from wfcore.runtime.common.authorization import authorize, conflict, needs
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.common.preconditions import check_match

Parts = Sequence[Conversation]


@attrs.frozen
class Window:
    """How much of a thread is shown: at most `messages` of the newest and `size` bytes, but at least `least`."""

    messages: int
    size: int
    least: int


READ: Final = Window(1_000, 4_000_000, 1)
LISTED: Final = Window(20, 8_000, 0)

ATTEMPTS: Final = 100
"""How often a removal is retried after a new message. Each retry means that another run has added one."""


@attrs.frozen
class ConversationView:
    """A thread as one principal sees it. `older` is the `seq` before which there are more messages, otherwise None."""

    parts: Parts
    skill_id: int
    messages: Sequence[Message]
    older: int | None = None

    @property
    def id(self) -> str:
        return self.parts[0].thread_id

    @property
    def place(self) -> tuple[int, int]:
        """Its position in the list of threads."""
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
    """The conversations of the caller's organization that the caller can see."""

    area = "conversations"

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._repository = ports.journal.conversations

    @needs("*:read")
    async def page(
        self, me: Principal, skill: int = 0, *, limit: int = 25, before: tuple[int, int] | None = None
    ) -> list[ConversationView]:
        """Threads, the latest first, each with its newest messages; only those after the `place` `before`."""
        await self._allow(me, skill)
        found = await self._repository.page(me, limit=limit, before=before, skill_id=skill or None)
        return [await self._view(me, skill, parts, LISTED) for parts in found]

    @needs("*:read")
    async def get(self, me: Principal, skill: int, thread_id: str, *, before: int | None = None) -> ConversationView:
        """One thread with its newest messages, all of them unless there are very many; with `before`, older ones."""
        return await self._view(me, skill, await self._visible(me, skill, thread_id), READ, before)

    @needs("*:write")
    async def delete(
        self, me: Principal, skill: int, thread_id: str, *, if_match: str | None = None
    ) -> ConversationView:
        """Delete the caller's own conversation in this thread. Returns it as it was. Journals of runs are kept.

        Forbidden when the caller sees only conversations of other users there. Conflict `stale` when the ETag of the
        thread, as the caller reads it, is not in `if_match`.
        """
        for _ in range(ATTEMPTS):
            parts = await self._visible(me, skill, thread_id)
            own = [one for one in parts if one.user_id == me.user_id]
            if not own:
                raise Forbidden("only the user who started a conversation can delete it", {"reason": "not_owner"})
            if if_match is not None:
                check_match(if_match, (await self._view(me, skill, parts, READ)).to_wire())
            view = await self._view(me, skill, own, READ)
            newest = max((message.seq for message in view.messages), default=0)
            if await self._repository.remove(own[0], newest=newest):
                return view
        raise conflict("this conversation changes too often; try again", "stale")

    async def _allow(self, me: Principal, skill: int) -> None:
        if skill:
            authorize(me, await self._ports.storage.find_resource(me.org_uuid, Kind.SKILL, skill), "use")

    async def _visible(self, me: Principal, skill: int, thread_id: str) -> Parts:
        await self._allow(me, skill)
        parts = await self._repository.visible(me, thread_id, skill_id=skill or None)
        if not parts:
            raise NotFound
        return parts

    async def _view(
        self, me: Principal, skill: int, parts: Parts, window: Window, before: int | None = None
    ) -> ConversationView:
        heads = await self._repository.message_sizes(parts, limit=window.messages + 1, before=before)
        totals = accumulate(head.length for head in heads[: window.messages])
        count = max(sum(total <= window.size for total in totals), min(window.least, len(heads)))
        if not count:
            return ConversationView(parts, await self._skill_of(me, skill, parts), ())
        first, last = heads[count - 1].seq, heads[0].seq
        messages = await self._repository.messages(parts, after=first - 1, up_to=last)
        older = first if len(heads) > count else None
        return ConversationView(parts, await self._skill_of(me, skill, parts), messages, older)

    async def _skill_of(self, me: Principal, skill: int, parts: Parts) -> int:
        """The requested skill, otherwise the first participant that the caller can use, otherwise 0."""
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
