"""Actions: calls of tools, one or several with `forEach`, waits, and calls of workflows.

The effects of an action move by the table of `attempts`. The built-in tools need no driver: `core.transform` and
`core.fail` are completed at once, `core.wait` is a timer, `core.workflow` opens a child.
"""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from wfcore.domain.expressions.expression import ExpressionError
from wfcore.domain.json.codec import text_of
from wfcore.domain.kernel.json_readers import as_number, as_object, as_text
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.effects import FAIL, LOOK_UP, WAIT, WORKFLOW, Address, CallSlot, CallTool, OpenChild
from wfcore.domain.run.events import place_to_wire
from wfcore.domain.run.machine.approvals import origin_of, wait
from wfcore.domain.run.machine.nodes import fail, finish
from wfcore.domain.run.machine.requests import address_of, chosen_connections, request
from wfcore.domain.run.machine.states.attempts import set_timer
from wfcore.domain.run.machine.states.interrupts import call_approval_of
from wfcore.domain.run.machine.states.output import key_of
from wfcore.domain.run.machine.states.state import Batch, Frame, Place, RunState, moved_to
from wfcore.domain.run.machine.states.turns import HELD_BACK
from wfcore.domain.run.plan import NodePlan

WHOLE = -1
"""The step of what concerns all calls of an action: the look-up of the tool's definition, and their approval."""
LONGEST_WAIT = 1e10
"""Seconds."""
LONGEST_KEY = 200
"""Characters of a key of calls."""


def start_action(run: RunState, frame: Frame, node: NodePlan, before: Batch | None = None) -> None:
    """Start an action: render the parameters of its calls, and request as many as can be under way.

    Items with a result in the batch of a visit `before` keep it.
    """
    assert node.params is not None  # noqa: S101  (an action has them)
    if node.plain:
        call(run, frame, node, 0, node.params.render(frame.scope, steps=run.steps))
        return
    if node.pure:
        _complete(run, frame, node)
        return
    items, calls = calls_of(run, frame, node)
    batch = frame.batches[node.index] = Batch(calls, node.for_each is not None, items)
    batch.slots = slots_of(run, frame, node, items)
    if before is not None:
        _keep_results(batch, before)
    if node.binds_definition and calls:
        address, key = address_of(frame, node.index, WHOLE), key_of(frame, node, WHOLE)
        request(run, frame, CallTool(address, 1, key, node.tool, {}, 0, node.timeout, definition=LOOK_UP))
    elif node.requires_approval and calls:
        _ask(run, frame, node)
    else:
        issue(run, frame, node)


def _ask(run: RunState, frame: Frame, node: NodePlan) -> None:
    """Request the approval of all calls of the action."""
    batch = frame.batches[node.index]
    arguments = batch.calls if batch.many else batch.calls[0]
    wait(run, frame, call_approval_of(origin_of(run, frame, node), node.tool, arguments, name=batch.tool_name))


def _keep_results(batch: Batch, before: Batch) -> None:
    """Keep the results of items that are the same as before."""
    for step, item in enumerate(batch.items):
        if step in before.done and before.items[step] == item:
            batch.results[step] = before.results[step]
            batch.done.add(step)


def calls_of(run: RunState, frame: Frame, node: NodePlan) -> tuple[list[JSON], list[JSON]]:
    """The items of a `forEach`, and the parameters of each call."""
    assert node.params is not None  # noqa: S101  (an action has them)
    if node.for_each is None:
        return [], [node.params.render(frame.scope, steps=run.steps)]
    items = node.for_each.evaluate(frame.scope, run.steps)
    if not isinstance(items, list):
        raise ExpressionError(f"`{node.for_each.source}` is not a list")
    return items, [node.params.render({**frame.scope, "item": item}, steps=run.steps) for item in items]


def slots_of(run: RunState, frame: Frame, node: NodePlan, items: Sequence[JSON]) -> list[CallSlot]:
    """What each call needs while it is in progress: nothing without a key."""
    if node.concurrency_key is None:
        return []
    scopes = [frame.scope] if node.for_each is None else [{**frame.scope, "item": item} for item in items]
    keys = [node.concurrency_key.render(scope, steps=run.steps) for scope in scopes]
    return [(checked_key(key), node.concurrency_limit) for key in keys]


def checked_key(key: JSON) -> str:
    """The rendered `concurrencyKey` of a call. ExpressionError if it is not valid."""
    if isinstance(key, str) and 0 < len(key) <= LONGEST_KEY and key.isprintable():
        return key
    fault = f"`concurrencyKey` is not a text of 1 to {LONGEST_KEY} printable characters: `{text_of(key)[:100]}`"
    raise ExpressionError(fault)


def _complete(run: RunState, frame: Frame, node: NodePlan) -> None:
    """End an action that needs no effect."""
    if node.for_each is not None:
        _, calls = calls_of(run, frame, node)
        finish(run, frame, node, [as_object(made).get("value") for made in calls])
        return
    assert node.params is not None  # noqa: S101  (an action has them)
    made = as_object(node.params.render(frame.scope, steps=run.steps))
    if node.tool == FAIL:
        fail(run, frame, node, text_of(made.get("message") or "failed by core.fail"), "failed")
    else:
        finish(run, frame, node, made.get("value"))


def issue(run: RunState, frame: Frame, node: NodePlan) -> None:
    """Request as many calls of the action as can be under way at once."""
    batch = frame.batches[node.index]
    if not batch.calls:
        del frame.batches[node.index]
        finish(run, frame, node, [])
        return
    while _can_issue(run, frame, node, batch):
        step = batch.next
        batch.next += 1
        if step not in batch.done:
            batch.live += 1
            issue_step(run, frame, node, batch, step)
    if batch.many and len(batch.done) == len(batch.calls) and frame.batches.get(node.index) is batch:
        del frame.batches[node.index]
        finish(run, frame, node, batch.results)


def issue_step(run: RunState, frame: Frame, node: NodePlan, batch: Batch, step: int) -> None:
    """Request one call of the batch."""
    if node.tool == WAIT:
        _wait(run, frame, node, step, as_object(batch.calls[step]))
    elif node.tool == WORKFLOW:
        _open(run, frame, node, step, as_object(batch.calls[step]), batch.many)
    else:
        call(run, frame, node, step, batch.calls[step], batch.many)


def _can_issue(run: RunState, frame: Frame, node: NodePlan, batch: Batch) -> bool:
    """Whether one more call of the batch can be under way. The batch is gone once its node has failed."""
    return (
        batch.next < len(batch.calls)
        and batch.live < node.max_concurrency
        and run.phase not in HELD_BACK
        and frame.batches.get(node.index) is batch
        and (not node.binds_definition or batch.definition != "")
    )


def call(run: RunState, frame: Frame, node: NodePlan, step: int, params: JSON, many: bool = False) -> None:
    """Request one call of the action's tool."""
    place, visit = frame.place, frame.visits[node.index]
    key = key_of(frame, node, step) if many else f"{place.prefix}{node.key}:{visit}"
    address = (*place.within, node.index, visit, step)
    effect = CallTool(address, 1, key, node.tool, params, 0, node.timeout)
    if node.concurrency_key is not None:
        run.uses_slots = True
        effect = replace(effect, slot=frame.batches[node.index].slots[step])
    if node.binds_definition or "config" in run.info:
        approved = frame.batches[node.index].definition if node.binds_definition else ""
        effect = replace(effect, definition=approved, connections=chosen_connections(run))
    request(run, frame, effect)


def _open(run: RunState, frame: Frame, node: NodePlan, step: int, params: Mapping[str, JSON], many: bool) -> None:
    workflow, given = params.get("workflowId"), params.get("input", {})
    if isinstance(workflow, float) and workflow.is_integer():  # JSON has one kind of number
        workflow = int(workflow)
    if isinstance(workflow, bool) or not isinstance(workflow, int) or workflow < 1:
        fail(run, frame, node, "`workflowId` of core.workflow is not a workflow id", "expression")
        return
    address, key = address_of(frame, node.index, step), key_of(frame, node, step, many)
    depth = len(frame.place.path) + 1
    opener = OpenChild(
        address, 1, key, "workflow", workflow, given, timeout=node.timeout, depth=depth, frame=moved_to(run, frame)
    )
    request(run, frame, opener)


def place_of(outer: Frame, node: NodePlan, opener: OpenChild) -> Place:
    """The place of the child that this effect of the node opens in the frame `outer`."""
    around, batch = outer.place, outer.batches.get(node.index)
    path = (*around.path, node.id)
    items = (*around.items, opener.address[-1] if batch is not None and batch.many else None)
    label = f"{around.label}{opener.key[len(around.prefix) :]}:{opener.attempt}/"
    within = (*opener.address, opener.attempt)
    return Place(within, path, items, place_to_wire(path, items), f"{opener.key}/", label)


def _wait(run: RunState, frame: Frame, node: NodePlan, step: int, params: Mapping[str, JSON]) -> None:
    seconds = params.get("seconds")
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < LONGEST_WAIT:
        fail(run, frame, node, "`seconds` of core.wait is not a number of seconds", "expression")
        return
    longest = seconds if node.timeout is None else min(seconds, node.timeout)
    set_timer(frame, address_of(frame, node.index, step), run.at + int(longest * 1000))


def end_wait(run: RunState, frame: Frame, address: Address) -> None:
    """The timer of a `core.wait` is due: its seconds have passed, or the time limit of its node."""
    index, _, step = address[-3:]
    node, waited = frame.plan.nodes[index], frame.batches[index].calls[step]
    if node.timeout is not None and node.timeout < as_number(as_object(waited)["seconds"]):
        fail(run, frame, node, f"no end within {node.timeout:g} seconds", "timeout")
    else:
        end_call(run, frame, node, step, waited)


def _looked_up(output: JSON) -> tuple[str, str]:
    """The digest of a tool's definition and the name of the tool. Earlier journals have the digest alone."""
    if isinstance(output, str):
        return output, ""
    found = as_object(output)
    return as_text(found["digest"]), as_text(found["name"])


def end_call(run: RunState, frame: Frame, node: NodePlan, step: int, output: JSON) -> None:
    """One call of the action has its result. The node ends with its last one."""
    batch = frame.batches[node.index]
    if step == WHOLE:
        batch.definition, batch.tool_name = _looked_up(output)
        _ask(run, frame, node)
        return
    if not batch.many:
        del frame.batches[node.index]
        finish(run, frame, node, output)
        return
    batch.results[step] = output
    batch.done.add(step)
    batch.live -= 1
    if batch.next < len(batch.calls) or not batch.live:
        issue(run, frame, node)
