"""The table of legal moves (interface, States and transitions)."""

import pytest

from wfcore.domain.kernel.errors import Conflict
from wfcore.domain.resources import lifecycle
from wfcore.domain.resources.lifecycle import TABLE, IllegalMove, Operation, Status, move

INTERFACE = [
    (Status.DRAFT, Operation.DEPLOY, False, Status.ACTIVE),
    (Status.DRAFT, Operation.DELETE, False, Status.DELETED),
    (Status.ACTIVE, Operation.DELETE, True, Status.DELETED),
    (Status.ACTIVE, Operation.RESTORE, True, Status.ACTIVE),
    (Status.DELETED, Operation.RESTORE, True, Status.ACTIVE),
    (Status.DELETED, Operation.RESTORE, False, Status.DRAFT),
    (Status.DELETED, Operation.DELETE, True, Status.DELETED),
]

DIAGRAM = """\
| Operation | `draft` | `active` | `deleted` |
| --- | --- | --- | --- |
| `edit` | `draft` | `active` | 409 |
| `deploy` | `active` | `active` | 409 |
| `discard_draft` | 409 | `active` | 409 |
| `rollback` | 409 | `active` | 409 |
| `toggle` | 409 | `active` | 409 |
| `run` | 409 | `active` | 409 |
| `run_draft` | `draft` | `active` | 409 |
| `delete` | `deleted` | `deleted` | `deleted` |
| `restore` | `draft` | `active` | `draft` if never deployed, `active` if ever deployed |
"""


@pytest.mark.parametrize(("status", "operation", "deployed", "reached"), INTERFACE)
def test_interface(status: Status, operation: Operation, deployed: bool, reached: Status) -> None:
    """Every row of the interface's state table is a move."""
    assert move(status, operation, deployed=deployed) is reached


def test_a_resource_counts_as_never_deployed_unless_said_otherwise() -> None:
    """A restored resource is then a draft."""
    assert move(Status.DELETED, Operation.RESTORE) is Status.DRAFT


def test_total() -> None:
    """Each status has a row, and each operation is legal in some status."""
    assert set(TABLE) == set(Status) == set(lifecycle.REASONS) == set(lifecycle.DEPLOYED)
    assert {operation for row in TABLE.values() for operation in row} == set(Operation)


@pytest.mark.parametrize(
    ("status", "operation"),
    [(status, operation) for status in Status for operation in Operation if operation not in TABLE[status]],
)
def test_illegal(status: Status, operation: Operation) -> None:
    """A move that is not in the table is a 409 with the state, the operation and the legal operations."""
    with pytest.raises(IllegalMove) as caught:
        move(status, operation)
    assert isinstance(caught.value, Conflict)
    assert caught.value.message.endswith(f" in state `{status}`: {lifecycle.REMEDIES[status]}")
    info = caught.value.info
    assert (info["state"], info["operation"]) == (status, operation)
    assert info["reason"] == {"draft": "not_deployed", "deleted": "deleted"}[status]
    assert [move(status, Operation(legal)) for legal in info["legal"]]
    assert operation not in info["legal"]


def test_words() -> None:
    """The message names the operation in words, not by its name in the table, and says what helps."""
    with pytest.raises(IllegalMove, match=r"^it cannot run its draft in state `deleted`: restore it first$"):
        move(Status.DELETED, Operation.RUN_DRAFT)
    with pytest.raises(IllegalMove, match=r"^it cannot switch its schedule in state `draft`: deploy it first$"):
        move(Status.DRAFT, Operation.TOGGLE)


@pytest.mark.parametrize("status", Status)
def test_closed(status: Status) -> None:
    """After every move, the status agrees with whether the resource was ever deployed."""
    for deployed in lifecycle.DEPLOYED[status]:
        for operation in TABLE[status]:
            after = deployed or operation is Operation.DEPLOY
            assert after in lifecycle.DEPLOYED[move(status, operation, deployed=deployed)]


def test_diagram() -> None:
    """The Markdown table is generated from the tables."""
    assert lifecycle.diagram() == DIAGRAM
