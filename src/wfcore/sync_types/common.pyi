# Written by tests/typing/write_sync_types.py

from datetime import datetime
from typing import Generic

from wfcore.domain.resources.access import Principal
from wfcore.runtime.common.audit import AuditView
from wfcore.runtime.common.organization_records import Record

class SyncAuditTrail:
    """Reads the audit, which requires the role admin or owner."""

    def page(
        self,
        me: Principal,
        *,
        limit: int = 25,
        before: tuple[datetime, int] | None = None,
        user: str | None = None,
        action: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> list[AuditView]:
        """Newest first. `action` is `<kind>.<verb>`, `until` is exclusive, `before` is the `position` of a row."""

class SyncRecordServiceBase(Generic[Record]):
    """The base class. A subclass defines the repository of its records, their audit details and their view."""

    def page(self, me: Principal, *, limit: int = 25, after: str = "") -> list[Record]:
        """By id, which is the order of creation, ids greater than `after`."""

    def get(self, me: Principal, id: str) -> Record:
        """One record. NotFound for an unknown id."""

    def delete(self, me: Principal, id: str, *, if_match: str | None = None) -> Record:
        """Delete the record permanently. Returns it as it was. An outdated ETag `if_match` is a Conflict."""
