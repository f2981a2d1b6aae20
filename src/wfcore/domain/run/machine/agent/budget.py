"""Budgets: a model is called while its budgets have something left; after that a person decides whether to go on.

The budgets here are those of the run and of the agent's visit. Those of users and organizations are checked by whoever
performs the call: it fails with reason `budget`, and is held like the others.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from wfcore.domain.agents.budgets import budget_key, times_spent
from wfcore.domain.kernel.json_readers import as_integer, as_object, optional_text
from wfcore.domain.kernel.json_type import JSON, Number
from wfcore.domain.run.effects import REQUESTED, Address, CallModel
from wfcore.domain.run.events import EventKind
from wfcore.domain.run.machine.approvals import origin_of, wait
from wfcore.domain.run.machine.nodes import fail
from wfcore.domain.run.machine.requests import request
from wfcore.domain.run.machine.states.interrupts import budget_of
from wfcore.domain.run.machine.states.output import emit
from wfcore.domain.run.machine.states.state import AgentLoop, Frame, InterruptState, RunState, outward
from wfcore.domain.run.plan import NodePlan
from wfcore.domain.run.records import UsageRecord


def spend(run: RunState, frame: Frame, node: NodePlan, effect: CallModel, loop: AgentLoop | None = None) -> None:
    """Request this call; hold it where the budget of the run or of this visit is spent."""
    if not _hold_spent(run, frame, node, effect, loop):
        request(run, frame, effect)


def check_again(run: RunState, frame: Frame, address: Address) -> None:
    """Hold the call of a model that was requested again at this address, if a budget is spent."""
    effect = frame.pending.get(address)
    if isinstance(effect, CallModel) and effect.state is REQUESTED:
        index = address[-3]
        _hold_spent(run, frame, frame.plan.nodes[index], effect, frame.loops.get(index))


def _hold_spent(run: RunState, frame: Frame, node: NodePlan, effect: CallModel, loop: AgentLoop | None) -> bool:
    own = as_object(as_object(run.info.get("config") or {}).get("budget") or {})
    budgets: list[tuple[Mapping[str, JSON], Mapping[str, float]]] = [({**own, "of": "run"}, run.usage)] if own else []
    budgets += [(as_object(loop.context.get("budget") or {}), loop.spent)] if loop else []
    for budget, spent in budgets:
        times = times_spent(budget, spent)
        if times >= effect.allowances.get(budget_key(budget), 1):
            hold_call(run, frame, node, effect, budget, times)
            return True
    return False


def hold_call(
    run: RunState,
    frame: Frame,
    node: NodePlan,
    effect: CallModel,
    budget: Mapping[str, JSON],
    times: int,
    since: int | None = None,
) -> None:
    """Hold this call until a person decides. `times`: how many times the budget is spent, in the period that began at
    `since`. The approval holds for that period only.
    """
    waiting = budget_of(origin_of(run, frame, node, effect.address[-1]), budget, run.length)
    allowances = {**effect.allowances, budget_key(budget, since): times + 1}
    wait(run, frame, waiting, replace(effect, allowances=allowances))


def decide_spending(run: RunState, frame: Frame, node: NodePlan, effect: CallModel, decided: InterruptState) -> None:
    """A person has decided whether to go on; if so, the rest of the visit can spend as much too."""
    if decided is not InterruptState.approved:
        fail(run, frame, node, f"the budget of `{node.id}` is spent", "budget")
        return
    loop = frame.loops.get(node.index)
    if loop is not None:
        loop.allowances = effect.allowances
    spend(run, frame, node, effect, loop)


def count_usage(run: RunState, frame: Frame, index: int, usage: Mapping[str, JSON] | None) -> None:
    """Count what a call of this node's model consumed, whatever its outcome."""
    if not usage:
        return
    node = frame.plan.nodes[index]
    _add(run.usage, usage)
    _add_to_visits(frame, index, usage)
    _count_evaluated(run, node, usage)
    loop = frame.loops.get(index)
    composed = {"contextDigest": loop.context["digest"]} if loop and "digest" in loop.context else {}
    emit(run, frame, EventKind.usage, {"nodeId": node.id, "usage": usage, **composed})
    run.records.append(
        UsageRecord(
            optional_text(usage.get("model")),
            node.skill_id,
            node.id,
            as_integer(usage.get("inputTokens", 0)),
            as_integer(usage.get("outputTokens", 0)),
            as_integer(usage.get("calls", 1)),
            as_integer(usage.get("durationMs", 0)),
            frame.place.path,
            run.at,
        )
    )


def _add_to_visits(frame: Frame, index: int, usage: Mapping[str, JSON]) -> None:
    """Count it for the visit of this node, and for those whose frames are around it."""
    for around in outward(frame):
        if index in around.loops:
            _add(around.loops[index].spent, usage)
        if around.opener is not None:
            index = around.opener.address[-3]


def _add(total: dict[str, Number], usage: Mapping[str, JSON]) -> None:
    for name, count in usage.items():
        if isinstance(count, int) or (name == "cost" and isinstance(count, float)):
            total[name] = total.get(name, 0) + count


def _count_evaluated(run: RunState, node: NodePlan, usage: Mapping[str, JSON]) -> None:
    """Add the cost of a skill's agent to that of the evaluation; a judge has no skill."""
    cost = usage.get("cost")
    if run.evaluated is not None and node.skill_id is not None and isinstance(cost, int | float):
        run.evaluated.cost = (run.evaluated.cost or 0) + cost
