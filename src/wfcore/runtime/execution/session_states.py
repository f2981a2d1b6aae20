"""The states of a session: what its worker does, and what it knows of the journal.

What a worker does (`ACTIVITIES`): it chooses the next step; an effect beside which there is nothing to wait for runs in
the session's own task (`alone`) until it has an outcome, or is stopped because of a deadline or of the end of the run;
else the session waits for outcomes, signals and moments.

What it knows (`VIEWS`): its machine is `current`; somebody else may have written since (`behind`: read on); an append
conflicted, so that the machine holds what never happened (`stale`: fold again); or the append that ended the turn
released the claim (`released`). The two move independently: a signal arrives while an effect runs, too.
"""

from enum import StrEnum
from typing import Final

from wfcore.domain.run.machine.tables import Moves
from wfcore.domain.run.state import Table


class Activity(StrEnum):
    """What the worker of a session does."""

    choosing = "choosing"
    alone = "alone"
    stopping = "stopping"
    waiting = "waiting"


class ActivityEvent(StrEnum):
    """What changes it."""

    begin = "begin"
    stop = "stop"
    end = "end"
    wait = "wait"
    wake = "wake"


ACTIVITIES: Final[Table[Activity, ActivityEvent]] = {
    Activity.choosing: {ActivityEvent.begin: Activity.alone, ActivityEvent.wait: Activity.waiting},
    Activity.alone: {ActivityEvent.stop: Activity.stopping, ActivityEvent.end: Activity.choosing},
    Activity.stopping: {ActivityEvent.end: Activity.choosing},
    Activity.waiting: {ActivityEvent.wake: Activity.choosing},
}


class View(StrEnum):
    """What a session knows of the journal and of its claim."""

    current = "current"
    behind = "behind"
    stale = "stale"
    released = "released"


class ViewEvent(StrEnum):
    """What changes it. `conflict`: an append was refused because the journal is longer."""

    signal = "signal"
    conflict = "conflict"
    catch_up = "catch_up"
    release = "release"


VIEWS: Final[Table[View, ViewEvent]] = {
    View.current: {
        ViewEvent.signal: View.behind,
        ViewEvent.conflict: View.stale,
        ViewEvent.release: View.released,
    },
    View.behind: {
        ViewEvent.signal: View.behind,
        ViewEvent.conflict: View.stale,
        ViewEvent.catch_up: View.current,
        ViewEvent.release: View.behind,
    },
    View.stale: {
        ViewEvent.signal: View.stale,
        ViewEvent.conflict: View.stale,
        ViewEvent.catch_up: View.current,
    },
    View.released: {ViewEvent.signal: View.behind},
}

CURRENT: Final = View.current
CHOOSING: Final = Activity.choosing
ALONE_NOW: Final = ACTIVITIES[CHOOSING][ActivityEvent.begin]

ALONE: Final = frozenset({Activity.alone, Activity.stopping})
"""The activities in which an effect runs in the session's own task."""
OUTDATED: Final = frozenset(view for view, row in VIEWS.items() if ViewEvent.catch_up in row)
"""The views after which the journal has to be read."""

SESSION_TABLES: Final = {
    "Session": Moves(ACTIVITIES, Activity, ActivityEvent, (Activity.choosing,)),
    "Journal of a session": Moves(VIEWS, View, ViewEvent, (View.current,)),
}
"""The tables by name, as `wfcore.domain.run.machine.tables` has those of a run."""
