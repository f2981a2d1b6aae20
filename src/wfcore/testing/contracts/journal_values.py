"""The values of the journal contract: organizations, entries of every type, executions."""

import asyncio
from typing import Any, Final

from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.resources.access import Principal, Role
from wfcore.domain.run.entries import (
    Aborted,
    Actor,
    Cancelled,
    Decision,
    Entry,
    Failed,
    Forked,
    Limits,
    Moved,
    Opened,
    Paused,
    Progressed,
    Resumed,
    Retried,
    Said,
    Sent,
    Started,
    Succeeded,
    TimePassed,
)
from wfcore.domain.run.state import Interrupt, RunStatus, Vote
from wfcore.ports.journal import (
    Append,
    ExecutionRef,
    Journal,
    NewExecution,
    NewRun,
    RunFilter,
    RunRow,
)

ORG: Final = "00000000-0000-4000-8000-000000000001"
OTHER_ORG: Final = "00000000-0000-4000-8000-000000000002"
READERS: Final = "00000000-0000-4000-8000-0000000000aa"
NOW: Final = 1_767_268_800_000
ANN: Final = Actor("ann", "ann@example.org")
GIVEN: Final[dict[str, JSON]] = {"é\u0000": [1, -0.5, True, None, {"z": 1, "a": 2**70}]}

EVERY_ENTRY: Final[tuple[Entry, ...]] = (
    Started(NOW, "r-1", ANN, GIVEN, {"id": "r-1"}, Limits(5, 1.5, 2)),
    Started(NOW, "r-1", Actor("bob"), None, {}),
    Started(NOW, "r-1", ANN, None, {}, key="k-1"),
    Resumed(NOW, "r-2", ANN, (Decision("i-1", "approve", GIVEN), Decision("i-2", "deny"))),
    Resumed(NOW, "r-2"),
    Retried(NOW, "r-2", ANN, ("workflow", 1, "v-2"), True, ("a",), GIVEN, ("b", "c"), "no", GIVEN),
    Retried(NOW, "r-2", ANN),
    Forked(NOW, "r-2", ANN, "k-2", ("a",), ("workflow", 1, "v-2"), True, (GIVEN,), "no", GIVEN),
    Forked(NOW, "r-2", ANN, "", ()),
    Moved(NOW, ANN, ("workflow", 1, "v-2")),
    Succeeded(NOW, 1, 2, 3, 4, GIVEN, {"input_tokens": 7}),
    Succeeded(NOW, 1, 2, 3, 4, "\u2028"),
    Succeeded(NOW, 1, 2, 3, 4, "[email]", guardrail={"replaced": True}),
    Failed(NOW, 1, 2, 3, 4, "no", "timeout", False),
    Failed(NOW, 1, 2, 3, 4, "no"),
    Failed(NOW, 1, 2, 3, 4, "no", usage={"calls": 1}),
    Said(NOW, 1, 2, 3, 4, "so"),
    Progressed(NOW, 1, 2, 3, 4, 0.5, 7, "page 3"),
    Opened(NOW, 1, 2, 3, 4, "skill", 5, "v-1", GIVEN, "do it", (1, 1, 0, 1)),
    Sent(NOW, 1, 2, 3, 4),
    Sent(NOW, 1, 2, 3, 4, (1, 1, 0, 1)),
    TimePassed(NOW),
    Paused(NOW, ANN),
    Cancelled(NOW, ANN),
    Aborted(NOW, "a fault of the program"),
)


def steps(count: int, first: int = 0) -> tuple[Entry, ...]:
    """`count` entries, all different."""
    return tuple(TimePassed(NOW + first + index) for index in range(count))


def interrupt(name: str) -> Interrupt:
    """An interrupt with every field set."""
    answer = Vote("approve", ANN, NOW, GIVEN)
    call: dict[str, JSON] = {"tool": "core.http", "args": GIVEN}
    return Interrupt(
        name, 3, "ask", 1, "may I?", NOW, NOW + 5, ("a@x.org",), (READERS,), 2, False, GIVEN, call, (answer,)
    )


def reader(user_id: str, *groups: str, org: str = ORG) -> Principal:
    return Principal(org, user_id, None, frozenset(groups), frozenset(), Role.MEMBER)


async def begin(
    journal: Journal,
    run_id: str = "r-1",
    *,
    org: str = ORG,
    entries: tuple[Entry, ...] = steps(1),
    status: RunStatus = RunStatus.running,
    at: int = NOW,
    resource_id: int | None = 1,
    user_id: str = "ann",
    **fields: Any,
) -> ExecutionRef:
    """An execution of a workflow with one run."""
    new = NewExecution(org, "workflow", resource_id, "v-1", user_id, "t-1")
    run = NewRun(run_id, user_id, f"f-{run_id}".encode(), status, at)
    return (await journal.begin(new, Append(0, entries, new_run=run, **fields))).ref


async def due(journal: Journal, run_id: str, wake_at: int, workflow: int = 1) -> ExecutionRef:
    """An execution that is due and has no claim."""
    return await begin(journal, run_id, status=RunStatus.queued, wake_at=wake_at, resource_id=workflow)


async def outcomes(*writes: Any) -> list[type]:
    """Run the calls concurrently; the type of each result or exception."""
    return [type(outcome) for outcome in await asyncio.gather(*writes, return_exceptions=True)]


async def find(journal: Journal, run_id: str) -> RunRow:
    """The existing run of `ORG`."""
    row = await journal.find_run(ORG, run_id)
    assert row
    return row


async def names(journal: Journal, principal: Principal | None = None, **filters: Any) -> set[str]:
    """The ids of all runs of `ORG` that match the filters and that the principal sees."""
    return {row.id for row in await journal.list_runs(ORG, limit=99, where=RunFilter(**filters), principal=principal)}
