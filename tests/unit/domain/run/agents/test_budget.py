"""Answers under guardrails and calls under budgets, as the machine takes them."""

from collections.abc import Mapping
from typing import Any

import pytest
from test_agents import CONTEXT, TOOLS, calls, conversing

from wfcore.domain.agents.budgets import budget_key, times_spent
from wfcore.domain.run.effects import CallModel
from wfcore.domain.run.entries import Failed, Succeeded, decode_entry, encode_entry
from wfcore.domain.run.plan import skill_plan
from wfcore.domain.run.replay import fold
from wfcore.testing.histories import History, sketch

REPLACED = {"replaced": True}


def answered(history: History, output: Any, **more: Any) -> History:
    """The model's answer, as its entry is read back from a journal."""
    node, visit, step = history.effect("agent").address
    entry = Succeeded(history.at, node, visit, step, 1, output, **more)
    assert decode_entry(encode_entry(entry)) == entry
    return history.apply(entry)


@pytest.mark.parametrize("version", [None, 2])
def test_a_replaced_answer(version: int | None) -> None:
    """Shown as a replacement to clients that support it; the message, the output and the record have the same text."""
    history = answered(conversing(info={"streamProtocolVersion": version}), "[email]", guardrail=REPLACED)
    shown = [event.kind for event in history.events if event.kind.startswith("message")]
    assert shown == (["message_replaced", "message"] if version else ["message"])
    assert history.machine.output == "[email]"
    assert [record.content for record in history.records if getattr(record, "type", "") == "ai"] == ["[email]"]
    assert [event.seq for event in history.events] == list(range(1, len(history.events) + 1))
    assert fold(skill_plan(1), history.entries).seq == history.machine.seq


def test_a_blocked_answer_is_counted_and_fails() -> None:
    """It does not count as an attempt that is tried again; what it consumed is in the usage."""
    history = answered(conversing(), None, usage={"inputTokens": 5}, guardrail={"blocked": "no"})
    error = history.machine.error or {}
    assert (error["message"], error["info"]["cause"]) == ("no", "guardrail")
    assert history.machine.usage["inputTokens"] == 5


def test_the_call_knows_its_guardrails() -> None:
    """Those that were composed, in every round."""
    history = conversing(guardrails=["redact-emails"]).succeed("agent", calls("look")).succeed("agent", 1)
    effect = history.effect("agent")
    assert isinstance(effect, CallModel)
    assert (effect.guardrails, effect.replaceable) == (["redact-emails"], False)


def spent(history: History, of: str, times: int) -> History:
    """Who performs the call says that this budget is spent."""
    effect = history.effect("agent")
    info = {"budget": {"maxTokens": 10, "of": of, "period": "day"}, "times": times}
    node, visit, step = effect.address
    return history.apply(Failed(history.at, node, visit, step, effect.attempt, "spent", "budget", False, info=info))


def test_each_budget_has_an_approval_of_its_own() -> None:
    """What was allowed of one is not allowed of another, and is still allowed in the next round."""
    history = spent(conversing(), "user", 3)
    first = history.waiting("agent").id
    history = spent(history.decide("agent"), "organization", 1)
    assert history.waiting("agent").id != first
    history.decide("agent").succeed("agent", calls("look")).succeed("agent", 1)
    effect = history.effect("agent")
    assert isinstance(effect, CallModel)
    assert effect.allowances == {"user/day": 4, "organization/day": 2}
    assert fold(skill_plan(1), history.entries).pending == history.machine.pending


def test_what_is_denied_fails_the_node() -> None:
    """By the cause `budget`; nothing is pending any more."""
    history = spent(conversing(), "user", 1).decide("agent", "deny")
    assert (history.machine.error or {})["info"]["cause"] == "budget"
    assert history.machine.pending == {}


@pytest.mark.parametrize(
    ("budget", "spent", "times"),
    [
        ({}, {"inputTokens": 9}, 0),
        ({"maxTokens": 10}, {"inputTokens": 5, "outputTokens": 4}, 0),
        ({"maxTokens": 10}, {"inputTokens": 5, "outputTokens": 5}, 1),
        ({"maxTokens": 10}, {"inputTokens": 29}, 2),
        ({"maxTokens": 10, "maxCost": 0.5}, {"inputTokens": 1, "cost": 2.0}, 4),
        ({"maxCost": 1}, {"inputTokens": 100}, 0),
        ({"maxCost": 1}, {"cost": sum([0.1] * 10)}, 1),
        ({"maxCost": 0.1}, {"cost": 0.3}, 3),
        ({"maxTokens": 10**12}, {"inputTokens": 10**12 - 1}, 0),
    ],
)
def test_how_many_times_a_budget_is_spent(budget: Mapping[str, Any], spent: Mapping[str, float], times: int) -> None:
    """Whole times, by tokens of both kinds or by cost, whichever is more."""
    assert times_spent(budget, spent) == times
    assert budget_key(budget) == "agent/"


def test_a_model_that_broke_off_is_called_again() -> None:
    """Its worker ended while it was answering: that is the next attempt at once, and not a failed one of the node."""
    history = History(sketch("s -> agent", agent={"type": "agent", "message": "hi"})).say("agent", "on")
    (effect,) = history.fail("agent", reason="broken_off").pending("agent")
    assert isinstance(effect, CallModel)
    assert (effect.attempt, effect.broken_off, effect.not_before) == (2, 1, history.at)
    assert history.kinds("agent")[-1] == "node_retrying"
    assert history.fail("agent", reason="broken_off").machine.status == "error"


def test_a_budget_of_the_run() -> None:
    """A call after it is spent waits for a person, also that of an agent without a context."""
    agent = {"type": "agent", "message": "hi"}
    info = {"config": {"budget": {"maxTokens": 10}}}
    history = History(sketch("s -> f", "f -> agent", f=agent, agent=agent), info=info)
    history.succeed("f", "x", usage={"inputTokens": 6, "outputTokens": 6})
    assert history.waiting("agent").message == "the run's budget of 10 tokens is spent: go on with as much again?"
    (effect,) = history.decide("agent").pending("agent")
    assert isinstance(effect, CallModel)
    assert effect.allowances == {"run/": 2}


USED = {"inputTokens": 6, "outputTokens": 6}
RETRY = {"maxAttempts": 3, "initialIntervalSeconds": 0}


def test_a_budget_of_a_visit_is_its_own() -> None:
    """An agent beside it, in the same run, spends its own budget."""
    node = {"type": "agent", "agent_id": 1, "message": "hi"}
    history = History(sketch("s -> agent", "s -> other", agent=node, other=node))
    for name in ("agent", "other"):
        history.succeed(name, {**CONTEXT, "budget": {"maxTokens": 20}})
        history.succeed(name, calls("look"), usage=USED)
    for name in ("agent", "other"):
        assert history.succeed(name, "found").machine.status == "running"
        history.succeed(name, calls("look"), usage=USED).succeed(name, "more")
        assert history.waiting(name).message.startswith("the budget of 20 tokens is spent")


def test_work_for_a_subordinate_counts_for_its_caller() -> None:
    """And what the caller consumed does not count for the subordinate."""
    history = conversing(tools=TOOLS, budget={"maxTokens": 20}).succeed("agent", calls("ask_expert"), usage=USED)
    history.open("agent", {}).succeed("agent/agent", {**CONTEXT, "budget": {"maxTokens": 20}})
    history.succeed("agent/agent", calls("look"), usage=USED).succeed("agent/agent", "found")
    history.succeed("agent/agent", "because")
    assert history.waiting("agent").message.startswith("the budget of 20 tokens is spent")


@pytest.mark.parametrize("of", ["skill", "run"])
@pytest.mark.parametrize("cause", ["error", "schema"])
def test_another_attempt_is_a_call_too(of: str, cause: str) -> None:
    """It waits for a decision if the failed one spent the budget; approved it is made, with its number."""
    budget = {"maxTokens": 10}
    composed, config = ({"budget": budget}, {}) if of == "skill" else ({}, {"config": {"budget": budget}})
    node = {"type": "agent", "agent_id": 1, "message": "hi", "retry": RETRY, "outputSchema": {"type": "object"}}
    history = History(sketch("s -> agent", agent=node), info=config)
    history.succeed("agent", {**CONTEXT, **composed})
    place = history.effect("agent").address
    if cause == "error":
        history.apply(Failed(history.at, *place, 1, "away", usage=USED))
    else:
        history.apply(Succeeded(history.at, *place, 1, "no object", usage=USED))
    assert history.machine.pending == {}
    effect = history.decide("agent").effect("agent")
    assert isinstance(effect, CallModel)
    assert (effect.attempt, list(effect.allowances.values())) == (2, [2])
    assert history.succeed("agent", "{}").machine.status == "done"


def test_a_retry_by_hand_is_a_call_too() -> None:
    """A run whose budget was spent when it failed waits before it calls its model again."""
    history = conversing(budget={"maxTokens": 10})
    history.apply(Failed(history.at, *history.effect("agent").address, 1, "away", usage=USED))
    assert history.machine.status == "error"
    history.retry()
    assert history.waiting("agent").message.startswith("the budget of 10 tokens is spent")


def test_a_fork_has_spent_nothing() -> None:
    """What the source consumed, and what somebody allowed there, is not the fork's: a call that waits is requested."""
    node = {"type": "agent", "agent_id": 1, "message": "hi"}
    source = History(sketch("s -> agent", "s -> other", agent=node, other={"toolId": "t"}))
    source.succeed("agent", {**CONTEXT, "budget": {"maxTokens": 10}}).succeed("agent", calls("look"), usage=USED)
    source.succeed("agent", "found")
    assert source.waiting("agent").message.startswith("the budget of 10 tokens is spent")
    waits = source.fork("other")
    allowed = source.decide("agent").fork("other")
    for fork in (waits, allowed):
        effect = fork.effect("agent")
        assert isinstance(effect, CallModel)
        assert (fork.machine.interrupts, effect.allowances) == ({}, {})
        fork.succeed("agent", calls("look"), usage=USED).succeed("agent", "more")
        assert fork.waiting("agent").message.startswith("the budget of 10 tokens is spent")
    source.succeed("agent", "done")
    assert source.machine.interrupts == {}


def test_a_fork_has_spent_nothing_in_its_children() -> None:
    """An agent of a child that goes on in the fork has its whole budget."""
    history = conversing(tools=TOOLS).succeed("agent", calls("ask_expert"))
    history.open("agent", {}).succeed("agent/agent", {**CONTEXT, "budget": {"maxTokens": 20}})
    history.succeed("agent/agent", calls("look"), usage=USED).succeed("agent/agent", "found")
    fork = history.fork()
    for run in (history, fork):
        run.succeed("agent/agent", calls("look"), usage=USED).succeed("agent/agent", "more")
    assert history.waiting("agent/agent").message.startswith("the budget of 20 tokens is spent")
    assert isinstance(fork.effect("agent/agent"), CallModel)
