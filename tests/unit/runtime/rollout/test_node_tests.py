"""Trying one node of a workflow (interface, Node test)."""

from typing import Any

import pytest
from bench import Bench, act, agent, ask, deployed_skill, graph, private

from wfcore.domain.kernel.errors import Conflict, Forbidden, Invalid, Malformed, NotFound
from wfcore.runtime.rollout import single_actions

pytestmark = pytest.mark.anyio


async def tried(bench: Bench, node: Any, given: Any = None, edges: str = "", **more: Any) -> Any:
    """The result for `n` of a draft, and the runs that there are."""
    structure = graph(f"s>b b>n n>e {edges}", b=act("echo"), n=node, e=act("echo"))
    view = await bench.core.workflows.create(bench.me, name="Draft", structure=structure)
    values = {} if given is None else {"input": given}
    return (await bench.core.workflows.test_node(bench.me, view.id, "n", **values, **more)).to_wire()


async def runs(bench: Bench) -> list[Any]:
    return await bench.core.runs.page(bench.me)


class TestWithoutEffects:
    async def test_nothing_is_called(self, bench: Bench) -> None:
        """The call is described, with its rendered parameters."""
        node = act("echo", value="{{ nodes.b.output + input.n }}")
        found = await tried(bench, node, {"n": 1}, outputs={"b": 2})
        assert found["wouldSend"] == [{"kind": "tool", "toolId": "echo", "params": {"value": 3}}]
        assert (bench.tools.calls, await runs(bench)) == ([], [])

    async def test_what_the_machine_computes(self, bench: Bench) -> None:
        found = await tried(bench, act("core.transform", value="{{ input.n * 2 }}"), {"n": 4}, perform=True)
        assert (found["output"], await runs(bench)) == (8, [])

    async def test_waits_are_never_performed(self, bench: Bench) -> None:
        """Neither timers nor approvals: not of a node, and not of a call."""
        for node, kind in (
            (act("core.wait", seconds=60), "timer"), (ask(), "approval"),
            (act("echo", more={"requiresApproval": True}), "approval"),
        ):  # fmt: skip
            found = await tried(bench, node, perform=True)
            assert [one["kind"] for one in found["wouldSend"]] == [kind]
        assert (bench.tools.calls, await runs(bench)) == ([], [])


class TestPerform:
    async def test_a_call_is_made_once(self, bench: Bench) -> None:
        """By a run of a single action of the caller; templates in what was rendered are text."""
        found = await tried(bench, act("echo", value="{{ input.text }}"), {"text": "{{ run.id }}"}, perform=True)
        assert found == {"output": "{{ run.id }}", "error": None, "handle": None, "wouldSend": []}
        (run,) = await runs(bench)
        assert (run.row.kind, run.row.user_id, bench.tools.count("echo")) == ("action", "me", 1)

    async def test_a_list(self, bench: Bench) -> None:
        node = act("echo", more={"forEach": "input.all"}, value="{{ item }}")
        assert (await tried(bench, node, {"all": [1, 2]}, perform=True))["output"] == [1, 2]

    async def test_calls_with_a_key(self, bench: Bench) -> None:
        """One call and those of a list, with keys of what the node reads."""
        key = {"concurrencyKey": "{{ input.who }}"}
        found = await tried(bench, act("echo", more=key, value="{{ input.n }}"), {"who": "a", "n": 3}, perform=True)
        assert (found["output"], found["error"]) == (3, None)
        node = act("echo", more={"forEach": "input.all", "concurrencyKey": "k-{{ item.n }}"}, value="{{ item.n }}")
        assert (await tried(bench, node, {"all": [{"n": 1}, {"n": 2}]}, perform=True))["output"] == [1, 2]

    async def test_a_failure(self, bench: Bench) -> None:
        """Without another attempt; left by `error` where the graph catches it."""
        node = act("flaky", fails=1, more={"retry": {"maxAttempts": 5}})
        found = await tried(bench, node, edges="n:error>b", perform=True)
        assert (found["output"], found["handle"], found["wouldSend"]) == (None, "error", [])
        assert "attempt 1 fails" in found["error"]["message"]
        assert found["error"]["info"]["nodeId"] == "n"
        assert bench.tools.count("flaky") == 1
        assert (await tried(bench, node, perform=True))["handle"] is None

    async def test_a_workflow(self, bench: Bench) -> None:
        inner = await bench.deployed(graph("s>a", a=act("echo", value="{{ input.n }}")))
        node = act("core.workflow", workflowId=inner, input={"n": 5})
        assert (await tried(bench, node, perform=True))["output"] == 5

    async def test_an_agent(self, bench: Bench) -> None:
        """With a skill, and without one."""
        skill = await deployed_skill(bench, instructions=["be kind"])
        for data in ({"message": "hi {{ input.n }}"}, {"message": "hi {{ input.n }}", "agent_id": skill}):
            assert "hi 7" in (await tried(bench, agent(**data), {"n": 7}, perform=True))["output"]

    async def test_a_person_who_must_decide(self, bench: Bench) -> None:
        """The run is cancelled, and what it waited for is reported."""
        inner = await bench.deployed(graph("s>w w:approved>a", w=ask(), a=act("echo")))
        found = await tried(bench, act("core.workflow", workflowId=inner, input={}), perform=True)
        (sent,) = found["wouldSend"]
        assert (sent["kind"], sent["message"], found["output"]) == ("approval", "may it?", None)
        (run,) = await runs(bench)
        assert run.status == "cancelled"

    async def test_one_that_takes_too_long(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        """Its run is cancelled; so is the test of a run that somebody cancels."""
        monkeypatch.setattr(single_actions, "LONGEST", 0.01)
        found = await tried(bench, act("hold"), perform=True)
        assert found["error"]["info"] == {"reason": "timeout"}
        (run,) = await runs(bench)
        assert (await bench.ended(run)).status == "cancelled"

    async def test_one_that_somebody_cancels(self, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
        launch = bench.core.runs.launch

        async def cancelled(*args: Any) -> Any:
            view = await launch(*args)
            await bench.core.runs.cancel(bench.me, view.id)
            return view

        monkeypatch.setattr(bench.core.runs, "launch", cancelled)
        found = await tried(bench, act("hold"), perform=True)
        assert found["error"]["message"] == "the run of the node was cancelled"


async def test_what_cannot_be_tried(bench: Bench) -> None:
    """Unknown nodes, a graph without a start, data that cannot run."""
    workflows = bench.core.workflows
    empty = await workflows.create(bench.me, name="Empty")
    with pytest.raises(NotFound):
        await workflows.test_node(bench.me, empty.id, "n")
    lonely = {"nodes": [{"id": "n", **act("echo")}], "edges": []}
    alone = await workflows.create(bench.me, name="Alone", structure=lonely)
    with pytest.raises(NotFound):
        await workflows.test_node(bench.me, alone.id, "n")
    with pytest.raises(NotFound):
        await workflows.test_node(bench.me, await bench.deployed(graph("s>n", n=act("echo"))), "x")
    with pytest.raises(Invalid) as unknown:
        await tried(bench, act("echo"), outputs={"x": 1})
    assert [one["path"] for one in unknown.value.info["errors"]] == ["outputs.x"]  # type: ignore[union-attr, index, call-overload]
    with pytest.raises(Invalid) as broken:
        await tried(bench, {"type": "action", "data": {"toolId": "echo", "params": {"value": "{{ 1 + }}"}}})
    assert [one["path"] for one in broken.value.info["errors"]] == ["workflowStructure.nodes[2].data.params.value"]  # type: ignore[union-attr, index, call-overload]


async def test_an_input_that_no_run_has(bench: Bench) -> None:
    """The input of a run is an object, also of the run of a test."""
    for given in (7, [1], "x"):
        with pytest.raises(Malformed, match="`input`: must be of type object"):
            await tried(bench, act("echo"), given)


async def test_a_deleted_workflow(bench: Bench) -> None:
    """Managers can try its nodes without calls, as they can read it; it does not exist for others."""
    number = await bench.deployed(graph("s>n", n=act("echo")), access_config=private("other@x.org"))
    await bench.core.workflows.delete(bench.me, number)
    assert (await bench.core.workflows.test_node(bench.me, number, "n")).would_send is not None
    with pytest.raises(Conflict) as refused:
        await bench.core.workflows.test_node(bench.me, number, "n", perform=True)
    assert refused.value.info["reason"] == "deleted"
    for perform in (False, True):
        with pytest.raises(NotFound):
            await bench.core.workflows.test_node(bench.other, number, "n", perform=perform)
    assert (bench.tools.calls, await runs(bench)) == ([], [])


async def test_the_start(bench: Bench) -> None:
    number = await bench.deployed(graph("s>n", n=act("echo")))
    assert (await bench.core.workflows.test_node(bench.me, number, "s", input={"n": 1})).output == {"n": 1}


async def test_who_may(bench: Bench) -> None:
    """Managers; to perform, also users with the scope to start runs."""
    number = await bench.deployed(graph("s>n", n=act("echo")), access_config=private("other@x.org"))
    with pytest.raises(Forbidden):
        await bench.core.workflows.test_node(bench.other, number, "n")
    reader = bench.person("me", scopes=["workflows:read"])
    await bench.core.workflows.test_node(reader, number, "n")
    with pytest.raises(Forbidden) as refused:
        await bench.core.workflows.test_node(reader, number, "n", perform=True)
    assert refused.value.info == {"missing": ["workflows:invoke"]}
