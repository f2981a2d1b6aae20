"""The timers of schedules that are switched on: when each fires next, and what became of the slots before.

A slot is an instant at which a schedule fires. All times are epoch milliseconds.
"""

from typing import Literal, Protocol

import attrs

MissReason = Literal["late", "overlap", "refused"]
PauseReason = Literal["deployer_gone", "deployer_lost_access", "input_refused"]


@attrs.frozen
class Missed:
    """A slot without a run: nobody was there in time, the run before went on, or the run could not start."""

    at: int
    reason: MissReason


@attrs.frozen
class Pause:
    """Why a schedule switched itself off: in one word, and in words for people."""

    reason: PauseReason
    message: str


@attrs.frozen
class Timer:
    """The timer of one workflow. `next_at` is None when it never fires again, and when it was paused: `paused` tells
    why. `missed` holds the latest ones, in order.
    """

    workflow_id: int
    variation_id: str
    next_at: int | None
    paused: Pause | None = None
    last_run_id: str | None = None
    missed: tuple[Missed, ...] = ()


@attrs.frozen
class DueTimer:
    """Whose timer is due."""

    org: str
    workflow_id: int


class ScheduleRepository(Protocol):
    """The timers of one organization's workflows. A workflow need not be there."""

    async def get(self, workflow_id: int) -> Timer | None: ...

    async def put(self, timer: Timer) -> None:
        """Add it, or replace the one of the same workflow."""
        ...

    async def remove(self, workflow_id: int) -> None: ...
