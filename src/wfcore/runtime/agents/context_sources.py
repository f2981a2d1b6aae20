"""Where the ingredients of a context come from: the skill, what is offered as tools, context items, memories, the
conversation. Every source is read to a bound that the context window gives, however much there is."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Self

import attrs

from wfcore.domain.agents.context import MAX_MEMORIES, QUERY, Ingredients, LeftOut, history_room, item_room, window_of
from wfcore.domain.agents.context_items import ContextItem
from wfcore.domain.agents.context_messages import MessageHead, ThreadHistory
from wfcore.domain.agents.context_text import MESSAGE_TOKENS, Fact, size_tokens
from wfcore.domain.agents.context_tools import MESSAGE_SCHEMA, OfferedTool, skill_id, workflow_id
from wfcore.domain.agents.narrowing import Allowance, guardrails_under, narrowed
from wfcore.domain.graph.structure import NodeType, structure_of
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal, derive, missing_scopes
from wfcore.domain.resources.lifecycle import Status
from wfcore.domain.resources.resource import Kind, Resource, Variation
from wfcore.domain.resources.supervision import DESCRIPTIONS, subordinates
from wfcore.domain.run.effects import ComposeContext
from wfcore.ports.storage import UnitOfWork
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.tools.mcp_tools import ServedTools
from wfcore.runtime.tools.offered_tools import offers_of

ASSISTANT: Final = (
    "You are the assistant of an organization. Skills and workflows are offered to you as tools: hand work to the one",
    "that fits, and tell what came of it. Where none fits, answer yourself, and say what you do not know.",
)

MOST_OFFERED: Final = 50
"""Skills, and again workflows, that the assistant is offered: those with the lowest ids."""

PAGE: Final = 100


@attrs.frozen
class Asked:
    """What the node, the run or the caller adds to what the agent is."""

    message: str | None
    instructions: str
    tool_restrictions: Sequence[str] | None
    settings: Mapping[str, JSON]
    model: str | None
    config: Mapping[str, JSON]
    output_schema: Mapping[str, JSON] | None = None
    attachments: Mapping[str, JSON] | None = None

    @classmethod
    def of(cls, effect: ComposeContext) -> Self:
        return cls(effect.message, effect.instructions, effect.tool_restrictions, effect.settings, effect.model,
                   effect.config or {}, effect.output_schema, effect.attachments)  # fmt: skip


@attrs.frozen
class Agent:
    """A skill, or with no `skill_id` the assistant, and what goes into its context whatever the message."""

    skill_id: int | None
    given: Ingredients


class Sources:
    """Reads what contexts are made of."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._conversations = ports.journal.conversations
        self._served = ServedTools(ports)

    async def of_skill(
        self, me: Principal, skill: Resource, variation: Variation, allowed: Allowance, asked: Asked
    ) -> Agent:
        """The skill with this content, for this caller, who is offered the subordinates that it may use itself."""
        content = variation.content
        found = await self._served.looked_up(me.org_uuid, allowed.tools or ())
        listed, unlisted = offers_of(self._ports.tools, found, allowed.tools or ())
        async with self._ports.storage.reading(me.org_uuid) as work:
            below = await _subordinates(work, me, content)
            tools = {**(allowed.tools or {}), **{offer.tool_id: False for offer in below}}
            left = narrowed(attrs.evolve(allowed, tools=tools), asked.config)
            offers, absent = _offered([*listed, *below], tools.keys() - unlisted.keys(), left.tools or {}, asked)
            settings = _settings(content.get("modelSettings") or {}, asked, left.context_window)
            items, unread = await self._items(work, me, left.context_items, window_of(settings))
        model = asked.model or content.get("model") or asked.config.get("model") or self._ports.settings.default_model
        given = Ingredients(
            model,
            str(skill.id),
            content.get("instructions") or (),
            content.get("expectedOutput") or "",
            asked.instructions,
            asked.message,
            settings,
            items,
            left.context_items is not None,
            offers=offers,
            left_out=(*unlisted.values(), *absent, *unread),
            output_schema=asked.output_schema,
            guardrails=guardrails_under(skill.access.guardrails, asked.config),
            budget=left.budget,
        )
        return Agent(skill.id, given)

    async def of_assistant(self, work: UnitOfWork, me: Principal, asked: Asked) -> Agent:
        """The assistant, for this caller, who is offered the skills and, each after approval, the workflows it may
        use."""
        skills, flows = await _usable(work, me, Kind.SKILL), await _usable(work, me, Kind.WORKFLOW)
        too_many = max(len(skills), len(flows)) > MOST_OFFERED
        every = [_subordinate(skill) for skill in skills[:MOST_OFFERED]]
        every += [await _workflow(work, flow) for flow in flows[:MOST_OFFERED]]
        tools = {offer.tool_id: offer.requires_approval for offer in every}
        left = narrowed(Allowance(tools=tools), asked.config)
        offers, absent = _offered(every, tools, left.tools or {}, asked)
        if too_many:
            absent = (*absent, LeftOut("tools", None, f"only {MOST_OFFERED} skills and workflows each are offered"))
        settings = _settings({}, asked, left.context_window)
        items, unread = await self._items(work, me, left.context_items, window_of(settings))
        given = Ingredients(
            asked.config.get("model") or self._ports.settings.default_model,
            instructions=ASSISTANT,
            message=asked.message,
            settings=settings,
            items=items,
            named=left.context_items is not None,
            offers=offers,
            left_out=(*absent, *unread),
            guardrails=guardrails_under((), asked.config),
        )
        return Agent(None, given)

    async def memories(
        self, me: Principal, skill: int | None, message: str | None
    ) -> tuple[Sequence[Fact], Sequence[LeftOut]]:
        """The skill's memories of this caller, or of no end user, that share words with the message; best first."""
        if skill is None or not message:
            return (), ()
        if withheld := _withheld(me, "memory", "memories:read"):
            return (), withheld
        found = await self._ports.memories.search(
            me.org_uuid, skill, message[:QUERY], limit=MAX_MEMORIES, user_id=me.user_id, shared=True
        )
        why = "shares words with the message"
        return [Fact("memory", memory.id, memory.memory, why=why) for memory in found], ()

    async def history(
        self, me: Principal, thread_id: str | None, settings: Mapping[str, JSON]
    ) -> tuple[ThreadHistory | None, Sequence[LeftOut]]:
        """The newest messages of the caller's own conversation in this thread, no more than can fit."""
        own = thread_id and await self._conversations.own(me.org_uuid, thread_id, me.user_id)
        if not own:
            return None, ()
        if withheld := _withheld(me, "conversation", "conversations:read"):
            return None, withheld
        heads, last = list[MessageHead](), None
        room = history_room(window_of(settings))
        while room >= 0:
            page = await self._conversations.message_sizes([own], limit=PAGE, before=last)
            heads += [
                MessageHead(row.seq, row.type, size_tokens(row.length) + row.attached + MESSAGE_TOKENS) for row in page
            ]
            room -= sum(head.tokens for head in heads[len(heads) - len(page) :])
            if len(page) < PAGE:
                return ThreadHistory(own.thread_id, heads), ()
            last = heads[-1].seq
        return ThreadHistory(own.thread_id, heads, whole=False), ()

    async def _items(
        self, work: UnitOfWork, me: Principal, named: frozenset[str] | None, window: int
    ) -> tuple[Sequence[Fact], Sequence[LeftOut]]:
        """The context items that are named, or else all of the organization as far as there can be room for them."""
        if withheld := _withheld(me, "contextItem", "context:read"):
            return (), withheld
        if named is None:
            return await _all_items(work, item_room(window))
        found = {item_id: await work.context_items.get(item_id) for item_id in sorted(named)}
        facts = [_fact(item, "named by `contextSelections`") for item in found.values() if item is not None]
        missing = [item_id for item_id, item in found.items() if item is None]
        return facts, [LeftOut("contextItem", one, "there is no such context item") for one in missing]


def _offered(
    offers: Sequence[OfferedTool], wanted: Iterable[str], left: Mapping[str, bool], asked: Asked
) -> tuple[Sequence[OfferedTool], Sequence[LeftOut]]:
    """Those that the run's config and the node's restrictions leave, with the approvals they need; and the rest."""
    named = asked.tool_restrictions
    kept = [
        attrs.evolve(offer, requires_approval=left[offer.tool_id])
        for offer in offers
        if offer.tool_id in left and (named is None or offer.tool_id in named)
    ]
    known, offered = {offer.tool_id for offer in offers}, {offer.tool_id for offer in kept}
    absent = [
        LeftOut("tools", tool_id, "there is no such tool that agents can call")
        for tool_id in sorted(set(wanted) - known)
    ]
    why = "the run's config or the node's `tool_restrictions` leave it out"
    return kept, [*absent, *(LeftOut("tools", one, why) for one in sorted(known - offered))]


async def _all_items(work: UnitOfWork, room: int) -> tuple[Sequence[Fact], Sequence[LeftOut]]:
    """From the oldest on, until what was read takes more than the room."""
    facts, last = list[Fact](), ""
    while room >= 0:
        page = await work.context_items.page(limit=PAGE, after=last)
        facts += [_fact(item, "all agents of the organization are told it") for item in page]
        room -= sum(fact.tokens for fact in facts[len(facts) - len(page) :])
        if len(page) < PAGE:
            return facts, ()
        last = page[-1].id
    return facts, [LeftOut("contextItem", None, "later ones have no room in the context window")]


def _fact(item: ContextItem, why: str) -> Fact:
    return Fact("contextItem", item.id, item.content, item.title, why)


async def _subordinates(work: UnitOfWork, me: Principal, content: Mapping[str, JSON]) -> list[OfferedTool]:
    """The skills that this content supervises and the caller may use, as they are described there."""
    described = content.get(DESCRIPTIONS) or {}
    found = [await work.skills.get(number) for number in sorted(subordinates(content))]
    return [_subordinate(skill, described.get(str(skill.id))) for skill in found if skill and _may_use(me, skill)]


def _subordinate(skill: Resource, described: str | None = None) -> OfferedTool:
    text = described or skill.description or skill.name
    hint, why = f"skill_{skill.slug}", "a skill to hand work to"
    return OfferedTool(skill_id(skill.id), hint, text, MESSAGE_SCHEMA, "skill", skill.id, why=why)


async def _workflow(work: UnitOfWork, flow: Resource) -> OfferedTool:
    variation = await work.workflows.variation(flow.id, flow.active_variation_id or "")
    schema = input_schema_of(variation.content) if variation else {}
    hint, text, why = f"workflow_{flow.slug}", flow.description or flow.name, "a workflow that the caller may use"
    return OfferedTool(
        workflow_id(flow.id), hint, text, {**schema, "type": "object"}, "workflow", flow.id, True, why=why
    )


def input_schema_of(content: Mapping[str, JSON]) -> Mapping[str, JSON]:
    """What the workflow's start node asks of its input, if it asks for an object."""
    starts = (node for node in structure_of(content)["nodes"] if node["type"] == NodeType.START)
    start: Mapping[str, JSON] = next(starts, {})
    schema = (start.get("data") or {}).get("inputSchema")
    return schema if isinstance(schema, dict) and schema.get("type", "object") == "object" else {}


async def _usable(work: UnitOfWork, me: Principal, kind: Kind) -> list[Resource]:
    """Those with the lowest ids, and one more than is offered if there are more."""
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


def _settings(own: Mapping[str, JSON], asked: Asked, window: int | None) -> dict[str, JSON]:
    """The node's settings over the skill's; of all context windows the smallest."""
    settings = {**own, **asked.settings}
    windows = [size for size in (asked.settings.get("contextWindow"), window) if size is not None]
    return settings | ({"contextWindow": min(windows)} if windows else {})


def _withheld(me: Principal, source: str, scope: str) -> Sequence[LeftOut]:
    """Why a credential is shown nothing of this source; a run has every scope."""
    return [LeftOut(source, None, f"the token lacks `{scope}`")] if missing_scopes(me.scopes, [scope]) else ()
