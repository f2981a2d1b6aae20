"""What expressions hand out: values that nothing changes afterwards, at a bounded price."""

import time
from typing import Any

import pytest
from waiting import cpu_limit

from wfcore.domain.json.codec import fingerprint
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.effects import CallTool
from wfcore.domain.run.entries import Started, decode_entry, encode_entry
from wfcore.domain.run.machine.machine import Machine
from wfcore.domain.run.plan import compile_plan
from wfcore.testing.histories import ANN, BEGIN, History, sketch

DEAR = "{{ input.xs.map(a, input.xs.filter(b, input.xs.exists(c, c < 0))).size() }}"
"""It takes 48 x 48 x 48 turns for a list of 48."""


def transform(value: JSON, **more: Any) -> dict[str, Any]:
    return {"toolId": "core.transform", "params": {"value": value}, **more}


@pytest.mark.parametrize("source", ["nodes", "[nodes][0]", "true ? nodes : nodes", "nodes.map(n, nodes[n])"])
def test_an_approved_call_is_what_is_made(source: str) -> None:
    """What happens between the opening of an approval and the answer changes nothing of the call: it goes out as it
    was shown, and under the digest that was shown."""
    call = {"requiresApproval": True, "params": {"body": f"{{{{ {source} }}}}", "text": f"{{{{ {source} }}}} !"}}
    history = History(sketch("s -> h", "s -> b", "b -> c", h=call, c=transform("late")), {"order": 7})
    history.succeed("h", "digest of the definition")
    shown = dict(history.waiting("h").call or {})
    written = encode_entry(history.entries[0]), fingerprint({**shown, "digest": ""})
    history.succeed("b", {"more": 1}).decide("h")
    effect = history.effect("h")
    assert isinstance(effect, CallTool)
    digest = shown.pop("digest")
    assert fingerprint({"toolId": effect.tool, "arguments": effect.params}) == digest == fingerprint(shown)
    assert (encode_entry(history.entries[0]), fingerprint({**shown, "digest": ""})) == written
    assert "late" not in str(effect.params)


def test_all_nodes_are_a_value_like_any_other() -> None:
    """`{{ nodes }}` is what was there then, not what comes: its node is in no output of its own."""
    graph = sketch("s -> a", "a -> b", a=transform("{{ nodes }}"), b=transform("{{ nodes.a.output }}"))
    assert History(graph, 1).machine.output == {"s": {"output": 1}}


def test_a_round_of_a_cycle_changes_no_earlier_output() -> None:
    """`{{ nodes.n }}` of one round stays what it was when the node has run again."""
    again = {"type": "condition", "branches": [{"handle": "again", "when": "nodes.ask.output == 1"}]}
    edges = ("s -> ask", "ask -> keep", "keep -> c", "c -again-> ask", "c -else-> end")
    history = History(sketch(*edges, keep=transform("{{ nodes.ask }}"), c=again)).succeed("ask", 1)
    [first] = [event.data["output"] for event in history.events if event.data.get("nodeId") == "keep"
               and event.kind == "node_finished"]  # fmt: skip
    history.succeed("ask", 2)
    assert first == {"output": 1}


def test_values_that_nest_without_end_fail_their_node() -> None:
    """A cycle whose template wraps its own output once a round ends in a failure, not in a RecursionError."""
    again = {"type": "condition", "branches": [{"handle": "again", "when": "true"}]}
    grown = transform({"in": "{{ has(nodes.n.output) ? nodes.n.output : 0 }}"})
    machine = History(sketch("s -> n", "n -> c", "c -again-> n", "c -else-> e", n=grown, c=again)).machine
    assert machine.error
    assert "nested" in machine.error["message"]


def test_the_items_of_a_for_each_share_one_budget() -> None:
    """What one item may take is what all may take together: 60 dear ones cost no more than a fraction of a second,
    and fail their node, whose error edge is taken."""
    handler = {"params": {"given": "{{ input.ys }}"}}
    graph = sketch("s -> a", "a -error-> b", a=transform(DEAR, forEach="input.ys"), b=handler)
    began = time.process_time()
    history = History(graph, {"xs": list(range(48)), "ys": list(range(60))})
    assert time.process_time() - began < cpu_limit(1)
    [failed] = [event.data["error"] for event in history.events if event.kind == "node_failed"]
    assert "takes too many steps: expressions that share a budget may take 200,000" in failed["message"]
    assert (failed["info"]["reason"], history.pending("b") != []) == ("expression", True)


def test_nodes_in_a_row_share_one_budget_and_the_next_entry_has_its_own() -> None:
    """Two nodes that together take too many steps do not run at once; with an outcome between them they do."""
    half = DEAR.replace("input.xs", "input.few")
    given = {"few": list(range(35))}
    at_once = sketch("s -> a", "a -> b", a=transform(half), b=transform(half))
    assert (History(at_once, given).machine.error or {})["info"] == {"nodeId": "b", "reason": "expression"}
    apart = sketch("s -> a", "a -> w", "w -> b", a=transform(half), b=transform(half))
    assert History(apart, given).succeed("w").machine.output == 35


def test_ten_thousand_items_are_an_honest_use() -> None:
    """A `forEach` of 10,000 items with three expressions each stays within the budget."""
    params = {"id": "{{ item.id }}", "text": "order {{ item.id }} of {{ input.who }}"}
    graph = sketch("s -> a", a={"params": params, "forEach": "input.orders", "maxConcurrency": 1})
    history = History(graph, {"who": "Ann", "orders": [{"id": number} for number in range(10_000)]})
    assert history.effect("a").params == {"id": 0, "text": "order 0 of Ann"}  # type: ignore[union-attr]


# Keys


def test_keys_begin_with_the_execution() -> None:
    """The same run id in two organizations: the keys of their effects differ, ids of messages and interrupts do not."""
    plan = compile_plan(sketch("s -> a", "s -> h", h={"type": "humanApproval"}))
    keys, waits = set(), set()
    for execution in ("one", "two"):
        machine = Machine(plan)
        started = Started(BEGIN, "order-77", ANN, {}, {}, key=execution)
        machine.apply(decode_entry(encode_entry(started)))
        keys |= {effect.key for effect in machine.pending.values()}
        waits |= set(machine.interrupts)
    assert keys == {"one:a:1", "two:a:1"}
    assert len(waits) == 1
