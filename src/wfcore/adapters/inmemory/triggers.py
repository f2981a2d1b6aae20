"""The timers and webhooks of one organization's workflows, in dicts."""

import attrs

from wfcore.ports.repositories.schedules import Timer
from wfcore.ports.repositories.webhooks import WebhookRow


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


@attrs.frozen
class MemoryWebhooks:
    """Implements the port `WebhookRepository`."""

    rows: dict[int, WebhookRow]

    async def get(self, workflow_id: int) -> WebhookRow | None:
        return self.rows.get(workflow_id)

    async def page(self, *, limit: int, after: int = 0) -> list[WebhookRow]:
        return [self.rows[number] for number in sorted(self.rows) if number > after][:limit]

    async def put(self, row: WebhookRow) -> None:
        self.rows[row.workflow_id] = row
