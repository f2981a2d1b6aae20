"""A workflow in which an agent stands between two actions: read a review, judge it, file a ticket.

    python examples/agent_between_actions.py

The output of the agent must fit its `outputSchema`, so that the next action can use its fields; the edge to `file`
could also lead to a condition on them. A script replaces the model: its first completion does not fit, so wfcore tries
again, and its second one fits.
"""

import asyncio
from typing import Any

import wfcore
from wfcore.testing import ScriptedModel

TICKETS: dict[str, dict[str, object]] = {}


@wfcore.tool(idempotent=True)
def read_review(number: int) -> dict[str, object]:
    """A review of a customer."""
    return {"number": number, "text": "The teapot is lovely, but its lid came in two pieces."}


@wfcore.tool(idempotent=True)
def file_ticket(team: str, title: str, call: wfcore.ToolCall) -> str:
    """Open a ticket. The key is the same in every attempt of this call, so it opens one ticket only."""
    TICKETS[call.key] = {"team": team, "title": title}
    return f"ticket for {team}: {title}"


JUDGEMENT = {
    "type": "object",
    "properties": {"team": {"enum": ["shipping", "quality", "praise"]}, "title": {"type": "string", "maxLength": 60}},
    "required": ["team", "title"],
}
GRAPH = {
    "nodes": [
        {"id": "start", "type": "start", "data": {"inputSchema": {"required": ["review"]}}},
        {"id": "read", "type": "action", "data": {
            "toolId": "read_review", "params": {"number": "{{ input.review }}"}}},
        {"id": "judge", "type": "agent", "data": {
            "instructions": "Which team is this for? Answer in JSON with `team` and `title`.",
            "message": "{{ nodes.read.output.text }}", "outputSchema": JUDGEMENT,
            "retry": {"maxAttempts": 3, "initialIntervalSeconds": 0.1}}},
        {"id": "file", "type": "action", "data": {
            "toolId": "file_ticket",
            "params": {"team": "{{ nodes.judge.output.team }}", "title": "{{ nodes.judge.output.title }}"}}},
    ],
    "edges": [
        {"id": "1", "source": "start", "target": "read"},
        {"id": "2", "source": "read", "target": "judge"},
        {"id": "3", "source": "judge", "target": "file"},
    ],
}  # fmt: skip

SCRIPT = ScriptedModel(["It is about the lid, I think.", '{"team": "shipping", "title": "Lid arrived broken"}'])


async def main() -> None:
    async with wfcore.open("sqlite://", tools=[read_review, file_ticket], models={"default": SCRIPT}) as core:
        me = core.principal((await core.directory.create_organization("Acme")).uuid, user="ann")
        flow = await core.workflows.create(me, name="Reviews", structure=GRAPH)
        await core.workflows.deploy(me, flow.id)
        async for event in core.runs.start(me, workflow=flow.id, input={"review": 12}):
            match event.kind:
                case "node_finished":
                    print(f"{event.data['nodeId']}: {event.data['output']}")
                case "node_retrying":
                    error: Any = event.data["error"]
                    print(f"{event.data['nodeId']} again: {error['message']}")
                case "done" | "error":
                    print(f"{event.kind}: {event.data.get('output', event.data.get('error'))}")


if __name__ == "__main__":
    asyncio.run(main())
