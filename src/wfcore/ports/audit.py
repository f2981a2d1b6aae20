"""The audit of an organization: who did what to what, when and from where.

A row is written in the same transaction as the change it tells of, and never changed. Decisions on runs are entries
of the journal; the store that keeps these writes their rows, as `decided` reads them from the entries.
"""

from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from datetime import datetime
from typing import Final, Protocol

import attrs

from wfcore.domain.json.codec import from_ms
from wfcore.domain.kernel.json_type import JSON
from wfcore.domain.run.entries import Actor, Cancelled, Entry, Paused, Resumed


@attrs.frozen
class Origin:
    """From where a call came. One through the library itself, inside the embedding program, says nothing of it."""

    request_id: str | None = None
    remote_address: str | None = None


ORIGIN: Final[ContextVar[Origin]] = ContextVar("wfcore_origin", default=Origin())  # noqa: B039  (it is frozen)
"""The origin of the call under way: a door to the outside sets it around each request."""


@attrs.frozen
class AuditRow:
    """One thing that was done. `user_id` is None for the operator, who acts without a principal.

    `action` is `<kind>.<verb>`; kind and id name what it was done to. `key` counts the rows of a store.
    """

    at: datetime
    user_id: str | None
    action: str
    kind: str
    resource_id: str
    details: Mapping[str, JSON] = attrs.field(factory=dict)
    origin: Origin = attrs.field(factory=ORIGIN.get)
    key: int = 0


@attrs.frozen
class AuditFilter:
    """Which rows are wanted: all that are None are no matter. `since` is included, `until` is not."""

    user_id: str | None = None
    action: str | None = None
    since: datetime | None = None
    until: datetime | None = None


class AuditRepository(Protocol):
    """The rows of one organization."""

    async def add(self, row: AuditRow) -> None:
        """Its `key` is the store's to give."""
        ...

    async def page(
        self, wanted: AuditFilter, *, limit: int, before: tuple[datetime, int] | None = None
    ) -> list[AuditRow]:
        """Newest first, by time and key; those behind the row of this time and key."""
        ...


_DECISIONS: Final = (Resumed, Cancelled, Paused)


def decided(entries: Iterable[Entry]) -> list[AuditRow]:
    """What people decided on a turn, whose id is left to be filled in. What the system does is nobody's decision."""
    return [row for entry in entries if isinstance(entry, _DECISIONS) and (row := _decision(entry))]


def _decision(entry: Entry) -> AuditRow | None:
    match entry:
        case Resumed(by=Actor() as by):
            answers = [{"interruptId": one.interrupt_id, "decision": one.decision} for one in entry.decisions]
            details = {"resumedBy": entry.run_id, "decisions": answers}
            return AuditRow(from_ms(entry.at), by.user_id, "run.resume", "run", "", details)
        case Cancelled(by=by):
            return AuditRow(from_ms(entry.at), by.user_id, "run.cancel", "run", "")
        case Paused(by=by):
            return AuditRow(from_ms(entry.at), by.user_id, "run.interrupt", "run", "")
    return None
