"""`POST /api/v1/workflows/simulate`."""

import asyncio
from typing import Any

import pytest
from clients import World, assert_envelope

from wfcore.runtime.tools import simulations
from wfcore.testing.histories import sketch

pytestmark = pytest.mark.anyio

SIMULATE = "/api/v1/workflows/simulate"
ASK: Any = {"type": "humanApproval", "timeoutSeconds": 60}
REFUND = sketch("start -> ask", "ask -approved-> pay", "ask -denied-> tell", ask=ASK)
BIG: Any = {"type": "condition", "branches": [{"handle": "big", "when": "input.n > 10"}]}
CHOICE = sketch("start -> c", "c -big-> a", "c -else-> b", c=BIG)


async def simulated(world: World, **body: Any) -> dict[str, Any]:
    answer = await (await world.user("ann")).post(SIMULATE, json=body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def test_paths_and_verdicts(world: World) -> None:
    """The ends of runs, nodes that are never reached, and each rule with its counter-example. No tool need exist."""
    rules = ["never pay without approved ask", "never tell without approved ask"]
    found = await simulated(world, workflowStructure=REFUND, rules=rules)
    assert (found["complete"], found["neverReached"], found["canFail"]) == (True, [], ["pay", "tell"])
    assert len(found["paths"]) == 5
    holds, broken = found["rules"]
    assert (holds["status"], holds["decidedBy"], holds["counterExample"]) == ("holds", "graph", None)
    assert broken["status"] == "broken"
    assert broken["counterExample"]["steps"] == [{"nodeId": "ask", "outcome": "denied"}]
    assert broken["counterExample"]["path"] == ["start", "ask", "tell"]
    assert broken["counterExample"]["mermaid"].startswith("flowchart TD")


async def test_an_input_decides_what_reads_it(world: World) -> None:
    """Null and absent leave it open."""
    for given in ({}, {"input": None}):
        assert (await simulated(world, workflowStructure=CHOICE, **given))["neverReached"] == []
    found = await simulated(world, workflowStructure=CHOICE, input={"n": 11}, rules=["never b"])
    assert (found["neverReached"], found["rules"][0]["status"]) == (["b"], "holds")


@pytest.mark.parametrize(
    ("body", "status", "path"),
    [
        ({}, 400, "workflowStructure"),
        ({"workflowStructure": REFUND, "rules": "never pay"}, 400, "rules"),
        ({"workflowStructure": REFUND, "nope": 1}, 422, "nope"),
        ({"workflowStructure": REFUND, "rules": ["never pay"] * 21}, 422, "rules"),
        ({"workflowStructure": REFUND, "rules": ["never pay", "never"]}, 422, "rules[1]"),
        ({"workflowStructure": REFUND, "rules": ["never pay", "never nobody"]}, 422, "rules[1]"),
        ({"workflowStructure": {"nodes": [{"id": "s", "type": "start"}, {}]}}, 400, "workflowStructure.nodes[1].id"),
        ({"workflowStructure": {"nodes": []}}, 422, "workflowStructure.nodes"),
        ({"workflowStructure": sketch("s -> a", "a -x-> b")}, 422, "workflowStructure.edges[1].sourceHandle"),
        ({"workflowStructure": sketch("s -> a", s={"inputSchema": {"required": ["n"]}}), "input": {}}, 422, "input.n"),
    ],
)  # fmt: skip
async def test_faults_name_their_field(world: World, body: Any, status: int, path: str) -> None:
    """A body without the shape, a graph that cannot run, a rule that names nothing, an input that is forbidden."""
    answer = await (await world.user("ann")).post(SIMULATE, json=body)
    code = "BAD_REQUEST" if status == 400 else "VALIDATION"
    error = assert_envelope(answer, status, code, "INVALID_ARGUMENT")
    assert error["info"]["errors"][0]["path"] == path


async def test_a_large_graph_is_cut_short(world: World) -> None:
    """Branches of cycles have more states than one request may visit: `complete` says so."""
    edges = [edge for n in range(10) for edge in (f"h -> a{n}", f"a{n} -> b{n}", f"b{n} -> c")]
    again: Any = {"type": "condition", "branches": [{"handle": "again", "when": "input.x"}]}
    wide = sketch("s -> h", *edges, "c -again-> h", "c -else-> z", c=again)
    found = await simulated(world, workflowStructure=wide, rules=["at most 5 b7", "never z without done b3"])
    assert (found["complete"], found["neverReached"]) == (False, [])
    assert [one["status"] for one in found["rules"]] == ["unknown", "broken"]
    assert found["rules"][1]["decidedBy"] == "graph"


async def test_simulations_share_the_process(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """They run in threads, so that other requests are served meanwhile, and only a few at the same time."""
    under_way, most = 0, 0

    async def to_thread(work: Any, *arguments: Any) -> Any:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        return work(*arguments)

    monkeypatch.setattr(simulations.asyncio, "to_thread", to_thread)
    await asyncio.gather(*(simulated(world, workflowStructure=REFUND) for _ in range(5)))
    assert 1 <= most <= simulations.AT_ONCE
