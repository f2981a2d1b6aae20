"""The audit of an organization: which user did what to which object, when and from where.

A row is written in the same transaction as the change that it records, and never changes. Decisions on runs are entries
of the journal; their rows are written by the append (`Append.audit`).
"""

from collections.abc import Mapping
from contextvars import ContextVar
from datetime import datetime
from typing import Final, Protocol

import attrs
from msgspec import Struct, field

from wfcore.domain.kernel.json_type import JSON


@attrs.frozen
class Origin:
    """Where a call came from. Both fields are None for a call of the library by the embedding program."""

    request_id: str | None = None
    remote_address: str | None = None


ORIGIN: Final[ContextVar[Origin]] = ContextVar("wfcore_origin", default=Origin())  # noqa: B039  (it is frozen)
"""The origin of the current call. The HTTP adapter sets it for each request."""


class AuditRow(Struct, frozen=True, gc=False):
    """One recorded action. `user_id` is None for the operator and for the system, which act without a principal.

    `action` is `<kind>.<verb>`; `kind` and `resource_id` name its object. `key` numbers the rows of a store.
    """

    at: datetime
    user_id: str | None
    action: str
    kind: str
    resource_id: str
    details: Mapping[str, JSON] = field(default_factory=dict)
    origin: Origin = field(default_factory=ORIGIN.get)
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
