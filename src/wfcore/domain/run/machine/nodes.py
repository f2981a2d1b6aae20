"""What starting a node does: which effects are asked for, which waits are opened, what is decided at once.

Agents are in `agents`: they are most of a run machine by themselves.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from msgspec.structs import replace

from wfcore.domain.expressions.expression import ExpressionError
from wfcore.domain.graph.structure import NodeType
from wfcore.domain.json.codec import dumps, iso_ms
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run import entries as e
from wfcore.domain.run.effects import Address, CallModel, CallTool, Effect, OpenChild, tries
from wfcore.domain.run.events import EventKind
from wfcore.domain.run.machine.execution import Frame
from wfcore.domain.run.machine.interrupts import (
    Asker,
    approval_of,
    call_approval_of,
    changed_approval_of,
    connect_of,
    expiry,
    interrupt_to_wire,
    output_of,
)
from wfcore.domain.run.machine.replies import said
from wfcore.domain.run.machine.visits import Batch
from wfcore.domain.run.plan import FAIL, WAIT, WORKFLOW, NodePlan
from wfcore.domain.run.state import Interrupt

BROKEN_OFF = "broken_off"
"""Why a model that had begun to answer is asked anew: its worker ended. It counts as no failed attempt."""

CHANGED = "definition_changed"
"""Why a call was not made that had been approved: its tool is defined otherwise now."""

STEPS_LEFT = 100
"""What expressions may take after one has failed, however much that one took: the failure may have to be handled."""

SKIPS_PER_VISIT = 20
"""Nodes that may be skipped for each node visit that is allowed: skipping costs little, but not nothing."""


class Nodes(Frame):
    """A frame whose nodes can be started, and whose effects can come back."""

    __slots__ = ()

    # Going on until something outside is needed

    def run(self) -> None:
        """Let every node that is ready go."""
        ready, flow, nodes = self.flow.ready, self.flow, self.plan.nodes
        while ready and not self.ended and not self.paused:
            index = ready.popleft()
            if flow.taken[index]:
                self._start(nodes[index])
            else:
                self._skip(nodes[index])
            ready = flow.ready

    def take_up(self) -> None:
        """Ask for what was held back while the run was paused."""
        for index, batch in list(self.batches.items()):
            if -1 not in self.asks.get(index, ()) and self.batches.get(index) is batch:
                self._issue(self.plan.nodes[index])

    def _skip(self, node: NodePlan) -> None:
        self.skipped += 1
        if self.skipped > len(self.plan.nodes) + SKIPS_PER_VISIT * self.limits.max_node_visits:
            self.break_bound("the run skipped too many nodes: a cycle goes round dead paths", "node_visits")
            return
        self._turn_node(node.index, "skip")
        self.emit(EventKind.node_skipped, {"nodeId": node.id})
        self.flow.skip(node.index)

    def _start(self, node: NodePlan) -> None:
        self.visited += 1
        if self.visited > self.limits.max_node_visits:
            self.break_bound(f"the run passed its bound of {self.limits.max_node_visits} node visits", "node_visits")
            return
        index = node.index
        visit = self.visits[index] = self.visits[index] + 1
        self._turn_node(index, "start")
        if self.sink is None:
            self.seq += 1
        else:
            self.emit(EventKind.node_started, {"nodeId": node.id, "visit": visit})
        try:
            self.STARTERS[node.kind](self, node)
        except ExpressionError as error:
            self.steps.left = max(self.steps.left, STEPS_LEFT)
            self._fail(node, str(error), "expression")

    def _start_start(self, node: NodePlan) -> None:
        self._finish(node, self.scope["input"])

    def _start_condition(self, node: NodePlan) -> None:
        for handle, when in node.branches:
            held = when.evaluate(self.scope, self.steps)
            if held is True:
                self._finish(node, {"handle": handle}, handle=handle)
                return
            if held is not False:
                raise ExpressionError(f"`{when.source}` gives no boolean")
        self._finish(node, {"handle": "else"}, handle="else")

    def _start_action(self, node: NodePlan) -> None:
        assert node.params is not None  # noqa: S101  (an action has them)
        if node.plain:
            self._call(node, 0, node.params.render(self.scope, steps=self.steps))
            return
        if node.for_each is None:
            calls = [node.params.render(self.scope, steps=self.steps)]
        else:
            items = node.for_each.evaluate(self.scope, self.steps)
            if not isinstance(items, list):
                raise ExpressionError(f"`{node.for_each.source}` gives no list")
            calls = [node.params.render({**self.scope, "item": item}, steps=self.steps) for item in items]
        if node.pure:
            self._complete(node, calls)
            return
        self.batches[node.index] = Batch(calls, node.for_each is not None)
        if node.requires_approval and calls:
            self._ask(call_approval_of(self._asker(node), node.tool, calls[0] if node.for_each is None else calls))
        else:
            self._issue(node)

    def _complete(self, node: NodePlan, calls: Sequence[Mapping[str, JSON]]) -> None:
        if node.tool == FAIL:
            self._fail(node, said(calls[0].get("message") or "failed by core.fail"), "failed")
        elif node.for_each is None:
            self._finish(node, calls[0].get("value"))
        else:
            self._finish(node, [call.get("value") for call in calls])

    def _start_approval(self, node: NodePlan) -> None:
        assert node.message is not None  # noqa: S101  (an approval has one)
        message = node.message.render(self.scope, steps=self.steps)
        self._ask(approval_of(self._asker(node), message if isinstance(message, str) else dumps(message)))

    # Waits for a person

    def _asker(self, node: NodePlan, step: int = -1) -> Asker:
        return Asker(node, self.root, self.visits[node.index], self.at, self.within, self.path, step, self.items)

    def _ask(self, interrupt: Interrupt, effect: Effect | None = None) -> None:
        """Wait for an answer; `effect` is what will be asked for after a good one."""
        waiting = self.asks.setdefault(interrupt.node, {})
        if not waiting:
            self._turn_node(interrupt.node, "ask")
        waiting[interrupt.step] = interrupt.id
        if effect is not None:
            self.held[interrupt.id] = effect
        self.asked[interrupt.id] = None
        self.set_interrupt(interrupt)
        self.emit(EventKind.interrupt, interrupt_to_wire(interrupt))

    def note(self, answered: Interrupt) -> None:
        """One more answer to an interrupt that waits for others too."""
        self.set_interrupt(answered)

    def _unask(self, interrupt: Interrupt) -> Effect | None:
        """The wait is over. What was held until then; a node that waits for nobody else runs again."""
        self.unset_interrupt(interrupt.id)
        waiting = self.asks[interrupt.node]
        del waiting[interrupt.step]
        if not waiting:
            del self.asks[interrupt.node]
            if self.plan.nodes[interrupt.node].kind is not NodeType.HUMAN_APPROVAL:
                self._turn_node(interrupt.node, "answer")
        return self.held.pop(interrupt.id, None)

    def settle(self, waiting: Interrupt, decided: str) -> None:
        """The answers to an interrupt came to this."""
        node, held = self.plan.nodes[waiting.node], self._unask(waiting)
        if node.kind is NodeType.HUMAN_APPROVAL:
            self._finish(node, output_of(waiting), handle=decided)
        elif decided == "connected" and held is not None:
            self._request(held)
        elif decided == "approved":
            self._issue(node)
        elif decided == "cancelled":
            self._fail(node, f"the connection that `{node.id}` needs was refused", "connection_cancelled")
        else:
            self._fail(node, f"`{node.id}` was denied", "denied", ends_run=False)

    def expire(self, waiting: Interrupt) -> None:
        """The deadline of an interrupt has passed."""
        node = self.plan.nodes[waiting.node]
        self._unask(waiting)
        handle, output = expiry(waiting, node, self.at)
        if handle is None:
            self._fail(node, f"the approval `{node.id}` expired", "expired")
        else:
            self._finish(node, output, handle=handle)

    # Effects

    def _key(self, node: NodePlan, step: int, many: bool) -> str:
        key = f"{self.prefix}{node.key}:{self.visits[node.index]}"
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
                self._wait(node, self._address(node.index, visit, step), batch.calls[step])
            elif node.tool == WORKFLOW:
                self._open(node, step, batch.calls[step], batch.many)
            else:
                self._call(node, step, batch.calls[step], batch.many)

    def _call(self, node: NodePlan, step: int, params: JSON, many: bool = False) -> None:
        address = (*self.within, node.index, self.visits[node.index], step)
        self._request(CallTool(address, 1, self._key(node, step, many), node.tool, params, 0, node.timeout))

    def _open(self, node: NodePlan, step: int, params: Mapping[str, JSON], many: bool) -> None:
        workflow, given = params.get("workflowId"), params.get("input", {})
        if isinstance(workflow, float) and workflow.is_integer():  # JSON has one kind of number
            workflow = int(workflow)
        if isinstance(workflow, bool) or not isinstance(workflow, int) or workflow < 1:
            self._fail(node, "`workflowId` of core.workflow is no id of a workflow", "expression")
        else:
            address, key = self._address(node.index, self.visits[node.index], step), self._key(node, step, many)
            depth = len(self.path) + 1
            self._request(OpenChild(address, 1, key, "workflow", workflow, given, timeout=node.timeout, depth=depth))

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
            longest = seconds if node.timeout is None else min(seconds, node.timeout)
            self.set_timer(address, self.at + int(longest * 1000))

    def ring(self, address: Address) -> None:
        """The timer of this step goes off: a wait is over or took too long, or a child did."""
        self.unset_timer(address)
        index, _, step = address[-3:]
        node = self.plan.nodes[index]
        if address in self.children:
            self.children[address].time_out()
        elif node.timeout is not None and node.timeout < self.batches[index].calls[step]["seconds"]:
            self._fail(node, f"no end within {node.timeout:g} seconds", "timeout")
        else:
            self._step_done(node, step, self.batches[index].calls[step])

    def _request(self, effect: Effect) -> None:
        if len(self.pending) < self.limits.max_concurrent_effects or not self.is_crowded():
            self.pending[effect.address] = effect

    def is_crowded(self) -> bool:
        """Whether as many effects as there may be are pending: one more ends the run."""
        bound = self.limits.max_concurrent_effects
        if len(self.pending) < bound:
            return False
        self.break_bound(f"the run passed its bound of {bound} effects at once", "concurrent_effects")
        return True

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

    def succeed(self, effect: Effect, entry: e.Succeeded) -> None:
        """An effect of this frame had its result."""
        node = self.plan.nodes[entry.node]
        if node.plain:
            self.drop(effect.address)
            self._finish(node, entry.output)
        else:
            self._came_back(node, effect, entry)

    def _came_back(self, node: NodePlan, effect: Effect, entry: e.Succeeded) -> None:
        self.drop(effect.address)
        self._step_done(node, entry.step, entry.output)

    def fail(self, effect: Effect, message: str, reason: str, retryable: bool, info: Mapping[str, JSON] | None) -> None:
        """One attempt of an effect of this frame failed."""
        if info is not None and isinstance(effect, CallTool) and asks_somebody(effect, reason, info):
            self._ask_again(effect, reason, info)
        else:
            self._attempt_failed(effect, message, reason, retryable)

    def _ask_again(self, effect: CallTool, reason: str, told: Mapping[str, JSON]) -> None:
        """Nothing was called: somebody has to connect first, or to look again at what the tool has become."""
        self.drop(effect.address)
        asker = self._asker(self.plan.nodes[effect.address[-3]], effect.address[-1])
        if reason == CHANGED:
            effect = replace(effect, definition=told["definition"])
            wait = changed_approval_of(asker, effect, self.length)
        else:
            wait = connect_of(asker, effect.tool, told, self.length, effect.call_id)
        self._ask(wait, replace(effect, sent=False))

    def _attempt_failed(self, effect: Effect, message: str, reason: str, retryable: bool) -> None:
        node = self.plan.nodes[effect.address[-3]]
        if not retryable or tries(effect) >= node.retry.max_attempts:
            self._fail(node, message, reason)
        else:
            self._try_again(node, effect, node.retry.delay_ms(tries(effect)), message, reason)

    def _try_again(self, node: NodePlan, effect: Effect, delay: int, message: str, reason: str) -> None:
        due = self.at + delay
        anew: dict[str, Any] = {"sent": False} if isinstance(effect, CallTool) else {}
        if isinstance(effect, CallModel):
            anew = {"said": False}
        again = replace(effect, attempt=effect.attempt + 1, not_before=due, **anew)
        self.expect(again)
        self.emit(
            EventKind.node_retrying,
            {"nodeId": node.id, "attempt": again.attempt, "error": self._error(node, message, reason),
             "retryAt": iso_ms(due)},
        )  # fmt: skip

    def send(self, effect: CallTool) -> None:
        """This attempt may reach its tool from now on."""
        self.expect(replace(effect, sent=True))

    def begin_child(self, opener: OpenChild) -> None:
        """The child that this effect asked for is there, and has so much time."""
        self.drop(opener.address)
        if opener.timeout is not None:
            self.set_timer(opener.address, self.at + int(opener.timeout * 1000))

    def child_done(self, opener: OpenChild, output: JSON) -> None:
        """The child that this effect opened came to its end."""
        self._step_done(self.plan.nodes[opener.address[-3]], opener.address[-1], output)

    def child_failed(self, opener: OpenChild, message: str, reason: str) -> None:
        """A failure that nothing inside caught ended the child."""
        self._attempt_failed(opener, message, reason, True)

    def is_fatal(self, effect: Effect, retryable: bool) -> bool:
        """Whether a failure of this attempt would end the whole run."""
        node = self.plan.nodes[effect.address[-3]]
        return not node.catches and not (retryable and tries(effect) < node.retry.max_attempts)

    STARTERS: ClassVar[Mapping[NodeType, Callable[[Any, NodePlan], None]]] = {
        NodeType.START: _start_start,
        NodeType.ACTION: _start_action,
        NodeType.CONDITION: _start_condition,
        NodeType.HUMAN_APPROVAL: _start_approval,
    }


def asks_somebody(effect: Effect, reason: str, info: Mapping[str, JSON] | None) -> bool:
    """Whether this failure of a call only says that a connection is missing, that an approved tool has changed, or
    that a budget is spent.
    """
    if isinstance(effect, CallModel):
        return reason == "budget" and info is not None and {"budget", "times"} <= info.keys()
    if not info or not isinstance(effect, CallTool):
        return False
    return reason == "connection_required" or (reason == CHANGED and "definition" in info)


def is_broken_off(effect: Effect, reason: str) -> bool:
    """Whether this failure only says that the worker ended which had asked the model."""
    return reason == BROKEN_OFF and isinstance(effect, CallModel) and effect.said
