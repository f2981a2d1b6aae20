"""Concurrent operations of two processes are linearizable: `make crash HISTORIES=60` records longer histories."""

from pathlib import Path
from typing import Any

import pytest
from fork_server import ForkServer
from histories import Histories
from linearizability import FlowState, Operation, RunState, fault_of, flow_onward, flow_step, run_onward, run_step
from stores import Store

Line = tuple[str, Any, float, float | None, Any]

OK = ["ok", None]
REFUSED = ["refused", "already_resumed"]


@pytest.mark.xdist_group("crash")
@pytest.mark.parametrize("kills", [False, True])
def test_a_short_history(
    tmp_path: Path, store: Store, fork_servers: tuple[ForkServer, ForkServer], kills: bool
) -> None:
    """Starts, decisions, cancels and reads of the same runs; edits, deploys and starts of the same workflows."""
    assert Histories(tmp_path, store, [*fork_servers], 1.5, kills=kills).run() == 0


def history(*lines: Line) -> list[Operation]:
    return [Operation("key", name, argument, begin, end, result) for name, argument, begin, end, result in lines]


def read(begin: float, status: str, *, resumed: bool = False) -> Line:
    return ("read", None, begin, begin + 0.5, ["ok", [status, resumed]])


EDITED: Line = ("edit", [2, None], 0, 1, ["ok", "e2"])
START: Line = ("start", None, 0, 1, OK)
RESUMED = read(6, "interrupted", resumed=True)


@pytest.mark.parametrize(
    ("lines", "is_valid"),
    [
        ([START, read(2, "queued"), read(3, "running"), read(4, "interrupted")], True),
        ([START, read(2, "interrupted"), read(3, "running")], False),
        ([START, ("read", None, 2, 3, ["missing", None])], False),
        ([("read", None, 0, 2, ["missing", None]), START], True),
        (
            [START, ("resume", "a", 2, 5, OK), ("resume", "b", 3, 4, REFUSED), read(6, "interrupted", resumed=True)],
            True,
        ),
        ([START, ("resume", "a", 2, 5, OK), ("resume", "b", 3, 4, OK)], False),
        ([START, ("resume", "a", 2, 5, OK), ("resume", "a", 6, 7, OK)], True),
        ([START, ("resume", "a", 2, 3, OK), read(4, "interrupted")], False),
        ([START, ("resume", "a", 2, 3, OK), ("cancel", None, 4, 5, OK)], False),
        ([START, ("cancel", None, 2, 3, OK), ("resume", "a", 4, 5, OK)], False),
        ([START, ("cancel", None, 2, 3, OK), read(4, "interrupted")], False),
        ([START, ("cancel", None, 2, 3, OK), read(4, "running"), read(5, "cancelled")], True),
        ([START, ("cancel", None, 2, 3, OK), read(4, "cancelled"), read(5, "running")], False),
        ([START, ("cancel", None, 2, None, None), read(4, "interrupted"), read(5, "cancelled")], True),
        ([START, ("resume", "a", 2, None, None), read(4, "interrupted"), ("resume", "b", 6, 7, OK)], True),
        ([START, ("resume", "a", 2, None, None), read(1.1, "interrupted", resumed=True)], False),
        ([START, read(2, "interrupted"), ("resume", "a", 3, 4, REFUSED)], False),
    ],
)
def test_runs(lines: list[Line], is_valid: bool) -> None:
    """Of a run: one decision counts, and what was seen once stays so."""
    assert (fault_of(history(*lines), RunState(), run_step, run_onward) == []) is is_valid


def edit(begin: float, end: float | None, number: int, seen: str | None, result: Any) -> Line:
    return ("edit", [number, seen], begin, end, result)


@pytest.mark.parametrize(
    ("lines", "is_valid"),
    [
        ([EDITED, ("start", [], 2, 3, ["ok", 1])], True),
        (
            [EDITED, ("deploy", [], 2, 3, ["ok", "e3"]), ("start", [], 4, 5, ["ok", 1])],
            False,
        ),
        ([EDITED, ("deploy", [], 2, 5, ["ok", "e3"]), ("start", [], 3, 4, ["ok", 1])], True),
        ([edit(0, 1, 2, "e1", ["ok", "e2"]), edit(0, 1, 3, "e1", ["stale", "stale"])], True),
        ([edit(0, 1, 2, "e1", ["ok", "e2"]), edit(0, 1, 3, "e1", ["ok", "e3"])], False),
        ([edit(0, 1, 2, "e1", ["stale", "stale"])], False),
        ([edit(0, None, 2, "e1", None), ("read", [], 2, 3, ["ok", [2, 1, "e2"]])], True),
        ([edit(0, None, 2, "e1", None), ("read", [], 2, 3, ["ok", [2, 2, "e2"]])], False),
        ([("deploy", [], 0, None, None), edit(1, 2, 2, None, ["ok", "e2"]), ("start", [], 3, 4, ["ok", 2])], True),
        ([EDITED, ("read", [], 2, 3, ["ok", [1, 1, "e1"]])], False),
        ([edit(0, 1, 2, None, ["refused", "busy"])], False),
    ],
)
def test_workflows(lines: list[Line], is_valid: bool) -> None:
    """Of a workflow: no edit is lost, an outdated ETag is refused, and a run has the variation that was deployed."""
    assert (fault_of(history(*lines), FlowState(1, 1, "e1"), flow_step, flow_onward) == []) is is_valid
