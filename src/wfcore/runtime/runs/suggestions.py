"""What the caller might ask next, drawn from what the caller can see and the token may read."""

from collections.abc import Sequence
from typing import Final

from wfcore.domain.agents.suggestions import Candidate, Suggestion, Thread, Waiting, suggest
from wfcore.domain.resources.access import Principal, derive, missing_scopes
from wfcore.domain.resources.lifecycle import Status
from wfcore.domain.resources.resource import Kind
from wfcore.ports.conversations import Conversation
from wfcore.runtime.agents.conversations import can_use
from wfcore.runtime.common.authorization import needs
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.runs.reading import RunReading

LOOKED_AT: Final = 50
"""Conversations, skills and workflows of which suggestions are made."""


class Suggestions:
    """Prompts to begin with. Nothing that the caller cannot see has any influence on them."""

    def __init__(self, ports: Ports, runs: RunReading) -> None:
        self._ports = ports
        self._runs = runs
        self._kept = ports.journal.conversations

    @needs("skills:read")
    async def suggest(self, me: Principal) -> list[Suggestion]:
        """At most four. A token without `conversations:read` gets none of conversations, one without `workflows:read`
        none of workflows and decisions."""
        own = await self._own_conversations(me) if _may(me, "conversations:read") else []
        workflows, waiting = list[Candidate](), list[Waiting]()
        if _may(me, "workflows:read"):
            workflows = await self._offers(me, Kind.WORKFLOW)
            items, _ = await self._runs.interrupts(me, limit=1)
            waiting = [Waiting(one.found.run_id, one.found.interrupt.id, one.found.interrupt.message) for one in items]
        tried = {number for one in own for number in one.skills}
        skills = await self._offers(me, Kind.SKILL)
        return suggest(waiting, await self._threads(me, own[:1]), skills, workflows, tried)

    async def _own_conversations(self, me: Principal) -> list[Conversation]:
        threads = await self._kept.page(me, limit=LOOKED_AT)
        return [one for parts in threads for one in parts if one.user_id == me.user_id]

    async def _threads(self, me: Principal, conversations: Sequence[Conversation]) -> list[Thread]:
        found = []
        for one in conversations:
            usable = [number for number in one.skills if await can_use(self._ports, me, number)]
            if text := await self._last_words(one):
                found.append(Thread(one.thread_id, usable[0] if usable else 0, text))
        return found

    async def _last_words(self, conversation: Conversation) -> str:
        """What the user said last, as far as that was lately."""
        for head in await self._kept.message_sizes([conversation], limit=LOOKED_AT):
            if head.type == "human":
                (message,) = await self._kept.messages([conversation], after=head.seq - 1, up_to=head.seq)
                return message.content
        return ""

    async def _offers(self, me: Principal, kind: Kind) -> list[Candidate]:
        async with self._ports.storage.reading(me.org_uuid) as work:
            found = await work.resources(kind).page(me, limit=LOOKED_AT, status=Status.ACTIVE)
        usable = [one for one in found if derive(me, one.access).can_use]
        return [Candidate(one.id, one.name, one.description) for one in usable]


def _may(me: Principal, scope: str) -> bool:
    return not missing_scopes(me.scopes, (scope,))
