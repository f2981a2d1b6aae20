"""Runs record conversations and usage (interface, Conversation): from the scripted model to the reads."""

import pytest
from bench import Bench, agent, graph, one, opened

from wfcore.adapters.models.scripted import ScriptedModel
from wfcore.domain.kernel.errors import NotFound
from wfcore.domain.projections.cost import Price
from wfcore.ports.providers import ModelRequest
from wfcore.runtime.agents.conversations import ConversationView
from wfcore.runtime.common.installation import Settings

pytestmark = pytest.mark.anyio

PRIVATE = {"visibility": "private", "groupPermissions": {}, "sharedWith": []}
SETTINGS = Settings(prices={"default": Price(1.0, 1_000.0)})


async def skill(bench: Bench, **fields: object) -> int:
    """A deployed one, private unless it is said otherwise."""
    made = await bench.core.skills.create(bench.me, name="S", instructions=["Be kind."], **fields)
    await bench.core.skills.deploy(bench.me, made.id)
    return made.id


def spoken(view: ConversationView) -> list[tuple[str, str]]:
    return [(message.type, message.content) for message in view.messages]


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, database: str) -> str:
    return "sqlite://" if request.param == "memory" else database


async def test_two_turns_are_one_conversation(url: str) -> None:
    """The messages of a session are read in order, and both calls are counted and priced."""
    async with opened(url, models={"default": ScriptedModel(["Hello you.", "Bye."])}, settings=SETTINGS) as bench:
        number = await skill(bench)
        for text in ("Hi", "See you"):
            run = await bench.core.runs.start(bench.me, skillId=number, message=text, session_id="s")
            done = await bench.ended(run)
        view = await bench.core.conversations.get(bench.me, number, done.row.thread_id)
        assert spoken(view) == [("human", "Hi"), ("ai", "Hello you."), ("human", "See you"), ("ai", "Bye.")]
        assert len({message.id for message in view.messages}) == 4
        for group, key in (("model", "default"), ("skill", str(number)), ("user", "me"), ("workflow", None)):
            wire = (await bench.core.usage.report(bench.me, group_by=group)).to_wire()
            (row,) = wire["usage"]
            assert (row["key"], row["calls"], row["outputTokens"]) == (key, 2, 3)
            assert row["cost"] == pytest.approx(row["inputTokens"] * 1e-6 + 3e-3)
            assert wire["totals"].items() <= row.items()
        spent = done.to_wire()["usage"]
        assert spent["cost"] == pytest.approx(spent["inputTokens"] * 1e-6 + 1e-3)


async def test_a_workflow_participates(url: str) -> None:
    """Users of the workflow read its agents' messages, whoever can use their skill; usage is counted for it."""
    async with opened(url, models={"default": ScriptedModel("Fine.")}) as bench:
        number = await skill(bench, accessConfig=PRIVATE)
        run = await bench.ran(one(agent(agent_id=number, message="How is it?")))
        thread, flow = run.row.thread_id, run.row.resource_id
        said = [("human", "How is it?"), ("ai", "Fine.")]
        view = await bench.core.conversations.get(bench.other, 0, thread)
        assert (spoken(view), view.skill_id) == (said, 0)
        assert spoken(await bench.core.conversations.get(bench.me, number, thread)) == said
        (row,) = (await bench.core.usage.report(bench.me, group_by="workflow")).to_wire()["usage"]
        assert (row["key"], row["calls"]) == (str(flow), 1)


async def test_a_run_in_the_thread_of_another_user(url: str) -> None:
    """It gets none of the other user's messages, and that conversation does not change."""
    prompts: list[str] = []

    def reply(request: ModelRequest) -> str:
        prompts.append(" ".join(str(message["content"]) for message in request.messages))
        return "Noted."

    async with opened(url, models={"default": ScriptedModel(reply)}) as bench:
        hidden, shared = await skill(bench, accessConfig=PRIVATE), await skill(bench)
        mine = await bench.ended(
            await bench.core.runs.start(bench.me, skillId=hidden, message="canary", session_id="s")
        )
        thread = mine.row.thread_id
        stolen = await bench.core.runs.start(
            bench.other, skillId=shared, message="What was said?", file_thread_id=thread
        )
        await bench.ended(stolen)
        assert ["canary" in text for text in prompts] == [True, False]
        assert spoken(await bench.core.conversations.get(bench.other, 0, thread)) == [
            ("human", "What was said?"), ("ai", "Noted."),
        ]  # fmt: skip
        with pytest.raises(NotFound):
            await bench.core.conversations.get(bench.other, hidden, thread)
        assert spoken(await bench.core.conversations.get(bench.me, hidden, thread)) == [
            ("human", "canary"), ("ai", "Noted."),
        ]  # fmt: skip


async def test_messages_within_a_frame_are_not_recorded(url: str) -> None:
    """The usage of a called workflow's agents is counted; their messages appear only in the events."""
    async with opened(url, models={"default": ScriptedModel("Fine.")}) as bench:
        number = await skill(bench)
        inner = await bench.deployed(one(agent(agent_id=number, message="How is it?")))
        params = {"toolId": "core.workflow", "params": {"workflowId": inner, "input": {}}}
        outer = await bench.ran(graph("s>call", call={"type": "action", "data": params}))
        assert (outer.status, outer.output) == ("done", "Fine.")
        assert await bench.core.conversations.page(bench.me) == []
        (row,) = (await bench.core.usage.report(bench.me, group_by="workflow")).to_wire()["usage"]
        assert (row["key"], row["calls"]) == (str(outer.row.resource_id), 1)
