"""The timers of enabled schedules: when each fires next, and the outcome of its latest slots.

A slot is an instant at which a schedule fires. All times are epoch milliseconds.
"""

from typing import Literal, Protocol

import attrs

MissReason = Literal["late", "overlap", "refused"]
PauseReason = Literal["deployer_gone", "deployer_lost_access", "input_refused", "unknown_timezone"]


@attrs.frozen
class Missed:
    """A slot without a run: no worker was up in time, an earlier run was still active, or the run could not start."""

    at: int
    reason: MissReason


@attrs.frozen
class Pause:
    """Why a schedule was disabled automatically: a reason code, and a message for users."""

    reason: PauseReason
    message: str


@attrs.frozen
class Successor:
    """A variation that was deployed at a time, while a timer was due."""

    variation_id: str
    at: int


@attrs.frozen
class Timer:
    """The timer of one workflow. `next_at` is None when it never fires again or is paused; `paused` holds the reason.
    `missed` holds the latest missed slots, in order. `later` are the variations that followed that of the timer and
    whose slots come after it, in order: the last one is active.
    """

    workflow_id: int
    variation_id: str
    next_at: int | None
    paused: Pause | None = None
    last_run_id: str | None = None
    missed: tuple[Missed, ...] = ()
    later: tuple[Successor, ...] = ()


@attrs.frozen
class DueTimer:
    """A timer that is due, and its organization."""

    org: str
    workflow_id: int


class ScheduleRepository(Protocol):
    """The timers of one organization's workflows. The workflow of a timer need not exist."""

    async def get(self, workflow_id: int) -> Timer | None: ...

    async def put(self, timer: Timer) -> None:
        """Add the timer, or replace the one of the same workflow."""
        ...

    async def remove(self, workflow_id: int) -> None: ...
