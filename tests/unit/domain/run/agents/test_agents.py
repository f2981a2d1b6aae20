"""Agents with a context: rounds of a model and its tools, approvals, connections, children, budgets, records."""

from typing import Any

import pytest

from wfcore.domain.json.codec import fingerprint
from wfcore.domain.run.effects import CallModel, CallTool, ComposeContext, OpenChild
from wfcore.domain.run.entries import Limits, decode_entry, encode_entry
from wfcore.domain.run.machine.replies import LONGEST_RESULT, MOST_CALLS
from wfcore.domain.run.plan import Plan, assistant_plan, skill_plan
from wfcore.domain.run.records import MessageRecord, UsageRecord
from wfcore.domain.run.replay import fold
from wfcore.testing.histories import History, sketch

TOOLS = [
    {"name": "look", "toolId": "web.look", "kind": "tool", "requiresApproval": False},
    {"name": "pay", "toolId": "bank.pay", "kind": "tool", "requiresApproval": True},
    {"name": "ask_expert", "toolId": "skill.2", "kind": "skill", "resourceId": 2, "requiresApproval": False},
]
CONTEXT = {"model": "m", "settings": {"x": 1}, "human": {"content": "hi"}, "tools": TOOLS}


def conversing(plan: Plan | dict[str, Any] | None = None, **given: Any) -> History:
    """A run of skill 1 whose context is composed and whose model is about to be called."""
    limits, info = given.pop("limits", None), given.pop("info", {"message": "hi"})
    history = History(plan or skill_plan(1), info=info, limits=limits, children={2: skill_plan(2)})
    return history.succeed("agent", {**CONTEXT, **given})


def calls(*names: str, text: str = "", **args: Any) -> dict[str, Any]:
    requested = [{"id": f"c{number}", "name": name, "args": args} for number, name in enumerate(names)]
    return {"text": text, "toolCalls": requested}


def results_of(history: History) -> list[tuple[str, str]]:
    """The tool messages that the model is shown, by the ids of its calls."""
    effect = history.effect("agent")
    assert isinstance(effect, CallModel)
    return [(m["toolCallId"], m["content"]) for m in effect.transcript if m["type"] == "tool"]


# Rounds


def test_a_skill_composes_first() -> None:
    """Step 0 requests the context with the message and config of the run; the model is called with the composed one."""
    history = History(skill_plan(7), {"n": 1}, info={"message": "hello", "config": {"model": "small"}})
    assert history.effect("agent") == ComposeContext(
        (1, 1, 0), 1, "run-1:agent:1.0", 7, False, "", "hello", config={"model": "small"}
    )
    history.succeed("agent", CONTEXT)
    effect = history.effect("agent")
    assert effect == CallModel((1, 1, 1), 1, "run-1:agent:1.1", 7, "m", (), {"x": 1}, context=CONTEXT)
    assert history.succeed("agent", "hello").machine.output == "hello"


def test_the_assistant_is_no_skill() -> None:
    """Its context is composed for the organization's assistant; a graph cannot ask for that by its data."""
    assert History(assistant_plan(), info={"message": "x"}).effect("agent").assistant
    forged = sketch("s -> a", a={"type": "agent", "assistant": True, "message": "x"})
    assert isinstance(History(forged).effect("a"), CallModel)


def test_an_agent_node_passes_on_what_it_says() -> None:
    """Message, instructions, restrictions, model and settings of the node go into its context."""
    data = {"type": "agent", "agent_id": 3, "message": "do {{ input }}", "instructions": ["a", "b"],
            "tool_restrictions": ["web.look"], "model": "big", "modelSettings": {"contextWindow": 9}}  # fmt: skip
    effect = History(sketch("s -> a", a=data), 5).effect("a")
    assert effect == ComposeContext(
        (1, 1, 0), 1, "run-1:a:1.0", 3, False, "a\nb", "do 5", ["web.look"], {"contextWindow": 9}, "big"
    )


OWN = {"type": "agent", "message": "do {{ input }}", "instructions": "be short"}


def test_an_agent_without_a_skill_has_its_node_and_the_end_user() -> None:
    """Model and window of the node come before those of the run; the date is that where the end user is."""
    user = {"name": "Grace", "timezone": "Asia/Tokyo", "userId": "u-7"}
    config = {"model": "small", "modelSettings": {"contextWindow": 4_000}, "guardrails": ["redact-emails"]}
    history = History(sketch("s -> a", a=OWN), 5, info={"userContext": user, "config": config, "debug": True})
    effect = history.effect("a")
    assert isinstance(effect, CallModel)
    assert (effect.model, effect.settings, effect.guardrails) == ("small", {"contextWindow": 4_000}, ["redact-emails"])
    system, human = effect.messages
    assert str(system["content"]).startswith("be short\n")
    assert "Name: Grace\nTime zone: Asia/Tokyo\nDate there: " in str(system["content"])
    assert human == {"type": "human", "content": "do 5"}
    (shown,) = [event.data for event in history.events if event.data.get("about") == "context"]
    assert [part["source"] for part in shown["segments"]] == ["node", "instructions", "endUser", "message"]  # type: ignore[union-attr, index, call-overload]
    own = {**OWN, "model": "big", "modelSettings": {"contextWindow": 3_000}}
    effect = History(sketch("s -> a", a=own), 5, info={"config": config}).effect("a")
    assert isinstance(effect, CallModel)
    assert (effect.model, effect.settings) == ("big", {"contextWindow": 3_000})


def test_an_agent_without_a_skill_whose_context_is_too_large() -> None:
    """The node fails without a call; after a retry with a larger window it begins."""
    small = {**OWN, "modelSettings": {"contextWindow": 5}}
    history = History(sketch("s -> a", a=small), 5)
    assert history.machine.error is not None
    assert history.machine.error["info"] == {"nodeId": "a", "reason": "model", "cause": "context"}
    assert "must be at least about" in history.machine.error["message"]
    assert isinstance(history.retry(sketch("s -> a", a=OWN)).effect("a"), CallModel)
    failed = History(sketch("s -> a", a=OWN), 5).fail("a").retry(sketch("s -> a", a=small))
    assert failed.machine.error is not None
    assert failed.machine.error["info"]["cause"] == "context"


def test_tools_are_called_at_once_and_their_results_are_in_order() -> None:
    """All calls of an answer are pending together; the model goes on when all have their results."""
    history = conversing().succeed("agent", calls("look", "look", text="let me see", q=1))
    assert [effect.key for effect in history.pending("agent")] == ["run-1:agent:1.2", "run-1:agent:1.3"]
    assert history.effect("agent") == CallTool(
        (1, 1, 2), 1, "run-1:agent:1.2", "web.look", {"q": 1}, agent=True, call_id="c0", skill_id=1,
        message_id="run-1:agent:1.1:1",
    )  # fmt: skip
    history.succeed("agent", {"n": 1}, step=3).succeed("agent", "plain", step=2)
    assert results_of(history) == [("c0", "plain"), ("c1", '{"n":1}')]
    assert history.effect("agent").address == (1, 1, 4)
    assert history.succeed("agent", {"text": "done", "toolCalls": []}).machine.output == "done"
    assert history.kinds("agent") == [
        "node_started", "message", "tool_call", "tool_call", "tool_result", "tool_result", "message", "node_finished",
    ]  # fmt: skip


def test_a_failing_tool_is_reported_to_the_model() -> None:
    """It fails neither the node nor the run, is not tried again, and does not end the run by foretelling."""
    history = conversing().succeed("agent", calls("look")).fail("agent", "no such page")
    assert results_of(history) == [("c0", "error: no such page")]
    assert "node_failed" not in history.kinds()


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ({"id": "c0", "name": "web.look", "args": {}}, "error: there is no tool `web.look`"),
        ({"id": "c0", "name": "look", "args": "{"}, "error: the arguments are not a JSON object"),
        ({"id": "c0", "name": "look", "args": None}, "error: the arguments are not a JSON object"),
        ({"id": "c0", "args": {}}, "error: there is no tool ``"),
    ],
)
def test_what_is_not_offered_is_not_called(call: dict[str, Any], error: str) -> None:
    """The model gets the error at once, and only its next call is pending."""
    history = conversing().succeed("agent", {"text": "", "toolCalls": [call]})
    assert results_of(history) == [("c0", error)]


def test_too_many_calls_at_once_are_refused_together() -> None:
    """None of them is made, each has its message."""
    history = conversing().succeed("agent", calls(*["look"] * (MOST_CALLS + 1)))
    assert len(results_of(history)) == MOST_CALLS + 1
    assert all("at most 64" in text for _, text in results_of(history))


def test_calls_with_one_id_get_ids_of_their_own() -> None:
    """Ids that are missing or used twice are made unique: each call has one result."""
    requested = [{"id": "x", "name": "look", "args": {}}, {"id": "x", "name": "look", "args": {}}, "rubbish"]
    history = conversing().succeed("agent", {"text": 5, "toolCalls": requested})
    history.succeed("agent", "a").succeed("agent", "b")
    assert [ident for ident, _ in results_of(history)] == ["x", "call-3", "call-4"]


def test_long_results_are_cut() -> None:
    """A model gets so many characters, and the number of those that were cut."""
    history = conversing().succeed("agent", calls("look")).succeed("agent", "x" * (LONGEST_RESULT + 7))
    assert results_of(history)[0][1].endswith("x\n(7 more characters)")


def test_rounds_are_bounded() -> None:
    """An agent that comes to no end fails its node."""
    history = conversing(limits=Limits(max_agent_rounds=2))
    for _ in range(2):
        history.succeed("agent", calls("look")).succeed("agent", 1)
    assert history.machine.error["info"] == {"nodeId": "agent", "reason": "bounds", "cause": "agent_rounds"}


def test_model_calls_are_retried_where_they_stood() -> None:
    """A model that fails in a later round is called again with the same transcript."""
    data = {"type": "agent", "agent_id": 1, "retry": {"maxAttempts": 2}}
    history = conversing(sketch("s -> agent", agent=data)).succeed("agent", calls("look")).succeed("agent", 1)
    before = history.effect("agent")
    again = history.fail("agent").effect("agent")
    assert (again.attempt, again.transcript, again.key) == (2, before.transcript, before.key)
    assert history.fail("agent").machine.status == "error"


def test_the_last_answer_must_fit_the_output_schema() -> None:
    """Rounds with calls are not held against it."""
    data = {"type": "agent", "agent_id": 1, "outputSchema": {"type": "object"}, "retry": {"maxAttempts": 2}}
    history = (
        conversing(sketch("s -> agent", agent=data)).succeed("agent", calls("look", text="hm")).succeed("agent", 1)
    )
    history.succeed("agent", "no json")
    assert history.succeed("agent", '{"n": 1}').machine.output == {"n": 1}


def test_a_context_that_is_none_fails_the_node() -> None:
    """Whoever composes answers an object."""
    assert History(skill_plan(1)).succeed("agent", "oops").machine.error["info"]["cause"] == "context"


# People


def test_an_approval_binds_the_call() -> None:
    """The call is shown with tool, arguments and digest; approved, exactly it is made, beside the others."""
    history = conversing().succeed("agent", calls("pay", "look", amount=7))
    waiting = history.waiting("agent")
    bound = {"toolId": "bank.pay", "arguments": {"amount": 7}}
    assert (waiting.tool_call_id, waiting.call) == ("c0", {**bound, "digest": fingerprint(bound)})
    shown = next(event for event in history.events if event.kind == "interrupt")
    assert (shown.data["toolCallId"], shown.data["arguments"]) == ("c0", {"amount": 7})
    assert [effect.tool for effect in history.pending("agent")] == ["web.look"]
    history.succeed("agent", 1).decide("agent")
    (effect,) = history.pending("agent")
    assert (effect.tool, effect.params, effect.call_id) == ("bank.pay", {"amount": 7}, "c0")
    assert results_of(history.succeed("agent", "paid")) == [("c0", "paid"), ("c1", "1")]


def test_a_denied_call_is_reported_to_the_model() -> None:
    """The model goes on with the denial as the call's result."""
    history = conversing().succeed("agent", calls("pay", "pay")).decide("agent", "deny").decide("agent")
    history.succeed("agent", "paid")
    assert results_of(history) == [("c0", "error: the call was denied by a person"), ("c1", "paid")]


def test_a_tool_may_need_a_connection() -> None:
    """Somebody connects and the very call is made again, or refuses and the model gets an error."""
    needed = {"reason": "connection_required", "info": {"connectionId": 4}}
    history = conversing().succeed("agent", calls("look", "look")).fail("agent", step=2, **needed)
    call, waiting = history.waiting("agent").call, history.waiting("agent")
    assert (waiting.type, waiting.tool_call_id, call) == ("connect", "c0", {"toolId": "web.look", "connectionId": 4})
    history.decide("agent", "connected").succeed("agent", "in", step=2).fail("agent", step=3, **needed)
    history.decide("agent", "cancelled")
    assert results_of(history) == [
        ("c0", "in"),
        ("c1", "error: the connection that the call needs was refused by a person"),
    ]


def test_a_tool_may_have_changed() -> None:
    """A call approved for another definition needs another approval, and is then made as it was shown."""
    history = conversing(tools=[{**TOOLS[1], "digest": "d0"}]).succeed("agent", calls("pay", amount=7))
    seen = []
    for digest in ("d0", "d1", "d2"):
        seen.append(history.waiting("agent"))
        effect = history.decide("agent").effect("agent")
        assert (effect.definition, effect.params, effect.sent) == (digest, {"amount": 7}, False)
        if digest != "d2":
            info = {"definition": f"d{len(seen)}"}
            history.fail("agent", reason="definition_changed", retryable=False, info=info)
    assert len({waiting.id for waiting in seen}) == 3
    assert {str(waiting.call) for waiting in seen} == {str(seen[0].call)}
    assert [("has changed" in waiting.message) for waiting in seen] == [False, True, True]
    assert results_of(history.succeed("agent", "paid")) == [("c0", "paid")]


def test_a_subordinate_may_have_changed() -> None:
    """The same for a workflow or a skill: the approval binds the variation, which the interrupt shows."""
    asked = {**TOOLS[2], "toolId": "skill:2", "requiresApproval": True, "variationId": "v0"}
    history = conversing(tools=[asked]).succeed("agent", calls("ask_expert", message="why?"))
    seen = []
    for variation in ("v0", "v1"):
        seen.append(history.waiting("agent"))
        effect = history.decide("agent").effect("agent")
        assert isinstance(effect, OpenChild)
        assert (effect.definition, effect.attempt) == (variation, 1)
        if variation == "v0":
            info = {"definition": "v1"}
            history.fail("agent", reason="definition_changed", retryable=False, info=info)
    first, second = [waiting.call or {} for waiting in seen]
    assert second == {**first, "variationId": "v1", "digest": second["digest"]}
    assert first["variationId"] == "v0"
    assert first["digest"] != second["digest"]
    assert (seen[1].tool_call_id, "has changed" in seen[1].message) == (seen[0].tool_call_id, True)
    history.open("agent", {"message": "why?"}, "why?")
    assert history.effect("agent/agent").agent_id == 2


def test_a_change_that_says_nothing_is_a_failure() -> None:
    """A tool of the embedding program may fail in these words too: without a definition there is no approval."""
    history = conversing().succeed("agent", calls("look"))
    history.fail("agent", reason="definition_changed", retryable=False, info={"provider": "p"})
    assert [call_id for call_id, _ in results_of(history)] == ["c0"]


# Children


def test_a_subordinate_is_a_child() -> None:
    """The skill gets the message, works with its own pinned context, and its answer is the call's result."""
    history = conversing().succeed("agent", calls("ask_expert", message="why?"))
    assert history.effect("agent") == OpenChild(
        (1, 1, 2), 1, "run-1:agent:1.2", "skill", 2, {"message": "why?"}, "why?", agent=True
    )
    history.open("agent", {"message": "why?"}, "why?")
    composing = history.effect("agent/agent")
    assert (composing.agent_id, composing.variation_id, composing.message) == (2, "v", "why?")
    history.succeed("agent/agent", CONTEXT).succeed("agent/agent", calls("pay"))
    assert history.waiting("agent/agent").path == ("agent",)
    history.decide("agent/agent").succeed("agent/agent", "ok").succeed("agent/agent", "because")
    assert results_of(history) == [("c0", "because")]
    depths = {e.depth for e in (conversing().succeed("agent", calls("ask_expert")).pending("agent"))}
    assert depths == {1}


def test_an_evaluation_waits_for_no_approval_of_a_subordinate() -> None:
    """It runs with its tools stubbed, and nobody is there to approve it."""
    info = {"message": "hi", "evaluation": {"case": {"tools": {}}}}
    asked = {**TOOLS[2], "requiresApproval": True, "variationId": "v0"}
    history = conversing(tools=[asked], info=info).succeed("agent", calls("ask_expert", message="why?"))
    effect = history.effect("agent")
    assert isinstance(effect, OpenChild)
    assert (effect.resource_id, effect.definition) == (2, "")


def test_a_child_that_fails_is_reported_to_the_model() -> None:
    """Opened or not, its failure is the call's result, and ends nothing else."""
    history = conversing().succeed("agent", calls("ask_expert", "ask_expert"))
    history.fail("agent", "too deep", step=2, retryable=False).open("agent", {})
    history.fail("agent/agent", "no model")
    assert results_of(history) == [("c0", "error: too deep"), ("c1", "error: no model")]


# Bounds and turns


def test_a_spent_budget_opens_an_approval() -> None:
    """Before the next model call; approved it goes on with as much again, denied it fails the node."""
    usage = {"inputTokens": 60, "outputTokens": 50, "model": "m"}
    for decision, reason in (("approve", None), ("deny", "budget")):
        history = conversing(budget={"maxTokens": 100}).succeed("agent", calls("look"), usage=usage)
        history.succeed("agent", 1)
        assert history.waiting("agent").call == {"budget": {"maxTokens": 100}}
        assert history.machine.pending == {}
        history.decide("agent", decision)
        assert (history.machine.error or {}).get("info", {}).get("cause") == reason
    history = conversing(budget={"maxCost": 0})
    assert isinstance(history.decide("agent").effect("agent"), CallModel)


def test_a_paused_agent_requests_nothing() -> None:
    """Neither calls nor models, until the run is resumed; then it goes on where it stood."""
    history = conversing().pause().succeed("agent", calls("look"))
    assert (history.machine.status, history.machine.pending) == ("interrupted", {})
    history.resume().pause().succeed("agent", 1)
    assert (history.machine.status, history.machine.pending) == ("interrupted", {})
    assert results_of(history.resume()) == [("c0", "1")]


def test_a_crash_in_round_seven_goes_on_in_round_seven() -> None:
    """A fold of the stored journal has the same effects pending, and takes the same outcomes."""
    history = conversing()
    for number in range(6):
        history.succeed("agent", calls("look", "look", n=number)).succeed("agent", number).succeed("agent", "x")
    history.succeed("agent", calls("pay", "look"))
    again = fold(history.machine.plan, [decode_entry(encode_entry(entry)) for entry in history.entries])
    assert again.pending == history.machine.pending
    assert again.interrupts == history.machine.interrupts
    assert again.root.loops[1].rounds == 7


# Records


def test_messages_and_usage_are_recorded() -> None:
    """What the person, the agent and its tools said, and each answer's cost; a fold gives none again."""
    usage = {"model": "m", "inputTokens": 3, "outputTokens": 2, "calls": 1, "durationMs": 9}
    history = conversing().succeed("agent", calls("look", text="hm"), usage=usage).succeed("agent", "seen")
    history.succeed("agent", "bye")
    said = [(r.type, r.id, r.content, r.skill_id) for r in history.records if isinstance(r, MessageRecord)]
    assert said == [
        ("human", "run-1:agent:1.0", "hi", 1), ("ai", "run-1:agent:1.1:1", "hm", 1),
        ("tool", "run-1:agent:1.2", "seen", 1), ("ai", "run-1:agent:1.3:1", "bye", 1),
    ]  # fmt: skip
    (cost,) = [r for r in history.records if isinstance(r, UsageRecord)]
    assert cost == UsageRecord("m", 1, "agent", 3, 2, 1, 9, (), history.at)
    assert fold(history.machine.plan, history.entries).take_records() == []


def test_calls_without_a_result_are_recorded_as_given_up() -> None:
    """However a round ends, each of its calls has one tool message in the conversation."""
    history = conversing().succeed("agent", calls("look", "pay", "ask_expert")).open("agent", {}, step=4)
    history.succeed("agent/agent", CONTEXT).succeed("agent/agent", calls("look")).cancel()
    answered = [(r.path, r.tool_call_id) for r in history.records if isinstance(r, MessageRecord) and r.type == "tool"]
    assert sorted(answered) == [((), "c0"), ((), "c1"), ((), "c2"), (("agent",), "c0")]


def test_messages_of_a_child_that_is_opened_again_are_others() -> None:
    """Keys of effects are the same in the second attempt of a child; ids of messages never are."""
    call = {"toolId": "core.workflow", "params": {"workflowId": 2}, "retry": {"maxAttempts": 2}}
    history = History(sketch("s -> call", call=call), children={2: skill_plan(2)})
    keys = []
    for _ in range(2):
        history.open("call", {}).succeed("call/agent", CONTEXT)
        keys.append(history.effect("call/agent").key)
        history.succeed("call/agent", calls("look", "pay")).decide("call/agent").succeed("call/agent", 1)
        history.succeed("call/agent", 1).fail("call/agent")
    names = [record.id for record in history.records]
    assert keys[0] == keys[1]
    assert len(set(names)) == len(names) == 8


def test_an_agent_without_a_skill_records_its_usage_alone() -> None:
    """It has no conversation."""
    history = History(sketch("s -> a", a={"type": "agent", "message": "x"}))
    history.succeed("a", "y", usage={"model": "m", "inputTokens": 1})
    assert history.records == [UsageRecord("m", None, "a", 1, at=history.at)]


def test_a_tool_whose_schema_is_unusable_takes_what_it_is_given() -> None:
    """A gated tool with an invalid parameter schema is held for approval; the tool itself refuses wrong arguments."""
    broken = {**TOOLS[1], "parameters": {"type": "nonsense"}}
    history = conversing(tools=[broken]).succeed("agent", calls("pay", sum=1))
    assert history.waiting("agent").tool_call_id == "c0"


def test_a_new_turn_while_a_context_is_composed() -> None:
    """A new turn narrows the contexts that exist; one that is still composed gets the config of that turn anyway."""
    agent = {"type": "agent", "agent_id": 2, "message": "hi"}
    history = History(sketch("s -> g", "s -> w", g=agent, w={"type": "humanApproval"})).decide("w")
    assert isinstance(history.effect("g"), ComposeContext)


# What each effect carries

SCHEMA: dict[str, Any] = {"type": "object"}
CONFIG = {"guardrails": ["redact-emails"], "model": "small"}
ATTACHED = {"images": [{"storageKey": "k", "mimeType": "image/png", "name": "a.png"}], "documents": []}


def test_the_call_of_an_agent_without_a_context() -> None:
    """It has everything that the node declares, and what the turn takes away."""
    data = {
        "type": "agent", "message": "go", "model": "m", "modelSettings": {"reasoningEffort": "low"},
        "outputSchema": SCHEMA,
        "tool_restrictions": ["web.look"], "timeoutSeconds": 9, "instructions": ["be kind", "be brief"],
    }  # fmt: skip
    info = {"config": CONFIG, "streamProtocolVersion": 2, "attachments": ATTACHED}
    effect = History(sketch("s -> a", a=data), info=info).effect("a")
    assert isinstance(effect, CallModel)
    system, human = effect.messages
    assert system == {"type": "system", "content": "be kind\nbe brief"}
    assert (human["type"], human["content"]) == ("human", "go")
    assert human["attachments"]["images"][0]["storageKey"] == "k"
    assert (effect.address, effect.attempt, effect.key, effect.agent_id) == ((1, 1, 0), 1, "run-1:a:1", None)
    assert (effect.model, effect.settings, effect.output_schema) == ("m", {"reasoningEffort": "low"}, SCHEMA)
    assert (effect.tool_restrictions, effect.timeout) == (["web.look"], 9)
    assert (effect.guardrails, effect.replaceable) == (["redact-emails"], True)
    plain = History(sketch("s -> a", a={"type": "agent", "message": "go"})).effect("a")
    assert isinstance(plain, CallModel)
    assert (plain.guardrails, plain.replaceable, plain.messages) == ((), False, ({"type": "human", "content": "go"},))


def test_the_context_and_the_calls_of_a_skill() -> None:
    """The time limit and the output schema of the node hold for both; the schema of the context comes first."""
    data = {"type": "agent", "agent_id": 1, "message": "go", "outputSchema": SCHEMA, "timeoutSeconds": 9}
    history = History(sketch("s -> agent", agent=data), info={"userContext": {"userId": "grace"}})
    composing = history.effect("agent")
    assert isinstance(composing, ComposeContext)
    assert (composing.output_schema, composing.timeout, composing.user_context) == (SCHEMA, 9, {"userId": "grace"})
    history.succeed("agent", CONTEXT)
    effect = history.effect("agent")
    assert isinstance(effect, CallModel)
    assert (effect.output_schema, effect.timeout, effect.agent_id) == (SCHEMA, 9, 1)
    other = {"type": "object", "title": "of the context"}
    narrowed = conversing(outputSchema=other).effect("agent")
    assert isinstance(narrowed, CallModel)
    assert narrowed.output_schema == other
    (call,) = history.succeed("agent", calls("look")).pending("agent")
    assert isinstance(call, CallTool)
    assert (call.end_user_id, call.skill_id, call.call_id, call.agent) == ("grace", 1, "c0", True)
