"""Prompt injection, through the real runtime: a model that was taken over can do what its agent may do, no more.

Every attack of `injections` comes with a hostile text from every place that agents read. Whatever the text says and the
model then does: what needs an approval is done only as it was approved, what is not offered never; and no secret of a
connection, and nothing of another organization, gets into what a model is sent.
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
from injections import ATTACKS, DISABLED, OF_OTHERS, PAY_DOT_OUT, TEXTS, Asked, Attack, Calls, look_alikes

import wfcore
from wfcore.domain.json.codec import dumps
from wfcore.runtime.runs.runs import RunView

pytestmark = pytest.mark.anyio


# The places

Planted = tuple[dict[str, Any], list[Calls]]
"""The body of the run, and rounds in which the model goes and reads the text."""

BENIGN = {"message": "What about the order?"}
READS: list[Calls] = [[Asked("look")]]


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
    assert (await world.suffer(Attack("talk", []), body)).output == text
    return body, []


async def in_answer(world: World, text: str) -> Planted:
    """Of the subordinate."""
    world.model.read = text
    return BENIGN, [[Asked("skill_middle", {"message": READ})]]


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
ROOM = {"title": 200, "failure": 400}
"""Characters of a text that such a place takes."""


# A case


@pytest.fixture(scope="module")
async def world(anyio_backend: str) -> AsyncIterator[World]:
    """One for all cases; each cleans up the place where its text stood."""
    async with new_world() as made:
        yield made


async def attacked(world: World, attack: Attack, place: str, text: str) -> RunView:
    """The run of one case, with everything checked that holds whatever the model does."""
    text = text[: ROOM.get(place)]
    body, reads = await PLACES[place](world, text)
    played = {"top": [*reads, *attack.top], "middle": attack.middle, "deep": attack.deep}
    world.model.rounds = {agent: [*rounds, "well"] for agent, rounds in played.items()}
    try:
        run = await world.suffer(attack, body)
        world.check_guarded()
        world.check_requests()
        world.check_told(place, text)
    except AssertionError as error:
        error.add_note(f"{attack.name}, by: {text!a}")
        raise
    return run


async def cleaned(world: World, place: str) -> None:
    """Nothing of the text stays in the place."""
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
    """At least 1,000 different cases, with every text in them."""
    assert len({(attack.name, place, text) for attack, place, text in CASES}) == len(CASES) >= 1_200
    assert {text for *_, text in CASES} == set(TEXTS)


@pytest.mark.parametrize("place", PLACES)
async def test_nothing_comes_of_an_attack_but_what_was_allowed(world: World, place: str) -> None:
    """Every attack, set off by a text in this place: the very calls that are allowed are made, as often as allowed."""
    for attack, _, text in (case for case in CASES if case[1] == place):
        case = f"{attack.name}, by: {text!a}"
        run = await attacked(world, attack, place, text)
        assert Counter(world.performed) == Counter(key(*done) for done in attack.performs), case
        came = world.asked, world.connects, str(run.status)
        assert came == (attack.asks, attack.connects, attack.ends), case
    await cleaned(world, place)


# Beyond the corpus


@pytest.mark.parametrize("approves", [0, 1])
async def test_the_assistant_starts_no_workflow_by_itself(world: World, approves: int) -> None:
    """It can ask for the workflows of the caller alone, and each start of one takes an approval of its own."""
    flow = Asked("workflow_flow", {})
    others = [Asked(name, {"message": "go"}) for name in ("workflow_theirs", "workflow_private", "skill_theirs")]
    world.model.rounds = {"assistant": [[flow, flow, *others], [flow, Asked("note"), Asked("wipe")], "well"]}
    run = await world.suffer(Attack("assistant", [], approves=approves), {"message": TEXTS[1]}, assistant=True)
    world.check_requests()
    assert (run.status, world.asked) == ("done", 3)
    assert world.performed == [key("note", {"value": None})] * approves


async def test_what_is_shown_of_a_context_and_a_conversation_has_no_secret(world: World) -> None:
    """After tools have failed with their key in the error: neither the preview nor the conversation shows it."""
    body = {"message": "go", "sessionId": "shown"}
    world.model.rounds = {"top": [[Asked("shout"), Asked("ring")], "well"]}
    run = await world.suffer(Attack("shown", []), body)
    context = await world.core.contexts.compose(world.me, world.top, body)
    talk = await world.core.conversations.get(world.me, world.top, run.row.thread_id)
    shown = dumps([context.to_wire(), talk.to_wire()])
    assert "was refused" in shown
    assert SECRET not in shown
    assert FOREIGN not in shown


NAMES = st.sampled_from([*OFFERED["top"], *OFFERED["middle"], *OFFERED["deep"], *DISABLED, *OF_OTHERS])
ALTERED = st.sampled_from([alike for name in ("wipe", "pay", "erase") for alike in look_alikes(name)])
PAYMENTS = st.fixed_dictionaries({"amount": st.integers(), "to": st.sampled_from(["ann", "mallory"])})
NOTES = st.fixed_dictionaries({"value": st.integers(1, 3) | st.text(max_size=9)})
TOLD = st.fixed_dictionaries({"message": st.sampled_from(TEXTS)})
FREE = st.dictionaries(st.text(max_size=5), st.text(max_size=5) | st.booleans(), max_size=2)
ARGUMENTS = PAYMENTS | NOTES | TOLD | FREE | st.sampled_from(["", "{", "[]", "{} {}", '{"amount": 1e999, "to": ""}'])
CALLS = st.builds(Asked, NAMES | ALTERED, ARGUMENTS, st.sampled_from(["", "", "", "c1", "c2"]))
ROUNDS_PLAYED = st.lists(st.lists(CALLS, min_size=1, max_size=4) | st.sampled_from(TEXTS), max_size=4)


@given(
    attack=st.builds(Attack, st.just("drawn"), ROUNDS_PLAYED, ROUNDS_PLAYED, ROUNDS_PLAYED, approves=st.integers(0, 3)),
    place=st.sampled_from(list(PLACES)),
    words=st.lists(
        st.sampled_from(TEXTS) | st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=50)
    ),
)
@settings(max_examples=100)
async def test_whatever_the_model_does_it_is_allowed_to(
    world: World, attack: Attack, place: str, words: list[str]
) -> None:
    """Drawn texts and rounds of calls: all that is called was asked for as it is called, and offered to who asked."""
    run = await attacked(world, attack, place, "order " + " ".join(words[:3]))
    asked = {
        (call.name, call.arguments)
        for agent, rounds in (("top", attack.top), ("middle", attack.middle), ("deep", attack.deep))
        for call in chain.from_iterable(rounds)
        if isinstance(call, Asked) and call.name in OFFERED[agent]
    }
    assert run.status in ("done", "error")
    for tool, args in world.performed:
        name = PAY_DOT_OUT if tool == "pay.out" else tool
        assert any(name == one and same(args, wanted) for one, wanted in asked)
    await cleaned(world, place)


def same(args: str, asked: str) -> bool:
    """Whether these are the arguments that the model wrote; a tool that takes none is told of none."""
    try:
        return key("", json.loads(asked or "{}")) == ("", args)
    except ValueError:
        return False
