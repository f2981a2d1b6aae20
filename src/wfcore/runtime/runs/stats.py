"""How many runs there are, by status, workflow and hour (interface, Runs: `GET /agent/v1/runs/stats`)."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import attrs

from wfcore.domain.json.codec import iso_ms
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.state import RunStatus
from wfcore.ports.journal import RunCount


@attrs.frozen
class RunStats:
    """The runs that began in a period, counted. `since` (inclusive) and `until` (exclusive) in epoch milliseconds."""

    since: int
    until: int
    counts: Sequence[RunCount]

    def to_wire(self) -> dict[str, JSON]:
        workflows = _groups((one for one in self.counts if one.kind == "workflow"), lambda one: one.resource_id)
        hours = _groups(self.counts, lambda one: one.hour)
        return {
            "since": iso_ms(self.since),
            "until": iso_ms(self.until),
            **_sums(self.counts),
            "byWorkflow": [{"workflowId": number, **_sums(group)} for number, group in workflows],
            "byHour": [{"hour": iso_ms(hour), **_sums(group)} for hour, group in hours],
        }


def _groups(counts: Iterable[RunCount], key: Callable[[RunCount], int | None]) -> list[tuple[int, list[RunCount]]]:
    """The counts by a number, in its order."""
    found: dict[int, list[RunCount]] = {}
    for one in counts:
        found.setdefault(key(one) or 0, []).append(one)
    return sorted(found.items())


def _sums(counts: Iterable[RunCount]) -> Mapping[str, JSON]:
    """The total, and the number of runs of each status."""
    by_status = Counter[RunStatus]()
    for one in counts:
        by_status[one.status] += one.count
    return {"total": by_status.total(), "byStatus": {str(status): by_status[status] for status in RunStatus}}
