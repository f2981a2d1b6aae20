"""Suggested prompts for the caller, made from data that the caller can see and the token can read."""

from collections.abc import Sequence
from typing import Final

from wfcore.domain.agents.suggestions import Candidate, OpenDecision, Suggestion, Thread, suggest
from wfcore.domain.resources.access import Principal, derive, missing_scopes
from wfcore.domain.resources.lifecycle import Status
from wfcore.domain.resources.resource import Kind
from wfcore.ports.repositories.conversations import Conversation
from wfcore.runtime.agents.conversations import can_use
from wfcore.runtime.common.authorization import needs
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.runs.reading import RunReading

READ_AT_MOST: Final = 50
"""The most conversations, messages, skills and workflows that suggestions are made from."""


class Suggestions:
    """Suggested prompts. Data that the caller cannot see has no influence on them."""

    def __init__(self, ports: Ports, runs: RunReading) -> None:
        self._ports = ports
        self._runs = runs
        self._repository = ports.journal.conversations

    @needs("skills:read")
    async def suggest(self, me: Principal) -> list[Suggestion]:
        """At most four. Those from conversations require `conversations:read`, from workflows `workflows:read`."""
        own = await self._own_conversations(me) if _may(me, "conversations:read") else []
        workflows, decisions = list[Candidate](), list[OpenDecision]()
        if _may(me, "workflows:read"):
            workflows = await self._offers(me, Kind.WORKFLOW)
            items, _ = await self._runs.interrupts(me, limit=1)
            decisions = [
                OpenDecision(one.found.run_id, one.found.interrupt.id, one.found.interrupt.message) for one in items
            ]
        tried = {number for one in own for number in one.skills}
        skills = await self._offers(me, Kind.SKILL)
        return suggest(decisions, await self._threads(me, own[:1]), skills, workflows, tried)

    async def _own_conversations(self, me: Principal) -> list[Conversation]:
        threads = await self._repository.page(me, limit=READ_AT_MOST)
        return [one for parts in threads for one in parts if one.user_id == me.user_id]

    async def _threads(self, me: Principal, conversations: Sequence[Conversation]) -> list[Thread]:
        found = []
        for one in conversations:
            usable = [number for number in one.skills if await can_use(self._ports, me, number)]
            if text := await self._latest_user_message(one):
                found.append(Thread(one.thread_id, usable[0] if usable else 0, text))
        return found

    async def _latest_user_message(self, conversation: Conversation) -> str:
        """The user's latest message, if it is among the latest messages of the conversation."""
        for head in await self._repository.message_sizes([conversation], limit=READ_AT_MOST):
            if head.type == "human":
                (message,) = await self._repository.messages([conversation], after=head.seq - 1, up_to=head.seq)
                return message.content
        return ""

    async def _offers(self, me: Principal, kind: Kind) -> list[Candidate]:
        async with self._ports.storage.reading(me.org_uuid) as work:
            found = await work.resources(kind).page(me, limit=READ_AT_MOST, status=Status.ACTIVE)
        usable = [one for one in found if derive(me, one.access).can_use]
        return [Candidate(one.id, one.name, one.description) for one in usable]


def _may(me: Principal, scope: str) -> bool:
    return not missing_scopes(me.scopes, (scope,))
