"""A supervisor with two subordinates: a question about a trip goes to the one for weather and the one for trains.

    python examples/supervisor.py

Each of the three is a skill, and the supervisor has the other two as tools. They work at the same time, each with its
own tools and without the messages of the other. Their events are on the stream of the one run, with a `path` that names
the node. A script replaces the model of all three.
"""

import asyncio
from typing import Any

import wfcore
from wfcore.adapters.models.scripted import Reply
from wfcore.ports.providers import ModelRequest
from wfcore.testing import ScriptedModel


@wfcore.tool(idempotent=True)
def forecast(place: str) -> str:
    """The weather of tomorrow."""
    return f"sun over {place}, 21 degrees"


@wfcore.tool(idempotent=True)
def next_train(to: str) -> str:
    """The next train to a place."""
    return f"09:12 from platform 4, in {to} at 10:40"


def skill(name: str, description: str, *tools: str, **more: Any) -> dict[str, Any]:
    toolset = {tool: {"enabled": True} for tool in tools}
    return {"name": name, "description": description, "instructions": [f"You are: {name}"], "toolset": toolset, **more}


async def main() -> None:
    tools, models = [forecast, next_train], {"default": ScriptedModel(script)}
    async with wfcore.open("sqlite://", tools=tools, models=models) as core:
        me = core.principal((await core.directory.create_organization("Acme")).uuid, user="ann")

        async def deployed(body: dict[str, Any]) -> int:
            number = (await core.skills.create(me, body)).id
            await core.skills.deploy(me, number)
            return number

        weather = await deployed(skill("Weather", "Knows the weather of any place", "forecast"))
        trains = await deployed(skill("Trains", "Knows when trains go", "next_train"))
        below = [str(weather), str(trains)]
        travel = await deployed(skill("Travel", "Plans a trip", supervisionSubordinateIds=below))

        async for event in core.runs.chat(me, travel, message="I want to go to Bonn tomorrow."):
            show(event)


def show(event: Any) -> None:
    """Print one line for each action of an agent, indented for subordinates."""
    indent, data = "    " * len(event.data.get("path", ())), event.data
    match event.kind:
        case "tool_call":
            print(f"{indent}-> {data['name']} {data['arguments']}")
        case "tool_result":
            print(f"{indent}<- {data.get('output', data.get('error'))}")
        case "message":
            print(f"{indent}{data['content']}")


def script(request: ModelRequest) -> Reply:
    """Replaces three models: calls every tool once, and joins the results."""
    results = [str(message["content"]) for message in request.messages if message["type"] == "tool"]
    if results:
        return "; ".join(results)
    args = {"forecast": {"place": "Bonn"}, "next_train": {"to": "Bonn"}}
    question = {"message": "What about Bonn tomorrow?"}
    return {"toolCalls": [{"name": tool.name, "args": args.get(tool.name, question)} for tool in request.tools]}


if __name__ == "__main__":
    asyncio.run(main())
