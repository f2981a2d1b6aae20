"""Starting a node again whose visit was left: by a failure for good, a cancel, or the end of its run beside it.

With the same parameters the visit goes on: its effects are requested again, each as the next attempt under its key, and
what has a result keeps it. With other parameters a new visit begins, in which the items of a `forEach` that have a
result keep it, as long as they are the same items. The retries of a node count from the beginning again.
"""

from msgspec.structs import replace

from wfcore.domain.expressions.expression import ExpressionError
from wfcore.domain.graph.node_types import NodeType
from wfcore.domain.kernel.errors import Invalid
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.effects import REQUESTED, WAIT, WORKFLOW, CallModel, CallTool, Effect, OpenChild
from wfcore.domain.run.machine import actions
from wfcore.domain.run.machine.agent import agent_loop, agents
from wfcore.domain.run.machine.agent.budget import check_again
from wfcore.domain.run.machine.approvals import wait
from wfcore.domain.run.machine.nodes import finish
from wfcore.domain.run.machine.requests import address_of, request
from wfcore.domain.run.machine.rewind import rewind
from wfcore.domain.run.machine.states.attempts import set_timer
from wfcore.domain.run.machine.states.interrupts import renamed
from wfcore.domain.run.machine.states.output import key_of
from wfcore.domain.run.machine.states.state import AgentLoop, Batch, Frame, Left, RoundState, RunState
from wfcore.domain.run.machine.states.turns import ENDED
from wfcore.domain.run.plan import NodePlan
from wfcore.domain.run.state import Interrupt

_COMPOSED = (
    "agent_id", "assistant", "instructions", "message", "tool_restrictions", "settings", "model", "output_schema",
    "variation_id",
)  # fmt: skip
"""The parameters of a `ComposeContext`."""
_SENT = ("agent_id", "model", "messages", "settings", "output_schema", "tool_restrictions")
"""The parameters of a `CallModel` without a context."""


def goes_on(run: RunState, frame: Frame, node: NodePlan, left: Left) -> bool:
    """Whether the visit goes on, because its parameters are those it had."""
    if not left.began:
        return False
    try:
        match node.kind:
            case NodeType.ACTION:
                return _is_same_action(run, frame, node, left)
            case NodeType.AGENT:
                return _is_same_agent(run, frame, node, left)
    except (
        ExpressionError,
        Invalid,
    ):  # the node fails with it once it has started; what it requested before is not repeated
        return not (left.effects or left.waits or left.batch or left.loop)
    return True


def _is_same_action(run: RunState, frame: Frame, node: NodePlan, left: Left) -> bool:
    items, calls = actions.calls_of(run, frame, node)
    effect, batch = _first(left), left.batch
    if batch is not None:
        if _tool_of(left) not in (None, node.tool) or batch.slots != actions.slots_of(run, frame, node, items):
            return False
        return batch.many == (node.for_each is not None) and batch.calls == calls and not node.plain
    if not isinstance(effect, CallTool):
        return True
    return node.plain and effect.tool == node.tool and effect.params == calls[0]


def _tool_of(left: Left) -> str | None:
    """The tool that the visit of an action has begun to call; None where nothing shows it."""
    requested = [*left.effects.values(), *(held for _, held in left.waits.values() if held is not None)]
    if requested and isinstance(requested[0], CallTool):
        return requested[0].tool
    if requested or left.children:
        return WORKFLOW
    return WAIT if left.timers else None


def _is_same_agent(run: RunState, frame: Frame, node: NodePlan, left: Left) -> bool:
    if left.loop is not None:
        return node.composed and _same(_COMPOSED, left.loop.request, agents.composing(run, frame, node))
    effect = _first(left)
    if effect is None:
        return True
    return not node.composed and _same(
        _SENT, effect, agents.single_call(run, frame, node, agents.own_context(run, frame, node))
    )


def _first(left: Left) -> Effect | None:
    """The effect of the first step, if it was pending, held or has failed."""
    return left.effects[0] if 0 in left.effects else left.waits[0][1] if 0 in left.waits else None


def _same(names: tuple[str, ...], one: Effect, other: Effect) -> bool:
    return all(getattr(one, name) == getattr(other, name) for name in names)


def restart(run: RunState, frame: Frame, node: NodePlan, left: Left, same: bool) -> list[Frame]:
    """Start the node again, which is running now. Returns the children that go on, which have not been run yet."""
    if left.given is not None:
        finish(run, frame, node, *left.given)
        return []
    again = _restart_action if node.kind is NodeType.ACTION else _restart_agent
    children = again(run, frame, node, left, same)
    if same:
        _keep_unrequested(run, frame, node, left)
    return children


def _keep_unrequested(run: RunState, frame: Frame, node: NodePlan, left: Left) -> None:
    """Where the run or the frame has ended meanwhile, keep for the next retry what was not requested again."""
    kept = frame.left.get(node.index)
    if kept is None and run.phase in ENDED:
        kept = frame.left[node.index] = Left()
    if kept is None:
        return
    kept.effects = {**left.effects, **kept.effects}
    kept.waits = {**left.waits, **kept.waits}
    kept.children = {**left.children, **kept.children}
    kept.timers = {**left.timers, **kept.timers}


# Actions


def _restart_action(run: RunState, frame: Frame, node: NodePlan, left: Left, same: bool) -> list[Frame]:
    batch = left.batch
    if not same or (batch is None and not left.effects and not left.waits) or -1 in (*left.waits, *left.effects):
        actions.start_action(run, frame, node, None if same else batch)
        return []
    if batch is None:
        _revive(run, frame, node, left, 0, many=False)
        return []
    return _restart_batch(run, frame, node, left, batch)


def _restart_batch(run: RunState, frame: Frame, node: NodePlan, left: Left, batch: Batch) -> list[Frame]:
    unfinished = [step for step in range(batch.next) if step not in batch.done]
    frame.batches[node.index], batch.live = batch, len(unfinished)
    children = []
    for step in unfinished:
        if frame.batches.get(node.index) is not batch:
            return []
        if step in left.timers:
            set_timer(frame, address_of(frame, node.index, step), left.timers[step])
        elif (child := _revive(run, frame, node, left, step, many=batch.many)) is None and not left.has(step):
            actions.issue_step(run, frame, node, batch, step)
        elif child is not None:
            children.append(child)
    if frame.batches.get(node.index) is batch:
        actions.issue(run, frame, node)
    return children


# Agents


def _restart_agent(run: RunState, frame: Frame, node: NodePlan, left: Left, same: bool) -> list[Frame]:
    if not same or (left.loop is None and not left.effects and not left.waits):
        agents.start_agent(run, frame, node)
        return []
    if left.loop is None:
        _revive(run, frame, node, left, 0, many=False)
        return []
    loop = frame.loops[node.index] = left.loop
    loop.rounds = 0
    if loop.state is RoundState.model and not left.effects and not left.waits:
        loop.state = RoundState.ready  # a person refused the call, which is requested anew
    if loop.state is RoundState.composing and not left.effects:
        agents.start_agent(run, frame, node)
        return []
    children = _revive_calls(run, frame, node, left, loop)
    if frame.loops.get(node.index) is loop:
        agent_loop.go_round(run, frame, node, loop)
    return children


def _revive_calls(run: RunState, frame: Frame, node: NodePlan, left: Left, loop: AgentLoop) -> list[Frame]:
    """Request again what the agent waited for."""
    children = []
    waiting = [step for step in loop.open if step not in loop.todo] if loop.state is RoundState.tools else []
    for step in waiting or sorted({*left.effects, *left.waits}):
        if frame.loops.get(node.index) is not loop:
            break
        child = _revive(run, frame, node, left, step, many=True)
        if child is not None:
            children.append(child)
        elif not left.has(step):
            loop.todo.appendleft(step)
    return children


# Effects, waits, children


def _revive(run: RunState, frame: Frame, node: NodePlan, left: Left, step: int, *, many: bool) -> Frame | None:
    """Request the effect of a step again, wait again for its decision, or go on with its child, which is returned."""
    key = key_of(frame, node, step, many)
    if step in left.children:
        return _reopened(run, frame, node, left.children[step], step, key)
    if step in left.waits:
        interrupt, held = left.waits[step]
        effect = held and _requested(run, frame, node, held, step, key, held.attempt)
        wait(run, frame, _open_again(run, frame, node, interrupt), effect)
    elif step in left.effects:
        effect = left.effects[step]
        again = _requested(run, frame, node, effect, step, key, effect.attempt + 1)
        request(run, frame, again)
        check_again(run, frame, again.address)
    return None


def _requested(
    run: RunState, frame: Frame, node: NodePlan, effect: Effect, step: int, key: str, attempt: int
) -> Effect:
    """The effect in the current visit, with the data that the node has now."""
    address = address_of(frame, node.index, step)
    fields: dict[str, JSON] = {
        "timeout": effect.timeout if isinstance(effect, CallTool) and effect.agent else node.timeout
    }
    if isinstance(effect, OpenChild):
        fields = {"timeout": effect.timeout}
    if isinstance(effect, CallModel):
        effect = agent_loop.renewed_call(run, frame, node, effect, frame.loops.get(node.index))
        fields |= {"replaceable": agents.replaces(run), "broken_off": 0}
    carried = effect.carried if attempt == effect.attempt else effect.attempt
    return replace(
        effect, address=address, key=key, attempt=attempt, carried=carried, not_before=0, state=REQUESTED, **fields
    )


def _open_again(run: RunState, frame: Frame, node: NodePlan, interrupt: Interrupt) -> Interrupt:
    """The interrupt, open again without the votes it had."""
    name = interrupt.id if interrupt.id in run.interrupts else renamed(interrupt.id, run.id)
    place = frame.place
    return replace(
        interrupt, id=name, node=node.index, visit=frame.visits[node.index], within=place.within, path=place.path,
        items=place.items, opened_at=run.at, answers=(),
    )  # fmt: skip


def _reopened(run: RunState, frame: Frame, node: NodePlan, child: Frame, step: int, key: str) -> Frame:
    """A child at what it has done, in the current visit; its time limit begins again."""
    assert child.opener is not None  # noqa: S101  (a child has one)
    address = address_of(frame, node.index, step)
    opener = replace(child.opener, address=address, key=key, carried=child.opener.attempt - 1)
    child.outer, child.opener = frame, opener
    child.place = actions.place_of(frame, node, opener)
    child.scope = {**child.scope, "run": run.info}
    if opener.timeout is not None:
        set_timer(frame, address, run.at + int(opener.timeout * 1000))
    frame.children[address] = child
    rewind(child, child.plan)
    return child
