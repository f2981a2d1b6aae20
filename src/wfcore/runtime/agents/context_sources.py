"""Reads the ingredients of a context: the skill, its tools, context items, memories, the conversation.

Every source is read up to a bound that depends on the context window, however much it holds.
"""

from collections.abc import Container, Mapping, Sequence
from typing import Final, Self

import attrs

from wfcore.domain.agents.context import (
    MAX_MEMORIES,
    QUERY,
    CompositionInput,
    LeftOut,
    history_limit,
    item_limit,
    window_of,
    windowed,
)
from wfcore.domain.agents.context_items import ContextItem
from wfcore.domain.agents.context_messages import MessageHead, ThreadHistory
from wfcore.domain.agents.context_text import MESSAGE_TOKENS, Fact, size_tokens
from wfcore.domain.agents.context_tools import MESSAGE_SCHEMA, OfferedTool, skill_id, workflow_id
from wfcore.domain.agents.narrowing import Allowance, guardrails_under, narrowed, selected_connections
from wfcore.domain.graph.structure import NodeType, structure_of
from wfcore.domain.kernel.json_readers import as_objects, optional_object, optional_text
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal, derive, missing_scopes
from wfcore.domain.resources.content import SkillContent, WorkflowContent
from wfcore.domain.resources.lifecycle import Status
from wfcore.domain.resources.resource import Kind, Resource, Variation
from wfcore.domain.resources.supervision import subordinates
from wfcore.domain.run.effects import ComposeContext
from wfcore.ports.storage import UnitOfWork
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.tools.connection_use import ConnectionUser
from wfcore.runtime.tools.mcp_tools import ServedTools
from wfcore.runtime.tools.offered_tools import offers_of

ASSISTANT: Final = (
    "You are the assistant of an organization. Skills and workflows are offered to you as tools: hand work to the one",
    "that fits, and tell what came of it. Where none fits, answer yourself, and say what you do not know.",
)

MOST_OFFERED: Final = 50
"""The most skills, and the most workflows, that the assistant is offered: those with the lowest ids."""

NO_TOOL: Final = "there is no such tool that agents can call"
NO_SKILL: Final = "there is no such skill that is deployed and that the caller can use"

PAGE: Final = 100


@attrs.frozen
class ContextRequest:
    """The part of a context that comes from the node, the run or the caller."""

    message: str | None
    instructions: str
    tool_restrictions: Sequence[str] | None
    settings: Mapping[str, JSON]
    model: str | None
    config: Mapping[str, JSON]
    output_schema: Mapping[str, JSON] | None = None
    attachments: Mapping[str, JSON] | None = None
    user_context: Mapping[str, JSON] | None = None

    @classmethod
    def of(cls, effect: ComposeContext) -> Self:
        return cls(effect.message, effect.instructions, effect.tool_restrictions, effect.settings, effect.model,
                   effect.config or {}, effect.output_schema, effect.attachments, effect.user_context)  # fmt: skip


@attrs.frozen
class Agent:
    """A skill, or the assistant (`skill_id` None), with the ingredients that do not depend on the message."""

    skill_id: int | None
    given: CompositionInput


class Sources:
    """Reads the ingredients of contexts."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._conversations = ports.journal.conversations
        self._served = ServedTools(ports)

    async def of_skill(
        self, me: Principal, skill: Resource, variation: Variation, allowed: Allowance, requested: ContextRequest
    ) -> Agent:
        """The skill with this content. Its subordinates are offered as far as the caller can use them."""
        content, tools = variation.skill, allowed.tools or {}
        found = await self._served.look_up(ConnectionUser.of(me), tools)
        listed, unlisted = offers_of(self._ports.tools, found, tools)
        async with self._ports.storage.reading(me.org_uuid) as work:
            below = await _subordinates(work, me, content, tools)
            left = narrowed(allowed, requested.config)
            skills = set(map(skill_id, subordinates(content)))
            wanted = {one: NO_SKILL if one in skills else NO_TOOL for one in tools.keys() - unlisted.keys()}
            offers, absent = _select_offers([*listed, *below], wanted, left.tools or {}, requested)
            settings = windowed(requested.settings, left.context_window)
            items, unread = await self._items(work, me, left.context_items, window_of(settings))
        named = requested.model or content.model
        given = CompositionInput(
            named or self._open_model(requested),
            str(skill.id),
            content.instructions,
            content.expected_output,
            requested.instructions,
            requested.message,
            settings,
            items,
            left.context_items is not None,
            offers=offers,
            left_out=(*unlisted.values(), *absent, *unread),
            output_schema=requested.output_schema,
            guardrails=guardrails_under(skill.access.guardrails, requested.config),
            budget=allowed.budget,
            connections=selected_connections(content.connection_set),
            is_model_open=not named,
        )
        return Agent(skill.id, given)

    async def of_assistant(self, work: UnitOfWork, me: Principal, requested: ContextRequest) -> Agent:
        """The assistant. It is offered the skills and workflows that the caller can use; workflows require approval."""
        skills, flows = await _usable(work, me, Kind.SKILL), await _usable(work, me, Kind.WORKFLOW)
        too_many = max(len(skills), len(flows)) > MOST_OFFERED
        every = [_subordinate(skill) for skill in skills[:MOST_OFFERED]]
        every += [await _workflow(work, flow) for flow in flows[:MOST_OFFERED]]
        tools = {offer.tool_id: offer.requires_approval for offer in every}
        left = narrowed(Allowance(tools=tools), requested.config)
        offers, absent = _select_offers(every, {}, left.tools or {}, requested)
        if too_many:
            absent = (*absent, LeftOut("tools", None, f"only {MOST_OFFERED} skills and workflows each are offered"))
        settings = windowed(requested.settings, left.context_window)
        items, unread = await self._items(work, me, left.context_items, window_of(settings))
        given = CompositionInput(
            self._open_model(requested),
            instructions=ASSISTANT,
            message=requested.message,
            settings=settings,
            items=items,
            named=left.context_items is not None,
            offers=offers,
            left_out=(*absent, *unread),
            guardrails=guardrails_under((), requested.config),
            is_model_open=True,
        )
        return Agent(None, given)

    def _open_model(self, requested: ContextRequest) -> str:
        """The model where neither a node nor a skill names one."""
        return optional_text(requested.config.get("model")) or self._ports.settings.default_model

    async def memories(
        self, me: Principal, skill: int | None, message: str | None, user_id: str
    ) -> tuple[Sequence[Fact], Sequence[LeftOut]]:
        """The skill's memories of this end user or of none that share words with the message, best first."""
        if skill is None or not message:
            return (), ()
        if withheld := _missing_scope(me, "memory", "memories:read"):
            return (), withheld
        found = await self._ports.memories.search(
            me.org_uuid, skill, message[:QUERY], limit=MAX_MEMORIES, user_id=user_id, shared=True
        )
        why = "shares words with the message"
        return [Fact("memory", memory.id, memory.memory, why=why) for memory in found], ()

    async def history(
        self, me: Principal, thread_id: str | None, settings: Mapping[str, JSON]
    ) -> tuple[ThreadHistory | None, Sequence[LeftOut]]:
        """The newest messages of the caller's own conversation in this thread, as far as they can fit."""
        own = thread_id and await self._conversations.own(me.org_uuid, thread_id, me.user_id)
        if not own:
            return None, ()
        if withheld := _missing_scope(me, "conversation", "conversations:read"):
            return None, withheld
        heads, last = list[MessageHead](), None
        remaining = history_limit(window_of(settings))
        while remaining >= 0:
            page = await self._conversations.message_sizes([own], limit=PAGE, before=last)
            heads += [
                MessageHead(row.seq, row.type, size_tokens(row.length) + row.attached + MESSAGE_TOKENS) for row in page
            ]
            remaining -= sum(head.tokens for head in heads[len(heads) - len(page) :])
            if len(page) < PAGE:
                return ThreadHistory(own.thread_id, heads), ()
            last = heads[-1].seq
        return ThreadHistory(own.thread_id, heads, whole=False), ()

    async def _items(
        self, work: UnitOfWork, me: Principal, named: frozenset[str] | None, window: int
    ) -> tuple[Sequence[Fact], Sequence[LeftOut]]:
        """The named context items, otherwise all of the organization as far as they can fit."""
        if withheld := _missing_scope(me, "contextItem", "context:read"):
            return (), withheld
        if named is None:
            return await _all_items(work, item_limit(window))
        found = {item_id: await work.context_items.get(item_id) for item_id in sorted(named)}
        facts = [_fact(item, "named by `contextSelections`") for item in found.values() if item is not None]
        missing = [item_id for item_id, item in found.items() if item is None]
        return facts, [LeftOut("contextItem", one, "there is no such context item") for one in missing]


def _select_offers(
    offers: Sequence[OfferedTool], wanted: Mapping[str, str], left: Mapping[str, bool], requested: ContextRequest
) -> tuple[Sequence[OfferedTool], Sequence[LeftOut]]:
    """The offers that the run's config and the node's restrictions allow, with their approvals, and why others are
    left out: of a `wanted` tool that is not among the offers, its text there.
    """
    named = requested.tool_restrictions
    kept = [
        attrs.evolve(offer, requires_approval=left[offer.tool_id])
        for offer in offers
        if offer.tool_id in left and (named is None or offer.tool_id in named)
    ]
    known, offered = {offer.tool_id for offer in offers}, {offer.tool_id for offer in kept}
    absent = [LeftOut("tools", tool_id, wanted[tool_id]) for tool_id in sorted(wanted.keys() - known)]
    why = "the run's config or the node's `tool_restrictions` leave it out"
    return kept, [*absent, *(LeftOut("tools", one, why) for one in sorted(known - offered))]


async def _all_items(work: UnitOfWork, remaining: int) -> tuple[Sequence[Fact], Sequence[LeftOut]]:
    """All items, oldest first, until they exceed `remaining` tokens."""
    facts, last = list[Fact](), ""
    while remaining >= 0:
        page = await work.context_items.page(limit=PAGE, after=last)
        facts += [_fact(item, "shown to all agents of the organization") for item in page]
        remaining -= sum(fact.tokens for fact in facts[len(facts) - len(page) :])
        if len(page) < PAGE:
            return facts, ()
        last = page[-1].id
    return facts, [LeftOut("contextItem", None, "later ones do not fit the context window")]


def _fact(item: ContextItem, why: str) -> Fact:
    return Fact("contextItem", item.id, item.content, item.title, why)


async def _subordinates(
    work: UnitOfWork, me: Principal, content: SkillContent, tools: Container[str]
) -> list[OfferedTool]:
    """The skills that this content supervises, those in `tools` that the caller can use, with the content's
    descriptions.
    """
    described = content.supervision_subordinate_descriptions
    wanted = [number for number in sorted(subordinates(content)) if skill_id(number) in tools]
    found = [await work.skills.get(number) for number in wanted]
    return [_subordinate(skill, described.get(str(skill.id))) for skill in found if skill and _may_use(me, skill)]


def _subordinate(skill: Resource, described: str | None = None) -> OfferedTool:
    text = described or skill.description or skill.name
    hint, why = f"skill_{skill.slug}", "a skill to hand work to"
    return OfferedTool(
        skill_id(skill.id),
        hint,
        text,
        MESSAGE_SCHEMA,
        "skill",
        skill.id,
        why=why,
        variation_id=skill.active_variation_id,
    )


async def _workflow(work: UnitOfWork, flow: Resource) -> OfferedTool:
    variation = await work.workflows.variation(flow.id, flow.active_variation_id or "")
    schema = input_schema_of(variation.workflow) if variation else {}
    hint, text, why = f"workflow_{flow.slug}", flow.description or flow.name, "a workflow that the caller can use"
    return OfferedTool(
        workflow_id(flow.id), hint, text, {**schema, "type": "object"}, "workflow", flow.id, True, why=why,
        variation_id=flow.active_variation_id,
    )  # fmt: skip


def input_schema_of(content: WorkflowContent) -> Mapping[str, JSON]:
    """The `inputSchema` of the workflow's start node if it describes an object, otherwise {}."""
    starts = (node for node in as_objects(structure_of(content)["nodes"]) if node["type"] == NodeType.START)
    data = optional_object(next(starts, {}).get("data")) or {}
    schema = data.get("inputSchema")
    return schema if isinstance(schema, dict) and schema.get("type", "object") == "object" else {}


async def _usable(work: UnitOfWork, me: Principal, kind: Kind) -> list[Resource]:
    """Those that the caller can use, by id; at most MOST_OFFERED + 1, which shows that there are too many."""
    found, last = list[Resource](), 0
    while len(found) <= MOST_OFFERED:
        page = await work.resources(kind).page(me, limit=PAGE, after=last, status=Status.ACTIVE.value)
        found += [one for one in page if _may_use(me, one)]
        if len(page) < PAGE:
            break
        last = page[-1].id
    return found[: MOST_OFFERED + 1]


def _may_use(me: Principal, resource: Resource) -> bool:
    return resource.status is Status.ACTIVE and derive(me, resource.access).can_use


def _missing_scope(me: Principal, source: str, scope: str) -> Sequence[LeftOut]:
    """Why this source is left out for a credential without the scope. Runs have every scope."""
    return [LeftOut(source, None, f"the token lacks `{scope}`")] if missing_scopes(me.scopes, [scope]) else ()
