"""The filters of lists of runs, as keyword arguments."""

from collections.abc import Mapping
from typing import Final, TypedDict

from wfcore.api.repairs import RunSelection
from wfcore.domain.json.codec import parse_iso
from wfcore.domain.json.values import given
from wfcore.domain.kernel.errors import Issue, refuse, usable
from wfcore.domain.kernel.ids import is_uuid
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.state import RunStatus
from wfcore.ports.journal import RunFilter
from wfcore.runtime.common.arguments import filter_check


class RunFilters(TypedDict, total=False):
    """Filters of a list of runs, as in `RunFilter`. `assistant`: only runs of the assistant.

    `since` (inclusive) and `until` (exclusive) are times of creation in milliseconds since 1970.
    """

    status: RunStatus | None
    assistant: bool
    thread_id: str | None
    started_by: str | None
    origin: str | None
    variation_id: str | None
    since: int | None
    until: int | None


STATUSES: Final = [*RunStatus]
_check = filter_check(RunFilters)


def run_filter(workflow: int | None, skill: int | None, filters: RunFilters) -> RunFilter:
    """The filter of these arguments. Malformed or Invalid for what cannot filter anything."""
    _check(filters)
    status = filters.get("status")
    if status is not None and status not in STATUSES:
        refuse([Issue("status", f"`{status}` is not a status of a run{usable(STATUSES)}", "enum")])
    kind = "workflow" if workflow is not None else "skill" if skill is not None else None
    return RunFilter(
        None if status is None else RunStatus(status),
        "assistant" if filters.get("assistant") else kind,
        workflow if workflow is not None else skill,
        filters.get("thread_id"),
        filters.get("started_by"),
        filters.get("origin"),
        filters.get("variation_id"),
        filters.get("since"),
        filters.get("until"),
    )


def filter_issues(body: Mapping[str, JSON]) -> list[Issue]:
    """The faults of a `filter` in a body: times, ids, and more than one target."""
    tree = body.get("filter")
    if not isinstance(tree, Mapping):
        return []
    found = [
        Issue(f"filter.{name}", "must be an RFC 3339 instant, such as `2026-01-02T03:04:05Z`", "time")
        for name in ("since", "until")
        if isinstance(value := tree.get(name), str) and _ms(value) is None
    ]
    if isinstance(value := tree.get("variationId"), str) and not is_uuid(value):
        found.append(Issue("filter.variationId", "must be the id of a variation", "uuid"))
    targets = [name for name in ("workflowId", "skillId", "assistant") if name in tree]
    found += [Issue(f"filter.{name}", f"cannot be combined with `{targets[0]}`", "exclusive") for name in targets[1:]]
    return found


def filter_of(selection: RunSelection) -> RunFilter:
    """The filter that a valid body describes."""
    since, until, status = given(selection.since), given(selection.until), given(selection.status)
    return run_filter(
        given(selection.workflow_id),
        given(selection.skill_id),
        {
            "status": None if status is None else RunStatus(status),
            "assistant": bool(given(selection.assistant)),
            "thread_id": given(selection.thread_id),
            "started_by": given(selection.started_by),
            "origin": given(selection.origin),
            "variation_id": given(selection.variation_id),
            "since": None if since is None else _ms(since),
            "until": None if until is None else _ms(until),
        },
    )


def _ms(text: str) -> int | None:
    """A time in epoch milliseconds; None for a text that is not a time."""
    try:
        return parse_iso(text)
    except (ValueError, OverflowError):
        return None
