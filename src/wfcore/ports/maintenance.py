"""The rows of an organization as a whole: which are too old, which belong to a person, and the deletion of all.

All times are epoch milliseconds. What these calls delete is not audited by the store.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Final, Literal, Protocol, get_args

import attrs

from wfcore.domain.people.erasure import Substitution
from wfcore.domain.resources.resource import Kind
from wfcore.ports.changes import FeedChange
from wfcore.ports.repositories.conversations import Conversation

Expiring = Literal["runs", "conversations", "audit", "deleted"]
"""What can be too old.

- `runs`: executions that ended before a time, with everything of theirs but usage and messages; deliveries of events,
  and the ids of deleted runs, which can then be used again.
- `conversations`: those whose latest message is older, unless an execution of theirs has not ended.
- `audit`: rows of the audit.
- `deleted`: workflows and skills that were deleted before, with their variations, memories and ended executions. One
  stays while an execution of its own can still continue, or one of another workflow has called it.
"""

EXPIRING: Final[Sequence[Expiring]] = get_args(Expiring)

NOTHING: Final[Mapping[Expiring, int]] = {}


@attrs.frozen
class Pruned:
    """How many things were deleted; `changes` are of the runs, interrupts, workflows and skills among them."""

    count: int
    changes: Sequence[FeedChange] = ()


@attrs.frozen
class PersonalExecution:
    """An execution in which a user took part. `is_own`: the user started it, or it is a fork of such a one."""

    id: int
    is_own: bool


@attrs.frozen
class Sizes:
    """Numbers of rows; of a user, the rows are those that an export of the user contains."""

    executions: int
    runs: int
    messages: int
    audit: int


@attrs.frozen
class Rewriting:
    """What `Maintenance.rewrite` could not change, and what is kept of its changes elsewhere.

    `held` is the number of journals that would change, but a worker holds them. `has_other_content`: texts in the
    content of variations were replaced, and other processes can have read them before.
    """

    held: int = 0
    has_other_content: bool = False


class Maintenance(Protocol):
    """Implementers: each call is one transaction, which other writers can precede and follow. One that deletes many
    rows can be several, so that other writers do not wait for it; a later call continues one that was interrupted.
    """

    async def count(self, org: str, kind: Expiring, before: int, without: Mapping[Expiring, int] = NOTHING) -> int:
        """How many there are that `prune` would delete until none is left.

        `without` are the kinds, and the times, of which `prune` has deleted what is old before.
        """
        ...

    async def prune(self, org: str, kind: Expiring, before: int, *, limit: int) -> Pruned:
        """Delete those that became old before this time, at most `limit`; fewer when none is left.

        A deleted number is not used again.
        """
        ...

    def texts(self, org: str, without: Mapping[Expiring, int] = NOTHING) -> AsyncIterator[Sequence[str]]:
        """Every text of the organization's rows but those of erasures, in batches.

        `without` leaves out what `prune` would delete of these kinds before these times, as far as it holds content:
        executions, messages, audit rows, deliveries, variations. Rows that are written meanwhile can be missing.
        """
        ...

    async def remove_organization(self, org: str) -> bool:
        """Delete the organization and every row of it; False when there is none. The organization itself comes last."""
        ...

    async def sizes(self, org: str | None = None, user_id: str | None = None) -> Sizes:
        """How many rows there are in an organization, or with None in all of them; with `user_id`, those of a user."""
        ...

    # The erasure of a person

    async def erasures(self) -> Sequence[tuple[str, str]]:
        """The organizations and ids of the erasures that are not over."""
        ...

    async def executions_of(self, org: str, user_id: str) -> Sequence[PersonalExecution]:
        """The executions with a turn of this user, by number."""
        ...

    async def remove_execution(self, org: str, id: int) -> Sequence[FeedChange]:
        """Delete an execution with all of its rows, whatever its state; a worker that holds it loses its claim.

        Returns the changes: its runs and its open interrupts are deleted.
        """
        ...

    async def remove_resource(self, org: str, kind: Kind, id: int) -> Sequence[FeedChange]:
        """Delete a workflow or skill with all of its rows and executions, whatever their state.

        Returns the changes, with those of the executions.
        """
        ...

    async def forget_user(self, org: str, user_id: str) -> None:
        """Delete the user's conversations, stored responses, tokens and credentials of connections."""
        ...

    async def numbers(self, org: str, kind: Kind) -> Sequence[int]:
        """The numbers of all workflows or skills, ascending, deleted ones included."""
        ...

    async def conversations(
        self, org: str, user_id: str | None, *, limit: int, after: Conversation | None = None
    ) -> Sequence[Conversation]:
        """The conversations of a user, or with None of all users, after one of them, by thread and user.

        The cost of a page does not depend on how many there are.
        """
        ...

    async def rewrite(self, org: str, change: Substitution, on_read: Callable[[], None] = lambda: None) -> Rewriting:
        """Replace texts in all rows of the organization but members, groups, memories and erasures, in batches.

        A workflow or skill with other texts, those of its variations included, has a higher revision. Journals
        that a worker holds stay unchanged. `on_read` is called for each journal of the organization.
        """
        ...

    async def rewrite_execution(self, org: str, id: int, change: Substitution, length: int) -> bool:
        """Replace texts in the rows of one execution and in the fields of its entries.

        False, with nothing changed, when a worker holds it or its journal has another length.
        """
        ...

    async def scrub(self) -> None:
        """Rewrite the files of the store, so that no deleted content is left in them.

        Raises Unavailable when other transactions do not end in time.
        """
        ...
