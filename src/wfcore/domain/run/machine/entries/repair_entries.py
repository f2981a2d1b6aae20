"""Entries that continue what was done: a retry in a new turn of its execution, a fork in an execution of its own.

Each has a check, which raises `IllegalEntry` before anything has moved and returns the plan, and a handler.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from wfcore.domain.graph.node_types import NodeType
from wfcore.domain.json.codec import iso_ms
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run import entries as e
from wfcore.domain.run.effects import CallModel
from wfcore.domain.run.events import EventKind
from wfcore.domain.run.machine.entries.progress import go_on
from wfcore.domain.run.machine.rewind import check_fit, differences, ended, plan_of, rewind
from wfcore.domain.run.machine.states.debugging import begin_debug
from wfcore.domain.run.machine.states.interrupts import exit_by_hand
from wfcore.domain.run.machine.states.output import emit, error_of
from wfcore.domain.run.machine.states.state import Frame, InterruptState, Left, NodeState, Phase, RunState
from wfcore.domain.run.machine.states.turns import TURNS, TurnEvent, advance, end_of_turn, fail_run, give_up
from wfcore.domain.run.plan import Plan
from wfcore.domain.run.state import IllegalEntry, Interrupt, move

DECIDED: Final = frozenset({InterruptState.approved, InterruptState.denied, InterruptState.expired})
"""The states of an approval that was decided, by people or by its deadline."""


def check_retried(run: RunState, entry: e.Retried) -> Plan:
    """The plan on which the execution continues; it has to be in `plans`."""
    move(TURNS, run.phase, TurnEvent.retry, "not_retryable")
    plan = plan_of(run, entry.pinned)
    known = {node.id: node for node in plan.nodes}
    for name in (*entry.again, *entry.outputs, *entry.skip):
        if name not in known:
            raise IllegalEntry(f"there is no node `{name}`", "unknown_node")
    for name, output in given_outputs(entry).items():
        exit_by_hand(known[name], output, entry.by, entry.at)
    check_fit(differences(run.root, plan, _nodes_again(run, entry)))
    return plan


def retried(run: RunState, entry: e.Retried, plan: Plan) -> None:
    """A new turn takes over the execution, at what it has done."""
    run.at = entry.at
    again = _nodes_again(run, entry)
    parent = run.run_id
    advance(run, TurnEvent.retry)
    _begin(run, entry)
    rewind(run.root, plan, again)
    for node in plan.nodes:
        if node.id in (outputs := given_outputs(entry)):
            left = run.root.left.setdefault(node.index, Left(began=False))
            left.given = exit_by_hand(node, outputs[node.id], entry.by, entry.at)
    _continue(run, entry.refusal, {"parentRunId": parent})


def given_outputs(entry: e.Retried) -> Mapping[str, JSON]:
    """The outputs of all nodes that do not run: those that a user gave, and null for skipped ones."""
    return {**dict.fromkeys(entry.skip), **entry.outputs}


def _nodes_again(run: RunState, entry: e.Retried) -> set[str]:
    """The nodes that run again with all that follows: those named, and those that have ended and get another output."""
    return {*entry.again, *(given_outputs(entry).keys() & ended(run.root).keys())}


def check_forked(run: RunState, entry: e.Forked) -> Plan:
    """The plan on which the fork continues; it has to be in `plans`."""
    if run.phase is Phase.queued:
        raise IllegalEntry("a fork continues what another execution has done", "illegal")
    plan = plan_of(run, entry.pinned)
    known = {node.id for node in plan.nodes}
    for name in entry.again:
        if name not in known:
            raise IllegalEntry(f"there is no node `{name}`", "unknown_node")
    check_fit(differences(run.root, plan, entry.again))
    return plan


def forked(run: RunState, entry: e.Forked, plan: Plan) -> None:
    """An execution of its own begins, at what another one has done; its effects have keys of its own."""
    root = run.root
    run.at = entry.at
    give_up(run, root)
    _forget_spending(root)
    run.phase = Phase.queued
    advance(run, TurnEvent.start)
    run.id, run.starter = entry.run_id, entry.by
    run.info = {**run.info, "id": entry.run_id, "userId": entry.by.user_id, "startedAt": iso_ms(entry.at)}
    run.interrupts, run.usage, run.records = {}, {}, []
    root.place = replace(root.place, prefix=f"{entry.key or entry.run_id}:")
    _begin(run, entry)
    rewind(root, plan, entry.again)
    if entry.input:
        root.scope = {**root.scope, "input": entry.input[0]}
        root.outputs[plan.nodes[plan.start].id] = {"output": entry.input[0]}
    _continue(run, entry.refusal, {})


def _forget_spending(frame: Frame) -> None:
    """Visits that go on have consumed nothing yet, and nobody has allowed them more than their budgets: a call that
    waited for that is requested again.
    """
    for left in frame.left.values():
        if left.loop is not None:
            left.loop.spent, left.loop.allowances = {}, {}
        held = {step: effect for step, (_, effect) in left.waits.items() if isinstance(effect, CallModel)}
        left.waits = {step: wait for step, wait in left.waits.items() if step not in held}
        left.effects = {
            step: replace(effect, allowances={}) if isinstance(effect, CallModel) else effect
            for step, effect in {**left.effects, **held}.items()
        }
        for child in left.children.values():
            _forget_spending(child)


def decided_at(waiting: Iterable[Interrupt], run: RunState) -> set[str]:
    """The nodes of the root in whose visits these approvals, which were open, have been decided since: their own, those
    of the calls of an agent, and those in children.
    """
    return {one.path[0] if one.path else one.node_id for one in waiting if run.interrupts.get(one.id) in DECIDED}


def approvals_of(frame: Frame, decided: Collection[str] = ()) -> set[str]:
    """The nodes whose current pass rests on an approval: their own, or one that was `decided` in their visit."""
    approved = {
        node.id for node in ended(frame).values() if node.kind is NodeType.HUMAN_APPROVAL or node.requires_approval
    }
    states = zip(frame.plan.nodes, frame.nodes, strict=True)
    passed = {node.id for node, state in states if state not in (NodeState.idle, NodeState.skipped)}
    return passed.intersection(approved.union(decided))


def has_begun(frame: Frame, name: str) -> bool:
    """Whether the node is in its last visit, or has ended it."""
    return any(
        node.id == name and frame.visits[node.index] and frame.nodes[node.index] != "idle" for node in frame.plan.nodes
    )


def _begin(run: RunState, entry: e.Retried | e.Forked) -> None:
    """Begin the turn: bounds count from its beginning, ids of messages begin with its id."""
    root = run.root
    run.run_id, run.seq, run.turn_ends = entry.run_id, 0, end_of_turn(run)
    run.visited = run.skipped = 0
    run.output = run.error = None
    run.broken, run.reminded = [], ()
    run.info = {**run.info, **(entry.info or {})}
    begin_debug(run)
    if entry.pinned is not None:
        run.pinned, run.is_draft = entry.pinned, entry.is_draft
    root.scope = {**root.scope, "run": run.info}
    root.place = replace(root.place, label=f"{entry.run_id}:")


def _continue(run: RunState, refusal: str, shown: Mapping[str, JSON]) -> None:
    emit(run, run.root, EventKind.run_started, {"target": run.info.get("target"), **shown})
    if refusal:
        fail_run(run, error_of(run, refusal, {"reason": "access"}))
        return
    go_on(run, run.root)
