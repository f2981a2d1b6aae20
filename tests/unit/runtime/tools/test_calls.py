"""Agents call tools: the calls, the results for the model, and what a restart does not repeat."""

import asyncio
from typing import Any

import pytest
from bench import Bench, Toolbox, act, agent, deployed_skill, kinds, one, opened
from played import Played, asks, enabled

from wfcore.adapters.models.scripted import ScriptedModel
from wfcore.adapters.tools.catalog import tool
from wfcore.ports.providers import ModelRequest, ToolCall

pytestmark = pytest.mark.anyio

KEY = b"k" * 32


async def flow(bench: Bench, *tools: str, **fields: Any) -> dict[str, Any]:
    """A graph of one agent whose skill may use these tools."""
    skill = await deployed_skill(bench, toolset=enabled(*tools), **fields)
    return one(agent(agent_id=skill, message="go"))


async def test_a_call_and_its_result(database: str) -> None:
    """The tool is called once with its own key; the model gets the result; events and usage record both."""
    model = Played(asks("echo", value=[5]), "five it is")
    async with opened(database, models={"default": model}) as bench:
        run = await bench.ran(await flow(bench, "echo"))
        assert (run.status, run.output) == ("done", "five it is")
        ((name, value, key, attempt),) = bench.tools.calls
        assert (name, value, attempt) == ("echo", [5], 1)
        assert key.partition(":")[2].startswith("a:1.")
        (result,) = model.tool_results()
        assert (result["content"], result["toolCallId"]) == ("[5]", "c1")
        events = await bench.events(run.id)
        told_of = [event.data for event in events if event.kind in ("tool_call", "tool_result")]
        assert [data["toolCallId"] for data in told_of] == ["c1", "c1"]
        assert (told_of[0]["arguments"], told_of[1]["output"]) == ({"value": [5]}, [5])
        assert run.to_wire()["usage"]["calls"] == 2


async def test_invalid_arguments_are_not_sent(database: str) -> None:
    """The tool is not called; the model gets the errors and can call again."""
    model = Played(asks("flaky", fails="many", other=1), asks("flaky", fails=0), "well")
    async with opened(database, models={"default": model}) as bench:
        run = await bench.ran(await flow(bench, "flaky"))
        assert run.output == "well"
        assert bench.tools.count("flaky") == 1
        first = model.tool_results()[0]["content"]
        assert "`params.other`: `other` is not allowed" in first
        assert "`params.fails`: must be integer" in first


@pytest.mark.parametrize("name", ["hold", "nothing"])
async def test_a_tool_that_was_not_offered_is_not_called(database: str, name: str) -> None:
    """The model gets an error for a tool that the skill does not enable, and for an unknown one."""
    model = Played(asks(name), "sorry")
    async with opened(database, models={"default": model}) as bench:
        run = await bench.ran(await flow(bench, "echo"))
        assert run.output == "sorry"
        assert bench.tools.calls == []
        assert "no tool" in model.tool_results()[0]["content"]


async def test_an_approval_binds_the_call(database: str) -> None:
    """The tool waits for the approval, and is called with exactly the arguments that were shown."""
    model = Played(asks("echo", value="all of it"), "done")
    async with opened(database, models={"default": model}) as bench:
        skill = await deployed_skill(bench, toolset=enabled("echo", requiresApproval=True))
        parked = await bench.ran(one(agent(agent_id=skill, message="go")))
        (asked,) = parked.to_wire()["interrupts"]
        assert (asked["toolId"], asked["arguments"]) == ("echo", {"value": "all of it"})
        assert bench.tools.calls == []
        turn = await bench.ended(await bench.core.runs.resume(bench.me, parked.id, decision="approve"))
        assert turn.output == "done"
        assert [value for _, value, *_ in bench.tools.calls] == ["all of it"]


async def test_a_tool_that_needs_a_connection(database: str) -> None:
    """The run opens a `connect` interrupt and then calls the tool; after a refusal the model gets an error."""

    @tool(provider="mail", idempotent=True)
    async def send(call: ToolCall) -> str:
        assert call.connection is not None
        return f"sent by {call.connection.config['apiKey']}"

    model = Played(asks("send"), "told")
    async with opened(database, models={"default": model}, tools=[send], secrets=KEY) as bench:
        structure = await flow(bench, "send")
        refused, parked = await bench.ran(structure), await bench.ran(structure)
        (asked,) = parked.to_wire()["interrupts"]
        assert (asked["type"], asked["provider"], asked["toolCallId"]) == ("connect", "mail", "c1")
        turn = await bench.core.runs.resume(bench.me, refused.id, decision="cancelled")
        assert (await bench.ended(turn)).output == "told"
        assert "refused" in model.tool_results()[0]["content"]
        await bench.core.connections.create(
            bench.me, name="Post", provider="mail", kind="api_key", config={"apiKey": "k-1"}
        )
        turn = await bench.core.runs.resume(bench.me, parked.id, decision="connected")
        assert (await bench.ended(turn)).output == "told"
        assert model.tool_results()[0]["content"] == "sent by k-1"


async def test_a_subordinate(database: str) -> None:
    """It runs as a child with the access of the run's starter; its output is the result of the call."""

    def play(request: ModelRequest) -> Any:
        below = any("I am below" in str(message["content"]) for message in request.messages)
        answered = any(message["type"] == "tool" for message in request.messages)
        if below:
            return "42"
        return "the answer: 42" if answered else asks(request.tools[0].name, message="what is it?")

    async with opened(database, models={"default": ScriptedModel(play)}) as bench:
        below = await deployed_skill(bench, instructions=["I am below"])
        above = await deployed_skill(bench, supervision_subordinate_ids=[str(below)])
        run = await bench.ran(one(agent(agent_id=above, message="go")))
        assert run.output == "the answer: 42"
        inside = [event for event in await bench.events(run.id) if event.data.get("path") == ["a"]]
        assert [event.data["content"] for event in inside if event.kind == "message"] == ["42"]


async def test_a_restart_in_a_later_round(database: str) -> None:
    """A restart repeats no recorded completion and no recorded result, only the call that was in flight."""
    replies = [asks("echo", value=1), asks("hold", name="two"), "done"]
    async with opened(database, models={"default": Played(*replies)}) as bench:
        structure = await flow(bench, "echo", "hold")
        run = await bench.started(structure)
        await bench.until("two")
    model = Played(*replies)
    async with opened(database, after := Toolbox(), org=bench.org, models={"default": model}) as again:
        after.free["two"].set()
        assert (await again.ended(run.id)).output == "done"
        assert [name for name, *_ in after.calls] == ["hold"]
        assert after.calls[0][2] == bench.tools.calls[1][2]
        assert [message["content"] for message in model.tool_results()] == ["1", "two"]
        assert len(model.requests) == 1
        assert kinds(await again.events(run.id)).count("usage") == 3


async def test_a_call_with_an_unknown_outcome(database: str) -> None:
    """A non-idempotent tool that a restart interrupted is not called again: the model is informed and continues."""
    began, calls = asyncio.Event(), []

    async def charge(call: ToolCall) -> None:
        calls.append(call.key)
        began.set()
        await asyncio.Event().wait()

    replies = [asks("charge"), "I will ask"]
    async with opened(database, tools=[charge], models={"default": Played(*replies)}) as bench:
        run = await bench.started(await flow(bench, "charge"))
        await began.wait()
    model = Played(*replies)
    async with opened(database, tools=[charge], org=bench.org, models={"default": model}) as again:
        assert (await again.ended(run.id)).output == "I will ask"
        assert "the outcome of `charge` is unknown" in model.tool_results()[0]["content"]
        assert len(calls) == 1


@pytest.mark.parametrize("many", [False, True])
async def test_an_approval_of_an_action_binds_the_definition(database: str, many: bool) -> None:
    """A product that is deployed again with another definition of the tool requests the approval again, whatever the
    arguments: a person has approved what the tool did before.
    """
    made = list[int]()

    @tool(id="shop.refund", idempotent=True)
    async def refund(amount: int) -> int:
        """Refund this many cents."""
        made.append(amount)
        return amount

    @tool(id="shop.refund", idempotent=True)
    async def changed(amount: int) -> int:
        """Refund this many euros."""
        made.append(amount)
        return amount

    each: Any = {"forEach": "[1, 1]", "maxConcurrency": 1} if many else {}
    asking = act("shop.refund", more={"requiresApproval": True, **each}, amount=1)
    async with opened(database, tools=[refund]) as bench:
        run = await bench.ran(one(asking))
        assert run.status == "interrupted"
    async with opened(database, tools=[changed], org=bench.org, clock=bench.clock, ids=bench.core.ports.ids) as bench:
        for calls in ([], [1])[: 1 + many]:  # each call requests it when its turn comes
            run = await bench.ended(await bench.core.runs.resume(bench.other, run.id, decision="approve"))
            (asked,) = run.to_wire()["interrupts"]
            assert (asked["toolId"], asked["arguments"]) == ("shop.refund", {"amount": 1})
            assert ("has changed" in asked["message"], made) == (True, calls)
        run = await bench.ended(await bench.core.runs.resume(bench.other, run.id, decision="approve"))
        assert (run.status, made) == ("done", [1, 1][: 1 + many])
