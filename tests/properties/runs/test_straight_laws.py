"""Straight segments: the machine goes through them as it goes through any other part of a graph."""

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st
from test_run_laws import observe
from worlds import Structure, World, structured, worlds

from wfcore.domain.run.effects import CallTool
from wfcore.domain.run.entries import Succeeded
from wfcore.domain.run.machine.entries.straight import calls_after, go_straight, params_of
from wfcore.domain.run.machine.machine import Machine
from wfcore.domain.run.plan import Plan, compile_plan

PARAMS = ({}, {"x": 1}, {"x": "{{ nodes.n1.output }}"}, {"x": "{{ nodes.n1.output.unknown }}"}, "{{ null }}")


@st.composite
def calls(draw: st.DrawFn) -> Structure:
    """Calls of tools, most after one other: with parameters that can fail, error edges, joins and several ends."""
    count = draw(st.integers(2, 8))
    nodes: list[Structure] = [{"id": "n0", "type": "start"}]
    edges: list[Structure] = []
    for index in range(1, count):
        data = {"toolId": "tool", "params": draw(st.sampled_from(PARAMS))}
        if draw(st.integers(0, 4)) == 0:
            data |= {"retry": {"maxAttempts": 2}, "timeoutSeconds": 3}
        nodes.append({"id": f"n{index}", "type": "action", "data": data})
        sources = {
            max(draw(st.integers(index - 2, index - 1)), 0),
            *draw(st.sets(st.integers(0, index - 1), max_size=1)),
        }
        for source in sources if draw(st.integers(0, 3)) == 0 else [index - 1]:
            handle = {"sourceHandle": "error"} if source and draw(st.integers(0, 4)) == 0 else {}
            edges.append({"id": f"e{len(edges)}", "source": f"n{source}", "target": f"n{index}", **handle})
    return {"nodes": nodes, "edges": draw(st.permutations(edges))}


def without_segments(plan: Plan) -> Plan:
    return attrs.evolve(plan, straight=(-1,) * len(plan.nodes))


@settings(max_examples=60)
@given(worlds(calls() | structured(loops=False)))
def test_a_segment_is_gone_through_as_any_other_part(world: World) -> None:
    """Each entry leads to the same state, the same effects and the same events."""
    slow = Machine(without_segments(world.machine.plan), [])
    world.run()
    again = Machine(compile_plan(world.structure), [])
    shown = []
    for entry in world.entries:
        slow.apply(entry)
        again.apply(entry)
        assert observe(again) == observe(slow)
        assert again.pending == slow.pending
        shown += slow.take_events()
    assert shown == world.events


@settings(max_examples=30)
@given(worlds(calls()), st.integers(0, 2**6 - 1))
def test_whoever_goes_straight_reaches_the_state_of_the_others(world: World, watched: int) -> None:
    """`go_straight` either does what `apply` does, with or without an observer, or changes nothing."""
    world.run()
    slow, fast = Machine(without_segments(world.machine.plan)), Machine(world.machine.plan)
    for number, entry in enumerate(world.entries):
        fast.sink = [] if watched >> number % 6 & 1 else None
        before = observe(fast)
        slow.apply(entry)
        if not isinstance(entry, Succeeded) or not go_straight(fast.state, [entry]):
            assert observe(fast) == before
            fast.apply(entry)
        assert observe(fast) == observe(slow)


@settings(max_examples=60)
@given(worlds(calls() | structured(loops=False)), st.lists(st.integers(1, 5), min_size=1, max_size=4), st.booleans())
def test_many_entries_are_folded_as_each_of_them(world: World, counts: list[int], watched: bool) -> None:
    """Whatever a fold begins and ends with."""
    world.run()
    plan = world.machine.plan
    slow, fast = (Machine(one, [] if watched else None) for one in (without_segments(plan), plan))
    done = number = 0
    while done < len(world.entries):
        some = world.entries[done : done + counts[number % len(counts)]]
        for entry in some:
            slow.apply(entry)
        fast.fold(some)
        assert observe(fast) == observe(slow)
        assert fast.pending == slow.pending
        assert fast.take_events() == slow.take_events()
        done, number = done + len(some), number + 1


@settings(max_examples=60)
@given(worlds(calls()), st.integers(0, 100))
def test_what_is_known_in_advance_happens(world: World, place: int) -> None:
    """If each call has a result, the calls are those that `calls_after` has announced."""
    world.run()
    machine = Machine(without_segments(world.machine.plan))
    for entry in world.entries[: place % len(world.entries) + 1]:
        machine.apply(entry)
    for effect in list(machine.pending.values()):
        ahead, known = machine.copy(), machine.copy()
        known.state.root.plan = ahead.state.root.plan = world.machine.plan
        address, attempt = effect.address, effect.attempt
        for then, visit in calls_after(known.state, address):
            ahead.apply(Succeeded(machine.at, *address, attempt, {}))
            following = then.index, visit, 0
            call = ahead.pending[following]
            assert isinstance(call, CallTool)
            assert (call.attempt, call.tool, call.params, call.timeout) == (
                1, then.tool, params_of(then).value, then.timeout,
            )  # fmt: skip
            address, attempt = following, 1
