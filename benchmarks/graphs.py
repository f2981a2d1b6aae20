"""The graphs of the benchmarks."""

import itertools
from typing import Any

Structure = dict[str, Any]


def _start() -> dict[str, Any]:
    return {"id": "start", "type": "start"}


def _action(name: str, tool: str = "step", params: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"id": name, "type": "action", "data": {"toolId": tool, "params": params or {}}}


def _edge(source: str, target: str, handle: str | None = None) -> dict[str, Any]:
    edge = {"id": f"{source}>{target}", "source": source, "target": target}
    return edge if handle is None else {**edge, "sourceHandle": handle}


def chain(length: int, tool: str = "step") -> Structure:
    """A chain of `length` nodes: the start and actions."""
    names = [f"n{index}" for index in range(length - 1)]
    edges = [_edge(*pair) for pair in zip(["start", *names], names, strict=False)]
    return {"nodes": [_start(), *(_action(name, tool) for name in names)], "edges": edges}


def diamonds(count: int) -> Structure:
    """`count` times an action, a condition on its output, one of two branches, and a join."""
    nodes, edges, last = [_start()], [], "start"
    for number in range(count):
        ask, left, right, join = (f"{name}{number}" for name in ("ask", "left", "right", "join"))
        test = {"branches": [{"handle": "yes", "when": f"nodes.{last}.output.n >= 0"}]}
        nodes.append({"id": ask, "type": "condition", "data": test})
        value = {"value": {"n": number}}
        nodes += [_action(name, "core.transform", value) for name in (left, right, join)]
        edges += [_edge(last, ask), _edge(ask, left, "yes"), _edge(ask, right, "else")]
        edges += [_edge(left, join), _edge(right, join)]
        last = join
    return {"nodes": nodes, "edges": edges}


def thresholds(count: int, first: int) -> Structure:
    """A chain of conditions, each with an expression of its own; `first` is the number in the first one."""
    names = [f"c{number}" for number in range(first, first + count)]
    tests = [f"input.total > {name[1:]} && input.kind == '{name}'" for name in names]
    branches = [{"branches": [{"handle": "yes", "when": test}]} for test in tests]
    nodes = [{"id": name, "type": "condition", "data": data} for name, data in zip(names, branches, strict=True)]
    edges = [_edge(a, b, "yes") for a, b in itertools.pairwise(names)]
    return {"nodes": [_start(), *nodes], "edges": [_edge("start", names[0]), *edges]}


def fan(width: int, tool: str) -> Structure:
    """`width` simultaneous actions."""
    names = [f"n{index}" for index in range(width)]
    return {
        "nodes": [_start(), *(_action(name, tool) for name in names)],
        "edges": [_edge("start", name) for name in names],
    }


def approval(steps: int = 0) -> Structure:
    """After so many actions a run that waits for a person, and one action after the decision."""
    first = chain(steps + 1)
    wait = {"id": "wait", "type": "humanApproval", "data": {"message": "go on?"}}
    edges = [_edge(first["nodes"][-1]["id"], "wait"), _edge("wait", "after", "approved")]
    return {"nodes": [*first["nodes"], wait, _action("after")], "edges": [*first["edges"], *edges]}
