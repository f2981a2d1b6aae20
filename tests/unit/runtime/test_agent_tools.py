"""Agents at work with their tools: what is called, what the model is told, and what a restart does not repeat."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from bench import Bench, Toolbox, agent, deployed_skill, kinds, one, opened

from wfcore.adapters.models.scripted import ScriptedModel
from wfcore.adapters.tools.catalog import tool
from wfcore.ports.providers import ModelRequest, ToolCall

pytestmark = pytest.mark.anyio

KEY = b"k" * 32


def asks(name: str, /, **args: Any) -> dict[str, Any]:
    """A reply that asks for one call."""
    return {"content": "", "toolCalls": [{"id": "c1", "name": name, "args": args}]}


class Played(ScriptedModel):
    """Answers by the round that it is asked in, whatever process asks; remembers its requests."""

    def __init__(self, *replies: Any) -> None:
        self.requests: list[ModelRequest] = []
        super().__init__(self._in_turn(replies))

    def _in_turn(self, replies: Any) -> Callable[[ModelRequest], Any]:
        def reply(request: ModelRequest) -> Any:
            self.requests.append(request)
            return replies[sum(message["type"] == "ai" for message in request.messages)]

        return reply

    def told(self) -> list[Mapping[str, Any]]:
        """What tools have said in the latest request."""
        return [message for message in self.requests[-1].messages if message["type"] == "tool"]


def enabled(*tools: str, **more: Any) -> dict[str, Any]:
    return {name: {"enabled": True, **more} for name in tools}


async def flow(bench: Bench, *tools: str, **fields: Any) -> dict[str, Any]:
    """A graph of one agent whose skill may use these tools."""
    skill = await deployed_skill(bench, toolset=enabled(*tools), **fields)
    return one(agent(agent_id=skill, message="go"))


async def test_a_call_and_its_result(database: str) -> None:
    """The tool is called once, under a key of its own; the model gets the result; events and usage tell both."""
    model = Played(asks("echo", value=[5]), "five it is")
    async with opened(database, models={"default": model}) as bench:
        run = await bench.ran(await flow(bench, "echo"))
        assert (run.status, run.output) == ("done", "five it is")
        ((name, value, key, attempt),) = bench.tools.calls
        assert (name, value, attempt) == ("echo", [5], 1)
        assert key.partition(":")[2].startswith("a:1.")
        (told,) = model.told()
        assert (told["content"], told["toolCallId"]) == ("[5]", "c1")
        events = await bench.events(run.id)
        told_of = [event.data for event in events if event.kind in ("tool_call", "tool_result")]
        assert [data["toolCallId"] for data in told_of] == ["c1", "c1"]
        assert (told_of[0]["arguments"], told_of[1]["output"]) == ({"value": [5]}, [5])
        assert run.to_wire()["usage"]["calls"] == 2


async def test_arguments_that_do_not_fit(database: str) -> None:
    """They are not tried: the model is told which and why, and may try again."""
    model = Played(asks("flaky", fails="many", other=1), asks("flaky", fails=0), "well")
    async with opened(database, models={"default": model}) as bench:
        run = await bench.ran(await flow(bench, "flaky"))
        assert run.output == "well"
        assert bench.tools.count("flaky") == 1
        first = model.told()[0]["content"]
        assert "`params.other`: `other` is not allowed" in first
        assert "`params.fails`: must be integer" in first


@pytest.mark.parametrize("name", ["hold", "nothing"])
async def test_what_was_not_offered_is_not_called(database: str, name: str) -> None:
    """A tool of the installation that the skill does not enable, or none at all: the model is told so."""
    model = Played(asks(name), "sorry")
    async with opened(database, models={"default": model}) as bench:
        run = await bench.ran(await flow(bench, "echo"))
        assert run.output == "sorry"
        assert bench.tools.calls == []
        assert "no tool" in model.told()[0]["content"]


async def test_an_approval_binds_the_call(database: str) -> None:
    """The tool waits for the answer, and is called with what was shown."""
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
    """It is asked for, and the call is made then; refused, the model is told."""

    @tool(provider="mail", idempotent=True)
    async def send(call: ToolCall) -> str:
        assert call.connection is not None
        return f"sent by {call.connection.config['apiKey']}"

    model = Played(asks("send"), "told")
    async with opened(database, models={"default": model}, tools=[send], secret=KEY) as bench:
        structure = await flow(bench, "send")
        refused, parked = await bench.ran(structure), await bench.ran(structure)
        (asked,) = parked.to_wire()["interrupts"]
        assert (asked["type"], asked["provider"], asked["toolCallId"]) == ("connect", "mail", "c1")
        turn = await bench.core.runs.resume(bench.me, refused.id, decision="cancelled")
        assert (await bench.ended(turn)).output == "told"
        assert "refused" in model.told()[0]["content"]
        await bench.core.connections.create(
            bench.me, name="Post", provider="mail", kind="api_key", config={"apiKey": "k-1"}
        )
        turn = await bench.core.runs.resume(bench.me, parked.id, decision="connected")
        assert (await bench.ended(turn)).output == "told"
        assert model.told()[0]["content"] == "sent by k-1"


async def test_a_subordinate(database: str) -> None:
    """It is a skill that runs as a child, with the access of who started the run; its answer is the result."""

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
    """No answer that the journal holds is asked for again, and no result; the call under way is made again."""
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
        assert [message["content"] for message in model.told()] == ["1", "two"]
        assert len(model.requests) == 1
        assert kinds(await again.events(run.id)).count("usage") == 3


async def test_a_call_that_nobody_knows_the_end_of(database: str) -> None:
    """A tool that must not be called twice, cut off by a restart: the model is told, and goes on."""
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
        assert "the outcome of `charge` is unknown" in model.told()[0]["content"]
        assert len(calls) == 1
