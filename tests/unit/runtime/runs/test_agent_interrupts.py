"""Interrupts of agents and who resolves them, the narrowing of tools, and actions that need a connection."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from bench import Bench, Json, Toolbox, act, agent, ask, deployed_skill, graph, kinds, one, opened, paths, private, why

import wfcore
from wfcore.adapters.models.scripted import ScriptedModel
from wfcore.domain.kernel.errors import Forbidden, Invalid, NotFound
from wfcore.ports.providers import ModelRequest

pytestmark = pytest.mark.anyio

ECHO = {"echo": {"enabled": True}}
KEY = {"apiKey": "sk-4711"}


def calls(name: str, **args: Any) -> Json:
    return {"content": "", "toolCalls": [{"id": "c1", "name": name, "args": args}]}


@asynccontextmanager
async def scripted(*replies: Any) -> AsyncIterator[tuple[Bench, list[ModelRequest]]]:
    """A bench whose model says this, and what it was asked."""
    asked: list[ModelRequest] = []
    left = list(replies)

    def reply(request: ModelRequest) -> Any:
        asked.append(request)
        return left.pop(0)

    toolbox = Toolbox()

    @wfcore.tool(provider="payments")
    async def pay(amount: int, call: wfcore.ToolCall) -> str:
        """Pay."""
        toolbox.calls.append(("pay", amount, call.key, call.attempt))
        return "paid"

    tools = [*toolbox.all(), pay]
    async with opened("sqlite://", toolbox, tools=tools, models={"default": ScriptedModel(reply)}) as bench:
        yield bench, asked


async def turn_of(bench: Bench, run: Any) -> Any:
    return await bench.ended(await run)


class TestApprovals:
    """A tool call that requires approval waits for an approver."""

    async def test_users_of_the_skill_can_approve(self) -> None:
        """The interrupt shows the exact call; a colleague who can use the skill approves it, and it is made once."""
        toolset = {"echo": {"enabled": True, "requiresApproval": True}}
        async with scripted(calls("echo", value=7), "done") as (bench, asked):
            number = await deployed_skill(bench, toolset=toolset, access=private("other@x.org"))
            run = await turn_of(bench, bench.core.runs.chat(bench.me, number, message="go"))
            [waiting] = run.to_wire()["interrupts"]
            assert (waiting["toolId"], waiting["arguments"], waiting["toolCallId"]) == ("echo", {"value": 7}, "c1")
            assert bench.tools.count("echo") == 0
            third = bench.person("third")
            assert (await bench.core.runs.interrupts(third))[0] == []
            with pytest.raises(NotFound):
                await bench.core.runs.resume(third, run.id, decision="approve")
            [item] = (await bench.core.runs.interrupts(bench.other))[0]
            assert item.to_wire()["target"] == {"type": "skill", "id": number}
            with pytest.raises(Invalid) as error:
                await bench.core.runs.resume(bench.other, run.id, decision="connected")
            assert paths(error) == {("decision", "enum")}
            ended = await turn_of(bench, bench.core.runs.resume(bench.other, run.id, decision="approve"))
            assert (ended.status, ended.output) == ("done", "done")
            assert bench.tools.count("echo") == 1
            assert [message["type"] for message in asked[1].messages][-2:] == ["ai", "tool"]

    async def test_a_call_of_a_subordinate(self) -> None:
        """It waits where the toolset of the skill, or the config of a run, requires an approval."""
        on = {"enabled": True, "requiresApproval": True}
        for is_own in (True, False):
            async with scripted(calls("skill_skill", message="go"), "below", "done") as (bench, asked):
                below = await deployed_skill(bench)
                toolset = {f"skill:{below}": on}
                number = await deployed_skill(
                    bench, supervisionSubordinateIds=[str(below)], toolset=toolset if is_own else {}
                )
                flow = await bench.deployed(one(agent(agent_id=number, message="m")))
                config = {} if is_own else {"toolset": toolset}
                run = await bench.ended(await bench.core.runs.start(bench.me, workflow=flow, input={}, config=config))
                [waiting] = run.to_wire()["interrupts"]
                assert (waiting["toolId"], waiting["arguments"]) == (f"skill:{below}", {"message": "go"})
                assert len(asked) == 1
                ended = await turn_of(bench, bench.core.runs.resume(bench.me, run.id, decision="approve"))
                assert (ended.status, ended.output, len(asked)) == ("done", "done", 3)

    async def test_only_the_starter_approves_for_the_assistant(self) -> None:
        """A workflow that it calls waits for an approval; an interrupt within it has a `path` and is resolved the same
        way.
        """
        async with scripted(calls("workflow_a-flow"), "done") as (bench, _):
            await bench.deployed(graph("s>h h:approved>a", h=ask(), a=act("echo", value=1)))
            run = await turn_of(bench, bench.core.runs.chat(bench.me, message="go"))
            assert (await bench.core.runs.interrupts(bench.other))[0] == []
            with pytest.raises(NotFound):
                await bench.core.runs.resume(bench.other, run.id, decision="approve")
            inside = await turn_of(bench, bench.core.runs.resume(bench.me, run.id, decision="approve"))
            [[item], _] = await bench.core.runs.interrupts(bench.me)
            assert (item.to_wire()["path"], item.to_wire()["nodeId"]) == (["agent"], "h")
            assert item.to_wire()["runId"] == inside.id
            ended = await turn_of(bench, bench.core.runs.resume(bench.me, inside.id, decision="approve"))
            assert (ended.status, ended.output, bench.tools.count("echo")) == ("done", "done", 1)

    async def test_a_deploy_while_a_workflow_waits_for_its_approval(self) -> None:
        """What was approved is not deployed any more: nothing runs, and the approval is requested for what is."""
        async with scripted(calls("workflow_a-flow"), "done") as (bench, _):
            flow = await bench.deployed(one(act("echo", value="approved")))
            first = await turn_of(bench, bench.core.runs.chat(bench.me, message="go"))
            structure = one(act("echo", value="another"))
            await bench.core.workflows.patch(bench.me, flow, structure=structure)
            deployed = await bench.core.workflows.deploy(bench.me, flow)
            run = await turn_of(bench, bench.core.runs.resume(bench.me, first.id, decision="approve"))
            assert (run.status, bench.tools.count("echo")) == ("interrupted", 0)
            [before], [waiting] = first.to_wire()["interrupts"], run.to_wire()["interrupts"]
            assert waiting["message"] == (
                f"`workflow:{flow}` has changed since it was approved: allow it with these arguments?"
            )
            assert waiting["variationId"] == deployed.active_variation_id != before["variationId"]
            assert waiting["digest"] != before["digest"]
            ended = await turn_of(bench, bench.core.runs.resume(bench.me, run.id, decision="approve"))
            assert (ended.output, [args for name, args, *_ in bench.tools.calls if name == "echo"]) == (
                "done", ["another"],
            )  # fmt: skip

    async def test_a_deploy_while_a_subordinate_waits_for_its_approval(self) -> None:
        """The same for a skill. A deploy of what the approval does not need changes nothing."""
        async with scripted(calls("skill_skill", message="go"), "below", "done") as (bench, asked):
            below = await deployed_skill(bench)
            on = {f"skill:{below}": {"enabled": True, "requiresApproval": True}}
            number = await deployed_skill(bench, supervisionSubordinateIds=[str(below)], toolset=on)
            run = await turn_of(bench, bench.core.runs.chat(bench.me, number, message="go"))
            for skill in (number, below):
                await bench.core.skills.patch(bench.me, skill, instructions=["Do something else."])
                await bench.core.skills.deploy(bench.me, skill)
            run = await turn_of(bench, bench.core.runs.resume(bench.me, run.id, decision="approve"))
            assert (run.status, len(asked)) == ("interrupted", 1)
            ended = await turn_of(bench, bench.core.runs.resume(bench.me, run.id, decision="approve"))
            assert (ended.output, len(asked)) == ("done", 3)

    async def test_the_model_is_informed_of_a_denial(self) -> None:
        """The run continues, and the tool is not called."""
        toolset = {"echo": {"enabled": True, "requiresApproval": True}}
        async with scripted(calls("echo", value=7), "then not") as (bench, asked):
            number = await deployed_skill(bench, toolset=toolset)
            run = await turn_of(bench, bench.core.runs.chat(bench.me, number, message="go"))
            ended = await turn_of(bench, bench.core.runs.resume(bench.me, run.id, decision="deny"))
            assert (ended.output, bench.tools.count("echo")) == ("then not", 0)
            assert "denied" in asked[1].messages[-1]["content"]


class TestNarrowed:
    """The `config` of a run applies to its agents: a removed tool is neither offered nor called."""

    @pytest.mark.parametrize("config", [{}, {"toolset": {"echo": {"enabled": True}}}])
    async def test_an_enabled_tool(self, config: Json) -> None:
        """Without a narrowing the tool is offered and called, and the model gets its result."""
        async with scripted(calls("echo", value=7), "done") as (bench, asked):
            number = await deployed_skill(bench, toolset=ECHO)
            body = {"message": "go", "config": config}
            run = await turn_of(bench, bench.core.runs.chat(bench.me, number, body))
            assert ([tool.name for tool in asked[0].tools], bench.tools.count("echo")) == (["echo"], 1)
            events = kinds(await bench.events(run.id))
            assert events.index("tool_call") < events.index("tool_result") < events.index("message")

    async def test_a_disabled_tool(self) -> None:
        """A model that calls it anyway gets an error."""
        async with scripted(calls("echo", value=7), "well") as (bench, asked):
            number = await deployed_skill(bench, toolset={**ECHO, "flaky": {"enabled": True}})
            body = {"message": "go", "config": {"toolset": {"echo": {"enabled": False}}}}
            run = await turn_of(bench, bench.core.runs.chat(bench.me, number, body))
            assert [tool.name for tool in asked[0].tools] == ["flaky"]
            assert (run.output, bench.tools.count("echo")) == ("well", 0)
            assert "no tool" in asked[1].messages[-1]["content"]

    async def test_a_tool_that_now_needs_an_approval(self) -> None:
        """`requiresApproval` applies if either the run's toolset or the skill's sets it."""
        async with scripted(calls("echo", value=7), "done") as (bench, _):
            number = await deployed_skill(bench, toolset=ECHO)
            body = {"message": "go", "config": {"toolset": {"echo": {"enabled": True, "requiresApproval": True}}}}
            run = await turn_of(bench, bench.core.runs.chat(bench.me, number, body))
            assert (run.status, bench.tools.count("echo")) == ("interrupted", 0)

    async def test_a_context_window(self) -> None:
        """The smaller of the two windows is used."""
        async with scripted("done") as (bench, asked):
            number = await deployed_skill(bench)
            body = {"message": "go", "config": {"modelSettings": {"contextWindow": 3_000}}}
            await turn_of(bench, bench.core.runs.chat(bench.me, number, body))
            assert asked[0].settings["contextWindow"] == 3_000


class TestConnections:
    """A tool without its connection waits for `connected` or `cancelled`."""

    async def test_an_action_is_called_again_once_it_is_connected(self) -> None:
        """While the connection is missing a new interrupt opens; then the call is made."""
        async with scripted() as (bench, _):
            action = {"action": {"toolId": "pay", "params": {"amount": 3}}}
            run = await turn_of(bench, bench.core.runs.act(bench.me, action))
            [waiting] = run.to_wire()["interrupts"]
            assert (waiting["type"], waiting["toolId"], waiting["provider"]) == ("connect", "pay", "payments")
            with pytest.raises(Invalid) as error:
                await bench.core.runs.resume(bench.me, run.id, decision="approve")
            assert paths(error) == {("decision", "enum")}
            with pytest.raises(Invalid) as error:
                await bench.core.runs.resume(bench.me, run.id, decision="connected", config={"model": "default"})
            assert paths(error) == {("config.model", "unsupported")}
            again = await turn_of(bench, bench.core.runs.resume(bench.me, run.id, decision="connected"))
            assert (again.status, bench.tools.count("pay")) == ("interrupted", 0)
            made = {"name": "P", "provider": "payments", "kind": "api_key", "config": KEY}
            await bench.core.connections.create(bench.me, made)
            ended = await turn_of(bench, bench.core.runs.resume(bench.me, again.id, decision="connected"))
            assert (ended.status, ended.output, bench.tools.count("pay")) == ("done", "paid", 1)

    async def test_an_action_that_is_not_connected_fails(self) -> None:
        """`cancelled` ends it in error; a colleague neither sees nor resolves the interrupt."""
        async with scripted() as (bench, _):
            run = await turn_of(
                bench, bench.core.runs.act(bench.me, {"action": {"toolId": "pay", "params": {"amount": 3}}})
            )
            assert (await bench.core.runs.interrupts(bench.other))[0] == []
            with pytest.raises(NotFound):
                await bench.core.runs.resume(bench.other, run.id, decision="connected")
            ended = await turn_of(bench, bench.core.runs.resume(bench.me, run.id, decision="cancelled"))
            assert why(ended)[1] == "connection_cancelled"

    async def test_users_of_the_workflow_can_connect(self) -> None:
        """The interrupt of an action node is in the inbox of a colleague; a manager without use cannot resolve it."""
        async with scripted() as (bench, _):
            number = await bench.deployed(one(act("pay", amount=3)))
            run = await turn_of(bench, bench.core.runs.start(bench.me, workflow=number, input={}))
            [[item], _] = await bench.core.runs.interrupts(bench.other)
            assert (item.to_wire()["type"], item.to_wire()["runId"]) == ("connect", run.id)
            no_use = {"visibility": "shared", "groupPermissions": {bench.org: {"use": False, "manage": True}}}
            await bench.core.workflows.patch(bench.me, number, access=no_use)
            with pytest.raises(Forbidden):
                await bench.core.runs.resume(bench.me, run.id, decision="connected")
