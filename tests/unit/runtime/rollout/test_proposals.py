"""Proposals of a model for the graph of a workflow: checked before they are shown, and never saved."""

import json
from collections.abc import AsyncIterator
from typing import Any

import attrs
import pytest
from bench import Bench, act, deployed_skill, graph, opened, private

from wfcore.domain.kernel.errors import Conflict, Forbidden, Invalid, Malformed, NotFound
from wfcore.ports.providers import ModelError
from wfcore.runtime.rollout import single_actions
from wfcore.testing import ScriptedModel

pytestmark = pytest.mark.anyio
STRUCTURE = graph("s>pay", pay=act("echo", value=1))
ASK = {"id": "ask", "type": "humanApproval", "data": {"message": "Pay?"}}


def change(**parts: Any) -> str:
    return json.dumps(
        {"explanation": "An approval before.", "nodes": [], "edges": [], "removeNodes": [], "removeEdges": [], **parts}
    )


GOOD = change(
    nodes=[ASK],
    edges=[
        {"id": "e0", "source": "s", "target": "ask"},
        {"id": "e1", "source": "ask", "target": "pay", "sourceHandle": "approved"},
    ],
)
UNKNOWN = change(nodes=[{"id": "pay", "type": "action", "data": {"toolId": "no.such"}}])
CUT = change(removeEdges=["e0"])
LOOSE = change(nodes=[ASK], edges=[{"id": "e1", "source": "s", "target": "ask"}])


@pytest.fixture
async def model() -> ScriptedModel:
    return ScriptedModel()


@pytest.fixture
async def bench(model: ScriptedModel) -> AsyncIterator[Bench]:
    async with opened("sqlite://", models={"default": model}) as bench:
        yield bench


async def drafted(bench: Bench) -> int:
    return (await bench.core.workflows.create(bench.me, name="Pay", structure=STRUCTURE)).id


def sent(model: ScriptedModel, place: int = -1) -> Any:
    return json.loads(str(model.requests[place].messages[-1]["content"]))


class TestProposals:
    async def test_a_valid_change(self, bench: Bench, model: ScriptedModel) -> None:
        """It is a graph that could be deployed, with its difference and simulation; the draft stays as it is."""
        model.play(GOOD)
        number = await drafted(bench)
        found = (await bench.core.workflows.propose(bench.me, number, request="Ask before")).to_wire()
        assert [node["id"] for node in found["workflowStructure"]["nodes"]] == ["s", "pay", "ask"]
        assert (found["diff"]["nodes"]["added"], found["explanation"]) == (["ask"], "An approval before.")
        assert found["simulation"]["neverReached"] == []
        draft = (await bench.core.workflows.get(bench.me, number, "draft")).to_wire()
        assert draft["variation"]["workflowStructure"] == STRUCTURE
        structure = found["workflowStructure"]
        await bench.core.workflows.patch(bench.me, number, structure=structure)
        await bench.core.workflows.deploy(bench.me, number)

    async def test_its_cost_is_usage(self, bench: Bench, model: ScriptedModel) -> None:
        """Each attempt is a run of the caller; the proposal has the sum, and the usage of the organization too."""
        model.play(UNKNOWN, GOOD)
        found = await bench.core.workflows.propose(bench.me, await drafted(bench), request="Ask before")
        assert (len(found.run_ids), found.usage["calls"]) == (2, 2)
        runs = [await bench.core.runs.get(bench.me, name) for name in found.run_ids]
        assert {(run.row.kind, run.row.user_id, run.status) for run in runs} == {("action", "me", "done")}
        report = (await bench.core.usage.report(bench.me)).to_wire()
        assert report["totals"]["inputTokens"] == found.usage["inputTokens"]

    async def test_the_model_is_sent_what_it_can_use(self, bench: Bench, model: ScriptedModel) -> None:
        model.play(GOOD, GOOD)
        skill = await deployed_skill(bench)
        number = await drafted(bench)
        await bench.core.workflows.propose(bench.me, number, request="Ask before")
        assert {"echo", "core.http"} <= {tool["id"] for tool in sent(model)["tools"]}
        assert (sent(model)["models"], sent(model)["skills"][0]["agent_id"]) == (["default"], skill)
        few = bench.person("me", scopes=("workflows:write", "workflows:invoke"))
        await bench.core.workflows.propose(few, number, request="Ask before")
        assert sent(model)["skills"] == []

    @pytest.mark.parametrize(
        ("bad", "fault"),
        [
            (UNKNOWN, "unknown tool"),
            (CUT, "cannot be reached"),
            (change(), "the change changes nothing"),
            (change(nodes=[{"id": "", "type": "action", "data": {}}]), "empty"),
            (LOOSE, "broken: never pay without approved ask"),
            (change(removeNodes=["pay"]), "unknown node `pay`"),
            (
                change(nodes=[{"id": "f", "type": "action", "data": {"toolId": "core.fail"}}], removeNodes=["pay"],
                       edges=[{"id": "e", "source": "s", "target": "f"}]), "",
            ),
        ],
    )  # fmt: skip
    async def test_faults_are_sent_to_the_model(self, bench: Bench, model: ScriptedModel, bad: str, fault: str) -> None:
        model.play(bad, GOOD)
        number = await drafted(bench)
        rules = ["never pay without approved ask"]
        found = await bench.core.workflows.propose(bench.me, number, request="Ask before", rules=rules)
        assert len(found.run_ids) == 2
        assert sent(model)["change"] == json.loads(bad)
        assert fault in " ".join(one["message"] for one in sent(model)["faults"])
        assert [verdict.holds for verdict in found.simulated.verdicts] == [True]

    async def test_nothing_valid(self, bench: Bench, model: ScriptedModel) -> None:
        """After three attempts, the faults of the last one are the error."""
        model.play(UNKNOWN, CUT, UNKNOWN)
        with pytest.raises(Invalid, match="in 3 attempts") as error:
            await bench.core.workflows.propose(bench.me, await drafted(bench), request="Mail")
        assert error.value.info["reason"] == "no_valid_proposal"
        (first, *_) = error.value.info["errors"]  # type: ignore[misc]
        assert first["rule"] == "reference"

    async def test_a_model_that_fails(self, bench: Bench, model: ScriptedModel) -> None:
        number = await drafted(bench)
        model.play(ModelError("no credit", retryable=False))
        with pytest.raises(Invalid, match="no credit") as error:
            await bench.core.workflows.propose(bench.me, number, request="Mail")
        assert error.value.info["reason"] == "model"
        with pytest.raises(Invalid, match="`other`"):
            await bench.core.workflows.propose(bench.me, number, request="Mail", model="other")

    async def test_a_model_that_takes_too_long(
        self, bench: Bench, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The run is cancelled."""
        monkeypatch.setattr(single_actions, "LONGEST", 0.0)
        model.play(GOOD)
        with pytest.raises(Invalid) as error:
            await bench.core.workflows.propose(bench.me, await drafted(bench), request="Mail")
        assert error.value.info["reason"] == "timeout"

    async def test_a_deleted_workflow(self, bench: Bench, model: ScriptedModel) -> None:
        """The change could not be saved: the model is not called."""
        number = await drafted(bench)
        await bench.core.workflows.delete(bench.me, number)
        with pytest.raises(Conflict) as refused:
            await bench.core.workflows.propose(bench.me, number, request="x")
        assert (refused.value.info["reason"], model.requests) == ("deleted", [])

    async def test_who_may(self, bench: Bench, model: ScriptedModel) -> None:
        """Managers with the right to run; not a credential for some workflows. Rules and requests are checked first."""
        number = await drafted(bench)
        propose = bench.core.workflows.propose
        with pytest.raises(Forbidden):
            await propose(bench.person("me", scopes=("workflows:write",)), number, request="x")
        shown = await bench.core.workflows.create(
            bench.me, name="Mine", structure=STRUCTURE, access=private("other@x.org")
        )
        hidden = await bench.core.workflows.create(bench.me, name="Hidden", structure=STRUCTURE, access=private())
        with pytest.raises(Forbidden):
            await propose(bench.other, shown.id, request="x")
        with pytest.raises(NotFound):
            await propose(bench.other, hidden.id, request="x")
        with pytest.raises(Forbidden):
            await propose(attrs.evolve(bench.me, workflows=frozenset({number})), number, request="x")
        with pytest.raises(NotFound):
            await propose(bench.me, number + 9, request="x")
        with pytest.raises(Malformed):
            await propose(bench.me, number)
        with pytest.raises(Invalid, match=r"rules\[0\]"):
            await propose(bench.me, number, request="x", rules=["never"])
        assert model.requests == []
