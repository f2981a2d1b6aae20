"""The filters of lists of runs."""

from collections.abc import Mapping
from typing import Any, Final, get_args

from wfcore.adapters.http.core.request_parsing import (
    INSTANT,
    OPAQUE_ID,
    Query,
    instant,
    one_of,
    opaque_id,
    resource_id,
)
from wfcore.adapters.http.core.route import Call
from wfcore.api.runs import Channel, Screen
from wfcore.domain.json.codec import to_ms
from wfcore.domain.kernel.ids import is_uuid
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.state import RunStatus
from wfcore.runtime.common.requests import bad_query

ORIGINS: Final = (*get_args(Screen), *get_args(Channel), "automation")

_ID: Final[Mapping[str, JSON]] = {"type": "integer", "minimum": 1}
_TARGETS: Final = ("workflowId", "skillId", "assistant")


def _true(text: str) -> bool:
    if text != "true":
        raise ValueError("must be `true`")
    return True


def _uuid(text: str) -> str:
    if not is_uuid(text):
        raise ValueError("must be the id of a variation")
    return text


SINCE: Final = Query("since", instant, INSTANT, "Only runs that began at this time or later")
UNTIL: Final = Query("until", instant, INSTANT, "Only runs that began before this time")

RUN_FILTERS: Final = (
    Query("status", one_of(*RunStatus), {"enum": list(RunStatus)}, "Only those in this state"),
    Query("workflowId", resource_id, _ID, "Only runs of this workflow"),
    Query("skillId", resource_id, _ID, "Only runs of this skill"),
    Query("assistant", _true, {"const": "true"}, "Only runs of the assistant"),
    Query("threadId", opaque_id, OPAQUE_ID, "Only runs in this thread"),
    Query("startedBy", opaque_id, OPAQUE_ID, "Only runs that the user with this id started"),
    Query(
        "origin", one_of(*ORIGINS), {"enum": list(ORIGINS)}, "Only runs with this origin; a run without one is `api`"
    ),
    Query("variationId", _uuid, {"type": "string", "format": "uuid"}, "Only runs of this variation"),
    SINCE,
    UNTIL,
)


def filters_of(call: Call) -> dict[str, Any]:
    """The filters of the request as arguments of `Runs.page`. Malformed for more than one target."""
    query = call.query
    targets = [name for name in _TARGETS if query[name] is not None]
    if len(targets) > 1:
        raise bad_query(targets[1], f"use either `{targets[1]}` or `{targets[0]}`")
    since, until = period_of(call)
    return {
        "status": query["status"] and RunStatus(query["status"]),
        "workflow": query["workflowId"],
        "skill": query["skillId"],
        "assistant": bool(query["assistant"]),
        "thread_id": query["threadId"],
        "started_by": query["startedBy"],
        "origin": query["origin"],
        "variation_id": query["variationId"],
        "since": since,
        "until": until,
    }


def period_of(call: Call) -> tuple[int | None, int | None]:
    """`since` and `until` in epoch milliseconds."""
    since, until = call.query["since"], call.query["until"]
    return None if since is None else to_ms(since), None if until is None else to_ms(until)
