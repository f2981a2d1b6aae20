"""The `message` of a resume (interface, Resume a run): what the user says reaches the agents that are under way."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wfcore.domain.run.effects import CallModel
from wfcore.domain.run.entries import Decision, Resumed
from wfcore.domain.run.plan import skill_plan
from wfcore.domain.run.records import MessageRecord
from wfcore.testing.histories import ANN, History, sketch

GATED = {"name": "pay", "toolId": "pay", "requiresApproval": True}
CONTEXT = {"model": "m", "human": {"content": "hi"}, "tools": [GATED, {"name": "look", "toolId": "look"}]}


def before_the_first_call() -> History:
    """A run of a skill whose model is about to be called."""
    return History(skill_plan(1), info={"message": "hi"}).succeed("agent", CONTEXT)


def calls(*names: str, text: str = "") -> dict[str, Any]:
    return {"text": text, "toolCalls": [{"id": f"c{n}", "name": name, "args": {}} for n, name in enumerate(names)]}


def resume(history: History, message: str, decision: str | None = None) -> History:
    """The next turn says this, and answers the oldest open interrupt where there is a decision."""
    answers = (Decision(next(iter(history.machine.interrupts)), decision),) if decision else ()
    number = sum(isinstance(entry, Resumed) for entry in history.entries) + 2
    return history.apply(Resumed(history.at, f"run-{number}", ANN, answers, {"message": message}))


def shown(history: History) -> list[tuple[str, str]]:
    """Type and text of what the model gets beside its context."""
    effect = history.effect("agent")
    assert isinstance(effect, CallModel)
    return [(str(m["type"]), str(m["content"])) for m in effect.transcript]


def kept(history: History) -> list[tuple[str, str]]:
    """Type and text of what became the conversation."""
    return [(one.type, one.content) for one in history.records if isinstance(one, MessageRecord)]


@pytest.mark.parametrize(("decision", "result"), [("approve", '"paid"'), ("deny", "error: the call was denied")])
def test_it_follows_the_results(decision: str, result: str) -> None:
    """The model gets the results of its calls, then what the user said; the conversation has both, once."""
    history = resume(before_the_first_call().succeed("agent", calls("pay")), "and hurry", decision)
    if decision == "approve":
        history.succeed("agent", "paid")
    received = shown(history)
    assert [kind for kind, _ in received] == ["ai", "tool", "human"]
    assert received[1][1].startswith(result.strip('"'))
    assert received[2] == ("human", "and hurry")
    assert kept(history) == [("human", "hi"), *received]
    assert history.succeed("agent", "so I do").machine.output == "so I do"


def test_a_paused_agent_gets_the_message_too() -> None:
    """A run that was parked by hand before its model was called goes on with what the user added."""
    history = before_the_first_call().succeed("agent", calls("look")).pause().succeed("agent", "seen")
    assert history.machine.status == "interrupted"
    assert shown(resume(history, "look twice"))[-1] == ("human", "look twice")


def test_an_answer_under_way_is_followed_by_another() -> None:
    """Who speaks while the model answers is answered in the next round; nothing that was said is lost."""
    graph = sketch("s -> agent", "s -> ok", agent={"type": "agent", "agent_id": 1, "message": "hi"},
                   ok={"type": "humanApproval"})  # fmt: skip
    history = resume(History(graph).succeed("agent", CONTEXT), "wait", "approve")
    assert shown(history) == []
    assert shown(history.succeed("agent", "first")) == [("ai", "first"), ("human", "wait")]
    assert history.succeed("agent", "second").machine.output["agent"] == "second"


def test_its_attachments_come_with_it() -> None:
    """Images and documents of the turn stand beside the message, for the model and in the conversation."""
    history = before_the_first_call().succeed("agent", calls("pay"))
    answer = Decision(next(iter(history.machine.interrupts)), "deny")
    image = {"storageKey": "k", "mimeType": "image/png", "name": "a.png"}
    info = {"message": "see", "attachments": {"images": [image], "documents": []}}
    history.apply(Resumed(history.at, "run-2", ANN, (answer,), info))
    assert history.effect("agent").transcript[-1]["attachments"]["images"][0]["storageKey"] == "k"  # type: ignore[union-attr]
    assert isinstance(history.records[-1], MessageRecord)
    assert history.records[-1].attachments


def test_without_an_agent_under_way_it_is_what_expressions_read() -> None:
    """It stays `run.message`."""
    later = {"toolId": "core.transform", "params": {"value": "{{ run.message }}"}}
    history = History(sketch("s -> ok", "ok -approved-> a", ok={"type": "humanApproval"}, a=later))
    assert resume(history, "go", "approve").machine.output == "go"


@given(st.data())
def test_every_call_is_answered_once_whatever_is_said(data: st.DataObject) -> None:
    """However calls, results, approvals, pauses and messages alternate: at each round the model is shown every call
    with exactly one result behind it and before anything else, and all that the user had said by then, once, in order.
    """
    history, said = before_the_first_call(), list[str]()
    said_before: dict[Any, list[str]] = {}
    for step in range(data.draw(st.integers(1, 12))):
        machine = history.machine
        if machine.ended:
            break
        moves = (["outcome"] if machine.pending else []) + (["answer"] if machine.interrupts else [])
        moves += ["pause"] if machine.turn_open and not machine.paused else []
        moves += ["go on"] if not machine.turn_open and machine.paused else []
        move = data.draw(st.sampled_from(moves))
        if move == "outcome":
            effect = data.draw(st.sampled_from(list(machine.pending.values())))
            some = data.draw(st.lists(st.sampled_from(["pay", "look"]), max_size=3))
            calls_tools = isinstance(effect, CallModel) and some
            history.succeed("agent", calls(*some) if calls_tools else "text", step=effect.address[-1])
        elif move == "pause":
            history.pause()
        else:
            said.append(f"said {step}")
            resume(history, said[-1], data.draw(st.sampled_from(["approve", "deny"])) if move == "answer" else None)
        for effect in history.machine.pending.values():
            if isinstance(effect, CallModel):
                whole(effect)
                received = [m["content"] for m in effect.transcript if m["type"] == "human"]
                assert received == said_before.setdefault(effect.address, list(said))
    names = [one.id for one in history.records if isinstance(one, MessageRecord)]
    assert len(names) == len(set(names))


def whole(effect: CallModel) -> None:
    """Behind each `ai` message stand the results of its calls, each once, and nothing between."""
    left: list[Any] = []
    for message in effect.transcript:
        if message["type"] == "tool":
            left.remove(message["toolCallId"])
        else:
            assert not left
            left = [call["id"] for call in message.get("toolCalls", ())]
    assert not left
