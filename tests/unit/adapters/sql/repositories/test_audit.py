"""A page of the audit is a backward scan of an index, with every filter."""

from datetime import datetime
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import sqlite

from wfcore.adapters.sql.repositories.audit import SqlAudit
from wfcore.adapters.sql.sqlite.database import Database
from wfcore.adapters.sql.storage import SqlStorage
from wfcore.ports.repositories.audit import AuditFilter
from wfcore.testing.contracts.storage.values import at

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("wanted", "index"),
    [
        (AuditFilter(), "audit_at"),
        (AuditFilter(since=at(1), until=at(2)), "audit_at"),
        (AuditFilter(user_id="u1"), "audit_user"),
        (AuditFilter(user_id="u1", since=at(1)), "audit_user"),
        (AuditFilter(user_id="u1", since=at(1), until=at(3)), "audit_user"),
        (AuditFilter(action="workflow.deploy", until=at(2)), "audit_action"),
    ],
)
@pytest.mark.parametrize("before", [None, (at(2), 7)])
async def test_a_page_uses_one_index(
    tmp_path: Path, wanted: AuditFilter, index: str, before: tuple[datetime, int] | None
) -> None:
    """One search of one index, starting at the last row of the previous page."""
    database = Database(f"sqlite:///{tmp_path}/a.db", synchronous="NORMAL")
    await database.open()
    store = SqlStorage(database)
    await store.upgrade()
    async with database.reading() as connection:
        page = SqlAudit(connection, 1).page_statement(wanted, limit=5, before=before)
        text = page.compile(dialect=sqlite.dialect(), compile_kwargs={"literal_binds": True})
        (step,) = [row.detail for row in await connection.execute(sa.text(f"EXPLAIN QUERY PLAN {text}"))]
    await store.close()
    assert step.startswith(f"SEARCH wfcore_audit USING INDEX wfcore_{index} (org=?")
    assert "at<?" in step or "at>?" in step or "(at,key)<" in step
