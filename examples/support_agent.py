"""Support at the terminal: an agent that looks up orders, and refunds money after your approval.

    python examples/support_agent.py

    you> My order 7 arrived broken.

OPENAI_MODEL selects a model of OpenAI, or of the server with the Chat Completions format at OPENAI_BASE_URL; the key is
OPENAI_API_KEY. Without OPENAI_MODEL a script replaces the model. An empty line ends the chat.
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
from wfcore.adapters.models.scripted import Reply
from wfcore.cli.lines import Lines
from wfcore.cli.plain import plain
from wfcore.ports.providers import ModelProvider, ModelRequest
from wfcore.records import JSON
from wfcore.testing import ScriptedModel

# The tools of the shop. The first one needs no approval, the second one does.

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


SKILL: dict[str, JSON] = {
    "name": "Support",
    "instructions": ["You are the support of a small shop. Look up an order before you write about it."],
    "toolset": {"find_order": {"enabled": True}, "refund": {"enabled": True, "requiresApproval": True}},
}
MEMORIES = ["An order that arrived broken is paid back in full.", "An order that was sent arrives within three days."]


# The chat: tool calls go to stderr, messages of the agent to stdout.


async def main() -> None:
    async with (
        model() as provider,
        wfcore.open("sqlite://", tools=[find_order, refund], models={"default": provider}) as core,
    ):
        me = core.principal((await core.directory.create_organization("Shop")).uuid, user="clerk")
        skill = await core.skills.create(me, SKILL)
        for memory in MEMORIES:
            await core.memories.create(me, skill.id, memory=memory)
        await core.skills.deploy(me, skill.id)

        session, lines = str(uuid4()), Lines(sys.stdin.fileno())
        while message := await prompt(lines, "you> "):
            try:
                turn = core.runs.chat(me, skill.id, message=message, session_id=session)
                while (run := await shown(core, me, turn)).interrupts:
                    call = run.interrupts[0].call
                    lines.discard_typed_ahead()  # a line pasted before the prompt must not answer it
                    allowed = await prompt(lines, f"allow {call['toolId']} {call['arguments']}? (y/n) ") == "y"
                    turn = core.runs.resume(me, run.id, decision="approve" if allowed else "deny")
            except wfcore.WfcoreError as error:  # such as for a message with NUL
                note(f"error: {error}\n")


async def shown(core: wfcore.Core, me: wfcore.Principal, turn: Any) -> Any:
    """Show all events of the turn, and return the record of its run."""
    async for event in turn:
        match event.kind:
            case "tool_call":
                note(f"  -> {event.data['name']} {event.data['arguments']}\n")
            case "tool_result":
                failed = event.data.get("error")
                note(f"  <- {failed['message'] if failed else event.data['output']}\n")
            case "message":
                print("agent>", plain(event.data["content"]), flush=True)
            case "error":
                note(f"error: {event.data['error']['message']}\n")
    return await core.runs.get(me, (await turn).id)


async def prompt(lines: Lines, text: str) -> str | None:
    """Prompt for a line, and return it; None at the end of the input."""
    note(text)
    return await lines.next()


def note(text: str) -> None:
    print(plain(text), end="", file=sys.stderr, flush=True)


# The model.


@asynccontextmanager
async def model() -> AsyncIterator[ModelProvider]:
    if name := os.environ.get("OPENAI_MODEL"):
        key, address = os.environ.get("OPENAI_API_KEY"), os.environ.get("OPENAI_BASE_URL")
        async with OpenAIModel(name, api_key=key, base_url=address) as remote:
            yield remote
    else:
        note("(a script replaces the model; OPENAI_MODEL selects a real one)\n")
        yield ScriptedModel(script)


def script(request: ModelRequest) -> Reply:
    """Replaces a model: looks up the order, refunds it if it is broken, and reports the result."""
    messages = list(request.messages)
    last = max(place for place, message in enumerate(messages) if message["type"] == "human")
    texts = [str(message["content"]) for message in messages]
    question, results = texts[last], texts[last + 1 :][1::2]
    number = re.search("[0-9]+", question)
    if number is None:
        return "Which order is it? Please send me its number."
    if not results:
        return {"toolCalls": [{"name": "find_order", "args": {"number": int(number[0])}}]}
    paid = re.search('"paid":([0-9]+)', results[-1])
    if paid and "broken" in question and "broken is paid back" in texts[0]:
        return {"toolCalls": [{"name": "refund", "args": {"order": int(number[0]), "amount": int(paid[1])}}]}
    return f"About order {number[0]}: {results[-1]}."


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main())
