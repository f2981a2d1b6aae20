"""What a driver does next: pending effects, the one that can begin, and the moments at which time changes something."""

import pytest
from msgspec.structs import replace

from wfcore.domain.run.entries import Limits
from wfcore.domain.run.machine.next_steps import NextSteps, next_due, next_steps, only_effect
from wfcore.domain.run.plan import compile_plan
from wfcore.testing.histories import BEGIN, History, sketch

ASK = {"type": "humanApproval", "timeoutSeconds": 60}
DAY = 86_400_000
BOUND = 7 * DAY
WAIT = {"toolId": "core.wait", "params": {"seconds": 9}}
LIMITS = Limits(max_run_seconds=7 * 86_400)


def steps(history: History, later: int = 0) -> NextSteps:
    """The snapshot `later` milliseconds after the last entry, from the machine and from its state alike."""
    shown = history.machine.next_steps(history.at + later)
    assert shown == next_steps(history.machine.state, history.at + later)
    assert shown.due == history.machine.next_due() == next_due(history.machine.state)
    assert shown.only_effect == only_effect(history.machine.state, history.at + later)
    return shown


def test_one_effect() -> None:
    """It can begin at once, and the turn ends by its bound alone."""
    history = History(sketch("s -> a"), limits=LIMITS)
    effect = history.effect("a")
    shown = steps(history)
    assert shown == NextSteps(False, True, {(1, 1, 0): effect}, BEGIN + BOUND, effect)


def test_several_effects() -> None:
    """None of them is the only one."""
    shown = steps(History(sketch("s -> a", "s -> b"), limits=LIMITS))
    assert (len(shown.effects), shown.only_effect) == (2, None)


def test_an_effect_that_waits_for_its_retry() -> None:
    """It is the only one, from its moment on and not a millisecond before."""
    retry = {"retry": {"maxAttempts": 2, "initialIntervalSeconds": 3}}
    history = History(sketch("s -> a", a=retry), limits=LIMITS).fail("a")
    effect = history.effect("a")
    assert effect.not_before == BEGIN + 3000
    assert steps(history, 2999).only_effect is None
    assert steps(history, 3000).only_effect == effect
    assert steps(history).next_moment(BEGIN) == BEGIN + 3000
    assert steps(history).next_moment(BEGIN + 2999) == BEGIN + 3000
    assert steps(history).next_moment(BEGIN + 3000) == BEGIN + BOUND


def test_an_effect_beside_a_timer() -> None:
    """The execution waits for something else too; the timer is due before the bound."""
    history = History(sketch("s -> a", "s -> t", t=WAIT), limits=LIMITS)
    shown = steps(history)
    assert (len(shown.effects), shown.only_effect, shown.due) == (1, None, BEGIN + 9000)
    assert [shown.is_due(BEGIN + later) for later in (8999, 9000, 9001)] == [False, True, True]
    assert shown.next_moment(BEGIN) == BEGIN + 9000


def test_an_effect_beside_an_approval() -> None:
    """The same with the deadline of an approval."""
    shown = steps(History(sketch("s -> a", "s -> w", w=ASK), limits=LIMITS))
    assert (shown.turn_open, shown.only_effect, shown.due) == (True, None, BEGIN + 60_000)


def test_the_bound_is_due_before_a_late_deadline() -> None:
    """The earliest moment counts."""
    shown = steps(History(sketch("s -> a", "s -> t", t=WAIT), limits=Limits(max_run_seconds=5)))
    assert shown.due == BEGIN + 5000


def test_a_parked_run() -> None:
    """Its turn has ended, so that no bound of a turn is due: only the deadline of its approval."""
    shown = steps(History(sketch("s -> w", w=ASK), limits=LIMITS))
    assert shown == NextSteps(False, False, {}, BEGIN + 60_000, None)
    without = steps(History(sketch("s -> w", w={"type": "humanApproval"})))
    assert (without.due, without.next_moment(BEGIN), without.is_due(BEGIN + 10**15)) == (None, None, False)


def test_a_run_paused_by_hand() -> None:
    """Nothing is due, although a timer is set; what is under way ends by the bound of the turn."""
    parked = steps(History(sketch("s -> t", t=WAIT), limits=LIMITS).pause())
    assert (parked.turn_open, parked.ended, parked.due) == (False, False, None)
    pausing = steps(History(sketch("s -> a", "s -> t", t=WAIT), limits=LIMITS).pause())
    assert (pausing.turn_open, pausing.due) == (True, BEGIN + BOUND)
    assert pausing.only_effect is None


@pytest.mark.parametrize("end", ["done", "error", "cancelled"])
def test_a_run_that_has_ended(end: str) -> None:
    """There is nothing to do."""
    history = History(sketch("s -> a"), limits=LIMITS)
    {"done": history.succeed, "error": history.fail}.get(end, lambda _: history.cancel())("a")
    assert history.machine.status == end
    assert steps(history) == NextSteps(True, False, {}, None, None)


def test_an_effect_of_a_turn_that_is_not_open() -> None:
    """An effect whose attempt waits for its moment in a paused run does not begin."""
    history = History(sketch("s -> a", a={"retry": {"maxAttempts": 2, "initialIntervalSeconds": 3}})).fail("a").pause()
    assert (history.machine.status, len(history.machine.pending)) == ("interrupted", 1)
    assert steps(history, 3000).only_effect is None
    assert steps(history).next_moment(BEGIN) == BEGIN + 3000


def test_the_next_moment_is_the_earliest() -> None:
    """Of effects that cannot begin yet, and of what is due."""
    effect = History(sketch("s -> a")).effect("a")
    effects = {(1, 1, step): replace(effect, not_before=moment) for step, moment in enumerate([30, 20, 10])}
    assert NextSteps(False, True, effects, None, None).next_moment(10) == 20
    assert NextSteps(False, True, effects, 15, None).next_moment(10) == 15
    assert NextSteps(False, True, effects, 40, None).next_moment(30) == 40
    assert NextSteps(False, True, effects, None, None).next_moment(30) is None


PURE = {"toolId": "core.transform", "params": {"value": 1}}
CHECK = {"type": "condition", "branches": [{"handle": "x", "when": "true"}]}


@pytest.mark.parametrize(
    ("edges", "needs"),
    [
        (["s -> p"], False),
        (["s -> c", "c -x-> p"], False),
        (["s -> p", "p -> a"], True),
        (["s -> c", "c -else-> a"], True),
        (["s -> w", "w -approved-> a"], False),
        (["s -> w", "s -> a"], True),
        (["s -> t"], True),
    ],
)
def test_which_plans_need_a_driver(edges: list[str], needs: bool) -> None:
    """Those with an effect or a timer that no person's decision comes before."""
    data = {"p": PURE, "c": CHECK, "w": ASK, "t": WAIT}
    ids = {part for edge in edges for part in edge.split()}
    plan = compile_plan(sketch(*edges, **{name: it for name, it in data.items() if name in ids}))
    assert plan.needs_driver is needs
