"""The workflows of the crash tests, by name: together they have every type of node and every kind of edge."""

from itertools import pairwise
from typing import Any

Graph = dict[str, Any]


def node(id: str, type: str = "action", **data: Any) -> Graph:
    return {"id": id, "type": type, "data": data}


def record(id: str, what: str, **data: Any) -> Graph:
    """An action with an external effect; `data` can name another tool than `record`."""
    return node(id, **{"toolId": "record", "params": {"what": what}, **data})


def graph(*nodes: Graph, **edges: str) -> Graph:
    """A start node, then `nodes` in sequence. `edges` give the handle of the edge from a node; `branch` adds edges as
    `source.handle>target`, separated by white space.
    """
    path = [node("begin", "start"), *nodes]
    more = [edge.replace(">", ".").split(".") for edge in edges.pop("branch", "").split()]
    aside = {target for *_, target in more}
    straight = [one["id"] for one in path if one["id"] not in aside]
    pairs = [(source, edges.get(source), target) for source, target in pairwise(straight)]
    return {
        "nodes": path,
        "edges": [
            {"id": str(number), "source": source, "target": target, **({"sourceHandle": handle} if handle else {})}
            for number, (source, handle, target) in enumerate([*pairs, *more])
        ],
    }


APPROVAL = {"message": "{{ run.id }}"}
EACH = {"forEach": "input.items", "maxConcurrency": 2}
SOON = {"maxAttempts": 4, "initialIntervalSeconds": 0.01, "backoffCoefficient": 1}
LARGE = [{"handle": "yes", "when": "nodes.fetch.output.seen > 3"}]

DEMO = graph(
    record("fetch", "{{ input.n }}"),
    node("large", "condition", branches=LARGE),
    node("write", "agent", message="write about {{ nodes.fetch.output.seen }}"),
    node("allow", "humanApproval", message="{{ nodes.write.output }}"),
    record("each", "{{ item }}", **EACH),
    record("end", "{{ nodes.write.output }} {{ nodes.each.output }}"),
    large="yes",
    allow="approved",
)

CROWD = graph(*(record(name, name) for name in "abcd"))

ONCE = graph(
    record("charge", "money", toolId="charge"),
    record("paid", "paid"),
    record("unknown", "unknown"),
    branch="charge.error>unknown",
)

TALK = graph(
    node("talk", "agent", agent_id=1, message="note two things"),
    node("inner", toolId="core.workflow", params={"workflowId": 2}),
)

ACTIONS = graph(
    record("fetch", "{{ input.n }}"),
    node("large", "condition", branches=LARGE),
    record("each", "{{ item }}", **EACH),
    record("end", "{{ nodes.each.output }}"),
    large="yes",
)

RETRY = graph(
    record("flaky", "in the end", toolId="flaky", retry=SOON),
    record("slow", "in time", toolId="slow", retry=SOON, timeoutSeconds=0.25),
    record("end", "{{ nodes.flaky.output }} {{ nodes.slow.output }}"),
)

APPROVED = graph(
    record("pay", "{{ input.n }}", requiresApproval=True),
    node("both", "humanApproval", message="agreed?", requiredApprovals=2),
    record("end", "{{ nodes.pay.output }}"),
    both="approved",
)

DEADLINE = graph(
    record("ask", "whoever is there"),
    node("nobody", "humanApproval", message="anybody?", timeoutSeconds=0.15),
    record("end", "{{ nodes.ask.output }}"),
    nobody="expired",
)

WAIT = graph(
    record("before", "before"),
    node("pause", toolId="core.wait", params={"seconds": 0.1}),
    record("after", "after"),
)

CHILD = graph(
    record("before", "before"),
    node("inner", toolId="core.workflow", params={"workflowId": 7, "input": {"n": "{{ input.n }}"}}),
    record("after", "{{ nodes.inner.output }}"),
)

KEYED = graph(
    record("each", "{{ item }}", forEach="input.items", concurrencyKey="service", concurrencyLimit=2),
    record("end", "{{ nodes.each.output }}", concurrencyKey="ser{{ 'vice' }}", concurrencyLimit=2, retry=SOON),
)

GRAPHS = {
    "demo": DEMO,
    "crowd": CROWD,
    "once": ONCE,
    "talk": TALK,
    "actions": ACTIONS,
    "retry": RETRY,
    "approval": APPROVED,
    "deadline": DEADLINE,
    "wait": WAIT,
    "child": CHILD,
    "webhook": CROWD,
    "keyed": KEYED,
}
"""In the order of their ids, from 1."""

NUMBERS = {name: number for number, name in enumerate(GRAPHS, 1)}
