"""Agents: one question to a model, or a talk of it with its tools.

An agent without a skill asks its model once. One with a skill, and the organization's assistant, has a context
composed first (step 0 of the visit); then come rounds of a model call and the calls of tools that it asked for, all
at once, each with the next step, until an answer asks for none. The model sees the result of every call that it
made, one message each, whatever became of it: a failing tool is told, it does not fail the node.

What a model says is data of somebody else: it can ask for what the context offers and for nothing else, a call that
needs approval is kept exactly as it was shown, and every loop has a bound.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from msgspec.structs import replace

from wfcore.domain.agents.context import narrowed_context
from wfcore.domain.agents.context_attachments import attached
from wfcore.domain.graph.structure import NodeType
from wfcore.domain.json.codec import dumps
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run import entries as e
from wfcore.domain.run.effects import CallModel, CallTool, ComposeContext, Effect, OpenChild
from wfcore.domain.run.events import EventKind
from wfcore.domain.run.machine.interrupts import call_approval_of
from wfcore.domain.run.machine.nodes import asks_somebody, is_broken_off
from wfcore.domain.run.machine.replies import MOST_CALLS, ModelReply, answer_of, bounded, fit, said, tool_of
from wfcore.domain.run.machine.spending import Spending
from wfcore.domain.run.machine.visits import AgentLoop
from wfcore.domain.run.plan import NodePlan
from wfcore.domain.run.records import MessageRecord
from wfcore.domain.run.state import Interrupt


class Agents(Spending):
    """A frame whose agents can be started, and whose models can answer."""

    __slots__ = ()

    # The beginning

    def _start_agent(self, node: NodePlan) -> None:
        assert node.message is not None  # noqa: S101  (an agent has one)
        text = node.message.render(self.scope, steps=self.steps) if "message" in node.data else self._told_at_start()
        content = text if isinstance(text, str) else dumps(text)
        if node.composed:
            self._compose(node, content)
        else:
            self._ask_once(node, content)

    def _told_at_start(self) -> JSON:
        """What an agent without a message of its own is told: the run's message, else its input."""
        return self.info.get("message") or self.scope["input"]

    def _attached(self) -> Mapping[str, JSON] | None:
        """What is attached to the turn, which every agent of its own frame is shown."""
        return self.info.get("attachments")

    def _ask_once(self, node: NodePlan, content: str) -> None:
        data, system = node.data, _instructions(node)
        messages = [{"type": "system", "content": system}] if system else []
        self._spend(
            node,
            CallModel(
                self._address(node.index, self.visits[node.index], 0),
                1,
                self._key(node, 0, many=False),
                data.get("agent_id"),
                data.get("model"),
                (*messages, {"type": "human", "content": content, **attached(self._attached()).human}),
                data.get("modelSettings") or {},
                data.get("outputSchema"),
                data.get("tool_restrictions"),
                timeout=node.timeout,
                guardrails=self._config().get("guardrails") or (),
                replaceable=self._replaces(),
            ),
        )

    def _config(self) -> Mapping[str, JSON]:
        """What this turn and those before it took away (interface, Resume a run: `config`)."""
        return self.info.get("config") or {}

    def _replaces(self) -> bool:
        """Whether the turn's client takes back what it was shown (interface, streamProtocolVersion)."""
        return self.info.get("streamProtocolVersion") == REPLACING

    def _compose(self, node: NodePlan, content: str) -> None:
        data = node.data
        self.talks[node.index] = AgentLoop()
        self._request(
            ComposeContext(
                self._address(node.index, self.visits[node.index], 0),
                1,
                self._key(node, 0, many=True),
                data.get("agent_id"),
                node.assistant,
                _instructions(node),
                content,
                data.get("tool_restrictions"),
                data.get("modelSettings") or {},
                data.get("model"),
                self.info.get("config"),
                data.get("outputSchema"),
                timeout=node.timeout,
                variation_id=self._pinned_skill(),
                attachments=self._attached(),
            )
        )

    def _pinned_skill(self) -> str | None:
        """The variation of the skill that this frame is a child for."""
        return None

    def _composed(self, node: NodePlan, effect: ComposeContext, context: JSON) -> None:
        if not isinstance(context, dict):
            self._fail(node, "the context that was composed is no object", "context")
            return
        self.drop(effect.address)
        talk, context = self.talks[node.index], narrowed_context(context, self._config())
        talk.context, talk.before, talk.asking = context, self.usage.copy(), True
        told = (context.get("human") or {}).get("attachments")
        self._record(node, "human", self._label(effect.key), effect.message, attachments=told)
        self._go_round(node, talk)

    # The model's turn

    def _go_round(self, node: NodePlan, talk: AgentLoop) -> None:
        """Ask for what comes next, unless the run is paused: `take_up` comes back to it."""
        while talk.todo and self._goes_on(node, talk):
            self._make_call(node, talk, talk.todo.popleft())
        if talk.asking and self._goes_on(node, talk):
            self._ask_model(node, talk)

    def _goes_on(self, node: NodePlan, talk: AgentLoop) -> bool:
        return not self.paused and self.talks.get(node.index) is talk

    def take_up(self) -> None:
        super().take_up()
        for index, talk in list(self.talks.items()):
            self._go_round(self.plan.nodes[index], talk)

    def _ask_model(self, node: NodePlan, talk: AgentLoop) -> None:
        talk.asking = False
        if talk.rounds >= self.limits.max_agent_rounds:
            bound = self.limits.max_agent_rounds
            self._fail(node, f"`{node.id}` came to no end within {bound} calls of its model", "agent_rounds")
        else:
            self._call_model(node, talk)

    def _call_model(self, node: NodePlan, talk: AgentLoop) -> None:
        step, context = talk.next, talk.context
        talk.next += 1
        talk.rounds += 1
        self._spend(
            node,
            CallModel(
                self._address(node.index, self.visits[node.index], step),
                1,
                self._key(node, step, many=True),
                node.data.get("agent_id"),
                context.get("model"),
                (),
                context.get("settings") or {},
                context.get("outputSchema") or node.data.get("outputSchema"),
                timeout=node.timeout,
                context=context,
                transcript=self._transcript(node, talk),
                guardrails=context.get("guardrails") or (),
                replaceable=self._replaces(),
                allowances=talk.allowances,
            ),
            talk,
        )

    def _came_back(self, node: NodePlan, effect: Effect, entry: e.Succeeded) -> None:
        if isinstance(effect, CallModel):
            self.consume(entry.node, entry.usage)
            self._answered(node, effect, entry)
        elif isinstance(effect, ComposeContext):
            self._composed(node, effect, entry.output)
        else:
            super()._came_back(node, effect, entry)

    def _answered(self, node: NodePlan, effect: CallModel, entry: e.Succeeded) -> None:
        judged = entry.guardrail or {}
        if "blocked" in judged:
            self._attempt_failed(effect, str(judged["blocked"]), "guardrail", False)
            return
        talk = self.talks.get(node.index)
        answer = ModelReply(entry.output) if talk is None else answer_of(entry.output, talk.next)
        output: JSON = answer.text
        if node.schema is not None and not answer.calls:
            output, why = fit(output, node.schema)
            if why:
                self._attempt_failed(effect, f"the answer does not fit `outputSchema`: {why}", "output_schema", True)
                return
        self.drop(effect.address)
        name = self._message_id(effect)
        if judged and self._replaces():
            self.emit(EventKind.message_replaced, {"nodeId": node.id, "messageId": name, "content": answer.text})
        if answer.text or not answer.calls:
            self.emit(EventKind.message, {"nodeId": node.id, "messageId": name, "content": answer.text})
        if talk is not None:
            self._record(node, "ai", name, answer.text, answer.calls)
        if talk is None or not (answer.calls or talk.heard):
            self.talks.pop(node.index, None)
            self._finish(node, output)
            return
        talk.transcript.append({"type": "ai", "id": name, "content": answer.text, "toolCalls": list(answer.calls)})
        for call in answer.calls:
            talk.open[talk.next] = call
            talk.todo.append(talk.next)
            talk.next += 1
        talk.asking = not answer.calls
        self._go_round(node, talk)

    def narrow(self) -> None:
        """A new turn has a config of its own: it holds for every agent under way, from its next round on."""
        for talk in self.talks.values():
            if talk.context:
                talk.context = narrowed_context(talk.context, self._config())

    def hear(self, said: Mapping[str, JSON]) -> None:
        """The user said something more: every agent under way is told, with the results that its model waits for."""
        for index, talk in self.talks.items():
            name = f"{self._label(self._key(self.plan.nodes[index], 0, many=False))}:{self.run_id}"
            more = attached(said.get("attachments")).human
            talk.heard.append({"type": "human", "id": name, "content": said["message"], **more})

    def _transcript(self, node: NodePlan, talk: AgentLoop) -> tuple[Mapping[str, JSON], ...]:
        """All that was said since, up to what the user said last."""
        for message in talk.heard:
            self._record(node, "human", message["id"], message["content"], attachments=message.get("attachments"))
        talk.transcript += talk.heard
        talk.heard = []
        return tuple(talk.transcript)

    def say(self, effect: CallModel, text: str) -> None:
        """A model that this frame called streamed some text."""
        if not effect.said:
            self.expect(replace(effect, said=True))
        node = self.plan.nodes[effect.address[-3]]
        self.emit(EventKind.message_delta, {"nodeId": node.id, "messageId": self._message_id(effect), "delta": text})

    # The tools' turn

    def _make_call(self, node: NodePlan, talk: AgentLoop, step: int) -> None:
        call = talk.open[step]
        tool, why = tool_of(talk.context, call)
        if len(talk.open) + len(talk.results) > MOST_CALLS:
            why = f"at most {MOST_CALLS} calls can be made at once: none of these was"
        self.emit(
            EventKind.tool_call,
            {"nodeId": node.id, "toolCallId": call["id"], "toolId": tool.get("toolId"), "name": call["name"],
             "arguments": call["args"]},
        )  # fmt: skip
        if why:
            self._tell_error(node, talk, step, why, "no_such_call")
            return
        effect = self._effect_of(node, step, call, tool)
        if tool.get("requiresApproval"):
            asker = self._asker(node, step)
            self._ask(call_approval_of(asker, tool["toolId"], call["args"], call["id"]), effect)
        else:
            self._request(effect)

    def _effect_of(self, node: NodePlan, step: int, call: Mapping[str, JSON], tool: Mapping[str, JSON]) -> Effect:
        address, key = self._address(node.index, self.visits[node.index], step), self._key(node, step, many=True)
        kind, args = tool.get("kind"), call["args"]
        if kind in ("skill", "workflow"):
            message = args.get("message") if kind == "skill" else None
            told = message if isinstance(message, str) else None
            depth = len(self.path) + 1
            return OpenChild(address, 1, key, kind, tool["resourceId"], args, told, agent=True, depth=depth)
        approved = tool.get("digest", "") if tool.get("requiresApproval") else ""
        return CallTool(
            address, 1, key, tool["toolId"], args, agent=True, call_id=call["id"], definition=approved,
            skill_id=node.data.get("agent_id"), message_id=self.talks[node.index].transcript[-1]["id"],
        )  # fmt: skip

    def _step_done(self, node: NodePlan, step: int, output: JSON) -> None:
        talk = self.talks.get(node.index)
        if talk is None:
            super()._step_done(node, step, output)
        else:
            self._tell(node, talk, step, said(output), {"output": output})

    def _tell_error(self, node: NodePlan, talk: AgentLoop, step: int, message: str, reason: str) -> None:
        self._tell(node, talk, step, f"error: {message}", {"error": self._error(node, message, reason)})

    def _tell(self, node: NodePlan, talk: AgentLoop, step: int, text: str, shown: Mapping[str, JSON]) -> None:
        """One call of the round has its result; the model goes on when all have."""
        call, name = talk.open.pop(step), self._label(self._key(node, step, many=True))
        content = bounded(text)
        self.emit(EventKind.tool_result, {"nodeId": node.id, "toolCallId": call["id"], **shown})
        self._record(node, "tool", name, content, call_id=call["id"])
        talk.results[step] = {"type": "tool", "id": name, "content": content, "toolCallId": call["id"]}
        if not talk.open:
            talk.transcript += [talk.results[step] for step in sorted(talk.results)]
            talk.results.clear()
            talk.asking = True
            self._go_round(node, talk)

    def fail(self, effect: Effect, message: str, reason: str, retryable: bool, info: Mapping[str, JSON] | None) -> None:
        if info and isinstance(effect, CallModel) and asks_somebody(effect, reason, info):
            self._ask_to_spend(self.plan.nodes[effect.address[-3]], effect, info["budget"], info["times"])
        elif isinstance(effect, CallModel) and is_broken_off(effect, reason):
            again = replace(effect, broken_off=effect.broken_off + 1)
            self._try_again(self.plan.nodes[effect.address[-3]], again, 0, message, reason)
        elif asks_somebody(effect, reason, info) or not self._is_told(effect):
            super().fail(effect, message, reason, retryable, info)
        else:
            self._attempt_failed(effect, message, reason, retryable)

    def _attempt_failed(self, effect: Effect, message: str, reason: str, retryable: bool) -> None:
        if not self._is_told(effect):
            super()._attempt_failed(effect, message, reason, retryable)
            return
        self.drop(effect.address)
        index, _, step = effect.address[-3:]
        self._tell_error(self.plan.nodes[index], self.talks[index], step, message, reason)

    def is_fatal(self, effect: Effect, retryable: bool) -> bool:
        return not self._is_told(effect) and super().is_fatal(effect, retryable)

    def _is_told(self, effect: Effect) -> bool:
        """Whether a failure of this effect is a model's to know: it called it."""
        return effect.address[-3] in self.talks and isinstance(effect, CallTool | OpenChild)

    def settle(self, waiting: Interrupt, decided: str) -> None:
        talk, held, node = self.talks.get(waiting.node), self.held.get(waiting.id), self.plan.nodes[waiting.node]
        if talk is None and not isinstance(held, CallModel):
            super().settle(waiting, decided)
            return
        self._unask(waiting)
        if isinstance(held, CallModel):
            self._may_spend(node, self._anew(node, held, talk), decided)
        elif held is not None and decided in ("approved", "connected"):
            self._request(held)
        elif talk is not None:
            self._tell_error(node, talk, waiting.step, REFUSED[decided], decided)

    def _anew(self, node: NodePlan, held: CallModel, talk: AgentLoop | None) -> CallModel:
        """A call that waited, with what was said and taken away meanwhile."""
        if talk is None:
            return replace(held, guardrails=self._config().get("guardrails") or ())
        guardrails = talk.context.get("guardrails") or ()
        return replace(held, transcript=self._transcript(node, talk), context=talk.context, guardrails=guardrails)

    def _break_off(self, index: int, talk: AgentLoop) -> None:
        """The calls that have no result get none any more: the conversation is whole all the same."""
        node = self.plan.nodes[index]
        for step, call in talk.open.items():
            name = self._label(self._key(node, step, many=True))
            self._record(node, "tool", name, REFUSED["given_up"], call_id=call["id"])
        talk.open = {}

    def _label(self, key: str) -> str:
        """The id of a message that belongs to the step with this key."""
        return self.label + key[len(self.prefix) :]

    def _message_id(self, effect: CallModel) -> str:
        """The id of the message that this attempt of a model call produces."""
        return f"{self._label(effect.key)}:{effect.attempt}"

    def _record(
        self,
        node: NodePlan,
        kind: str,
        name: str,
        text: str,
        calls: tuple[JSON, ...] = (),
        call_id: str | None = None,
        attachments: Mapping[str, JSON] | None = None,
    ) -> None:
        skill = node.data.get("agent_id")
        self.records.append(MessageRecord(kind, name, text, calls, call_id, skill, self.path, self.at, attachments))

    STARTERS: ClassVar[Mapping[NodeType, Callable[[Any, NodePlan], None]]] = {
        **Spending.STARTERS,
        NodeType.AGENT: _start_agent,
    }


REPLACING = 2
"""The version of the stream that replaces what was shown."""

REFUSED = {
    "denied": "the call was denied by a person",
    "cancelled": "the connection that the call needs was refused by a person",
    "given_up": "error: the call was given up before it had a result",
}


def _instructions(node: NodePlan) -> str:
    instructions = node.data.get("instructions") or []
    return instructions if isinstance(instructions, str) else "\n".join(instructions)
