"""All tables of legal moves by name, and their diagrams."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import attrs

from wfcore.domain.run.effects import AttemptState
from wfcore.domain.run.machine.nodes import NODES, NodeEvent
from wfcore.domain.run.machine.states.attempts import ATTEMPTS, AttemptEvent
from wfcore.domain.run.machine.states.interrupts import INTERRUPTS, InterruptEvent
from wfcore.domain.run.machine.states.rounds import ROUNDS, RoundEvent
from wfcore.domain.run.machine.states.state import InterruptState, NodeState, Phase, RoundState
from wfcore.domain.run.machine.states.turns import TURNS, TurnEvent
from wfcore.domain.run.state import Table


@attrs.frozen
class Moves:
    """A table with the states it begins in, and with all its states and events."""

    table: Table[Any, Any]
    states: type[StrEnum]
    events: type[StrEnum]
    initial: tuple[StrEnum, ...]


TABLES: Final[Mapping[str, Moves]] = {
    "Run": Moves(TURNS, Phase, TurnEvent, (Phase.queued,)),
    "Node": Moves(NODES, NodeState, NodeEvent, (NodeState.idle,)),
    "Effect attempt": Moves(ATTEMPTS, AttemptState, AttemptEvent, (AttemptState.requested,)),
    "Interrupt": Moves(INTERRUPTS, InterruptState, InterruptEvent, (InterruptState.approval, InterruptState.connect)),
    "Agent round": Moves(ROUNDS, RoundState, RoundEvent, (RoundState.composing,)),
}


def diagram(moves: Moves) -> str:
    """The table as a Mermaid state diagram: an arrow for each pair of states, with its events."""
    arrows: dict[tuple[str, str], list[str]] = {}
    for state, row in moves.table.items():
        for event, reached in row.items():
            arrows.setdefault((state, reached), []).append(event)
    begins = [f"    [*] --> {state}" for state in moves.initial]
    lines = [f"    {state} --> {reached}: {', '.join(events)}" for (state, reached), events in arrows.items()]
    ends = [f"    {state} --> [*]" for state, row in moves.table.items() if not row]
    return "\n".join(["```mermaid", "stateDiagram-v2", *begins, *lines, *ends, "```"])


def diagrams(tables: Mapping[str, Moves] = TABLES) -> str:
    """The diagrams of all tables in Markdown, each under its name."""
    return "\n\n".join(f"## {name}\n\n{diagram(moves)}" for name, moves in tables.items())
