"""The filters of lists of runs, as keyword arguments."""

from typing import TypedDict

from wfcore.domain.run.state import RunStatus
from wfcore.ports.journal import RunFilter


class RunFilters(TypedDict, total=False):
    """Filters of a list of runs, as in `RunFilter`. `assistant`: only runs of the assistant."""

    status: RunStatus | None
    assistant: bool
    thread_id: str | None
    started_by: str | None
    origin: str | None
    variation_id: str | None
    since: int | None
    until: int | None


def run_filter(workflow: int | None, skill: int | None, filters: RunFilters) -> RunFilter:
    """The filter of these arguments."""
    kind = "workflow" if workflow is not None else "skill" if skill is not None else None
    return RunFilter(
        filters.get("status"),
        "assistant" if filters.get("assistant") else kind,
        workflow if workflow is not None else skill,
        filters.get("thread_id"),
        filters.get("started_by"),
        filters.get("origin"),
        filters.get("variation_id"),
        filters.get("since"),
        filters.get("until"),
    )
