"""The audit of an organization: which user did what to which object, when and from where.

A row is written in the same transaction as the change that it records, and never changes. Decisions on runs are entries
of the journal; the journal's store writes their rows, which `decision_rows` derives from the entries.
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
    """Where a call came from. Both fields are None for a call of the library by the embedding program."""

    request_id: str | None = None
    remote_address: str | None = None


ORIGIN: Final[ContextVar[Origin]] = ContextVar("wfcore_origin", default=Origin())  # noqa: B039  (it is frozen)
"""The origin of the current call. The HTTP adapter sets it for each request."""


@attrs.frozen
class AuditRow:
    """One recorded action. `user_id` is None for the operator, who acts without a principal.

    `action` is `<kind>.<verb>`; `kind` and `resource_id` name its object. `key` numbers the rows of a store.
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
    """Selects rows; a field that is None does not filter. `since` is included, `until` is not."""

    user_id: str | None = None
    action: str | None = None
    since: datetime | None = None
    until: datetime | None = None


class AuditRepository(Protocol):
    """The rows of one organization."""

    async def add(self, row: AuditRow) -> None:
        """Write the row. The store assigns its `key`."""
        ...

    async def page(
        self, wanted: AuditFilter, *, limit: int, before: tuple[datetime, int] | None = None
    ) -> list[AuditRow]:
        """Newest first, by time and key; only rows older than the row with the time and key `before`."""
        ...


_DECISIONS: Final = (Resumed, Cancelled, Paused)


def decision_rows(entries: Iterable[Entry]) -> list[AuditRow]:
    """The audit rows of what users decided in these entries; the caller fills in `resource_id`, the run's id."""
    return [row for entry in entries if isinstance(entry, _DECISIONS) and (row := _decision(entry))]


def _decision(entry: Entry) -> AuditRow | None:
    match entry:
        case Resumed(by=Actor() as by):
            decisions = [{"interruptId": one.interrupt_id, "decision": one.decision} for one in entry.decisions]
            details = {"resumedBy": entry.run_id, "decisions": decisions}
            return AuditRow(from_ms(entry.at), by.user_id, "run.resume", "run", "", details)
        case Cancelled(by=by):
            return AuditRow(from_ms(entry.at), by.user_id, "run.cancel", "run", "")
        case Paused(by=by):
            return AuditRow(from_ms(entry.at), by.user_id, "run.interrupt", "run", "")
    return None
