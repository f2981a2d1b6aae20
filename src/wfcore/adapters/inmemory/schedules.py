"""The timers of one organization, in a dict."""

import attrs

from wfcore.ports.repositories.schedules import Timer


@attrs.frozen
class MemorySchedules:
    """Implements the port `ScheduleRepository`."""

    timers: dict[int, Timer]

    async def get(self, workflow_id: int) -> Timer | None:
        return self.timers.get(workflow_id)

    async def put(self, timer: Timer) -> None:
        self.timers[timer.workflow_id] = timer

    async def remove(self, workflow_id: int) -> None:
        self.timers.pop(workflow_id, None)
