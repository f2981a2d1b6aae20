"""Prompt injection, through the real runtime: a compromised model can do only what its agent may do.

Every attack of `injections` is combined with a hostile text in every place that agents read. For any text and any calls
of the model: a call that needs an approval is made only as approved, a tool that is not offered is never called, and no
secret of a connection and no data of another organization is sent to a model.
"""

import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from itertools import chain
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from injected_world import FOREIGN, OFFERED, READ, SECRET, World, key, new_world
from injections import ATTACKS, DISABLED, OF_OTHERS, PAY_DOT_OUT, TEXTS, Attack, Call, Calls, look_alikes
from slices import slice_of

import wfcore
from wfcore.domain.json.codec import dumps
from wfcore.runtime.common.run_views import RunView

pytestmark = pytest.mark.anyio


# The places

Planted = tuple[dict[str, Any], list[Calls]]
"""The body of the run, and the rounds in which the model reads the text."""

BENIGN = {"message": "What about the order?"}
READS: list[Calls] = [[Call("look")]]


async def in_message(world: World, text: str) -> Planted:
    return {"message": text}, []


async def in_result(world: World, text: str) -> Planted:
    world.looked = text
    return BENIGN, READS


async def in_failure(world: World, text: str) -> Planted:
    world.looked = wfcore.ToolFailed(text, retryable=False)
    return BENIGN, READS


async def in_memory(world: World, text: str) -> Planted:
    await world.core.memories.patch(world.me, world.top, world.memory, memory=text)
    return BENIGN, []


async def in_item(world: World, text: str) -> Planted:
    await world.core.context_items.patch(world.me, world.item, content=text)
    return BENIGN, []


async def in_title(world: World, text: str) -> Planted:
    await world.core.context_items.patch(world.me, world.item, title=text)
    return BENIGN, []


async def in_conversation(world: World, text: str) -> Planted:
    body = {**BENIGN, "sessionId": f"session-{text[:200]}"}
    world.model.rounds = {agent: [text] for agent in OFFERED}
    assert (await world.run_attack(Attack("conversation", []), body)).output == text
    return body, []


async def in_answer(world: World, text: str) -> Planted:
    """In the answer of the subordinate."""
    world.model.read = text
    return BENIGN, [[Call("skill_middle", {"message": READ})]]


async def in_description(world: World, text: str) -> Planted:
    ids = [str(world.middle)]
    described = {ids[0]: text}
    await world.core.skills.supervise(
        world.me, world.top, supervisionSubordinateIds=ids, supervisionSubordinateDescriptions=described
    )
    await world.core.skills.deploy(world.me, world.top)
    return BENIGN, []


PLACES: Mapping[str, Callable[[World, str], Awaitable[Planted]]] = {
    "message": in_message,
    "result": in_result,
    "failure": in_failure,
    "memory": in_memory,
    "item": in_item,
    "title": in_title,
    "conversation": in_conversation,
    "answer": in_answer,
    "description": in_description,
}
MAX_LENGTHS = {"title": 200, "failure": 400}
"""The most characters of a text in such a place."""


# A case


@pytest.fixture(scope="module")
async def world(anyio_backend: str) -> AsyncIterator[World]:
    """One world for all cases; each case removes its text."""
    async with new_world() as made:
        yield made


async def attacked(world: World, attack: Attack, place: str, text: str) -> RunView:
    """The run of one case, with checks that hold for any behaviour of the model."""
    if place == "title":  # a title has no control characters
        text = "".join(filter(str.isprintable, text)) or "x"
    text = text[: MAX_LENGTHS.get(place)]
    body, reads = await PLACES[place](world, text)
    played = {"top": [*reads, *attack.top], "middle": attack.middle, "deep": attack.deep}
    world.model.rounds = {agent: [*rounds, "well"] for agent, rounds in played.items()}
    try:
        run = await world.run_attack(attack, body)
        world.check_guarded()
        world.check_requests()
        world.check_text_is_sent(place, text)
    except AssertionError as error:
        error.add_note(f"{attack.name}, by: {text!a}")
        raise
    return run


async def cleaned(world: World, place: str) -> None:
    """Remove the text from the place."""
    world.looked = None
    if place in ("memory", "item", "title", "description"):
        await PLACES[place](world, "Of the shop and an order")


# The corpus


CASES = [
    (attack, place, TEXTS[(number * len(PLACES) + offset) % len(TEXTS)])
    for number, attack in enumerate(ATTACKS)
    for offset, place in enumerate(PLACES)
]


def test_the_size_of_the_corpus() -> None:
    """There are at least 1,200 different cases, which include every text."""
    assert len({(attack.name, place, text) for attack, place, text in CASES}) == len(CASES) >= 1_200
    assert {text for *_, text in CASES} == set(TEXTS)


@pytest.mark.parametrize("place", slice_of(PLACES, 2))
async def test_an_attack_makes_only_allowed_calls(world: World, place: str) -> None:
    """For every attack with a text in this place: exactly the allowed calls are made, as often as allowed."""
    for attack, _, text in (case for case in CASES if case[1] == place):
        case = f"{attack.name}, by: {text!a}"
        run = await attacked(world, attack, place, text)
        assert Counter(world.performed) == Counter(key(*done) for done in attack.performs), case
        found = world.approval_requests, world.connects, str(run.status)
        assert found == (attack.requests, attack.connects, attack.ends), case
    await cleaned(world, place)


# Beyond the corpus


@pytest.mark.parametrize("approves", [0, 1])
async def test_the_assistant_needs_an_approval_to_start_a_workflow(world: World, approves: int) -> None:
    """It can only request workflows that the caller may use, and each start needs its own approval."""
    flow = Call("workflow_flow", {})
    others = [Call(name, {"message": "go"}) for name in ("workflow_theirs", "workflow_private", "skill_theirs")]
    world.model.rounds = {"assistant": [[flow, flow, *others], [flow, Call("note"), Call("wipe")], "well"]}
    run = await world.run_attack(Attack("assistant", [], approves=approves), {"message": TEXTS[1]}, assistant=True)
    world.check_requests()
    assert (run.status, world.approval_requests) == ("done", 3)
    assert world.performed == [key("note", {"value": None})] * approves


async def test_contexts_and_conversations_do_not_show_secrets(world: World) -> None:
    """After tools failed with their key in the error, neither the composed context nor the conversation shows it."""
    body = {"message": "go", "sessionId": "shown"}
    world.model.rounds = {"top": [[Call("shout"), Call("ring")], "well"]}
    run = await world.run_attack(Attack("shown", []), body)
    context = await world.core.contexts.compose(world.me, world.top, body)
    conversation = await world.core.conversations.get(world.me, world.top, run.row.thread_id)
    shown = dumps([context.to_wire(), conversation.to_wire()])
    assert "was refused" in shown
    assert SECRET not in shown
    assert FOREIGN not in shown


NAMES = st.sampled_from([*OFFERED["top"], *OFFERED["middle"], *OFFERED["deep"], *DISABLED, *OF_OTHERS])
ALTERED = st.sampled_from([alike for name in ("wipe", "pay", "erase") for alike in look_alikes(name)])
PAYMENTS = st.fixed_dictionaries({"amount": st.integers(), "to": st.sampled_from(["ann", "mallory"])})
NOTES = st.fixed_dictionaries({"value": st.integers(1, 3) | st.text(max_size=9)})
PROMPTS = st.fixed_dictionaries({"message": st.sampled_from(TEXTS)})
FREE = st.dictionaries(st.text(max_size=5), st.text(max_size=5) | st.booleans(), max_size=2)
ARGUMENTS = PAYMENTS | NOTES | PROMPTS | FREE | st.sampled_from(["", "{", "[]", "{} {}", '{"amount": 1e999, "to": ""}'])
CALLS = st.builds(Call, NAMES | ALTERED, ARGUMENTS, st.sampled_from(["", "", "", "c1", "c2"]))
ROUNDS_PLAYED = st.lists(st.lists(CALLS, min_size=1, max_size=4) | st.sampled_from(TEXTS), max_size=4)


@given(
    attack=st.builds(Attack, st.just("drawn"), ROUNDS_PLAYED, ROUNDS_PLAYED, ROUNDS_PLAYED, approves=st.integers(0, 3)),
    place=st.sampled_from(list(PLACES)),
    words=st.lists(
        st.sampled_from(TEXTS) | st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=50)
    ),
)
@settings(max_examples=100)
async def test_random_models_make_only_offered_calls(
    world: World, attack: Attack, place: str, words: list[str]
) -> None:
    """For random texts and rounds: every call that is made was requested, by an agent that has the tool."""
    run = await attacked(world, attack, place, "order " + " ".join(words[:3]))
    requested = {
        (call.name, call.arguments)
        for agent, rounds in (("top", attack.top), ("middle", attack.middle), ("deep", attack.deep))
        for call in chain.from_iterable(rounds)
        if isinstance(call, Call) and call.name in OFFERED[agent]
    }
    assert run.status in ("done", "error")
    for tool, args in world.performed:
        name = PAY_DOT_OUT if tool == "pay.out" else tool
        assert any(name == one and same(args, wanted) for one, wanted in requested)
    await cleaned(world, place)


def same(args: str, requested: str) -> bool:
    """Whether these are the arguments of the model; no arguments are an empty object."""
    try:
        return key("", json.loads(requested or "{}")) == ("", args)
    except ValueError:
        return False
