"""A deployed workflow as a tool, through the library (interface, workflow interfaces of kind `mcp`)."""

import asyncio
from typing import Any

import attrs
import pytest
from bench import Bench, act, agent, ask, graph, one, private, shared

from wfcore.domain.kernel.errors import Conflict, Forbidden, Invalid, NotFound
from wfcore.domain.resources.access import Principal
from wfcore.domain.run.state import RunStatus
from wfcore.runtime.channels.workflow_tools import CallEnd, WorkflowTool, end_of, run_id_of

pytestmark = pytest.mark.anyio

NUMBERS = {"properties": {"n": {"type": "integer"}}, "required": ["n"]}


def echoing(schema: Any = None, value: Any = "{{ input }}") -> Any:
    start = {} if schema is None else {"inputSchema": schema}
    return graph("s>a", s={"type": "start", "data": start}, a=act("echo", value=value))


async def row_of(bench: Bench, number: int, kind: str = "mcp") -> str:
    return (await bench.core.workflows.interfaces.create(bench.me, number, kind=kind)).id


async def offered(bench: Bench, structure: Any, **fields: Any) -> str:
    return await row_of(bench, await bench.deployed(structure, **fields))


async def end(bench: Bench, id: str, arguments: Any, **more: Any) -> CallEnd:
    """How the call ended."""
    return end_of([event async for event in bench.core.workflow_tools.call(bench.me, id, arguments, **more)][-1])


class TestOffer:
    """The offered tool."""

    async def test_the_active_variation_is_the_tool(self, bench: Bench) -> None:
        """Name from the slug, schema from its start node; never of a draft, and None before a deploy."""
        flow = await bench.core.workflows.create(bench.me, name="Pay back!", structure=echoing(NUMBERS))
        place = await row_of(bench, flow.id)
        assert await bench.core.workflow_tools.tool(bench.me, place) is None
        await bench.core.workflows.deploy(bench.me, flow.id)
        first = WorkflowTool("pay-back", "Pay back!", "Runs the workflow Pay back!", {"type": "object", **NUMBERS})
        assert await bench.core.workflow_tools.tool(bench.other, place) == first
        await bench.core.workflows.patch(bench.me, flow.id, structure=echoing({"secret": True}), description="Money")
        described = attrs.evolve(first, description="Money")
        assert await bench.core.workflow_tools.tool(bench.me, place) == described
        await bench.core.workflows.deploy(bench.me, flow.id)
        found = await bench.core.workflow_tools.tool(bench.me, place)
        assert found == attrs.evolve(described, parameters={"secret": True, "type": "object"})

    @pytest.mark.parametrize("schema", [None, {}, True, {"type": "string"}])
    async def test_arguments_are_always_an_object(self, bench: Bench, schema: Any) -> None:
        """Whatever the start node declares, a call takes an object, as MCP requires of a tool's schema."""
        found = await bench.core.workflow_tools.tool(bench.me, await offered(bench, echoing(schema)))
        assert found is not None
        assert found.parameters == {"type": "object"}

    async def test_access_requires_use(self, bench: Bench) -> None:
        """Hidden, unknown, another kind, another organization, deleted: the same error; manage is not enough."""
        structure, core = echoing(), bench.core
        hidden = await offered(bench, structure, access=private())
        deleted = await bench.deployed(structure)
        gone = await row_of(bench, deleted)
        await core.workflows.delete(bench.me, deleted)
        chat = await row_of(bench, await bench.deployed(structure), "chatapp")
        elsewhere = core.principal((await core.directory.create_organization("B")).uuid, "me", email="me@x.org")
        seen = await offered(bench, structure)
        cases = [(bench.other, hidden), (bench.me, gone), (bench.me, chat), (bench.me, "no"), (elsewhere, seen)]
        for who, place in cases:
            for use in (core.workflow_tools.endpoint, core.workflow_tools.tool):
                with pytest.raises(NotFound) as refusal:
                    await use(who, place)
                assert refusal.value.message == "not found"
            with pytest.raises(NotFound):
                await core.workflow_tools.call(who, place, {})
            with pytest.raises(NotFound):
                await core.workflow_tools.cancel(who, place, "k")
        managed = await offered(bench, structure, access=shared(**{bench.org: (False, True)}))
        with pytest.raises(Forbidden):
            await core.workflow_tools.tool(bench.me, managed)


class TestCalls:
    """A call is a run."""

    async def test_a_call_runs_the_workflow_with_its_arguments(self, bench: Bench) -> None:
        """Input, origin and caller of the run; the outcome has the output."""
        shown = {"given": "{{ input }}", "origin": "{{ run.origin }}", "by": "{{ run.userId }}"}
        place = await offered(bench, echoing(NUMBERS, shown))
        found = await end(bench, place, {"n": 3})
        assert (found.status, found.failed) == (RunStatus.done, False)
        assert found.output == {"given": {"n": 3}, "origin": "mcp", "by": "me"}
        assert found.text == '{"given":{"n":3},"origin":"mcp","by":"me"}'
        assert (await bench.core.runs.get(bench.me, found.run_id)).output == found.output

    async def test_invalid_arguments_start_nothing(self, bench: Bench) -> None:
        """Invalid with the path; no run."""
        place = await offered(bench, echoing(NUMBERS))
        with pytest.raises(Invalid) as refusal:
            await bench.core.workflow_tools.call(bench.me, place, {"n": "x"})
        assert [fault["path"] for fault in refusal.value.info["errors"]] == ["input.n"]
        assert await bench.core.runs.page(bench.me) == []

    async def test_a_message_that_is_not_text(self, bench: Bench) -> None:
        """It is an argument like others where the workflow's schema allows it; where the tool takes a text, Invalid."""
        place = await offered(bench, echoing({"properties": {"message": {"type": "object"}}}))
        assert (await end(bench, place, {"message": {"subject": "a"}})).output == {"message": {"subject": "a"}}
        talking = await offered(bench, one(agent(instructions="Be kind.")))
        with pytest.raises(Invalid) as refusal:
            await bench.core.workflow_tools.call(bench.me, talking, {"message": 5})
        assert [fault["path"] for fault in refusal.value.info["errors"]] == ["input.message"]

    async def test_a_repeated_call_joins_its_run(self, bench: Bench) -> None:
        """Same key, caller and arguments: one run. Another caller's key is independent; other arguments: Conflict."""
        place = await offered(bench, echoing())
        first, again = [await end(bench, place, {"n": 1}, key="k") for _ in range(2)]
        assert first == again
        assert first.run_id == run_id_of(bench.me, place, "k")
        assert bench.tools.count("echo") == 1
        with pytest.raises(Conflict):
            await bench.core.workflow_tools.call(bench.me, place, {"n": 2}, key="k")
        theirs = await bench.core.workflow_tools.call(bench.other, place, {"n": 2}, key="k")
        assert theirs.id != first.run_id

    async def test_a_failed_run(self, bench: Bench) -> None:
        """The outcome has the message of the run's error, and no output."""
        found = await end(bench, await offered(bench, one(act("core.fail", message="no money"))), {})
        assert (found.status, found.failed, found.output) == (RunStatus.error, True, None)
        assert "no money" in found.text

    async def test_a_parked_run(self, bench: Bench) -> None:
        """Neither failed nor done; after the decision the same call returns the output."""
        place = await offered(bench, one(ask(message="Pay 3?")))
        parked = await end(bench, place, {}, key="k")
        assert (parked.status, parked.failed, parked.output) == (RunStatus.interrupted, False, None)
        assert [interrupt["nodeId"] for interrupt in parked.interrupts] == ["a"]
        assert parked.run_id in parked.text
        assert "Pay 3?" in parked.text
        await bench.core.runs.resume(bench.other, parked.run_id, decision="approve")
        found = await end(bench, place, {}, key="k")
        assert (found.status, found.output["decision"]) == (RunStatus.done, "approve")

    async def test_a_decision_during_a_call(self, bench: Bench) -> None:
        """A decision while another branch is active: the call continues in the new turn."""
        edges = "s>h s>w h:approved>a w>a"
        structure = graph(edges, h=ask(), w=act("hold"), a=act("echo", value="{{ nodes.h.output.decision }}"))
        place, received = await offered(bench, structure), list[Any]()

        async def called() -> CallEnd:
            received.extend([event async for event in bench.core.workflow_tools.call(bench.me, place, {})])
            return end_of(received[-1])

        call = asyncio.create_task(called())
        await bench.until("it")
        (item,) = (await bench.core.runs.interrupts(bench.other))[0]
        resumed = await bench.core.runs.resume(bench.other, item.found.run_id, decision="approve")
        bench.tools.free["it"].set()
        found = await call
        assert (found.run_id, found.status, found.output) == (resumed.id, RunStatus.done, "approve")
        assert [event.terminal for event in received].count(True) == 1


class TestCancelling:
    """A call is cancelled by its key."""

    async def test_the_latest_turn_is_cancelled(self, bench: Bench) -> None:
        """Also after a resume; a second time there is nothing to cancel, and never with another caller's key."""
        place, tools = (
            await offered(bench, graph("s>h h:approved>a", h=ask(), a=act("hold"))),
            bench.core.workflow_tools,
        )
        parked = await end(bench, place, {}, key="k")
        resumed = await bench.core.runs.resume(bench.me, parked.run_id, decision="approve")
        await bench.until("it")
        assert not await tools.cancel(bench.other, place, "k")
        assert await tools.cancel(bench.me, place, "k")
        assert (await bench.ended(resumed)).status is RunStatus.cancelled
        assert not await tools.cancel(bench.me, place, "k")
        assert not await tools.cancel(bench.me, place, "unknown")
        found = await end(bench, place, {}, key="k")
        assert (found.status, found.text) == (RunStatus.cancelled, "the run was cancelled")


class TestOutputs:
    """The outputs of runs as resources."""

    async def test_whose_outputs_a_scope_reads(self, bench: Bench) -> None:
        """Those of everybody with `workflows:read`, which `workflows:write` includes; else only the caller's own."""
        place = await offered(bench, echoing(NUMBERS))
        mine, tools = (await end(bench, place, {"n": 1})).run_id, bench.core.workflow_tools

        def scoped(who: Principal, *scopes: str) -> Principal:
            return attrs.evolve(who, scopes=frozenset({"workflows:invoke", *scopes}))

        for reader in (scoped(bench.other, "workflows:read"), scoped(bench.other, "workflows:write"), scoped(bench.me)):
            assert await tools.output(reader, place, mine) == {"n": 1}
        with pytest.raises(NotFound):
            await tools.output(scoped(bench.other), place, mine)
