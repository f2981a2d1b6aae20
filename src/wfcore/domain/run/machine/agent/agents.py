"""Agents: starting them, and the effects that they request.

An agent without a skill calls its model once, with a context of what its node and the run have. One with a skill, and
the organization's assistant, has a context composed first (step 0 of the visit); what follows is in `agent_loop`.
"""

from collections.abc import Mapping
from typing import Final

from wfcore.domain.agents.context import Composed, CompositionInput, compose, windowed
from wfcore.domain.agents.context_messages import request_of
from wfcore.domain.agents.end_users import end_user_fact, end_user_id
from wfcore.domain.agents.narrowing import Allowance, guardrails_under, narrowed
from wfcore.domain.json.codec import text_of
from wfcore.domain.json.values import UNSET, given
from wfcore.domain.kernel.errors import Invalid
from wfcore.domain.kernel.json_readers import (
    as_integer,
    as_list,
    as_object,
    as_text,
    as_texts,
    optional_object,
    optional_text,
)
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.effects import CallModel, CallTool, ComposeContext, Effect, OpenChild
from wfcore.domain.run.machine.agent.budget import spend
from wfcore.domain.run.machine.nodes import fail
from wfcore.domain.run.machine.requests import address_of, chosen_connections, request
from wfcore.domain.run.machine.states.debugging import show_context
from wfcore.domain.run.machine.states.output import key_of
from wfcore.domain.run.machine.states.state import AgentLoop, Frame, Message, RunState, moved_to, pinned_of
from wfcore.domain.run.plan import NodePlan

REPLACING: Final = 2
"""The version of the stream whose clients replace what they displayed (interface, streamProtocolVersion)."""


def start_agent(run: RunState, frame: Frame, node: NodePlan) -> None:
    """Start an agent: compose its context, or call its model."""
    if node.composed:
        effect = composing(run, frame, node)
        frame.loops[node.index] = AgentLoop(effect)
        request(run, frame, effect)
        return
    try:
        context = own_context(run, frame, node)
    except Invalid as error:
        fail(run, frame, node, error.message, "context")
        return
    show_context(run, frame, node, context)
    spend(run, frame, node, single_call(run, frame, node, context))


def _message(run: RunState, frame: Frame, node: NodePlan) -> str:
    """The message that the agent gets, rendered."""
    assert node.message is not None  # noqa: S101  (an agent has one)
    templated = node.agent.message is not UNSET
    text = node.message.render(frame.scope, steps=run.steps) if templated else _message_of_frame(run, frame)
    return text_of(text)


def _message_of_frame(run: RunState, frame: Frame) -> JSON:
    """The message for an agent without one of its own: that of the run or child, else the input."""
    if frame.entry is not None:
        return frame.entry.message or frame.entry.input
    return run.info.get("message") or frame.scope["input"]


def attachments_of(run: RunState, frame: Frame) -> Mapping[str, JSON] | None:
    """What is attached to the turn. Every agent of the root frame gets it, a child gets nothing."""
    return optional_object(run.info.get("attachments")) if frame.outer is None else None


def config_of(run: RunState) -> Mapping[str, JSON]:
    """What this turn and those before it took away (interface, Resume a run: `config`)."""
    return as_object(run.info.get("config") or {})


def replaces(run: RunState) -> bool:
    """Whether the turn's client replaces what it displayed."""
    return bool(run.info.get("streamProtocolVersion") == REPLACING)


def own_context(run: RunState, frame: Frame, node: NodePlan) -> Composed:
    """The context of an agent without a skill: the node, the message, its attachments and the end user.

    `model` is "" for the default one. Raises Invalid when the parts do not fit into the context window.
    """
    config, user = config_of(run), optional_object(run.info.get("userContext")) or {}
    parts = CompositionInput(
        given(node.agent.model) or optional_text(config.get("model")) or "",
        node_instructions=_instructions(node),
        message=_message(run, frame, node),
        settings=windowed(node.model_settings, narrowed(Allowance(), config).context_window),
        output_schema=given(node.agent.output_schema),
        attachments=attachments_of(run, frame),
        guardrails=guardrails_under((), config),
        end_user=end_user_fact(user, run.at),
    )
    return compose(parts)


def single_call(run: RunState, frame: Frame, node: NodePlan, context: Composed) -> CallModel:
    """The one call of the model of an agent without a skill."""
    return CallModel(
        address_of(frame, node.index, 0),
        1,
        key_of(frame, node, 0, many=False),
        node.skill_id,
        optional_text(context["model"]) or None,
        tuple(request_of(context, (), ())),
        as_object(context["settings"]),
        given(node.agent.output_schema),
        given(node.agent.tool_restrictions),
        timeout=node.timeout,
        guardrails=as_list(context.get("guardrails") or ()),
        replaceable=replaces(run),
    )


def composing(run: RunState, frame: Frame, node: NodePlan) -> ComposeContext:
    """The request of an agent's context."""
    agent, pinned = node.agent, pinned_of(run, frame)
    return ComposeContext(
        address_of(frame, node.index, 0),
        1,
        key_of(frame, node, 0),
        node.skill_id,
        node.assistant,
        _instructions(node),
        _message(run, frame, node),
        given(agent.tool_restrictions),
        node.model_settings,
        given(agent.model),
        optional_object(run.info.get("config")),
        given(agent.output_schema),
        timeout=node.timeout,
        variation_id=pinned[2] if pinned is not None and pinned[0] == "skill" else None,
        attachments=attachments_of(run, frame),
        user_context=optional_object(run.info.get("userContext")),
    )


def model_call(
    run: RunState, frame: Frame, node: NodePlan, loop: AgentLoop, transcript: tuple[Message, ...]
) -> CallModel:
    """The call of the model in the next step of a visit."""
    step, context = loop.next, loop.context
    return CallModel(
        address_of(frame, node.index, step),
        1,
        key_of(frame, node, step),
        node.skill_id,
        optional_text(context.get("model")),
        (),
        as_object(context.get("settings") or {}),
        optional_object(context.get("outputSchema")) or given(node.agent.output_schema),
        timeout=node.timeout,
        context=context,
        transcript=transcript,
        guardrails=as_list(context.get("guardrails") or ()),
        replaceable=replaces(run),
        allowances=loop.allowances,
    )


def tool_effect(
    run: RunState, frame: Frame, node: NodePlan, step: int, call: Mapping[str, JSON], tool: Mapping[str, JSON]
) -> Effect:
    """The effect of a call that a model requested, of a tool that its context offers."""
    address, key = address_of(frame, node.index, step), key_of(frame, node, step)
    kind, args = tool.get("kind"), call["args"]
    if kind in ("skill", "workflow"):
        message = as_object(args).get("message") if kind == "skill" else None
        text = message if isinstance(message, str) else None
        number, depth = as_integer(tool["resourceId"]), len(frame.place.path) + 1
        return OpenChild(
            address, 1, key, kind, number, args, text, agent=True, depth=depth, frame=moved_to(run, frame),
            definition=approved_definition(tool),
        )  # fmt: skip
    message_id = as_text(frame.loops[node.index].transcript[-1]["id"])
    return CallTool(
        address, 1, key, as_text(tool["toolId"]), args, agent=True, call_id=as_text(call["id"]),
        definition=approved_definition(tool), skill_id=node.skill_id, message_id=message_id,
        end_user_id=end_user_id(run.info.get("userContext")),
        connections=chosen_connections(run, as_texts((frame.loops[node.index].context or {}).get("connections") or ())),
    )  # fmt: skip


def approved_definition(tool: Mapping[str, JSON]) -> str:
    """What an approval of a call binds of the tool: the digest of its definition, or for a workflow or a skill the
    variation that is deployed; "" when its calls need no approval.
    """
    name = "variationId" if tool.get("kind") in ("skill", "workflow") else "digest"
    return as_text(tool.get(name, "")) if tool.get("requiresApproval") else ""


def _instructions(node: NodePlan) -> str:
    instructions = given(node.agent.instructions) or []
    return instructions if isinstance(instructions, str) else "\n".join(instructions)
