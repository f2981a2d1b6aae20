"""Hypothesis strategies for workflow graphs: some can be deployed, others have exactly one known error.

Graphs are `workflowStructure` JSON. Deployable graphs refer to `CATALOG`; they mix all types of nodes, with branches,
joins, parallel edges and cycles that contain a condition or a humanApproval.
"""

import copy
from collections.abc import Callable
from typing import Any, Literal

import attrs
from hypothesis import strategies as st

from wfcore.domain.graph.checks import ListedCatalog
from wfcore.domain.kernel.json_readers import as_text
from wfcore.domain.kernel.json_type import JSON

TOOLS = ("core.transform", "core.http")
SKILLS = (1, 2, 3)
CATALOG = ListedCatalog(frozenset(TOOLS), frozenset(SKILLS))

INNER_TYPES = ("action", "condition", "agent", "humanApproval")
EXITS: dict[str, tuple[str | None, ...]] = {
    "start": (None,),
    "action": (None, "error"),
    "condition": ("yes", "no", "else"),
    "agent": (None, "error"),
    "humanApproval": ("approved", "denied", "expired"),
}

Structure = dict[str, list[dict[str, JSON]]]
"""A `workflowStructure`: its `nodes` and `edges`."""


# Deployable graphs.


@st.composite
def deployable_graphs(draw: st.DrawFn, max_nodes: int = 10) -> Structure:
    """A `workflowStructure` of 1 to `max_nodes` nodes without errors. Warnings are possible."""
    types = ["start", *draw(st.lists(st.sampled_from(INNER_TYPES), max_size=max_nodes - 1))]
    nodes = [draw(_node(index, kind, len(types))) for index, kind in enumerate(types)]
    pairs = [(draw(st.integers(0, index - 1)), index) for index in range(1, len(types))]
    if len(types) > 1:
        pairs += draw(st.lists(_extra_pair(types), max_size=len(types)))
    edges = [draw(_edge(number, pair, types)) for number, pair in enumerate(pairs)]
    return {"nodes": draw(st.permutations(nodes)), "edges": draw(st.permutations(edges))}


def _extra_pair(types: list[str]) -> st.SearchStrategy[tuple[int, int]]:
    """A further edge: forward between any nodes, or back if one end is a node that can leave the cycle."""
    leaving = {index for index, kind in enumerate(types) if kind in ("condition", "humanApproval")}
    pairs = [
        (source, target)
        for source in range(len(types))
        for target in range(1, len(types))
        if source < target or leaving & {source, target}
    ]
    return st.sampled_from(pairs)


@st.composite
def _edge(draw: st.DrawFn, number: int, pair: tuple[int, int], types: list[str]) -> dict[str, JSON]:
    source, target = pair
    handle = draw(st.sampled_from(EXITS[types[source]]))
    edge: dict[str, JSON] = {"id": f"edge {number}", "source": f"n{source}", "target": f"n{target}"}
    return edge if handle is None else {**edge, "sourceHandle": handle}


@st.composite
def _node(draw: st.DrawFn, index: int, kind: str, count: int) -> dict[str, JSON]:
    node: dict[str, JSON] = {"id": f"n{index}", "type": kind}
    expression = st.integers(0, count - 1).map("nodes.n{}.output.ok".format) | st.just("input.amount > 10")
    if draw(st.booleans()):
        node["position"] = {"x": draw(st.integers(-999, 999)), "y": draw(st.floats(-1e6, 1e6))}
    if kind != "start" or draw(st.booleans()):
        node["data"] = {**draw(_DATA[kind](expression)), **draw(_BUILDERS_OWN)}
    return node


_LABELS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5)
"""Texts that every database stores."""
_BUILDERS_OWN = st.fixed_dictionaries({}, optional={"label": _LABELS, "colour": st.none()})
_SECONDS = st.integers(1, 10**6) | st.floats(0.001, 1e6)
_Value = st.SearchStrategy[JSON]
_TRIES: dict[str, _Value] = {
    "retry": st.fixed_dictionaries(
        {},
        optional={
            "maxAttempts": st.integers(1, 100) | st.just(3.0),
            "initialIntervalSeconds": st.floats(0, 60),
            "backoffCoefficient": st.floats(1, 10),
            "maxIntervalSeconds": st.integers(0, 600),
        },
    ),
    "timeoutSeconds": _SECONDS,
}
_SCHEMAS: list[JSON] = [True, {}, {"type": "object", "required": ["amount"]}]
_SCHEMA = st.sampled_from(_SCHEMAS)

Data = st.SearchStrategy[dict[str, JSON]]
Expressions = st.SearchStrategy[str]


def _start(expression: Expressions) -> Data:
    return st.fixed_dictionaries({}, optional={"inputSchema": _SCHEMA})


def _action(expression: Expressions) -> Data:
    texts = st.just("plain") | expression.map("say {{{{ {} }}}}!".format)
    params = st.fixed_dictionaries({}, optional={"value": texts, "list": st.lists(texts, max_size=2)})
    optional: dict[str, _Value] = {
        "params": params,
        "forEach": expression,
        "maxConcurrency": st.integers(1, 9),
        "concurrencyKey": texts,
        "concurrencyLimit": st.integers(1, 9),
        "requiresApproval": st.booleans(),
        **_TRIES,
    }
    required: dict[str, _Value] = {"toolId": st.sampled_from(TOOLS)}
    return st.fixed_dictionaries(required, optional=optional)


def _condition(expression: Expressions) -> Data:
    branches = st.tuples(
        *(st.fixed_dictionaries({"handle": st.just(handle), "when": expression}) for handle in ("yes", "no"))
    )
    return st.fixed_dictionaries({"branches": branches.map(list)})


def _agent(expression: Expressions) -> Data:
    message = expression.map("{{{{ {} }}}}".format)
    optional: dict[str, _Value] = {
        "instructions": st.just("be kind") | st.just(["be kind", "be brief"]),
        "tool_restrictions": st.lists(st.sampled_from(TOOLS), max_size=2),
        "model": st.just("default"),
        "modelSettings": st.just({"reasoningEffort": "low", "contextWindow": 1000}),
        "outputSchema": _SCHEMA,
        **_TRIES,
    }
    named: dict[str, _Value] = {"agent_id": st.sampled_from(SKILLS)}
    said: dict[str, _Value] = {"message": message}
    return st.fixed_dictionaries(named, optional={**optional, **said}) | st.fixed_dictionaries(said, optional=optional)


def _human_approval(expression: Expressions) -> Data:
    approvers = st.sampled_from(
        [
            {"emails": ["ann@example.org", "bob@example.org"]},
            {"groups": ["123e4567-e89b-12d3-a456-426614174000"], "emails": []},
        ]
    )
    optional: dict[str, _Value] = {
        "message": expression.map("may I? {{{{ {} }}}}".format),
        "approvers": approvers,
        "requiredApprovals": st.integers(1, 2),
        "allowSelfApproval": st.booleans(),
        "formSchema": _SCHEMA,
        "timeoutSeconds": _SECONDS,
        "onTimeout": st.sampled_from(["approve", "deny", "error"]),
    }
    escalation: dict[str, _Value] = {"escalateAfterSeconds": _SECONDS, "escalateTo": approvers}
    return st.builds(_timely, st.fixed_dictionaries({}, optional=optional), st.one_of(
        st.just({}), st.fixed_dictionaries({"remindAfterSeconds": _SECONDS}), st.fixed_dictionaries(escalation)
    ))  # fmt: skip


def _timely(data: dict[str, Any], reminders: dict[str, Any]) -> dict[str, Any]:
    """The data of an approval with these reminders, without those that would be after its deadline."""
    late = [key for key in ("remindAfterSeconds", "escalateAfterSeconds")
            if reminders.get(key, 0) >= data.get("timeoutSeconds", float("inf"))]  # fmt: skip
    return data if late else {**data, **reminders}


_DATA: dict[str, Callable[[Expressions], Data]] = {
    "start": _start,
    "action": _action,
    "condition": _condition,
    "agent": _agent,
    "humanApproval": _human_approval,
}


# Graphs with one error.


@attrs.frozen
class Fault:
    """One kind of error: `apply` changes a valid graph in place, at one of its nodes or edges, and returns the path."""

    when: Literal["write", "deploy"]
    rule: str
    apply: Callable[[Structure, int], str]


@attrs.frozen
class BrokenGraph:
    """A structure with one error: its rule, its path below the structure, and the rules that report it."""

    structure: Structure
    when: Literal["write", "deploy"]
    rule: str
    path: str


def broken_graphs(max_nodes: int = 10) -> st.SearchStrategy[BrokenGraph]:
    """A graph whose only error is one of the `FAULTS`."""
    graphs = deployable_graphs(max_nodes).filter(lambda structure: structure["edges"])
    return st.builds(_broken, graphs, st.sampled_from(FAULTS), st.integers(0, 10**6))


def _broken(structure: Structure, fault: Fault, place: int) -> BrokenGraph:
    changed = copy.deepcopy(structure)
    path = fault.apply(changed, place)
    return BrokenGraph(changed, fault.when, fault.rule, path)


def _put(items: str, key: str, value: JSON) -> Callable[[Structure, int], str]:
    def apply(structure: Structure, place: int) -> str:
        index = place % len(structure[items])
        structure[items][index][key] = value
        return f"{items}[{index}].{key}"

    return apply


def _drop(items: str, key: str) -> Callable[[Structure, int], str]:
    def apply(structure: Structure, place: int) -> str:
        index = place % len(structure[items])
        del structure[items][index][key]
        return f"{items}[{index}].{key}"

    return apply


def _append(items: str, item: Any, below: str) -> Callable[[Structure, int], str]:
    def apply(structure: Structure, place: int) -> str:
        structure[items].append(item)
        return f"{items}[{len(structure[items]) - 1}]{below}"

    return apply


def _repeat(items: str) -> Callable[[Structure, int], str]:
    def apply(structure: Structure, place: int) -> str:
        structure[items].append(copy.deepcopy(structure[items][place % len(structure[items])]))
        return f"{items}[{len(structure[items]) - 1}].id"

    return apply


def _half_position(structure: Structure, place: int) -> str:
    return f"{_put('nodes', 'position', {'x': 1})(structure, place)}.y"


def _no_start(structure: Structure, place: int) -> str:
    _start_of(structure).update(type="agent", data={"message": "hello"})
    return "nodes"


def _edge_to_start(structure: Structure, place: int) -> str:
    grow(structure, "new", "humanApproval", {})
    return _link(structure, "new", as_text(_start_of(structure)["id"]), "denied") + ".target"


def _closed_cycle(structure: Structure, place: int) -> str:
    path = grow(structure, "new", "agent", {"agent_id": 1})
    structure["nodes"].append({"id": "newer", "type": "action", "data": {"toolId": "core.http"}})
    _link(structure, "new", "newer")
    _link(structure, "newer", "new", "error")
    return path


def _bad_data(kind: str, data: JSON, below: str) -> Callable[[Structure, int], str]:
    return lambda structure, place: f"{grow(structure, 'new', kind, data)}.data.{below}"


def grow(structure: Structure, name: str, kind: str, data: JSON) -> str:
    """Add a node directly after the start; return its path."""
    structure["nodes"].append({"id": name, "type": kind, "data": data})
    _link(structure, as_text(_start_of(structure)["id"]), name)
    return f"nodes[{len(structure['nodes']) - 1}]"


def _start_of(structure: Structure) -> dict[str, JSON]:
    return next(node for node in structure["nodes"] if node["type"] == "start")


def _link(structure: Structure, source: str, target: str, handle: str | None = None) -> str:
    count = len(structure["edges"])
    edge: dict[str, JSON] = {"id": f"new edge {count}", "source": source, "target": target}
    structure["edges"].append(edge if handle is None else {**edge, "sourceHandle": handle})
    return f"edges[{count}]"


FAULTS: tuple[Fault, ...] = (
    Fault("write", "required", _drop("nodes", "type")),
    Fault("write", "type", _put("nodes", "type", 7)),
    Fault("write", "enum", _put("nodes", "type", "Start")),
    Fault("write", "unknown", _put("nodes", "label", "mine")),
    Fault("write", "type", _put("nodes", "data", None)),
    Fault("write", "type", _put("nodes", "position", [1, 2])),
    Fault("write", "position", _half_position),
    Fault("write", "unique", _repeat("nodes")),
    Fault("write", "minLength", _append("nodes", {"id": "", "type": "agent"}, ".id")),
    Fault("write", "maxLength", _append("nodes", {"id": "x" * 256, "type": "agent"}, ".id")),
    Fault("write", "type", _append("nodes", "x", "")),
    Fault("write", "required", _drop("edges", "source")),
    Fault("write", "reference", _put("edges", "target", "nobody")),
    Fault("write", "type", _put("edges", "source", None)),
    Fault("write", "type", _put("edges", "sourceHandle", None)),
    Fault("write", "unknown", _put("edges", "targetHandle", "in")),
    Fault("write", "unique", _repeat("edges")),
    Fault("deploy", "start", _no_start),
    Fault("deploy", "start", _append("nodes", {"id": "new", "type": "start"}, ".type")),
    Fault("deploy", "start", _edge_to_start),
    Fault("deploy", "reachable", _append("nodes", {"id": "new", "type": "humanApproval"}, "")),
    Fault("deploy", "handle", _put("edges", "sourceHandle", "nowhere")),
    Fault("deploy", "cycle", _closed_cycle),
    Fault("deploy", "required", _bad_data("action", {}, "toolId")),
    Fault("deploy", "reference", _bad_data("action", {"toolId": "no.such"}, "toolId")),
    Fault("deploy", "reference", _bad_data("agent", {"agent_id": 99}, "agent_id")),
    Fault("deploy", "required_if", _bad_data("agent", {"model": "default"}, "message")),
    Fault(
        "deploy",
        "expression",
        _bad_data("condition", {"branches": [{"handle": "a", "when": "1 +"}]}, "branches[0].when"),
    ),
    Fault(
        "deploy",
        "reference",
        _bad_data("humanApproval", {"message": "{{ nodes.nobody.output }}"}, "message"),
    ),
)
"""Each rule at least once."""
