"""The lifecycle of a workflow or skill, as two tables.

`TABLE` holds every legal move: status, operation, next status. Only `move` refuses the other moves; no other module
compares a status to decide what is allowed. A move may lead to the same status: the operation is legal and the
status stays. Three such moves only make repeated calls harmless: deleting a deleted resource, and restoring a live
one.

`FOLLOWS` holds moves that depend on more than the status. A live resource that was ever deployed is active. So a
restore leads to draft, and further to active if there was a deploy.

The tables do not cover:

- Reads. Members who can manage a resource can read it after it was deleted.
- Permissions. `access` decides first: a caller who may not see a resource does not learn its status.
- The switch of the schedule (`isEnabled`), the pending draft and the ownership transfer. They are data of a
  resource, not its status; `resource` has their rules. Every write without an operation of its own (a new name,
  other access, an interface, a transfer, a webhook's secret) is an `edit`.
- Purging. A deleted resource stays in the store, and its id is not reused.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Literal

from wfcore.domain.kernel.errors import Conflict


class Status(StrEnum):
    """Lifecycle status (interface, States and transitions): never deployed, deployed, soft-deleted."""

    DRAFT = "draft"
    ACTIVE = "active"
    DELETED = "deleted"


StatusName = Literal["draft", "active", "deleted"]
"""The values of `Status`, for shapes."""


class Operation(StrEnum):
    """The operation of a caller. `run` starts the published variation, `run_draft` the pending draft."""

    EDIT = "edit"
    DEPLOY = "deploy"
    DISCARD_DRAFT = "discard_draft"
    ROLLBACK = "rollback"
    TOGGLE = "toggle"
    RUN = "run"
    RUN_DRAFT = "run_draft"
    DELETE = "delete"
    RESTORE = "restore"


TABLE: Final[Mapping[Status, Mapping[Operation, Status]]] = {
    Status.DRAFT: {
        Operation.EDIT: Status.DRAFT,
        Operation.DEPLOY: Status.ACTIVE,
        Operation.RUN_DRAFT: Status.DRAFT,
        Operation.DELETE: Status.DELETED,
        Operation.RESTORE: Status.DRAFT,
    },
    Status.ACTIVE: {
        Operation.EDIT: Status.ACTIVE,
        Operation.DEPLOY: Status.ACTIVE,
        Operation.DISCARD_DRAFT: Status.ACTIVE,
        Operation.ROLLBACK: Status.ACTIVE,
        Operation.TOGGLE: Status.ACTIVE,
        Operation.RUN: Status.ACTIVE,
        Operation.RUN_DRAFT: Status.ACTIVE,
        Operation.DELETE: Status.DELETED,
        Operation.RESTORE: Status.ACTIVE,
    },
    Status.DELETED: {
        Operation.DELETE: Status.DELETED,
        Operation.RESTORE: Status.DRAFT,
    },
}

FOLLOWS: Final[Mapping[tuple[Status, bool], Status]] = {
    (Status.DRAFT, True): Status.ACTIVE,
}
"""From the next status and whether the resource was ever deployed to the final status."""

DEPLOYED: Final[Mapping[Status, tuple[bool, ...]]] = {
    Status.DRAFT: (False,),
    Status.ACTIVE: (True,),
    Status.DELETED: (False, True),
}
"""The possible values of "was ever deployed" in each status."""

REASONS: Final[Mapping[Status, str]] = {
    Status.DRAFT: "not_deployed",
    Status.ACTIVE: "active",
    Status.DELETED: "deleted",
}


REMEDIES: Final[Mapping[Status, str]] = {
    Status.DRAFT: "deploy it first",
    Status.DELETED: "restore it first",
}
"""After what the operations that a status forbids are possible. An active resource allows all of them."""

_WORDS: Final[Mapping[Operation, str]] = {
    Operation.EDIT: "be changed",
    Operation.DEPLOY: "be deployed",
    Operation.DISCARD_DRAFT: "discard its draft",
    Operation.ROLLBACK: "return to an earlier variation",
    Operation.TOGGLE: "switch its schedule",
    Operation.RUN: "run",
    Operation.RUN_DRAFT: "run its draft",
    Operation.DELETE: "be deleted",
    Operation.RESTORE: "be restored",
}
"""Operations as messages name them."""


class IllegalMove(Conflict):
    """The status forbids the operation; `info` has `reason`, `state`, `operation` and the `legal` operations."""

    def __init__(self, status: Status, operation: Operation) -> None:
        super().__init__(
            f"it cannot {_WORDS[operation]} in state `{status}`: {REMEDIES[status]}",
            {
                "reason": REASONS[status],
                "state": status.value,
                "operation": operation.value,
                "legal": [legal.value for legal in TABLE[status]],
            },
        )


def move(status: Status, operation: Operation, *, deployed: bool = False) -> Status:
    """The status after `operation`; `deployed`: whether the resource was ever deployed. Raises IllegalMove."""
    try:
        reached = TABLE[status][operation]
    except KeyError:
        raise IllegalMove(status, operation) from None
    return FOLLOWS.get((reached, deployed), reached)


def diagram() -> str:
    """The tables in Markdown: a row for each operation, a column for each status, 409 for illegal moves."""
    head = ["Operation", *(f"`{status}`" for status in Status)]
    rows = [[f"`{operation}`", *(_cell(status, operation) for status in Status)] for operation in Operation]
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows]) + "\n"


def _cell(status: Status, operation: Operation) -> str:
    if operation not in TABLE[status]:
        return "409"
    reached = {move(status, operation, deployed=deployed): deployed for deployed in DEPLOYED[status]}
    if len(reached) == 1:
        return f"`{next(iter(reached))}`"
    return ", ".join(f"`{to}` if {'ever' if ever else 'never'} deployed" for to, ever in reached.items())
