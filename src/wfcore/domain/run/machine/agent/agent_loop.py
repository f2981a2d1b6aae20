"""The agent loop: rounds of a call of the model, and the calls of tools that it requests, until an answer requests
none.

All calls of a round are requested at once, each with the next step. The model gets the result of every call that it
requested, one message each, whatever the outcome: a tool that fails does not fail the node. The table is in `rounds`.

What a model says is untrusted data: it can request what the context offers and nothing else, a call that needs
approval is held exactly as it was shown, and every loop has a bound.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from wfcore.domain.agents.context import narrowed_context
from wfcore.domain.agents.context_attachments import attached
from wfcore.domain.json.codec import text_of
from wfcore.domain.kernel.json_readers import as_list, as_object, as_text, optional_object, optional_text
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run import entries as e
from wfcore.domain.run.effects import CallModel, CallTool, ComposeContext, Effect, OpenChild
from wfcore.domain.run.events import EventKind
from wfcore.domain.run.machine.agent.agents import config_of, model_call, replaces, tool_effect
from wfcore.domain.run.machine.agent.budget import check_again, count_usage, spend
from wfcore.domain.run.machine.approvals import origin_of, wait
from wfcore.domain.run.machine.nodes import fail, finish
from wfcore.domain.run.machine.replies import MOST_CALLS, ModelReply, bounded, fit, reply_of, tool_of
from wfcore.domain.run.machine.requests import fail_attempt, request
from wfcore.domain.run.machine.states.attempts import AttemptEvent, complete, expect, moved
from wfcore.domain.run.machine.states.debugging import show_context
from wfcore.domain.run.machine.states.interrupts import call_approval_of
from wfcore.domain.run.machine.states.output import emit, error_of, key_of, label_of, record
from wfcore.domain.run.machine.states.rounds import RoundEvent, advance
from wfcore.domain.run.machine.states.state import AgentLoop, Frame, Message, RoundState, RunState
from wfcore.domain.run.machine.states.turns import HELD_BACK
from wfcore.domain.run.plan import NodePlan


def compose(run: RunState, frame: Frame, node: NodePlan, effect: ComposeContext, context: JSON) -> None:
    """The context of an agent was composed: its first round begins."""
    complete(frame, effect)
    if not isinstance(context, dict):
        fail(run, frame, node, "the composed context is not an object", "context")
        return
    loop, context = frame.loops[node.index], narrowed_context(context, config_of(run))
    loop.context = context
    advance(loop, RoundEvent.compose)
    show_context(run, frame, node, context)
    shown = optional_object(as_object(context.get("human") or {}).get("attachments"))
    record(run, frame, node, "human", label_of(frame, effect.key), effect.message, attachments=shown)
    go_round(run, frame, node, loop)


# The model


def go_round(run: RunState, frame: Frame, node: NodePlan, loop: AgentLoop) -> None:
    """Request what comes next, unless the run is held back: `resume_loops` does it then."""
    while loop.todo and _goes_on(run, frame, node, loop):
        _request_call(run, frame, node, loop, loop.todo.popleft())
    if loop.state is RoundState.ready and _goes_on(run, frame, node, loop):
        _request_model(run, frame, node, loop)


def _goes_on(run: RunState, frame: Frame, node: NodePlan, loop: AgentLoop) -> bool:
    return run.phase not in HELD_BACK and frame.loops.get(node.index) is loop


def resume_loops(run: RunState, frame: Frame) -> None:
    """Request what was held back while the run was paused."""
    for index, loop in list(frame.loops.items()):
        go_round(run, frame, frame.plan.nodes[index], loop)


def _request_model(run: RunState, frame: Frame, node: NodePlan, loop: AgentLoop) -> None:
    bound = run.limits.max_agent_rounds
    if loop.rounds >= bound:
        fail(run, frame, node, f"`{node.id}` came to no end within {bound} calls of its model", "agent_rounds")
        return
    advance(loop, RoundEvent.ask)
    call = model_call(run, frame, node, loop, _transcript(run, frame, node, loop))
    loop.next += 1
    loop.rounds += 1
    spend(run, frame, node, call, loop)


def _transcript(run: RunState, frame: Frame, node: NodePlan, loop: AgentLoop) -> tuple[Message, ...]:
    """The conversation since the context, up to what the user said last."""
    for message in loop.unread:
        text, shown = as_text(message["content"]), optional_object(message.get("attachments"))
        record(run, frame, node, "human", as_text(message["id"]), text, attachments=shown)
    loop.transcript += loop.unread
    loop.unread = []
    return tuple(loop.transcript)


def say(run: RunState, frame: Frame, effect: CallModel, text: str) -> None:
    """A model streamed some text."""
    after = moved(effect, AttemptEvent.say)
    if not effect.said:
        expect(frame, after)
    node = frame.plan.nodes[effect.address[-3]]
    emit(
        run, frame, EventKind.message_delta, {"nodeId": node.id, "messageId": message_id(frame, effect), "delta": text}
    )


def message_id(frame: Frame, effect: CallModel) -> str:
    """The id of the message that this attempt of a model call produces."""
    return f"{label_of(frame, effect.key)}:{effect.attempt}"


def end_model_call(run: RunState, frame: Frame, node: NodePlan, effect: CallModel, entry: e.Succeeded) -> None:
    """A model has answered: the visit ends, or goes on with the calls that the answer requests."""
    count_usage(run, frame, entry.node, entry.usage)
    judged = entry.guardrail or {}
    if "blocked" in judged:
        fail_attempt(run, frame, effect, str(judged["blocked"]), "guardrail", False)
        return
    loop = frame.loops.get(node.index)
    reply = ModelReply(entry.output) if loop is None else reply_of(entry.output, loop.next)
    output: JSON = reply.text
    if node.schema is not None and not reply.calls:
        output, why = fit(output, node.schema)
        if why:
            why = f"the answer does not fit `outputSchema`: {why}"
            fail_attempt(run, frame, effect, why, "output_schema", True)
            check_again(run, frame, effect.address)
            return
    complete(frame, effect)
    _show_reply(run, frame, node, effect, reply, replaced=bool(judged))
    if loop is None:
        finish(run, frame, node, output)
    else:
        _take_reply(run, frame, node, loop, effect, reply, output)


def _show_reply(
    run: RunState, frame: Frame, node: NodePlan, effect: CallModel, reply: ModelReply, *, replaced: bool
) -> None:
    shown = {"nodeId": node.id, "messageId": message_id(frame, effect), "content": reply.text}
    if replaced and replaces(run):
        emit(run, frame, EventKind.message_replaced, shown)
    if reply.text or not reply.calls:
        emit(run, frame, EventKind.message, shown)


def _take_reply(
    run: RunState, frame: Frame, node: NodePlan, loop: AgentLoop, effect: CallModel, reply: ModelReply, output: JSON
) -> None:
    """Go on with the calls of the reply, or with what the user has said meanwhile; else the visit ends."""
    name = message_id(frame, effect)
    record(run, frame, node, "ai", name, text_of(reply.text), reply.calls)
    if not (reply.calls or loop.unread):
        advance(loop, RoundEvent.answer)
        del frame.loops[node.index]
        finish(run, frame, node, output)
        return
    loop.transcript.append({"type": "ai", "id": name, "content": reply.text, "toolCalls": list(reply.calls)})
    for call in reply.calls:
        loop.open[loop.next] = call
        loop.todo.append(loop.next)
        loop.next += 1
    advance(loop, RoundEvent.call if reply.calls else RoundEvent.listen)
    go_round(run, frame, node, loop)


# What a new turn changes


def narrow_loops(run: RunState, frame: Frame) -> None:
    """The config of a new turn holds for every agent under way, from its next round on."""
    for loop in frame.loops.values():
        if loop.context:
            loop.context = narrowed_context(loop.context, config_of(run))


def add_message(run: RunState, frame: Frame, sent: Mapping[str, JSON]) -> None:
    """The user said something more: every agent under way gets it with the results that its model waits for."""
    for index, loop in frame.loops.items():
        name = f"{label_of(frame, key_of(frame, frame.plan.nodes[index], 0, many=False))}:{run.run_id}"
        more = attached(optional_object(sent.get("attachments"))).human
        loop.unread.append({"type": "human", "id": name, "content": sent["message"], **more})


def renewed_call(run: RunState, frame: Frame, node: NodePlan, held: CallModel, loop: AgentLoop | None) -> CallModel:
    """A call that was held, with what was said and taken away meanwhile."""
    if loop is None:
        return replace(held, guardrails=as_list(config_of(run).get("guardrails") or ()))
    guardrails = as_list(loop.context.get("guardrails") or ())
    transcript = _transcript(run, frame, node, loop)
    model = optional_text(loop.context.get("model"))
    return replace(held, transcript=transcript, context=loop.context, model=model, guardrails=guardrails)


# The tools


def _request_call(run: RunState, frame: Frame, node: NodePlan, loop: AgentLoop, step: int) -> None:
    call = loop.open[step]
    tool, why = tool_of(loop.context, call, checks_always=run.evaluated is not None)
    if len(loop.open) + len(loop.results) > MOST_CALLS:
        why = f"at most {MOST_CALLS} calls can be made at once: none of these was"
    emit(
        run, frame, EventKind.tool_call,
        {"nodeId": node.id, "toolCallId": call["id"], "toolId": tool.get("toolId"), "name": call["name"],
         "arguments": call["args"]},
    )  # fmt: skip
    if why:
        end_call_in_error(run, frame, node, loop, step, why, "no_such_call")
        return
    if run.evaluated is not None and _is_stubbed(run, tool):
        end_call_well(run, frame, node, loop, step, _stubs(run).get(as_text(tool["toolId"])))
        return
    if run.evaluated is not None:  # what is left is a subordinate with its tools stubbed: nobody is there to approve it
        tool = {**tool, "requiresApproval": False}
    effect = tool_effect(run, frame, node, step, call, tool)
    if tool.get("requiresApproval"):
        origin = origin_of(run, frame, node, step)
        tool_id, call_id = as_text(tool["toolId"]), as_text(call["id"])
        name = as_text(tool.get("title", ""))
        variation = effect.definition if isinstance(effect, OpenChild) else ""
        wait(run, frame, call_approval_of(origin, tool_id, call["args"], call_id, name, variation), effect)
    else:
        request(run, frame, effect)


def _stubs(run: RunState) -> Mapping[str, JSON]:
    """The outputs of the stubbed tools of an evaluation, by tool id."""
    return as_object(as_object(as_object(run.info["evaluation"])["case"]).get("tools") or {})


def _is_stubbed(run: RunState, tool: Mapping[str, JSON]) -> bool:
    """Whether an evaluation ends the call without an effect or an approval: that of every tool, except a subordinate
    that the case does not name, whose own tools are stubbed in turn.
    """
    return tool.get("kind") not in ("skill", "workflow") or as_text(tool["toolId"]) in _stubs(run)


def knows(frame: Frame, effect: Effect) -> bool:
    """Whether a model requested this effect, which gets its failures too."""
    return effect.address[-3] in frame.loops and isinstance(effect, CallTool | OpenChild)


def end_call_in_error(
    run: RunState, frame: Frame, node: NodePlan, loop: AgentLoop, step: int, message: str, reason: str
) -> None:
    """One call of the round has failed, or was not made."""
    shown = {"error": error_of(run, message, {"nodeId": node.id, "reason": reason})}
    _end_call(run, frame, node, loop, step, f"error: {message}", shown)


def end_call_well(run: RunState, frame: Frame, node: NodePlan, loop: AgentLoop, step: int, output: JSON) -> None:
    """One call of the round has succeeded."""
    _end_call(run, frame, node, loop, step, text_of(output), {"output": output})


def _end_call(
    run: RunState, frame: Frame, node: NodePlan, loop: AgentLoop, step: int, text: str, shown: Mapping[str, JSON]
) -> None:
    """One call of the round has its result; the model is called when all have."""
    call, name = loop.open.pop(step), label_of(frame, key_of(frame, node, step))
    if run.evaluated is not None:
        tool_id = tool_of(loop.context, call)[0].get("toolId") or call["name"]
        run.evaluated.calls.append({"tool": tool_id, "args": call["args"], **shown})
    content = bounded(text)
    emit(run, frame, EventKind.tool_result, {"nodeId": node.id, "toolCallId": call["id"], **shown})
    record(run, frame, node, "tool", name, content, call_id=as_text(call["id"]))
    loop.results[step] = {"type": "tool", "id": name, "content": content, "toolCallId": call["id"]}
    if not loop.open:
        loop.transcript += [loop.results[step] for step in sorted(loop.results)]
        loop.results.clear()
        advance(loop, RoundEvent.collect)
        go_round(run, frame, node, loop)
