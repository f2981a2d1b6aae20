"""The `config` of a resume (interface, Resume a run) holds for the agents that are under way."""

from typing import Any

from wfcore.domain.agents.context import digest_of
from wfcore.domain.run.effects import CallModel, CallTool
from wfcore.domain.run.entries import Decision, Resumed
from wfcore.domain.run.plan import skill_plan
from wfcore.testing.histories import ANN, History, sketch

Wire = dict[str, Any]


def tool(name: str, *, approval: bool = False) -> Wire:
    return {"name": name, "toolId": name, "requiresApproval": approval, "digest": f"sha256:{name}"}


CONTEXT = {"model": "m", "system": "", "human": {"content": "hi"}, "tools": [tool("pay", approval=True), tool("look")]}


def calls(*names: str) -> Wire:
    return {"text": "", "toolCalls": [{"id": f"c{n}", "name": name, "args": {}} for n, name in enumerate(names)]}


def waiting(info: Wire | None = None) -> History:
    """A run of a skill whose agent waits for the approval of a call."""
    history = History(skill_plan(1), info={"message": "hi", **(info or {})})
    return history.succeed("agent", {**CONTEXT, "digest": digest_of(CONTEXT)}).succeed("agent", calls("pay"))


def resume(history: History, config: Wire) -> History:
    answer = Decision(next(iter(history.machine.interrupts)), "approve")
    return history.apply(Resumed(history.at, f"run-{len(history.entries)}", ANN, (answer,), {"config": config}))


def model_call(history: History) -> CallModel:
    effect = history.effect("agent")
    assert isinstance(effect, CallModel)
    return effect


def test_what_was_approved_is_done_and_then_the_tool_is_gone() -> None:
    """The approval binds its one call; the next round is not offered the tool, and a call of it gets an error."""
    history = resume(waiting(), {"toolset": {"pay": {"enabled": False}}})
    assert isinstance(history.effect("agent"), CallTool)
    context = model_call(history.succeed("agent", "paid")).context
    assert context is not None
    assert [one["name"] for one in context["tools"]] == ["look"]
    assert context["digest"] == digest_of(context)
    history.succeed("agent", calls("pay"))
    assert model_call(history).transcript[-1]["content"] == "error: there is no tool `pay`"


def test_a_tool_needs_approval_from_now_on() -> None:
    """What was called freely waits for an approval after a turn that wants one."""
    history = resume(waiting(), {"toolset": {"look": {"enabled": True, "requiresApproval": True}}})
    history.succeed("agent", "paid").succeed("agent", calls("look"))
    assert history.waiting("agent").call == {**history.waiting("agent").call, "toolId": "look"}


def test_guardrails_come_on_top() -> None:
    """The next answer is checked by those that the turn adds."""
    assert model_call(resume(waiting(), {"guardrails": ["no-names"]}).succeed("agent", "paid")).guardrails == [
        "no-names"
    ]


def test_a_call_that_waited_for_its_budget_is_narrowed_too() -> None:
    """Who lets an agent spend more can take something away from it with the same answer."""
    history = waiting({"config": {"budget": {"maxTokens": 1}}})
    history.machine.usage["inputTokens"] = 5
    history = resume(history, {"budget": {"maxTokens": 1}}).succeed("agent", "paid")
    config = {"budget": {"maxTokens": 1}, "toolset": {"look": {"enabled": False}}, "guardrails": ["no-names"]}
    effect = model_call(resume(history, config))
    assert effect.guardrails == ["no-names"]
    assert [one["name"] for one in (effect.context or {})["tools"]] == ["pay"]


def test_the_model_is_another_where_it_is_open() -> None:
    """From the next round on. A model that the skill or the node names stays."""
    for is_open in (True, False):
        history = History(skill_plan(1), info={"message": "hi"})
        context = {**CONTEXT, **({"isModelOpen": True} if is_open else {})}
        history.succeed("agent", {**context, "digest": digest_of(context)}).succeed("agent", calls("pay"))
        effect = model_call(resume(history, {"model": "fast"}).succeed("agent", "paid"))
        sent = effect.context or {}
        assert (effect.model, sent["model"]) == (("fast", "fast") if is_open else ("m", "m"))
        assert sent["digest"] == digest_of(sent)


def test_a_call_that_waited_for_its_budget_has_the_new_model() -> None:
    """The model changes with the answer, for the call that was held too."""
    history = History(skill_plan(1), info={"message": "hi"})
    history.succeed("agent", {**CONTEXT, "isModelOpen": True, "budget": {"maxTokens": 1}})
    history.succeed("agent", calls("look"), usage={"inputTokens": 5}).succeed("agent", "seen")
    effect = model_call(resume(history, {"model": "fast"}))
    assert (effect.model, (effect.context or {})["model"]) == ("fast", "fast")


def test_without_a_config_nothing_changes() -> None:
    """The context is sent to the letter, under the digest that it was composed with."""
    assert model_call(resume(waiting(), {}).succeed("agent", "paid")).context == {
        **CONTEXT,
        "digest": digest_of(CONTEXT),
    }


def test_an_agent_whose_context_is_being_composed() -> None:
    """It has nothing to narrow yet; its context is narrowed when it comes."""
    agent = {"type": "agent", "agent_id": 1, "message": "hi"}
    history = History(sketch("s -> agent", "s -> ok", agent=agent, ok={"type": "humanApproval"}))
    resume(history, {"toolset": {"pay": {"enabled": False}}})
    context = model_call(history.succeed("agent", CONTEXT)).context
    assert context is not None
    assert [one["name"] for one in context["tools"]] == ["look"]
