"""Agents: what models say, tools that they call, and what they wait for."""

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

from bench import Bench, act, agent, ask, deployed_skill, graph, one
from played import Played, asks, enabled
from playing import SCENARIOS, measure, scenario

from wfcore.adapters.models.scripted import ScriptedModel
from wfcore.adapters.tools.catalog import tool
from wfcore.domain.agents.budgets import Budget
from wfcore.domain.run.entries import Limits
from wfcore.ports.providers import Delta, ModelError, ModelRequest, TokenUsage, ToolCall
from wfcore.runtime.common.installation import Settings

if TYPE_CHECKING:
    from recorder import Recorder

KEY = {"name": "Mail", "provider": "mail", "kind": "api_key", "config": {"apiKey": "k"}}
SAID = "Write to jo@example.org now."


def talks(name: str, *replies: Any, answers: Any = (), skill: Any = None, body: Any = None, **options: Any) -> None:
    """A chat with a skill, in which the model says this; what the run waits for is answered."""

    async def play(recorder: "Recorder") -> None:
        models = {"default": Played(*replies)}
        async with recorder.open(models=models, **options) as bench:
            fields = {"toolset": enabled("echo"), **(skill or {})}
            number = await deployed_skill(bench, **fields)
            run = await bench.ended(await bench.core.runs.chat(bench.me, number, {"message": "go", **(body or {})}))
            for decision in answers:
                run = await bench.ended(await bench.core.runs.resume(bench.me, run.id, decision=decision))
            await recorder.keep(bench, run)

    SCENARIOS[name] = play


talks("a_chat", "one two three")
talks("a_chat_with_a_tool", asks("echo", value=[5]), "five it is")
talks("two_calls_at_once", {"content": "both", "toolCalls": [{"id": "a", "name": "echo", "args": {"value": 1}},
                                                            {"id": "b", "name": "echo", "args": {"value": 2}}]},
      "done")  # fmt: skip
talks("a_chat_with_debug_and_progress", asks("measure", size=4), "four", body={"debug": True},
      skill={"toolset": enabled("measure")}, tools=[measure])  # fmt: skip
talks("a_tool_that_was_not_offered", asks("nothing"), "well")
talks("a_tool_call_that_is_approved", asks("echo", value=7), "done", answers=["approve"],
      skill={"toolset": enabled("echo", requiresApproval=True)})  # fmt: skip
talks("a_tool_call_that_is_denied", asks("echo", value=7), "then not", answers=["deny"],
      skill={"toolset": enabled("echo", requiresApproval=True)})  # fmt: skip
talks("an_answer_that_was_replaced", SAID, body={"streamProtocolVersion": 2},
      skill={"access": {"visibility": "private", "guardrails": ["redact-emails"]}})  # fmt: skip
talks("an_answer_that_was_redacted", SAID,
      skill={"access": {"visibility": "private", "guardrails": ["redact-emails"]}})  # fmt: skip
talks("an_answer_that_was_blocked", SAID,
      skill={"access": {"visibility": "private",
                        "guardrails": [{"name": "block-patterns", "patterns": ["example"]}]}})  # fmt: skip
talks("a_budget_that_is_approved", asks("echo", value=1), "well", answers=["approve"],
      skill={"budget": {"maxTokens": 2}})  # fmt: skip
talks("a_budget_that_is_denied", asks("echo", value=1), "well", answers=["deny"], skill={"budget": {"maxTokens": 2}})
talks("too_many_rounds", *[asks("echo", value=1)] * 5, settings=Settings(limits=Limits(max_agent_rounds=3)))


@scenario
async def an_agent_without_a_skill(recorder: "Recorder") -> None:
    async with recorder.open(models={"default": ScriptedModel('{"n": 3}')}) as bench:
        schema = {"type": "object", "required": ["n"]}
        asked = agent(message="give {{ input.n }}", instructions="be brief", outputSchema=schema)
        structure = graph("s>a a>b", a=asked, b=act("echo", value="{{ nodes.a.output.n }}"))
        await recorder.keep(bench, await bench.ran(structure, {"n": 3}))


@scenario
async def an_agent_whose_model_fails(recorder: "Recorder") -> None:
    retry = {"maxAttempts": 2, "initialIntervalSeconds": 0}
    async with recorder.open(models={"default": ScriptedModel([RuntimeError("away")])}) as bench:
        structure = graph("s>a a:error>b", a=agent(message="hi", retry=retry), b=act("echo", value="no answer"))
        await recorder.keep(bench, await bench.ran(structure))


class Breaking:
    """A model that fails after it has said what the call consumed."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        yield TokenUsage(5, 1)
        raise ModelError("too long", retryable=False)


@scenario
async def an_answer_that_breaks_off_with_a_cost(recorder: "Recorder") -> None:
    async with recorder.open(models={"default": Breaking()}) as bench:
        await recorder.keep(bench, await bench.ran(one(agent(message="hi"))))


@scenario
async def the_assistant(recorder: "Recorder") -> None:
    async with recorder.open(models={"default": Played(asks("workflow_a-flow"), "done")}) as bench:
        await bench.deployed(graph("s>h h:approved>a", h=ask(), a=act("echo", value=1)))
        run = await bench.ended(await bench.core.runs.chat(bench.me, message="go"))
        while run.status == "interrupted":
            run = await bench.ended(await bench.core.runs.resume(bench.me, run.id, decision="approve"))
        await recorder.keep(bench, run)


@scenario
async def a_workflow_that_changes_before_its_approval(recorder: "Recorder") -> None:
    async with recorder.open(models={"default": Played(asks("workflow_a-flow"), "done")}) as bench:
        flow = await bench.deployed(one(act("echo", value=1)))
        run = await bench.ended(await bench.core.runs.chat(bench.me, message="go"))
        await bench.core.workflows.patch(bench.me, flow, structure=one(act("echo", value=2)))
        await bench.core.workflows.deploy(bench.me, flow)
        while run.status == "interrupted":
            run = await bench.ended(await bench.core.runs.resume(bench.me, run.id, decision="approve"))
        await recorder.keep(bench, run)


@scenario
async def a_second_message(recorder: "Recorder") -> None:
    async with recorder.open(models={"default": ScriptedModel(["first", "second"])}) as bench:
        number = await deployed_skill(bench)
        run = await bench.ended(await bench.core.runs.chat(bench.me, number, message="one"))
        body = {"message": "two", "fileThreadId": run.row.thread_id}
        await recorder.keep(bench, await bench.ended(await bench.core.runs.chat(bench.me, number, body)))


@scenario
async def a_subordinate(recorder: "Recorder") -> None:
    def play(request: Any) -> Any:
        if any("I am below" in str(message["content"]) for message in request.messages):
            return "42"
        answered = any(message["type"] == "tool" for message in request.messages)
        return "the answer: 42" if answered else asks(request.tools[0].name, message="what is it?")

    async with recorder.open(models={"default": ScriptedModel(play)}) as bench:
        below = await deployed_skill(bench, instructions=["I am below"])
        above = await deployed_skill(bench, supervision_subordinate_ids=[str(below)])
        await recorder.keep(bench, await bench.ran(one(agent(agent_id=above, message="go"))))


# Connections


@tool(provider="mail", idempotent=True)
async def send(call: ToolCall) -> str:
    """Send."""
    return "sent"


@scenario
async def a_connection_that_was_made(recorder: "Recorder") -> None:
    async with recorder.open(tools=[send]) as bench:
        run = await bench.ran(one(act("send")))
        await bench.core.connections.create(bench.me, KEY)
        await recorder.keep(
            bench, await bench.ended(await bench.core.runs.resume(bench.me, run.id, decision="connected"))
        )


@scenario
async def a_connection_that_was_refused(recorder: "Recorder") -> None:
    async with recorder.open(tools=[send], models={"default": Played(asks("send"), "told")}) as bench:
        number = await deployed_skill(bench, toolset=enabled("send"))
        run = await bench.ended(await bench.core.runs.chat(bench.me, number, message="go"))
        await recorder.keep(
            bench, await bench.ended(await bench.core.runs.resume(bench.me, run.id, decision="cancelled"))
        )


async def budgeted(bench: Bench, recorder: "Recorder") -> None:
    number = await deployed_skill(bench)
    await bench.ended(await bench.core.runs.chat(bench.me, number, message="one"))
    run = await bench.ended(await bench.core.runs.chat(bench.me, number, message="two"))
    await recorder.keep(bench, run)


@scenario
async def a_user_s_budget_is_spent(recorder: "Recorder") -> None:
    settings = Settings(budgets=(Budget("user", "day", 1),))
    async with recorder.open(settings=settings) as bench:
        await budgeted(bench, recorder)
