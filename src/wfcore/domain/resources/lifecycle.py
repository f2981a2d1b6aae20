"""The life of a workflow or scope, as two tables.

`TABLE` holds every legal move: status, operation, next status. What is not in it is refused, by `move` and
nowhere else; no other module compares a status to decide what is allowed. A row may lead back to where it
starts: the operation is legal and the status stays. Three of these are there only so that a repeated call is
harmless: deleting what is deleted, and restoring what is live.

`FOLLOWS` holds what depends on more than the status. A live resource that was ever deployed is active,
whatever road brought it there. So a restore leads to draft, and on to active when there was a deploy.

What is knowingly not here:

- Reads. What is deleted can still be read by those who manage it.
- Who may. `access` decides that first: a caller who may not see a resource never learns its status.
- The schedule's switch (`isEnabled`), the pending draft and the ownership transfer. They are data of a
  resource, not its status; `resources` keeps their rules. Every write without a row of its own (a new name,
  other access, an interface, a transfer, a webhook's secret) is an `edit`.
- Purging. A deleted resource stays, and its id is never given again.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from wfcore.domain.kernel.errors import Conflict


class Status(StrEnum):
    """Lifecycle status (interface, States and transitions): never deployed, deployed, soft-deleted."""

    DRAFT = "draft"
    ACTIVE = "active"
    DELETED = "deleted"


class Operation(StrEnum):
    """What a caller asks for. `run` starts the published variation, `run_draft` tries the pending draft."""

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
"""Status reached and whether the resource was ever deployed: the status it follows on to."""

DEPLOYED: Final[Mapping[Status, tuple[bool, ...]]] = {
    Status.DRAFT: (False,),
    Status.ACTIVE: (True,),
    Status.DELETED: (False, True),
}
"""Status: what "was ever deployed" can be there."""

REASONS: Final[Mapping[Status, str]] = {
    Status.DRAFT: "not_deployed",
    Status.ACTIVE: "active",
    Status.DELETED: "deleted",
}


class IllegalMove(Conflict):
    """The status forbids the operation; `info` has `reason`, `state`, `operation` and the `legal` ones."""

    def __init__(self, status: Status, operation: Operation) -> None:
        super().__init__(
            f"`{operation}` is not possible in state `{status}`",
            {
                "reason": REASONS[status],
                "state": status.value,
                "operation": operation.value,
                "legal": [legal.value for legal in TABLE[status]],
            },
        )


def move(status: Status, operation: Operation, *, deployed: bool = False) -> Status:
    """The status after `operation`; `deployed` tells whether the resource ever was. Raises IllegalMove."""
    try:
        reached = TABLE[status][operation]
    except KeyError:
        raise IllegalMove(status, operation) from None
    return FOLLOWS.get((reached, deployed), reached)


def diagram() -> str:
    """The tables in Markdown: a line for each operation, a column for each status, 409 where illegal."""
    head = ["Operation", *(f"`{status}`" for status in Status)]
    rows = [[f"`{operation}`", *(_cell(status, operation) for status in Status)] for operation in Operation]
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows]) + "\n"


def _cell(status: Status, operation: Operation) -> str:
    if operation not in TABLE[status]:
        return "409"
    roads = {move(status, operation, deployed=deployed): deployed for deployed in DEPLOYED[status]}
    if len(roads) == 1:
        return f"`{next(iter(roads))}`"
    return ", ".join(f"`{to}` if {'ever' if ever else 'never'} deployed" for to, ever in roads.items())
