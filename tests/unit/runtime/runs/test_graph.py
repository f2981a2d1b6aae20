"""The graph of a run (interface, Graph of a run; `GET /agent/v1/runs/{runId}/graph`)."""

from typing import Any

import pytest
from bench import Bench, act, ask, graph, one

from wfcore.domain.kernel.errors import NotFound
from wfcore.runtime.common.run_views import RunView

pytestmark = pytest.mark.anyio


async def nodes_of(bench: Bench, run: RunView | str, *path: str) -> dict[str, Any]:
    wire = (await bench.core.runs.graph(bench.me, run if isinstance(run, str) else run.id, path=path)).to_wire()
    assert wire["path"] == list(path)
    return {node["id"]: node for node in wire["nodes"]} | {edge["id"]: edge["taken"] for edge in wire["edges"]}


async def test_inputs_outputs_and_edges(bench: Bench) -> None:
    """Each node shows its rendered parameters and its output; edges are taken, not taken, or undecided."""
    branches = {"type": "condition", "data": {"branches": [{"handle": "yes", "when": "input.n > 1"}]}}
    structure = graph("s>c c:yes>a c:else>b a>h h:approved>z", c=branches, h=ask(),
                      a=act("echo", value="{{ input.n }}"), b=act("echo", value=0),
                      z=act("core.transform", value="{{ nodes.a.output }}"))  # fmt: skip
    run = await bench.ran(structure, {"n": 2})
    found = await nodes_of(bench, run)
    assert {name: found[name]["status"] for name in "scabhz"} == {
        "s": "done", "c": "done", "a": "done", "b": "skipped", "h": "waiting", "z": "pending"}  # fmt: skip
    assert (found["s"]["visits"][0]["input"], found["a"]["visits"][0]["input"]) == ({"n": 2}, {"value": 2})
    assert (found["a"]["visits"][0]["output"], found["a"]["visits"][0]["attempts"]) == (2, 1)
    assert found["h"]["visits"][0]["input"] == {"message": "may it?"}
    assert [found[f"e{number}"] for number in range(5)] == [True, True, False, True, None]
    turn = await bench.ended(await bench.core.runs.resume(bench.me, run.id, decision="approve"))
    for name in (run.id, turn.id):
        found = await nodes_of(bench, name)
        assert (found["h"]["status"], found["z"]["status"], found["e4"]) == ("done", "done", True)
        assert (found["z"]["visits"][0]["input"], found["z"]["visits"][0]["output"]) == ({"value": 2}, 2)


async def test_attempts_and_errors(bench: Bench) -> None:
    """A retried node counts its attempts; a failed one shows its error; siblings in flight are cancelled."""
    more = {"retry": {"maxAttempts": 3, "initialIntervalSeconds": 0}}
    structure = graph(
        "s>a s>w a>f", a=act("flaky", more=more, fails=1), w=act("hold"), f=act("core.fail", message="no")
    )
    run = await bench.ran(structure)
    found = await nodes_of(bench, run)
    assert (found["a"]["status"], found["a"]["visits"][0]["attempts"]) == ("done", 2)
    assert (found["f"]["status"], found["f"]["visits"][0]["error"]["message"]) == ("error", "no")
    assert (found["w"]["status"], found["w"]["visits"][0]["finishedAt"]) == ("cancelled", None)


async def test_items_of_a_list(bench: Bench) -> None:
    """One row for each item, in list order; without `forEach` null."""
    structure = one(act("echo", more={"forEach": "input.rows"}, value="{{ item }}"))
    found = await nodes_of(bench, await bench.ran(structure, {"rows": [3, 4]}))
    rows = [{"index": index, "status": "done", "attempts": 1, "output": value, "error": None}
            for index, value in enumerate((3, 4))]  # fmt: skip
    assert (found["a"]["items"], found["s"]["items"]) == (rows, None)
    assert found["a"]["visits"][0]["input"] == [{"value": 3}, {"value": 4}]


async def test_the_item_whose_child_failed(bench: Bench) -> None:
    """It has the error, until it is done; a failure that the child handles is none of the item."""
    caught = graph("s>a a:error>b b>c", a=act("core.fail", message="caught"), b=act("echo", value=1),
                   c=act("flaky", fails="{{ input.fails }}"))  # fmt: skip
    inner = await bench.deployed(caught)
    call = act("core.workflow", more={"forEach": "input.rows", "maxConcurrency": 1}, workflowId=inner,
               input={"fails": "{{ item }}"})  # fmt: skip
    run = await bench.ran(one(call), {"rows": [0, 1, 0]})
    rows = (await nodes_of(bench, run))["a"]["items"]
    assert [row["status"] for row in rows] == ["done", "error", "pending"]
    assert [row["error"] for row in rows] == [None, run.to_wire()["error"]["message"], None]
    done = await bench.ended(await bench.core.runs.retry(bench.me, run.id))
    rows = (await nodes_of(bench, done))["a"]["items"]
    assert [(row["status"], row["error"]) for row in rows] == [("done", None)] * 3


async def test_every_visit_of_a_cycle(bench: Bench) -> None:
    """A node that starts anew has one visit after the other."""
    structure = graph("s>a a>h h:denied>a h:approved>b", a=act("echo", value=1), b=act("echo", value=2), h=ask())
    run = await bench.ran(structure)
    turn = await bench.ended(await bench.core.runs.resume(bench.me, run.id, decision="deny"))
    found = await nodes_of(bench, turn)
    assert [visit["visit"] for visit in found["a"]["visits"]] == [1, 2]
    assert (found["h"]["status"], len(found["h"]["visits"]), found["b"]["status"]) == ("waiting", 2, "pending")


async def test_the_graph_of_a_child(bench: Bench) -> None:
    """`path` names the nodes that lead to it; where no child was opened there is none."""
    inner = await bench.deployed(one(act("echo", value="{{ input.x }}")))
    run = await bench.ran(one(act("core.workflow", workflowId=inner, input={"x": 7})))
    found = await nodes_of(bench, run, "a")
    assert (found["a"]["status"], found["a"]["visits"][0]["output"], found["e0"]) == ("done", 7, True)
    assert found["a"]["visits"][0]["input"] == {"value": 7}
    for path in (("s",), ("a", "a"), ("x",)):
        with pytest.raises(NotFound):
            await bench.core.runs.graph(bench.me, run.id, path=path)


async def test_large_values_are_cut(bench: Bench) -> None:
    """A large value is its beginning, and the address of the whole."""
    text = "x" * 50_000
    run = await bench.ran(one(act("echo", value=text)))
    found = await bench.core.runs.graph(bench.me, run.id, base="/runs/r")
    output = found.to_wire()["nodes"][1]["visits"][0]["output"]
    assert (output["truncated"], output["bytes"]) == (True, 50_002)
    assert output["url"] == "/runs/r/graph/value?nodeId=a&visit=1&field=output"
    assert found.value("a", 1, "output", None) == text
    with pytest.raises(NotFound):
        found.value("a", 2, "output", None)


async def test_only_users_read_it(bench: Bench) -> None:
    """Others get NotFound."""
    number = await bench.deployed(one(act("echo", value=1)), access={"visibility": "private"})
    run = await bench.ended(await bench.core.runs.start(bench.me, workflow=number, input={}))
    with pytest.raises(NotFound):
        await bench.core.runs.graph(bench.other, run.id)
