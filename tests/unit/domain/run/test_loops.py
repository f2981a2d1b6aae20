"""The nesting of cycles: which edges close one, and which nodes are in it."""

from wfcore.domain.run.loops import loops_within, nesting
from wfcore.domain.run.plan import compile_plan
from wfcore.testing.histories import sketch


def bodies(count: int, edges: list[tuple[int, int]]) -> dict[int, tuple[set[int], int]]:
    """Head to the nodes directly in its cycle and the head of the cycle around it (-1 for none)."""
    nest = nesting(count, 0, edges)
    return {
        loop.head: (set(loop.nodes), nest.loops[loop.parent].head if loop.parent >= 0 else -1) for loop in nest.loops
    }


def test_a_graph_without_cycles_has_none() -> None:
    """Edges across and forward close nothing."""
    nest = nesting(4, 0, [(0, 1), (0, 2), (1, 3), (2, 3), (2, 1)])
    assert (nest.closing, nest.loops, nest.innermost) == (frozenset(), (), (-1,) * 4)


def test_a_cycle_is_what_reaches_its_closing_edge() -> None:
    """The exit of a cycle is not in it, nor is what leads to it."""
    edges = [(0, 1), (1, 2), (2, 3), (3, 1), (3, 4)]
    assert bodies(5, edges) == {1: ({1, 2, 3}, -1)}
    assert nesting(5, 0, edges).closing == {3}


def test_cycles_nest() -> None:
    """A node belongs to its innermost cycle; its parent is the one around it."""
    edges = [(0, 1), (1, 2), (2, 3), (3, 2), (3, 4), (4, 1), (4, 5)]
    assert bodies(6, edges) == {2: ({2, 3}, 1), 1: ({1, 4}, -1)}
    nest = nesting(6, 0, edges)
    assert [nest.innermost[node] for node in (3, 4, 5)] == [0, 1, -1]


def test_cycles_beside_each_other_are_apart() -> None:
    """Neither is around the other."""
    edges = [(0, 1), (1, 2), (2, 1), (2, 3), (3, 4), (4, 3)]
    assert bodies(5, edges) == {1: ({1, 2}, -1), 3: ({3, 4}, -1)}


def test_cycles_with_one_head_are_one() -> None:
    """Two closing edges to one node make one cycle of both bodies."""
    assert bodies(4, [(0, 1), (1, 2), (2, 1), (1, 3), (3, 1)]) == {1: ({1, 2, 3}, -1)}


def test_a_node_alone_can_be_a_cycle() -> None:
    """An edge from a node to itself closes a cycle of one."""
    assert bodies(3, [(0, 1), (1, 1), (1, 2)]) == {1: ({1}, -1)}


def test_what_the_start_does_not_reach_is_left_out() -> None:
    """Edges of unreached nodes close nothing."""
    assert bodies(4, [(0, 1), (2, 3), (3, 2), (3, 1)]) == {}


def test_a_cycle_with_two_entries_is_found_from_the_first() -> None:
    """Entered beside its head too, a cycle still has the head that the walk met first, and its entry stays
    out.
    """
    nest = nesting(4, 0, [(0, 1), (0, 2), (1, 2), (2, 1)])
    assert [nest.loops[0].head, nest.closing] == [1, {3}]


def test_an_edge_leaves_the_outermost_cycle_that_it_leads_out_of() -> None:
    """From the inner cycle to the end, both are left; to the outer cycle's part, the inner one alone."""
    again = {"type": "condition", "branches": [{"handle": "again", "when": "true"}]}
    plan = compile_plan(
        sketch("s -> a", "a -> b", "b -again-> b", "b -else-> c", "b -else-> x", "c -again-> a", b=again, c=again)
    )
    heads = {
        (plan.nodes[edge.source].id, plan.nodes[edge.target].id): plan.nodes[plan.loops[edge.leaves].head].id
        for node in plan.nodes
        for edge in node.outgoing
        if edge.leaves >= 0
    }
    assert heads == {("b", "c"): "b", ("b", "x"): "a"}
    assert [plan.nodes[loop.head].id for loop in plan.loops] == ["b", "a"]
    assert loops_within(plan.loops, 1) == [1, 0]


def test_deep_nests_are_joined() -> None:
    """Cycles within cycles within cycles, of which the outer ones close behind a chain of inner heads."""
    edges = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 4), (5, 3), (5, 2), (5, 1), (5, 6)]
    assert bodies(7, edges) == {4: ({4, 5}, 3), 3: ({3}, 2), 2: ({2}, 1), 1: ({1}, -1)}
