"""How a run moves along the edges: joins, dead paths, parallel parts, cycles."""

from typing import Any

from wfcore.testing.histories import History, sketch

AGAIN = {"type": "condition", "branches": [{"handle": "again", "when": "input.rounds > nodes.a.output"}]}
ASK = {"type": "humanApproval"}


def ran(history: History) -> dict[str, int]:
    """How often each node ran, without those that never did."""
    machine = history.machine
    return {node.id: machine.root.visits[node.index] for node in machine.plan.nodes if machine.root.visits[node.index]}


def choice(flag: str) -> dict[str, Any]:
    return {"type": "condition", "branches": [{"handle": "yes", "when": f"input.{flag}"}]}


# Joins


def test_a_join_waits_for_every_edge() -> None:
    """A node runs when all edges into it have been decided, not before."""
    history = History(sketch("s -> a", "s -> b", "a -> j", "b -> j")).succeed("a")
    assert "j" not in ran(history)
    assert ran(history.succeed("b"))["j"] == 1


def test_a_join_runs_when_one_edge_was_taken() -> None:
    """The dead branch decides its edge too: the join runs on the living one alone."""
    graph = sketch("s -> c", "c -yes-> a", "c -else-> b", "a -> j", "b -> j", c=choice("ok"))
    history = History(graph, {"ok": True}).succeed("a").succeed("j", 1)
    assert ran(history) == {"s": 1, "c": 1, "a": 1, "j": 1}
    assert history.kinds("b") == ["node_skipped"]
    assert history.machine.output == 1


def test_a_dead_path_dies_to_its_end() -> None:
    """If no edge into a node was taken it is skipped, and so on behind it; skipped nodes give no output."""
    graph = sketch("s -> c", "c -yes-> a", "a -> b", "b -> d", "s -> x", c=choice("ok"))
    history = History(graph, {"ok": False}).succeed("x", 1)
    assert [history.kinds(name) for name in "abd"] == [["node_skipped"]] * 3
    assert history.machine.output == {"c": {"handle": "else"}, "x": 1}


def test_several_taken_edges_run_in_parallel() -> None:
    """All edges of the handle are taken; a slow branch holds up no fast one."""
    history = History(sketch("s -> a", "s -> b", "b -> c", "c -> d")).succeed("b").succeed("c")
    assert {effect.address[0] for effect in history.machine.pending.values()} == {1, 4}


def test_two_edges_between_the_same_nodes_count_twice() -> None:
    """Both are decided by the one source."""
    graph = sketch("s -> c", "c -yes-> a", "c -else-> a", c=choice("ok"))
    assert ran(History(graph, {"ok": True}).succeed("a"))["a"] == 1


def test_a_waiting_branch_holds_up_no_other() -> None:
    """Beside an open approval everything goes on."""
    history = History(sketch("s -> w", "s -> a", "a -> b", w=ASK)).succeed("a")
    assert history.effect("b").attempt == 1
    assert history.machine.turn_open


# Cycles


def test_a_cycle_runs_again_until_it_is_left() -> None:
    """A taken closing edge starts its target anew and re-arms the cycle; the way out is taken once."""
    graph = sketch("s -> a", "a -> c", "c -again-> a", "c -else-> x", c=AGAIN)
    history = History(graph, {"rounds": 3}).succeed("a", 1).succeed("a", 2)
    assert "x" not in ran(history)
    history.succeed("a", 3).succeed("x", "out")
    assert ran(history) == {"s": 1, "a": 3, "c": 3, "x": 1}
    assert history.machine.output == "out"


def test_every_pass_has_a_key_of_its_own() -> None:
    """The visit is part of the effect's key."""
    graph = sketch("s -> a", "a -> c", "c -again-> a", c=AGAIN)
    history = History(graph, {"rounds": 3}).succeed("a", 1)
    assert history.effect("a").key == "run-1:a:2"


def test_an_edge_out_of_a_cycle_is_undecided_until_the_cycle_is_left() -> None:
    """Taken in the first of two passes, it still waits, and then counts as taken, once."""
    graph = sketch("s -> a", "a -> c", "a -> log", "c -again-> a", c=AGAIN)
    history = History(graph, {"rounds": 2}).succeed("a", 1)
    assert "log" not in ran(history)
    assert ran(history.succeed("a", 2).succeed("log", 1))["log"] == 1


def test_an_edge_taken_in_an_earlier_pass_counts() -> None:
    """A later pass that does not take it does not undo it; its source has led on and is not an end."""
    first = {"type": "condition", "branches": [{"handle": "first", "when": "nodes.a.output == 1"}]}
    graph = sketch("s -> a", "a -> f", "f -first-> x", "f -first-> c", "a -> c", "c -again-> a", f=first, c=AGAIN)
    history = History(graph, {"rounds": 2}).succeed("a", 1).succeed("a", 2).succeed("x", "x")
    assert ran(history)["x"] == 1
    assert history.machine.output == {"c": {"handle": "else"}, "x": "x"}


def test_a_cycle_that_is_never_entered_lets_its_exits_die() -> None:
    """Skipped as a whole, it is left, and what is behind it is decided."""
    graph = sketch(
        "s -> q",
        "q -yes-> a",
        "a -> c",
        "c -again-> a",
        "c -else-> x",
        "q -else-> x",
        q=choice("ok"),
        c=AGAIN,
    )
    history = History(graph, {"ok": False, "rounds": 1}).succeed("x", 1)
    assert ran(history) == {"s": 1, "q": 1, "x": 1}


def test_starting_anew_gives_up_what_the_cycle_was_doing() -> None:
    """A branch of the cycle still at work is superseded: its effect, timer and interrupt are dropped."""
    graph = sketch(
        "s -> a", "a -> b", "a -> w", "a -> t", "b -> d", "w -approved-> d", "t -> d", "d -again-> a",
        "a -> c", "c -again-> a",
        w=ASK, t={"toolId": "core.wait", "params": {"seconds": 9}}, c=AGAIN, d=AGAIN,
    )  # fmt: skip
    history = History(graph, {"rounds": 2}).succeed("a", 1)
    machine = history.machine
    assert [effect.address[:2] for effect in machine.pending.values()] == [(1, 2)]
    assert (machine.timers, machine.interrupts) == ({}, {})
    assert [history.kinds(name)[-1] for name in "bwt"] == ["node_skipped"] * 3
    assert history.kinds("w") == ["node_started", "interrupt", "node_skipped"]


def test_a_dead_node_of_a_cycle_lives_in_the_next_pass() -> None:
    """Skipped, failed or done: the next pass begins afresh."""
    second = {"type": "condition", "branches": [{"handle": "two", "when": "nodes.a.output == 2"}]}
    graph = sketch(
        "s -> a", "a -> d", "d -two-> e", "a -> f", "f -error-> g", "d -else-> c", "e -> c", "g -> c",
        "f -> c", "c -again-> a", d=second, c=AGAIN,
    )  # fmt: skip
    history = History(graph, {"rounds": 2}).succeed("a", 1).fail("f").succeed("g")
    history.succeed("a", 2).succeed("e").succeed("f")
    assert ran(history) == {"s": 1, "a": 2, "d": 2, "e": 1, "f": 2, "g": 1, "c": 2}
    assert history.machine.status == "done"


def test_a_cycle_inside_a_cycle_starts_afresh_with_it() -> None:
    """The outer cycle re-arms the inner one; the inner one leaves the outer one alone."""
    inner = {"type": "condition", "branches": [{"handle": "again", "when": "nodes.b.output % 2 == 1"}]}
    graph = sketch(
        "s -> a",
        "a -> b",
        "b -> i",
        "i -again-> b",
        "i -else-> c",
        "c -again-> a",
        "c -else-> x",
        i=inner,
        c=AGAIN,
    )
    history = History(graph, {"rounds": 2}).succeed("a", 1).succeed("b", 1).succeed("b", 2)
    history.succeed("a", 2).succeed("b", 3).succeed("b", 4).succeed("x", 1)
    assert ran(history) == {"s": 1, "a": 2, "b": 4, "i": 4, "c": 2, "x": 1}


def test_two_ways_back_to_one_head_are_one_cycle() -> None:
    """Either closing edge starts the whole cycle anew."""
    both = {"type": "condition", "branches": [{"handle": "p", "when": "input.rounds > nodes.a.output"}]}
    graph = sketch("s -> a", "a -> c", "c -p-> a", "c -else-> d", "d -again-> a", "d -else-> x", c=both,
                   d={**both, "branches": [{"handle": "again", "when": "nodes.a.output == 2"}]})  # fmt: skip
    history = History(graph, {"rounds": 2}).succeed("a", 1).succeed("a", 2).succeed("a", 3).succeed("x")
    assert ran(history) == {"s": 1, "a": 3, "c": 3, "d": 2, "x": 1}


def test_of_two_closing_edges_the_outer_one_wins() -> None:
    """Taken together, the outermost cycle starts anew, and with it the inner one."""
    graph = sketch("s -> a", "a -> b", "b -> c", "c -again-> b", "c -again-> a", c=AGAIN)
    history = History(graph, {"rounds": 2}).succeed("a", 1).succeed("b")
    assert [effect.address[0] for effect in history.machine.pending.values()] == [1]


def test_a_node_may_close_on_itself() -> None:
    """An approval that leads back to itself waits again, as a new visit."""
    history = History(sketch("s -> w", "w -denied-> w", "w -approved-> x", w=ASK))
    first = history.waiting("w").id
    history.decide("w", "deny")
    assert history.waiting("w").id != first
    assert history.decide("w").succeed("x", 1).machine.output == 1


def test_an_error_edge_may_close_a_cycle() -> None:
    """A failure that leads back re-arms the failed node."""
    graph = sketch("s -> a", "a -> b", "b -error-> w", "w -approved-> a", w=ASK)
    history = History(graph).succeed("a").fail("b").decide("w").succeed("a").succeed("b", 1)
    assert ran(history) == {"s": 1, "a": 2, "b": 2, "w": 1}
    assert history.machine.output == 1


def test_an_inner_cycle_counts_afresh_in_every_outer_pass() -> None:
    """It may go round in the first outer pass and not in the second, and is left in both."""
    inner = {"type": "condition", "branches": [{"handle": "again", "when": "nodes.b.output == 1"}]}
    graph = sketch(
        "s -> a", "a -> b", "b -> i", "i -again-> b", "i -else-> c", "c -again-> a", "c -else-> x",
        i=inner, c=AGAIN,
    )  # fmt: skip
    history = History(graph, {"rounds": 2}).succeed("a", 1).succeed("b", 1).succeed("b", 2)
    history.succeed("a", 2).succeed("b", 3).succeed("x", "out")
    assert history.machine.output == "out"


def test_only_the_last_pass_decides_the_ends() -> None:
    """What led nowhere in one pass and on in the next is not an end."""
    second = {"type": "condition", "branches": [{"handle": "second", "when": "nodes.a.output == 2"}]}
    graph = sketch("s -> a", "a -> f", "f -second-> c", "a -> c", "c -again-> a", f=second, c=AGAIN)
    history = History(graph, {"rounds": 2}).succeed("a", 1).succeed("a", 2)
    assert history.machine.output == {"handle": "else"}


def test_a_timer_may_void_another_of_the_same_moment() -> None:
    """Of two waits that lead back, the first starts the cycle anew and the second is given up."""
    wait = {"toolId": "core.wait", "params": {"seconds": 1}}
    again = {"type": "condition", "branches": [{"handle": "again", "when": "nodes.a.output == 1"}]}
    graph = sketch("s -> a", "a -> c", "c -again-> t", "c -again-> u", "t -> a", "u -> a", t=wait, u=wait, c=again)
    history = History(graph).succeed("a", 1).pass_time(1)
    assert history.kinds("u")[-1] == "node_skipped"
    assert history.succeed("a", 2).machine.output == {"handle": "else"}


def test_a_cycle_that_starts_anew_gives_up_a_call_that_is_held() -> None:
    """Its interrupt is withdrawn, and the call is not made; the next pass requests it under another key."""
    again = {"type": "condition", "branches": [{"handle": "again", "when": "nodes.m.output < 2"}]}
    edges = ("s -> a", "a -> p", "a -> m", "m -> c", "p -> d", "c -again-> a", "d -again-> a")
    history = History(sketch(*edges, c=again, d=again)).succeed("a")
    history.fail("p", reason="connection_required", info={"provider": "mail"})
    name = history.waiting("p").id
    history.succeed("m", 1)
    assert (history.machine.interrupts, history.machine.interrupt_history[name]) == ({}, "withdrawn")
    assert history.machine.root.held == {}
    assert history.kinds("p") == ["node_started", "interrupt", "node_skipped"]
    assert [effect.key for effect in history.succeed("a").machine.pending.values()] == ["run-1:p:2", "run-1:m:2"]
