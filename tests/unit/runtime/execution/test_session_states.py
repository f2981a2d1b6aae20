"""The tables of a session: every other move is refused, and sessions of real runs take every row."""

import pytest

from wfcore.domain.run.state import IllegalRunMove, move
from wfcore.runtime.execution.session_states import SESSION_TABLES, View, ViewEvent

NAMES = sorted(SESSION_TABLES)


@pytest.mark.parametrize("name", NAMES)
def test_every_other_move_is_refused(name: str) -> None:
    """A table lists all states, and a state and an event without a row raise."""
    moves = SESSION_TABLES[name]
    assert list(moves.table) == list(moves.states)
    for state in moves.states:
        for event in moves.events:
            if event in moves.table[state]:
                assert move(moves.table, state, event) is moves.table[state][event]
            else:
                with pytest.raises(IllegalRunMove):
                    move(moves.table, state, event)


def test_a_signal_never_hides_a_conflict() -> None:
    """What the machine holds beyond the journal stays void until it is folded again."""
    view = View.current
    for event in (ViewEvent.signal, ViewEvent.conflict, ViewEvent.signal):
        view = move(SESSION_TABLES["Journal of a session"].table, view, event)
    assert view is View.stale
