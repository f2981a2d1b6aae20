"""The interpreter: entries in, effects and events out. Deterministic, and the only place where a run's
meaning lives.

A `Machine` is changed in place and has one owner. `apply` takes the next entry of the journal; an entry that
cannot happen in this state raises `IllegalEntry` before anything has moved. What has to be done next is read
off the state: `pending` (effects), `interrupts` (waits for a person), `next_due` (timers). Recovery after a
crash is therefore nothing but applying the journal again. Conditions, joins, templates and the tools
`core.transform`, `core.fail` and `core.wait` are decided in here, without an effect and without a write of
their own.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

import attrs

from wfcore.domain.codec import dumps, iso_ms
from wfcore.domain.errors import JSON, Malformed
from wfcore.domain.expressions import ExpressionError
from wfcore.domain.graph import NodeType
from wfcore.domain.json_gate import parse_json
from wfcore.domain.json_schema import Schema
from wfcore.domain.run import entries as e
from wfcore.domain.run.effects import Address, CallModel, CallTool, Effect
from wfcore.domain.run.events import Event, EventKind
from wfcore.domain.run.flow import Flow
from wfcore.domain.run.interrupts import (
    APPROVALS,
    approval_of,
    expiry,
    interrupt_id,
    interrupt_to_wire,
    output_of,
    stored_call,
    verdict,
)
from wfcore.domain.run.plan import FAIL, WAIT, NodePlan, Plan
from wfcore.domain.run.state import (
    NODE_MOVES,
    RUN_MOVES,
    Answer,
    IllegalEntry,
    Interrupt,
    NodeStatus,
    RunStatus,
)


class Batch:
    """The calls of one action visit (several with `forEach`) and what came of them."""

    __slots__ = ("calls", "live", "many", "next", "results")

    def __init__(self, calls: list[JSON], many: bool) -> None:
        self.calls = calls
        self.many = many
        self.next = 0
        self.live = 0
        self.results: list[JSON] = [None] * len(calls)

    def copy(self) -> "Batch":
        twin = Batch(self.calls, self.many)
        twin.next, twin.live, twin.results = self.next, self.live, self.results.copy()
        return twin


class Machine:
    """One execution in memory. `sink` collects events while it is a list; with None they are only counted."""

    __slots__ = (
        "at",
        "batches",
        "ended",
        "ends",
        "error",
        "flow",
        "info",
        "interrupts",
        "length",
        "limits",
        "nodes",
        "output",
        "paused",
        "pending",
        "plan",
        "root",
        "run_id",
        "scope",
        "seq",
        "sink",
        "starter",
        "status",
        "statuses",
        "timers",
        "turn_began",
        "turn_open",
        "usage",
        "visited",
        "visits",
    )  # fmt: skip

    def __init__(self, plan: Plan, sink: list[Event] | None = None) -> None:
        self.plan = plan
        self.sink = sink
        self.flow = Flow(plan)
        self.statuses = [NodeStatus.idle] * len(plan.nodes)
        self.visits = [0] * len(plan.nodes)
        self.visited = 0
        self.nodes: dict[str, dict[str, JSON]] = {}
        self.scope: dict[str, JSON] = {}
        self.info: dict[str, JSON] = {}
        self.pending: dict[Address, Effect] = {}
        self.batches: dict[int, Batch] = {}
        self.interrupts: dict[str, Interrupt] = {}
        self.timers: dict[Address, int] = {}
        self.ends: dict[int, None] = {}
        self.status = RunStatus.queued
        self.ended = False
        self.turn_open = False
        self.paused = False
        self.length = self.seq = self.at = self.turn_began = 0
        self.root = self.run_id = ""
        self.limits = e.Limits()
        self.starter = e.Actor("")
        self.output: JSON = None
        self.error: dict[str, JSON] | None = None
        self.usage: dict[str, int] = {}

    def copy(self) -> Self:
        """An independent twin without the events."""
        twin = object.__new__(type(self))
        for name in self.__slots__:
            value = getattr(self, name)
            setattr(twin, name, value.copy() if isinstance(value, list | dict | Flow) else value)
        twin.sink = None
        twin.batches = {node: batch.copy() for node, batch in self.batches.items()}
        twin.scope = {**self.scope, "nodes": twin.nodes} if self.scope else {}
        return twin

    # What to do next, read off the state

    def next_due(self) -> int | None:
        """Epoch milliseconds of the next moment at which time alone changes something; None: never."""
        due = [] if self.paused else self._deadlines()
        if self.turn_open:
            due.append(self._out_of_time())
        return min(due, default=None)

    def _deadlines(self) -> list[int]:
        return [*self.timers.values(), *(i.expires_at for i in self.interrupts.values() if i.expires_at)]

    def _out_of_time(self) -> int:
        return self.turn_began + int(self.limits.max_run_seconds * 1000)

    def ends_run(self, entry: e.Failed) -> bool:
        """Whether this failure would end the whole run: siblings in flight are to be stopped before it is
        recorded.
        """
        node = self.plan.nodes[entry.node]
        retried = entry.retryable and entry.attempt < node.retry.max_attempts
        return not retried and not node.catches

    def take_events(self) -> list[Event]:
        """The events since the last call; empty when none are collected."""
        found = self.sink or []
        if self.sink is not None:
            self.sink = []
        return found

    # Entries

    def apply(self, entry: e.Entry) -> None:
        """Let this have happened. `IllegalEntry` if it cannot; the machine is then as it was."""
        self._HANDLERS[type(entry)](self, entry)
        self.length += 1

    def _started(self, entry: e.Started) -> None:
        if self.length:
            raise IllegalEntry("the execution has begun before")
        self.at = self.turn_began = entry.at
        self.root = self.run_id = entry.run_id
        self.starter, self.limits, self.info = entry.by, entry.limits, entry.info
        self.scope = {"input": entry.input, "nodes": self.nodes, "run": entry.info}
        self._move("start")
        self.turn_open = True
        self._emit(EventKind.run_started, {"target": entry.info.get("target")})
        self.flow.begin()
        self._go_on()

    def _resumed(self, entry: e.Resumed) -> None:
        if "turn" not in RUN_MOVES[self.status]:
            raise IllegalEntry(
                f"the run has ended as `{self.status}`", "not_interrupted", status=str(self.status)
            )
        for decision in entry.decisions:
            self._check_decision(entry, decision)
        if not entry.decisions:
            self._check_plain_resume(entry)
        self.at = entry.at
        if self.turn_open:
            self._park()
        parent = self.run_id
        self._move("turn")
        self.run_id, self.seq, self.turn_began = entry.run_id, 0, entry.at
        self.turn_open, self.paused = True, False
        self._emit(EventKind.run_started, {"target": self.info.get("target"), "parentRunId": parent})
        for decision in entry.decisions:
            self._decided(entry, decision)
        self._go_off()
        self._take_up()
        self._go_on()

    def _check_plain_resume(self, entry: e.Resumed) -> None:
        """Without a decision a run goes on if it was parked by hand, or if the system saw a deadline pass."""
        if self.turn_open:
            raise IllegalEntry("the run is not interrupted", "not_interrupted")
        if self.paused:
            return
        if entry.by is not None:
            raise IllegalEntry("the run waits for a decision", "decision_required")
        if all(due > entry.at for due in self._deadlines()):
            raise IllegalEntry("no deadline has passed", "not_due")

    def _check_decision(self, entry: e.Resumed, decision: e.Decision) -> None:
        waiting = self.interrupts.get(decision.interrupt_id)
        if waiting is None or entry.by is None:
            raise IllegalEntry(f"interrupt `{decision.interrupt_id}` is not open", "already_resumed")
        if decision.decision not in APPROVALS:
            raise IllegalEntry(f"`{decision.decision}` is no answer to an approval", "wrong_decision")
        if waiting.expires_at is not None and entry.at >= waiting.expires_at:
            raise IllegalEntry(f"interrupt `{waiting.id}` has expired", "expired")
        if any(answer.by.user_id == entry.by.user_id for answer in waiting.answers):
            raise IllegalEntry(f"`{entry.by.user_id}` has decided before", "already_decided")
        if [d.interrupt_id for d in entry.decisions].count(waiting.id) > 1:
            raise IllegalEntry(f"interrupt `{waiting.id}` is answered twice", "duplicate")

    def _decided(self, entry: e.Resumed, decision: e.Decision) -> None:
        waiting = self.interrupts.get(decision.interrupt_id)
        if waiting is None:
            return  # an answer before this one ended the run, or started its cycle anew
        assert entry.by is not None  # noqa: S101  (checked with the entry)
        answer = Answer(decision.decision, entry.by, entry.at, decision.data)
        answered = attrs.evolve(waiting, answers=(*waiting.answers, answer))
        self.interrupts[waiting.id] = answered
        decided = verdict(answered)
        if decided is None:
            return
        del self.interrupts[waiting.id]
        node = self.plan.nodes[waiting.node]
        if waiting.call is None:
            self._finish(node, output_of(answered), handle=decided)
        elif decided == "approved":
            self._turn_node(node.index, "answer")
            self._issue(node)
        else:
            self._fail(node, f"`{node.id}` was denied", "denied", ends_run=False)

    def _succeeded(self, entry: e.Succeeded) -> None:
        effect = self._awaited(entry)
        self.at = entry.at
        node = self.plan.nodes[entry.node]
        if isinstance(effect, CallModel):
            self._answered(node, effect, entry)
        else:
            del self.pending[effect.address]
            if node.plain:
                self._finish(node, entry.output)
            else:
                self._step_done(node, entry.step, entry.output)
        self._go_on()

    def _failed(self, entry: e.Failed) -> None:
        effect = self._awaited(entry)
        self.at = entry.at
        self._attempt_failed(effect, entry.message, entry.reason, entry.retryable)
        self._go_on()

    def _said(self, entry: e.Said) -> None:
        effect = self._awaited(entry)
        if not isinstance(effect, CallModel):
            raise IllegalEntry("only a model says something", "stale")
        self.at = entry.at
        node = self.plan.nodes[entry.node]
        self._emit(
            EventKind.message_delta,
            {"nodeId": node.id, "messageId": message_id(effect), "delta": entry.text},
        )

    def _time_passed(self, entry: e.TimePassed) -> None:
        if not self.turn_open:
            raise IllegalEntry("no turn is open")
        self.at = entry.at
        if entry.at >= self._out_of_time():
            self._break_bound(
                f"the run went on for longer than {self.limits.max_run_seconds:g} seconds", "duration"
            )
            return
        self._go_off()
        self._go_on()

    def _go_off(self) -> None:
        """Let every timer and deadline that is due by now go off; what one of them voids does not."""
        for address, due in sorted(self.timers.items(), key=lambda timer: (timer[1], timer[0])):
            if due <= self.at and address in self.timers:
                del self.timers[address]
                node, _, step = address
                self._step_done(self.plan.nodes[node], step, self.batches[node].calls[step])
        for waiting in list(self.interrupts.values()):
            if waiting.expires_at and waiting.expires_at <= self.at and waiting.id in self.interrupts:
                del self.interrupts[waiting.id]
                self._expired(waiting)

    def _take_up(self) -> None:
        """Ask for the calls that were held back while the run was paused."""
        for index in list(self.batches):
            if self.statuses[index] is NodeStatus.running and index in self.batches:
                self._issue(self.plan.nodes[index])

    def _paused(self, entry: e.Paused) -> None:
        if not self.turn_open or self.paused:
            raise IllegalEntry("no turn is going on", "not_running", status=str(self.status))
        self.at, self.paused = entry.at, True
        self._go_on()

    def _cancelled(self, entry: e.Cancelled) -> None:
        if "cancel" not in RUN_MOVES[self.status]:
            raise IllegalEntry(f"the run has ended as `{self.status}`", "ended", status=str(self.status))
        self.at = entry.at
        self._close("cancel", EventKind.cancelled, {})

    def _awaited(self, entry: e.Succeeded | e.Failed | e.Said) -> Effect:
        effect = self.pending.get((entry.node, entry.visit, entry.step))
        if effect is None or effect.attempt != entry.attempt or not self.turn_open:
            raise IllegalEntry("nobody waits for this outcome", "stale")
        return effect

    # Going on until something outside is needed

    def _go_on(self) -> None:
        ready, flow, nodes = self.flow.ready, self.flow, self.plan.nodes
        while ready and not self.ended and not self.paused:
            index = ready.popleft()
            if flow.taken[index]:
                self._start(nodes[index])
            else:
                self._turn_node(index, "skip")
                self._emit(EventKind.node_skipped, {"nodeId": nodes[index].id})
                flow.skip(index)
            ready = flow.ready
        if not self.ended and self._at_rest():
            if self.interrupts or (self.paused and (ready or self.pending or self.timers or self.batches)):
                self._park()
                self._move("park")
            else:
                self.output = self._collect()
                self._close("finish", EventKind.done, {"status": "done", "output": self.output})

    def _at_rest(self) -> bool:
        """Whether nothing can go on by itself; a paused run does not count what is not due yet."""
        if self.paused:
            return all(effect.not_before > self.at for effect in self.pending.values())
        return not (self.pending or self.timers)

    def _start(self, node: NodePlan) -> None:
        self.visited += 1
        if self.visited > self.limits.max_node_visits:
            self._break_bound(
                f"the run passed its bound of {self.limits.max_node_visits} node visits", "node_visits"
            )
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
            self._ask(
                approval_of(node, self.root, self.visits[node.index], self.at, stored_call(node, calls))
            )
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
        text = node.message.render(self.scope)
        data = node.data
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
                self._attempt_failed(
                    effect, f"the answer does not fit `outputSchema`: {why}", "output_schema", True
                )
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

    # The ends of nodes and of runs

    def _finish(self, node: NodePlan, output: JSON, handle: str | None = None) -> None:
        self._turn_node(node.index, "finish")
        self.nodes[node.id] = {"output": output}
        if self.sink is None:
            self.seq += 1
        else:
            self._emit(EventKind.node_finished, {"nodeId": node.id, "output": output})
        taken, untaken = node.route(handle)
        if not taken and not self.flow.holds_taken(node.index):
            self.ends[node.index] = None
        if void := self.flow.leave(node.index, taken, untaken):
            self._void(void)

    def _fail(self, node: NodePlan, message: str, reason: str, *, ends_run: bool = True) -> None:
        self._forget(node.index)
        self._turn_node(node.index, "fail")
        error = self._error(node, message, reason)
        self._emit(EventKind.node_failed, {"nodeId": node.id, "error": error})
        if ends_run and not node.catches:
            self.error = error
            self._close("fail", EventKind.error, {"error": error})
        else:
            self._void(self.flow.leave(node.index, *node.route("error")))

    def _void(self, members: Sequence[int]) -> None:
        """These nodes start anew with their cycle: what they were doing is given up."""
        for index in members:
            if self.statuses[index] in (NodeStatus.running, NodeStatus.waiting):
                self._emit(
                    EventKind.node_skipped, {"nodeId": self.plan.nodes[index].id, "reason": "superseded"}
                )
                self._forget(index)
            self._turn_node(index, "rearm")
            self.ends.pop(index, None)

    def _forget(self, index: int) -> None:
        """Drop whatever this visit of the node still waits for."""
        visit = self.visits[index]
        batch = self.batches.pop(index, None)
        for step in range(batch.next if batch else 1):
            self.pending.pop((index, visit, step), None)
            self.timers.pop((index, visit, step), None)
        if self.statuses[index] is NodeStatus.waiting:
            self.interrupts.pop(interrupt_id(self.root, self.plan.nodes[index].id, visit), None)

    def _break_bound(self, message: str, bound: str) -> None:
        self.error = _envelope(message, self.run_id, {"reason": "bound", "bound": bound})
        self._close("fail", EventKind.error, {"error": self.error})

    def _error(self, node: NodePlan, message: str, reason: str) -> dict[str, JSON]:
        return _envelope(message, self.run_id, {"nodeId": node.id, "reason": reason})

    def _collect(self) -> JSON:
        """The output: that of the nodes that ran and led nowhere; one alone, or several by node id."""
        nodes = self.plan.nodes
        if len(self.ends) == 1:
            return self.nodes[nodes[next(iter(self.ends))].id]["output"]
        return {nodes[index].id: self.nodes[nodes[index].id]["output"] for index in sorted(self.ends)} or None

    def _park(self) -> None:
        """End the open turn as interrupted."""
        waiting = [interrupt_to_wire(interrupt) for interrupt in self.interrupts.values()]
        self._emit(EventKind.done, {"status": "interrupted", "output": None, "interrupts": waiting})
        self.turn_open = False

    def _close(self, move: str, kind: EventKind, data: Mapping[str, JSON]) -> None:
        """End the execution for good. A turn that has ended already shows nothing more."""
        self._move(move)
        if self.turn_open:
            self._emit(kind, data)
        self.turn_open = False
        self.pending, self.timers, self.interrupts, self.batches = {}, {}, {}, {}
        self.flow.ready.clear()

    def _move(self, move: str) -> None:
        self.status = RUN_MOVES[self.status][move]
        self.ended = self.status.ended

    def _turn_node(self, index: int, move: str) -> None:
        self.statuses[index] = NODE_MOVES[self.statuses[index]][move]

    def _emit(self, kind: EventKind, data: Mapping[str, JSON]) -> None:
        self.seq += 1
        if self.sink is not None:
            self.sink.append(Event(kind, self.run_id, self.seq, self.at, data))

    _HANDLERS: ClassVar[Mapping[type, Callable[["Machine", Any], None]]] = {
        e.Started: _started,
        e.Resumed: _resumed,
        e.Succeeded: _succeeded,
        e.Failed: _failed,
        e.Said: _said,
        e.TimePassed: _time_passed,
        e.Paused: _paused,
        e.Cancelled: _cancelled,
    }
    _STARTERS: ClassVar[Mapping[NodeType, Callable[["Machine", NodePlan], None]]] = {
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


def _envelope(message: str, request_id: str, info: Mapping[str, JSON]) -> dict[str, JSON]:
    """What stands inside the error envelope; a run's errors carry the run id as their request id."""
    return {
        "code": "INTERNAL_ERROR",
        "status": "INTERNAL",
        "message": message,
        "requestId": request_id,
        "info": dict(info),
    }
