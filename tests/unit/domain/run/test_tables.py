"""The tables of legal moves: each lists its states, journals take every row, every other move is refused."""

from collections.abc import Iterator
from enum import StrEnum
from typing import Any

import pytest

from wfcore.domain.run.entries import Aborted, Resumed
from wfcore.domain.run.machine.tables import TABLES, Moves, diagram, diagrams
from wfcore.domain.run.plan import skill_plan
from wfcore.domain.run.state import BrokenInvariant, IllegalEntry, IllegalRunMove, move
from wfcore.testing.histories import ANN, History, sketch

NAMES = sorted(TABLES)


@pytest.mark.parametrize("name", NAMES)
def test_a_table_lists_every_state(name: str) -> None:
    """End states have an empty row, and every other state can be reached from where the table begins."""
    moves = TABLES[name]
    assert list(moves.table) == list(moves.states)
    reached = set(moves.initial)
    for _ in moves.states:
        reached |= {after for state in reached for after in moves.table[state].values()}
    assert reached == set(moves.states)
    assert {event for row in moves.table.values() for event in row} == set(moves.events)


@pytest.mark.parametrize("name", NAMES)
def test_every_other_move_is_refused(name: str) -> None:
    """A state and an event without a row raise the one error, which has both, and the events that are possible."""
    moves = TABLES[name]
    for state in moves.states:
        for event in moves.events:
            if event in moves.table[state]:
                assert move(moves.table, state, event) is moves.table[state][event]
                continue
            with pytest.raises(IllegalRunMove) as refused:
                move(moves.table, state, event, "late")
            error = refused.value
            assert (error.state, error.operation, error.legal) == (state, event, tuple(moves.table[state]))
            assert (error.reason, error.info) == ("late", {"reason": "late"})
            assert f"`{event}` is not possible in state `{state}`" in str(error)


def test_an_illegal_move_is_an_illegal_entry() -> None:
    """Whoever applies entries has one error to catch."""
    assert issubclass(IllegalRunMove, IllegalEntry)


def test_a_broken_invariant_is_another_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """An illegal move behind the check of an entry is an error of the program, and must not pass for a late entry."""
    history = History(sketch("s -> a"))
    table: Any = TABLES["Node"].table
    monkeypatch.setitem(table, "running", {})
    with pytest.raises(BrokenInvariant, match="`finish` is not possible in state `running`"):
        history.succeed("a")


def test_a_diagram_has_an_arrow_for_each_row() -> None:
    """Events between the same two states share an arrow."""
    shown = diagram(TABLES["Interrupt"])
    assert shown.startswith("```mermaid\nstateDiagram-v2\n    [*] --> approval\n    [*] --> connect\n")
    assert "    approval --> approval: vote, remind\n" in shown
    assert shown.endswith("    withdrawn --> [*]\n```")


# Every row is taken


class TakenRow(dict[StrEnum, StrEnum]):
    """A row of a table that records which of its moves are made."""

    def __init__(self, row: dict[StrEnum, StrEnum], taken: set[tuple[str, str, str]], name: str, state: str) -> None:
        super().__init__(row)
        self.taken, self.name, self.state = taken, name, state

    def __getitem__(self, event: StrEnum) -> StrEnum:
        reached = super().__getitem__(event)
        self.taken.add((self.name, str(self.state), str(event)))
        return reached


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> set[tuple[str, str, str]]:
    """The rows that are taken in this test: table, state, event."""
    found: set[tuple[str, str, str]] = set()
    for name, moves in TABLES.items():
        table: Any = moves.table
        for state, row in list(table.items()):
            monkeypatch.setitem(table, state, TakenRow(dict(row), found, name, state))
    return found


def rows(name: str, moves: Moves) -> Iterator[tuple[str, str, str]]:
    return ((name, str(state), str(event)) for state, row in moves.table.items() for event in row)


ASK = {"type": "humanApproval"}
FORM = {"requiresApproval": True}
RETRY = {"retry": {"maxAttempts": 2}}
AGENT = {"type": "agent", "agent_id": 7}
CONTEXT = {"tools": [{"name": "look", "toolId": "web.look", "kind": "tool"}]}
LOOK = {"text": "", "toolCalls": [{"id": "c", "name": "look", "args": {}}]}
CALL = {"toolId": "core.workflow", "params": {"workflowId": 1}}
CONNECT: dict[str, Any] = {"reason": "connection_required", "info": {"provider": "mail"}}
BUDGET: dict[str, Any] = {"reason": "budget", "info": {"budget": {"maxTokens": 1, "of": "user"}, "times": 1}}


def test_every_row_of_every_table_is_taken(taken: set[tuple[str, str, str]]) -> None:
    """There is no rule without a use: these journals take all of them."""
    turns()
    nodes()
    interrupts()
    tools()
    models()
    children()
    rounds()
    assert {row for name, moves in TABLES.items() for row in rows(name, moves)} - taken == set()


def turns() -> None:
    """A turn goes on, is taken over, is paused, is parked, and ends, in each of its phases."""
    History(sketch("s -> a")).pass_time(1).succeed("a")
    History(sketch("s -> a")).apply(Aborted(1, "a bug"))
    History(sketch("s -> a")).cancel().retry()
    History(sketch("s -> a")).fail("a").retry()
    beside = sketch("s -> a", "s -> w", w=ASK)
    History(beside).decide("w").succeed("a")
    History(beside).pause().decide("w")
    History(beside).pause().pass_time(1).fail("a")
    History(sketch("s -> a")).pause().succeed("a")
    History(sketch("s -> a")).pause().cancel()
    History(sketch("s -> w", w=ASK)).cancel()
    History(sketch("s -> w", w=ASK)).move(sketch("s -> w", "w -approved-> a", w=ASK))
    History(sketch("s -> a", "a -> b")).pause().succeed("a").move(sketch("s -> a", "a -> b"))
    for way in ("resume", "decide", "expire", "cancel"):
        parked = History(sketch("s -> a", "s -> w", a=RETRY, w=ASK)).pause().fail("a")
        assert (parked.machine.status, parked.machine.paused) == ("interrupted", True)
        {
            "resume": parked.resume,
            "decide": lambda parked=parked: parked.decide("w"),
            "expire": lambda parked=parked: parked.resume(by=None),
            "cancel": parked.cancel,
        }[way]()


def nodes() -> None:
    """A cycle starts anew while its nodes stand in every state."""
    History(sketch("s -> a", a=FORM)).succeed("a", "d").decide("a").cancel()
    History(sketch("s -> a", a=FORM)).succeed("a", "d").decide("a", "deny")
    ask = {**ASK, "timeoutSeconds": 5}
    History(sketch("s -> w", w={**ask, "onTimeout": "error"})).pass_time(5)
    graph = sketch(
        "s -> a", "a -> idle", "idle -> c", "a -> busy", "busy -> c", "a -> w", "w -approved-> c",
        "a -> bad", "bad -error-> dead", "bad -> c", "bad -> skipped", "skipped -> c", "dead -> c",
        "a -> v", "v -denied-> a", "a -> wait", "wait -> later", "later -> c", "c -again-> a",
        w=ask, v=ASK, c={"type": "condition", "branches": [{"handle": "again", "when": "false"}]},
    )  # fmt: skip
    History(graph).succeed("a").succeed("idle").fail("bad").decide("v", "deny").succeed("a")


def interrupts() -> None:
    """Approvals are voted on, decided, expire and are withdrawn; connections are made, refused and withdrawn."""
    History(sketch("s -> w", w={**ASK, "requiredApprovals": 2})).decide("w").cancel()
    History(sketch("s -> w", w={**ASK, "remindAfterSeconds": 2})).pass_time(2)
    for end in ("connected", "cancelled"):
        History(sketch("s -> a")).fail("a", **CONNECT).decide("a", end)
    History(sketch("s -> a")).fail("a", **CONNECT).cancel()


def tools() -> None:
    """A call of a tool, announced or not, ends in every way."""
    History(sketch("s -> a", a=RETRY)).fail("a").fail("a")
    sent = sketch("s -> a", a=RETRY)
    History(sketch("s -> a", a={"forEach": "input"}), [1]).send("a").succeed("a")
    History(sent).send("a").fail("a", retryable=False)
    History(sent).send("a").fail("a")
    History(sent).send("a").fail("a", **CONNECT)
    History(sent).send("a").cancel()
    History(sent).progress("a", 1).send("a").progress("a", 2).succeed("a")


def models() -> None:
    """A call of a model that has begun to answer ends in every way."""
    graph = sketch("s -> a", a={"type": "agent", "message": "go", **RETRY})
    History(graph).say("a", "x").say("a", "y").succeed("a", "xy")
    History(graph).say("a", "x").fail("a")
    History(graph).say("a", "x").fail("a", retryable=False)
    History(graph).say("a", "x").fail("a", **BUDGET).decide("a")
    History(graph).say("a", "x").cancel()


def children() -> None:
    """A child ends well, fails with and without another attempt, and is given up."""
    inside = {1: sketch("s -> b")}
    for data in (CALL, {**CALL, **RETRY}):
        History(sketch("s -> a", a=data), children=inside).open("a").fail("a/b")
    History(sketch("s -> a", a=CALL), children=inside).open("a").succeed("a/b")
    History(sketch("s -> a", a=CALL), children=inside).open("a").cancel()


def rounds() -> None:
    """The visit of an agent goes round, gets a message of the user, and is given up in each of its states."""
    agent = sketch("s -> a", a={**AGENT, **RETRY})
    History(agent).cancel()
    History(agent).pause().succeed("a", CONTEXT).cancel()
    History(agent).succeed("a", CONTEXT).cancel()
    History(agent).succeed("a", CONTEXT).succeed("a", LOOK).cancel()
    History(skill_plan(7)).succeed("agent", CONTEXT).succeed("agent", LOOK).succeed("agent", 1).succeed("agent", "bye")
    more = History(agent).succeed("a", CONTEXT).pause().fail("a")
    more.apply(Resumed(more.at, "run-2", ANN, (), {"message": "and?"})).succeed("a", "well").succeed("a", "bye")
    assert more.machine.output == "bye"


def test_all_diagrams_stand_under_their_names() -> None:
    """The document has a heading and a diagram for each table."""
    text = diagrams()
    assert [line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")] == list(TABLES)
    assert text.count("stateDiagram-v2") == len(TABLES)
