"""Support at the terminal: an agent that looks orders up by itself, and pays money back once you have said yes.

    python examples/support_agent.py

    you> My order 7 arrived broken.

With OPENAI_MODEL it is answered by that model of OpenAI, or of any server of the Chat Completions format whose address
is in OPENAI_BASE_URL; the key is OPENAI_API_KEY. Without, a script stands in. An empty line ends the talk.
"""

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any
from uuid import uuid4

import wfcore
from wfcore.adapters.models.openai import OpenAIModel
from wfcore.adapters.models.scripted import Reply, ScriptedModel
from wfcore.cli.lines import Lines
from wfcore.cli.plain import plain
from wfcore.ports.providers import ModelProvider, ModelRequest

# What the shop can do. The first tool is called at will, the second after approval alone.

ORDERS = {7: {"item": "teapot", "paid": 40, "state": "delivered"}, 8: {"item": "kettle", "paid": 65, "state": "sent"}}
REFUNDS: dict[str, tuple[int, float]] = {}


@wfcore.tool(idempotent=True)
def find_order(number: int) -> dict[str, Any]:
    """Look up an order by its number."""
    if number not in ORDERS:
        raise wfcore.ToolFailed(f"there is no order {number}", retryable=False)
    return ORDERS[number]


@wfcore.tool(idempotent=True)
def refund(order: int, amount: float, call: wfcore.ToolCall) -> str:
    """Pay an amount of euros back to the customer of an order."""
    REFUNDS[call.key] = order, amount
    return f"{amount} euros for order {order} are on their way"


SKILL = {
    "name": "Support",
    "instructions": ["You are the support of a small shop. Look an order up before you say anything about it."],
    "toolset": {"find_order": {"enabled": True}, "refund": {"enabled": True, "requiresApproval": True}},
}
MEMORIES = ["An order that arrived broken is paid back in full.", "An order that was sent arrives within three days."]


# The talk: what the agent does goes to stderr, what it says to stdout.


async def main() -> None:
    tools = [find_order, refund]
    async with model() as answers, wfcore.open("sqlite://", tools=tools, models={"default": answers}) as core:
        me = core.principal((await core.directory.create_organization("Shop")).uuid, user="clerk")
        skill = await core.skills.create(me, SKILL)
        for memory in MEMORIES:
            await core.memories.create(me, skill.id, memory=memory)
        await core.skills.deploy(me, skill.id)

        session, lines = str(uuid4()), Lines(sys.stdin.fileno())
        while message := await asked(lines, "you> "):
            turn = core.runs.chat(me, skill.id, message=message, session_id=session)
            while (run := await shown(core, me, turn)).interrupts:
                call = run.interrupts[0].call
                lines.discard_typed_ahead()  # a line pasted before the prompt must not answer it
                allowed = await asked(lines, f"allow {call['toolId']} {call['arguments']}? (y/n) ") == "y"
                turn = core.runs.resume(me, run.id, decision="approve" if allowed else "deny")


async def shown(core: wfcore.Core, me: wfcore.Principal, turn: Any) -> Any:
    """Show the turn's events to the last one, and give its record."""
    async for event in turn:
        match event.kind:
            case "tool_call":
                tell(f"  -> {event.data['name']} {event.data['arguments']}\n")
            case "tool_result":
                failed = event.data.get("error")
                tell(f"  <- {failed['message'] if failed else event.data['output']}\n")
            case "message":
                print("agent>", plain(event.data["content"]), flush=True)
            case "error":
                tell(f"error: {event.data['error']['message']}\n")
    return await core.runs.get(me, (await turn).id)


async def asked(lines: Lines, prompt: str) -> str | None:
    """The next line, which a person at a terminal is asked for."""
    tell(prompt)
    return await lines.next()


def tell(text: str) -> None:
    print(plain(text), end="", file=sys.stderr, flush=True)


# Who answers.


@asynccontextmanager
async def model() -> AsyncIterator[ModelProvider]:
    if name := os.environ.get("OPENAI_MODEL"):
        key, address = os.environ.get("OPENAI_API_KEY"), os.environ.get("OPENAI_BASE_URL")
        async with OpenAIModel(name, api_key=key, base_url=address) as remote:
            yield remote
    else:
        tell("(a script answers; OPENAI_MODEL names a model that does)\n")
        yield ScriptedModel(script)


def script(request: ModelRequest) -> Reply:
    """Stands in for a model: looks the order up, offers to pay it back if it is broken, and says what came of it."""
    messages = list(request.messages)
    last = max(place for place, message in enumerate(messages) if message["type"] == "human")
    question, results = messages[last]["content"], [message["content"] for message in messages[last + 1 :]][1::2]
    number = re.search("[0-9]+", question)
    if number is None:
        return "Which order is it? Tell me its number."
    if not results:
        return {"toolCalls": [{"name": "find_order", "args": {"number": int(number[0])}}]}
    paid = re.search('"paid":([0-9]+)', results[-1])
    if paid and "broken" in question and "broken is paid back" in messages[0]["content"]:
        return {"toolCalls": [{"name": "refund", "args": {"order": int(number[0]), "amount": int(paid[1])}}]}
    return f"About order {number[0]}: {results[-1]}."


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main())
