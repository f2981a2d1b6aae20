"""Contexts of agents: composed for runs and, without a model call, for previews.

Both use the same function (`domain.agents.context.compose`), so a preview shows exactly what a run sends.
"""

from collections.abc import Mapping, Sequence
from typing import Unpack

import attrs

from wfcore.api.contexts import AssistantContext, AssistantContextFields, SkillContext, SkillContextFields
from wfcore.domain.agents.context import Composed, CompositionInput, compose
from wfcore.domain.agents.context_messages import Message, request_of
from wfcore.domain.agents.end_users import end_user_fact, end_user_id, end_user_issues
from wfcore.domain.agents.narrowing import Allowance
from wfcore.domain.json.values import UNSET, given, to_json
from wfcore.domain.kernel.errors import Invalid, Issue, NotFound, refuse
from wfcore.domain.kernel.json_readers import as_integer, as_object, as_objects, as_text, optional_object
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal
from wfcore.domain.resources.lifecycle import Operation, Status, move
from wfcore.domain.resources.resource import Resource, Variation
from wfcore.domain.run.effects import CallModel, ComposeContext
from wfcore.ports.journal import Execution
from wfcore.ports.providers import ModelError, ModelRequest, ToolDefinition
from wfcore.ports.storage import UnitOfWork
from wfcore.runtime.agents.context_sources import Agent, ContextRequest, Sources
from wfcore.runtime.agents.guardrails import config_issues
from wfcore.runtime.agents.selections import config_faults
from wfcore.runtime.common.authorization import authorize, needs
from wfcore.runtime.common.bodies import Tree, parsed
from wfcore.runtime.common.ports import Ports
from wfcore.runtime.common.requests import thread_of
from wfcore.runtime.organization.directory import current_principal

SHOWN = ("model", "settings", "tools", "segments", "leftOut", "tokenEstimate", "contextWindow", "digest")


@attrs.frozen
class ContextView:
    """The preview of a context: the messages that a model would receive, and their parts."""

    context: Composed
    messages: Sequence[Message]

    def to_wire(self) -> dict[str, JSON]:
        return {"messages": self.messages, **{name: self.context[name] for name in SHOWN}}


class Contexts:
    """Composes contexts. A skill's context requires use of the skill; that of its draft also requires manage."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._sources = Sources(ports)
        self._conversations = ports.journal.conversations

    # Previews

    @needs("skills:read")
    async def compose(
        self, me: Principal, skill: int, body: SkillContext | Tree | None = None, **fields: Unpack[SkillContextFields]
    ) -> ContextView:
        """The context that a run of this skill by this caller would send now (interface, context composition).

        Memories, context items and the conversation are left out for a credential without the scope to read them.
        Errors: NotFound, Forbidden; Conflict with `info.reason` `not_deployed` or `deleted`; Invalid when it does not
        fit the context window, or the `config` exceeds what the skill allows.
        """
        wanted = parsed(SkillContext, body, fields, _user_issues)
        draft, request = wanted.view == "draft", _request_of(wanted, given(wanted.instructions))
        async with self._ports.storage.reading(me.org_uuid) as work:
            resource = await work.skills.get(skill)
            authorize(me, resource, "use")
            assert resource is not None  # noqa: S101  (authorize raised)
            if draft:
                authorize(me, resource, "manage")
            move(resource.status, Operation.RUN_DRAFT if draft else Operation.RUN)
            chosen = (resource.draft_variation_id if draft else None) or resource.active_variation_id or ""
            variation = await work.skills.variation(skill, chosen)
            if variation is None:
                raise NotFound
            allowed = self._allowed(resource, variation)
            refuse(config_issues(self._ports.guardrails, request.config, allowed))
            refuse(await config_faults(work, request.config, [allowed.connections]))
        agent = await self._sources.of_skill(me, resource, variation, allowed, request)
        return await self._view(me, agent, request, _thread_of(me, wanted))

    @needs("skills:read", "workflows:read")
    async def assistant(
        self, me: Principal, body: AssistantContext | Tree | None = None, **fields: Unpack[AssistantContextFields]
    ) -> ContextView:
        """The context that a run of the assistant by this caller would send now. Errors as for `compose`."""
        wanted = parsed(AssistantContext, body, fields, _user_issues)
        request, allowed = _request_of(wanted), Allowance(frozenset(self._ports.models))
        refuse(config_issues(self._ports.guardrails, request.config, allowed))
        async with self._ports.storage.reading(me.org_uuid) as work:
            refuse(await config_faults(work, request.config, ()))
            agent = await self._sources.of_assistant(work, me, request)
        return await self._view(me, agent, request, _thread_of(me, wanted))

    async def _view(self, me: Principal, agent: Agent, requested: ContextRequest, thread_id: str | None) -> ContextView:
        context = compose(await self._ingredients(me, agent, requested, thread_id))
        return ContextView(
            context, request_of(context, await self._past_messages(me.org_uuid, me.user_id, context), ())
        )

    # Runs

    async def composed(self, execution: Execution, effect: ComposeContext) -> Composed:
        """The context of an agent's visit. `ModelError` when the skill is missing, or the context does not fit.

        The frame of a skill has pinned its variation; a node of a workflow uses the variation that is deployed now.
        Subordinates, memories and the conversation are those of the user who started the execution. The context of an
        agent within a frame has no conversation, that of an evaluation no memories.
        """
        org, requested, is_root = execution.ref.org, ContextRequest.of(effect), len(effect.address) == 3
        pinned = effect.variation_id or (execution.variation_id if is_root and execution.kind == "skill" else None)
        async with self._ports.storage.reading(org) as work:
            caller = await current_principal(work, org, execution.user_id)
            if effect.assistant:
                agent = await self._sources.of_assistant(work, caller, requested)
            else:
                resource, variation = await _deployed(work, effect.agent_id or 0, pinned)
        if not effect.assistant:
            allowed = self._allowed(resource, variation)
            agent = await self._sources.of_skill(caller, resource, variation, allowed, requested)
        thread_id = execution.thread_id if is_root else None
        try:
            is_evaluated = execution.started_by == "evaluation"
            return compose(await self._ingredients(caller, agent, requested, thread_id, has_memories=not is_evaluated))
        except Invalid as error:
            raise ModelError(error.message, retryable=False, reason="context") from None

    async def request(self, execution: Execution, effect: CallModel) -> ModelRequest:
        """The model request: the messages of the composed context, then the agent's rounds so far."""
        context = effect.context
        if context is None:
            raise ValueError("this call has no composed context")
        stored = await self._past_messages(execution.ref.org, execution.user_id, context)
        tools = [
            ToolDefinition(as_text(tool["name"]), as_text(tool["description"]), as_object(tool["parameters"]))
            for tool in as_objects(context["tools"])
        ]
        messages = request_of(context, stored, effect.transcript)
        model, settings = as_text(context["model"]), as_object(context["settings"])
        return ModelRequest(messages, model, settings, _schema_of(context), effect.key, tools)

    # Parts

    def _allowed(self, resource: Resource, variation: Variation) -> Allowance:
        return Allowance.of_skill(variation.skill, resource.access.guardrails, self._ports.models)

    async def _ingredients(
        self,
        me: Principal,
        agent: Agent,
        requested: ContextRequest,
        thread_id: str | None,
        *,
        has_memories: bool = True,
    ) -> CompositionInput:
        """All ingredients: the agent's own, the memories for the message, and the conversation."""
        user_id = end_user_id(requested.user_context) or me.user_id
        message = requested.message if has_memories else None
        memories, without = await self._sources.memories(me, agent.skill_id, message, user_id)
        history, unread = await self._sources.history(me, thread_id, agent.given.settings)
        left_out = (*agent.given.left_out, *without, *unread)
        return attrs.evolve(
            agent.given,
            memories=memories,
            history=history,
            left_out=left_out,
            attachments=requested.attachments,
            end_user=end_user_fact(requested.user_context or {}, self._ports.clock.now()),
        )

    async def _past_messages(self, org: str, user_id: str, context: Mapping[str, JSON]) -> Sequence[Message]:
        """The messages of the context's range, without those that were deleted since."""
        range_ = optional_object(context["messages"])
        if range_ is None:
            return ()
        conversation = await self._conversations.own(org, as_text(range_["threadId"]), user_id)
        if conversation is None:
            return ()
        after, up_to = as_integer(range_["after"]), as_integer(range_["upTo"])
        found = await self._conversations.messages([conversation], after=after, up_to=up_to)
        return [message.to_wire() for message in found]


def _schema_of(context: Mapping[str, JSON]) -> Mapping[str, JSON] | None:
    return optional_object(context.get("outputSchema"))


def _request_of(wanted: AssistantContext, instructions: str | None = None) -> ContextRequest:
    config = {} if wanted.config is UNSET else to_json(wanted.config)
    user = None if wanted.user_context is UNSET else to_json(wanted.user_context)
    return ContextRequest(given(wanted.message), instructions or "", None, {}, None, config, user_context=user)


def _user_issues(data: Tree) -> list[Issue]:
    return end_user_issues(data.get("userContext"))


async def _deployed(work: UnitOfWork, number: int, pinned: str | None) -> tuple[Resource, Variation]:
    resource = await work.skills.get(number)
    if resource is not None and (pinned or resource.status is Status.ACTIVE):
        variation = await work.skills.variation(number, pinned or resource.active_variation_id or "")
        if variation is not None:
            return resource, variation
    raise ModelError(_why_missing(number, resource), retryable=False, reason="skill_missing")


def _why_missing(number: int, resource: Resource | None) -> str:
    if resource is None:
        return f"skill `{number}` does not exist"
    if resource.status is Status.DELETED:
        return f"skill `{number}` is deleted: restore it, then retry the run"
    return f"skill `{number}` is not deployed"


def _thread_of(me: Principal, wanted: AssistantContext) -> str | None:
    return thread_of(me, given(wanted.file_thread_id), given(wanted.session_id))
