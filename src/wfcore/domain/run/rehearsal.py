"""A workflow made ready to be simulated: each of its nodes ends by the outcome of an effect.

A simulation knows nothing of the world: the results of tools, models, children and people, and so what expressions
read, are open. A node with one good outcome becomes a call of a tool, which succeeds or fails. A node with several
exits becomes such a call, whose result is the number of the exit, and a condition after it, which takes that exit. The
rest of the graph is the same, so that the machine itself decides joins, cycles, dead paths and ends.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs

from wfcore.domain.expressions.expression import Expression, ExpressionError
from wfcore.domain.graph.node_types import ELSE, NodeType
from wfcore.domain.kernel.json_readers import as_objects, as_text
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.effects import FAIL, TRANSFORM, WAIT, Address
from wfcore.domain.run.entries import Entry, Failed, Succeeded
from wfcore.domain.run.machine.actions import checked_key
from wfcore.domain.run.machine.states.interrupts import InterruptOrigin, approval_of, expiry
from wfcore.domain.run.plan import NodePlan, Plan, compile_plan

DONE, FAILED, EXPRESSION, EXPIRED = "done", "failed", "expression", "expired"


@attrs.frozen
class Way:
    """One way in which a node can end: the exit by which it is left, or with `fails` none but its `error` edges."""

    name: str
    exit: str = ""
    fails: bool = False


SUCCESS, FAILURE, INVALID = Way(DONE, DONE), Way(FAILED, fails=True), Way(EXPRESSION, fails=True)
DENIED = Way("denied", "error")
"""A call that was denied. This does not fail the run, even if no edge catches it."""


@attrs.frozen
class RehearsedNode:
    """The call that stands for a node. `fork`: a condition takes the exit that the call returns. `instant`: in a run
    the machine decides it by itself, before anything else can happen.
    """

    node: NodePlan
    ways: Sequence[Way]
    fork: bool
    instant: bool

    @property
    def exits(self) -> list[str]:
        """The exits by which the node can be left; the call of a fork returns an index of this list."""
        return list(dict.fromkeys(way.exit for way in self.ways if not way.fails))

    @property
    def fatal(self) -> bool:
        """Whether the run cannot go on after it has reached the node."""
        return not self.node.catches and all(way.fails for way in self.ways)


@attrs.frozen
class Rehearsal:
    """`workflow` is the plan of what is simulated, `plan` that of what is run instead, in which the workflow's nodes
    keep their positions; `parts` are the calls in it by position.
    """

    workflow: Plan
    plan: Plan
    parts: Mapping[int, RehearsedNode]

    def place(self, index: int) -> int:
        """The node of the workflow that this node of the plan stands for."""
        return self.parts[index].node.index if index in self.parts else index

    def ending(self, address: Address, way: Way) -> Entry:
        """The entry with which the call at this address ends in this way."""
        node, visit, step = address
        if way.fails:
            return Failed(0, node, visit, step, 1, way.name, way.name, retryable=False)
        return Succeeded(0, node, visit, step, 1, self.parts[node].exits.index(way.exit))


def all_before(states: Iterable[int], led_from: Sequence[Sequence[int]]) -> set[int]:
    """These states of a search and all from which one of them is reached; `led_from` has those just before each."""
    found = set(states)
    waiting = list(found)
    while waiting:
        for number in led_from[waiting.pop()]:
            if number not in found:
                found.add(number)
                waiting.append(number)
    return found


def rehearse(structure: Mapping[str, JSON], given: JSON = None) -> Rehearsal:
    """Make a structure without issues ready. `given` is the run's input; None leaves that open, too."""
    workflow, known = compile_plan(structure), _Known(given)
    calls = {node.index: _part(node, known) for node in workflow.nodes if node.kind is not NodeType.START}
    nodes = [_stand_in(node, calls.get(node.index)) for node in workflow.nodes]
    names = {node.id for node in workflow.nodes}
    forks: dict[str, str] = {}
    parts: dict[int, RehearsedNode] = {}
    for index, part in calls.items():
        if part.fork:
            name = forks[part.node.id] = _unused(f"ask_{index}", names)
            parts[len(nodes)] = part
            nodes[index]["data"] = {"branches": [_branch(name, *numbered) for numbered in enumerate(part.exits)]}
            nodes.append({"id": name, "type": NodeType.ACTION, "data": CALL})
        else:
            parts[index] = part
    edges = [_edge(edge, forks) for edge in as_objects(structure.get("edges") or ())]
    edges += [{"id": name, "source": name, "target": fork} for fork, name in forks.items()]
    return Rehearsal(workflow, compile_plan({"nodes": nodes, "edges": edges}), parts)


def _branch(name: str, number: int, handle: str) -> dict[str, JSON]:
    """The branch that is taken when the call of this name returns this number."""
    return {"handle": handle, "when": f"nodes.{name}.output == {number}"}


def _edge(edge: Mapping[str, JSON], forks: Mapping[str, str]) -> dict[str, JSON]:
    """The same edge, to the call in front of a fork, and from a fork by the name of the exit."""
    target = as_text(edge["target"])
    turned = {**edge, "target": forks.get(target, target)}
    if edge["source"] in forks:
        turned["sourceHandle"] = edge.get("sourceHandle") or DONE
    return turned


CALL: Mapping[str, JSON] = {"toolId": "simulated"}


def _stand_in(node: NodePlan, part: RehearsedNode | None) -> dict[str, JSON]:
    if part is None:
        return {"id": node.id, "type": NodeType.START}
    return {"id": node.id, "type": NodeType.CONDITION if part.fork else NodeType.ACTION, "data": CALL}


def _unused(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


# The ways in which a node can end


def _part(node: NodePlan, known: "_Known") -> RehearsedNode:
    is_open = False
    try:
        _render(node, known)
    except ExpressionError:
        return RehearsedNode(node, (INVALID,), fork=False, instant=True)
    except _Open:
        is_open = True
    if node.kind is NodeType.CONDITION:
        return RehearsedNode(node, _branches(node, known), fork=True, instant=True)
    if node.kind is NodeType.HUMAN_APPROVAL:
        return RehearsedNode(node, tuple(_answers(node)), fork=True, instant=False)
    ways = _performed(node, is_open)
    if not node.requires_approval:
        return RehearsedNode(node, ways, fork=False, instant=node.pure)
    caught = Way(FAILED, "error") if node.catches else FAILURE
    approved = (caught if way.fails else way for way in ways)
    return RehearsedNode(node, (*approved, DENIED), fork=True, instant=False)


def _render(node: NodePlan, known: "_Known") -> None:
    """Evaluate the expressions of the node. Raises `ExpressionError` as its start would, `_Open` if they read what is
    open.
    """
    if node.for_each is not None:
        if not isinstance(node.for_each.evaluate(known), list):
            raise ExpressionError(f"`{node.for_each.source}` is not a list")
    else:
        if node.params is not None:
            node.params.render(known)
        if node.concurrency_key is not None:
            checked_key(node.concurrency_key.render(known))
    if node.message is not None:
        node.message.render(known)


def _branches(node: NodePlan, known: "_Known") -> Sequence[Way]:
    """The branches that can hold, up to the first that always does."""
    found: dict[Way, None] = {}
    for handle, when in node.branches:
        try:
            held = when.evaluate(known)
        except _Open:
            found[Way(handle, handle)] = None
            continue
        except ExpressionError:
            held = None
        if held is not False:
            return (*found, Way(handle, handle) if held is True else INVALID)
    return (*found, Way(ELSE, ELSE))


def _answers(node: NodePlan) -> Iterator[Way]:
    yield Way("approved", "approved")
    yield Way("denied", "denied")
    if node.timeout is not None:
        handle, _ = expiry(approval_of(InterruptOrigin(node, "", 1, 0), ""), node, 0)
        yield Way(EXPIRED, handle or "", fails=handle is None)


def _performed(node: NodePlan, is_open: bool) -> Sequence[Way]:
    """The ends of a call, after its retries. What is open can fail where an edge catches it."""
    if node.tool == FAIL and node.for_each is None:
        return (FAILURE,)
    if node.tool == WAIT or (node.tool == TRANSFORM and node.pure):
        can_fail = node.catches and (is_open or node.timeout is not None)
        return (SUCCESS, FAILURE) if can_fail else (SUCCESS,)
    return SUCCESS, FAILURE


def known_items(for_each: Expression, given: JSON) -> int | None:
    """How many items a `forEach` has with this input; None if that is open, 0 if it fails its node."""
    try:
        items = for_each.evaluate(_Known(given))
    except _Open:
        return None
    except ExpressionError:
        return 0
    return len(items) if isinstance(items, list) else 0


class _Open(Exception):
    """The expression reads what is not known before a run."""


class _Known(Mapping[str, JSON]):
    """What expressions read, of which only the run's input can be known."""

    def __init__(self, given: JSON) -> None:
        self._given = given

    def __getitem__(self, name: str) -> JSON:
        if name != "input" or self._given is None:
            raise _Open
        return self._given

    def __iter__(self) -> Iterator[str]:
        return iter(("input", "nodes", "run", "item"))

    def __len__(self) -> int:
        return 4
