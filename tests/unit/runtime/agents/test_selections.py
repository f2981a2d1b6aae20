"""The connections that skills and runs select: two workspaces of one provider side by side."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from bench import Bench, act, agent, deployed_skill, one, opened, paths, why
from played import Played, asks

from wfcore.adapters.tools.catalog import tool
from wfcore.domain.kernel.errors import Invalid
from wfcore.ports.providers import ToolCall

pytestmark = pytest.mark.anyio

KEY = b"k" * 32
NAMES: dict[str, str] = {}
"""The names of connections by id: a result cannot show a key."""


@tool(provider="chat", idempotent=True)
async def post(call: ToolCall) -> str:
    """Posts to a workspace."""
    assert call.connection is not None
    return NAMES[call.connection.id]


@tool(provider="mail", idempotent=True)
async def send(call: ToolCall) -> str:
    assert call.connection is not None
    return NAMES[call.connection.id]


@pytest.fixture
async def bench(database: str) -> AsyncIterator[Bench]:
    async with opened(database, tools=[post, send], secrets=KEY, models={"default": Played()}) as made:
        yield made


async def connect(bench: Bench, key: str, provider: str = "chat") -> str:
    body = {"name": key, "provider": provider, "kind": "api_key", "config": {"apiKey": f"secret {key}"}}
    made = await bench.core.connections.create(bench.me, body)
    NAMES[made.id] = key
    return made.id


def chosen(*ids: str) -> list[dict[str, str]]:
    return [{"connectionId": one} for one in ids]


async def said_by(bench: Bench, skill: int, *replies: Any, **config: Any) -> Any:
    """What the tools returned to the model of a chat."""
    model: Any = bench.core.ports.models["default"]
    model.__init__(*replies, "done")
    given = {"config": config} if config else {}
    run = await bench.ended(await bench.core.runs.chat(bench.me, skill, {"message": "m", **given}))
    assert run.status == "done", run.to_wire()
    return [one["content"] for one in model.tool_results()]


TOOLSET = {"post": {"enabled": True}, "send": {"enabled": True}}


async def test_a_skill_uses_its_connections(bench: Bench) -> None:
    """Of a provider that it selects from; of others it uses the oldest. The `config` of a run narrows that."""
    first, second, third = [await connect(bench, key) for key in ("first", "second", "third")]
    await connect(bench, "letters", "mail")
    skill = await deployed_skill(bench, toolset=TOOLSET, connectionSet=chosen(second, third))
    plain = await deployed_skill(bench, toolset=TOOLSET)
    calls = asks("post"), asks("send")
    assert await said_by(bench, plain, *calls) == ["first", "letters"]
    assert await said_by(bench, skill, *calls) == ["second", "letters"]
    assert await said_by(bench, skill, asks("post"), connectionSelections=chosen(third)) == ["third"]
    assert await said_by(bench, plain, asks("post"), connectionSet=chosen(third)) == ["third"]
    assert await said_by(bench, plain, asks("post"), connectionAllModeIds=["chat"]) == ["first"]
    for config, wanted in (
        ({"connectionSelections": chosen(first)}, ("config.connectionSelections[0].connectionId", "widening")),
        ({"connectionAllModeIds": ["chat"]}, ("config.connectionAllModeIds[0]", "widening")),
        ({"connectionSet": [{"connectionId": second, "x": 1}]}, ("config.connectionSet[0].x", "unknown")),
    ):
        with pytest.raises(Invalid) as error:
            await bench.core.runs.chat(bench.me, skill, {"message": "m", "config": config})
        assert paths(error) == {wanted}
    both = {"connectionSet": chosen(second), "connectionAllModeIds": ["chat"]}
    with pytest.raises(Invalid) as error:
        await bench.core.runs.chat(bench.me, plain, {"message": "m", "config": both})
    assert paths(error) == {("config.connectionSet[0].connectionId", "contradiction")}


async def test_a_skill_that_selects_what_does_not_exist(bench: Bench) -> None:
    """It cannot be deployed; the issue names the entry."""
    with pytest.raises(Invalid) as error:
        await deployed_skill(bench, toolset=TOOLSET, connectionSet=[{"connectionId": "x"}])
    assert paths(error) == {("connectionSet[0].connectionId", "reference")}


async def test_an_action_uses_the_selection_of_the_run(bench: Bench) -> None:
    """Later turns keep it for providers that they do not name, and cannot widen it."""
    await connect(bench, "first")
    second, letters = await connect(bench, "second"), await connect(bench, "letters", "mail")
    await connect(bench, "older", "mail")
    structure = one(act("post", more={"requiresApproval": True}))
    number = await bench.deployed(structure)
    start = {"workflowId": number, "input": {}, "config": {"connectionSet": chosen(second)}}
    run = await bench.ended(await bench.core.runs.start(bench.me, start))
    config = {"connectionSelections": chosen(letters)}
    turn = await bench.core.runs.resume(bench.me, run.id, {"decision": "approve", "config": config})
    assert (await bench.ended(turn)).output == "second"


async def test_a_named_connection_must_be_selected(bench: Bench) -> None:
    """`core.http` does not use another connection of a provider than the selected ones."""
    first, second = await connect(bench, "first"), await connect(bench, "second")
    number = await bench.deployed(one(act("core.http", url="http://127.0.0.1:9/", connection=first)))
    start = {"workflowId": number, "input": {}, "config": {"connectionSet": chosen(second)}}
    run = await bench.ended(await bench.core.runs.start(bench.me, start))
    assert why(run) == ("the connection `first` is not selected for this call", "tool")


async def test_an_agent_node_uses_that_of_its_skill(bench: Bench) -> None:
    """Within the selection of the run."""
    await connect(bench, "first")
    second = await connect(bench, "second")
    skill = await deployed_skill(bench, toolset=TOOLSET, connectionSet=chosen(second))
    model: Any = bench.core.ports.models["default"]
    model.__init__(asks("post"), "done")
    assert (await bench.ran(one(agent(agent_id=skill, message="go")))).output == "done"
    assert [result["content"] for result in model.tool_results()] == ["second"]
