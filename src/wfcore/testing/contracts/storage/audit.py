"""The audit part of the storage contract."""

from datetime import timedelta
from itertools import product

import pytest
from msgspec import structs

from wfcore.ports.repositories.audit import ORIGIN, AuditFilter, AuditRow, Origin
from wfcore.ports.storage import Storage
from wfcore.testing.contracts.storage.values import ORG, OTHER_ORG, at

_ROWS = [
    AuditRow(at(day), user, action, "workflow", str(day), {"z": [1, None], "a": "\u00fc"}, Origin("r", "127.0.0.1"))
    for day, (user, action) in enumerate(product(("u1", None, "u2"), ("workflow.create", "workflow.deploy")))
]
EVERYTHING = AuditFilter()


class AuditContract:
    """Inherit `StorageContract`, not this class."""

    async def test_the_audit_is_read_newest_first(self, store: Storage) -> None:
        """By time and key, descending, each row as written; the store assigns the key."""
        rows = [*_ROWS, structs.replace(_ROWS[-1], resource_id="the same moment")]
        async with store.transaction(ORG) as work:
            for row in rows:
                await work.audit.add(row)
        async with store.reading(ORG) as work:
            found = await work.audit.page(EVERYTHING, limit=99)
        assert [structs.replace(row, key=0) for row in found] == rows[::-1]
        assert len({row.key for row in found}) == len(rows)

    async def test_pages_of_the_audit_are_complete(self, store: Storage) -> None:
        """`before` is the time and key of a row: the page begins after it, also among rows with equal times."""
        async with store.transaction(ORG) as work:
            for row in (*_ROWS, *_ROWS):
                await work.audit.add(row)
            whole = await work.audit.page(EVERYTHING, limit=99)
            paged: list[AuditRow] = []
            while page := await work.audit.page(
                EVERYTHING, limit=5, before=(paged[-1].at, paged[-1].key) if paged else None
            ):
                paged += page
        assert paged == whole

    @pytest.mark.parametrize("user", [None, "u1", "nobody"])
    @pytest.mark.parametrize("action", [None, "workflow.deploy", "workflow"])
    @pytest.mark.parametrize(("first", "last"), [(None, None), (1, None), (None, 4), (1, 4), (4, 1)])
    async def test_the_audit_is_filtered(
        self, store: Storage, user: str | None, action: str | None, first: int | None, last: int | None
    ) -> None:
        """Filters combine; `since` is included, `until` is not."""
        async with store.transaction(ORG) as work:
            for row in _ROWS:
                await work.audit.add(row)
            since, until = (None if day is None else at(day) for day in (first, last))
            found = await work.audit.page(AuditFilter(user, action, since, until), limit=99)
        days = [
            day
            for day, row in enumerate(_ROWS)
            if user in (None, row.user_id) and action in (None, row.action) and (first or 0) <= day < (last or 99)
        ]
        assert [row.resource_id for row in found] == [str(day) for day in reversed(days)]

    async def test_the_audit_is_of_the_transaction_and_of_one_organization(self, store: Storage) -> None:
        """A transaction with an exception writes no row; another organization sees none."""
        with pytest.raises(KeyError):
            async with store.transaction(ORG) as work:
                await work.audit.add(_ROWS[0])
                raise KeyError
        async with store.transaction(OTHER_ORG) as work:
            await work.audit.add(_ROWS[1])
        async with store.reading(ORG) as work:
            assert await work.audit.page(EVERYTHING, limit=9) == []

    async def test_a_row_has_the_origin_of_its_call(self, store: Storage) -> None:
        """The origin of the current call is stored."""
        outside = ORIGIN.set(Origin("request-7", "::1"))
        row = AuditRow(at(0) + timedelta(milliseconds=1), "u1", "member.create", "member", "u2")
        ORIGIN.reset(outside)
        async with store.transaction(ORG) as work:
            await work.audit.add(row)
            await work.audit.add(AuditRow(at(0), "u1", "member.create", "member", "u2"))
            found = await work.audit.page(EVERYTHING, limit=9)
        assert [row.origin for row in found] == [Origin("request-7", "::1"), Origin()]
