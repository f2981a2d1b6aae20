"""Tables of legal moves, the function that looks a move up, and the small values that a run shows of its state.

A table is plain data: state, event, next state. States and events are `StrEnum`s, whose lookup costs little. An end
state has an empty row, so that a table lists every state. The tables are at the top of the modules that apply them, in
`machine`: `turns` (the run), `nodes`, `interrupts`, `attempts` (effects), `rounds` (agents); `machine/tables.py` lists
them, and docs/explanation/machine.md shows them.

Not in the tables, on purpose: *when* a node becomes ready (that is the join rule, in `flow`), how many attempts an
effect has (a number in the effect), who may decide an interrupt (`deciders.may_decide`).
"""

import hashlib
from collections.abc import Mapping
from enum import StrEnum
from typing import Literal, TypeVar

from msgspec import Struct

from wfcore.domain.json.codec import dumps
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.entries import Actor

State = TypeVar("State", bound=StrEnum)
Operation = TypeVar("Operation", bound=StrEnum)

Table = Mapping[State, Mapping[Operation, State]]
"""State -> event -> next state."""


class IllegalEntry(Exception):
    """This entry cannot happen in this state. Nothing has moved. `reason` is a word that a client can act on."""

    def __init__(self, message: str, reason: str = "illegal", **info: JSON) -> None:
        super().__init__(message)
        self.reason = reason
        self.info: dict[str, JSON] = {"reason": reason, **info}


class IllegalRunMove(IllegalEntry):
    """A table has no row for this event in this state; `legal` are the events that it has one for."""

    def __init__(self, state: StrEnum, operation: StrEnum, legal: tuple[str, ...], reason: str) -> None:
        possible = "possible: " + ", ".join(f"`{name}`" for name in legal) if legal else "it is an end state"
        super().__init__(f"`{operation}` is not possible in state `{state}`: {possible}", reason)
        self.state, self.operation, self.legal = state, operation, legal


class BrokenInvariant(AssertionError):
    """The machine made an illegal move after it had accepted an entry: the error is in the program, not in the entry.
    The machine must be dropped.
    """


def move(table: Table[State, Operation], state: State, operation: Operation, reason: str = "illegal") -> State:
    """The state after `operation`. Raises `IllegalRunMove` with this reason where the table has no such row."""
    try:
        return table[state][operation]
    except KeyError:
        raise IllegalRunMove(state, operation, tuple(table[state]), reason) from None


class RunStatus(StrEnum):
    """The status of a turn (interface, Run states). `machine.turns` has the states behind it."""

    queued = "queued"
    running = "running"
    interrupted = "interrupted"
    done = "done"
    error = "error"
    cancelled = "cancelled"

    @property
    def under_way(self) -> bool:
        return self in (RunStatus.queued, RunStatus.running)


NodeStatus = Literal["pending", "running", "waiting", "done", "error", "skipped", "cancelled"]
"""The status of a node or of one of its visits, as the graph of a run shows it."""

RunStatusName = Literal["queued", "running", "interrupted", "done", "error", "cancelled"]
"""The values of `RunStatus`, for shapes."""

StarterKind = Literal["person", "schedule", "webhook", "child", "teamchat", "mcp", "system", "evaluation"]
"""What started a turn. `system` is a deadline; `evaluation` is a case of a skill's evaluations."""


class Vote(Struct, frozen=True):
    """One person's decision on an interrupt. `at` is in epoch milliseconds; `on_behalf_of` is the user id of who has
    delegated it, or "".
    """

    decision: str
    by: Actor
    at: int
    data: JSON = None
    on_behalf_of: str = ""

    @property
    def people(self) -> frozenset[str]:
        """The user ids whose decision this is: nobody of them decides again."""
        return frozenset((self.by.user_id, self.on_behalf_of or self.by.user_id))


class Interrupt(Struct, frozen=True):
    """A wait for a person. Times are in epoch milliseconds; `call` is the stored call that an approval binds, or what a
    connect or a budget is about.

    `step` is the step of the visit that waits (-1: the whole visit), `tool_call_id` the call of a model. `within` names
    the frame of the node, `path` the nodes from the root to it, `items` for each of them with a `forEach` the item.
    `remind_at` and `escalate_at` are due times, `reminded_at` and `escalated_at` when they have taken effect.
    """

    id: str
    node: int
    node_id: str
    visit: int
    message: str
    opened_at: int
    expires_at: int | None = None
    emails: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    required: int = 1
    allow_self: bool = True
    form_schema: JSON = None
    call: Mapping[str, JSON] | None = None
    answers: tuple[Vote, ...] = ()
    type: str = "approval"
    step: int = -1
    tool_call_id: str = ""
    within: tuple[int, ...] = ()
    path: tuple[str, ...] = ()
    items: tuple[int | None, ...] = ()
    remind_at: int | None = None
    escalate_at: int | None = None
    escalate_emails: tuple[str, ...] = ()
    escalate_groups: tuple[str, ...] = ()
    reminded_at: int | None = None
    escalated_at: int | None = None

    @property
    def moments(self) -> list[int]:
        """When time alone changes the wait: the reminder and the escalation that are still to come, the deadline."""
        remind = self.remind_at if self.reminded_at is None else None
        escalate = self.escalate_at if self.escalated_at is None else None
        return [moment for moment in (remind, escalate, self.expires_at) if moment is not None]

    @property
    def escalated_to(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The e-mails and groups that can decide since the escalation; none before it."""
        return ((), ()) if self.escalated_at is None else (self.escalate_emails, self.escalate_groups)

    @property
    def named(self) -> bool:
        """Whether approvers are named; if not, everybody who can use the workflow is one."""
        return bool(self.emails or self.groups)

    def barred(self, starter: str) -> dict[str, str]:
        """The user ids that cannot decide although they see the wait, each with the reason. `starter` is the user who
        started the run.

        A store may keep them as rows, as it keeps who can see the wait, and leave out what they cannot decide.
        """
        found = {user: "already_decided" for vote in self.answers for user in vote.people}
        return found if self.allow_self else {**found, starter: "self_approval"}


def interrupt_id(root: str, node_id: str, visit: int, *where: JSON) -> str:
    """The id of an interrupt: always the same for the same visit of a node of an execution. `where` distinguishes
    waits in children and of several steps.
    """
    place = f"{root}\n{node_id}\n{visit}" + (f"\n{dumps(list(where))}" if where else "")
    return "int_" + hashlib.sha256(place.encode()).hexdigest()[:24]
