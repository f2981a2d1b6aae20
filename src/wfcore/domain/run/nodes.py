"""What starting a node does: which effects are asked for, which waits are opened, what is decided at once."""

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import attrs

from wfcore.domain.codec import dumps, iso_ms
from wfcore.domain.errors import JSON, Malformed
from wfcore.domain.expressions import ExpressionError
from wfcore.domain.graph import NodeType
from wfcore.domain.json_gate import parse_json
from wfcore.domain.json_schema import Schema
from wfcore.domain.run import entries as e
from wfcore.domain.run.effects import Address, CallModel, CallTool, Effect
from wfcore.domain.run.events import EventKind
from wfcore.domain.run.execution import Batch, Execution
from wfcore.domain.run.interrupts import (
    approval_of,
    expiry,
    interrupt_to_wire,
    stored_call,
)
from wfcore.domain.run.plan import FAIL, WAIT, NodePlan
from wfcore.domain.run.state import (
    Interrupt,
)

SKIPS_PER_VISIT = 20
"""Nodes that may be skipped for each node visit that is allowed: skipping costs little, but not nothing."""


class Nodes(Execution):
    """An execution whose nodes can be started, and whose effects can come back."""

    __slots__ = ()

    # Going on until something outside is needed

    def _go_on(self) -> None:
        ready, flow, nodes = self.flow.ready, self.flow, self.plan.nodes
        while ready and not self.ended and not self.paused:
            index = ready.popleft()
            if flow.taken[index]:
                self._start(nodes[index])
            else:
                self._skip(nodes[index])
            ready = flow.ready
        if not self.ended and self._at_rest():
            if self.interrupts or (self.paused and (ready or self.pending or self.timers or self.batches)):
                self._park()
                self._move("park")
            else:
                self.output = self._collect()
                self._close("finish", EventKind.done, {"status": "done", "output": self.output})

    def _skip(self, node: NodePlan) -> None:
        self.skipped += 1
        if self.skipped > len(self.plan.nodes) + SKIPS_PER_VISIT * self.limits.max_node_visits:
            self._break_bound("the run skipped too many nodes: a cycle goes round dead paths", "node_visits")
            return
        self._turn_node(node.index, "skip")
        self._emit(EventKind.node_skipped, {"nodeId": node.id})
        self.flow.skip(node.index)

    def _at_rest(self) -> bool:
        """Whether nothing can go on by itself; a paused run does not count what is not due yet."""
        if self.paused:
            return all(effect.not_before > self.at for effect in self.pending.values())
        return not (self.pending or self.timers)

    def _start(self, node: NodePlan) -> None:
        self.visited += 1
        if self.visited > self.limits.max_node_visits:
            self._break_bound(f"the run passed its bound of {self.limits.max_node_visits} node visits", "node_visits")
            return
        index = node.index
        self.visits[index] += 1
        self._turn_node(index, "start")
        if self.sink is None:
            self.seq += 1
        else:
            self._emit(EventKind.node_started, {"nodeId": node.id, "visit": self.visits[index]})
        try:
            self._STARTERS[node.kind](self, node)
        except ExpressionError as error:
            self._fail(node, str(error), "expression")

    def _start_start(self, node: NodePlan) -> None:
        self._finish(node, self.scope["input"])

    def _start_condition(self, node: NodePlan) -> None:
        for handle, when in node.branches:
            held = when.evaluate(self.scope)
            if held is True:
                self._finish(node, {"handle": handle}, handle=handle)
                return
            if held is not False:
                raise ExpressionError(f"`{when.source}` gives no boolean")
        self._finish(node, {"handle": "else"}, handle="else")

    def _start_action(self, node: NodePlan) -> None:
        assert node.params is not None  # noqa: S101  (an action has them)
        if node.plain:
            self._call(node, 0, node.params.render(self.scope))
            return
        if node.for_each is None:
            calls = [node.params.render(self.scope)]
        else:
            items = node.for_each.evaluate(self.scope)
            if not isinstance(items, list):
                raise ExpressionError(f"`{node.for_each.source}` gives no list")
            calls = [node.params.render({**self.scope, "item": item}) for item in items]
        if node.pure:
            self._complete(node, calls)
            return
        self.batches[node.index] = Batch(calls, node.for_each is not None)
        if node.requires_approval and calls:
            self._ask(approval_of(node, self.root, self.visits[node.index], self.at, stored_call(node, calls)))
        else:
            self._issue(node)

    def _complete(self, node: NodePlan, calls: Sequence[Mapping[str, JSON]]) -> None:
        if node.tool == FAIL:
            self._fail(node, str(calls[0].get("message") or "failed by core.fail"), "failed")
        elif node.for_each is None:
            self._finish(node, calls[0].get("value"))
        else:
            self._finish(node, [call.get("value") for call in calls])

    def _start_agent(self, node: NodePlan) -> None:
        assert node.message is not None  # noqa: S101  (an agent has one)
        data = node.data
        text = node.message.render(self.scope) if "message" in data else self._said_at_start()
        instructions = data.get("instructions") or []
        system = instructions if isinstance(instructions, str) else "\n".join(instructions)
        messages = [{"type": "system", "content": system}] if system else []
        content = text if isinstance(text, str) else dumps(text)
        address = (node.index, self.visits[node.index], 0)
        self._request(
            CallModel(
                address,
                1,
                self._key(node, 0, many=False),
                data.get("agent_id"),
                data.get("model"),
                (*messages, {"type": "human", "content": content}),
                data.get("modelSettings") or {},
                data.get("outputSchema"),
                data.get("tool_restrictions"),
                timeout=node.timeout,
            )
        )

    def _said_at_start(self) -> JSON:
        """What an agent without a message of its own is told: the run's message, else its input."""
        return self.info.get("message") or self.scope["input"]

    def _start_approval(self, node: NodePlan) -> None:
        assert node.message is not None  # noqa: S101  (an approval has one)
        message = node.message.render(self.scope)
        self._ask(
            approval_of(
                node,
                self.root,
                self.visits[node.index],
                self.at,
                message=message if isinstance(message, str) else dumps(message),
            )
        )

    def _ask(self, interrupt: Interrupt) -> None:
        self._turn_node(interrupt.node, "ask")
        self.interrupts[interrupt.id] = interrupt
        self._emit(EventKind.interrupt, interrupt_to_wire(interrupt))

    def _expired(self, waiting: Interrupt) -> None:
        node = self.plan.nodes[waiting.node]
        handle, output = expiry(waiting, node, self.at)
        if handle is None:
            self._fail(node, f"the approval `{node.id}` expired", "expired")
        else:
            self._finish(node, output, handle=handle)

    # Effects

    def _key(self, node: NodePlan, step: int, many: bool) -> str:
        key = f"{self.root}:{node.key}:{self.visits[node.index]}"
        return f"{key}.{step}" if many else key

    def _issue(self, node: NodePlan) -> None:
        """Ask for as many calls of the action as may be under way at once."""
        batch = self.batches[node.index]
        visit = self.visits[node.index]
        if not batch.calls:
            del self.batches[node.index]
            self._finish(node, [])
            return
        while self._may_issue(node, batch):
            step = batch.next
            batch.next += 1
            batch.live += 1
            if node.tool == WAIT:
                self._wait(node, (node.index, visit, step), batch.calls[step])
            else:
                self._call(node, step, batch.calls[step], batch.many)

    def _call(self, node: NodePlan, step: int, params: JSON, many: bool = False) -> None:
        address = (node.index, self.visits[node.index], step)
        key = self._key(node, step, many)
        self._request(CallTool(address, 1, key, node.tool, params, 0, node.timeout))

    def _may_issue(self, node: NodePlan, batch: Batch) -> bool:
        """Whether one more call of the batch may be under way; the batch is gone once its node has failed."""
        return (
            batch.next < len(batch.calls)
            and batch.live < node.max_concurrency
            and not self.paused
            and self.batches.get(node.index) is batch
        )

    def _wait(self, node: NodePlan, address: Address, params: Mapping[str, JSON]) -> None:
        seconds = params.get("seconds")
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < 1e10:
            self._fail(node, "`seconds` of core.wait is no number of seconds", "expression")
        else:
            self.timers[address] = self.at + int(seconds * 1000)

    def _request(self, effect: Effect) -> None:
        if len(self.pending) >= self.limits.max_concurrent_effects:
            bound = self.limits.max_concurrent_effects
            self._break_bound(f"the run passed its bound of {bound} effects at once", "concurrent_effects")
            return
        self.pending[effect.address] = effect

    def _step_done(self, node: NodePlan, step: int, output: JSON) -> None:
        batch = self.batches[node.index]
        if not batch.many:
            del self.batches[node.index]
            self._finish(node, output)
            return
        batch.results[step] = output
        batch.live -= 1
        if batch.next < len(batch.calls):
            self._issue(node)
        elif not batch.live:
            del self.batches[node.index]
            self._finish(node, batch.results)

    def _answered(self, node: NodePlan, effect: CallModel, entry: e.Succeeded) -> None:
        output = entry.output
        if entry.usage:
            for name, count in entry.usage.items():
                if isinstance(count, int):
                    self.usage[name] = self.usage.get(name, 0) + count
            self._emit(EventKind.usage, {"nodeId": node.id, "usage": entry.usage})
        if node.schema is not None:
            output, why = fit(output, node.schema)
            if why:
                self._attempt_failed(effect, f"the answer does not fit `outputSchema`: {why}", "output_schema", True)
                return
        del self.pending[effect.address]
        self._emit(
            EventKind.message,
            {"nodeId": node.id, "messageId": message_id(effect), "content": entry.output},
        )
        self._finish(node, output)

    def _attempt_failed(self, effect: Effect, message: str, reason: str, retryable: bool) -> None:
        node = self.plan.nodes[effect.address[0]]
        if not retryable or effect.attempt >= node.retry.max_attempts:
            self._fail(node, message, reason)
            return
        due = self.at + node.retry.delay_ms(effect.attempt)
        again = attrs.evolve(effect, attempt=effect.attempt + 1, not_before=due)
        self.pending[effect.address] = again
        self._emit(
            EventKind.node_retrying,
            {"nodeId": node.id, "attempt": again.attempt, "error": self._error(node, message, reason),
             "retryAt": iso_ms(due)},
        )  # fmt: skip

    _STARTERS: ClassVar[Mapping[NodeType, Callable[["Nodes", NodePlan], None]]] = {
        NodeType.START: _start_start,
        NodeType.ACTION: _start_action,
        NodeType.CONDITION: _start_condition,
        NodeType.AGENT: _start_agent,
        NodeType.HUMAN_APPROVAL: _start_approval,
    }


def message_id(effect: Effect) -> str:
    """The id of the message that this attempt of a model call produces."""
    return f"{effect.key}:{effect.attempt}"


def fit(text: JSON, schema: Schema) -> tuple[JSON, str]:
    """The object that a model wrote as text, and why it does not fit the schema ("" when it does)."""
    try:
        value = parse_json(text.encode()) if isinstance(text, str) else text
    except Malformed as error:
        return None, error.message
    issues = schema.check(value, "")
    return value, f"{issues[0].path or 'it'}: {issues[0].message}" if issues else ""
